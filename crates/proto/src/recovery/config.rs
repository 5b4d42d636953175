//! Options of loss recovery.

use super::LossDetection;
use crate::options::section;

section! {
    /// What makes data lost, and what is known of it when it is sent again.
    pub struct RecoveryConfig {
        /// What makes a chunk lost before its timer expires.
        loss_detection: LossDetection =
            LossDetection::MissingReports, Kind::Word(LossDetection::NAMES);
        /// Missing reports (or later packets) that make a chunk lost. 3 (RFC 2960: 4).
        missing_reports: u32 = 3, Kind::count(1, 255);
        /// MFR: a fast-retransmitted chunk may be fast-retransmitted again (caro 2.4.3). Off.
        multiple_fast_retransmit ["mfr"]: bool = false, Kind::Switch;
        /// When T3-rtx expires one packet leaves, and all else, also on other paths, waits for a SACK
        /// as in the studies of multihoming (RFC 2960 section 6.3.3 has "normally when a SACK
        /// arrives"). Otherwise it leaves as soon as cwnd allows. Off.
        one_packet_after_timeout: bool = false, Kind::Switch;
        /// TS: packets with data or acknowledgements carry timestamps if the peer wants them too, so
        /// that retransmissions are measured as well (caro 2.4.2). 12 bytes a packet. Off.
        timestamps: bool = false, Kind::Switch;
        /// An acknowledged retransmission counts for the path that carried it last, although its
        /// first transmission on another path may have arrived (RFC 9260 section 8.2 allows both).
        /// Off.
        credit_retransmissions: bool = false, Kind::Switch;
    }
}
