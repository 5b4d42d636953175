//! Heartbeats: path verification, path supervision and MTU probes (RFC 9260 sections 5.4, 8.3).

use std::time::Duration;

use crate::per_path::PathId;
use crate::rng::Rng;
use crate::time::{Instant, nanos};

/// Content of a HEARTBEAT, which the answer returns: it identifies the path, and has a nonce that an
/// off-path host cannot know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct HeartbeatInfo {
    pub(crate) path: PathId,
    /// Size of the path MTU probe; 0 for a plain heartbeat.
    pub(crate) probe: u16,
    pub(crate) nonce: u64,
}

impl HeartbeatInfo {
    pub(crate) const LEN: usize = 12;

    pub(crate) fn encode(&self) -> [u8; Self::LEN] {
        let mut bytes = [0; Self::LEN];
        bytes[..2].copy_from_slice(&self.path.number().to_le_bytes());
        bytes[2..4].copy_from_slice(&self.probe.to_be_bytes());
        bytes[4..].copy_from_slice(&self.nonce.to_be_bytes());
        bytes
    }

    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let bytes: &[u8; Self::LEN] = bytes.try_into().ok()?;
        let mut nonce = [0; 8];
        nonce.copy_from_slice(&bytes[4..]);
        Some(Self {
            path: PathId(u16::from_le_bytes([bytes[0], bytes[1]])),
            probe: u16::from_be_bytes([bytes[2], bytes[3]]),
            nonce: u64::from_be_bytes(nonce),
        })
    }
}

/// A heartbeat in flight.
#[derive(Clone, Copy, Debug)]
struct Sent {
    nonce: u64,
    at: Instant,
    /// If it is not answered by this time, it counts as an error.
    deadline: Option<Instant>,
}

/// The heartbeats of one path.
#[derive(Debug, Default)]
pub(crate) struct Heartbeat {
    /// When the next heartbeat is due; `None` if none is scheduled.
    due: Option<Instant>,
    sent: Option<Sent>,
    /// Nonce and time of the previous heartbeat, if the last one was sent before it was answered.
    overtaken: Option<(u64, Instant)>,
    /// A heartbeat waits for its packet.
    ready: bool,
    /// The user requested a heartbeat, whether the path is idle or not.
    demanded: bool,
    /// The peer's heartbeat on this path caused one, which has neither been answered nor failed.
    prompted: bool,
    /// Nonce of the path MTU probe in flight.
    probe_nonce: u64,
}

impl Heartbeat {
    /// Sets when the next heartbeat is due.
    pub(crate) fn schedule(&mut self, at: Option<Instant>) {
        self.ready = false;
        self.due = at;
    }

    /// Requests a heartbeat now, whether the path is idle or not.
    pub(crate) fn demand(&mut self, now: Instant) {
        self.due = Some(now);
        self.demanded = true;
    }

    /// Requests a heartbeat now, because the peer sent one on this path: at most one until that is answered or has
    /// failed.
    pub(crate) fn prompt(&mut self, now: Instant) {
        if !std::mem::replace(&mut self.prompted, true) {
            self.demand(now);
        }
    }

    /// Requests a heartbeat at this time, unless another one is sent earlier.
    pub(crate) fn demand_at(&mut self, at: Instant) {
        self.due = Some(self.due.map_or(at, |due| due.min(at)));
        self.demanded = true;
    }

    /// Whether the user requested the heartbeat that is due.
    pub(crate) fn is_demanded(&self) -> bool {
        self.demanded
    }

