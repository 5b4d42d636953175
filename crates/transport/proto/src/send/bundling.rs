//! Decides whether small messages wait to share a packet with later ones (RFC 9260 section 6.10;
//! hurtig 3.1).
//!
//! A packet is full-sized if the next message would not fit into the rest of it. Message boundaries are
//! preserved, so a packet shorter than the path MTU might not become longer however long it waits.
//! [`Bundling::MinshallPathMtu`] has the other definition, for comparison.

use crate::named::named;
use crate::options::words;
use crate::stats::HeldBack;
use crate::time::Instant;

/// When messages that do not fill a packet wait for more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "kebab-case"))]
#[non_exhaustive]
pub enum Bundling {
    /// Never: only messages that wait for another reason share a packet.
    None,
    /// While anything is outstanding (RFC 896; as kernels do without SCTP_NODELAY).
    Nagle,
    /// While a packet that was not full-sized is outstanding (Minshall). The last packet of a large
    /// message does not wait for the earlier ones.
    Minshall,
    /// The same; in addition, a packet that was not full-sized requests an immediate acknowledgement (RFC
    /// 7053), so later data waits for a round trip and not for a delayed acknowledgement.
    Prompt,
    /// Like Minshall, but every packet shorter than the path MTU counts as not full-sized.
    MinshallPathMtu,
}

named!(Bundling {
    None = "none",
    Nagle = "nagle",
    Minshall = "minshall",
    Prompt = "prompt",
    MinshallPathMtu = "minshall-mtu",
});
words!(Bundling);

/// The state of waiting messages and of small packets; it exists if an option needs it.
#[derive(Debug, Default)]
pub(crate) struct Bundle {
    /// The number of waiting messages.
    messages: usize,
    /// Their bytes, each padded as in one chunk.
    bytes: usize,
    /// The number of them that must not wait.
    urgent: usize,
    /// The user sends no more messages.
    ends: bool,
    /// The highest TSN in the last packet that was not full-sized.
    small: Option<u64>,
    /// When a small packet was first held back.
    since: Option<Instant>,
    held: HeldBack,
}

/// The length of a chunk's user data with its padding.
fn padded(length: usize) -> usize {
    length.next_multiple_of(4)
}

impl Bundle {
    /// Adds a message, or the rest of one, that waits now.
    pub(crate) fn on_waits(&mut self, length: usize, urgent: bool) {
        self.messages += 1;
        self.bytes += padded(length);
        self.urgent += usize::from(urgent);
    }

    /// Removes a waiting message of this length.
    pub(crate) fn on_gone(&mut self, length: usize, urgent: bool) {
        self.messages -= 1;
        self.bytes -= padded(length);
        self.urgent -= usize::from(urgent);
    }

    /// Records that a part of a waiting message was sent.
    pub(crate) fn on_cut(&mut self, before: usize, left: usize) {
        self.bytes = self.bytes - padded(before) + padded(left);
    }

    /// Records that a packet was sent whose last TSN is `last`.
    pub(crate) fn on_sent(&mut self, now: Instant, last: u64, full_sized: bool) {
        if !full_sized {
            self.small = Some(last);
        }
        if let Some(since) = self.since.take() {
            self.held.times += 1;
            self.held.time += now.saturating_since(since);
        }
    }

    /// Records that a packet is held back now.
    pub(crate) fn on_held(&mut self, now: Instant) {
        self.since.get_or_insert(now);
    }

    /// Records that no message follows the waiting ones.
    pub(crate) fn on_end(&mut self) {
        self.ends = true;
    }

    /// Handles a restart of the peer: nothing is outstanding, and the user may send again.
    pub(crate) fn restart(&mut self) {
        (self.small, self.since, self.ends) = (None, None, false);
    }

    /// Whether the waiting messages may wait for more: as chunks with a header of `header` bytes they do not fill `room`
    /// bytes, none is urgent, and more may follow.
    pub(crate) fn may_wait(&self, room: usize, header: usize) -> bool {
        self.urgent == 0 && !self.ends && self.bytes + self.messages * header < room
    }

    /// The last chunk of the last packet that was not full-sized.
    pub(crate) fn small(&self) -> Option<u64> {
        self.small
    }

    /// How long messages were held back.
    pub(crate) fn held(&self) -> HeldBack {
        self.held
    }
}
