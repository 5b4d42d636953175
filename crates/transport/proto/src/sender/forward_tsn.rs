//! Tells the peer to skip what was given up (RFC 3758 section 3.5, C1 to C5), with FORWARD TSN, or with I-FORWARD-TSN
//! if messages are interleaved (RFC 8260 section 2.3.1).

use std::collections::{BTreeMap, BTreeSet};

use anabranch_wire::{Element as _, NoRoom, PacketWriter, SkippedMessage, SkippedStream, Ssn, Tsn};

use super::Sender;
use crate::marks::mark;
use crate::path::Paths;
use crate::per_path::PathId;
use crate::send::{OutMessage, Slot, SlotState};
use crate::time::Instant;

/// The most TSNs that one chunk skips. The peer takes SSNs that are further ahead for old ones.
const MOST: u64 = 1 << 15;

/// Bytes of the chunk without streams.
const HEADER: usize = 8;

/// Streams with messages that the peer must skip, and whether these are unordered, with the last TSN and the number of
/// the last of them.
type Streams = BTreeMap<(u16, bool), (u64, u32)>;

/// What the peer must be told, and what it was told.
#[derive(Debug, Default)]
pub(super) struct PeerPoint {
    /// Advanced.Peer.Ack.Point: no TSN up to here is sent again.
    point: u64,
    /// The streams up to the point. Without interleaving, unordered messages are not among them.
    streams: Streams,
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
    /// that. It does not pass the latter while acknowledgements may overtake each other: then reneging is not noticed at
    /// once, and the peer would skip a message without knowing its number.
    ///
    /// Without interleaving the point does not divide any message, because the peer drops all messages that are not
    /// complete up to the point. With interleaving it may divide messages: the peer drops those that the chunk names. But
    /// no chunk of them may be in flight any more, because the peer would store it.
    // req: rfc3758 3.5 "The data sender MUST then perform the following"
    pub(super) fn advance_peer_point(&mut self, now: Instant) {
        let interleaves = self.queue.interleaves();
        let tells_reneging = !self.acks_may_be_old();
        let Some(partial) = self.partial.as_deref_mut() else { return };
        let peer = &mut partial.peer;
        // C1: it is at least the cumulative TSN.
        let before = peer.point.max(self.outstanding.base() - 1);
        let mut tsn = before + 1;
        let end = self.outstanding.base() + MOST;
        // Messages that the point divides at `tsn`, and streams that the peer must be told of with the next point.
        let (mut divided, mut found) = (BTreeSet::new(), Vec::new());
        while let Some(slot) = self.outstanding.get(tsn).filter(|_| tsn < end) {
            let Some(message) = self.outstanding.message(slot) else { break };
            let passes = match slot.state {
                SlotState::GivenUp | SlotState::NrAcked => true,
                SlotState::Acked => {
                    message.given_up || tells_reneging && message.fate.forbids(now, 0)
                }
                SlotState::InFlight | SlotState::Lost => false,
            };
            if !passes {
                break;
            }
            // The peer keeps the parts of a message that it has for good, if messages are interleaved.
            if slot.flags.end() {
                divided.remove(&slot.message);
            } else if !interleaves || slot.state != SlotState::NrAcked {
                divided.insert(slot.message);
            }
            if skips(slot, message, interleaves) {
                let key = (message.stream, message.unordered);
                found.push((key, (message.last(), message.sequence)));
            }
            if divided.is_empty() {
                peer.point = tsn;
                peer.streams.extend(found.drain(..));
            }
            tsn += 1;
        }
        if interleaves && divided.iter().all(|number| self.outstanding.is_given_up(*number)) {
            peer.point = tsn - 1;
            peer.streams.extend(found);
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
        let interleaves = self.queue.interleaves();
        let each = if interleaves { SkippedMessage::LEN } else { SkippedStream::LEN };
        let most = packet.remaining().saturating_sub(HEADER) / each;
        let Some((point, streams)) = self.skipped(most) else { return };
        if write(packet, Tsn(point as u32), &streams, interleaves).is_err() {
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

    /// The new cumulative TSN, and the streams with messages that were given up, at most `most` of them. `None` if not
    /// even one message fits.
    fn skipped(&mut self, most: usize) -> Option<(u64, Streams)> {
        let interleaves = self.queue.interleaves();
        let base = self.outstanding.base();
        let peer = &mut self.partial.as_deref_mut()?.peer;
        // The peer has passed these. Their SSNs may come again.
        peer.streams.retain(|_, (tsn, _)| *tsn >= base);
        let point = peer.point;
        if peer.streams.len() <= most {
            return Some((point, peer.streams.clone()));
        }
        // req: rfc3758 3.5 "SHOULD lower the Advanced.Peer.Ack.Point to the last TSN that will fit"
        let mut streams = Streams::new();
        let mut fits = None;
        for tsn in base..=point {
            let slot = self.outstanding.get(tsn)?;
            let message = self.outstanding.message(slot)?;
            if skips(slot, message, interleaves) {
                let key = (message.stream, message.unordered);
                if streams.len() == most && !streams.contains_key(&key) {
                    break;
                }
                streams.insert(key, (message.last(), message.sequence));
            }
            if interleaves || slot.flags.end() {
                fits = Some(tsn);
            }
        }
        fits.map(|point| (point, streams))
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

/// Whether the peer must be told the number of a message if the point passes this chunk of it.
// req: rfc3758 3.5 "MUST determine if the chunk has a valid stream"
// req: rfc3758 3.5 "If the chunk has a valid stream and sequence number"
// req: rfc3758 3.1 "This field MUST NOT report TSN's corresponding"
// req: rfc3758 3.1 "chunks this field MUST be filled in"
// req: rfc3758 3.5 "only the highest abandoned stream sequence number is reported"
fn skips(slot: &Slot, message: &OutMessage, interleaves: bool) -> bool {
    message.given_up && (interleaves || slot.flags.end() && !message.unordered)
}

/// Appends the chunk to a packet.
// req: rfc8260 2.3.1 "chunk MUST be used instead of the FORWARD-TSN chunk"
// req: rfc8260 2.3.1 "FORWARD-TSN chunk MUST be used in combination with the DATA chunk"
// req: rfc8260 2.3.1 "FORWARD-TSN chunk MUST be used in combination with the I-DATA chunk"
// req: rfc8260 2.3.1 "MUST NOT be used in combination with the I-DATA chunk"
fn write(
    packet: &mut PacketWriter<'_>,
    point: Tsn,
    streams: &Streams,
    interleaves: bool,
) -> Result<(), NoRoom> {
    let streams =
        streams.iter().map(|(&(stream, unordered), &(_, number))| (stream, unordered, number));
    if interleaves {
        let skipped =
            streams.map(|(stream, unordered, mid)| SkippedMessage { stream, unordered, mid });
        return packet.i_forward_tsn(point, &skipped.collect::<Vec<_>>());
    }
    let skipped = streams.map(|(stream, _, ssn)| SkippedStream { stream, ssn: Ssn(ssn as u16) });
    packet.forward_tsn(point, &skipped.collect::<Vec<_>>())
}
