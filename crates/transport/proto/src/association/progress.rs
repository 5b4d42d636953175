//! Detects whether an association makes progress, and releases its memory when the endpoint is full.

use std::time::Duration;

use anabranch_wire::Cause;

use super::Association;
use crate::event::CloseReason;
use crate::features::Features;
use crate::marks::mark;
use crate::time::Instant;

/// An association without progress for this many RTOs may be evicted.
const PATIENCE: u32 = 3;

/// It is never evicted earlier than this, because users read, and peers send, when they like.
const LEAST_PATIENCE: Duration = Duration::from_secs(10);

/// It need not be quiet for longer than this, since the RTO also doubles while a closed window is probed.
const MOST_PATIENCE: Duration = Duration::from_secs(60);

/// The minimum if the peer's host has more than its share.
const LEAST_OF_MANY: Duration = Duration::from_secs(2);

/// The maximum if the peer's host has more than its share: otherwise it could extend its RTO without bound
/// by acknowledging late.
const MOST_OF_MANY: Duration = Duration::from_secs(5);

/// The time of the last progress.
#[derive(Debug)]
pub(super) struct Progress {
    /// Changes whenever there is progress; `at` is when it last did.
    pub(super) mark: u64,
    pub(super) at: Instant,
    /// When the user last sent data, or data for the user last arrived.
    pub(super) last_user_data: Instant,
}

impl Progress {
    pub(super) fn new(now: Instant) -> Self {
        Self { mark: 0, at: now, last_user_data: now }
    }
}

/// The endpoint's memory that an association uses.
#[derive(Debug, Default)]
pub(super) struct Account {
    /// Bytes that the endpoint has accounted for.
    pub(super) accounted: usize,
    /// Bytes that the user stores because of the peer.
    by_user: u32,
    /// It gets no memory beyond the guaranteed minimum.
    pub(super) restricted: bool,
}

impl Account {
    pub(super) fn by_user(&self) -> usize {
        self.by_user as usize
    }
}

impl Association {
    /// Sets how many bytes the user of this association stores because of the peer, besides the
    /// buffers: messages being reassembled, tables with a row for each stream, queued events. They
    /// count against the endpoint's `memory_limit` until the next call.
    ///
    /// [`may_keep`](Self::may_keep) returns whether there is room for more.
    pub fn set_kept(&mut self, bytes: usize) {
        self.account.by_user = u32::try_from(bytes).unwrap_or(u32::MAX);
    }

    /// Whether the endpoint has memory for `bytes` more. If not, associations that hold memory and make no
    /// progress are ended after a while.
    pub fn may_keep(&self, bytes: usize) -> bool {
        self.memory_has_room(bytes)
    }

    /// The same for state that can neither be refused nor released, such as a row for a stream that the
    /// peer uses. It may exceed the limit by an eighth, unlike buffers, unless this association alone
    /// stores more than an eighth. So it is not refused just because buffers are full for a moment.
    pub fn may_keep_for_good(&self, bytes: usize) -> bool {
        let memory = &self.surroundings.common.memory;
        self.memory_has_room(bytes) || memory.may_overdraw(self.account.by_user())
    }

    /// Ends the association because the endpoint has no memory for the state that the peer causes. The
    /// peer gets an ABORT with the cause Out of Resource, and the user [`CloseReason::GaveWay`].
    pub fn abort_for_memory(&mut self) {
        if !self.is_closed() {
            self.yield_to_others();
        }
    }

    /// Records progress: whether the peer has acknowledged data or sent data that others waited for, or
    /// the user has read.
    pub(crate) fn note_progress(&mut self, now: Instant) {
        let progress = (self.sender.base())
            .wrapping_add(self.receiver.cumulative())
            .wrapping_add(self.receiver.bytes_read());
        if progress != self.progress.mark {
            self.progress.mark = progress;
            self.progress.at = now;
        }
    }

