//! Evaluates each acknowledgement once, for all parts of the sender.

mod note;

use std::ops::RangeInclusive;
use std::time::Duration;

use self::note::{newly, note, note_run};
use super::nr_sack::NonRenegable;
use super::ranges;
use crate::per_path::{OfPath, PathId, PerPath};
use crate::send::{Outstanding, PseudoCumack, SentPacket};
use crate::time::Instant;

/// The effect of an acknowledgement on one path.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct PathAck {
    pub(crate) path: PathId,
    /// Bytes newly acknowledged, chunk headers included.
    pub(crate) bytes: usize,
    /// The part of `bytes` that was considered lost and not retransmitted.
    pub(crate) bytes_held_lost: usize,
    /// Chunks newly acknowledged.
    pub(crate) chunks: u32,
    /// Bytes that were in flight before the acknowledgement.
    pub(crate) flight_before: usize,
    /// Number of the latest packet newly acknowledged.
    pub(crate) highest_packet: Option<u64>,
    /// The latest packet newly acknowledged whose chunks were sent only once, if
    /// [`AckSummary::times_packets`] is set.
    pub(crate) sent_once: Option<SentPacket>,
    /// Lowest and highest newly acknowledged TSN, if any.
    pub(crate) lowest_tsn: u64,
    pub(crate) highest_tsn: u64,
    /// The path's earliest chunks in flight, and whether one of them was acknowledged; for concurrent
    /// multipath transfer.
    pub(crate) pseudo_cumack: PseudoCumack,
    pub(crate) pseudo_cumack_advanced: bool,
    /// A measured round-trip time.
    pub(crate) rtt: Option<Duration>,
    /// The earliest outstanding chunk was acknowledged, so T3-rtx is restarted.
    pub(crate) earliest: bool,
    /// A chunk was acknowledged that only this path carried, or that it carried last.
    pub(crate) alive: bool,
    /// A chunk was acknowledged that only this path carried.
    pub(crate) proven: bool,
    /// A packet larger than the base MTU arrived.
    pub(crate) large: bool,
    /// A chunk was acknowledged that had been sent only once, if [`AckSummary::tells_repeats`] is set.
    pub(crate) first: bool,
    /// The same for a chunk whose retransmission on this path was in flight.
    pub(crate) again: bool,
    /// A chunk of this path was acknowledged that had been copied to another one.
    pub(crate) copied: bool,
}

/// Which packets of a path were newly acknowledged.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Arrived {
    path: PathId,
    /// The latest packet that carried a chunk for the first time.
    pub(crate) first_time: Option<SentPacket>,
    /// The latest packet that carried a retransmission.
    pub(crate) again: Option<SentPacket>,
    /// Number of the earliest packet that carried a chunk for the first time.
    pub(crate) earliest: Option<u64>,
    /// A chunk arrived that was considered lost and not retransmitted.
    pub(crate) late: bool,
}

/// Summary of an acknowledgement.
#[derive(Debug, Default)]
pub(crate) struct AckSummary {
    pub(crate) cumulative_advanced: bool,
    /// Several paths carry new data at the same time, so each is evaluated separately.
    pub(crate) split: bool,
    /// A congestion controller needs the round-trip time of each acknowledgement.
    pub(crate) times_packets: bool,
    /// It matters which chunks were retransmitted, because their packets are not ECN-capable.
    pub(crate) tells_repeats: bool,
    /// The number of packets with data that the acknowledgement covers, if the receiver reports that; 3
    /// means 3 or more.
    pub(crate) covered_packets: u8,
    /// The order and times of arrival, if they are needed.
    pub(crate) gathered: Option<Box<Gathered>>,
    /// The acknowledgement has gap ack blocks, so it reports chunks as missing.
    pub(crate) reports_gaps: bool,
    /// The number of the latest newly acknowledged packet.
    pub(crate) highest_packet: Option<u64>,
    /// The highest newly acknowledged TSN.
    pub(crate) highest_tsn: Option<u64>,
    /// A chunk was newly acknowledged that had been sent on two paths at once. It counts for nothing else.
    pub(crate) copied: bool,
    /// TSNs that were acknowledged before and no longer are.
    pub(crate) reneged: Vec<u64>,
    pub(crate) paths: PerPath<PathAck>,
}

