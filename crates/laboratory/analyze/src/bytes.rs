//! Reads numbers from bytes.

pub(crate) fn be16(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(bytes.get(at..at.checked_add(2)?)?.try_into().ok()?))
}

pub(crate) fn be32(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_be_bytes(bytes.get(at..at.checked_add(4)?)?.try_into().ok()?))
}

/// The captured bytes of a packet from some offset, and the packet's length on the wire from there.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Piece<'a> {
    pub(crate) data: &'a [u8],
    pub(crate) whole: usize,
}

impl<'a> Piece<'a> {
    /// `whole` is at least the captured length.
    pub(crate) fn new(data: &'a [u8], whole: usize) -> Self {
        Self { data, whole: whole.max(data.len()) }
    }

    /// Skips the first bytes, which must all have been captured.
    pub(crate) fn skip(self, bytes: usize) -> Option<Self> {
        Some(Self { data: self.data.get(bytes..)?, whole: self.whole.saturating_sub(bytes) })
    }

    /// Limits the piece to the length in a header: cuts off padding, and counts bytes that were not
    /// captured.
    pub(crate) fn limit(self, whole: usize) -> Self {
        Self { data: self.data.get(..whole).unwrap_or(self.data), whole }
    }

    pub(crate) fn byte(&self, at: usize) -> Option<u8> {
        self.data.get(at).copied()
    }

    pub(crate) fn be16(&self, at: usize) -> Option<u16> {
        be16(self.data, at)
    }

    pub(crate) fn be32(&self, at: usize) -> Option<u32> {
        be32(self.data, at)
    }

    pub(crate) fn le16(&self, at: usize) -> Option<u16> {
        self.be16(at).map(u16::swap_bytes)
    }

    pub(crate) fn be24(&self, at: usize) -> Option<u32> {
        Some(u32::from(self.byte(at)?) << 16 | u32::from(self.be16(at + 1)?))
    }
}
