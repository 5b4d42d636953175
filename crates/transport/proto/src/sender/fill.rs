//! Writes DATA or I-DATA chunks into packets: retransmissions, and new data cut into fragments for the available
//! room.

use anabranch_wire::{DataFlags, HEADER_LEN, PacketWriter, Tsn};

use super::Sender;
use super::lane::Exception;
use super::rules::MAX_OUTSTANDING;

use crate::congestion::Sent;
use crate::marks::mark;
use crate::path::{Path, Paths};
use crate::per_path::PathId;
use crate::recovery::{Again, mfr};
use crate::send::Fragment;
use crate::time::Instant;
use crate::user_data::UserData;

/// Limits for the data sent in one call, and its amount so far.
#[derive(Debug, Default)]
pub(crate) struct Budget {
    packets: usize,
    pub(super) bytes: usize,
    /// If the first packet is short, the others are not longer.
    pub(crate) short: bool,
    /// At most one new chunk per packet.
    pub(crate) one_chunk: bool,
    /// The allowance of the pacer when the call began.
    pub(super) allowance: Option<usize>,
}

/// The packet that is being written.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Carrier {
    pub(crate) path: PathId,
    /// Its number for loss detection.
    pub(crate) number: u64,
}

impl Carrier {
    /// Whether a packet is larger than all paths are expected to carry.
    fn is_large(path: &Path, packet: &PacketWriter<'_>) -> bool {
        packet.len() + path.overhead() > usize::from(path.mtu.base())
    }
}

impl Sender {
    /// Whether the next retransmission is larger than a packet of `limit` bytes.
    #[inline]
    pub(crate) fn is_oversized(&self, path: PathId, limit: usize) -> bool {
        self.outstanding
            .first_lost(path)
            .and_then(|tsn| self.outstanding.get(tsn))
            .is_some_and(|slot| HEADER_LEN + slot.size() > limit)
    }

    /// Writes a chunk that was cut for a larger path MTU into a separate packet, which IP may fragment.
    // req: rfc9260 6.9 "then IP fragmentation MUST be"
    pub(crate) fn write_oversized(
        &mut self,
        now: Instant,
        carrier: Carrier,
        packet: &mut PacketWriter<'_>,
        paths: &mut Paths,
    ) {
        mark!(Oversized);
        self.write_one_retransmission(now, carrier, packet, paths);
        self.lanes[carrier.path].retransmit_at_once = false;
    }

    /// Writes as many lost chunks of a path as fit; returns whether there were any.
    ///
    /// They are paced like new data: if a full queue dropped many chunks, sending all of them immediately
    /// would fill it again, and each acknowledgement would report most of them lost again.
    pub(crate) fn write_retransmissions(
        &mut self,
        now: Instant,
        carrier: Carrier,
        budget: &mut Budget,
        packet: &mut PacketWriter<'_>,
        paths: &mut Paths,
    ) -> bool {
        let path = carrier.path;
        if !self.may_retransmit(now, path) {
            return false;
        }
        // The first packet after a loss does not wait (RFC 9260 section 7.2.4, step 3).
        if !self.lanes[path].retransmit_at_once && !self.pace(now, path, budget, paths) {
            return false;
        }
        let before = packet.len();
        let idle = !self.outstanding.in_flight(path);
        let mut any = false;
        while self.write_one_retransmission(now, carrier, packet, paths) {
            any = true;
        }
        if any {
            let flight = self.outstanding.flight(path);
            let lane = &mut self.lanes[path];
            lane.retransmit_at_once = false;
            lane.congestion.departs(now, carrier.number, flight, idle);
            budget.bytes += packet.len() - before;
        }
        any
    }

