//! Filling packets: what is sent next, on which path, and what goes into one packet.

use anabranch_wire::{
    Causes, Chunk, Data, Error, HEADER_LEN, Header, Heartbeat, PacketWriter, Tsn, kind,
};

use super::state::State;
use super::{Association, Control};
use crate::endpoint::Transmit;
use crate::marks::mark;
use crate::path::HeartbeatInfo;
use crate::policy::RetransmissionPrecedence;
use crate::time::Instant;

/// Bytes of a chunk header.
const CHUNK_HEADER: usize = 4;
/// Bytes of a HEARTBEAT of this side.
const HEARTBEAT_LEN: usize = CHUNK_HEADER + 4 + HeartbeatInfo::LEN;
/// Largest packet for a handshake chunk that is larger than the path MTU is known to be.
const MAX_HANDSHAKE: usize = 4096;

/// Chunks that may be outstanding: what gap ack blocks can describe, and no more ordered
/// messages of a stream than their numbers tell apart.
const MAX_OUTSTANDING: usize = u16::MAX as usize;

/// What has its turn to be sent.
#[derive(Clone, Copy, Debug)]
enum Turn {
    Control(usize),
    Heartbeat(usize),
    MtuProbe(usize, u16),
    Data(usize),
}

impl Association {
    /// Fills packets of equal size for one path into `buf`, the last one may be shorter.
    // req: rfc9260 6.1 "The following general rules MUST be applied"
    pub(crate) fn poll_transmit(
        &mut self,
        now: Instant,
        max_segments: usize,
        buf: &mut Vec<u8>,
    ) -> Option<Transmit> {
        while let Some(turn) = self.next_turn(now) {
            let start = buf.len();
            let (path, first, fragmentable) = match turn {
                Turn::Control(path) => self.send_control(now, path, max_segments, buf),
                Turn::Heartbeat(path) => (path, self.send_heartbeat(now, path, buf), false),
                Turn::MtuProbe(path, size) => {
                    (path, self.send_mtu_probe(now, path, size, buf), false)
                }
                Turn::Data(path) => {
                    let (first, fragmentable) = self.send_data(now, path, max_segments, buf);
                    (path, first, fragmentable)
                }
            };
            let len = buf.len() - start;
            if len == 0 {
                continue;
            }
            let state = &mut self.paths[path];
            let packets = len.div_ceil(first.max(1)) as u64;
            state.stats.packets_sent += packets;
            state.stats.bytes_sent += len as u64;
            self.packets += packets;
            return Some(Transmit {
                local: state.local,
                remote: state.remote,
                remote_udp_port: state.remote_udp_port,
                ecn: None,
                len,
                segment_size: first,
                dont_fragment: !fragmentable,
                out_of_the_blue: false,
            });
        }
        // Control chunks are rare; an idle association keeps no memory for them.
        if self.control.is_empty() {
            self.control.shrink_to(0);
        }
        None
    }

    /// Whether [`poll_transmit`](Self::poll_transmit) would send something.
    pub(crate) fn wants_to_send(&mut self, now: Instant) -> bool {
        self.next_turn(now).is_some()
    }

    /// What [`poll_transmit`](Self::poll_transmit) would send, in words.
    #[cfg(any(test, feature = "invariants"))]
    pub(crate) fn wanted_turn(&mut self, now: Instant) -> Option<String> {
        self.next_turn(now).map(|turn| format!("{turn:?}"))
    }

