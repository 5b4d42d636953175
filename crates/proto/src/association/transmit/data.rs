//! DATA chunks: retransmissions, and new data cut into fragments as there is room.

use anabranch_wire::{Data, HEADER_LEN, Header, PacketWriter, Tsn};

use super::Association;
use super::rules::{Budget, MAX_OUTSTANDING};
use crate::marks::mark;
use crate::time::Instant;

impl Association {
    /// Whether the next retransmission is larger than the path carries now.
    pub(super) fn oversized(&self, path: usize, limit: usize) -> bool {
        self.outstanding
            .first_lost(path)
            .and_then(|tsn| self.outstanding.get(tsn))
            .is_some_and(|slot| HEADER_LEN + slot.size() > limit)
    }

    /// A chunk that was cut for a larger path MTU goes alone, and IP may fragment it.
    // req: rfc9260 6.9 "then IP fragmentation MUST be"
    pub(super) fn send_oversized(
        &mut self,
        now: Instant,
        path: usize,
        header: Header,
        number: u64,
        buf: &mut Vec<u8>,
    ) -> usize {
        mark!(Oversized);
        let mut packet = PacketWriter::new(buf, header, usize::from(u16::MAX));
        self.write_one_retransmission(now, path, number, &mut packet);
        let state = &mut self.paths[path];
        state.retransmit_at_once = false;
        state.stats.data_packets_sent += 1;
        self.finish(packet)
    }

    /// Lost chunks of a path, as many as fit; whether there was one.
    ///
    /// They are paced as new data is. The many that a full queue dropped would fill it again at
    /// once, and each acknowledgement would tell that most of them are lost again.
    pub(super) fn write_retransmissions(
        &mut self,
        now: Instant,
        path: usize,
        number: u64,
        budget: &mut Budget,
        packet: &mut PacketWriter<'_>,
    ) -> bool {
        let mut any = false;
        if !self.may_retransmit(now, path) {
            return any;
        }
        // The first one after a loss waits for nothing (RFC 9260 section 7.2.4, step 3).
        if !self.paths[path].retransmit_at_once && !self.pace(now, path, budget) {
            return any;
        }
        let before = packet.len();
        while self.write_one_retransmission(now, path, number, packet) {
            any = true;
        }
        if any {
            self.paths[path].retransmit_at_once = false;
            budget.bytes += packet.len() - before;
        }
        any
    }

    /// Puts the first lost chunk of a path into a packet; `false` if there is none or no room.
    fn write_one_retransmission(
        &mut self,
        now: Instant,
        path: usize,
        number: u64,
        packet: &mut PacketWriter<'_>,
    ) -> bool {
        let Some(tsn) = self.outstanding.first_lost(path) else { return false };
        let Some(slot) = self.outstanding.get(tsn) else { return false };
        let data = Data {
            flags: slot.flags,
            tsn: Tsn(tsn as u32),
            stream: slot.stream,
            ssn: slot.ssn,
            ppid: slot.ppid,
            payload: &slot.payload,
        };
        if packet.data(&data).is_err() {
            return false;
        }
        let length = slot.payload.len();
        let is_earliest = self.outstanding.earliest(path).is_none_or(|earliest| tsn < earliest);
        let again = self.config.recovery.multiple_fast_retransmit;
        let large = self.is_large(path, packet);
        self.outstanding.retransmitted(now, tsn, path, number, again, large);
        self.peer_rwnd = self.peer_rwnd.saturating_sub(u32::try_from(length).unwrap_or(u32::MAX));
        for other in self.paths.iter_mut() {
            // req: rfc9260 6.3.1 "RTT measurements SHOULD only be made using a"
            other.timed = other.timed.filter(|(timed, _)| *timed < tsn);
        }
        let state = &mut self.paths[path];
        state.stats.retransmitted_chunks += 1;
        state.stats.data_chunks_sent += 1;
        state.stats.data_bytes_sent += length as u64;
        state.last_data = now;
        // req: rfc9260 6.1 "the sender MUST restart the timer if the earliest"
        // req: rfc9260 6.1 "the data sender MUST NOT restart the timer"
        if state.t3.is_none() || is_earliest {
            // req: rfc9260 6.3.3 "SHOULD be the one for the destination"
            // req: rfc9260 6.1 "the timer value SHOULD be adjusted according"
            state.t3 = Some(now + state.rtt.rto());
        }
        true
    }

