//! Builds packets.

use core::fmt;

use alloc::vec::Vec;

use crate::chunk::{Chunk, Data, IData, SkippedMessage, SkippedStream, kind, put_fixed};
use crate::list::{Element, GapBlock};
use crate::packet::{Chunks, HEADER_LEN, Header};
use crate::serial::Tsn;
use crate::tlv::{self, padded};

/// The chunk does not fit into the rest of the packet. The packet is unchanged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoRoom;

impl fmt::Display for NoRoom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("no room for the chunk in the packet")
    }
}

impl core::error::Error for NoRoom {}

/// Appends one packet to a buffer, chunk by chunk.
///
/// A buffer can hold several consecutive packets, as a send call with segmentation offload requires.
/// A writer that is dropped without [`finish`](Self::finish) or [`cancel`](Self::cancel) leaves a
/// packet with a checksum of zero.
#[derive(Debug)]
#[must_use = "a packet has to be finished or cancelled"]
pub struct PacketWriter<'b> {
    buf: &'b mut Vec<u8>,
    /// Where the packet starts in the buffer.
    start: usize,
    /// The limit for its end; a multiple of four from its start.
    end: usize,
}

impl<'b> PacketWriter<'b> {
    /// Starts a packet of at most `limit` bytes at the end of `buf`.
    ///
    /// A limit below the 12 bytes of the header counts as 12, a limit above the
    /// 65535 bytes of an IP datagram as 65532.
    #[inline]
    pub fn new(buf: &'b mut Vec<u8>, header: Header, limit: usize) -> Self {
        let start = buf.len();
        let limit = limit.clamp(HEADER_LEN, tlv::MAX_LEN) & !3;
        buf.reserve(limit);
        buf.extend_from_slice(&header.to_bytes());
        let end = start + limit;
        Self { buf, start, end }
    }

    /// Size of the packet so far, in bytes.
    #[inline]
    #[must_use]
    pub fn len(&self) -> usize {
        self.buf.len() - self.start
    }

    /// Maximum size of the next chunk in bytes, including its header and padding.
    #[inline]
    #[must_use]
    pub fn remaining(&self) -> usize {
        self.end - self.buf.len()
    }

    /// Keeps `bytes` free for [`insert_first`](Self::insert_first): other chunks find that much less room.
    pub fn hold_back(&mut self, bytes: usize) {
        self.end = self.end.saturating_sub(bytes).max(self.buf.len());
    }

    /// Inserts a chunk before all others, into the room that was held back for it. Returns the chunks of the packet, from
    /// this one on.
    ///
    /// # Errors
    ///
    /// [`NoRoom`] if the packet would be longer than an IP datagram.
    pub fn insert_first(&mut self, chunk: &Chunk<'_>) -> Result<&mut [u8], NoRoom> {
        let before = self.buf.len();
        chunk.encode(self.buf);
        let inserted = self.buf.len() - before;
        if self.len() > tlv::MAX_LEN {
            self.buf.truncate(before);
            return Err(NoRoom);
        }
        self.end = self.end.max(self.buf.len());
        let chunks = self.buf.get_mut(self.start + HEADER_LEN..).unwrap_or_default();
        chunks.rotate_right(inserted);
        Ok(chunks)
    }

