//! Determines which retransmissions of a recovery were needless. If all were, the recovery can be undone. Evidence is a
//! duplicate reported by the receiver (RFC 3708), or the echo of a timestamp that identifies the earlier transmission
//! (RFC 3522).

/// Maximum number of recorded segments per recovery. A recovery with more retransmissions is not undone by duplicates.
const MAX_SEGMENTS: usize = 256;

/// A retransmitted segment.
#[derive(Clone, Copy, Debug)]
struct Again {
    position: u64,
    /// The number of its previous transmission.
    number: u64,
    /// How many transmissions came before the one that was acknowledged.
    late: u64,
}

/// The retransmissions since the window was last reduced.
#[derive(Debug, Default)]
pub(crate) struct Episode {
    /// Retransmissions that are not yet known to be needless, by position.
    again: Vec<Again>,
    /// Some were needless.
    any_needless: bool,
    /// There were more retransmissions than can be recorded.
    overflown: bool,
    /// It started with fewer duplicate acknowledgements than usual.
    pub(crate) early: bool,
    /// It started with a timeout.
    pub(crate) timeout: bool,
    /// Window and threshold before the episode.
    pub(crate) windows: (u64, u64),
    /// The first retransmission: its position, and its timestamp (RetransmitTS).
    first: Option<(u64, u32)>,
}

impl Episode {
    /// Starts an episode: the window, which had this size, is reduced.
    pub(crate) fn begin(windows: (u64, u64), timeout: bool) -> Self {
        Self { windows, timeout, ..Self::default() }
    }

    /// Records a retransmission with this timestamp; `number` is that of its previous transmission.
    pub(crate) fn on_sent_again(&mut self, position: u64, number: u64, timestamp: u32) {
        self.first.get_or_insert((position, timestamp));
        let Err(place) = self.again.binary_search_by_key(&position, |again| again.position) else {
            return;
        };
        if self.again.len() < MAX_SEGMENTS {
            self.again.insert(place, Again { position, number, late: 0 });
        } else {
            self.overflown = true;
        }
    }

    /// Records that a retransmitted segment was acknowledged; `latest` is the last transmission that has arrived.
    pub(crate) fn on_acked(&mut self, position: u64, latest: u64) {
        if let Ok(place) = self.again.binary_search_by_key(&position, |again| again.position) {
            let again = &mut self.again[place];
            again.late = latest.saturating_sub(again.number);
        }
    }

    /// Whether an acknowledgement up to `position` with this echo answers a segment sent before the first
    /// retransmission. Must be called only once.
    pub(crate) fn echo_tells(&mut self, position: u64, echo: u32) -> bool {
        let Some((_, timestamp)) = self.first.filter(|(first, _)| *first < position) else {
            return false;
        };
        self.first = None;
        // Only the first answer to the first retransmission counts.
        let earlier = (echo.wrapping_sub(timestamp) as i32) < 0;
        self.any_needless |= earlier;
        earlier
    }

    /// Records that the data between two positions arrived twice. If it was retransmitted in this episode, returns once
    /// how many transmissions came before the first one.
    pub(crate) fn on_duplicate(&mut self, from: u64, to: u64) -> Option<u64> {
        let inside = |again: &Again| (from..to).contains(&again.position);
        let place = self.again.iter().position(inside)?;
        self.any_needless = true;
        Some(self.again.remove(place).late)
    }

    /// Records that a segment considered lost arrived before it was retransmitted.
    pub(crate) fn on_late(&mut self) {
        self.any_needless = true;
    }

    /// Whether all retransmissions were needless, and there were any.
    pub(crate) fn was_needless(&self) -> bool {
        self.any_needless && self.again.is_empty() && !self.overflown
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_retransmission_has_to_be_reported_once() {
        let mut episode = Episode::begin((10, 5), false);
        assert!(!episode.was_needless(), "nothing was sent");
        for position in [700, 900, 900] {
            episode.on_sent_again(position, position / 100, 1);
        }
        episode.on_acked(900, 40);
        assert_eq!(episode.on_duplicate(800, 900), None);
        assert_eq!(episode.on_duplicate(700, 800), Some(0));
        assert!(!episode.was_needless());
        assert_eq!(episode.on_duplicate(700, 800), None, "once");
        assert_eq!(episode.on_duplicate(900, 1000), Some(31));
        assert!(episode.was_needless());
    }

    #[test]
    fn the_first_answer_tells_which_transmission_it_is_for() {
        let mut episode = Episode::begin((10, 5), true);
        episode.on_sent_again(100, 1, 50);
        episode.on_sent_again(200, 2, 60);
        assert!(!episode.echo_tells(100, 20), "it is not acknowledged");
        assert!(episode.echo_tells(200, 49));
        assert!(!episode.echo_tells(300, 49), "only the first retransmission is asked about");
        let mut episode = Episode::begin((10, 5), true);
        episode.on_sent_again(100, 1, 50);
        assert!(!episode.echo_tells(200, 50), "it was answered itself");
        // Timestamps wrap.
        let mut episode = Episode::begin((10, 5), true);
        episode.on_sent_again(100, 1, 3);
        assert!(episode.echo_tells(200, u32::MAX - 3));
    }

    #[test]
    fn a_recovery_of_very_many_is_not_undone_and_takes_no_memory() {
        let mut episode = Episode::default();
        for position in 0..2 * MAX_SEGMENTS as u64 {
            episode.on_sent_again(position, position, 0);
        }
        assert_eq!(episode.again.len(), MAX_SEGMENTS);
        assert_eq!(
            (0..512).filter_map(|at| episode.on_duplicate(at, at + 1)).count(),
            MAX_SEGMENTS
        );
        assert!(!episode.was_needless());
    }
}