    fn next_turn(&mut self, now: Instant) -> Option<Turn> {
        if let Some((path, _)) = self.control.front() {
            return Some(Turn::Control(usize::from(*path)));
        }
        // req: rfc9260 5.1 "any other packets to the peer"
        if !self.is_established() {
            return None;
        }
        if self.state.heartbeats() {
            for (index, path) in self.paths.iter_mut().enumerate() {
                if path.heartbeat.is_due(now) {
                    return Some(Turn::Heartbeat(index));
                }
                if path.is_active()
                    && let Some(size) = path.mtu.next_probe()
                {
                    return Some(Turn::MtuProbe(index, size));
                }
            }
        }
        if self.state.acknowledges() && self.acknowledger.due() {
            return Some(Turn::Data(self.sack_path));
        }
        if self.outstanding.lost_chunks() > 0 {
            let ready = (0..self.paths.len()).find(|path| self.may_retransmit(now, *path));
            if ready.is_some() {
                return ready.map(Turn::Data);
            }
        }
        self.may_send_new(now, self.active).then_some(Turn::Data(self.active))
    }

    /// Whether a packet of retransmissions may leave on a path.
    // req: rfc9260 6.1 "The breach of cwnd MUST constitute one packet"
    fn may_retransmit(&self, now: Instant, path: usize) -> bool {
        let state = &self.paths[path];
        let paced = self.paced_until.is_some_and(|until| until > now);
        self.outstanding.first_lost(path).is_some()
            && (state.retransmit_at_once
                || (!paced && self.outstanding.flight(path) < state.congestion.cwnd()))
    }

    /// Whether a packet with new data may leave on a path.
    fn may_send_new(&mut self, now: Instant, path: usize) -> bool {
        if self.send.is_empty() || !self.state.sends_data() || self.burst_left == 0 {
            return false;
        }
        // req: rfc9260 6.1 "MUST first transmit any DATA chunks"
        let pending = match self.config.retransmission_precedence {
            RetransmissionPrecedence::AllPaths => self.outstanding.lost_chunks() > 0,
            RetransmissionPrecedence::SamePath => self.outstanding.first_lost(path).is_some(),
        };
        if pending {
            return false;
        }
        // req: rfc9260 6.1 "the sender SHOULD exceed cwnd by up to"
        // req: rfc9260 7.2.1 "in rule B in Section 6.1 SHOULD be"
        // req: rfc9260 6.1 "the sender MUST NOT transmit new data to a"
        if self.outstanding.flight(path) >= self.paths[path].congestion.cwnd() {
            return false;
        }
        if self.outstanding.len() >= MAX_OUTSTANDING {
            return false;
        }
        if self.paced_until.is_some_and(|until| until > now) {
            return false;
        }
        self.expire_messages(now);
        let full = self.amdcs() - Data::HEADER_LEN;
        let Some(next) = self.send.peek(full, full, true) else { return false };
        // req: rfc9260 6.1 "MUST transmit no more DATA chunks until"
        // req: rfc9260 6.1 "that the peer has no buffer space (i.e., rwnd is smaller"
        if next > self.peer_rwnd as usize {
            return self.may_probe_window(now);
        }
        self.window_probe = None;
        // A small packet waits while something is outstanding (Nagle's algorithm).
        !(self.config.nagle && !self.outstanding.is_empty() && self.send.ends_within(full - 1))
    }

    /// Whether a chunk may leave although the peer's window has no room for it.
    // req: rfc9260 6.1 "SHOULD only be sent when all"
    // req: rfc9260 6.1 "A zero window probe MUST only be sent"
    // req: rfc9260 6.1 "Senders MUST support zero window probing"
    fn may_probe_window(&mut self, now: Instant) -> bool {
        if !self.outstanding.is_empty() {
            return false;
        }
        if self.probe_now {
            return true;
        }
        // req: rfc9260 6.1 "SHOULD send the first zero window probe after 1 RTO"
        let rto = self.paths[self.active].rtt.rto();
        self.window_probe.get_or_insert(now + rto);
        false
    }

    fn expire_messages(&mut self, now: Instant) {
        while let Some(message) = self.send.expire(now) {
            mark!(LifetimeOver);
            let message = Box::new(message.into_message());
            self.events.push_back(crate::event::Event::SendFailed { message, sent: false });
        }
    }

