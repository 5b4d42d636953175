//! Tail loss probe (RFC 8985 section 7): if nothing arrives for two round trips, one more packet is
//! sent, with new data or the last chunk again. Its acknowledgement shows losses. The probe does not
//! count as a path error, and does not change the retransmission timeout.

use std::time::Duration;

use crate::time::Instant;

/// How long a receiver delays the acknowledgement of a single packet (WCDelAckT; 200 ms in RFC 9260
/// section 6.2).
const DELAYED_ACK: Duration = Duration::from_millis(200);

/// The wait before the round-trip time is known.
const INITIAL: Duration = Duration::from_secs(1);

/// A probe that was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Probing {
    /// The chunk that was retransmitted; `None` if the probe carried new data.
    pub(crate) again: Option<u64>,
    /// When it was sent.
    pub(crate) at: Instant,
    /// The deadline of T3-rtx at that time, which the probe does not change.
    pub(crate) t3: Option<Instant>,
}

/// The probes of one path.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct TailProbe {
    /// When the next probe is due.
    pub(crate) deadline: Option<Instant>,
    /// The probe that was not answered yet.
    pub(crate) out: Option<Probing>,
}

/// PTO, the wait before a probe, with `packets` in flight (RFC 8985 section 7.2).
pub(crate) fn interval(srtt: Option<Duration>, packets: usize) -> Duration {
    let Some(srtt) = srtt else { return INITIAL };
    2 * srtt + if packets <= 1 { DELAYED_ACK } else { Duration::ZERO }
}

impl TailProbe {
    /// The state after T3-rtx expired: its retransmission probes the path, and no further probe is sent
    /// before an answer. A dead or congested path gets only the packets that the timer sends (RFC 8985
    /// section 7.2: not in RTO recovery).
    pub(crate) fn after_timeout(now: Instant) -> Self {
        Self { deadline: None, out: Some(Probing { again: None, at: now, t3: None }) }
    }

    /// Sets the timer after data was sent or acknowledged: the probe is due after `interval`, unless
    /// T3-rtx expires before, or a probe is outstanding.
    pub(crate) fn arm(&mut self, now: Instant, interval: Duration, t3: Option<Instant>) {
        let deadline = now + interval;
        let useful = self.out.is_none() && t3.is_some_and(|t3| deadline < t3);
        self.deadline = useful.then_some(deadline);
    }

    /// Stops the timer, because nothing is in flight.
    pub(crate) fn disarm(&mut self) {
        self.deadline = None;
    }
}

/// The meaning of an acknowledgement of the retransmitted chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// Both transmissions arrived, or only the first one: nothing was lost.
    Needless,
    /// The probe repaired a loss.
    Repaired,
}

/// Evaluates an acknowledgement of the retransmitted chunk. `duplicate`: the peer reports that it
/// received the chunk twice. `too_soon`: the acknowledgement arrived too soon after the probe to be for
/// the probe.
pub(crate) fn answer(duplicate: bool, too_soon: bool) -> Answer {
    if duplicate || too_soon { Answer::Needless } else { Answer::Repaired }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn millis(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    #[test]
    fn a_probe_waits_two_round_trips_and_for_a_late_answer_to_a_single_packet() {
        assert_eq!(interval(None, 5), millis(1000));
        assert_eq!(interval(Some(millis(30)), 5), millis(60));
        assert_eq!(interval(Some(millis(30)), 1), millis(260));
    }

    #[test]
    fn the_timer_comes_first_if_it_is_earlier_and_one_probe_is_enough() {
        let now = Instant::ZERO + millis(10);
        let mut probe = TailProbe::default();
        probe.arm(now, millis(60), Some(now + millis(300)));
        assert_eq!(probe.deadline, Some(now + millis(60)));
        probe.arm(now, millis(300), Some(now + millis(300)));
        assert_eq!(probe.deadline, None);
        probe.out = Some(Probing { again: None, at: now, t3: None });
        probe.arm(now, millis(60), Some(now + millis(300)));
        assert_eq!(probe.deadline, None);
    }

    #[test]
    fn a_loss_is_assumed_unless_the_first_transmission_is_known_to_have_come() {
        assert_eq!(answer(false, true), Answer::Needless);
        assert_eq!(answer(false, false), Answer::Repaired);
        assert_eq!(answer(true, false), Answer::Needless);
    }
}
