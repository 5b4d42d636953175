//! Bundling (RFC 9260 section 6.10): control chunks, an acknowledgement and data in one packet.

use anabranch_wire::{HEADER_LEN, NrSack, PacketWriter, Sack, Tsn};

use super::{Association, Written};
use crate::features::Features;
use crate::marks::mark;
use crate::per_path::PathId;
use crate::sender::{Budget, Carrier, DataTurn};
use crate::time::Instant;

impl Association {
    /// Fills packets with control chunks, acknowledgements and data for one path.
    #[expect(clippy::too_many_lines, reason = "the order of chunks in a packet, in one place")]
    pub(super) fn send_data(
        &mut self,
        now: Instant,
        path: PathId,
        max_segments: usize,
        buf: &mut Vec<u8>,
    ) -> Written {
        // req: rfc9260 6.10 "MUST be less that or equal to the"
        // req: rfc9260 7.2 "slow-start and congestion avoidance algorithms MUST be used"
        let full = self.paths[path].packet_size();
        let header = self.header();
        let mut written = Written::default();
        let uses_ecn = self.sender.uses_ecn(path);
        let mut limit = full;
        let mut budget = Budget::default();
        let first_number = self.sender.packet_number(path);
        for segment in 0..max_segments.max(1) {
            // All packets of a batch have the same ECN codepoint.
            if uses_ecn && segment > 0 && self.sender.has_repairs(now, path) == written.ecn_capable
            {
                break;
            }
            let (always, held_back) = self.room_to_authenticate_data(path);
            let mut packet = PacketWriter::new(buf, header, limit);
            packet.hold_back(held_back);
            budget.short = limit < full - full / 4;
            // req: rfc9260 6 "Control chunks MUST come before DATA chunks"
            // req: rfc9260 6.10 "MUST place control chunks first in the"
            self.write_control(path, &mut packet);
            if !self.outbox.chunks.is_empty() && self.outbox.chunks.iter().any(|(p, _)| *p == path)
            {
                // Chunks that did not fit are sent in the next packet, before any data.
                if packet.is_empty() {
                    packet.cancel();
                    self.outbox.chunks.pop_front();
                    break;
                }
                written.first = self.finish(packet);
                break;
            }
            let data = match self.state.sends_data() && self.paths[path].may_carry() {
                true => self.sender.data_for(now, path, &self.paths),
                false => DataTurn::default(),
            };
            let sends_data = data.any();
            let stamp = self.write_answers(now, path, sends_data, &mut packet);
            let data_from = packet.len();
            let bare = HEADER_LEN + stamp;
            let mut mixed = data_from > bare;
            let mut ecn_capable = false;
            let carrier = Carrier { path, number: first_number + segment as u64 };
            if sends_data {
                if segment == 0 {
                    // Do this before retransmissions, too, because after a failover they are sent
                    // first.
                    self.sender.apply_idle(now, path, &self.paths);
                }
                if data_from == bare
                    && self.sender.is_oversized(path, limit.saturating_sub(stamp + always))
                {
                    packet.cancel();
                    if segment > 0 {
                        // It is longer than the packets before it, so it begins the next batch.
                        break;
                    }
                    let first = self.send_oversized(now, carrier, buf);
                    return Written { fragmentable: true, ..Written::one(first) };
                }
                let repairs =
                    self.write_data(now, carrier, data, uses_ecn, &mut budget, &mut packet);
                mixed |= repairs;
                // RFC 3168 sections 6.1.5 and 6.1.6.
                ecn_capable = uses_ecn && !repairs && !self.sender.is_probing_window();
            }
            if packet.len() == bare {
                packet.cancel();
                break;
            }
            let has_data = packet.len() > data_from;
            self.paths[path].stats.data_packets_sent += u64::from(has_data);
            let len = self.finish(packet);
            if segment == 0 {
                written.first = len;
                written.ecn_capable = ecn_capable && has_data;
                limit = len;
                // Otherwise later packets would be cut to the length of a packet that happens to be
                // short.
                if mixed && len < full - full / 4 {
                    break;
                }
            }
            if !has_data || len < written.first {
                break;
            }
        }
        self.sender.end_batch(now, path, &budget, &self.paths);
        written
    }

    /// Writes what comes before data: a timestamp, reports of marks, an acknowledgement and a FORWARD TSN, if they are
    /// due or can accompany data. Returns the length of the timestamp.
    fn write_answers(
        &mut self,
        now: Instant,
        path: PathId,
        with_data: bool,
        packet: &mut PacketWriter<'_>,
    ) -> usize {
        let answers = self.sack_wanted(path, with_data);
        let mut stamp = 0;
        if self.timestamps.in_use() && (with_data || answers) {
            stamp = self.write_timestamp(now, path, answers, packet);
        }
        if answers {
            self.write_echoes(packet);
            self.write_sack(now, packet);
        }
        // req: rfc3758 3.5 "SHOULD always attempt to bundle an outgoing FORWARD TSN"
        if self.sender.forward_tsn_due() && self.state.sends_data() && self.paths[path].may_carry()
        {
            self.sender.write_forward_tsn(now, path, packet, &self.paths);
        }
        stamp
    }