    /// Association Maximum DATA Chunk Size: what fits on every path (RFC 9260 section 7.3).
    // req: rfc9260 7.3 "sender SHOULD track an AMDCS that will be the smallest"
    // req: rfc9260 6.9 "MUST take into account the SCTP packet header"
    // req: rfc9260 7.3 "this AMDCS SHOULD be used to calculate"
    // req: rfc9260 6 "SHOULD be smaller than or equal to the"
    // req: rfc9260 6.9 "SHOULD choose a size of DATA chunks"
    fn amdcs(&self) -> usize {
        self.paths.iter().map(crate::path::Path::pmdcs).min().unwrap_or(512)
    }

    /// Whether a packet is larger than what every path is expected to carry.
    fn is_large(&self, path: usize, packet: &PacketWriter<'_>) -> bool {
        let path = &self.paths[path];
        packet.len() + path.overhead() > usize::from(path.mtu.base())
    }

    fn finish(&self, packet: PacketWriter<'_>) -> usize {
        if self.surroundings.checksum { packet.finish() } else { packet.finish_without_checksum() }
    }

    fn cumulative(&self) -> Tsn {
        Tsn(self.receiver.cumulative() as u32)
    }

    /// Sends the control chunk in front, with what may stand behind it in its packet.
    fn send_control(
        &mut self,
        now: Instant,
        path: usize,
        max_segments: usize,
        buf: &mut Vec<u8>,
    ) -> (usize, usize, bool) {
        let Some((_, control)) = self.control.front() else { return (path, 0, false) };
        if !control.stands_alone() && !matches!(control, Control::CookieEcho) {
            let (first, fragmentable) = self.send_data(now, path, max_segments, buf);
            return (path, first, fragmentable);
        }
        let Some((_, control)) = self.control.pop_front() else { return (path, 0, false) };
        let mut header = self.header();
        let normal = self.paths[path].packet_size();
        let limit = normal.max(MAX_HANDSHAKE);
        if let Control::Init = control {
            // req: rfc9260 8.5.1 "The sender MUST set the Verification Tag"
            // req: rfc9260 3.1 "containing an INIT chunk MUST have a zero"
            // req: rfc9260 12.3 "containing an INIT chunk MUST have a zero"
            header.verification_tag = 0;
        }
        let mut packet = PacketWriter::new(buf, header, limit);
        let written = match &control {
            Control::Init => packet.raw(kind::INIT, 0, &self.init_chunk_value()),
            Control::CookieEcho => self.write_cookie_echo(&mut packet, normal),
            other => other.write(self.cumulative(), &mut packet),
        };
        if written.is_err() {
            packet.cancel();
            return (path, 0, false);
        }
        let len = self.finish(packet);
        self.paths[path].last_probe = now;
        (path, len, len > normal)
    }

    fn write_cookie_echo(
        &self,
        packet: &mut PacketWriter<'_>,
        limit: usize,
    ) -> Result<(), anabranch_wire::NoRoom> {
        let State::CookieEchoed { cookie, unrecognized, .. } = &self.state else { return Ok(()) };
        packet.raw(kind::COOKIE_ECHO, 0, cookie)?;
        // req: rfc9260 3.2.2 "it SHOULD bundle the ERROR chunk containing the"
        // req: rfc9260 3.2.2 "it MUST be the first chunk"
        // req: rfc9260 3.3.11 "This field MUST contain the exact cookie"
        if !unrecognized.is_empty() && packet.len() + unrecognized.len() + 8 <= limit {
            let causes = Causes::new(unrecognized);
            packet.chunk(&Chunk::Error(Error { causes }))?;
        }
        Ok(())
    }

    fn send_heartbeat(&mut self, now: Instant, path: usize, buf: &mut Vec<u8>) -> usize {
        let info = self.next_heartbeat(now, path);
        self.write_heartbeat(path, info, HEADER_LEN + HEARTBEAT_LEN, buf)
    }

