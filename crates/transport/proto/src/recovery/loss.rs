//! Loss detection from acknowledgements: which chunks in flight are considered lost.

use super::ack::{AckSummary, Acknowledged};
use super::{RecoveryConfig, mfr, split_fast_retransmit};
use crate::marks::mark;
use crate::named::named;
use crate::options::words;
use crate::per_path::PathId;
use crate::revision::Revision;
use crate::send::Outstanding;

/// What makes a chunk lost before its timer expires.
///
/// For a retransmitted chunk, only packets sent after its retransmission matter, so all methods use
/// the order in which packets were sent; missing reports also use the order of TSNs, as the RFC does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "kebab-case"))]
#[non_exhaustive]
pub enum LossDetection {
    /// This many SACKs that newly acknowledge higher TSNs sent later (RFC 9260 section 7.2.4). For
    /// a fast-retransmitted chunk these are TSNs above all TSNs outstanding at its retransmission (caro 2.4.3).
    MissingReports,
    /// An acknowledged packet that was sent at least this many packets later. With one SACK per packet
    /// this is equal to missing reports; but it also works if a receiver acknowledges a batch of
    /// packets with one SACK.
    PacketThreshold,
    /// RACK (RFC 8985): a packet that was sent later on the same path was acknowledged, and there was
    /// enough time for this one to arrive: a quarter of a round trip, or more if spurious
    /// retransmissions show that packets take longer. Until reordering is seen, the threshold of later
    /// packets also suffices.
    TimeThreshold,
}

named!(LossDetection {
    MissingReports = "missing-reports",
    PacketThreshold = "packet-threshold",
    TimeThreshold = "time-threshold",
});
words!(LossDetection);

/// Parameters of loss detection on a path.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Judged {
    /// The path is in fast recovery.
    pub(crate) in_recovery: bool,
    /// The number of reports that make a chunk lost.
    pub(crate) threshold: u32,
}

/// Finds the chunks that `summary` proves lost and appends their TSNs to `lost`.
///
/// `ever` has the TSNs acknowledged before. [`rack`](super::rack) finds losses by time.
// req: rfc9260 6.7 "reported in the SACK chunk MUST be treated as"
pub(crate) fn detect(
    config: &RecoveryConfig,
    revision: Revision,
    summary: &AckSummary,
    ever: &Acknowledged,
    judged: impl Fn(PathId) -> Judged,
    out: &mut Outstanding,
    lost: &mut Vec<u64>,
) {
    // RFC 2960 section 7.2.4: each SACK is a report for all TSNs that it shows to be missing.
    let every_report = revision < Revision::Rfc4960 && summary.reports_gaps;
    if summary.highest_packet.is_none() && !every_report {
        return;
    }
    let (highest, highest_tsn) =
        (summary.highest_packet.unwrap_or(0), summary.highest_tsn.unwrap_or(0));
    for path in summary.paths.ids() {
        let Judged { in_recovery, threshold } = judged(path);
        let report = split_fast_retransmit::report(summary, path);
        // req: rfc9260 7.2.4 "Miss indications SHOULD follow the Highest TSN"
        let (limit, tsn_limit) = match report {
            Some(report) if summary.split => (report.packet, report.tsn),
            None if summary.split => continue,
            // RFC 9260 section 7.2.4: in fast recovery the whole window counts.
            _ if every_report || (summary.cumulative_advanced && in_recovery) => {
                (ever.highest_packet, ever.highest_tsn)
            }
            _ => (highest, highest_tsn),
        };
        let mut at = out.oldest_counted(path);
        let mut again = None;
        while let Some(tsn) = at {
            let Some(slot) = out.get(tsn) else { break };
            if slot.packet >= limit {
                break;
            }
            let packet = slot.packet;
            // After a chunk above `tsn_limit` that was sent only once, only retransmissions can have
            // lower TSNs. So the rest of a large window is skipped.
            let rest = config.loss_detection == LossDetection::MissingReports
                && tsn > tsn_limit
                && again.is_none()
                && out.retransmission(tsn).is_none();
            if rest {
                again = Some(out.sent_again(path, packet, limit, tsn_limit).into_iter());
            }
            at = match &mut again {
                Some(again) => again.next(),
                None => out.sent_after(tsn),
            };
            let is_lost = match config.loss_detection {
                LossDetection::MissingReports => {
                    let recover = out.retransmission(tsn).and_then(|known| known.recover);
                    let known_to = if summary.split { tsn_limit } else { highest_tsn };
                    if tsn > tsn_limit || !mfr::is_report(recover, known_to) {
                        continue;
                    }
                    let extra = report
                        .filter(|report| summary.split && tsn < report.extra_below)
                        .map_or(0, |report| report.extra);
                    if extra > 0 {
                        mark!(MultipathReports);
                    }
                    u32::from(out.report_missing(tsn, 1 + extra)) >= threshold
                }
                LossDetection::PacketThreshold | LossDetection::TimeThreshold => {
                    if packet + u64::from(threshold) > limit {
                        break;
                    }
                    true
                }
            };
            if is_lost {
                lost.push(tsn);
            }
        }
    }
}
