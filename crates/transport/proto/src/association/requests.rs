//! Requests with serial numbers. Stream reconfiguration (RFC 6525) and address reconfiguration (RFC
//! 5061) have the same rules, and differ only in their parameters.
//!
//! One request may be outstanding. It is retransmitted unchanged, with its number, until it is answered,
//! each time after the RTO of the path that it took. The association counts the errors and chooses
//! another path. The caller of this state machine collects further wishes of the user, and combines them
//! into one request when the outstanding one is answered.
//!
//! The other side processes requests in the order of their numbers. It keeps its last answer, because
//! the same request arrives again if the answer is lost.

use bytes::Bytes;

use crate::per_path::PathId;
use crate::time::Instant;

/// The requests of this side.
#[derive(Debug)]
pub(super) struct Requests {
    /// Number of the next request.
    next: u32,
    outstanding: Option<Outstanding>,
}

#[derive(Debug)]
struct Outstanding {
    body: Bytes,
    state: State,
}

#[derive(Clone, Copy, Debug)]
enum State {
    /// It must be sent, for the first time or again.
    Due,
    /// It was sent on this path, and is repeated at this time.
    Sent(PathId, Instant),
}

impl Requests {
    /// `initial_tsn`: the first TSN of this side, which is also the first request number.
    // RFC 5061 section 5.1 rule A2, RFC 6525 section 4.1
    pub(super) fn new(initial_tsn: u32) -> Self {
        Self { next: initial_tsn, outstanding: None }
    }

    /// Whether [`begin`](Self::begin) would accept a request.
    pub(super) fn is_free(&self) -> bool {
        self.outstanding.is_none()
    }

    /// The number that the next request will have.
    pub(super) fn next(&self) -> u32 {
        self.next
    }

    /// Begins a request, or `count` of them that travel together, and returns the number of the last one, which stands
    /// for all of them in the other methods.
    ///
    /// # Errors
    /// Another request is outstanding; the error returns this one.
    // RFC 5061 section 5.1.1 rule C1
    // req: rfc6525 5.1.1 "At any given time, there MUST NOT be more than one request in flight"
    // req: rfc5061 3 "an ASCONF chunk MUST use after"
    pub(super) fn begin(&mut self, body: Bytes, count: u32) -> Result<u32, Bytes> {
        if self.outstanding.is_some() {
            return Err(body);
        }
        self.next = self.next.wrapping_add(count);
        let number = self.next.wrapping_sub(1);
        self.outstanding = Some(Outstanding { body, state: State::Due });
        Ok(number)
    }

    /// Withdraws the outstanding request, so that another one can begin, and returns it. The peer expects its number
    /// first, so it must be sent before the next one in the same packet; the answer to that one is enough.
    // RFC 5061 section 5.5
    pub(super) fn overtake(&mut self) -> Option<Bytes> {
        self.outstanding.take().map(|outstanding| outstanding.body)
    }

    /// The request that must be sent now, with its number.
    pub(super) fn due(&self) -> Option<(u32, &Bytes)> {
        let outstanding = self.outstanding.as_ref()?;
        let due = matches!(outstanding.state, State::Due);
        due.then(|| (self.next.wrapping_sub(1), &outstanding.body))
    }

    /// Records that the request of [`due`](Self::due) was sent on `path`; it is repeated at the time
    /// `at`.
    pub(super) fn on_sent(&mut self, path: PathId, at: Instant) {
        if let Some(outstanding) = &mut self.outstanding {
            outstanding.state = State::Sent(path, at);
        }
    }

    /// When [`on_timeout`](Self::on_timeout) must be called.
    pub(super) fn deadline(&self) -> Option<Instant> {
        match self.outstanding.as_ref()?.state {
            State::Due => None,
            State::Sent(_, at) => Some(at),
        }
    }

    /// Handles the timeout of an answer: the request is due again. Returns the path that it took, for
    /// which the timeout counts as an error.
    pub(super) fn on_timeout(&mut self, now: Instant) -> Option<PathId> {
        let outstanding = self.outstanding.as_mut()?;
        match outstanding.state {
            State::Sent(path, at) if at <= now => {
                outstanding.state = State::Due;
                Some(path)
            }
            _ => None,
        }
    }

    /// Makes the outstanding request due again, although its answer may still come.
    pub(super) fn hasten(&mut self) {
        if let Some(outstanding) = &mut self.outstanding {
            outstanding.state = State::Due;
        }
    }

    /// Handles the answer to request `number`. Returns the request with the path that it last took, or
    /// `None` if that request is not outstanding.
    pub(super) fn on_answer(&mut self, number: u32) -> Option<(Bytes, Option<PathId>)> {
        if number != self.next.wrapping_sub(1) {
            return None;
        }
        let Outstanding { body, state } = self.outstanding.take()?;
        let path = match state {
            State::Sent(path, _) => Some(path),
            State::Due => None,
        };
        Some((body, path))
    }

