//! The short-term model: what the path delivers while others cause losses (BBR draft, section 5.5.10.3).
//!
//! It bounds rate and flight below the long-term model until the next search for more bandwidth, and falls once per
//! round with losses, to what was delivered in that round but by no more than 30 %.

use super::amount;

/// What is left of a bound at most after a round with losses, in percent.
pub(super) const BETA: u64 = 70;

/// The losses of a round.
#[derive(Clone, Copy, Debug)]
struct Losses {
    /// Bytes delivered before the first of them.
    since: u64,
    bytes: u64,
}

impl Losses {
    /// Whether they are more than this share of the round in percent, now that `delivered` bytes were delivered in all.
    fn exceed(&self, percent: u64, delivered: u64) -> bool {
        let round = u128::from(delivered.saturating_sub(self.since)) + u128::from(self.bytes);
        u128::from(self.bytes) * 100 > round * u128::from(percent)
    }
}

/// The bounds, and the signals of the current round.
#[derive(Clone, Copy, Debug)]
pub(super) struct ShortTerm {
    /// Bytes per second; `u64::MAX` if there is no bound.
    pub(super) bw: u64,
    /// Bytes in flight; `u64::MAX` if there is no bound.
    pub(super) inflight: u64,
    /// The maximum rate and amount of the samples of this round.
    bw_latest: u64,
    inflight_latest: u64,
    /// The round ends when a packet is acknowledged that was sent after so much had been delivered.
    ends_at: u64,
    /// The current acknowledgement ends it.
    pub(super) round_ends: bool,
    /// There were losses in this round, or marks; `None` if not.
    loss: Option<Losses>,
    /// Acknowledgements that showed losses in this round.
    pub(super) loss_events: u32,
}

impl Default for ShortTerm {
    fn default() -> Self {
        Self {
            bw: u64::MAX,
            inflight: u64::MAX,
            bw_latest: 0,
            inflight_latest: 0,
            ends_at: 0,
            round_ends: false,
            loss: None,
            loss_events: 0,
        }
    }
}

impl ShortTerm {
    /// Removes the bounds.
    pub(super) fn reset_bounds(&mut self) {
        (self.bw, self.inflight) = (u64::MAX, u64::MAX);
    }

    /// Forgets the signals of the round.
    pub(super) fn reset_signals(&mut self) {
        (self.loss, self.bw_latest, self.inflight_latest) = (None, 0, 0);
    }

    /// Forgets the losses of the round, which were none.
    pub(super) fn forgive(&mut self) {
        self.loss = None;
    }

    /// The most that was delivered between the departure of a packet of this round and its acknowledgement.
    pub(super) fn inflight_latest(&self) -> u64 {
        self.inflight_latest
    }

    /// `bytes` were lost. Returns whether they are the first ones of the round, which begins with them.
    pub(super) fn on_lost(&mut self, delivered: u64, bytes: u64) -> bool {
        self.loss_events = self.loss_events.saturating_add(1);
        let first = self.loss.is_none();
        let loss = self.loss.get_or_insert(Losses { since: delivered, bytes: 0 });
        loss.bytes = loss.bytes.saturating_add(bytes);
        if first {
            self.ends_at = delivered;
        }
        first
    }

    /// The network marked a packet, which no share of losses excuses.
    pub(super) fn on_mark(&mut self, delivered: u64) -> bool {
        self.on_lost(delivered, u64::MAX)
    }

    /// A sample: `rate` and `bytes` of a packet that was sent after `before` bytes had been delivered; now it is
    /// `delivered`.
    pub(super) fn on_sample(&mut self, rate: u64, bytes: u64, before: Option<u64>, delivered: u64) {
        self.bw_latest = self.bw_latest.max(rate);
        self.inflight_latest = self.inflight_latest.max(bytes);
        self.round_ends = before.is_some_and(|before| before >= self.ends_at);
        if self.round_ends {
            self.ends_at = delivered;
        }
    }

    /// At the end of a round: lowers the bounds if more than `most` percent of it were lost.
    pub(super) fn adapt(&mut self, most: u64, max_bw: u64, cwnd: u64, delivered: u64) {
        if self.loss.take().is_some_and(|loss| loss.exceed(most, delivered)) {
            let bound = |bound: u64, first: u64| if bound == u64::MAX { first } else { bound };
            let bw = amount::percent(bound(self.bw, max_bw), BETA);
            let inflight = amount::percent(bound(self.inflight, cwnd), BETA);
            self.bw = self.bw_latest.max(bw);
            self.inflight = self.inflight_latest.max(inflight);
        }
    }

    /// At the end of the evaluation of an acknowledgement.
    pub(super) fn advance(&mut self, rate: u64, bytes: u64) {
        if self.round_ends {
            (self.bw_latest, self.inflight_latest) = (rate, bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounds_with_losses_lower_the_bounds_to_what_is_delivered() {
        let mut model = ShortTerm::default();
        assert!(model.on_lost(10_000, 1000));
        assert!(!model.on_lost(11_000, 1000), "the same round");
        model.on_sample(900, 9000, Some(9999), 12_000);
        assert!(!model.round_ends, "sent before the loss");
        model.on_sample(800, 8000, Some(10_000), 20_000);
        assert!(model.round_ends);
        model.adapt(0, 1000, 20_000, 20_000);
        assert_eq!((model.bw, model.inflight), (900, 14_000), "at least 70 % is left");
        model.advance(800, 8000);
        model.on_sample(500, 5000, Some(20_000), 30_000);
        model.adapt(0, 1000, 20_000, 30_000);
        assert_eq!((model.bw, model.inflight), (900, 14_000), "no loss");
        model.on_lost(30_000, 1000);
        model.adapt(100, 1000, 20_000, 30_000);
        assert_eq!(model.bw, 900, "a search for bandwidth has its own answer");
        model.advance(100, 100);
        model.on_lost(30_000, 1000);
        model.on_sample(600, 600, Some(30_000), 40_000);
        model.adapt(0, 1000, 20_000, 40_000);
        assert_eq!((model.bw, model.inflight), (630, 9800));
        model.reset_bounds();
        assert_eq!((model.bw, model.inflight), (u64::MAX, u64::MAX));
    }

    #[test]
    fn a_tolerated_share_lowers_nothing_but_a_mark_does() {
        let lowered = |lose: fn(&mut ShortTerm)| {
            let mut model = ShortTerm::default();
            lose(&mut model);
            model.on_sample(600, 600, Some(10_000), 100_000);
            model.adapt(10, 1000, 20_000, 100_000);
            model.bw < u64::MAX
        };
        assert!(!lowered(|model| _ = model.on_lost(10_000, 10_000)), "10,000 of 100,000 bytes");
        let more = |model: &mut ShortTerm| {
            model.on_lost(10_000, 6000);
            model.on_lost(15_000, 5000);
        };
        assert!(lowered(more), "11,000 of 101,000 bytes");
        assert!(lowered(|model| _ = model.on_mark(10_000)));
    }
}