    /// Writes the first lost chunk of a path into a packet; `false` if there is none or it does not fit.
    fn write_one_retransmission(
        &mut self,
        now: Instant,
        carrier: Carrier,
        packet: &mut PacketWriter<'_>,
        paths: &mut Paths,
    ) -> bool {
        let Carrier { path, number } = carrier;
        let Some(tsn) = self.outstanding.first_lost(path) else { return false };
        let Some(slot) = self.outstanding.get(tsn) else { return false };
        let Some(message) = self.outstanding.message(slot) else { return false };
        let probe = self.probe_of(path, tsn);
        let chunk = UserData {
            flags: if probe.is_some() { slot.flags.with_immediate() } else { slot.flags },
            tsn: Tsn(tsn as u32),
            stream: message.stream,
            sequence: message.sequence,
            fsn: slot.fsn,
            ppid: message.ppid,
            payload: &slot.payload,
        };
        if chunk.write(packet, self.queue.interleaves()).is_err() {
            return false;
        }
        let length = slot.payload.len();
        let (before, copied) = (slot.packet, slot.copied());
        let is_earliest = self.outstanding.earliest(path).is_none_or(|earliest| tsn < earliest);
        let counted = mfr::counts_again(&self.config.recovery, slot.fast_retransmitted());
        let large = Carrier::is_large(&paths[path], packet);
        self.outstanding.retransmitted(now, tsn, path, number, counted, large);
        // The peer reports a chunk as a duplicate if its copy was only late.
        if self.config.recovery.gathers()
            && !copied
            && let Some(known) = self.outstanding.retransmission(tsn)
        {
            self.note_sent_again(known.from, Again::new(tsn, before, known.reported));
        }
        self.consider_copy(tsn);
        self.window.take(length);
        for other in self.lanes.iter_mut() {
            // req: rfc9260 6.3.1 "RTT measurements SHOULD only be made using a"
            other.timed = other.timed.filter(|(timed, _)| *timed < tsn);
        }
        let state = &mut paths[path];
        state.stats.retransmitted_chunks += 1;
        state.stats.data_chunks_sent += 1;
        state.stats.data_bytes_sent += length as u64;
        let lane = &mut self.lanes[path];
        lane.last_data = now;
        // req: rfc9260 6.1 "the sender MUST restart the timer if the earliest"
        // req: rfc9260 6.1 "the data sender MUST NOT restart the timer"
        // A probe does not delay the timer.
        lane.t3 = lane.t3.or(probe.and_then(|probe| probe.t3));
        if lane.t3.is_none() || (is_earliest && probe.is_none()) {
            // req: rfc9260 6.3.3 "SHOULD be the one for the destination"
            // req: rfc9260 6.1 "the timer value SHOULD be adjusted according"
            lane.t3 = Some(now + state.rtt.rto());
        }
        true
    }

    /// Writes new data into a packet, as permitted by [`may_send_new`](Self::may_send_new).
    // req: rfc8260 2.2.2 "window conditions MUST be observed"
    // req: rfc8260 2.2.2 "The sender MUST assign TSNs to I-DATA chunks in"
    pub(crate) fn write_new_data(
        &mut self,
        now: Instant,
        carrier: Carrier,
        budget: &mut Budget,
        packet: &mut PacketWriter<'_>,
        paths: &mut Paths,
    ) {
        let path = carrier.path;
        if !self.pace(now, path, budget, paths) {
            return;
        }
        if budget.packets == 0 {
            self.cut_cwnd_to_burst(now, path);
            let lane = &self.lanes[path];
            if self.charged(path) >= lane.congestion.cwnd() && lane.exception != Exception::Probe {
                return;
            }
        }
        self.occupancy.note(now, self.outstanding.held(), self.outstanding.held_acked());
        let before = packet.len();
        let idle = !self.outstanding.in_flight(path);
        let first = self.outstanding.next_tsn();
        let Some((at, flags)) = self.fill(now, carrier, budget, packet, paths) else { return };
        let room = paths[path].packet_size().saturating_sub(packet.len());
        if self.note_filled(now, room) {
            packet.set_flags(at, flags.with_immediate().0);
        }
        if self.last_new != path {
            mark!(MultipathTurn);
            self.last_new = path;
        }
        let flight = self.outstanding.flight(path);
        let lane = &mut self.lanes[path];
        lane.congestion.departs(now, carrier.number, flight, idle);
        lane.burst_left = lane.burst_left.saturating_sub(1);
        lane.exception.on_sent();
        lane.ecn.on_new_data(first);
        lane.last_data = now;
        self.watch_packet(now, path, carrier.number, paths);
        if !self.all_wait_for_copies(first) {
            paths[path].last_probe = now;
        }
        let lane = &mut self.lanes[path];
        // RFC 9260 section 6.3.2, R1.
        // req: rfc9260 6.1 "the sender MUST start that timer"
        lane.t3.get_or_insert(now + paths[path].rtt.rto());
        if lane.exception == Exception::Probe {
            self.probe_left(now, path);
        }
        budget.packets += 1;
        budget.bytes += packet.len() - before;
    }

