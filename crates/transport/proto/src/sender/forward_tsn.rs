//! Tells the peer to skip what was given up (RFC 3758 section 3.5, C1 to C5).

use std::collections::BTreeMap;

use anabranch_wire::{Chunk, ForwardTsn, PacketWriter, SkippedStream, Ssn, Tsn};

use super::Sender;
use crate::marks::mark;
use crate::path::Paths;
use crate::per_path::PathId;
use crate::send::SlotState;
use crate::time::Instant;

/// The most TSNs that one FORWARD TSN skips. The peer takes SSNs that are further ahead for old ones.
const MOST: u64 = 1 << 15;

/// Bytes of the chunk without streams.
const HEADER: usize = 8;

/// Bytes of each stream in the chunk.
const STREAM: usize = 4;

/// What the peer must be told, and what it was told.
#[derive(Debug, Default)]
pub(super) struct PeerPoint {
    /// Advanced.Peer.Ack.Point: no TSN up to here is sent again.
    point: u64,
    /// For each stream with ordered messages that were given up: the last TSN and the SSN of the last of them.
    streams: BTreeMap<u16, (u64, Ssn)>,
    /// A FORWARD TSN must be sent.
    due: bool,
    /// The point in the last FORWARD TSN.
    told: u64,
    /// The path of the last FORWARD TSN, and when it was sent, until the peer has moved.
    sent: Option<(PathId, Instant)>,
}

impl Sender {
    /// Moves Advanced.Peer.Ack.Point over what was given up, message by message.
    ///
    /// It also passes messages that the peer has for good, and those that it has acknowledged and that would be given up
    /// if it reneged on them. Otherwise each gap would take a round trip of its own, and gaps can be more frequent than
    /// that.
    // req: rfc3758 3.5 "The data sender MUST then perform the following"
    pub(super) fn advance_peer_point(&mut self, now: Instant) {
        let Some(partial) = self.partial.as_deref_mut() else { return };
        let peer = &mut partial.peer;
        let before = peer.point;
        // C1: it is at least the cumulative TSN.
        let mut tsn = (peer.point + 1).max(self.outstanding.base());
        let end = self.outstanding.base() + MOST;
        while let Some(slot) = self.outstanding.get(tsn).filter(|_| tsn < end) {
            let Some(message) = self.outstanding.message(slot) else { break };
            let passes = match slot.state {
                SlotState::GivenUp | SlotState::NrAcked => true,
                SlotState::Acked => message.fate.forbids(now, 0),
                SlotState::InFlight | SlotState::Lost => false,
            };
            if !passes {
                break;
            }
            // The peer never keeps a part of a message.
            if slot.flags.end() {
                peer.point = tsn;
                // req: rfc3758 3.5 "MUST determine if the chunk has a valid stream"
                // req: rfc3758 3.5 "If the chunk has a valid stream and sequence number"
                // req: rfc3758 3.1 "This field MUST NOT report TSN's corresponding"
                // req: rfc3758 3.1 "chunks this field MUST be filled in"
                // req: rfc3758 3.5 "only the highest abandoned stream sequence number is reported"
                if message.given_up && !message.unordered {
                    peer.streams.insert(message.stream, (tsn, message.ssn));
                }
            }
            tsn += 1;
        }
        peer.due |= peer.point > before;
    }

    /// Whether a FORWARD TSN must be sent.
    pub(crate) fn forward_tsn_due(&self) -> bool {
        self.partial.as_ref().is_some_and(|partial| partial.peer.due)
    }

    /// Handles an acknowledgement: the peer has moved, or the FORWARD TSN may be lost.
    // req: rfc3758 3.5 "the data sender MUST send the data receiver a FORWARD TSN chunk"
    // req: rfc3758 3.5 "An endpoint MUST NOT use the FORWARD TSN for any purposes"
    // req: rfc3758 3.5 "SHOULD NOT exceed 200ms and MUST NOT exceed 500ms"
    // req: rfc3758 3.5 "below 500ms but MUST NOT raise it above"
    pub(super) fn on_peer_moved(&mut self, now: Instant, paths: &Paths) {
        self.advance_peer_point(now);
        let base = self.outstanding.base();
        let Some(partial) = self.partial.as_deref_mut() else { return };
        let peer = &mut partial.peer;
        if peer.point < base {
            peer.streams.clear();
            (peer.due, peer.sent) = (false, None);
            return;
        }
        // A full round trip passes before the same is sent again.
        let answered = |(path, at): (PathId, Instant)| {
            let srtt = paths.get(path).and_then(|path| path.rtt.srtt());
            srtt.is_none_or(|srtt| now.saturating_since(at) >= srtt)
        };
        peer.due |= peer.told < base || peer.sent.is_none_or(answered);
    }

