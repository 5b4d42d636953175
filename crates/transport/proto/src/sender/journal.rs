//! Decisions of the sender about data in flight, for a log of events.

use std::time::Duration;

use super::Sender;
use crate::per_path::PathId;
use crate::send::Cause;

/// A decision of the sender about data in flight; passed to [`Log`](crate::Log).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Decision {
    /// A chunk is retransmitted.
    Lost {
        /// Its TSN.
        tsn: u32,
        /// The path that it had been sent on.
        path: PathId,
        /// The path of the retransmission.
        to: PathId,
        /// Its user data in bytes.
        bytes: usize,
        /// Why.
        cause: Cause,
    },
    /// T3-rtx of a path expired, or an equivalent event: the windows and the timer have backed off;
    /// the chunks considered lost follow.
    TimedOut {
        /// The path.
        path: PathId,
        /// The retransmission timeout before it was doubled.
        rto: Duration,
        /// The reason: [`Timeout`](Cause::Timeout), or an equivalent event.
        cause: Cause,
        /// It is not an error of path or peer, because the peer answers probes of its closed window: the
        /// congestion window stays.
        excused: bool,
    },
}

impl Sender {
    /// Whether decisions are kept from now on, for [`take_decisions`](Self::take_decisions).
    pub(crate) fn keep_journal(&mut self, keep: bool) {
        if keep {
            self.journal.get_or_insert_default();
        } else {
            self.journal = None;
        }
    }

    /// Records a decision, if a log is set.
    pub(crate) fn note(&mut self, decision: Decision) {
        if let Some(journal) = &mut self.journal {
            journal.push(decision);
        }
    }

    /// The decisions since the last call.
    pub(crate) fn take_decisions(&mut self) -> Vec<Decision> {
        self.journal.as_deref_mut().map(std::mem::take).unwrap_or_default()
    }
}
