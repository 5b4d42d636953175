//! Expiry of timers: the retransmission timer, the wait for late segments, the tail probe.

use anabranch_units::Instant;

use super::Sender;
use crate::congestion::Cause;
use crate::options::ForwardRto;
use crate::recovery::forward_rto::Step;
use crate::scoreboard::Outgoing;

impl Sender {
    /// Handles expired timers. Returns a probe of a closed window or of the tail, if one is due.
    pub(crate) fn handle_timeout(&mut self, now: Instant) -> Option<Outgoing> {
        let due = |deadline: Option<Instant>| deadline.is_some_and(|at| at <= now);
        self.loss.before = self.board.pipe();
        self.control.handle_timeout(now);
        if due(self.evidence.probe.deadline) {
            return self.probe_tail(now);
        }
        if due(self.evidence.look_again)
            && self.detect_by_time(now)
            && self.loss.recovery.is_none()
            && self.unacknowledged >= self.loss.recover
        {
            self.begin_recovery(now, false);
        }
        self.tell_lost(now, Cause::Loss, self.loss.before);
        if due(self.timer) { self.retransmission_timeout(now) } else { None }
    }

    /// The retransmission timer has expired.
    fn retransmission_timeout(&mut self, now: Instant) -> Option<Outgoing> {
        let first = self.rto.timeouts() == 0;
        self.unanswered += 1;
        self.rto.back_off();
        self.timer = Some(now + self.rto.current());
        if self.board.is_empty() {
            // RFC 9293 section 3.8.6.1.
            return (self.queue.len() > 0).then(|| self.send_new(now, 1, false));
        }
        self.counters.timeouts += 1;
        if first || self.evidence.episode.is_none() {
            self.evidence.begin(self.control.windows(), true, false);
        }
        if self.window > 0 {
            let cause = Cause::Timeout { first };
            self.control.on_congestion(now, cause, self.flight(), self.loss.before);
        }
        let in_network = self.board.pipe();
        self.since_loss = 0;
        self.evidence.order.on_timeout();
        self.evidence.probe.disarm();
        self.evidence.probe.out = None;
        if self.asks_forward() {
            self.board.lose_first_again();
            self.loss.forward = Step::Again(self.unacknowledged + 1);
        } else {
            self.lose_at_timeout(now);
            self.loss.forward = Step::Idle;
        }
        self.tell_lost(now, Cause::Timeout { first }, in_network);
        self.loss.recovery = None;
        self.loss.recover = self.next;
        self.loss.ncr = None;
        (self.loss.duplicates, self.loss.left, self.loss.beyond) = (0, 0, 0);
        self.loss.at_once = true;
        None
    }

    /// Whether the next acknowledgements should be checked for a spurious timeout.
    // req: rfc5682 2.1 "MUST take the following steps after the retransmission timer expires"
    // req: rfc5682 3.1 "it MUST follow the steps below"
    fn asks_forward(&self) -> bool {
        let again = matches!(self.loss.forward, Step::Again(_));
        // req: rfc5682 2.1 "the F-RTO algorithm SHOULD NOT be entered when earlier fast recovery is underway"
        let quiet = self.loss.recovery.is_none() && self.unacknowledged >= self.loss.recover;
        match self.config.f_rto {
            ForwardRto::Off => false,
            ForwardRto::Sack if !self.sack => false,
            ForwardRto::Basic | ForwardRto::Sack => again || quiet,
        }
    }

    /// Marks everything lost that is not known to have arrived; with detection by time, everything old enough (RFC 8985
    /// section 6.3).
    fn lose_at_timeout(&mut self, now: Instant) {
        if !self.by_time() || self.evidence.rack.is_new() {
            self.board.lose_all();
            return;
        }
        self.evidence.look_again = None;
        self.board.lose_first_again();
        let (_, patience) = self.patience();
        self.board.find_late(now, (u64::MAX, patience));
    }
}
