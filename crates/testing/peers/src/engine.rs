//! The interface between a driver and an SCTP engine without I/O.

use bytes::Bytes;

/// An association of any SCTP implementation, without I/O.
///
/// All times are nanoseconds since the engine was created and never decrease. After any call with a
/// time, [`Engine::transmit`] returns the packets to send.
pub trait Engine {
    /// The name of the implementation.
    fn name(&self) -> &'static str;

    /// Starts the handshake; the other side only waits.
    fn connect(&mut self, now: u64);

    /// Whether the handshake is complete on this side and the association has not ended since.
    fn established(&self) -> bool;

    /// Whether the association was established once and has ended, gracefully or not.
    fn closed(&self) -> bool;

    /// Queues `message` on `stream`. Returns `false` if the send buffer is full or the association
    /// accepts no more messages; nothing was queued then.
    fn send(&mut self, now: u64, stream: u16, ordered: bool, message: &Bytes) -> bool;

    /// Bytes of queued messages that are not known to be in flight or acknowledged, if the
    /// implementation reports that. Zero means that a graceful end loses nothing.
    fn buffered(&mut self) -> usize;

    /// The next whole message that arrived, if any.
    fn receive(&mut self) -> Option<Received>;

    /// Processes packets that have arrived.
    fn handle(&mut self, now: u64, packets: Packets);

    /// Passes everything to be sent now to `out`.
    fn transmit(&mut self, now: u64, out: &mut dyn FnMut(Packets));

    /// When [`Engine::timeout`] must be called next.
    fn deadline(&mut self) -> Option<u64>;

    /// Handles timers that are due at `now`.
    fn timeout(&mut self, now: u64);

    /// Starts a graceful shutdown (SHUTDOWN).
    fn shutdown(&mut self, now: u64);

    /// Aborts the association immediately (ABORT).
    fn abort(&mut self, now: u64);

    /// Resets an outgoing stream (RFC 6525) on which nothing is queued. Returns whether that has begun.
    fn reset_stream(&mut self, _now: u64, _stream: u16) -> bool {
        false
    }

    /// The next stream that the other side has reset, if any.
    fn next_reset(&mut self) -> Option<u16> {
        None
    }

    /// Whether [`Engine::abort`] sends an ABORT chunk to the other side.
    fn sends_abort(&self) -> bool {
        true
    }

    /// The engine's own state, for messages about a failed run.
    fn describe(&self) -> String {
        format!("{}, established: {}, closed: {}", self.name(), self.established(), self.closed())
    }

    /// Whether a graceful end delivers queued messages. RFC 9260 section 9.2 requires it.
    fn shutdown_flushes(&self) -> bool {
        true
    }
}

/// Packets for one path in one buffer, as segmentation offload uses them.
#[derive(Clone, Debug)]
pub struct Packets {
    /// The packets, one after the other.
    pub data: Bytes,
    /// The length of every packet; the last one may be shorter.
    pub segment: usize,
    /// For engines with several addresses, the numbers of the sender's address (upper four bits)
    /// and of the receiver's (lower four bits); otherwise zero.
    pub path: u8,
}

impl Packets {
    /// A single packet on path zero.
    pub fn one(data: Bytes) -> Self {
        let segment = data.len();
        Packets { data, segment, path: 0 }
    }

    /// Number of packets.
    pub fn count(&self) -> usize {
        self.data.len().div_ceil(self.segment.max(1))
    }

    /// The packets from `from` up to but not including `to`, without copying.
    pub fn range(&self, from: usize, to: usize) -> Packets {
        let at = |n: usize| n.saturating_mul(self.segment).min(self.data.len());
        Packets {
            data: self.data.slice(at(from)..at(to).max(at(from))),
            segment: self.segment,
            path: self.path,
        }
    }

    /// Each packet separately, without copying.
    pub fn each(self) -> impl Iterator<Item = Bytes> {
        let mut rest = self.data;
        let segment = self.segment.max(1);
        std::iter::from_fn(move || {
            if rest.is_empty() {
                return None;
            }
            let length = segment.min(rest.len());
            Some(rest.split_to(length))
        })
    }
}

/// A message that arrived.
#[derive(Debug)]
pub struct Received {
    /// The stream on which it came.
    pub stream: u16,
    /// Its contents, in the engine's own form.
    pub body: Body,
}

/// The bytes of a message in the form in which the engine returns them, so that measuring copies
/// nothing.
#[derive(Debug)]
pub enum Body {
    /// One vector.
    Vec(Vec<u8>),
    /// Slices of the received packets, in order.
    Parts(Vec<Bytes>),
    /// anabranch's form: slices of the received packets.
    Payload(anabranch_proto::Payload),
    /// rtc-sctp's form: fragments that it copies out.
    RtcSctp(rtc_sctp::Chunks),
    /// sctp-proto's form: fragments that it copies out.
    SctpProto(sctp_proto::Chunks),
}

impl Body {
    /// Length in bytes.
    pub fn len(&self) -> usize {
        match self {
            Body::Vec(bytes) => bytes.len(),
            Body::Parts(parts) => parts.iter().map(Bytes::len).sum(),
            Body::Payload(payload) => payload.len(),
            Body::RtcSctp(chunks) => chunks.len(),
            Body::SctpProto(chunks) => chunks.len(),
        }
    }

    /// Whether there are no bytes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// All bytes in one vector.
    pub fn into_vec(self) -> Vec<u8> {
        match self {
            Body::Vec(bytes) => bytes,
            Body::Parts(parts) => parts.concat(),
            Body::Payload(payload) => payload.into_bytes().into(),
            Body::RtcSctp(chunks) => {
                let mut all = vec![0; chunks.len()];
                let read = chunks.read(&mut all).unwrap_or(0);
                all.truncate(read);
                all
            }
            Body::SctpProto(chunks) => {
                let mut all = vec![0; chunks.len()];
                let read = chunks.read(&mut all).unwrap_or(0);
                all.truncate(read);
                all
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn batch() -> Packets {
        Packets { data: Bytes::from_static(b"aaaabbbbcc"), segment: 4, path: 1 }
    }

    #[test]
    fn a_batch_falls_into_its_packets() {
        let packets: Vec<Bytes> = batch().each().collect();
        assert_eq!(packets, [&b"aaaa"[..], b"bbbb", b"cc"]);
        assert_eq!(batch().count(), 3);
    }

    #[test]
    fn a_range_of_a_batch_keeps_its_segment_and_path() {
        let tail = batch().range(1, 3);
        assert_eq!(tail.data, &b"bbbbcc"[..]);
        assert_eq!((tail.segment, tail.path), (4, 1));
        assert_eq!(batch().range(2, 2).data.len(), 0);
        assert_eq!(batch().range(2, 9).data, &b"cc"[..]);
    }

    #[test]
    fn one_packet_is_a_batch_of_one() {
        let one = Packets::one(Bytes::from_static(b"abc"));
        assert_eq!(one.count(), 1);
        assert_eq!(one.each().collect::<Vec<_>>(), [&b"abc"[..]]);
    }
}
