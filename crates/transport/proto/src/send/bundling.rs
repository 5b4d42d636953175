//! Decides whether small messages wait to share a packet with later ones (RFC 9260 section 6.10;
//! hurtig 3.1).
//!
//! A packet is full-sized if the next message would not fit into the rest of it. Message boundaries
//! are preserved, so a packet shorter than the path MTU may not become longer however long it
//! waits. [`Bundling::MinshallPathMtu`] has the other definition, for comparison.

use crate::named::named;
use crate::options::words;
use crate::send::outstanding::size_with;
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
    /// While a packet that was not full-sized is outstanding (Minshall). The end of a large message
    /// does not wait for the rest of it.
    Minshall,
    /// The same, and a packet that was not full-sized asks to be acknowledged at once (RFC 7053), so that
    /// later data waits for a round trip and not for a delayed acknowledgement.
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

/// State of waiting messages and of small packets, while an option needs it.
#[derive(Debug, Default)]
pub(crate) struct Bundle {
    /// Bytes on the wire of the messages that wait, each as one chunk.
    wire: usize,
    /// Messages among them that do not wait.
    urgent: usize,
    /// The user sends no more messages.
    ends: bool,
    /// The highest TSN in the last packet that was not full-sized.
    small: Option<u64>,
    /// Since when a small packet is held back.
    since: Option<Instant>,
    held: HeldBack,
}

impl Bundle {
    /// A message, or the rest of one, waits now.
    pub(crate) fn on_waits(&mut self, length: usize, urgent: bool) {
        self.wire += size_with(length);
        self.urgent += usize::from(urgent);
    }

    /// A message that waited with this length no longer does.
    pub(crate) fn on_gone(&mut self, length: usize, urgent: bool) {
        self.wire -= size_with(length);
        self.urgent -= usize::from(urgent);
    }

    /// A part of a waiting message was sent.
    pub(crate) fn on_cut(&mut self, before: usize, left: usize) {
        self.wire = self.wire - size_with(before) + size_with(left);
    }

    /// A packet was sent whose last TSN is `tsn`; it was full-sized or not.
    pub(crate) fn on_sent(&mut self, now: Instant, last: u64, full_sized: bool) {
        if !full_sized {
            self.small = Some(last);
        }
        if let Some(since) = self.since.take() {
            self.held.times += 1;
            self.held.time += now.saturating_since(since);
        }
    }

    /// A packet is held back now.
    pub(crate) fn on_held(&mut self, now: Instant) {
        self.since.get_or_insert(now);
    }

    /// Nothing follows the waiting messages.
    pub(crate) fn on_end(&mut self) {
        self.ends = true;
    }

    /// The peer lost its state: nothing is outstanding, and the user may send again.
    pub(crate) fn restart(&mut self) {
        (self.small, self.since, self.ends) = (None, None, false);
    }

    /// Whether the waiting messages may wait for more: they do not fill `room` bytes, none is urgent,
    /// and more may follow.
    pub(crate) fn may_wait(&self, room: usize) -> bool {
        self.urgent == 0 && !self.ends && self.wire < room
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