impl OfPath for PathAck {
    #[inline]
    fn id(&self) -> PathId {
        self.path
    }
}

/// Information of an acknowledgement beyond missing reports.
#[derive(Debug, Default)]
pub(crate) struct Gathered {
    /// By path.
    pub(crate) arrived: PerPath<Arrived>,
    /// Newly acknowledged TSNs that had been retransmitted.
    pub(crate) again: Vec<u64>,
    /// Number of the earliest packet newly acknowledged.
    pub(crate) lowest_packet: Option<u64>,
    /// Send time of the latest retransmission among the newly acknowledged chunks.
    pub(crate) retransmitted_at: Option<Instant>,
}

impl OfPath for Arrived {
    #[inline]
    fn id(&self) -> PathId {
        self.path
    }
}

impl AckSummary {
    /// Resets the summary for the next acknowledgement.
    #[inline]
    fn begin(&mut self, out: &Outstanding) {
        self.highest_packet = None;
        self.highest_tsn = None;
        self.copied = false;
        self.reneged.clear();
        self.paths.clear();
        self.paths.reserve_for(out.flights().len());
        self.paths.extend(out.flights().map(|(path, flight_before)| PathAck {
            path,
            flight_before,
            ..PathAck::default()
        }));
        if let Some(gathered) = &mut self.gathered {
            gathered.again.clear();
            (gathered.lowest_packet, gathered.retransmitted_at) = (None, None);
            gathered.arrived.clear();
            let paths = out.flights().map(|(path, _)| path);
            gathered.arrived.extend(paths.map(|path| Arrived { path, ..Arrived::default() }));
        }
        if self.split {
            for ack in self.paths.iter_mut() {
                ack.pseudo_cumack = out.pseudo_cumack(ack.path);
            }
        }
    }

    pub(crate) fn newly_acked(&self) -> bool {
        self.highest_packet.is_some() || self.copied
    }
}

/// Why an acknowledgement was not used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AckError {
    /// It is older than a previous one.
    Old,
    /// It acknowledges data that was never sent.
    NeverSent,
    /// It revokes a cumulative or non-renegable acknowledgement.
    TakenBack,
}

/// Memory of the send buffer that an acknowledgement frees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Freed {
    /// Slots and their payload, in bytes.
    Slots { count: usize, bytes: usize },
    /// A payload, in bytes; its slot stays.
    Payload(usize),
}

/// The number of chunks that an acknowledgement may always report as missing again.
///
/// Marking a chunk as missing and acknowledging it again costs as much as the first time: a peer whose
/// gap blocks come and go could cause work for all outstanding data with each of its packets. A larger
/// number is accepted once per RTO. Until then acknowledged chunks stay acknowledged, except the next
/// TSN, which is certainly missing.
const FEW: usize = 64;

/// A received acknowledgement: of everything up to `cumulative`, of `blocks` above it, and irrevocably of
/// `nr_blocks`.
#[derive(Debug)]
pub(crate) struct Reported<B, N> {
    pub(crate) cumulative: u64,
    pub(crate) blocks: B,
    pub(crate) nr_blocks: N,
    /// The receiver had room for all its blocks, so TSNs that are not listed were not received.
    pub(crate) complete: bool,
    /// It may have been sent before the last one that was received, because the two came over different paths.
    pub(crate) may_be_old: bool,
    /// The longest retransmission timeout of all paths.
    pub(crate) longest_rto: Duration,
}

