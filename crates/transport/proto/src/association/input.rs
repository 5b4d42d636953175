//! Processes a packet for an association, chunk by chunk.

use std::net::IpAddr;

use anabranch_wire::{
    Cause, Causes, Chunk, ChunkError, Data, HEADER_LEN, IData, NrSack, Packet, RawChunk, cause_code,
};
use bytes::Bytes;

use super::authentication::{Rest, Screen, Screened};
use super::news::LONGEST_CAUSE;
use super::state::State;
use super::{Association, Control};
use crate::config::Revision;
use crate::event::{CloseReason, Event, Notification};
use crate::features::Features;
use crate::marks::mark;
use crate::path::HeartbeatInfo;
use crate::per_path::PathId;
use crate::receive::DataOutcome;
use crate::receive::delayed_ack::{self, DataPacket};
use crate::time::Instant;
use crate::user_data::UserData;

/// Bytes of a chunk header.
const CHUNK_HEADER: usize = 4;
/// Bytes of a packet reserved for a SACK with a few gap blocks, next to other answers.
const SACK_ROOM: usize = 64;

/// The addresses of a packet, and how it arrived.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arrival {
    pub(crate) local: IpAddr,
    pub(crate) remote: IpAddr,
    pub(crate) remote_udp_port: u16,
    /// The packet carries an ECN congestion mark.
    pub(crate) congestion_experienced: bool,
    /// The previous packet arrived in the same batch and was for the same association.
    pub(crate) continues: bool,
}

/// The result of checking the verification tag of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TagCheck {
    /// It is for this association.
    Valid,
    /// It carries the peer's tag: the peer no longer has the association, or just ended it. Only
    /// the first chunk is processed.
    Reflected,
    /// It is not for this association. Do not answer.
    Discard,
    /// Treat it as out of the blue.
    OutOfTheBlue,
}

/// How far a chunk is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reading {
    /// It is decoded, and must be well-formed.
    Known,
    /// The two highest bits of its type determine what to do.
    Unknown,
    /// It is skipped.
    Ignored,
}

impl Association {
    /// Checks the verification tag of a packet by its first chunk (RFC 9260 section 8.5).
    #[inline]
    pub(crate) fn check_tag(&self, packet: &Packet<'_>, first: RawChunk<'_>) -> TagCheck {
        use anabranch_wire::kind;
        let tag = packet.header().verification_tag;
        let reflected = first.flags & 1 != 0;
        let handshaking =
            || matches!(self.state, State::CookieWait { .. } | State::CookieEchoed { .. });
        let valid = match first.kind {
            // Checked first: this is the case for most packets.
            kind::DATA | kind::SACK => tag == self.identity.local_tag,
            // req: rfc9260 3 "MUST NOT be bundled with any other chunk"
            kind::SHUTDOWN_COMPLETE if packet.chunks().count() != 1 => false,
            // req: rfc9260 8.5.1 "The receiver of an ABORT chunk MUST accept"
            // req: rfc9260 9.1 "MUST apply the special Verification Tag check rules"
            // req: rfc9260 8.5.1 "discard the packet and take no further action"
            kind::ABORT | kind::SHUTDOWN_COMPLETE if reflected => {
                let valid = self.identity.peer_tag != 0 && tag == self.identity.peer_tag;
                return if valid { TagCheck::Reflected } else { TagCheck::Discard };
            }
            // req: rfc9260 8.5.1 "it is treated as an OOTB packet"
            kind::SHUTDOWN_ACK if handshaking() => return TagCheck::OutOfTheBlue,
            // req: rfc9260 8.5 "matches its own tag"
            // req: rfc9260 8.5 "the receiver MUST silently discard the packet and"
            // req: rfc9260 8.5 "MUST NOT process it any further"
            _ => tag == self.identity.local_tag,
        };
        if valid { TagCheck::Valid } else { TagCheck::Discard }
    }

