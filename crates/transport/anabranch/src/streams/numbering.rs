//! The number of streams, and the order in which they are opened.

/// The numbers of an association's streams.
#[derive(Debug, Default)]
pub(crate) struct Numbering {
    /// Streams that this side can send on.
    outbound: u16,
    /// Streams that the peer can send on.
    inbound: u16,
    /// This side accepted the association.
    incoming: bool,
    /// The lowest rank that may be free: all streams of lower rank are in use.
    lowest_free: u16,
}

impl Numbering {
    /// Sets the negotiated numbers. All streams may be free.
    pub(super) fn negotiated(&mut self, outbound: u16, inbound: u16) {
        (self.outbound, self.inbound) = (outbound, inbound);
        self.lowest_free = 0;
    }

    /// Records that this side accepted the association.
    pub(super) fn accepted(&mut self) {
        self.incoming = true;
    }

    pub(super) fn is_incoming(&self) -> bool {
        self.incoming
    }

    /// Outbound and inbound streams.
    pub(super) fn counts(&self) -> (u16, u16) {
        (self.outbound, self.inbound)
    }

    /// Number of streams that exist in both directions.
    fn pairs(&self) -> u16 {
        self.outbound.min(self.inbound)
    }

    /// Converts a rank to the number of the stream, or back. The side that connected counts up and the
    /// other side counts down, so they rarely choose the same stream.
    fn ranked(&self, number: u16) -> u16 {
        if self.incoming { self.pairs() - 1 - number } else { number }
    }

    /// The next free stream.
    pub(super) fn find(&mut self, is_in_use: impl Fn(u16) -> bool) -> Option<u16> {
        while self.lowest_free < self.pairs() {
            let stream = self.ranked(self.lowest_free);
            if !is_in_use(stream) {
                return Some(stream);
            }
            self.lowest_free += 1;
        }
        None
    }

    /// Marks a stream as free. `false` if it does not exist in both directions.
    pub(super) fn freed(&mut self, stream: u16) -> bool {
        if stream >= self.pairs() {
            return false;
        }
        self.lowest_free = self.lowest_free.min(self.ranked(stream));
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_two_sides_begin_at_opposite_ends() {
        let (mut near, mut far) = (Numbering::default(), Numbering::default());
        near.negotiated(10, 4);
        far.negotiated(4, 10);
        far.accepted();
        assert_eq!((near.find(|_| false), far.find(|_| false)), (Some(0), Some(3)));
        assert_eq!((near.find(|s| s < 2), far.find(|s| s > 1)), (Some(2), Some(1)));
        assert_eq!((near.find(|_| true), far.find(|_| true)), (None, None));
        assert!(near.freed(1) && far.freed(2));
        assert_eq!((near.find(|_| false), far.find(|_| false)), (Some(1), Some(2)));
        assert!(!near.freed(4), "this side can send on it, but the peer cannot");
    }
}
