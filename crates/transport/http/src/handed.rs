//! Recognises bytes of bodies when hyper writes them, to avoid a copy.
//!
//! hyper writes slices of memory. A slice within bytes that were recently passed to hyper is part of
//! those bytes.

use std::collections::VecDeque;
use std::io::IoSlice;

use bytes::Bytes;

/// Below this length, copying is as fast as searching.
const WORTH_IT: usize = 16 << 10;

/// More entries than hyper holds at the same time.
const MOST: usize = 16;

/// Bytes that were passed to hyper and are not written yet, oldest first.
#[derive(Debug, Default)]
pub(crate) struct Handed(VecDeque<Bytes>);

/// What to write next.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// This many slices, starting with the first, unchanged.
    Slices(usize),
    /// The first slice, which is identical to these bytes.
    Bytes(Bytes),
}

impl Handed {
    /// Records bytes passed to hyper.
    pub(crate) fn give(&mut self, bytes: &Bytes) {
        if bytes.len() >= WORTH_IT {
            if self.0.len() == MOST {
                self.0.pop_front();
            }
            self.0.push_back(bytes.clone());
        }
    }

    /// Returns what to write first from hyper's slices.
    pub(crate) fn next(&mut self, slices: &[IoSlice<'_>]) -> Next {
        let found = slices.iter().enumerate().find_map(|(at, slice)| Some((at, self.find(slice)?)));
        match found {
            Some((0, found)) => {
                // hyper writes in order.
                let bytes = self.0[found].slice_ref(&slices[0]);
                self.0.drain(..found);
                Next::Bytes(bytes)
            }
            // Write the slices before it separately; otherwise everything would be copied to fill
            // messages.
            Some((before, _)) => Next::Slices(before),
            None => Next::Slices(slices.len()),
        }
    }

    /// Index of the recorded bytes that contain the slice.
    fn find(&self, slice: &[u8]) -> Option<usize> {
        let within = |bytes: &Bytes| {
            let (outer, inner) = (bytes.as_ptr_range(), slice.as_ptr_range());
            outer.start <= inner.start && inner.end <= outer.end
        };
        (slice.len() >= WORTH_IT).then(|| self.0.iter().position(within)).flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_given_is_recognised_in_parts_and_in_order() {
        let pieces: Vec<Bytes> = (0..3_u8).map(|fill| vec![fill; 40_000].into()).collect();
        let mut handed = Handed::default();
        pieces.iter().for_each(|piece| handed.give(piece));
        let head = [b'h'; 200];
        let all = [&head[..], &pieces[0], &pieces[1]].map(IoSlice::new);
        assert_eq!(handed.next(&all), Next::Slices(1), "the head goes first");
        assert_eq!(handed.next(&all[1..]), Next::Bytes(pieces[0].clone()));
        let rest = [IoSlice::new(&pieces[0][20_000..]), IoSlice::new(&pieces[1])];
        let Next::Bytes(found) = handed.next(&rest) else { panic!("not recognised") };
        assert_eq!(found.as_ptr(), pieces[0][20_000..].as_ptr(), "and not copied");
        // A short remainder is written before the next piece.
        let rest = [IoSlice::new(&pieces[0][39_000..]), IoSlice::new(&pieces[1])];
        assert_eq!(handed.next(&rest), Next::Slices(1));
        assert_eq!(handed.next(&rest[1..]), Next::Bytes(pieces[1].clone()));
        // Skipped bytes are forgotten, and bytes that were never recorded are not recognised.
        assert_eq!(handed.next(&[IoSlice::new(&pieces[0])]), Next::Slices(1));
        let other = vec![2; 40_000];
        assert_eq!(handed.next(&[IoSlice::new(&other)]), Next::Slices(1));
        assert_eq!(handed.next(&[IoSlice::new(&pieces[2])]), Next::Bytes(pieces[2].clone()));
    }

    #[test]
    fn no_more_is_kept_than_is_of_use() {
        let mut handed = Handed::default();
        handed.give(&Bytes::from_static(b"short"));
        assert!(handed.0.is_empty());
        let piece = Bytes::from(vec![0; WORTH_IT]);
        (0..2 * MOST).for_each(|_| handed.give(&piece));
        assert_eq!(handed.0.len(), MOST);
    }
}