    /// Puts new data into a packet, which [`may_send_new`](Self::may_send_new) said may leave.
    pub(super) fn write_new_data(
        &mut self,
        now: Instant,
        path: usize,
        number: u64,
        budget: &mut Budget,
        packet: &mut PacketWriter<'_>,
    ) {
        if !self.pace(now, path, budget) {
            return;
        }
        if budget.packets == 0 {
            self.cut_cwnd_to_burst(path);
            if self.outstanding.flight(path) >= self.paths[path].congestion.cwnd() {
                return;
            }
        }
        self.occupancy.note(now, self.outstanding.held(), self.outstanding.held_acked());
        let largest = self.amdcs() - Data::HEADER_LEN;
        let before = packet.len();
        let mut in_packet = false;
        // req: rfc9260 6.9 "MUST also take into account the space required"
        while let Some(room) = packet.remaining().checked_sub(Data::HEADER_LEN) {
            // req: rfc9260 6.1 "MUST NOT have more than 2^16 - 1 ordered"
            // req: rfc9260 6.1 "MUST NOT use a TSN that is more than"
            // req: rfc9260 1.6 "SHOULD NOT transmit a DATA chunk with a"
            if self.outstanding.len() >= MAX_OUTSTANDING {
                break;
            }
            let Some(length) = self.next_chunk(room, largest, !in_packet) else { break };
            // The rest of a message may make a short packet. What follows it in the batch is no
            // longer, and cutting the next messages to that would go on for ever.
            if budget.short && self.send.is_cut_by(length) {
                break;
            }
            // A chunk is never cut to fit into what is left of the window.
            if length > self.peer_rwnd as usize {
                if in_packet || !self.may_probe_window(now) {
                    break;
                }
                self.probing = true;
                self.sack_since_probe = false;
                self.counters.zero_window_probes += 1;
                mark!(WindowProbe);
            }
            self.probe_now = false;
            let Some(fragment) = self.send.cut(length) else { break };
            let ends = fragment.flags.end();
            let tsn = self.outstanding.next_tsn();
            let data = Data {
                flags: fragment.flags,
                tsn: Tsn(tsn as u32),
                stream: fragment.stream,
                ssn: fragment.ssn,
                ppid: fragment.ppid,
                payload: &fragment.payload,
            };
            // `peek` was told how much room there is.
            if packet.data(&data).is_err() {
                debug_assert!(false, "a fragment larger than its room");
            }
            let large = self.is_large(path, packet);
            self.outstanding.push(fragment, path, number, large);
            self.peer_rwnd =
                self.peer_rwnd.saturating_sub(u32::try_from(length).unwrap_or(u32::MAX));
            let state = &mut self.paths[path];
            state.stats.data_chunks_sent += 1;
            state.stats.data_bytes_sent += length as u64;
            // req: rfc9260 6.3.1 "MUST be made each round trip"
            if !self.timestamps.in_use {
                state.timed.get_or_insert((tsn, now));
            }
            in_packet = true;
            if self.probing || self.buggify(1) {
                break;
            }
            if ends {
                self.expire_messages(now);
            }
        }
        if in_packet {
            if self.last_new != path {
                mark!(MultipathTurn);
                self.last_new = path;
            }
            let state = &mut self.paths[path];
            state.burst_left = state.burst_left.saturating_sub(1);
            state.last_data = now;
            state.last_probe = now;
            // RFC 9260 section 6.3.2, R1.
            // req: rfc9260 6.1 "the sender MUST start that timer"
            state.t3.get_or_insert(now + state.rtt.rto());
            budget.packets += 1;
            budget.bytes += packet.len() - before;
        }
    }

    /// Whether a packet is larger than what every path is expected to carry.
    fn is_large(&self, path: usize, packet: &PacketWriter<'_>) -> bool {
        let path = &self.paths[path];
        packet.len() + path.overhead() > usize::from(path.mtu.base())
    }
}
