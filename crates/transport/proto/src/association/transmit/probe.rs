//! Packets that probe a path: HEARTBEATs, alone or padded to the probed size.

use anabranch_wire::{Chunk, HEADER_LEN, Heartbeat, PacketWriter, kind};

use super::Association;
use crate::path::HeartbeatInfo;
use crate::per_path::PathId;
use crate::time::Instant;

/// Bytes of a HEARTBEAT of this side.
pub(in crate::association) const HEARTBEAT_LEN: usize = 4 + 4 + HeartbeatInfo::LEN;

impl Association {
    pub(super) fn send_heartbeat(
        &mut self,
        now: Instant,
        path: PathId,
        buf: &mut Vec<u8>,
    ) -> usize {
        let info = self.next_heartbeat(now, path);
        self.write_heartbeat(info, HEADER_LEN + HEARTBEAT_LEN, buf)
    }

    /// Sends a HEARTBEAT with padding that makes the IP packet `size` bytes long (RFC 8899 section 6.2).
    pub(super) fn send_mtu_probe(
        &mut self,
        now: Instant,
        path: PathId,
        size: u16,
        buf: &mut Vec<u8>,
    ) -> usize {
        let info = self.next_mtu_probe(now, path, size);
        let len = (usize::from(size) - self.paths[path].overhead()) & !3;
        self.write_heartbeat(info, len, buf)
    }

    fn write_heartbeat(&mut self, info: HeartbeatInfo, len: usize, buf: &mut Vec<u8>) -> usize {
        let held_back = self.room_to_authenticate(&[kind::HEARTBEAT, kind::PAD]);
        let len = len.max(HEADER_LEN + HEARTBEAT_LEN + held_back);
        let mut packet = PacketWriter::new(buf, self.header(), len);
        packet.hold_back(held_back);
        let info = info.encode();
        let heartbeat = Heartbeat { info: &info };
        let written = packet.chunk(&Chunk::Heartbeat(heartbeat)).and_then(|()| {
            if packet.remaining() >= 4 { packet.pad_to(len - held_back) } else { Ok(()) }
        });
        if written.is_err() {
            packet.cancel();
            return 0;
        }
        self.counts.control_chunks_sent += 1;
        self.finish(packet)
    }
}
