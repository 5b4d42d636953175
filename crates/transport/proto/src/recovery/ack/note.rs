//! The consequences of the acknowledgement of a chunk, or of many at once, for the summary.

use std::ops::RangeInclusive;
use std::time::Duration;

use super::{AckSummary, Arrived, Gathered, PathAck};
use crate::per_path::PathId;
use crate::send::{Outstanding, PlainRun, SentPacket, Slot, SlotState};

/// Records that a chunk was acknowledged by a gap ack block.
pub(super) fn newly(
    tsn: u64,
    out: &mut Outstanding,
    summary: &mut AckSummary,
    timed: &mut impl FnMut(PathId, RangeInclusive<u64>) -> Option<Duration>,
) {
    note(tsn, out, summary, timed);
    out.gap_ack(tsn);
}

/// Records the consequences of one chunk's acknowledgement, before its slot changes.
pub(super) fn note(
    tsn: u64,
    out: &Outstanding,
    summary: &mut AckSummary,
    timed: &mut impl FnMut(PathId, RangeInclusive<u64>) -> Option<Duration>,
) {
    let Some(slot) = out.get(tsn) else { return };
    if slot.state.is_acked() {
        return;
    }
    if slot.copied() {
        note_copied(tsn, slot, out, summary);
        return;
    }
    // A late arrival of a chunk says nothing about the path of its pending retransmission.
    let known = (slot.state == SlotState::Lost).then(|| out.retransmission(tsn)).flatten();
    let path = known.map_or(slot.path, |known| known.from);
    summary.highest_packet = summary.highest_packet.max(Some(slot.packet));
    summary.highest_tsn = summary.highest_tsn.max(Some(tsn));
    if let Some(gathered) = &mut summary.gathered {
        note_arrival(tsn, slot, path, out, gathered);
    }
    let times_packets = summary.times_packets;
    let tells_repeats = summary.tells_repeats && slot.state == SlotState::InFlight;
    // The path that carried it may have been removed.
    let Some(ack) = summary.paths.get_mut(path) else { return };
    if times_packets && slot.state == SlotState::InFlight {
        note_packet(tsn, slot, out, ack);
    }
    if tells_repeats {
        let again = out.retransmission(tsn).is_some();
        ack.first |= !again;
        ack.again |= again;
    }
    ack.highest_packet = ack.highest_packet.max(Some(slot.packet));
    ack.lowest_tsn = if ack.chunks == 0 { tsn } else { ack.lowest_tsn.min(tsn) };
    ack.highest_tsn = ack.highest_tsn.max(tsn);
    ack.pseudo_cumack_advanced |= ack.pseudo_cumack.is_advanced_by(tsn..=tsn);
    ack.bytes += slot.size();
    if slot.state == SlotState::Lost {
        ack.bytes_held_lost += slot.size();
    }
    ack.chunks += 1;
    ack.large |= slot.large() && slot.state == SlotState::InFlight;
    // req: rfc9260 8.2 "SHOULD clear the error counter of the destination"
    ack.proven |= !slot.ambiguous();
    ack.alive |= !slot.ambiguous() || slot.state == SlotState::InFlight;
    if slot.state == SlotState::InFlight && !ack.earliest {
        ack.earliest = out.earliest(path) == Some(tsn);
    }
    // req: rfc9260 6.3.1 "RTT measurements MUST NOT be made using"
    ack.rtt = timed(path, tsn..=tsn).or(ack.rtt);
}

