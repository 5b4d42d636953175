//! Records decisions of the sender about data in flight, for a log of events.

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
        /// The path on which it had been sent.
        path: PathId,
        /// The path of the retransmission.
        to: PathId,
        /// The length of its user data in bytes.
        bytes: usize,
        /// The reason.
        cause: Cause,
    },
    /// T3-rtx of a path expired, or an equivalent event occurred: the windows were reduced and the timer
    /// was backed off. The decisions about the lost chunks follow.
    TimedOut {
        /// The path.
        path: PathId,
        /// The retransmission timeout before it was doubled.
        rto: Duration,
        /// The reason: [`Timeout`](Cause::Timeout), or an equivalent event.
        cause: Cause,
        /// Whether it does not count as an error of path or peer, because the peer answers probes of its
        /// closed window. The congestion window is then not reduced.
        excused: bool,
    },
}

impl Sender {
    /// Sets whether decisions are recorded from now on, for [`take_decisions`](Self::take_decisions).
    pub(crate) fn keep_journal(&mut self, keep: bool) {
        if keep {
            self.journal.get_or_insert_default();
        } else {
            self.journal = None;
        }
    }

    /// Records a decision, if recording is enabled.
    pub(crate) fn note(&mut self, decision: Decision) {
        if let Some(journal) = &mut self.journal {
            journal.push(decision);
        }
    }

    /// Takes the decisions since the last call.
    pub(crate) fn take_decisions(&mut self) -> Vec<Decision> {
        self.journal.as_deref_mut().map(std::mem::take).unwrap_or_default()
    }
}
