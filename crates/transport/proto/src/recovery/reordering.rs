//! Measures how much the network reorders packets, and decides how many later packets prove a loss:
//! with the method of Linux, the longest reordering seen (hurtig 3.2); with TCP-NCR, nearly a window
//! (RFC 4653).

use crate::named::named;
use crate::options::words;

/// How reordering is distinguished from loss by counting later packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "kebab-case"))]
#[non_exhaustive]
pub enum Reordering {
    /// The configured number of missing reports.
    Fixed,
    /// The threshold grows to the longest reordering seen, and is reset by a timeout (Linux).
    Adaptive,
    /// Two thirds of the packets outstanding when the first report arrived; meanwhile one packet is
    /// sent for every two acknowledged (TCP-NCR, careful).
    NcrCareful,
    /// Half of the packets outstanding; meanwhile one packet is sent for each one acknowledged
    /// (TCP-NCR, aggressive).
    NcrAggressive,
}

named!(Reordering {
    Fixed = "fixed",
    Adaptive = "adaptive",
    NcrCareful = "ncr-careful",
    NcrAggressive = "ncr-aggressive",
});
words!(Reordering);

/// The maximum threshold: reports are counted in a byte of the chunk's record.
const MOST: u64 = 255;

/// The order in which a path's packets arrive.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Order {
    /// The latest packet that arrived.
    latest: u64,
    /// The largest number of packets that overtook a packet; 0 if none was overtaken.
    extent: u64,
}

impl Order {
    /// Records the arrival of packets; `earliest` was sent only once, and `latest` was sent last.
    pub(crate) fn on_arrived(&mut self, earliest: Option<u64>, latest: u64) {
        if let Some(earliest) = earliest {
            self.extent = self.extent.max(self.latest.saturating_sub(earliest));
        }
        self.latest = self.latest.max(latest);
    }

    /// Whether a packet was ever overtaken.
    pub(crate) fn is_reordered(&self) -> bool {
        self.extent > 0
    }

    /// The largest number of packets that overtook a packet; 0 if none was overtaken.
    pub(crate) fn extent(&self) -> u64 {
        self.extent
    }

    /// Records a spurious retransmission: the original packet was only late, by `late` packets.
    pub(crate) fn on_needless(&mut self, late: u64) {
        self.extent = self.extent.max(late.max(1));
    }

    /// The latest packet that arrived.
    pub(crate) fn latest(&self) -> u64 {
        self.latest
    }

    /// Handles an expiry of the retransmission timer, which the adapted threshold may have caused.
    pub(crate) fn on_timeout(&mut self) {
        self.extent = 0;
    }

    /// The number of later packets that prove a loss. `usual`: the threshold without reordering;
    /// `outstanding`: packets that were outstanding when the first report arrived.
    pub(crate) fn threshold(&self, how: Reordering, usual: u32, outstanding: u64) -> u32 {
        let learnt = match how {
            Reordering::Fixed => 0,
            // This many packets overtook a packet that was not lost.
            Reordering::Adaptive if self.extent > 0 => self.extent + 1,
            Reordering::Adaptive => 0,
            // LT_F of RFC 4653 section 2.
            Reordering::NcrCareful => outstanding * 2 / 3,
            Reordering::NcrAggressive => outstanding / 2,
        };
        usual.max(learnt.min(MOST) as u32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_reordering_counts_until_a_timeout() {
        let mut order = Order::default();
        order.on_arrived(Some(1), 5);
        assert!(!order.is_reordered(), "one acknowledgement tells no order");
        order.on_arrived(Some(6), 6);
        order.on_arrived(None, 12);
        assert_eq!(order.threshold(Reordering::Adaptive, 3, 9), 3);
        order.on_arrived(Some(7), 13);
        assert!(order.is_reordered());
        assert_eq!(order.threshold(Reordering::Adaptive, 3, 9), 6, "five came before it");
        assert_eq!(order.threshold(Reordering::Fixed, 3, 9), 3);
        order.on_needless(8);
        assert_eq!(order.threshold(Reordering::Adaptive, 3, 9), 9);
        order.on_timeout();
        assert_eq!(order.threshold(Reordering::Adaptive, 3, 9), 3);
    }

    #[test]
    fn ncr_waits_for_most_of_a_window() {
        let order = Order::default();
        assert_eq!(order.threshold(Reordering::NcrCareful, 3, 60), 40);
        assert_eq!(order.threshold(Reordering::NcrAggressive, 3, 60), 30);
        assert_eq!(order.threshold(Reordering::NcrAggressive, 3, 4), 3, "never less than usual");
        assert_eq!(order.threshold(Reordering::NcrCareful, 3, 60_000), 255);
    }
}
