//! Handles a change of the peer's UDP port on a path: a NAT has forgotten the old mapping, or an attacker
//! replays a recorded packet.
//!
//! If packets of a path come from a new port, a HEARTBEAT challenges both that port and the port in use,
//! as QUIC validates a path (RFC 9000 sections 8.2 and 9.3). Data goes to the new port once it has
//! answered; before that, it gets at most three packets. If the old port answers a packet that was sent to
//! it, the peer has not moved, even if a host answers at the new port. A NAT that has changed its mapping
//! does not let such an answer through.

use std::time::Duration;

use anabranch_wire::{Chunk, HEADER_LEN, Heartbeat, PacketWriter, kind};
use bytes::Bytes;

use super::Association;
use crate::path::{HeartbeatInfo, Rebinding, Stage};
use crate::per_path::PathId;
use crate::send::Cause;
use crate::time::Instant;

/// Maximum number of packets to a port before it has answered.
const MOST_CHALLENGES: u8 = 3;
/// After this time a port that did not answer, or was refused, may be tried again.
const AGAIN: Duration = Duration::from_secs(30);

/// The peer's UDP ports.
#[derive(Debug, Default)]
pub(super) struct Ports {
    /// UDP source port of the current packet.
    pub(super) arrived_from: u16,
    /// A challenge of a new source port is due.
    pub(super) challenge_waits: bool,
}

impl Association {
    /// Handles a packet with the right tag, on a path in use, from another UDP port.
    pub(super) fn on_new_port(&mut self, now: Instant, path: PathId, port: u16) {
        let state = &mut self.paths[path];
        let rto = state.rtt.rto().min(self.config.timers.rto_initial);
        if let Some(known) = &mut state.rebinding {
            let same = known.new == port;
            // Challenge one port at a time, so that replayed packets from many ports cause few packets.
            let wait = match known.stage {
                Stage::Refused if same => AGAIN,
                Stage::Asked if same && known.challenges >= MOST_CHALLENGES => AGAIN,
                _ => rto,
            };
            if now < known.at + wait {
                return;
            }
            if same && known.stage == Stage::Asked && known.challenges < MOST_CHALLENGES {
                known.challenges += 1;
                known.at = now;
                (known.ask_new, known.ask_old) = (true, true);
                self.ports.challenge_waits = true;
                return;
            }
        }
        state.rebinding = Some(Box::new(Rebinding {
            old: state.remote_udp_port,
            new: port,
            stage: Stage::Asked,
            challenges: 1,
            at: now,
            nonce: self.rng.next_u64(),
            old_nonce: self.rng.next_u64(),
            ask_new: true,
            ask_old: true,
            answer: None,
        }));
        self.ports.challenge_waits = true;
    }

    /// Whether the answer to the current HEARTBEAT includes a challenge to the port that sent it.
    pub(super) fn answer_at_new_port(&mut self, path: PathId, value: &Bytes) -> bool {
        let port = self.ports.arrived_from;
        let held_back = self.room_to_authenticate(&[kind::HEARTBEAT, kind::HEARTBEAT_ACK]);
        let state = &mut self.paths[path];
        let room = HEADER_LEN + super::transmit::HEARTBEAT_LEN + 4 + value.len() + held_back;
        let fits = room <= state.packet_size();
        match &mut state.rebinding {
            Some(known) if known.ask_new && known.new == port && known.answer.is_none() && fits => {
                known.answer = Some(value.clone());
                true
            }
            _ => false,
        }
    }

    /// Sends the next challenge. Returns the path, the destination UDP port, and the length of the
    /// packet, 0 if there is none.
    pub(super) fn send_challenge(&mut self, buf: &mut Vec<u8>) -> (PathId, u16, usize) {
        let header = self.header();
        let waits = |known: &Rebinding| known.ask_new || known.ask_old;
        let next = self.paths.iter_mut().find_map(|path| {
            let id = path.id;
            path.rebinding.as_deref_mut().filter(|known| waits(known)).map(|known| (id, known))
        });
        let Some((path, known)) = next else {
            self.ports.challenge_waits = false;
            return (self.paths.active(), 0, 0);
        };
        let (port, nonce, answer) = if std::mem::take(&mut known.ask_new) {
            (known.new, known.nonce, known.answer.take())
        } else {
            known.ask_old = false;
            (known.old, known.old_nonce, None)
        };
        let limit = self.paths[path].packet_size();
        let held_back = self.room_to_authenticate(&[kind::HEARTBEAT, kind::HEARTBEAT_ACK]);
        let mut packet = PacketWriter::new(buf, header, limit);
        packet.hold_back(held_back);
        let info = HeartbeatInfo { path, probe: 0, nonce }.encode();
        let mut written = packet.chunk(&Chunk::Heartbeat(Heartbeat { info: &info }));
        let answers = answer.is_some();
        if let Some(value) = answer {
            written = written.and_then(|()| packet.raw(kind::HEARTBEAT_ACK, 0, &value));
        }
        if written.is_err() {
            packet.cancel();
            return (path, port, 0);
        }
        self.paths[path].stats.heartbeats_sent += 1;
        self.counts.control_chunks_sent += 1 + u64::from(answers);
        (path, port, self.finish(packet))
    }

    /// Handles a HEARTBEAT ACK that answers a challenge, which decides about the port. Returns whether it
    /// was one.
    pub(super) fn on_challenge_answer(&mut self, now: Instant, info: HeartbeatInfo) -> bool {
        let from = self.ports.arrived_from;
        let path = info.path;
        let Some(state) = self.paths.get_mut(path) else { return false };
        let Some(known) = &mut state.rebinding else { return false };
        if info.probe != 0 {
            return false;
        }
        let (old, new, stage) = (known.old, known.new, known.stage);
        // If it was repeated, the answer may be for any of them (Karn).
        let rtt = (known.challenges == 1).then(|| now.saturating_since(known.at));
        if info.nonce == known.old_nonce {
            // A NAT may let packets to the old port through, but their answers come from the new port.
            if from != old || stage == Stage::Refused {
                return true;
            }
            (known.stage, known.at) = (Stage::Refused, now);
            (known.ask_new, known.answer) = (false, None);
            if stage == Stage::Moved {
                self.move_to_port(now, path, old, None);
            }
            return true;
        }
        if info.nonce != known.nonce {
            return false;
        }
        if stage == Stage::Asked {
            (known.stage, known.at) = (Stage::Moved, now);
            self.move_to_port(now, path, new, rtt);
        }
        true
    }

    /// Moves the path to this port. Packets sent to the other port are lost and are retransmitted.
    fn move_to_port(&mut self, now: Instant, path: PathId, port: u16, rtt: Option<Duration>) {
        let state = &mut self.paths[path];
        tracing::debug!(%path, from = state.remote_udp_port, to = port, "UDP port of a path");
        state.remote_udp_port = port;
        state.stats.heartbeats_acked += 1;
        state.heartbeat.excuse();
        if let Some(rtt) = rtt {
            state.rtt.on_measurement(rtt);
        }
        self.identity.changed = true;
        self.watch.error_count = 0;
        self.path_works(now, path);
        self.sender.resend(path, Cause::WrongAddress, path, &mut self.paths);
        if self.state.acknowledges() {
            self.acknowledger.request();
        }
        self.sender.begin_burst();
    }
}
