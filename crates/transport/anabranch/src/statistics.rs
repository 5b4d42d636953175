//! Totals of an endpoint.

/// Totals of an endpoint.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct EndpointStatistics {
    /// Associations that have not ended.
    pub associations: usize,
    /// UDP datagrams sent.
    pub datagrams_sent: u64,
    /// Number of calls that sent them; with segmentation offload, one call sends several.
    pub send_calls: u64,
    /// UDP datagrams received.
    pub datagrams_received: u64,
    /// Number of batches in which they were received.
    pub batches_received: u64,
    /// Datagrams that could not be sent.
    pub send_errors: u64,
    /// Datagrams dropped because a queue of this host was full.
    pub datagrams_dropped: u64,
    /// Bytes in the receive and send buffers of all associations.
    pub memory_used: usize,
}

impl EndpointStatistics {
    /// Adds the values of another shard.
    pub(crate) fn add(&mut self, other: &Self) {
        self.associations += other.associations;
        self.datagrams_sent += other.datagrams_sent;
        self.send_calls += other.send_calls;
        self.datagrams_received += other.datagrams_received;
        self.batches_received += other.batches_received;
        self.send_errors += other.send_errors;
        self.datagrams_dropped += other.datagrams_dropped;
        self.memory_used += other.memory_used;
    }
}
