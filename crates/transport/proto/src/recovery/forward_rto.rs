//! F-RTO (RFC 5682, with selective acknowledgements; RFC 4138 has it for SCTP): after a timeout one
//! chunk is retransmitted, then new data is sent instead of more retransmissions. If chunks that
//! were considered lost arrive without having been retransmitted, the timeout was spurious.

/// State of the algorithm on a path (RFC 5682 section 3.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum ForwardRto {
    /// No timeout is suspected to be spurious.
    #[default]
    Idle,
    /// Step 2: the retransmission was sent.
    Retransmitted,
    /// Step 3: packets with at least this number carry new data.
    Forward(u64),
}

/// The evidence that an acknowledgement gives about a path while a timeout may be spurious.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Seen {
    /// A retransmitted chunk arrived.
    pub(crate) again: bool,
    /// A chunk arrived that was considered lost and not retransmitted.
    pub(crate) late: bool,
    /// The last packet that arrived with data that was sent only once.
    pub(crate) newest: Option<u64>,
    /// The acknowledgement has new information, or reports gaps or duplicates: the peer received a
    /// packet.
    pub(crate) tells: bool,
    /// A chunk waits for retransmission.
    pub(crate) waits: bool,
    /// There is new data, and the peer's window has room for it.
    pub(crate) has_new: bool,
    /// Number of the next packet.
    pub(crate) next: u64,
}

/// The action to take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// There is no result yet.
    Undecided,
    /// There is no result yet, and nothing may be retransmitted until there is one.
    Wait,
    /// Send two packets of new data before any retransmission.
    SendNew,
    /// The timeout was genuine: retransmit the rest.
    Timeout,
    /// The timeout was spurious: nothing was lost.
    Spurious,
}

impl ForwardRto {
    /// Evaluates an acknowledgement.
    pub(crate) fn on_acknowledgement(&mut self, seen: &Seen) -> Verdict {
        match *self {
            Self::Idle => Verdict::Undecided,
            Self::Retransmitted if !seen.again && seen.tells => Verdict::Wait,
            Self::Retransmitted if !seen.again => Verdict::Undecided,
            // Only the next acknowledgement shows whether the rest arrived before the timeout and
            // its acknowledgements were lost. Without new data to send there would be no such
            // acknowledgement.
            Self::Retransmitted if seen.waits && seen.has_new => {
                *self = Self::Forward(seen.next);
                Verdict::SendNew
            }
            Self::Retransmitted => self.end(Verdict::Timeout),
            Self::Forward(_) if !seen.tells => Verdict::Undecided,
            Self::Forward(from) if seen.late && seen.newest.is_none_or(|newest| newest < from) => {
                self.end(Verdict::Spurious)
            }
            Self::Forward(_) => self.end(Verdict::Timeout),
        }
    }

    fn end(&mut self, verdict: Verdict) -> Verdict {
        *self = Self::Idle;
        verdict
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RETRANSMISSION_ARRIVED: Seen = Seen {
        again: true,
        late: false,
        newest: None,
        tells: true,
        waits: true,
        has_new: true,
        next: 20,
    };

    #[test]
    fn what_arrives_late_after_new_data_left_proves_the_timeout_spurious() {
        let mut state = ForwardRto::Retransmitted;
        let nothing = Seen { tells: true, ..Seen::default() };
        assert_eq!(state.on_acknowledgement(&nothing), Verdict::Wait, "stay in step 2");
        assert_eq!(state.on_acknowledgement(&RETRANSMISSION_ARRIVED), Verdict::SendNew);
        assert_eq!(state.on_acknowledgement(&Seen::default()), Verdict::Undecided);
        let late = Seen { late: true, newest: Some(7), tells: true, ..Seen::default() };
        assert_eq!(state.on_acknowledgement(&late), Verdict::Spurious);
        assert_eq!(state, ForwardRto::Idle);
    }

    #[test]
    fn what_is_new_arriving_first_proves_it_right() {
        let mut state = ForwardRto::Forward(20);
        let new = Seen { late: true, newest: Some(20), tells: true, ..Seen::default() };
        assert_eq!(state.on_acknowledgement(&new), Verdict::Timeout);
        let mut state = ForwardRto::Forward(20);
        let duplicate = Seen { tells: true, ..Seen::default() };
        assert_eq!(state.on_acknowledgement(&duplicate), Verdict::Timeout);
    }

    #[test]
    fn without_new_data_or_anything_to_decide_it_is_a_timeout() {
        for seen in [
            Seen { waits: false, ..RETRANSMISSION_ARRIVED },
            Seen { has_new: false, ..RETRANSMISSION_ARRIVED },
        ] {
            let mut state = ForwardRto::Retransmitted;
            assert_eq!(state.on_acknowledgement(&seen), Verdict::Timeout);
            assert_eq!(state, ForwardRto::Idle);
        }
    }
}
