//! A cursor over bytes from the wire that cannot read past their end.

/// Big-endian fields taken one by one from the front of a slice.
#[derive(Clone, Copy)]
pub(crate) struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    #[inline]
    pub(crate) const fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    #[inline]
    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (head, tail) = self.0.split_first_chunk::<N>()?;
        self.0 = tail;
        Some(*head)
    }

    // req: rfc9260 3 "MUST be transmitted in network"
    #[inline]
    pub(crate) fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_be_bytes)
    }

    #[inline]
    pub(crate) fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_be_bytes)
    }

    /// The next `len` bytes.
    #[inline]
    pub(crate) fn take(&mut self, len: usize) -> Option<&'a [u8]> {
        let (head, tail) = self.0.split_at_checked(len)?;
        self.0 = tail;
        Some(head)
    }

    /// The rest of the bytes.
    #[inline]
    pub(crate) const fn rest(self) -> &'a [u8] {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_until_the_end_and_no_further() {
        let mut reader = Reader::new(&[1, 2, 3, 4, 5, 6, 7, 8, 9]);
        assert_eq!(reader.u16(), Some(0x0102));
        assert_eq!(reader.u32(), Some(0x0304_0506));
        assert_eq!(reader.u32(), None);
        assert_eq!(reader.take(4), None);
        assert_eq!(reader.take(1), Some(&[7][..]));
        assert_eq!(reader.rest(), [8, 9]);
    }
}
