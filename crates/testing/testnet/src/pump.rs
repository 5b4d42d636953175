//! The common part of all engine drivers.
//!
//! ```
//! use std::sync::Arc;
//! use anabranch_proto::{AssociationConfig, ConnectRequest, Endpoint, EndpointConfig, Instant};
//! use anabranch_testnet::pump::{self, Batch};
//!
//! let mut now = Instant::ZERO;
//! let mut ends = [1, 2].map(|seed| Endpoint::new(EndpointConfig::default(), [seed; 32]));
//! let addresses = ["10.0.0.1".parse()?, "10.0.0.2".parse()?];
//! for (end, address) in ends.iter_mut().zip(addresses) {
//!     end.set_local_addresses(now, &[address]);
//! }
//! ends[1].listen(7, Arc::new(AssociationConfig::default()))?;
//! let id = ends[0].connect(now, ConnectRequest::new(vec![addresses[1]], 7))?;
//! while !ends[0].association(id).unwrap().is_established() {
//!     for from in [0, 1] {
//!         while let Some(batch) = Batch::take(&mut ends[from], now, 16) {
//!             let arrival = pump::arrival(&batch.transmit, 9899);
//!             ends[1 - from].handle_batch(now, &arrival, batch.bytes);
//!         }
//!     }
//!     now = now.max(pump::next_deadline(&ends).unwrap());
//!     pump::expire(&mut ends[0], now);
//!     pump::expire(&mut ends[1], now);
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use anabranch_proto::{Endpoint, Instant, Received, Transmit};
use bytes::Bytes;

/// Lets an engine append its next packets, at most `segments`, to an empty buffer.
///
/// # Panics
/// Panics if the appended bytes do not match the returned description.
pub fn poll(
    endpoint: &mut Endpoint,
    now: Instant,
    segments: usize,
    buffer: &mut Vec<u8>,
) -> Option<Transmit> {
    debug_assert!(buffer.is_empty(), "what was sent before is still there");
    let transmit = endpoint.poll_transmit(now, segments, buffer);
    if let Some(Transmit { len, segment_size, .. }) = transmit {
        assert_eq!(len, buffer.len(), "the length of what was appended");
        assert!(len > 0 && segment_size > 0, "an empty packet");
        assert!(len <= segment_size.saturating_mul(segments), "more than {segments} packets");
    }
    transmit
}

/// The packets of a batch.
pub fn packets(whole: Bytes, segment_size: usize) -> impl Iterator<Item = Bytes> {
    let segment_size = segment_size.max(1);
    let starts = (0..whole.len()).step_by(segment_size);
    starts.map(move |start| whole.slice(start..whole.len().min(start + segment_size)))
}

/// The arrival of a batch at the other end, unchanged and from this UDP source port.
pub fn arrival(transmit: &Transmit, udp_port: u16) -> Received {
    Received {
        local: transmit.remote,
        remote: transmit.local,
        remote_udp_port: udp_port,
        ecn: transmit.ecn,
        segment_size: transmit.segment_size,
    }
}

/// Packets of equal size that leave together; the last may be shorter.
#[derive(Clone, Debug)]
pub struct Batch {
    /// Destination and other properties.
    pub transmit: Transmit,
    /// The packets, one after the other.
    pub bytes: Bytes,
}

impl Batch {
    /// The next batch of an engine, in its own memory.
    pub fn take(endpoint: &mut Endpoint, now: Instant, segments: usize) -> Option<Self> {
        let mut buffer = Vec::new();
        let transmit = poll(endpoint, now, segments, &mut buffer)?;
        Some(Self { transmit, bytes: buffer.into() })
    }

    /// Its packets.
    pub fn packets(&self) -> impl Iterator<Item = Bytes> {
        packets(self.bytes.clone(), self.transmit.segment_size)
    }
}

/// The earliest deadline of some engines.
pub fn next_deadline<'a>(endpoints: impl IntoIterator<Item = &'a Endpoint>) -> Option<Instant> {
    endpoints.into_iter().filter_map(Endpoint::next_deadline).min()
}

/// Handles the due deadlines of an engine; returns whether there were any.
///
/// # Panics
/// Panics if the deadline is still due afterwards: a driver that advances from deadline to deadline
/// would never make progress.
pub fn expire(endpoint: &mut Endpoint, now: Instant) -> bool {
    if endpoint.next_deadline().is_none_or(|due| due > now) {
        return false;
    }
    endpoint.handle_timeout(now);
    let next = endpoint.next_deadline();
    assert!(next.is_none_or(|next| next > now), "a deadline that nothing moves");
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_is_cut_by_its_segment_size() {
        let cut = |length: usize, size| {
            let whole = Bytes::from(vec![0; length]);
            packets(whole, size).map(|packet| packet.len()).collect::<Vec<_>>()
        };
        assert_eq!(cut(10, 4), [4, 4, 2]);
        assert_eq!(cut(8, 4), [4, 4]);
        assert_eq!(cut(3, 4), [3]);
        assert_eq!(cut(0, 4), [0; 0]);
    }
}