    #[inline]
    fn count_received(&mut self, path: PathId, packet: &Packet<'_>, arrival: &Arrival) {
        let stats = &mut self.paths[path].stats;
        stats.packets_received += 1;
        stats.bytes_received += packet.bytes().len() as u64;
        if arrival.congestion_experienced {
            stats.troubles().ecn_ce_received += 1;
        }
    }

    /// Processes a packet with a valid checksum and verification tag. `batch` holds its bytes.
    pub(crate) fn handle_packet(
        &mut self,
        now: Instant,
        arrival: Arrival,
        packet: &Packet<'_>,
        rest: Rest,
        batch: &Bytes,
    ) {
        if self.is_closed() {
            return;
        }
        let mut rest = rest;
        let Some(path) = self.place(now, &arrival, packet, &mut rest) else { return };
        self.watch.denied_since = None;
        self.heard_of_peer();
        // As long as memory is plentiful, a batch is too small to matter.
        if !arrival.continues || !self.receiver.has_plenty() {
            self.note_memory();
        }
        self.note_port(now, path, &arrival);
        self.verify_again(now, path);
        self.count_received(path, packet, &arrival);
        if let State::ShutdownSent { t2 } = &mut self.state {
            // req: rfc9260 9.2 "SHOULD clear the endpoint's retransmission count and"
            t2.count = 0;
            t2.deadline = now + t2.interval;
        }

        let answers_before = if rest.skip > 0 { 0 } else { self.outbox.chunks.len() };
        let mut contents = Contents::of(rest.chunks(packet, None));
        let mut trouble = None;
        let screen = match rest.screen {
            Some(screen) => Some(screen),
            // The common packets cost nothing while only requests are authenticated.
            None if contents.plain && rest.skip == 0 && !self.requires_bundled() => None,
            None => {
                let (screen, what) = self.screen(packet);
                trouble = what;
                Some(screen)
            }
        };
        let screen = screen.filter(Screen::withholds);
        let chunks = rest.chunks(packet, screen.as_ref());
        if screen.is_some() {
            contents = Contents::of(chunks.clone());
        }
        self.begin_answers(path, contents.data > 0);
        self.answer_trouble(path, trouble);
        self.on_echoes(now, path, chunks.clone(), contents.echo);
        let mut data_packet = DataPacket::default();
        let received_before = self.receiver.cumulative();
        self.timestamps.begin_packet();
        let read = chunks.clone();
        let Some(has_data) =
            self.read_chunks(now, path, packet, read, &contents, batch, &mut data_packet)
        else {
            return;
        };
        self.note_tsns_in_progress();
        if contents.abort {
            self.outbox.drop_answers(answers_before);
            return;
        }
        // req: rfc3758 3.6 "the receiver MUST follow the same rules as if a DATA chunk had been received"
        if has_data || data_packet.skips {
            data_packet.gap |= self.receiver.has_gaps();
            data_packet.immediate |= self.on_marked(path, &arrival, chunks);
            self.timestamps.data_received();
            if self.ending.guard.is_some() && self.receiver.cumulative() > received_before {
                self.guard(now);
            }
            self.after_data(now, path, data_packet);
        }
        self.settle_changes(now, path);
        // An INIT ACK or an ASCONF-ACK may have changed the paths.
        if self.paths.get(path).is_some_and(|path| path.error_count > 0) {
            self.ask_path(now, path);
        }
    }

    /// The path on which a packet arrived. Notes what is read of a packet that moves the association there.
    #[inline]
    fn place(
        &mut self,
        now: Instant,
        arrival: &Arrival,
        packet: &Packet<'_>,
        rest: &mut Rest,
    ) -> Option<PathId> {
        if let Some(path) = self.arrived_on(now, arrival) {
            return Some(path);
        }
        let (path, screen) = self.move_to(now, arrival, packet)?;
        rest.screen = Some(screen);
        Some(path)
    }