    /// The time at which something must be done next.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        let unanswered = self.sent.and_then(|sent| sent.deadline);
        match (self.due, unanswered) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        }
    }

    /// Whether a heartbeat is due now.
    pub(crate) fn is_due(&self, now: Instant) -> bool {
        self.ready || self.due.is_some_and(|due| due <= now)
    }

    /// Makes the due heartbeat wait for a packet instead of a deadline.
    pub(crate) fn make_ready(&mut self) {
        self.due = None;
        self.ready = true;
    }

    /// Records that a heartbeat with `nonce` is sent now, which should be answered within `rto`. If it
    /// only repeats an outstanding one, that one's time counts.
    // req: rfc9260 3.3.5 "MUST include a random nonce of length"
    pub(crate) fn on_sent(&mut self, now: Instant, nonce: u64, rto: Duration, repeats: bool) {
        let awaited = self.sent.and_then(|sent| sent.deadline).filter(|_| repeats);
        self.overtaken = self.sent.map(|sent| (sent.nonce, sent.at));
        let deadline = awaited.map_or(now + rto, |awaited| awaited.min(now + rto));
        self.sent = Some(Sent { nonce, at: now, deadline: Some(deadline) });
        self.due = None;
        self.ready = false;
        self.demanded = false;
    }

    /// Whether an answer to the outstanding heartbeat would still be in time.
    pub(crate) fn is_awaited(&self) -> bool {
        self.sent.is_some_and(|sent| sent.deadline.is_some())
    }

    /// Whether a heartbeat was sent after this time and not answered.
    pub(crate) fn sent_since(&self, at: Instant) -> bool {
        self.sent.is_some_and(|sent| sent.at > at)
    }

    /// Whether a heartbeat was not answered in time; returns true once for each.
    pub(crate) fn take_unanswered(&mut self, now: Instant) -> bool {
        match &mut self.sent {
            Some(sent) if sent.deadline.is_some_and(|deadline| deadline <= now) => {
                sent.deadline = None;
                self.prompted = false;
                true
            }
            _ => false,
        }
    }

    /// Records that another packet showed that the path works: a missing answer to the outstanding
    /// heartbeat does not count as an error, though an answer still counts.
    pub(crate) fn excuse(&mut self) {
        if let Some(sent) = &mut self.sent {
            sent.deadline = None;
        }
    }

    /// Handles an answer with this nonce. Returns the round-trip time if it answers the last heartbeat
    /// or, late, the previous one. If the previous one did not count, an RTO below the round-trip time
    /// would never grow, because each heartbeat would be repeated before its answer could arrive.
    pub(crate) fn on_ack(&mut self, now: Instant, nonce: u64) -> Option<Duration> {
        let late = self.overtaken.take_if(|(overtaken, _)| *overtaken == nonce);
        if let Some((_, at)) = late {
            // The path works, so a missing answer to the last heartbeat no longer counts.
            self.excuse();
            self.prompted = false;
            return Some(now.saturating_since(at));
        }
        let sent = self.sent.take_if(|sent| sent.nonce == nonce)?;
        self.overtaken = None;
        self.prompted = false;
        Some(now.saturating_since(sent.at))
    }

    /// Stores the nonce of a path MTU probe.
    pub(crate) fn on_probe_sent(&mut self, nonce: u64) {
        self.probe_nonce = nonce;
    }

    /// Whether an answer is for the path MTU probe in flight.
    // req: rfc8899 3 "feedback mechanism is REQUIRED to be robust to"
    // req: rfc8899 4.1 "by a PL MUST contain enough information to"
    pub(crate) fn is_probe_ack(&mut self, nonce: u64) -> bool {
        let matches = self.probe_nonce == nonce && nonce != 0;
        if matches {
            self.probe_nonce = 0;
        }
        matches
    }
}

