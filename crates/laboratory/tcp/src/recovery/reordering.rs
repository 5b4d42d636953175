//! Measures how much the network reorders, and therefore how many later segments prove a loss: the
//! longest reordering seen, as in Linux.

/// Reordering of more than this many segments is treated as loss (Linux: tcp_max_reordering).
const MOST: u64 = 300;

/// The order in which segments arrive.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Order {
    /// The latest transmission that arrived.
    latest: u64,
    /// The largest number of transmissions by which one arrived late; 0 if none did.
    extent: u64,
}

impl Order {
    /// Records arrived segments. `earliest` was sent only once; `latest` was sent last.
    pub(crate) fn on_arrived(&mut self, earliest: Option<u64>, latest: Option<u64>) {
        if let Some(earliest) = earliest {
            self.extent = self.extent.max(self.latest.saturating_sub(earliest));
        }
        self.latest = self.latest.max(latest.unwrap_or(0));
    }

    /// Whether reordering was ever seen.
    pub(crate) fn is_reordered(&self) -> bool {
        self.extent > 0
    }

    /// The latest transmission that arrived.
    pub(crate) fn latest(&self) -> u64 {
        self.latest
    }

    /// Records a needless retransmission: the original transmission was only late, by `late`
    /// transmissions.
    pub(crate) fn on_needless(&mut self, late: u64) {
        self.extent = self.extent.max(late.max(1));
    }

    /// Resets the extent: the adapted threshold may have caused the timeout.
    pub(crate) fn on_timeout(&mut self) {
        self.extent = 0;
    }

    /// The largest number of segments by which one arrived late.
    pub(crate) fn extent(&self) -> u64 {
        self.extent
    }

    /// Starts with the reordering that an earlier connection saw.
    pub(crate) fn assume(&mut self, extent: u64) {
        self.extent = extent;
    }

    /// The number of later segments that prove a loss.
    pub(crate) fn threshold(&self, usual: u32) -> u32 {
        // This many arrived before a segment that was not lost.
        let learnt = if self.extent > 0 { self.extent + 1 } else { 0 };
        usual.max(learnt.min(MOST) as u32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_reordering_counts_until_a_timeout() {
        let mut order = Order::default();
        order.on_arrived(Some(1), Some(5));
        assert!(!order.is_reordered(), "one acknowledgement tells no order");
        order.on_arrived(Some(6), Some(6));
        order.on_arrived(None, Some(12));
        assert_eq!(order.threshold(3), 3);
        order.on_arrived(Some(7), Some(13));
        assert_eq!(order.threshold(3), 6, "five came before it");
        order.on_needless(8);
        assert_eq!(order.threshold(3), 9);
        order.on_needless(1000);
        assert_eq!(order.threshold(3), 300);
        order.on_timeout();
        assert_eq!(order.threshold(3), 3);
    }
}