/// The same as [`note`] for each chunk of a run, which was removed.
pub(super) fn note_run(
    run: &PlainRun,
    summary: &mut AckSummary,
    timed: &mut impl FnMut(PathId, RangeInclusive<u64>) -> Option<Duration>,
) {
    let packet = run.last_packet;
    summary.highest_packet = summary.highest_packet.max(Some(packet.number));
    summary.highest_tsn = summary.highest_tsn.max(Some(run.last_tsn));
    if let Some(gathered) = &mut summary.gathered {
        gathered.note_packets(run.first_packet);
        if let Some(arrived) = gathered.arrived.get_mut(run.path) {
            arrived.note_first_time(run.first_packet, packet);
        }
    }
    let Some(ack) = summary.paths.get_mut(run.path) else { return };
    if summary.times_packets && ack.sent_once.is_none_or(|known| known.number < packet.number) {
        ack.sent_once = Some(packet);
    }
    ack.first |= summary.tells_repeats;
    ack.highest_packet = ack.highest_packet.max(Some(packet.number));
    ack.lowest_tsn =
        if ack.chunks == 0 { run.first_tsn } else { ack.lowest_tsn.min(run.first_tsn) };
    ack.highest_tsn = ack.highest_tsn.max(run.last_tsn);
    ack.pseudo_cumack_advanced |= ack.pseudo_cumack.is_advanced_by(run.first_tsn..=run.last_tsn);
    ack.bytes += run.bytes;
    ack.chunks += run.len() as u32;
    ack.large |= run.large;
    ack.proven = true;
    ack.alive = true;
    ack.earliest |= run.earliest;
    ack.rtt = timed(run.path, run.first_tsn..=run.last_tsn).or(ack.rtt);
}

/// Records that a chunk sent on two paths at once has arrived, which only the timer of its path needs: the arrival
/// measures no path, credits none, and is no evidence that a path lost earlier packets.
fn note_copied(tsn: u64, slot: &Slot, out: &Outstanding, summary: &mut AckSummary) {
    summary.copied = true;
    let Some(ack) = summary.paths.get_mut(slot.path) else { return };
    ack.copied = true;
    ack.pseudo_cumack_advanced |= ack.pseudo_cumack.is_advanced_by(tsn..=tsn);
    if slot.state == SlotState::InFlight && !ack.earliest {
        ack.earliest = out.earliest(slot.path) == Some(tsn);
    }
}

/// Records when the latest packet was sent. A retransmission is ambiguous: its first transmission may have arrived.
fn note_packet(tsn: u64, slot: &Slot, out: &Outstanding, ack: &mut PathAck) {
    if ack.sent_once.is_some_and(|known| known.number >= slot.packet)
        || out.retransmission(tsn).is_some_and(|known| known.again)
    {
        return;
    }
    if let Some(at) = out.sent_at(tsn) {
        ack.sent_once = Some(SentPacket { number: slot.packet, at });
    }
}

/// Records the time and order of arrivals.
fn note_arrival(tsn: u64, slot: &Slot, path: PathId, out: &Outstanding, gathered: &mut Gathered) {
    let known = out.retransmission(tsn);
    let again = known.is_some_and(|known| known.again);
    let lost = slot.state == SlotState::Lost;
    if again {
        gathered.again.push(tsn);
    }
    gathered.note_packets(slot.packet);
    let sent = if lost { known.and_then(|known| known.sent) } else { out.sent_at(tsn) };
    if known.is_some() && !lost {
        gathered.retransmitted_at = gathered.retransmitted_at.max(sent);
    }
    let (Some(arrived), Some(at)) = (gathered.arrived.get_mut(path), sent) else { return };
    let packet = SentPacket { number: slot.packet, at };
    if again {
        // If the retransmission was considered lost, too, it is not known which transmission arrived.
        if !lost {
            keep_latest(&mut arrived.again, packet);
        }
        return;
    }
    arrived.late |= lost;
    arrived.note_first_time(packet.number, packet);
}

fn keep_latest(known: &mut Option<SentPacket>, packet: SentPacket) {
    if known.is_none_or(|known| known.number < packet.number) {
        *known = Some(packet);
    }
}

impl Arrived {
    /// Notes packets that carried chunks for the first time: the number of the first one, and the last one.
    fn note_first_time(&mut self, first: u64, last: SentPacket) {
        self.earliest = Some(self.earliest.map_or(first, |known| known.min(first)));
        keep_latest(&mut self.first_time, last);
    }
}

impl Gathered {
    /// Notes that packets were acknowledged; `first` is the lowest number.
    fn note_packets(&mut self, first: u64) {
        self.lowest_packet = Some(self.lowest_packet.map_or(first, |known| known.min(first)));
    }
}