    /// Sends a HEARTBEAT padded so that the IP packet has `size` bytes (RFC 8899 section 6.2).
    fn send_mtu_probe(&mut self, now: Instant, path: usize, size: u16, buf: &mut Vec<u8>) -> usize {
        let info = self.next_mtu_probe(now, path, size);
        let len = (usize::from(size) - self.paths[path].overhead()) & !3;
        self.write_heartbeat(path, info, len, buf)
    }

    fn write_heartbeat(
        &self,
        _path: usize,
        info: HeartbeatInfo,
        len: usize,
        buf: &mut Vec<u8>,
    ) -> usize {
        let len = len.max(HEADER_LEN + HEARTBEAT_LEN);
        let mut packet = PacketWriter::new(buf, self.header(), len);
        let info = info.encode();
        let heartbeat = Heartbeat { info: &info };
        let written = packet
            .chunk(&Chunk::Heartbeat(heartbeat))
            .and_then(|()| if packet.remaining() >= 4 { packet.pad_to(len) } else { Ok(()) });
        if written.is_err() {
            packet.cancel();
            return 0;
        }
        self.finish(packet)
    }

    /// Fills packets with control chunks, acknowledgements and data for one path. Returns the
    /// size of the first, and whether the network may fragment it.
    fn send_data(
        &mut self,
        now: Instant,
        path: usize,
        max_segments: usize,
        buf: &mut Vec<u8>,
    ) -> (usize, bool) {
        // req: rfc9260 6.10 "MUST be less that or equal to the"
        // req: rfc9260 7.2 "slow-start and congestion avoidance algorithms MUST be used"
        let full = self.paths[path].packet_size();
        let header = self.header();
        let mut first = 0;
        let mut limit = full;
        let mut budget = Budget::default();
        for segment in 0..max_segments.max(1) {
            let mut packet = PacketWriter::new(buf, header, limit);
            budget.short = limit < full - full / 4;
            // req: rfc9260 6 "Control chunks MUST come before DATA chunks"
            // req: rfc9260 6.10 "MUST place control chunks first in the"
            self.write_control(path, &mut packet);
            if !self.control.is_empty() && self.control.iter().any(|(p, _)| *p as usize == path) {
                // What did not fit comes in the next packet, before any data.
                if packet.is_empty() {
                    packet.cancel();
                    self.control.pop_front();
                    break;
                }
                first = self.finish(packet);
                break;
            }
            let repairs = self.outstanding.lost_chunks() > 0;
            let sends_data = self.state.sends_data() && self.data_may_follow(now, path);
            let answers = self.sack_wanted(path, sends_data);
            let mut stamp = 0;
            if self.timestamps.in_use && (sends_data || answers) {
                stamp = self.write_timestamp(now, path, answers, &mut packet);
            }
            if answers {
                self.write_sack(&mut packet);
            }
            let data_from = packet.len();
            let bare = HEADER_LEN + stamp;
            let mut mixed = data_from > bare;
            let number = self.packets + segment as u64;
            if sends_data {
                if data_from == bare && self.oversized(path, limit - stamp) {
                    packet.cancel();
                    if segment > 0 {
                        // Longer than the packets before it: it begins the next batch.
                        break;
                    }
                    return (self.send_oversized(now, path, header, number, buf), true);
                }
                // req: rfc9260 6.10 "chunks within an SCTP packet in increasing order"
                mixed |= self.write_retransmissions(now, path, number, &mut budget, &mut packet);
                // Without repairs new data is what may follow; after them it is another question.
                if !repairs || (path == self.active && self.may_send_new(now, path)) {
                    self.write_new_data(now, path, number, &mut budget, &mut packet);
                }
            }
            if packet.len() == bare {
                packet.cancel();
                break;
            }
            let has_data = packet.len() > data_from;
            let len = self.finish(packet);
            if segment == 0 {
                first = len;
                limit = len;
                // What follows would be cut to the length of a packet that is short by chance.
                if mixed && len < full - full / 4 {
                    break;
                }
            }
            if !has_data || len < first {
                break;
            }
        }
        if let (Some(pacer), true) = (&mut self.paths[path].pacer, budget.bytes > 0) {
            pacer.sent(budget.bytes);
        }
        (first, false)
    }