    /// Cuts chunks for the rest of a packet; returns the position of the last one, and its flags.
    fn fill(
        &mut self,
        now: Instant,
        carrier: Carrier,
        budget: &Budget,
        packet: &mut PacketWriter<'_>,
        paths: &mut Paths,
    ) -> Option<(usize, DataFlags)> {
        let path = carrier.path;
        let largest = self.largest_payload(paths);
        // Chunks have to fit on every path. Where packets are larger, what fills the rest of each is no turn of a stream:
        // else streams that always get the rest would have a fraction of the others' rate.
        let turn = if paths[path].pmdcs() > paths.amdcs() { largest / 2 } else { 0 };
        let mut last = None;
        // req: rfc9260 6.9 "MUST also take into account the space required"
        while let Some(room) = packet.remaining().checked_sub(self.queue.header_len()) {
            // req: rfc9260 6.1 "MUST NOT have more than 2^16 - 1 ordered"
            // req: rfc9260 6.1 "MUST NOT use a TSN that is more than"
            // req: rfc9260 1.6 "SHOULD NOT transmit a DATA chunk with a"
            if self.outstanding.len() >= MAX_OUTSTANDING {
                break;
            }
            if self.queue.classes().is_some() && !self.select_for(path, paths) {
                break;
            }
            let Some(length) = self.next_chunk(room, largest, last.is_none()) else { break };
            // The rest of a message may make a short packet. Later packets of the batch cannot be longer,
            // and cutting the next messages to that length would never end.
            if budget.short && self.queue.is_cut_by(length) {
                break;
            }
            // A chunk is never cut to fit into the rest of the peer's window.
            let probes = length > self.window.left();
            if probes {
                if last.is_some() || !self.may_probe_window() {
                    break;
                }
                self.counts.zero_window_probes += 1;
                mark!(WindowProbe);
            }
            self.window.on_sent(probes);
            let Some(fragment) = self.queue.cut(length, turn, self.outstanding.next_message())
            else {
                break;
            };
            let flags = fragment.flags;
            last = Some((packet.len(), flags));
            self.write_chunk(now, carrier, fragment, packet, paths);
            if self.window.is_probed() || budget.one_chunk {
                break;
            }
            if flags.end() && self.queue.next_expiry().is_some() {
                self.expire(now);
            }
        }
        self.queue.end_packet();
        last
    }

    /// Writes a new chunk, which is outstanding from now on.
    #[inline]
    fn write_chunk(
        &mut self,
        now: Instant,
        carrier: Carrier,
        fragment: Fragment,
        packet: &mut PacketWriter<'_>,
        paths: &mut Paths,
    ) {
        let Carrier { path, number } = carrier;
        let (tsn, length) = (self.outstanding.next_tsn(), fragment.payload.len());
        let chunk = UserData {
            flags: fragment.flags,
            tsn: Tsn(tsn as u32),
            stream: fragment.stream,
            sequence: fragment.sequence,
            fsn: fragment.fsn,
            ppid: fragment.ppid,
            payload: &fragment.payload,
        };
        // Cannot fail: its length was chosen for the available room.
        if chunk.write(packet, self.queue.interleaves()).is_err() {
            debug_assert!(false, "a fragment larger than its room");
        }
        let large = Carrier::is_large(&paths[path], packet);
        self.outstanding.push(now, fragment, path, number, large);
        self.consider_copy(tsn);
        self.window.take(length);
        let stats = &mut paths[path].stats;
        stats.data_chunks_sent += 1;
        stats.data_bytes_sent += length as u64;
        // req: rfc9260 6.3.1 "MUST be made each round trip"
        if !self.echoes {
            self.lanes[path].timed.get_or_insert((tsn, now));
        }
    }

    /// Must be called after [`write_new_data`](Self::write_new_data) and similar methods, when their
    /// packets are sent.
    pub(crate) fn end_batch(&mut self, now: Instant, path: PathId, budget: &Budget, paths: &Paths) {
        if budget.bytes == 0 {
            return;
        }
        if self.config.recovery.tail_probe {
            self.probe_follows(now, path, paths);
        }
        let in_flight = self.outstanding.flight(path);
        let nothing_left = self.queue.is_empty() && self.outstanding.first_lost(path).is_none();
        let lane = &mut self.lanes[path];
        let app_limited = nothing_left && in_flight < lane.congestion.cwnd();
        if let Some(rate) = lane.congestion.rate.as_mut().filter(|_| app_limited) {
            rate.on_app_limited(in_flight);
        }
        let sent = Sent { now, bytes: budget.bytes, in_flight, app_limited };
        lane.congestion.tell(|c| c.on_sent(&sent));
        if let Some(pacer) = &mut lane.pacer {
            pacer.sent(budget.bytes);
        }
    }
}
