//! Building packets.

use core::fmt;

use alloc::vec::Vec;

use crate::chunk::{Chunk, Data, SkippedStream, kind};
use crate::list::{Element, GapBlock};
use crate::packet::{HEADER_LEN, Header};
use crate::serial::Tsn;
use crate::tlv::{self, padded};

/// The chunk does not fit into what is left of the packet, which is unchanged.
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
/// Several packets can lie one behind the other in a buffer, as one send with
/// segmentation offload wants them. A writer that is dropped without
/// [`finish`](Self::finish) or [`cancel`](Self::cancel) leaves a packet with a
/// checksum of zero.
#[derive(Debug)]
#[must_use = "a packet has to be finished or cancelled"]
pub struct PacketWriter<'b> {
    buf: &'b mut Vec<u8>,
    /// Where the packet starts in the buffer.
    start: usize,
    /// Where it ends at the latest; a multiple of four from its start.
    end: usize,
}

impl<'b> PacketWriter<'b> {
    /// Starts a packet of at most `limit` bytes at the end of `buf`.
    ///
    /// A limit under the 12 bytes of the header counts as 12, one over the 65535
    /// bytes of an IP datagram as 65532.
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

    /// Bytes that the next chunk may take, its header and padding included.
    #[inline]
    #[must_use]
    pub fn remaining(&self) -> usize {
        self.end - self.buf.len()
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
        // No packet is longer than its 16-bit limit, so no chunk is.
        let header = data.header(length as u16);
        self.buf.extend_from_slice(&header);
        self.buf.extend_from_slice(data.payload);
        self.buf.extend_from_slice(&[0; 3][..padded(length) - length]);
        Ok(())
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
        self.words(&[cumulative_tsn_ack.0, a_rwnd]);
        self.halves(&[gaps.len(), duplicates.len()]);
        self.list(gaps);
        self.list(duplicates);
        Ok(())
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
        self.words(&[cumulative_tsn_ack.0, a_rwnd]);
        self.halves(&[gaps.len(), nr_gaps.len(), duplicates.len(), 0]);
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
        self.words(&[new_cumulative_tsn.0]);
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

    /// Appends a PAD chunk that makes the packet exactly `len` bytes long;
    /// nothing if it already is.
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

    /// Enters the CRC32c and returns the length of the packet.
    #[cfg(feature = "checksum")]
    #[inline]
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

    /// Takes the whole packet back.
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

    fn words(&mut self, words: &[u32]) {
        for word in words {
            self.buf.extend_from_slice(&word.to_be_bytes());
        }
    }

    /// Counts, each known to fit because the list it counts does.
    fn halves(&mut self, counts: &[usize]) {
        for count in counts {
            self.buf.extend_from_slice(&(*count as u16).to_be_bytes());
        }
    }

    fn list<T: Element>(&mut self, items: &[T]) {
        for item in items {
            item.write(self.buf);
        }
    }
}
