//! A responder's path: it follows the real address of the peer.
//!
//! A new address must answer a challenge before more than three times what it sent goes there, so nobody can direct the
//! path's data to a third host (RFC 9000 section 9.3 has the same rule).

use std::time::Duration;

use anabranch_units::Instant;

use crate::Route;

/// An address that has not answered gets at most this many times the bytes that it sent.
const AMPLIFICATION: usize = 3;

/// Time between two challenges of one address.
const REPEAT: Duration = Duration::from_millis(100);

/// A random number that only who receives it can return.
pub(crate) type Challenge = [u8; 8];

/// An address that has not answered yet.
#[derive(Clone, Debug)]
struct Candidate {
    route: Route,
    challenge: Challenge,
    next_challenge: Instant,
    received: usize,
    sent: usize,
}

impl Candidate {
    /// Whether these bytes may be sent, which then count.
    fn take(&mut self, bytes: usize) -> bool {
        let allowed = self.received.saturating_mul(AMPLIFICATION);
        let sent = self.sent.saturating_add(bytes);
        if sent > allowed {
            return false;
        }
        self.sent = sent;
        true
    }
}

/// The real address of one path of a peer.
#[derive(Clone, Debug, Default)]
pub(crate) struct Followed {
    verified: Option<Route>,
    candidate: Option<Candidate>,
}

impl Followed {
    /// The address that has answered.
    pub(crate) fn verified(&self) -> Option<&Route> {
        self.verified.as_ref()
    }

    /// Records an authentic packet of `bytes` bytes. Returns the challenge to send to its address, if one is due.
    pub(crate) fn heard(
        &mut self,
        now: Instant,
        route: &Route,
        bytes: usize,
        newest: bool,
        draw: impl FnOnce() -> Challenge,
    ) -> Option<Challenge> {
        if self.verified.as_ref() == Some(route) {
            return None;
        }
        match &mut self.candidate {
            Some(candidate) if candidate.route == *route => {
                candidate.received = candidate.received.saturating_add(bytes);
                if now < candidate.next_challenge {
                    return None;
                }
                candidate.next_challenge = now + REPEAT;
                Some(candidate.challenge)
            }
            // Packets that were overtaken say where the peer was, not where it is.
            _ if !newest => None,
            _ => {
                let (challenge, next_challenge) = (draw(), now + REPEAT);
                let route = route.clone();
                let candidate =
                    Candidate { route, challenge, next_challenge, received: bytes, sent: 0 };
                self.candidate = Some(candidate);
                Some(challenge)
            }
        }
    }

    /// Handles an answered challenge. Returns whether the path has a new address.
    pub(crate) fn answered(&mut self, challenge: &Challenge) -> bool {
        match self.candidate.take_if(|candidate| candidate.challenge == *challenge) {
            Some(candidate) => {
                self.verified = Some(candidate.route);
                true
            }
            None => false,
        }
    }

    /// Whether `bytes` may be sent to this address, which then count.
    pub(crate) fn may_send_to(&mut self, route: &Route, bytes: usize) -> bool {
        self.verified.as_ref() == Some(route)
            || self
                .candidate
                .as_mut()
                .is_some_and(|candidate| candidate.route == *route && candidate.take(bytes))
    }

    /// Where `bytes` of the path go now; they count.
    pub(crate) fn route(&mut self, bytes: usize) -> Option<Route> {
        if let Some(route) = &self.verified {
            return Some(route.clone());
        }
        let candidate = self.candidate.as_mut()?;
        candidate.take(bytes).then(|| candidate.route.clone())
    }

    /// Whether packets of this path have an address.
    pub(crate) fn is_known(&self) -> bool {
        self.verified.is_some() || self.candidate.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn route(port: u16) -> Route {
        Route { socket: 0, local: None, remote: ([192, 0, 2, 1], port).into() }
    }

    #[test]
    fn a_new_address_gets_little_until_it_answers() {
        let mut path = Followed::default();
        let now = Instant::ZERO;
        assert!(!path.is_known() && path.route(0).is_none());
        assert_eq!(path.heard(now, &route(1), 100, true, || [1; 8]), Some([1; 8]));
        assert!(path.may_send_to(&route(1), 100) && !path.may_send_to(&route(2), 1));
        assert_eq!(path.route(200), Some(route(1)));
        assert_eq!(path.route(1), None);
        assert_eq!(path.heard(now, &route(1), 10, true, || [2; 8]), None);
        assert_eq!((path.route(30), path.route(1)), (Some(route(1)), None));
        assert!(!path.answered(&[2; 8]) && path.verified().is_none());
        assert!(path.answered(&[1; 8]) && !path.answered(&[1; 8]));
        assert_eq!(path.verified(), Some(&route(1)));
        assert_eq!(path.route(1 << 30), Some(route(1)));
    }

    #[test]
    fn data_stays_with_the_old_address_until_the_new_one_answers() {
        let mut path = Followed::default();
        let mut now = Instant::ZERO;
        path.heard(now, &route(1), 100, true, || [1; 8]);
        assert!(path.answered(&[1; 8]));
        assert_eq!(path.heard(now, &route(1), 100, true, || [1; 8]), None);
        // A packet that was overtaken does not lead back, or anywhere.
        assert_eq!(path.heard(now, &route(2), 100, false, || [2; 8]), None);
        assert_eq!(path.heard(now, &route(2), 100, true, || [2; 8]), Some([2; 8]));
        assert_eq!(path.route(1000), Some(route(1)));
        // Challenges get lost.
        now += REPEAT;
        assert_eq!(path.heard(now, &route(2), 100, false, || [3; 8]), Some([2; 8]));
        // Yet another address: only the newest one is challenged.
        assert_eq!(path.heard(now, &route(3), 100, true, || [3; 8]), Some([3; 8]));
        assert!(!path.answered(&[2; 8]) && path.answered(&[3; 8]));
        assert_eq!(path.route(1000), Some(route(3)));
    }
}