    /// Control chunks for this path, as many as fit; those that stand alone wait.
    fn write_control(&mut self, path: usize, packet: &mut PacketWriter<'_>) {
        let cumulative = self.cumulative();
        // A chunk that must be the first one is moved there.
        let first =
            self.control.iter().position(|(p, c)| usize::from(*p) == path && c.goes_first());
        if let Some(chunk) = first.and_then(|at| self.control.remove(at)) {
            self.control.push_front(chunk);
        }
        while let Some((target, control)) = self.control.front() {
            if usize::from(*target) != path
                || control.stands_alone()
                || matches!(control, Control::CookieEcho)
                || control.write(cumulative, packet).is_err()
            {
                break;
            }
            self.control.pop_front();
        }
    }

    /// Whether an acknowledgement belongs into a packet, because it is due or can travel with
    /// data.
    // req: rfc9260 6.1 "sender SHOULD create a SACK chunk and bundle it"
    fn sack_wanted(&mut self, path: usize, with_data: bool) -> bool {
        let wanted = self.acknowledger.due() || (with_data && self.acknowledger.pending());
        wanted
            && path == self.sack_path
            && self.state.acknowledges()
            && (self.acknowledger.due() || !self.buggify(1))
    }

    fn write_sack(&mut self, packet: &mut PacketWriter<'_>) {
        // req: rfc9260 6.2 "MUST report as many Gap Ack Blocks as"
        // req: rfc9260 6.7 "the endpoint MUST send only one SACK chunk"
        // req: rfc9260 6.2 "MUST fill in the Cumulative TSN Ack field"
        let room = packet.remaining().saturating_sub(16) / 4;
        // req: rfc9260 6.7 "This single SACK chunk MUST report the Gap"
        let gaps: Vec<_> = if self.receiver.has_gaps() {
            self.receiver.gap_blocks(room).collect()
        } else {
            Vec::new()
        };
        let mut duplicates: Vec<Tsn> =
            self.receiver.take_duplicates().into_iter().map(|tsn| Tsn(tsn as u32)).collect();
        duplicates.truncate(room - gaps.len().min(room));
        self.note_memory();
        let a_rwnd = self.receiver.a_rwnd();
        if packet.sack(self.cumulative(), a_rwnd, &gaps, &duplicates).is_ok() {
            self.receiver.on_sack_sent(a_rwnd);
            // req: rfc9260 6.2 "Acknowledgements MUST be sent in SACK chunks"
            self.acknowledger.sent();
            self.counters.sacks_sent += 1;
        }
    }

    fn data_may_follow(&mut self, now: Instant, path: usize) -> bool {
        (self.outstanding.lost_chunks() > 0 && self.may_retransmit(now, path))
            || (path == self.active && self.may_send_new(now, path))
    }

    /// Whether the next retransmission is larger than the path carries now.
    fn oversized(&self, path: usize, limit: usize) -> bool {
        self.outstanding
            .first_lost(path)
            .and_then(|tsn| self.outstanding.get(tsn))
            .is_some_and(|slot| HEADER_LEN + slot.size() > limit)
    }