/// The time to the next heartbeat of an idle path: HB.interval plus the RTO, plus or minus a jitter of
/// up to half the RTO.
// req: rfc9260 8.3 "with jittering of +/- 50% of the RTO value"
pub(crate) fn period(interval: Duration, rto: Duration, rng: &mut Rng) -> Duration {
    let rto = nanos(rto);
    interval + Duration::from_nanos(rto / 2 + rng.below(rto + 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn info_round_trips() {
        let info = HeartbeatInfo { path: PathId(0x703), probe: 1400, nonce: 0x0123_4567_89ab_cdef };
        assert_eq!(HeartbeatInfo::decode(&info.encode()), Some(info));
        assert_eq!(HeartbeatInfo::decode(&info.encode()[1..]), None);
    }

    #[test]
    // test: rfc9260 3.3.5 "MUST include a random nonce of length"
    fn only_the_right_nonce_counts_and_only_once() {
        let mut heartbeat = Heartbeat::default();
        let now = Instant::from_nanos(100);
        heartbeat.schedule(Some(now));
        assert!(heartbeat.is_due(now));
        heartbeat.on_sent(now, 7, Duration::from_nanos(50), false);
        assert!(!heartbeat.is_due(now));
        assert_eq!(heartbeat.deadline(), Some(Instant::from_nanos(150)));
        assert_eq!(heartbeat.on_ack(now, 8), None);
        let late = Instant::from_nanos(160);
        assert!(heartbeat.take_unanswered(late));
        assert!(!heartbeat.take_unanswered(late));
        assert_eq!(heartbeat.on_ack(late, 7), Some(Duration::from_nanos(60)));
        assert_eq!(heartbeat.on_ack(late, 7), None);
        // A heartbeat that is repeated too early is measured when its answer arrives, and so is the
        // repetition.
        for (at, nonce) in [(200, 10), (250, 11), (300, 12)] {
            heartbeat.on_sent(Instant::from_nanos(at), nonce, Duration::from_nanos(50), false);
        }
        let late = Instant::from_nanos(340);
        assert_eq!(heartbeat.on_ack(late, 10), None);
        assert_eq!(heartbeat.on_ack(late, 11), Some(Duration::from_nanos(90)));
        assert!(!heartbeat.take_unanswered(Instant::from_nanos(400)));
        assert_eq!(heartbeat.on_ack(late, 11), None);
        assert_eq!(heartbeat.on_ack(late, 12), Some(Duration::from_nanos(40)));
        // test: rfc8899 3 "feedback mechanism is REQUIRED to be robust to"
        // test: rfc8899 4.1 "by a PL MUST contain enough information to"
        heartbeat.on_probe_sent(9);
        assert!(!heartbeat.is_probe_ack(8) && heartbeat.is_probe_ack(9));
        assert!(!heartbeat.is_probe_ack(9) && !heartbeat.is_probe_ack(0));
    }

    /// Otherwise two ends with several heartbeats on their way answer each of the other one's with one more, for ever.
    #[test]
    fn an_answer_that_does_not_count_is_no_reason_for_another_heartbeat() {
        let mut heartbeat = Heartbeat::default();
        let (at, rto) = (Instant::from_nanos, Duration::from_nanos(500));
        heartbeat.prompt(at(100));
        heartbeat.on_sent(at(100), 7, rto, false);
        assert_eq!(heartbeat.on_ack(at(150), 6), None);
        heartbeat.prompt(at(150));
        assert!(!heartbeat.is_due(at(150)));
        assert!(heartbeat.on_ack(at(200), 7).is_some());
        heartbeat.prompt(at(200));
        assert!(heartbeat.is_due(at(200)));
        heartbeat.on_sent(at(200), 8, rto, false);
        assert!(heartbeat.take_unanswered(at(700)));
        heartbeat.prompt(at(700));
        assert!(heartbeat.is_due(at(700)));
    }

    #[test]
    fn an_excused_heartbeat_is_not_missed_and_its_answer_counts() {
        let mut heartbeat = Heartbeat::default();
        heartbeat.on_sent(Instant::from_nanos(100), 7, Duration::from_nanos(50), false);
        heartbeat.excuse();
        assert_eq!(heartbeat.deadline(), None);
        let late = Instant::from_nanos(160);
        assert!(!heartbeat.take_unanswered(late));
        assert_eq!(heartbeat.on_ack(late, 7), Some(Duration::from_nanos(60)));
    }

    #[test]
    fn a_repetition_leaves_the_time_of_the_one_before() {
        let mut heartbeat = Heartbeat::default();
        let at = Instant::from_nanos;
        heartbeat.on_sent(at(100), 7, Duration::from_nanos(500), true);
        heartbeat.demand_at(at(300));
        assert!(
            heartbeat.is_awaited() && heartbeat.sent_since(at(99)) && !heartbeat.is_due(at(299))
        );
        heartbeat.on_sent(at(300), 8, Duration::from_nanos(500), true);
        assert_eq!(heartbeat.deadline(), Some(at(600)));
        assert!(heartbeat.take_unanswered(at(600)) && !heartbeat.is_awaited());
        heartbeat.on_sent(at(600), 9, Duration::from_nanos(500), true);
        assert_eq!(heartbeat.deadline(), Some(at(1100)));
        assert_eq!(heartbeat.on_ack(at(700), 9), Some(Duration::from_nanos(100)));
        assert!(!heartbeat.sent_since(at(0)));
    }

    #[test]
    // test: rfc9260 8.3 "with jittering of +/- 50% of the RTO value"
    fn jitter_is_half_of_the_rto() {
        let mut rng = Rng::from_key((1, 2));
        let periods: Vec<_> = (0..1000)
            .map(|_| period(Duration::from_secs(30), Duration::from_secs(2), &mut rng))
            .collect();
        let (min, max) = (periods.iter().min().unwrap(), periods.iter().max().unwrap());
        assert!((31.0..31.1).contains(&min.as_secs_f64()), "{min:?}");
        assert!((32.9..=33.0).contains(&max.as_secs_f64()), "{max:?}");
    }
}
