//! Decides what to send next, and on which path.
//!
//! The other files of this folder fill the packet: `bundle` assembles it from the chunks of
//! `control` and the sender's data; `probe` makes packets that probe a path. The sender (`sender/`)
//! decides which data may be sent, and on which of several paths.

mod bundle;
mod control;
mod probe;

use anabranch_wire::{PacketWriter, Tsn};

pub(super) use self::probe::HEARTBEAT_LEN;

use super::Association;
use crate::datagram::{Ecn, Transmit};
use crate::per_path::PathId;
use crate::time::Instant;

/// The kind of packet that is sent next.
#[derive(Clone, Copy, Debug)]
enum Turn {
    Control(PathId),
    /// A challenge of a new source port.
    Challenge,
    Heartbeat(PathId),
    MtuProbe(PathId, u16),
    Data(PathId),
}

/// The packets written in one turn.
#[derive(Clone, Copy, Debug, Default)]
struct Written {
    /// Size of the first; the last may be shorter, and all others are as long.
    first: usize,
    /// The network may fragment them.
    fragmentable: bool,
    /// Routers may mark them in place of dropping them.
    ecn_capable: bool,
}

impl Written {
    /// A packet that must not be fragmented.
    fn one(first: usize) -> Self {
        Self { first, ..Self::default() }
    }
}

impl Association {
    /// Fills packets of equal size for one path into `buf`; the last one may be shorter.
    // req: rfc9260 6.1 "The following general rules MUST be applied"
    pub(crate) fn poll_transmit(
        &mut self,
        now: Instant,
        max_segments: usize,
        buf: &mut Vec<u8>,
    ) -> Option<Transmit> {
        while let Some(turn) = self.decide(now) {
            let start = buf.len();
            #[cfg(any(test, feature = "invariants"))]
            let before = self.sender.windows();
            let mut challenged = None;
            let (path, written) = match turn {
                Turn::Challenge => {
                    let (path, port, len) = self.send_challenge(buf);
                    challenged = Some(port);
                    (path, Written::one(len))
                }
                Turn::Control(path) => self.send_control(now, path, max_segments, buf),
                Turn::Heartbeat(path) => (path, Written::one(self.send_heartbeat(now, path, buf))),
                Turn::MtuProbe(path, size) => {
                    (path, Written::one(self.send_mtu_probe(now, path, size, buf)))
                }
                Turn::Data(path) => (path, self.send_data(now, path, max_segments, buf)),
            };
            let len = buf.len() - start;
            if len == 0 {
                continue;
            }
            #[cfg(any(test, feature = "invariants"))]
            if !written.fragmentable {
                self.sender.assert_within_windows(&before, &self.paths);
            }
            let state = &mut self.paths[path];
            let packets = len.div_ceil(written.first.max(1)) as u64;
            state.stats.packets_sent += packets;
            state.stats.bytes_sent += len as u64;
            self.sender.count_packets(path, packets);
            return Some(Transmit {
                local: state.local,
                remote: state.remote,
                remote_udp_port: challenged.unwrap_or(state.remote_udp_port),
                ecn: written.ecn_capable.then_some(Ecn::Ect0),
                len,
                segment_size: written.first,
                dont_fragment: !written.fragmentable,
                out_of_the_blue: false,
                unverified: !state.is_verified(),
                roams: self.config.addresses.roam,
            });
        }
        // Control chunks are rare, so an idle association keeps no memory for them.
        if self.outbox.chunks.is_empty() {
            self.outbox.chunks.shrink_to(0);
        }
        None
    }

    /// Whether [`poll_transmit`](Self::poll_transmit) would send something.
    pub(crate) fn wants_to_send(&mut self, now: Instant) -> bool {
        self.decide(now).is_some()
    }

    /// Decides what to send next. First handles what has become due. If nothing can be sent, also
    /// handles what must be done in that case.
    fn decide(&mut self, now: Instant) -> Option<Turn> {
        if let Some(late) = self.sender.before_turn(now, &mut self.paths) {
            self.ask_path(now, late);
        }
        if self.tell_given_up() {
            // A shutdown may have waited for these messages.
            self.advance_shutdown(now);
        }
        if self.reconfiguration.is_some() {
            self.advance_reconfiguration(now);
        }
        if self.readdressing.is_some() {
            self.advance_readdressing(now);
        }
        let turn = self.next_turn(now);
        if turn.is_none() && self.is_established() {
            self.sender.after_turns(now, self.state.sends_data(), &self.paths);
        }
        turn
    }

    /// Describes what [`poll_transmit`](Self::poll_transmit) would send.
    #[cfg(any(test, feature = "invariants"))]
    pub(crate) fn wanted_turn(&self, now: Instant) -> Option<String> {
        self.next_turn(now).map(|turn| format!("{turn:?}"))
    }

    /// Decides what to send next, without changing the state. No other place decides that.
    fn next_turn(&self, now: Instant) -> Option<Turn> {
        if let Some((path, _)) = self.outbox.chunks.front() {
            return Some(Turn::Control(*path));
        }
        // req: rfc9260 5.1 "any other packets to the peer"
        if !self.is_established() {
            return None;
        }
        if self.ports.challenge_waits {
            return Some(Turn::Challenge);
        }
        if self.state.heartbeats()
            && let Some(probe) = self.next_probe(now)
        {
            return Some(probe);
        }
        if self.state.acknowledges() && self.acknowledger.due() {
            return Some(Turn::Data(self.acknowledger.path));
        }
        // req: rfc3758 3.5 "the address MUST be one that is CONFIRMED"
        let active = self.paths.active();
        if self.state.sends_data()
            && self.sender.forward_tsn_due()
            && self.paths[active].may_carry()
        {
            return Some(Turn::Data(active));
        }
        if self.sender.has_losses()
            && let Some(path) = self.sender.path_for_repairs(now, &self.paths)
        {
            return Some(Turn::Data(path));
        }
        if !self.state.sends_data() {
            return None;
        }
        if let Some(path) = self.sender.path_for_copies()
            && self.paths[path].may_carry()
        {
            return Some(Turn::Data(path));
        }
        let path = self.sender.path_for_new(now, &self.paths)?;
        self.paths[path].may_carry().then_some(Turn::Data(path))
    }

    /// A heartbeat or a probe of the path MTU that is due.
    fn next_probe(&self, now: Instant) -> Option<Turn> {
        self.paths.iter().find_map(|path| {
            if path.heartbeat.is_due(now) && !path.silent {
                return Some(Turn::Heartbeat(path.id));
            }
            let size = path.mtu.next_probe().filter(|_| path.is_active())?;
            Some(Turn::MtuProbe(path.id, size))
        })
    }

    /// Authenticates a packet if it must be, and completes it. Returns its length.
    pub(super) fn finish(&mut self, mut packet: PacketWriter<'_>) -> usize {
        self.authenticate(&mut packet);
        if self.surroundings.checksum { packet.finish() } else { packet.finish_without_checksum() }
    }

    fn cumulative(&self) -> Tsn {
        Tsn(self.receiver.cumulative() as u32)
    }
}