    /// The chunks so far.
    #[must_use]
    pub fn chunks(&self) -> Chunks<'_> {
        Chunks::of(self.buf.get(self.start..).unwrap_or_default())
    }

    /// Whether the packet has no chunk yet.
    #[inline]
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == HEADER_LEN
    }

    /// Appends a chunk.
    ///
    /// # Errors
    ///
    /// [`NoRoom`] if it is longer than [`remaining`](Self::remaining).
    pub fn chunk(&mut self, chunk: &Chunk<'_>) -> Result<(), NoRoom> {
        let before = self.buf.len();
        chunk.encode(self.buf);
        if self.buf.len() > self.end {
            self.buf.truncate(before);
            return Err(NoRoom);
        }
        Ok(())
    }

    /// Appends a DATA chunk.
    ///
    /// # Errors
    ///
    /// [`NoRoom`] if it is longer than [`remaining`](Self::remaining).
    #[inline]
    pub fn data(&mut self, data: &Data<'_>) -> Result<(), NoRoom> {
        let length = Data::HEADER_LEN + data.payload.len();
        if padded(length) > self.remaining() {
            return Err(NoRoom);
        }
        // A packet is at most as long as its 16-bit limit, and so is a chunk.
        self.put(&data.header(length as u16), data.payload);
        Ok(())
    }

    /// Appends an I-DATA chunk.
    ///
    /// # Errors
    ///
    /// [`NoRoom`] if it is longer than [`remaining`](Self::remaining).
    #[inline]
    pub fn i_data(&mut self, data: &IData<'_>) -> Result<(), NoRoom> {
        let length = IData::HEADER_LEN + data.payload.len();
        if padded(length) > self.remaining() {
            return Err(NoRoom);
        }
        self.put(&data.header(length as u16), data.payload);
        Ok(())
    }

    /// Appends a chunk, for which there is room.
    #[inline]
    fn put(&mut self, header: &[u8], payload: &[u8]) {
        self.buf.extend_from_slice(header);
        self.buf.extend_from_slice(payload);
        self.buf.extend_from_slice(tlv::padding(header.len() + payload.len()));
    }

    /// Appends a SACK.
    ///
    /// # Errors
    ///
    /// [`NoRoom`] if it is longer than [`remaining`](Self::remaining): 16 bytes
    /// and 4 for each block and duplicate.
    pub fn sack(
        &mut self,
        cumulative_tsn_ack: Tsn,
        a_rwnd: u32,
        gaps: &[GapBlock],
        duplicates: &[Tsn],
    ) -> Result<(), NoRoom> {
        let length = 16 + 4 * (gaps.len() + duplicates.len());
        self.start_chunk(kind::SACK, length)?;
        put_fixed(self.buf, cumulative_tsn_ack, a_rwnd, (gaps.len(), None, duplicates.len()));
        self.list(gaps);
        self.list(duplicates);
        Ok(())
    }

    /// Sets the flags of the chunk that begins `at` bytes into the packet; does nothing if there is no
    /// chunk.
    pub fn set_flags(&mut self, at: usize, flags: u8) {
        if let Some(byte) = self.buf.get_mut(self.start + at + 1) {
            *byte = flags;
        }
    }

    /// Appends an NR-SACK.
    ///
    /// # Errors
    ///
    /// [`NoRoom`] if it is longer than [`remaining`](Self::remaining): 20 bytes
    /// and 4 for each block and duplicate.
    pub fn nr_sack(
        &mut self,
        cumulative_tsn_ack: Tsn,
        a_rwnd: u32,
        gaps: &[GapBlock],
        nr_gaps: &[GapBlock],
        duplicates: &[Tsn],
    ) -> Result<(), NoRoom> {
        let length = 20 + 4 * (gaps.len() + nr_gaps.len() + duplicates.len());
        self.start_chunk(kind::NR_SACK, length)?;
        let counts = (gaps.len(), Some(nr_gaps.len()), duplicates.len());
        put_fixed(self.buf, cumulative_tsn_ack, a_rwnd, counts);
        self.list(gaps);
        self.list(nr_gaps);
        self.list(duplicates);
        Ok(())
    }

    /// Appends a FORWARD TSN.
    ///
    /// # Errors
    ///
    /// [`NoRoom`] if it is longer than [`remaining`](Self::remaining): 8 bytes
    /// and 4 for each stream.
    pub fn forward_tsn(
        &mut self,
        new_cumulative_tsn: Tsn,
        streams: &[SkippedStream],
    ) -> Result<(), NoRoom> {
        self.start_chunk(kind::FORWARD_TSN, 8 + 4 * streams.len())?;
        self.buf.extend_from_slice(&new_cumulative_tsn.0.to_be_bytes());
        self.list(streams);
        Ok(())
    }

    /// Appends an I-FORWARD-TSN.
    ///
    /// # Errors
    ///
    /// [`NoRoom`] if it is longer than [`remaining`](Self::remaining): 8 bytes
    /// and 8 for each stream.
    pub fn i_forward_tsn(
        &mut self,
        new_cumulative_tsn: Tsn,
        streams: &[SkippedMessage],
    ) -> Result<(), NoRoom> {
        self.start_chunk(kind::I_FORWARD_TSN, 8 + 8 * streams.len())?;
        self.buf.extend_from_slice(&new_cumulative_tsn.0.to_be_bytes());
        self.list(streams);
        Ok(())
    }

    /// Appends a chunk of any type.
    ///
    /// # Errors
    ///
    /// [`NoRoom`] if it is longer than [`remaining`](Self::remaining).
    pub fn raw(&mut self, kind: u8, flags: u8, value: &[u8]) -> Result<(), NoRoom> {
        let length = 4 + value.len();
        if padded(length) > self.remaining() {
            return Err(NoRoom);
        }
        let start = self.buf.len();
        tlv::write(self.buf, [kind, flags], |out| out.extend_from_slice(value));
        tlv::pad(self.buf, start);
        Ok(())
    }

    /// Appends a PAD chunk that makes the packet exactly `len` bytes long, or
    /// nothing if it already has that length.
    ///
    /// # Errors
    ///
    /// [`NoRoom`] if the packet is longer, if its limit is lower, or if `len` is
    /// not a multiple of four.
    pub fn pad_to(&mut self, len: usize) -> Result<(), NoRoom> {
        let missing = len.checked_sub(self.len()).ok_or(NoRoom)?;
        if missing == 0 {
            return Ok(());
        }
        if missing % 4 != 0 {
            return Err(NoRoom);
        }
        self.start_chunk(kind::PAD, missing)?;
        self.buf.resize(self.start + len, 0);
        Ok(())
    }

    /// Sets the CRC32c and returns the length of the packet.
    #[cfg(feature = "checksum")]
    #[inline]
    // req: rfc6951 5.3 "The SCTP checksum MUST be computed for IPv4"
    // req: rfc9260 6.8 "the transmitter MUST"
    // req: rfc9260 6.10 "Partial chunks MUST NOT be placed in an"
    pub fn finish(self) -> usize {
        if let Some(packet) = self.buf.get_mut(self.start..) {
            crate::checksum::fill(packet);
        }
        self.len()
    }

    /// Leaves the checksum zero, for a lower layer that protects the packet
    /// (RFC 9653) or for hardware that fills it in. Returns the length of the
    /// packet.
    #[inline]
    pub fn finish_without_checksum(self) -> usize {
        self.len()
    }

    /// Removes the whole packet.
    pub fn cancel(self) {
        self.buf.truncate(self.start);
    }

    /// Writes the header of a chunk without flags that is `length` bytes long,
    /// a multiple of four.
    fn start_chunk(&mut self, kind: u8, length: usize) -> Result<(), NoRoom> {
        if length > self.remaining() {
            return Err(NoRoom);
        }
        let [a, b] = (length as u16).to_be_bytes();
        self.buf.extend_from_slice(&[kind, 0, a, b]);
        Ok(())
    }

    fn list<T: Element>(&mut self, items: &[T]) {
        for item in items {
            item.write(self.buf);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chunk::{DataFlags, NrSack, Sack};
    use crate::list::{GapBlocks, List, TsnList};
    use crate::packet::Packet;
    use crate::ppid::Ppid;
    use crate::serial::Ssn;

    const HEADER: Header =
        Header { source_port: 5001, destination_port: 9899, verification_tag: 0x1a2b_3c4d };

    fn data(payload: &[u8]) -> Data<'_> {
        Data {
            flags: DataFlags(DataFlags::BEGIN),
            tsn: Tsn(18),
            stream: 1,
            ssn: Ssn(4),
            ppid: Ppid::NGAP,
            payload,
        }
    }

    fn decode(bytes: &[u8]) -> Vec<Chunk<'_>> {
        let packet = Packet::parse(bytes).unwrap();
        assert_eq!(packet.header(), HEADER);
        packet.chunks().map(|chunk| chunk.unwrap().decode().unwrap()).collect()
    }

    // test: rfc9260 3.2 "MUST be a multiple of 4 bytes"
    #[test]
    fn chunks_come_back() {
        for len in 0..9 {
            let payload = vec![7; len];
            let mut buf = Vec::new();
            let mut writer = PacketWriter::new(&mut buf, HEADER, 100);
            assert!(writer.is_empty());
            writer.data(&data(&payload)).unwrap();
            assert!(!writer.is_empty());
            writer.chunk(&Chunk::Data(data(&payload))).unwrap();
            writer.raw(0xfe, 3, &payload).unwrap();
            assert_eq!(writer.len() % 4, 0);
            assert_eq!(writer.remaining(), 100 - writer.len());
            assert_eq!(writer.finish_without_checksum(), buf.len());
            let chunks = decode(&buf);
            assert_eq!(chunks[..2], [Chunk::Data(data(&payload)); 2]);
            assert!(matches!(&chunks[2], Chunk::Unknown(raw)
                if (raw.kind, raw.flags, raw.value) == (0xfe, 3, &payload[..])));
        }
    }

    #[test]
    fn acks_come_back() {
        let gaps = [GapBlock { start: 2, end: 3 }, GapBlock { start: 5, end: 5 }];
        let nr_gaps = [GapBlock { start: 7, end: 9 }];
        let duplicates = [Tsn(9)];
        let skipped = [SkippedStream { stream: 1, ssn: Ssn(2) }];
        let messages = [SkippedMessage { stream: 1, unordered: true, mid: 7 }];
        let mut buf = Vec::new();
        let mut writer = PacketWriter::new(&mut buf, HEADER, 120);
        writer.sack(Tsn(17), 65536, &gaps, &duplicates).unwrap();
        writer.nr_sack(Tsn(17), 65536, &gaps, &nr_gaps, &duplicates).unwrap();
        writer.forward_tsn(Tsn(20), &skipped).unwrap();
        writer.i_forward_tsn(Tsn(20), &messages).unwrap();
        assert_eq!(writer.finish_without_checksum(), 12 + 28 + 36 + 12 + 16);

        let (mut a, mut b, mut c, mut d, mut e) = (vec![], vec![], vec![], vec![], vec![]);
        let gap_blocks = GapBlocks::encode(&gaps, &mut a);
        let nr_gap_blocks = GapBlocks::encode(&nr_gaps, &mut b);
        let duplicate_tsns = TsnList::encode(&duplicates, &mut c);
        let expected = [
            Chunk::Sack(Sack {
                cumulative_tsn_ack: Tsn(17),
                a_rwnd: 65536,
                gap_blocks,
                duplicate_tsns,
            }),
            Chunk::NrSack(NrSack {
                cumulative_tsn_ack: Tsn(17),
                a_rwnd: 65536,
                gap_blocks,
                nr_gap_blocks,
                duplicate_tsns,
            }),
            Chunk::ForwardTsn(crate::ForwardTsn {
                new_cumulative_tsn: Tsn(20),
                streams: List::encode(&skipped, &mut d),
            }),
            Chunk::IForwardTsn(crate::IForwardTsn {
                new_cumulative_tsn: Tsn(20),
                streams: List::encode(&messages, &mut e),
            }),
        ];
        assert_eq!(decode(&buf), expected);
    }

    #[test]
    fn limit_is_never_passed() {
        let payload = [0; 9];
        let mut buf = Vec::new();
        // A limit of 39 is rounded down to 36: a header, and 24 bytes for chunks with padding.
        let mut writer = PacketWriter::new(&mut buf, HEADER, 39);
        assert_eq!(writer.remaining(), 24);
        assert_eq!(writer.data(&data(&payload)), Err(NoRoom));
        assert_eq!(writer.chunk(&Chunk::Data(data(&payload))), Err(NoRoom));
        assert_eq!(writer.raw(1, 0, &[0; 21]), Err(NoRoom));
        assert_eq!(writer.sack(Tsn(1), 1, &[], &[Tsn(1); 3]), Err(NoRoom));
        assert_eq!(writer.nr_sack(Tsn(1), 1, &[], &[], &[Tsn(1); 2]), Err(NoRoom));
        let skipped = SkippedStream { stream: 0, ssn: Ssn(0) };
        assert_eq!(writer.forward_tsn(Tsn(1), &[skipped; 5]), Err(NoRoom));
        assert!(writer.is_empty());
        writer.data(&data(&payload[..8])).unwrap();
        assert_eq!((writer.len(), writer.remaining()), (36, 0));
        assert_eq!(NoRoom.to_string(), "no room for the chunk in the packet");
    }

    #[test]
    fn a_chunk_comes_first_in_the_room_held_back_for_it() {
        let auth = Chunk::Auth(crate::Auth { shared_key_id: 1, hmac_id: 3, hmac: &[0; 32] });
        let mut buf = b"before".to_vec();
        let mut writer = PacketWriter::new(&mut buf, HEADER, 12 + 40 + 24);
        writer.hold_back(40);
        assert_eq!(writer.remaining(), 24);
        assert_eq!(writer.data(&data(&[0; 9])), Err(NoRoom));
        writer.data(&data(b"12345678")).unwrap();
        assert_eq!(writer.remaining(), 0);
        let chunks = writer.insert_first(&auth).unwrap();
        assert_eq!(chunks.len(), 64);
        chunks[8] = 7;
        let kinds: Vec<u8> = writer.chunks().map(|chunk| chunk.unwrap().kind).collect();
        assert_eq!(kinds, [kind::AUTH, kind::DATA]);
        assert_eq!((writer.finish_without_checksum(), buf.len()), (76, 6 + 76));
        assert_eq!(decode(&buf[6..])[1], Chunk::Data(data(b"12345678")));

        let mut buf = Vec::new();
        let mut writer = PacketWriter::new(&mut buf, HEADER, usize::MAX);
        writer.raw(1, 0, &vec![0; 65_500]).unwrap();
        assert_eq!(writer.insert_first(&auth).map(|_| ()), Err(NoRoom));
        assert_eq!(writer.chunks().count(), 1);
        let mut writer = PacketWriter::new(&mut buf, HEADER, 20);
        writer.hold_back(40);
        assert_eq!(writer.remaining(), 0);
    }

    #[test]
    fn limits_are_brought_into_range() {
        let mut buf = Vec::new();
        assert_eq!(PacketWriter::new(&mut buf, HEADER, 0).remaining(), 0);
        let mut buf = Vec::new();
        let mut writer = PacketWriter::new(&mut buf, HEADER, usize::MAX);
        assert_eq!(writer.remaining(), 65520);
        let payload = vec![0; 70_000];
        assert_eq!(writer.data(&data(&payload)), Err(NoRoom));
        assert_eq!(writer.chunk(&Chunk::Data(data(&payload))), Err(NoRoom));
        writer.data(&data(&payload[..65504])).unwrap();
        assert_eq!(writer.remaining(), 0);
    }

    #[test]
    fn padding_reaches_the_exact_length() {
        let mut buf = Vec::new();
        let mut writer = PacketWriter::new(&mut buf, HEADER, 64);
        assert_eq!(writer.pad_to(8), Err(NoRoom));
        assert_eq!(writer.pad_to(14), Err(NoRoom));
        assert_eq!(writer.pad_to(68), Err(NoRoom));
        assert_eq!(writer.pad_to(12), Ok(()));
        assert!(writer.is_empty());
        assert_eq!(writer.pad_to(16), Ok(()));
        assert_eq!(writer.pad_to(64), Ok(()));
        assert_eq!(writer.finish_without_checksum(), 64);
        let shown: Vec<_> = decode(&buf).iter().map(Chunk::to_string).collect();
        assert_eq!(shown, ["PAD 0 bytes", "PAD 44 bytes"]);
    }

    #[cfg(feature = "checksum")]
    #[test]
    // test: rfc6951 5.3 "The SCTP checksum MUST be computed for IPv4"
    fn packets_lie_one_behind_the_other() {
        let mut buf = Vec::new();
        for payload in [&b"one"[..], b"three"] {
            let mut writer = PacketWriter::new(&mut buf, HEADER, 1452);
            writer.data(&data(payload)).unwrap();
            assert_eq!(writer.finish(), 12 + 16 + padded(payload.len()));
        }
        let before = buf.clone();
        let mut writer = PacketWriter::new(&mut buf, HEADER, 1452);
        writer.data(&data(b"gone")).unwrap();
        writer.cancel();
        assert_eq!(buf, before);
        let (first, second) = buf.split_at(32);
        for (bytes, payload) in [(first, &b"one"[..]), (second, b"three")] {
            assert!(Packet::parse(bytes).unwrap().checksum_ok());
            assert_eq!(decode(bytes), [Chunk::Data(data(payload))]);
        }
    }
}
