//! Conversion of segments to and from bytes.

use bytes::{BufMut, Bytes, BytesMut};
use etherparse::{TcpHeader, TcpOptionElement, TcpSlice};

/// Bytes of a TCP header without options.
pub const HEADER: usize = TcpHeader::MIN_LEN;

/// Selective acknowledgements of one segment, newest first.
pub(crate) type Blocks = [Option<(u32, u32)>; 4];

/// One segment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Segment {
    pub(crate) source: u16,
    pub(crate) destination: u16,
    pub(crate) sequence: u32,
    /// Next byte expected, in all segments but the first.
    pub(crate) acknowledgment: Option<u32>,
    pub(crate) syn: bool,
    pub(crate) fin: bool,
    pub(crate) rst: bool,
    /// Flags of explicit congestion notification (RFC 3168): a mark is reported, and the window was lowered.
    pub(crate) ece: bool,
    pub(crate) cwr: bool,
    /// As in the header, unscaled.
    pub(crate) window: u16,
    pub(crate) mss: Option<u16>,
    pub(crate) window_scale: Option<u8>,
    pub(crate) sack_permitted: bool,
    /// Timestamp and echo (RFC 7323).
    pub(crate) timestamps: Option<(u32, u32)>,
    pub(crate) blocks: Blocks,
    pub(crate) payload: Bytes,
}

/// A segment that cannot be decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Malformed {
    #[error("the header or its options are cut short or wrong")]
    Header,
    #[error("the checksum is wrong")]
    Checksum,
}

impl Segment {
    /// The bytes of the segment, with a checksum or 0 in its place. The checksum does not cover addresses, because
    /// simulated segments have none.
    pub(crate) fn encode(&self, checksum: bool) -> Bytes {
        let mut header = TcpHeader::new(self.source, self.destination, self.sequence, self.window);
        header.ack = self.acknowledgment.is_some();
        header.acknowledgment_number = self.acknowledgment.unwrap_or(0);
        (header.syn, header.fin, header.rst) = (self.syn, self.fin, self.rst);
        (header.ece, header.cwr) = (self.ece, self.cwr);
        // Options need at most 4 + 3 + 2 + 10 bytes with a SYN, 2 + 32 without timestamps and 10 + 2 + 24 with them; 40
        // bytes are available.
        let written = header.set_options(&self.options());
        debug_assert_eq!(written, Ok(()));
        if checksum && let Ok(sum) = header.calc_checksum_ipv4_raw([0; 4], [0; 4], &self.payload) {
            header.checksum = sum;
        }
        let mut bytes = BytesMut::with_capacity(header.header_len() + self.payload.len());
        bytes.put_slice(&header.to_bytes());
        bytes.put_slice(&self.payload);
        bytes.freeze()
    }

    fn options(&self) -> Vec<TcpOptionElement> {
        let mut options = Vec::new();
        options.extend(self.mss.map(TcpOptionElement::MaximumSegmentSize));
        options.extend(self.window_scale.map(TcpOptionElement::WindowScale));
        if self.sack_permitted {
            options.push(TcpOptionElement::SelectiveAcknowledgementPermitted);
        }
        if let Some((value, echo)) = self.timestamps {
            // Aligned, as in RFC 7323 appendix A: 12 bytes.
            let padded = [TcpOptionElement::Noop, TcpOptionElement::Noop];
            options.extend(padded);
            options.push(TcpOptionElement::Timestamp(value, echo));
        }
        if let [Some(first), second, third, fourth] = self.blocks {
            let fourth = fourth.filter(|_| self.timestamps.is_none());
            options
                .push(TcpOptionElement::SelectiveAcknowledgement(first, [second, third, fourth]));
        }
        options
    }

