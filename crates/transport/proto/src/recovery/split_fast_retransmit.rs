//! Evaluates an acknowledgement for each path separately, when several carry new data at the same time:
//! the algorithms of concurrent multipath transfer (Iyengar, Amer, Stewart, "Concurrent multipath
//! transfer using SCTP multihoming over independent end-to-end paths", 2006).
//!
//! - Split fast retransmit (section 4): a chunk is reported as missing only by an acknowledgement that
//!   newly acknowledges chunks sent later on the same path. TSNs that arrive earlier on a shorter path
//!   say nothing about it.
//! - Delayed acks (section 6): the receiver does not acknowledge every packet although TSNs are
//!   missing, and reports how many packets an acknowledgement covers. If they all arrived on one path,
//!   each packet counts as a missing report.
//!
//! The update of cwnd (section 5) is `PseudoCumack` in `send/outstanding/cuc.rs`: an advance of the
//! earliest outstanding TSN of a path affects its window as an advance of the Cumulative TSN Ack Point
//! does with one path.

use super::ack::AckSummary;
use crate::per_path::PathId;

/// The missing reports that an acknowledgement makes for chunks in flight on one path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Report {
    /// It reports chunks of packets sent before the packet with this number.
    pub(super) packet: u64,
    /// It reports chunks below this TSN.
    pub(super) tsn: u64,
    /// Further reports, for TSNs below `extra_below`.
    pub(super) extra: u8,
    pub(super) extra_below: u64,
}

/// The report of `summary` for a path; `None` if it newly acknowledges nothing there.
pub(super) fn report(summary: &AckSummary, path: PathId) -> Option<Report> {
    let ack = &summary.paths[path];
    let packet = ack.highest_packet?;
    let only_path = summary.paths.iter().filter(|ack| ack.chunks > 0).count() == 1;
    // Each packet brought new data or was a duplicate.
    let packets = ack.chunks.min(u32::from(summary.covered_packets)) as u8;
    let extra = if only_path { packets.saturating_sub(1) } else { 0 };
    Some(Report { packet, tsn: ack.highest_tsn, extra, extra_below: ack.lowest_tsn })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recovery::ack::PathAck;

    fn summary(paths: [PathAck; 2], covered_packets: u8) -> AckSummary {
        let number = |(number, ack): (u16, PathAck)| PathAck { path: PathId(number), ..ack };
        let paths = (0..).zip(paths).map(number).collect();
        AckSummary { paths, covered_packets, ..AckSummary::default() }
    }

    fn report(summary: &AckSummary, path: u16) -> Option<Report> {
        super::report(summary, PathId(path))
    }

    fn acked(lowest_tsn: u64, highest_tsn: u64, highest_packet: u64) -> PathAck {
        let chunks = (highest_tsn - lowest_tsn + 1) as u32;
        let highest_packet = Some(highest_packet);
        PathAck { lowest_tsn, highest_tsn, highest_packet, chunks, ..PathAck::default() }
    }

    #[test]
    fn a_path_without_news_has_no_report() {
        let summary = summary([acked(7, 9, 4), PathAck::default()], 0);
        let expected = Report { packet: 4, tsn: 9, extra: 0, extra_below: 7 };
        assert_eq!((report(&summary, 0), report(&summary, 1)), (Some(expected), None));
    }

    #[test]
    fn packets_count_if_all_came_by_one_path() {
        let one = summary([acked(7, 9, 4), PathAck::default()], 2);
        assert_eq!(report(&one, 0).map(|report| report.extra), Some(1));
        let claims = summary([acked(7, 7, 4), PathAck::default()], 3);
        assert_eq!(report(&claims, 0).map(|report| report.extra), Some(0), "one came");
        let mixed = summary([acked(7, 9, 4), acked(3, 3, 1)], 2);
        for path in [0, 1] {
            assert_eq!(report(&mixed, path).map(|report| report.extra), Some(0));
        }
    }
}
