//! Tail loss probe (RFC 8985 section 7): if nothing arrives for two round trips, one more segment is sent with new
//! data, or the last one again. Its acknowledgement reveals losses.

use std::time::Duration;

use anabranch_units::Instant;

/// Maximum delay of the acknowledgement of a single segment (TLP.max_ack_delay).
const MAX_ACK_DELAY: Duration = Duration::from_millis(200);

/// The wait before the first measurement of the round-trip time.
const INITIAL: Duration = Duration::from_secs(1);

/// A probe that was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Probing {
    /// Where it ends (TLP.end_seq).
    pub(crate) end: u64,
    /// Whether it was a retransmission (TLP.is_retrans).
    pub(crate) again: bool,
}

/// The probes of a connection.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct TailProbe {
    /// When the next probe is due.
    pub(crate) deadline: Option<Instant>,
    /// A probe in flight without a result yet.
    pub(crate) out: Option<Probing>,
    /// Whether no round-trip time was measured since the last probe.
    pub(crate) unmeasured: bool,
}

/// What an acknowledgement says about the outstanding probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// Nothing yet.
    Nothing,
    /// The probe was new data, and has arrived.
    Arrived,
    /// Both copies have arrived: nothing was lost.
    Needless,
    /// The probe repaired a loss.
    Repaired,
}

/// PTO, the wait before a probe (RFC 8985 section 7.2). `single` means that one segment is outstanding.
pub(crate) fn interval(srtt: Option<Duration>, single: bool) -> Duration {
    // req: rfc8985 7.2 "when there is no SRTT estimate available, the PTO SHOULD be 1"
    let Some(srtt) = srtt else { return INITIAL };
    // req: rfc8985 7.2 "the sender MAY inflate the PTO by TLP.max_ack_delay"
    2 * srtt + if single { MAX_ACK_DELAY } else { Duration::ZERO }
}

impl TailProbe {
    /// Arms the probe after something was sent or acknowledged: it is due after the interval, or when the
    /// retransmission timer would expire if that is sooner.
    pub(crate) fn arm(&mut self, now: Instant, interval: Duration, timer: Option<Instant>) {
        // req: rfc8985 7.3 "the sender MUST check whether both of the following conditions are met"
        let useful = self.out.is_none() && !self.unmeasured;
        self.deadline = timer.filter(|_| useful).map(|timer| timer.min(now + interval));
    }

    /// Turns the probe off: nothing needs probing.
    pub(crate) fn disarm(&mut self) {
        self.deadline = None;
    }

    /// Evaluates an acknowledgement up to `position` (section 7.4.2). `duplicate` means that it reports the probe's
    /// range as received twice, `bare` that it is a duplicate acknowledgement without blocks.
    // req: rfc8985 7.4.2 "then it MUST assume that the original data segment, the TLP retransmission"
    pub(crate) fn answer(&self, position: u64, duplicate: bool, bare: bool) -> Answer {
        match self.out {
            Some(probe) if position >= probe.end => match probe {
                Probing { again: false, .. } => Answer::Arrived,
                _ if duplicate => Answer::Needless,
                _ if position > probe.end => Answer::Repaired,
                _ if bare => Answer::Needless,
                _ => Answer::Nothing,
            },
            _ => Answer::Nothing,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn millis(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    // test: rfc8985 7.2 "when there is no SRTT estimate available, the PTO SHOULD be 1"
    // test: rfc8985 7.2 "the sender MAY inflate the PTO by TLP.max_ack_delay"
    #[test]
    fn a_probe_waits_two_round_trips_and_for_a_late_answer_to_a_single_segment() {
        assert_eq!(interval(None, false), millis(1000));
        assert_eq!(interval(Some(millis(30)), false), millis(60));
        assert_eq!(interval(Some(millis(30)), true), millis(260));
    }

    // test: rfc8985 7.3 "the sender MUST check whether both of the following conditions are met"
    #[test]
    fn one_probe_is_out_at_a_time_and_the_timer_bounds_its_wait() {
        let now = Instant::ZERO + millis(10);
        let mut probe = TailProbe::default();
        probe.arm(now, millis(60), Some(now + millis(300)));
        assert_eq!(probe.deadline, Some(now + millis(60)));
        probe.arm(now, millis(400), Some(now + millis(300)));
        assert_eq!(probe.deadline, Some(now + millis(300)));
        probe.unmeasured = true;
        probe.arm(now, millis(60), Some(now + millis(300)));
        assert_eq!(probe.deadline, None);
        (probe.unmeasured, probe.out) = (false, Some(Probing { end: 7, again: false }));
        probe.arm(now, millis(60), Some(now + millis(300)));
        assert_eq!(probe.deadline, None);
    }

    // test: rfc8985 7.4.2 "then it MUST assume that the original data segment, the TLP retransmission"
    #[test]
    fn a_loss_is_assumed_unless_both_are_known_to_have_come() {
        let out =
            |again| TailProbe { out: Some(Probing { end: 100, again }), ..Default::default() };
        assert_eq!(out(false).answer(99, false, true), Answer::Nothing);
        assert_eq!(out(false).answer(100, false, false), Answer::Arrived);
        assert_eq!(out(true).answer(100, false, false), Answer::Nothing);
        assert_eq!(out(true).answer(100, true, true), Answer::Needless, "case 1");
        assert_eq!(out(true).answer(100, false, true), Answer::Needless, "case 2");
        assert_eq!(out(true).answer(101, false, false), Answer::Repaired);
    }
}