    /// Decodes a segment, and verifies its checksum if it has one; its payload stays a slice of `bytes`.
    pub(crate) fn decode(bytes: &Bytes, checksum: bool) -> Result<Self, Malformed> {
        let slice = TcpSlice::from_slice(bytes).map_err(|_| Malformed::Header)?;
        if checksum && slice.calc_checksum_ipv4([0; 4], [0; 4]) != Ok(slice.checksum()) {
            return Err(Malformed::Checksum);
        }
        let mut segment = Self {
            source: slice.source_port(),
            destination: slice.destination_port(),
            sequence: slice.sequence_number(),
            acknowledgment: slice.ack().then(|| slice.acknowledgment_number()),
            syn: slice.syn(),
            fin: slice.fin(),
            rst: slice.rst(),
            ece: slice.ece(),
            cwr: slice.cwr(),
            window: slice.window_size(),
            payload: bytes.slice(slice.header_slice().len()..),
            ..Self::default()
        };
        for option in slice.options_iterator() {
            match option.map_err(|_| Malformed::Header)? {
                TcpOptionElement::MaximumSegmentSize(mss) => segment.mss = Some(mss),
                // RFC 7323 section 2.3: at most 14.
                TcpOptionElement::WindowScale(scale) => segment.window_scale = Some(scale.min(14)),
                TcpOptionElement::SelectiveAcknowledgementPermitted => {
                    segment.sack_permitted = true;
                }
                TcpOptionElement::SelectiveAcknowledgement(first, [second, third, fourth]) => {
                    segment.blocks = [Some(first), second, third, fourth];
                }
                TcpOptionElement::Timestamp(value, echo) => {
                    segment.timestamps = Some((value, echo));
                }
                TcpOptionElement::Noop => {}
            }
        }
        Ok(segment)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn blocks() -> impl Strategy<Value = Blocks> {
        proptest::collection::vec(any::<(u32, u32)>(), 0..=4).prop_map(|blocks| {
            let mut all = Blocks::default();
            all.iter_mut().zip(blocks).for_each(|(to, block)| *to = Some(block));
            all
        })
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(
            (source, destination, window) in any::<(u16, u16, u16)>(),
            (sequence, acknowledgment) in any::<(u32, Option<u32>)>(),
            (syn, fin, rst, sack_permitted) in any::<(bool, bool, bool, bool)>(),
            handshake in any::<Option<(u16, Option<bool>)>>(),
            timestamps in any::<Option<(u32, u32)>>(),
            mut blocks in blocks(),
            payload in proptest::collection::vec(any::<u8>(), 0..50),
        ) {
            if timestamps.is_some() {
                // A fourth block does not fit.
                blocks[3] = None;
            }
            let segment = Segment {
                timestamps,
                source, destination, sequence, acknowledgment, syn, fin, rst, window,
                ece: payload.len() % 2 == 1,
                cwr: payload.len() % 3 == 1,
                mss: handshake.map(|(mss, _)| mss),
                window_scale: handshake.and_then(|(_, scale)| scale.map(|s| u8::from(s) * 14)),
                // Both kinds of options together do not fit and are never sent.
                sack_permitted: sack_permitted && handshake.is_some(),
                blocks: if handshake.is_some() { Blocks::default() } else { blocks },
                payload: payload.into(),
            };
            let bytes = segment.encode(true);
            prop_assert_eq!(Segment::decode(&bytes, true), Ok(segment.clone()));
            prop_assert_eq!(Segment::decode(&segment.encode(false), false), Ok(segment));
        }

        #[test]
        fn any_bytes_are_read_without_harm(bytes in proptest::collection::vec(any::<u8>(), 0..80)) {
            let _ = Segment::decode(&bytes.into(), false);
        }
    }

    #[test]
    fn damage_is_noticed() {
        let segment = Segment { payload: Bytes::from_static(b"data"), ..Segment::default() };
        let mut bytes = segment.encode(true).to_vec();
        bytes[21] ^= 4;
        assert_eq!(Segment::decode(&bytes.into(), true), Err(Malformed::Checksum));
        assert_eq!(Segment::decode(&Bytes::from_static(&[0; 19]), true), Err(Malformed::Header));
    }
}
