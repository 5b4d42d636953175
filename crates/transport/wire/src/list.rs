//! Lists of fixed-size items that are decoded only when they are read.

use core::fmt;
use core::marker::PhantomData;

use alloc::vec::Vec;

use crate::serial::Tsn;
use crate::text;

/// An item of a [`List`]: a fixed number of bytes.
pub trait Element: Copy + fmt::Display {
    /// Size on the wire in bytes.
    const LEN: usize;

    /// Reads the item from the front of `bytes`; missing bytes count as zero.
    fn read(bytes: &[u8]) -> Self;

    /// Appends the item to `out`.
    fn write(&self, out: &mut Vec<u8>);
}

impl Element for u16 {
    const LEN: usize = 2;

    #[inline]
    fn read(bytes: &[u8]) -> Self {
        bytes.first_chunk().map_or(0, |b| u16::from_be_bytes(*b))
    }

    fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.to_be_bytes());
    }
}

impl Element for Tsn {
    const LEN: usize = 4;

    #[inline]
    fn read(bytes: &[u8]) -> Self {
        Tsn(bytes.first_chunk().map_or(0, |b| u32::from_be_bytes(*b)))
    }

    fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.0.to_be_bytes());
    }
}

/// A run of received TSNs, as offsets from the cumulative TSN ack
/// (RFC 9260 section 3.3.4). Their order is not checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct GapBlock {
    /// Offset of the first TSN of the run.
    pub start: u16,
    /// Offset of the last TSN of the run.
    pub end: u16,
}

impl Element for GapBlock {
    const LEN: usize = 4;

    #[inline]
    fn read(bytes: &[u8]) -> Self {
        let [a, b, c, d] = bytes.first_chunk().copied().unwrap_or_default();
        Self { start: u16::from_be_bytes([a, b]), end: u16::from_be_bytes([c, d]) }
    }

    fn write(&self, out: &mut Vec<u8>) {
        let ([a, b], [c, d]) = (self.start.to_be_bytes(), self.end.to_be_bytes());
        out.extend_from_slice(&[a, b, c, d]);
    }
}

impl fmt::Display for GapBlock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.start, self.end)
    }
}

/// Gap ack blocks of a SACK or NR-SACK.
pub type GapBlocks<'a> = List<'a, GapBlock>;
/// Duplicate TSNs of a SACK or NR-SACK.
pub type TsnList<'a> = List<'a, Tsn>;
/// Stream numbers, address types, parameter types or HMAC identifiers.
pub type U16List<'a> = List<'a, u16>;

/// A list of items, as a view of the bytes that carry them. Copying the list does not copy items.
pub struct List<'a, T> {
    bytes: &'a [u8],
    item: PhantomData<T>,
}

impl<'a, T: Element> List<'a, T> {
    /// The items in `bytes`, without an incomplete item at the end.
    #[inline]
    #[must_use]
    pub fn new(bytes: &'a [u8]) -> Self {
        let whole = bytes.len() - bytes.len() % T::LEN;
        Self { bytes: bytes.get(..whole).unwrap_or(bytes), item: PhantomData }
    }

    /// Appends the encoded `items` to `storage` and returns a list of them.
    #[must_use]
    pub fn encode(items: &[T], storage: &'a mut Vec<u8>) -> Self {
        let start = storage.len();
        for item in items {
            item.write(storage);
        }
        Self::new(storage.get(start..).unwrap_or(&[]))
    }

    /// How many items there are.
    #[inline]
    #[must_use]
    pub fn len(&self) -> usize {
        self.bytes.len() / T::LEN
    }

    /// Whether the list is empty.
    #[inline]
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// The items one by one.
    #[inline]
    #[must_use]
    pub fn iter(&self) -> ListIter<'a, T> {
        ListIter { items: self.bytes.chunks_exact(T::LEN), item: PhantomData }
    }

    /// The items in wire format.
    #[inline]
    #[must_use]
    pub const fn bytes(&self) -> &'a [u8] {
        self.bytes
    }
}

// Not derived: derives would require the same traits of T, which is only a phantom here.
impl<T> Clone for List<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for List<'_, T> {}

impl<T> PartialEq for List<'_, T> {
    fn eq(&self, other: &Self) -> bool {
        self.bytes == other.bytes
    }
}

impl<T> Eq for List<'_, T> {}

impl<T: Element> Default for List<'_, T> {
    fn default() -> Self {
        Self::new(&[])
    }
}

impl<T: Element + fmt::Debug> fmt::Debug for List<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

impl<T: Element> fmt::Display for List<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        text::join(f, self.iter())
    }
}

impl<'a, T: Element> IntoIterator for List<'a, T> {
    type Item = T;
    type IntoIter = ListIter<'a, T>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

/// Iterator over a [`List`].
#[derive(Clone, Debug)]
pub struct ListIter<'a, T> {
    items: core::slice::ChunksExact<'a, u8>,
    item: PhantomData<T>,
}

impl<T: Element> Iterator for ListIter<'_, T> {
    type Item = T;

    #[inline]
    fn next(&mut self) -> Option<T> {
        self.items.next().map(T::read)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.items.size_hint()
    }
}

impl<T: Element> DoubleEndedIterator for ListIter<'_, T> {
    #[inline]
    fn next_back(&mut self) -> Option<T> {
        self.items.next_back().map(T::read)
    }
}

impl<T: Element> ExactSizeIterator for ListIter<'_, T> {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    // test: rfc9260 3 "MUST be transmitted in network"
    fn reads_items_from_the_wire() {
        let blocks = GapBlocks::new(&[0, 2, 0, 3, 0, 5, 0, 5, 9]);
        assert_eq!(blocks.len(), 2);
        assert!(!blocks.is_empty());
        assert_eq!(blocks.to_string(), "2-3,5-5");
        assert_eq!(blocks.iter().next_back(), Some(GapBlock { start: 5, end: 5 }));
        assert_eq!(blocks.iter().len(), 2);
        assert_eq!(blocks.into_iter().map(|b| b.end).sum::<u16>(), 8);
        assert_eq!(format!("{:?}", TsnList::new(&[0, 0, 1, 0])), "[Tsn(256)]");
    }

    #[test]
    fn encoding_and_listing_agree() {
        let mut storage = vec![0xff];
        let list = U16List::encode(&[5, 6, 11], &mut storage);
        assert_eq!(list.iter().collect::<Vec<_>>(), [5, 6, 11]);
        assert_eq!(list.bytes(), [0, 5, 0, 6, 0, 11]);
        assert_eq!(TsnList::encode(&[], &mut Vec::new()), TsnList::default());
        let mut storage = Vec::new();
        assert_eq!(TsnList::encode(&[Tsn(9)], &mut storage).bytes(), [0, 0, 0, 9]);
    }

    #[test]
    fn missing_bytes_count_as_zero() {
        assert_eq!(u16::read(&[1]), 0);
        assert_eq!(Tsn::read(&[1, 2, 3]), Tsn(0));
        assert_eq!(GapBlock::read(&[1]), GapBlock { start: 0, end: 0 });
    }
}