    /// Handles "In progress" (RFC 6525 section 4.4): the peer is still processing request `number`,
    /// which is repeated at the time `at`. Returns the path that the request took, which works.
    pub(super) fn on_progress(&mut self, number: u32, at: Instant) -> Option<PathId> {
        let newest = self.next.wrapping_sub(1);
        let outstanding = self.outstanding.as_mut().filter(|_| number == newest)?;
        let State::Sent(path, _) = outstanding.state else { return None };
        outstanding.state = State::Sent(path, at);
        Some(path)
    }
}

/// What to do with a request of the peer.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Incoming {
    /// It is the next one: process it, then call [`Answers::on_answered`].
    New,
    /// It was answered; send the answer again.
    Again(Bytes),
    /// Its answer is no longer stored, or requests before it are missing.
    OutOfOrder,
}

/// The answers of this side to the peer's requests.
#[derive(Debug)]
pub(super) struct Answers {
    /// Number of the next request.
    next: u32,
    /// The answer to the previous request, or to several that came together.
    last: Option<Bytes>,
    /// How many it answers.
    count: u32,
}

impl Answers {
    /// `initial_tsn`: the first TSN of the peer.
    pub(super) fn new(initial_tsn: u32) -> Self {
        Self { next: initial_tsn, last: None, count: 1 }
    }

    /// Number of the request that is expected next.
    pub(super) fn next(&self) -> u32 {
        self.next
    }

    /// Decides what to do with a request that arrived, the first one if there are several.
    // RFC 5061 section 5.2 rules E1 to E3, RFC 6525 section 5.2.1
    // req: rfc5061 3 "all arithmetic dealing with ASCONF Sequence Numbers MUST be"
    // req: rfc5061 3 "in this document SHOULD use Serial Number"
    pub(super) fn on_request(&self, number: u32) -> Incoming {
        match (self.next.wrapping_sub(number), &self.last) {
            (0, _) => Incoming::New,
            (back, Some(answer)) if back == self.count => Incoming::Again(answer.clone()),
            _ => Incoming::OutOfOrder,
        }
    }

    /// Stores the answer to the next request, or to the next `count` of them.
    pub(super) fn on_answered(&mut self, answer: Bytes, count: u32) {
        self.next = self.next.wrapping_add(count);
        self.last = Some(answer);
        self.count = count;
    }