    /// Processes the chunks of a packet in their order. Returns whether user data was read; `None` if nothing more is to
    /// be done for the packet, because the association ended.
    // req: rfc9260 6.10 "MUST process received chunks in their order"
    // req: rfc9260 6 "endpoint MUST properly receive and process bundled"
    #[expect(clippy::too_many_arguments, reason = "a packet, and what is known of it")]
    #[inline]
    fn read_chunks(
        &mut self,
        now: Instant,
        path: PathId,
        packet: &Packet<'_>,
        chunks: Screened<'_>,
        contents: &Contents,
        batch: &Bytes,
        seen: &mut DataPacket,
    ) -> Option<bool> {
        let mut data_chunks = 0;
        for chunk in chunks {
            // A truncated chunk ends the packet; the chunks before it are processed.
            // req: rfc9260 6.10 "it MUST drop the chunk"
            let Ok(raw) = chunk else {
                self.counts.packets_discarded = self.counts.packets_discarded.wrapping_add(1);
                break;
            };
            if stands_alone(raw.kind) && packet.chunks().nth(1).is_some() {
                mark!(BundledAlone);
                break;
            }
            if let Some(data) = self.user_data(raw) {
                let Ok(data) = data else { break };
                if data_chunks == 0 {
                    if !self.state.takes_data() {
                        continue;
                    }
                    data_chunks = contents.data;
                    // RFC 9260 section 6.7: acknowledge immediately until the hole is filled, including
                    // the packet that fills it; in the studies of the older RFCs that packet is
                    // treated like any other.
                    seen.gap =
                        self.config.revision >= Revision::Rfc9260 && self.receiver.has_gaps();
                }
                if !self.on_data(now, path, &data, data_chunks, packet, batch, seen) {
                    return None;
                }
            } else if !self.on_control(now, path, raw, batch, seen) {
                break;
            }
            if self.is_closed() {
                return None;
            }
        }
        Some(data_chunks > 0)
    }

    /// Prepares the outbox for the answers to a packet.
    fn begin_answers(&mut self, path: PathId, with_data: bool) {
        let full = self.paths[path].packet_size() - HEADER_LEN;
        let room = full - if with_data { SACK_ROOM } else { 0 };
        self.outbox.answer_room = u32::try_from(room).unwrap_or(u32::MAX);
        self.outbox.answered = false;
    }

    /// Processes a packet with the peer's tag whose first chunk is ABORT or SHUTDOWN COMPLETE with the
    /// T bit. Anyone who sees this side's packets can forge one, so the rest of the packet is
    /// ignored, and it does not count as a sign of life.
    pub(crate) fn handle_reflected(
        &mut self,
        now: Instant,
        arrival: &Arrival,
        first: RawChunk<'_>,
    ) {
        let Some(path) = self.path_of(arrival.local, arrival.remote) else { return };
        if self.is_closed() {
            return;
        }
        if first.kind == anabranch_wire::kind::ABORT && self.is_about_gone_address(arrival) {
            return;
        }
        // exempt: rfc9260 8.5.1 "The receiver of an ABORT chunk MUST accept" a peer that has only forgotten an address answers on
        if first.kind == anabranch_wire::kind::ABORT && self.may_be_about_address(now, path) {
            return;
        }
        // exempt: rfc9260 8.5.1 "The receiver of an ABORT chunk MUST accept" an address that is not verified may be another host's, or lead through another NAT: the peer is there
        if first.kind == anabranch_wire::kind::ABORT && self.disown_path(now, path) {
            return;
        }
        if !self.paths[path].is_verified() && !self.has_lost_its_way() {
            self.on_refused_address(now, path);
        } else if !self.requires(first.kind) {
            self.on_control(now, path, first, &Bytes::new(), &mut DataPacket::default());
        }
    }

    /// Bytes of user data accepted so far, for [`end_batch`](Self::end_batch).
    pub(crate) fn accepted(&self) -> usize {
        self.receiver.accepted()
    }

    /// Ends a batch of packets with `length` bytes; `before` is the value of [`accepted`](Self::accepted) at its start.
    pub(crate) fn end_batch(&mut self, before: usize, length: usize) {
        self.receiver.end_batch(before, length);
    }