    /// Sends the FORWARD TSN again, if the peer has not moved: it may be lost, or its path is gone.
    // req: rfc3758 3.5 "Any time the T3-rtx timer expires, on any destination"
    pub(super) fn repeat_forward_tsn(&mut self) {
        let base = self.outstanding.base();
        if let Some(partial) = self.partial.as_deref_mut() {
            partial.peer.due |= partial.peer.point >= base;
            partial.peer.sent = None;
        }
    }

    /// Writes a FORWARD TSN into a packet for `path`. If it does not fit, a later packet has more room for it.
    // req: rfc3758 3.1 "data chunks that SHOULD NOT be transmitted or"
    pub(crate) fn write_forward_tsn(
        &mut self,
        now: Instant,
        path: PathId,
        packet: &mut PacketWriter<'_>,
        paths: &Paths,
    ) {
        let most = packet.remaining().saturating_sub(HEADER) / STREAM;
        let Some((point, streams)) = self.skipped(most) else { return };
        let new_cumulative_tsn = Tsn(point as u32);
        let mut list = Vec::with_capacity(streams.len() * STREAM);
        let streams = anabranch_wire::List::encode(&streams, &mut list);
        let chunk = Chunk::ForwardTsn(ForwardTsn { new_cumulative_tsn, streams });
        if packet.chunk(&chunk).is_err() {
            return;
        }
        mark!(ForwardTsnSent);
        self.counts.forward_tsns_sent = self.counts.forward_tsns_sent.wrapping_add(1);
        if let Some(partial) = self.partial.as_deref_mut() {
            let peer = &mut partial.peer;
            (peer.due, peer.told, peer.sent) = (false, point, Some((path, now)));
        }
        self.watch_forward_tsn(now, paths);
    }

    /// The new cumulative TSN, and the streams with ordered messages that were given up, at most `most` of them. `None`
    /// if not even one message fits.
    fn skipped(&mut self, most: usize) -> Option<(u64, Vec<SkippedStream>)> {
        let base = self.outstanding.base();
        let peer = &mut self.partial.as_deref_mut()?.peer;
        // The peer has passed these. Their SSNs may come again.
        peer.streams.retain(|_, (tsn, _)| *tsn >= base);
        let point = peer.point;
        if peer.streams.len() <= most {
            let skipped = |(&stream, &(_, ssn)): (&u16, &(u64, Ssn))| SkippedStream { stream, ssn };
            return Some((point, peer.streams.iter().map(skipped).collect()));
        }
        // req: rfc3758 3.5 "SHOULD lower the Advanced.Peer.Ack.Point to the last TSN that will fit"
        let mut streams = BTreeMap::new();
        let mut fits = None;
        for tsn in base..=point {
            let slot = self.outstanding.get(tsn)?;
            let message = self.outstanding.message(slot)?;
            if !slot.flags.end() {
                continue;
            }
            if message.given_up && !message.unordered {
                if streams.len() == most && !streams.contains_key(&message.stream) {
                    break;
                }
                streams.insert(message.stream, message.ssn);
            }
            fits = Some(tsn);
        }
        let streams = streams.into_iter().map(|(stream, ssn)| SkippedStream { stream, ssn });
        fits.map(|point| (point, streams.collect()))
    }

    /// Starts T3-rtx for a FORWARD TSN, unless it runs on some path.
    // req: rfc3758 3.5 "MUST assure that at least one T3-rtx timer is running"
    pub(super) fn watch_forward_tsn(&mut self, now: Instant, paths: &Paths) {
        let Some(path) = self.forward_tsn_path() else { return };
        if self.lanes.iter().all(|lane| lane.t3.is_none()) {
            self.lanes[path].t3 = Some(now + paths[path].rtt.rto());
        }
    }

    /// The path of a FORWARD TSN that the peer has not followed.
    pub(super) fn forward_tsn_path(&self) -> Option<PathId> {
        let peer = &self.partial.as_ref()?.peer;
        let (path, _) = peer.sent?;
        self.lanes.has(path).then_some(path)
    }
}
