//! Counters of a link.

/// Counters of a [`Link`](crate::Link) since it was created.
///
/// At any time `offered + duplicated` equals `delivered + lost_model + lost_down + queue_drops +
/// early_drops + too_big` plus the packets still in the link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct LinkStats {
    /// Packets passed to `send`.
    pub offered: u64,
    /// Bytes passed to `send`, without overhead.
    pub offered_bytes: u64,
    /// Packets returned by `poll`, duplicates included.
    pub delivered: u64,
    /// Bytes returned by `poll`, without overhead.
    pub delivered_bytes: u64,
    /// Packets lost by the loss model.
    pub lost_model: u64,
    /// Packets lost because the link was down, or went down while they were in it.
    pub lost_down: u64,
    /// Packets dropped because the queue was full.
    pub queue_drops: u64,
    /// Packets dropped by RED or CoDel.
    pub early_drops: u64,
    /// Packets that RED or CoDel marked instead of dropping them.
    pub marked: u64,
    /// Packets larger than the MTU, whether or not they were reported.
    pub too_big: u64,
    /// Additional copies created.
    pub duplicated: u64,
    /// Packets delivered after one that was offered later (RFC 4737 section 3.3).
    pub reordered: u64,
    /// Packets in which a bit was flipped.
    pub corrupted: u64,
    /// Maximum number of packets that waited for the transmitter, not including the one being sent.
    pub max_queue_packets: u64,
    /// Maximum number of bytes that waited for the transmitter, including overhead.
    pub max_queue_bytes: u64,
}