    /// Processes a DATA chunk; `false` if the association ended.
    #[allow(clippy::too_many_arguments)]
    fn on_data(
        &mut self,
        now: Instant,
        path: PathId,
        data: &UserData<'_>,
        data_chunks: usize,
        packet: &Packet<'_>,
        batch: &Bytes,
        seen: &mut DataPacket,
    ) -> bool {
        // req: rfc9260 6.2 "it SHOULD send an ABORT chunk with a"
        if data.payload.is_empty() {
            let mut cause = Vec::new();
            Cause::NoUserData { tsn: data.tsn }.encode(&mut cause);
            let reason = CloseReason::ProtocolViolation("a DATA chunk without user data");
            self.abort_with(path, cause, reason);
            return false;
        }
        self.paths[path].stats.data_bytes_received += data.payload.len() as u64;
        // The data chunks of a single packet keep equal shares of it alive.
        let alone = batch.len() == packet.bytes().len();
        let share = if alone || self.receiver.lends(batch.len()) {
            let all = packet.bytes().len() - HEADER_LEN;
            if data_chunks == 1 { all } else { all / data_chunks }
        } else {
            batch.len()
        };
        let piece = || Self::slice(batch, data.payload);
        // req: rfc8260 2.1 "indicates that the receiver SHOULD NOT delay the sending"
        seen.immediate |= data.flags.immediate();
        if self.buggify(4) {
            seen.dropped = true;
            return true;
        }
        match self.receiver.on_data(data, piece, u32::try_from(share).unwrap_or(u32::MAX)) {
            DataOutcome::New => {
                self.progress.last_user_data = now;
                self.watch_data(now, data.payload.len());
                true
            }
            DataOutcome::Duplicate => {
                mark!(DataDuplicate);
                seen.duplicate = true;
                true
            }
            DataOutcome::NoRoom => {
                seen.dropped = true;
                true
            }
            DataOutcome::InvalidStream => {
                mark!(DataInvalidStream);
                // req: rfc9260 6.5 "immediately send an ERROR chunk with cause"
                let mut cause = Vec::new();
                Cause::InvalidStreamIdentifier { stream: data.stream }.encode(&mut cause);
                let length = CHUNK_HEADER + cause.len();
                self.answer(self.reply_path(path), Control::Error(cause), length);
                true
            }
            DataOutcome::Violation(what) => self.on_violation(path, what),
        }
    }

    /// Finishes a packet with data, after its last chunk.
    fn after_data(&mut self, now: Instant, path: PathId, mut seen: DataPacket) {
        // req: rfc9260 6.7 "same destination address from which the"
        // req: rfc9260 6.4 "SHOULD NOT vary the destination transport address"
        self.acknowledger.path = self.reply_path(path);
        self.paths[path].proven = true;
        seen.shutdown_sent = matches!(self.state, State::ShutdownSent { .. });
        seen.immediate |= self.buggify(1);
        self.acknowledger.on_packet(now, seen);
        if seen.shutdown_sent {
            let gaps = seen.duplicate || self.receiver.has_gaps();
            // A SHUTDOWN does not carry the receive window.
            self.repeat_shutdown(now, gaps || self.receiver.is_narrower_than_announced());
        }
        self.tell_cut_short();
        self.tell_readable();
    }

    /// Tells a user who waits that messages can be received.
    pub(super) fn tell_readable(&mut self) {
        if self.news.wants_readable && self.receiver.readable() {
            self.news.wants_readable = false;
            self.news.push(Event::Readable);
        }
    }