    /// Replaces the last answer, for example "In progress" by the result.
    pub(super) fn on_changed(&mut self, answer: Bytes) {
        self.last = Some(answer);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::prelude::*;

    use super::*;

    const RTO: Duration = Duration::from_secs(1);
    const FIRST: PathId = PathId::FIRST;

    fn body(text: &'static str) -> Bytes {
        Bytes::from_static(text.as_bytes())
    }

    #[test]
    fn one_request_at_a_time_is_repeated_until_it_is_answered() {
        let start = Instant::ZERO;
        let mut requests = Requests::new(u32::MAX);
        assert_eq!(requests.due(), None);
        assert_eq!(requests.begin(body("a"), 1), Ok(u32::MAX));
        assert_eq!(requests.begin(body("b"), 1), Err(body("b")));
        assert_eq!(requests.due(), Some((u32::MAX, &body("a"))));
        assert_eq!(requests.deadline(), None);
        requests.on_sent(FIRST, start + RTO);
        assert_eq!((requests.due(), requests.deadline()), (None, Some(start + RTO)));
        assert_eq!(requests.on_timeout(start), None);
        assert_eq!(requests.on_timeout(start + RTO), Some(FIRST));
        assert_eq!(requests.due(), Some((u32::MAX, &body("a"))), "unchanged");
        requests.on_sent(FIRST, start + RTO * 3);
        assert_eq!(requests.on_answer(0), None, "of a request that is not there yet");
        assert_eq!(requests.on_answer(u32::MAX - 1), None);
        assert_eq!(requests.on_answer(u32::MAX), Some((body("a"), Some(FIRST))));
        assert_eq!(requests.on_answer(u32::MAX), None, "twice");
        assert!(requests.is_free() && requests.deadline().is_none());
        assert_eq!(requests.begin(body("b"), 1), Ok(0), "numbers wrap");
    }

    #[test]
    fn an_answer_that_comes_late_ends_a_request_that_is_due_again() {
        let mut requests = Requests::new(5);
        requests.begin(body("a"), 1).unwrap();
        requests.on_sent(FIRST, Instant::ZERO + RTO);
        requests.on_timeout(Instant::ZERO + RTO);
        assert_eq!(requests.on_answer(5), Some((body("a"), None)));
        assert_eq!(requests.due(), None);
    }

    #[test]
    fn progress_postpones_the_next_repetition() {
        let mut requests = Requests::new(5);
        requests.begin(body("a"), 1).unwrap();
        assert_eq!(requests.on_progress(5, Instant::ZERO + RTO * 9), None, "not sent yet");
        requests.on_sent(FIRST, Instant::ZERO + RTO);
        assert_eq!(requests.on_progress(4, Instant::ZERO + RTO * 9), None);
        assert_eq!(requests.on_progress(5, Instant::ZERO + RTO * 9), Some(FIRST));
        assert_eq!(requests.on_timeout(Instant::ZERO + RTO * 8), None);
        assert_eq!(requests.on_timeout(Instant::ZERO + RTO * 9), Some(FIRST));
    }

    #[test]
    fn requests_are_processed_once_and_in_order() {
        let mut answers = Answers::new(u32::MAX);
        assert_eq!(answers.on_request(u32::MAX - 1), Incoming::OutOfOrder, "nothing was answered");
        assert_eq!(answers.on_request(0), Incoming::OutOfOrder);
        assert_eq!(answers.on_request(u32::MAX), Incoming::New);
        answers.on_answered(body("in progress"), 1);
        assert_eq!(answers.on_request(u32::MAX), Incoming::Again(body("in progress")));
        answers.on_changed(body("done"));
        assert_eq!(answers.on_request(u32::MAX), Incoming::Again(body("done")));
        assert_eq!(answers.on_request(0), Incoming::New);
        answers.on_answered(body("other"), 1);
        assert_eq!(answers.on_request(u32::MAX), Incoming::OutOfOrder, "its answer is gone");
    }

    #[test]
    fn two_requests_travel_together() {
        let mut requests = Requests::new(7);
        assert_eq!((requests.next(), requests.begin(body("ab"), 2)), (7, Ok(8)));
        assert_eq!(requests.on_answer(7), None);
        assert_eq!(requests.on_answer(8), Some((body("ab"), None)));
        assert_eq!(requests.next(), 9);
        let mut answers = Answers::new(7);
        answers.on_answered(body("a"), 1);
        answers.on_answered(body("bc"), 2);
        assert_eq!(answers.next(), 10);
        assert_eq!(answers.on_request(8), Incoming::Again(body("bc")));
        assert_eq!(answers.on_request(9), Incoming::OutOfOrder, "they come together");
        assert_eq!(answers.on_request(7), Incoming::OutOfOrder);
    }

    proptest! {
        /// Two ends over a network that loses, duplicates and delays. Each request must be processed
        /// once, in order, and each answer must match its request.
        #[test]
        fn a_network_that_does_anything(first: u32, fates in prop::collection::vec(0_u8..5, 1..400)) {
            let mut requests = Requests::new(first);
            let mut answers = Answers::new(first);
            let mut to_peer: Vec<(u32, Bytes)> = Vec::new();
            let mut to_us: Vec<(u32, Bytes)> = Vec::new();
            let (mut processed, mut ended, mut now) = (Vec::new(), 0_u32, Instant::ZERO);
            for fate in fates {
                now += RTO;
                requests.on_timeout(now);
                let next = ended.to_be_bytes();
                let _ = requests.begin(Bytes::copy_from_slice(&next), 1);
                if let Some((number, body)) = requests.due() {
                    to_peer.push((number, body.clone()));
                    requests.on_sent(FIRST, now + RTO);
                }
                let at = usize::from(fate) % to_peer.len().max(1);
                // Fate 0 loses the packet, 1 and 2 deliver it, and 3 and 4 deliver it and keep a copy
                // for later.
                if fate > 0 && at < to_peer.len() {
                    let (number, body) = to_peer[at].clone();
                    match answers.on_request(number) {
                        Incoming::New => {
                            processed.push(body.clone());
                            answers.on_answered(body.clone(), 1);
                            to_us.push((number, body));
                        }
                        Incoming::Again(answer) => to_us.push((number, answer)),
                        Incoming::OutOfOrder => {}
                    }
                }
                if fate < 3 && at < to_peer.len() {
                    to_peer.remove(at);
                }
                if fate % 2 == 1 && let Some((number, answer)) = to_us.pop()
                    && let Some((request, _)) = requests.on_answer(number)
                {
                    prop_assert_eq!(&request, &answer);
                    ended += 1;
                }
            }
            let order: Vec<Bytes> =
                (0..processed.len() as u32).map(|n| Bytes::copy_from_slice(&n.to_be_bytes())).collect();
            prop_assert_eq!(&processed, &order);
            prop_assert!(ended as usize == processed.len() || ended as usize + 1 == processed.len());
        }
    }
}
