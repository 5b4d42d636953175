//! Options of loss recovery.

use super::{LossDetection, Reordering, Undo};
use crate::options::section;

section! {
    /// What makes data lost, and what is known of it when it is sent again.
    pub struct RecoveryConfig {
        /// What makes a chunk lost before its timer expires.
        loss_detection: LossDetection =
            LossDetection::MissingReports, Kind::Word(LossDetection::NAMES);
        /// Missing reports (or later packets) that make a chunk lost. 3 (RFC 2960: 4).
        missing_reports: u32 = 3, Kind::count(1, 255);
        /// How reordering is distinguished from loss, where later packets are counted. `fixed`: by that number
        /// alone.
        reordering: Reordering = Reordering::Fixed, Kind::Word(Reordering::NAMES);
        /// Early retransmit: with fewer than four packets outstanding, and nothing new to send, as many
        /// reports as there can be make a chunk lost (RFC 5827 section 3.2). An association whose early
        /// retransmission was spurious stops using it. Off.
        early_retransmit ["er"]: bool = false, Kind::Switch;
        /// RTO restart: with fewer than four packets outstanding T3-rtx expires an RTO after the
        /// earliest packet was sent, not an RTO after the last acknowledgement (RFC 7765). Off.
        rto_restart: bool = false, Kind::Switch;
        /// Tail loss probe: when nothing was received for two round trips, a packet is sent whose
        /// acknowledgement shows what was lost (RFC 8985 section 7). Off.
        tail_probe ["tlp"]: bool = false, Kind::Switch;
        /// What undoes the lower windows and the longer timeout of a recovery in which all
        /// retransmissions were needless: `duplicates` that the peer reports (RFC 3708), echoes of
        /// `timestamps` (RFC 3522), or `both`. Off.
        undo: Undo = Undo::Off, Kind::Word(Undo::NAMES);
        /// F-RTO: after a timeout one chunk is retransmitted, then new data is sent; if chunks
        /// considered lost arrive nevertheless, the timeout is undone (RFC 5682). Off.
        f_rto: bool = false, Kind::Switch;
        /// MFR: a fast-retransmitted chunk may be fast-retransmitted again (caro 2.4.3). Off.
        multiple_fast_retransmit ["mfr"]: bool = false, Kind::Switch;
        /// When T3-rtx expires one packet is sent, and everything else, also on other paths, waits
        /// for a SACK as in the studies of multihoming (RFC 2960 section 6.3.3 has "normally when a
        /// SACK arrives"). Otherwise it is sent as soon as cwnd allows. Off.
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

impl RecoveryConfig {
    /// Whether order and time of arrivals are evaluated beyond missing reports.
    pub(crate) fn gathers(&self) -> bool {
        self.loss_detection == LossDetection::TimeThreshold
            || self.reordering != Reordering::Fixed
            || self.early_retransmit
            || self.tail_probe
            || self.f_rto
            || self.undo != Undo::Off
            || self.timestamps
    }
}