/// The receiver's acknowledgements as the sender knows them.
#[derive(Debug)]
pub(crate) struct Acknowledged {
    /// TSN ranges acknowledged above the cumulative point, sorted and disjoint.
    ranges: Vec<(u64, u64)>,
    /// The ranges of the current acknowledgement; kept to reuse its memory.
    scratch: Vec<(u64, u64)>,
    /// When more than `FEW` chunks were last reported missing again; `ZERO` if they never were.
    reneged_at: Instant,
    /// Present once the peer has reported non-renegable data.
    non_renegable: Option<Box<NonRenegable>>,
    /// Number of the latest packet ever acknowledged.
    pub(crate) highest_packet: u64,
    /// Highest TSN ever acknowledged.
    pub(crate) highest_tsn: u64,
}

impl Default for Acknowledged {
    fn default() -> Self {
        Self {
            ranges: Vec::new(),
            scratch: Vec::new(),
            reneged_at: Instant::ZERO,
            non_renegable: None,
            highest_packet: 0,
            highest_tsn: 0,
        }
    }
}

impl Acknowledged {
    /// Evaluates an acknowledgement. If one of some chunks measures the round-trip time of their path, `timed` returns
    /// the time since it was sent, once per path. Freed memory is reported to `freed`.
    pub(crate) fn digest<B, N>(
        &mut self,
        now: Instant,
        reported: Reported<B, N>,
        out: &mut Outstanding,
        summary: &mut AckSummary,
        mut timed: impl FnMut(PathId, RangeInclusive<u64>) -> Option<Duration>,
        mut freed: impl FnMut(Freed),
    ) -> Result<(), AckError>
    where
        B: Iterator<Item = (u16, u16)>,
        N: Iterator<Item = (u16, u16)>,
    {
        let Reported { cumulative, blocks, nr_blocks, complete, may_be_old, longest_rto } =
            reported;
        // RFC 9260 section 6.2.1 D i: a SACK older than the last one.
        if cumulative + 1 < out.base() {
            return Err(AckError::Old);
        }
        if cumulative >= out.next_tsn() {
            return Err(AckError::NeverSent);
        }
        self.read(cumulative, blocks, nr_blocks, out)?;
        let reported_to = self.scratch.last().map_or(cumulative, |(_, end)| *end);

        summary.cumulative_advanced = cumulative >= out.base();
        summary.reports_gaps = !self.scratch.is_empty();
        summary.begin(out);

        while out.base() <= cumulative {
            // req: rfc9260 6.7 "the endpoint MUST remove all DATA"
            if let Some(run) = out.pop_plain(cumulative) {
                note_run(&run, summary, &mut timed);
                freed(Freed::Slots { count: run.len(), bytes: run.payload });
                continue;
            }
            note(out.base(), out, summary, &mut timed);
            if let Some(slot) = out.pop() {
                freed(Freed::Slots { count: 1, bytes: slot.payload.len() });
            }
        }
        if let Some(non_renegable) = &mut self.non_renegable {
            non_renegable.complete(cumulative, &mut self.scratch);
        }
        // An older acknowledgement does not know what arrived since. If a receiver had no room for more blocks, it did
        // not necessarily renege on data above them. But the cumulative TSN always means that the next TSN is missing.
        let believes = !may_be_old && self.believes_reneging(now, longest_rto);
        let reported_to = match (believes, complete) {
            (false, _) => cumulative + 1,
            (true, false) => reported_to.max(cumulative + 1),
            (true, true) => u64::MAX,
        };
        self.compare(now, cumulative, reported_to, out, summary, &mut timed);
        if summary.reneged.len() > FEW {
            self.reneged_at = now;
        }
        if let Some(non_renegable) = &mut self.non_renegable {
            non_renegable.free(out, |length| freed(Freed::Payload(length)));
            if non_renegable.is_empty() {
                self.non_renegable = None;
            }
        }
        if let Some(highest) = summary.highest_packet {
            self.highest_packet = self.highest_packet.max(highest);
        }
        self.highest_tsn = self.highest_tsn.max(summary.highest_tsn.unwrap_or(0));
        Ok(())
    }

