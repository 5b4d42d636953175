//! Loss detection from acknowledgements: which chunks in flight are held to be lost.

use super::ack::AckSummary;
use crate::send::Outstanding;

/// What makes a chunk lost before its timer expires.
///
/// Both read the order in which packets were sent, not the order of TSNs: for chunks sent once
/// the two are the same, and for a retransmitted chunk only what was sent after it tells
/// anything about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "kebab-case"))]
#[non_exhaustive]
pub enum LossDetection {
    /// So many SACKs that newly acknowledge chunks sent later (RFC 9260 section 7.2.4).
    MissingReports,
    /// An acknowledged packet that was sent at least so many packets later. With one SACK a
    /// packet the two are the same; this one also works when a receiver acknowledges a batch of
    /// packets at once.
    PacketThreshold,
}

/// Finds the chunks that `summary` proves lost and appends their TSNs to `lost`.
///
/// `highest_ever` is the latest packet that was ever acknowledged; `in_recovery` tells for each
/// path whether it is in fast recovery.
// req: rfc9260 6.7 "reported in the SACK chunk MUST be treated as"
pub(crate) fn detect(
    detection: LossDetection,
    threshold: u32,
    summary: &AckSummary,
    highest_ever: u64,
    in_recovery: impl Fn(usize) -> bool,
    out: &mut Outstanding,
    lost: &mut Vec<u64>,
) {
    let Some(highest) = summary.highest_packet else { return };
    for path in 0..summary.paths.len() {
        // req: rfc9260 7.2.4 "Miss indications SHOULD follow the Highest TSN"
        let limit = if summary.cumulative_advanced && in_recovery(path) {
            // RFC 9260 section 7.2.4: in fast recovery the whole window counts.
            highest_ever
        } else {
            highest
        };
        let mut at = out.oldest_counted(path);
        while let Some(tsn) = at {
            let Some(slot) = out.get(tsn) else { break };
            if slot.packet >= limit {
                break;
            }
            let packet = slot.packet;
            at = out.sent_after(tsn);
            let is_lost = match detection {
                LossDetection::MissingReports => u32::from(out.report_missing(tsn)) >= threshold,
                LossDetection::PacketThreshold => {
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