    /// Processes a chunk other than DATA; `false` if the rest of the packet must be skipped.
    fn on_control(
        &mut self,
        now: Instant,
        path: PathId,
        raw: RawChunk<'_>,
        batch: &Bytes,
        seen: &mut DataPacket,
    ) -> bool {
        self.counts.control_chunks_received += 1;
        match self.reading_of(raw.kind) {
            Reading::Ignored => return true,
            Reading::Unknown => return self.on_unknown(path, raw),
            Reading::Known => {}
        }
        let Ok(chunk) = raw.decode() else {
            // pion/sctp sends an empty HEARTBEAT to get an acknowledgement. It needs no HEARTBEAT ACK.
            if raw.kind == anabranch_wire::kind::HEARTBEAT && raw.value.is_empty() {
                return true;
            }
            let mut cause = Vec::new();
            Cause::ProtocolViolation(b"malformed chunk").encode(&mut cause);
            let reason = CloseReason::ProtocolViolation("a malformed chunk");
            self.abort_with(path, cause, reason);
            return false;
        };
        match chunk {
            Chunk::Timestamp(timestamp) => self.timestamps.received(timestamp),
            Chunk::Sack(sack) => self.on_sack(now, path, &sack.into(), &raw),
            Chunk::NrSack(sack) => {
                self.counts.nr_sacks_received += 1;
                self.on_sack(now, path, &sack, &raw);
            }
            // req: rfc8899 3 "PL endpoint is REQUIRED to provide a feedback"
            Chunk::Heartbeat(_) => self.on_heartbeat(now, path, raw, batch),
            Chunk::HeartbeatAck(ack) => {
                if let Some(info) = HeartbeatInfo::decode(ack.info) {
                    self.on_heartbeat_ack(now, info);
                }
            }
            // req: rfc8260 2.2.3 "the receiver of the DATA chunk MUST abort the association"
            // req: rfc8260 2.2.3 "The ABORT chunk MAY include the"
            Chunk::Data(_) if self.features.has(Features::INTERLEAVING) => {
                return self.on_violation(path, "DATA where I-DATA was agreed on");
            }
            Chunk::IData(_) => {
                return self.on_violation(path, "I-DATA where it was not agreed on");
            }
            // req: rfc8260 2.3.1 "the receiver of the FORWARD-TSN chunk MUST abort the"
            // req: rfc8260 2.3.1 "The ABORT chunk MAY include"
            Chunk::ForwardTsn(_) if self.features.has(Features::INTERLEAVING) => {
                return self.on_violation(path, "FORWARD TSN where I-DATA was agreed on");
            }
            Chunk::ForwardTsn(forward) => return self.on_forward_tsn(path, &forward, seen),
            Chunk::IForwardTsn(forward) => return self.on_i_forward_tsn(path, &forward, seen),
            // Was handled before the other chunks.
            Chunk::Ecne(_) => {}
            Chunk::Cwr(cwr) => self.receiver.on_window_reduced(cwr.lowest_tsn),
            // Was checked before the other chunks.
            Chunk::Auth(_) => {}
            Chunk::ReConfig(chunk) => return self.on_re_config(now, path, &chunk),
            Chunk::Asconf(asconf) => self.on_asconf(now, path, &asconf),
            Chunk::AsconfAck(ack) => {
                self.on_asconf_ack(ack.serial, Self::slice(batch, ack.parameters.bytes()));
            }
            Chunk::InitAck(init) => self.on_init_ack(now, &init, path),
            Chunk::CookieAck => self.on_cookie_ack(now),
            Chunk::Abort(abort) => {
                if self.drop_candidate(now, path) {
                    return false;
                }
                self.on_abort(abort.causes, abort.tag_reflected);
                return false;
            }
            Chunk::Error(error) => self.on_error(now, error.causes),
            Chunk::Shutdown(shutdown) => {
                self.on_shutdown(now, path, shutdown.cumulative_tsn_ack);
            }
            Chunk::ShutdownAck => self.on_shutdown_ack(path),
            Chunk::ShutdownComplete(_) => self.on_shutdown_complete(),
            // Never bundled with others, or handled by the endpoint before this.
            Chunk::Init(_) | Chunk::CookieEcho(_) => return false,
            _ => return self.on_unknown(path, raw),
        }
        true
    }