    /// Reads the blocks of both kinds into `scratch`, and those of the second kind into `non_renegable`.
    fn read(
        &mut self,
        cumulative: u64,
        blocks: impl Iterator<Item = (u16, u16)>,
        nr_blocks: impl Iterator<Item = (u16, u16)>,
        out: &Outstanding,
    ) -> Result<(), AckError> {
        read_blocks(cumulative, blocks, out.next_tsn(), &mut self.scratch)?;
        let mut nr_blocks = nr_blocks.peekable();
        if nr_blocks.peek().is_some() {
            self.non_renegable.get_or_insert_default();
        }
        if let Some(non_renegable) = &mut self.non_renegable {
            read_blocks(cumulative, nr_blocks, out.next_tsn(), &mut non_renegable.blocks)?;
            if NonRenegable::takes_back(cumulative, out) {
                return Err(AckError::TakenBack);
            }
            ranges::unite(&mut self.scratch, &non_renegable.blocks);
            non_renegable.doubt(cumulative);
        }
        Ok(())
    }

    /// Whether an RTO has passed since many chunks were reported missing again.
    fn believes_reneging(&self, now: Instant, rto: Duration) -> bool {
        self.reneged_at == Instant::ZERO || now.saturating_since(self.reneged_at) >= rto
    }

    /// Walks the known and the new ranges in parallel: TSNs only in the new ones are newly
    /// acknowledged, TSNs only in the known ones were reneged, if not above `reported_to`.
    fn compare(
        &mut self,
        now: Instant,
        cumulative: u64,
        reported_to: u64,
        out: &mut Outstanding,
        summary: &mut AckSummary,
        timed: &mut impl FnMut(PathId, RangeInclusive<u64>) -> Option<Duration>,
    ) {
        if self.ranges.is_empty() && self.scratch.is_empty() {
            return;
        }
        let mut known = self.ranges.iter().copied().filter(|(_, end)| *end > cumulative);
        let mut known_at = known.next().map(|(start, end)| (start.max(cumulative + 1), end));
        let mut kept_above = Vec::new();
        let mut reneged = |start: u64, end: u64, summary: &mut AckSummary| {
            let split = reported_to.saturating_add(1).max(start);
            summary.reneged.extend(start..split.min(end + 1));
            if split <= end {
                kept_above.push((split, end));
            }
        };
        for &(start, end) in &self.scratch {
            let mut at = start;
            while let Some((from, to)) = known_at {
                if from > end {
                    break;
                }
                if from < at {
                    reneged(from, to.min(at - 1), summary);
                }
                for tsn in at..from.max(at) {
                    newly(tsn, out, summary, timed);
                }
                at = at.max(to.min(end) + 1);
                if to <= end {
                    known_at = known.next();
                } else {
                    known_at = Some((end + 1, to));
                    break;
                }
            }
            for tsn in at..=end {
                newly(tsn, out, summary, timed);
            }
        }
        while let Some((from, to)) = known_at {
            reneged(from, to, summary);
            known_at = known.next();
        }
        std::mem::swap(&mut self.ranges, &mut self.scratch);
        ranges::unite(&mut self.ranges, &kept_above);
        for tsn in &summary.reneged {
            out.renege(now, *tsn);
        }
        if self.ranges.is_empty() {
            self.ranges = Vec::new();
            self.scratch = Vec::new();
        }
    }
}

/// Turns gap ack blocks into sorted ranges of TSNs.
fn read_blocks(
    cumulative: u64,
    blocks: impl Iterator<Item = (u16, u16)>,
    next_tsn: u64,
    ranges: &mut Vec<(u64, u64)>,
) -> Result<(), AckError> {
    ranges.clear();
    for (start, end) in blocks {
        // Ignore an impossible block, but use the others and the cumulative TSN.
        if start == 0 || start > end {
            continue;
        }
        let (start, end) = (cumulative + u64::from(start), cumulative + u64::from(end));
        if end >= next_tsn {
            return Err(AckError::NeverSent);
        }
        ranges.push((start, end));
    }
    ranges::normalise(ranges);
    Ok(())
}