    /// A chunk that was cut for a larger path MTU goes alone, and IP may fragment it.
    // req: rfc9260 6.9 "then IP fragmentation MUST be"
    fn send_oversized(
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
        self.paths[path].retransmit_at_once = false;
        self.finish(packet)
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
        let again = self.config.multiple_fast_retransmit;
        let large = self.is_large(path, packet);
        self.outstanding.retransmitted(now, tsn, path, number, again, large);
        self.peer_rwnd = self.peer_rwnd.saturating_sub(u32::try_from(length).unwrap_or(u32::MAX));
        for other in &mut self.paths {
            // req: rfc9260 6.3.1 "RTT measurements SHOULD only be made using a"
            other.timed = other.timed.filter(|(timed, _)| *timed < tsn);
        }
        let state = &mut self.paths[path];
        state.stats.retransmitted_chunks += 1;
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

    /// Lost chunks of a path, as many as fit; whether there was one.
    ///
    /// They are paced as new data is. The many that a full queue dropped would fill it again at
    /// once, and each acknowledgement would tell that most of them are lost again.
    fn write_retransmissions(
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

    /// Puts new data into a packet, which [`may_send_new`](Self::may_send_new) said may leave.
    fn write_new_data(
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
            self.apply_idle(now, path);
            self.cut_cwnd_to_burst(path);
            if self.outstanding.flight(path) >= self.paths[path].congestion.cwnd() {
                return;
            }
        }
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
            let Some(length) = self.send.peek(room, largest, !in_packet) else { break };
            // The rest of a message may make a short packet. What follows it in the batch is no
            // longer, and cutting the next messages to that would go on for ever.
            if budget.short && self.send.is_cut_by(length) {
                break;
            }
            // A chunk is never cut to fit into what is left of the window.
            // req: rfc9260 6.1 "avoid silly window syndrome (SWS) as described"
            if length > self.peer_rwnd as usize {
                if in_packet || !self.may_probe_window(now) {
                    break;
                }
                self.probing = true;
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
            self.burst_left = self.burst_left.saturating_sub(1);
            let state = &mut self.paths[path];
            state.last_data = now;
            state.last_probe = now;
            // RFC 9260 section 6.3.2, R1.
            // req: rfc9260 6.1 "the sender MUST start that timer"
            state.t3.get_or_insert(now + state.rtt.rto());
            budget.packets += 1;
            budget.bytes += packet.len() - before;
        }
    }

    /// Whether pacing lets a packet of new data go; otherwise notes when it will.
    fn pace(&mut self, now: Instant, path: usize, budget: &mut Budget) -> bool {
        let full = self.paths[path].packet_size();
        let state = &mut self.paths[path];
        let Some(pacer) = &mut state.pacer else { return true };
        let slow_start = state.congestion.cwnd() < state.congestion.ssthresh();
        let cwnd = state.congestion.cwnd();
        if budget.allowance.is_none() {
            match pacer.allowance(now, state.rtt.srtt(), cwnd, slow_start, full) {
                Ok(bytes) => budget.allowance = Some(bytes),
                Err(until) => {
                    self.paced_until = Some(until);
                    return false;
                }
            }
        }
        budget.allowance.is_some_and(|allowance| budget.bytes + full <= allowance)
    }

    /// What a time without data did to cwnd (RFC 9260 section 7.2.1).
    // req: rfc9260 6.1 "cwnd SHOULD be adjusted according to"
    // req: rfc9260 7.1 "The parameters SHOULD decay if the address"
    // req: rfc9260 7.2.2 "cwnd of the transport address SHOULD be"
    fn apply_idle(&mut self, now: Instant, path: usize) {
        if self.outstanding.in_flight(path) {
            return;
        }
        let state = &mut self.paths[path];
        let rto = state.rtt.rto();
        let idle = now.saturating_since(state.last_data);
        if idle >= rto {
            let rtos = (idle.as_nanos() / rto.as_nanos().max(1)).min(64) as u32;
            mark!(IdleWindow);
            state.congestion.on_idle(rtos);
            state.last_data = now;
        }
    }
}

/// Data that leaves in one call.
#[derive(Debug, Default)]
struct Budget {
    packets: usize,
    bytes: usize,
    /// Packets are limited to the length of a short one that leads them.
    short: bool,
    /// What pacing allowed at the start.
    allowance: Option<usize>,
}