    /// Writes retransmissions, copies and new data, as much as fits; returns whether there were any of the former two. `apart`: new
    /// data does not follow these, because they make the packet not ECN-capable.
    // req: rfc9260 6.10 "chunks within an SCTP packet in increasing order"
    fn write_data(
        &mut self,
        now: Instant,
        carrier: Carrier,
        data: DataTurn,
        apart: bool,
        budget: &mut Budget,
        packet: &mut PacketWriter<'_>,
    ) -> bool {
        let paths = &mut self.paths;
        let mut repairs =
            data.repairs && self.sender.write_retransmissions(now, carrier, budget, packet, paths);
        // To routers, a copy is a retransmission.
        repairs |= data.copies && self.sender.write_copies(now, carrier, packet, paths);
        // Whether data may follow retransmissions is decided separately from whether it may be sent without them.
        if !(apart && repairs) && (data.new || self.sender.data_for(now, carrier.path, paths).new) {
            budget.one_chunk = self.buggify(1);
            self.sender.write_new_data(now, carrier, budget, packet, &mut self.paths);
        }
        repairs
    }

    /// Sends a chunk that was made for a larger path MTU.
    fn send_oversized(&mut self, now: Instant, carrier: Carrier, buf: &mut Vec<u8>) -> usize {
        let mut packet = PacketWriter::new(buf, self.header(), usize::from(u16::MAX));
        packet.hold_back(self.room_to_authenticate_data(carrier.path).0);
        self.sender.write_oversized(now, carrier, &mut packet, &mut self.paths);
        self.paths[carrier.path].stats.data_packets_sent += 1;
        self.finish(packet)
    }

    /// Whether an acknowledgement belongs into a packet, because it is due or because it can
    /// accompany data.
    // req: rfc9260 6.1 "sender SHOULD create a SACK chunk and bundle it"
    fn sack_wanted(&mut self, path: PathId, with_data: bool) -> bool {
        let wanted = self.acknowledger.due() || (with_data && self.acknowledger.pending());
        wanted
            && path == self.acknowledger.path
            && self.state.acknowledges()
            && (self.acknowledger.due() || !self.buggify(1))
    }

    fn write_sack(&mut self, now: Instant, packet: &mut PacketWriter<'_>) {
        // req: rfc9260 6.2 "MUST report as many Gap Ack Blocks as"
        // req: rfc9260 6.7 "the endpoint MUST send only one SACK chunk"
        // req: rfc9260 6.2 "MUST fill in the Cumulative TSN Ack field"
        let header = if self.features.has(Features::NR_SACK) {
            NrSack::HEADER_LEN
        } else {
            Sack::HEADER_LEN
        };
        let room = packet.remaining().saturating_sub(header) / 4;
        // req: rfc9260 6.7 "This single SACK chunk MUST report the Gap"
        let (gaps, nr_gaps) = match (self.receiver.has_gaps(), self.features.has(Features::NR_SACK))
        {
            (false, _) => (Vec::new(), Vec::new()),
            (true, false) => (self.receiver.gap_blocks(room).collect(), Vec::new()),
            (true, true) => self.receiver.nr_gap_blocks(room),
        };
        let mut duplicates: Vec<Tsn> =
            self.receiver.take_duplicates().into_iter().map(|tsn| Tsn(tsn as u32)).collect();
        duplicates.truncate(room - (gaps.len() + nr_gaps.len()).min(room));
        self.note_memory();
        let longest = self.paths.iter().filter_map(|path| path.rtt.srtt()).max();
        if self.receiver.right_size(now, longest, &self.config.receiving) {
            self.paths[self.acknowledger.path].heartbeat.demand(now);
        }
        let a_rwnd = self.receiver.a_rwnd();
        let cumulative = self.cumulative();
        let at = packet.len();
        let written = if self.features.has(Features::NR_SACK) {
            packet.nr_sack(cumulative, a_rwnd, &gaps, &nr_gaps, &duplicates)
        } else {
            packet.sack(cumulative, a_rwnd, &gaps, &duplicates)
        };
        if written.is_ok() {
            packet.set_flags(at, self.acknowledger.flags());
            if self.features.has(Features::NR_SACK) {
                self.counts.nr_sacks_sent += 1;
                if !gaps.is_empty() {
                    mark!(NrSackRenegable);
                }
            }
            self.receiver.on_sack_sent(a_rwnd);
            // req: rfc9260 6.2 "Acknowledgements MUST be sent in SACK chunks"
            self.acknowledger.sent();
            self.counts.sacks_sent += 1;
            self.counts.control_chunks_sent += 1;
        }
    }
}
