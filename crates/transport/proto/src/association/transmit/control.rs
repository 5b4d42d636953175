//! Writes control chunks, alone in their packet or before other chunks.

use anabranch_wire::{Causes, Chunk, Error, NoRoom, PacketWriter, kind};

use super::{Association, Written};
use crate::association::Control;
use crate::association::state::{Echo, State};
use crate::per_path::PathId;
use crate::time::Instant;

/// Buffer sizes for a chunk that cannot be split and may exceed the known path MTU, because it repeats
/// contents of a larger packet. The network fragments such packets. `USUAL` is tried first, because the
/// driver's buffer keeps the memory reserved for a packet, so few packets should reserve `MOST`.
const USUAL: usize = 4096;
const MOST: usize = u16::MAX as usize;

impl Association {
    /// Sends the first control chunk, with the chunks that may follow it in its packet.
    pub(super) fn send_control(
        &mut self,
        now: Instant,
        path: PathId,
        max_segments: usize,
        buf: &mut Vec<u8>,
    ) -> (PathId, Written) {
        let nothing = (path, Written::default());
        let Some((_, control)) = self.outbox.chunks.front() else { return nothing };
        let full = self.paths[path].packet_size();
        let held_back = self.room_to_authenticate(&[control.kind(), kind::ERROR]);
        let leads =
            matches!(control, Control::CookieEcho) || control.is_oversized(full - held_back);
        if !control.stands_alone() && !leads {
            return (path, self.send_data(now, path, max_segments, buf));
        }
        let Some((_, control)) = self.outbox.chunks.pop_front() else { return nothing };
        let mut header = self.header();
        match control {
            // req: rfc9260 8.5.1 "The sender MUST set the Verification Tag"
            // req: rfc9260 3.1 "containing an INIT chunk MUST have a zero"
            // req: rfc9260 12.3 "containing an INIT chunk MUST have a zero"
            Control::Init => header.verification_tag = 0,
            Control::Refuse { tag, .. } => header.verification_tag = tag,
            _ => {}
        }
        let len = [full.max(USUAL), MOST].into_iter().find_map(|limit| {
            let mut packet = PacketWriter::new(buf, header, limit);
            packet.hold_back(held_back);
            match self.write_alone(&control, &mut packet, full) {
                Ok(()) => Some(self.finish(packet)),
                Err(_) => {
                    packet.cancel();
                    None
                }
            }
        });
        let Some(len) = len else { return nothing };
        self.counts.control_chunks_sent += 1;
        self.paths[path].last_probe = now;
        (path, Written { fragmentable: len > full, ..Written::one(len) })
    }

    fn write_alone(
        &mut self,
        control: &Control,
        packet: &mut PacketWriter<'_>,
        full: usize,
    ) -> Result<(), NoRoom> {
        match control {
            Control::Init => packet.raw(kind::INIT, 0, &self.init_chunk_value()),
            Control::CookieEcho => self.write_cookie_echo(packet, full),
            other => other.write(self.cumulative(), packet),
        }
    }

    fn write_cookie_echo(
        &mut self,
        packet: &mut PacketWriter<'_>,
        limit: usize,
    ) -> Result<(), NoRoom> {
        let State::CookieEchoed { echo, .. } = &self.state else { return Ok(()) };
        let Echo { cookie, unrecognized, .. } = &**echo;
        packet.raw(kind::COOKIE_ECHO, 0, cookie)?;
        // req: rfc9260 3.2.2 "it SHOULD bundle the ERROR chunk containing the"
        // req: rfc9260 3.2.2 "it MUST be the first chunk"
        // req: rfc9260 3.3.11 "This field MUST contain the exact cookie"
        if !unrecognized.is_empty() && packet.len() + unrecognized.len() + 8 <= limit {
            let causes = Causes::new(unrecognized);
            packet.chunk(&Chunk::Error(Error { causes }))?;
            self.counts.control_chunks_sent += 1;
        }
        Ok(())
    }

    /// Writes as many control chunks for this path as fit; those that need their own packet wait.
    pub(super) fn write_control(&mut self, path: PathId, packet: &mut PacketWriter<'_>) {
        let cumulative = self.cumulative();
        let full = self.paths[path].packet_size();
        // Move a chunk that must be the first one to the front.
        let first = self.outbox.chunks.iter().position(|(p, c)| *p == path && c.goes_first());
        if let Some(chunk) = first.and_then(|at| self.outbox.chunks.remove(at)) {
            self.outbox.chunks.push_front(chunk);
        }
        while let Some((target, control)) = self.outbox.chunks.front() {
            if *target != path
                || control.stands_alone()
                || control.is_oversized(full - self.room_to_authenticate(&[control.kind()]))
                || matches!(control, Control::CookieEcho)
                || control.write(cumulative, packet).is_err()
            {
                break;
            }
            self.outbox.chunks.pop_front();
            self.counts.control_chunks_sent += 1;
        }
    }
}