    /// Decodes a chunk with user data, if it is of the kind that was agreed on.
    #[inline]
    pub(super) fn user_data<'a>(
        &self,
        raw: RawChunk<'a>,
    ) -> Option<Result<UserData<'a>, ChunkError>> {
        use anabranch_wire::kind;
        match raw.kind {
            kind::DATA if !self.features.has(Features::INTERLEAVING) => {
                Some(Data::parse(&raw).map(UserData::from))
            }
            kind::I_DATA if self.features.has(Features::INTERLEAVING) => {
                Some(IData::parse(&raw).map(UserData::from))
            }
            _ => None,
        }
    }

    /// How far a chunk of this type is decoded. Chunks of extensions that are not in use are not decoded, because they
    /// may be malformed.
    fn reading_of(&self, kind: u8) -> Reading {
        use anabranch_wire::kind;
        let spoken = match kind {
            // req: rfc8899 4.1 "A receiver is REQUIRED to be able to"
            // Padding has no content. Peers may send the chunks of ECN unasked.
            kind::PAD => return Reading::Ignored,
            kind::ECNE | kind::CWR if !self.features.has(Features::ECN) => return Reading::Ignored,
            kind::ECNE | kind::CWR => true,
            kind::NR_SACK => self.features.has(Features::NR_SACK),
            // req: rfc8260 2.3.1 "MUST NOT be used in combination with the DATA chunk"
            kind::I_FORWARD_TSN => self.features.has(Features::I_FORWARD_TSN),
            // req: rfc3758 3.3.1 "MUST instead act as if it does NOT support the FORWARD TSN"
            // req: rfc3758 3.3.2 "MUST instead act as if it does NOT support the FORWARD TSN"
            kind::FORWARD_TSN => {
                self.features.has(Features::PARTIAL_RELIABILITY)
                    || self.features.has(Features::INTERLEAVING)
            }
            kind::RE_CONFIG => self.features.has(Features::STREAM_RECONFIGURATION),
            kind::ASCONF | kind::ASCONF_ACK => self.features.has(Features::ADDRESS_RECONFIGURATION),
            kind::TIMESTAMP => self.timestamps.in_use(),
            kind::AUTH => self.features.has(Features::AUTHENTICATION),
            // An end that does not offer I-DATA does not know it.
            // RFC 8260 section 2.2.3.
            kind::I_DATA => self.config.sending.interleaving,
            kind::DATA..=kind::COOKIE_ACK | kind::SHUTDOWN_COMPLETE => true,
            _ => false,
        };
        if spoken { Reading::Known } else { Reading::Unknown }
    }

    /// Handles a chunk of an unknown type, or of an extension that was not negotiated: its two highest
    /// bits determine how.
    // RFC 9260 section 3.2, chunk types.
    // req: rfc5061 4.1.1 "understand this chunk MUST skip the chunk and continue"
    fn on_unknown(&mut self, path: PathId, raw: RawChunk<'_>) -> bool {
        let action = raw.unknown_action();
        if action.reports() {
            let bytes = raw.bytes();
            let mut cause = Vec::new();
            Cause::UnrecognizedChunkType(&bytes[..bytes.len().min(512)]).encode(&mut cause);
            let length = CHUNK_HEADER + cause.len();
            self.answer(self.reply_path(path), Control::Error(cause), length);
        }
        action.goes_on()
    }

    /// Handles a SACK, or an NR-SACK on an association that negotiated them.
    fn on_sack(&mut self, now: Instant, path: PathId, sack: &NrSack<'_>, raw: &RawChunk<'_>) {
        if !self.state.takes_sack() {
            return;
        }
        self.counts.sacks_received += 1;
        self.counts.gap_blocks_received +=
            (sack.gap_blocks.len() + sack.nr_gap_blocks.len()) as u64;
        // A list this short was not truncated to fit into the packet.
        let complete = raw.value.len() < 400;
        let delays = self.config.concurrent().is_some_and(|multipath| multipath.delayed_acks);
        let covered = if delays { delayed_ack::covered_packets(raw.flags) } else { 0 };
        self.on_acknowledgement(now, path, sack, complete, covered);
    }

    // req: rfc9260 8.3 "SHOULD immediately respond with a"
    // req: rfc9260 8.3 "a HEARTBEAT chunk MUST respond to a HEARTBEAT"
    fn on_heartbeat(&mut self, now: Instant, path: PathId, raw: RawChunk<'_>, batch: &Bytes) {
        if self.state.answers_heartbeats() {
            let value = Self::slice(batch, raw.value);
            if self.paths[path].silent {
                return self.note_heard(path, value);
            }
            if !self.answer_at_new_port(path, &value) {
                self.answer(path, Control::HeartbeatAck(value), raw.raw_len());
            }
        }
        self.verify_in_return(now, path);
    }

    // req: rfc9260 9.1 "the receiving endpoint MUST"
    // req: rfc9260 9.1 "An endpoint MUST NOT respond to any received"
    fn on_abort(&mut self, causes: Causes<'_>, tag_reflected: bool) {
        let code = causes.iter().next().and_then(Result::ok).map(|cause| cause.kind);
        let bytes = causes.bytes();
        // req: rfc9260 9.1 "SHOULD be made available to the upper"
        let causes = Bytes::copy_from_slice(&bytes[..bytes.len().min(1024)]);
        let reason = CloseReason::PeerAbort { code, causes };
        if tag_reflected {
            self.peer_is_gone(reason);
            return;
        }
        // Chunks before the ABORT are not answered either.
        self.outbox.chunks.clear();
        self.close(reason);
    }

    fn on_error(&mut self, now: Instant, causes: Causes<'_>) {
        for cause in causes.iter() {
            let Ok(raw) = cause else { return };
            if raw.kind == cause_code::STALE_COOKIE {
                if let Ok(Cause::StaleCookie { staleness_us }) = Cause::decode(raw) {
                    self.on_stale_cookie(now, staleness_us);
                }
                continue;
            }
            if let Ok(Cause::UnrecognizedChunkType([anabranch_wire::kind::ASCONF, ..])) =
                Cause::decode(raw)
            {
                self.on_asconf_refused(now);
            }
            let bytes = raw.bytes();
            let cause = Bytes::copy_from_slice(&bytes[..bytes.len().min(LONGEST_CAUSE)]);
            self.news.notify(Notification::PeerError { code: raw.kind, cause });
        }
    }

    /// Sends an ABORT with `cause` and ends the association.
    pub(super) fn abort_with(&mut self, path: PathId, cause: Vec<u8>, reason: CloseReason) {
        self.outbox.chunks.clear();
        let abort = match self.identity.peer_tag {
            // The peer's tag is not known yet: reflect the tag of its packet.
            // req: rfc9260 8.5.1 "MUST always fill in the Verification Tag"
            0 => {
                Control::Refuse { tag: self.identity.local_tag, tag_reflected: true, causes: cause }
            }
            // req: rfc9260 9.1 "it MUST send an ABORT chunk to its"
            _ => Control::Abort(cause),
        };
        self.queue(self.reply_path(path), abort);
        self.close(reason);
    }
}