    /// For how long there has been no progress.
    pub(crate) fn quiet_for(&self, now: Instant) -> Duration {
        now.saturating_since(self.progress.at.max(self.progress.last_user_data))
    }

    /// Whether there has been no progress for longer than a path with trouble needs to recover.
    pub(crate) fn is_at_rest(&self, now: Instant) -> bool {
        self.quiet_for(now) >= self.recovers_within().clamp(LEAST_PATIENCE, MOST_PATIENCE)
    }

    /// Whether there is currently no progress. That is enough if the peer's host uses more than its share
    /// of the endpoint.
    pub(crate) fn is_quiet(&self, now: Instant) -> bool {
        self.quiet_for(now) >= self.recovers_within().clamp(LEAST_OF_MANY, MOST_OF_MANY)
    }

    fn recovers_within(&self) -> Duration {
        let rto = self.paths.iter().map(|path| path.rtt.rto()).max().unwrap_or_default();
        rto * PATIENCE
    }

    /// Bytes stored because of the peer: sent data that it does not acknowledge, out-of-order data that
    /// waits for a gap to be filled, and data that the user holds because of that. Data that the user does
    /// not read is not the peer's fault.
    pub(crate) fn held_for_peer(&self) -> usize {
        self.sender.buffered() + self.receiver.held_back() + self.account.by_user()
    }

    /// Whether it ever carried user data.
    pub(crate) fn carried_data(&self) -> bool {
        self.counts.messages_sent > 0 || self.receiver.has_received()
    }

    /// Drops out-of-order data that was only reported in gap ack blocks, to make room for other
    /// associations. The peer keeps such data, and retransmits it. Returns the number of bytes freed.
    // req: rfc9260 6.2 "the data receiver MAY drop DATA chunks that"
    // req: rfc9260 6.2 "It MAY drop these DATA chunks even though"
    pub(crate) fn give_back(&mut self) -> usize {
        let freed = self.receiver.give_back(self.features.has(Features::NR_SACK));
        // Notify the peer before it frees its copy.
        if freed > 0 && self.state.acknowledges() {
            mark!(GivenBack);
            self.acknowledger.request();
        }
        freed
    }

    /// Limits the association to its guaranteed minimum because the peer's address has more than its
    /// share, or lifts the limit.
    pub(crate) fn restrict(&mut self, restricted: bool) {
        self.account.restricted = restricted;
    }

    /// Ends the association, which makes no progress, because the endpoint is full.
    pub(crate) fn yield_to_others(&mut self) {
        mark!(GaveWay);
        let mut cause = Vec::new();
        Cause::OutOfResource.encode(&mut cause);
        self.abort_with(self.paths.active(), cause, CloseReason::GaveWay);
    }

    /// Records that the endpoint has accounted for `bytes` of this association.
    pub(crate) fn on_accounted(&mut self, bytes: usize) {
        self.account.accounted = bytes;
    }

    /// Bytes of the endpoint's memory that this association may still use.
    pub(super) fn memory_left(&self) -> usize {
        let memory = &self.surroundings.common.memory;
        // More than the size of its buffers makes no difference.
        let most = self.receive_buffer().max(self.send_buffer());
        if !self.account.restricted
            && let Some(plenty) = memory.plenty().filter(|plenty| *plenty >= most)
        {
            return plenty;
        }
        let held = self.memory();
        match self.account.restricted {
            true => memory.left_of_floor(held),
            false => memory.left(held, held.saturating_sub(self.account.accounted)),
        }
    }

    /// Whether the endpoint has memory for a message of `bytes`.
    pub(super) fn memory_has_room(&self, bytes: usize) -> bool {
        let memory = &self.surroundings.common.memory;
        if !self.account.restricted && memory.plenty().is_some_and(|plenty| bytes <= plenty) {
            return true;
        }
        let held = self.memory();
        match self.account.restricted {
            true => bytes <= memory.left_of_floor(held) || held == 0,
            false => memory.has_room(held, held.saturating_sub(self.account.accounted), bytes),
        }
    }
}