/// Whether a chunk must be the only one in its packet. If it is not, reading stops before it: the sender breaks the
/// rules, or tries to have other chunks accepted along with an INIT ACK.
// req: rfc9260 6.10 "An endpoint MUST NOT bundle INIT, INIT ACK, or"
fn stands_alone(kind: u8) -> bool {
    use anabranch_wire::kind;
    matches!(kind, kind::INIT_ACK | kind::SHUTDOWN_COMPLETE)
}

/// Properties of a packet that must be known before its first chunk is processed.
struct Contents {
    /// Number of DATA and I-DATA chunks.
    data: usize,
    /// There is an ABORT, so nothing is answered.
    abort: bool,
    /// There is an ECNE.
    echo: bool,
    /// There is nothing but data and acknowledgements.
    plain: bool,
}

impl Contents {
    // req: rfc9260 9.1 "An endpoint MUST NOT respond to any received"
    fn of(chunks: Screened<'_>) -> Self {
        use anabranch_wire::kind;
        let mut contents = Self { data: 0, abort: false, echo: false, plain: true };
        for chunk in chunks.map_while(Result::ok) {
            match chunk.kind {
                kind::DATA | kind::I_DATA => contents.data += 1,
                kind::SACK | kind::NR_SACK => {}
                other => {
                    contents.plain = false;
                    contents.abort |= other == kind::ABORT;
                    contents.echo |= other == kind::ECNE;
                }
            }
        }
        contents
    }
}
