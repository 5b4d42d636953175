//! Explicit congestion notification (RFC 4960 appendix A; RFC 9260 reserves its chunks): ECNE reports a mark of the
//! network, and CWR answers it.

use anabranch_wire::{Chunk, Ecne, PacketWriter, Tsn, kind};

use super::authentication::Screened;
use super::input::Arrival;
use super::{Association, Control};
use crate::features::Features;
use crate::per_path::PathId;
use crate::time::Instant;

/// Length of a CWR chunk in bytes.
const CHUNK_LEN: usize = 8;

impl Association {
    /// Handles the ECNE chunks of a packet, if there are any. This comes before its SACK, which frees the chunks whose
    /// paths matter.
    pub(super) fn on_echoes(
        &mut self,
        now: Instant,
        path: PathId,
        chunks: Screened<'_>,
        any: bool,
    ) {
        if !any || !self.features.has(Features::ECN) || !self.state.takes_sack() {
            return;
        }
        let chunks = chunks.map_while(Result::ok);
        for raw in chunks.filter(|raw| raw.kind == kind::ECNE) {
            let Ok(Ecne { lowest_tsn, .. }) = Ecne::parse(&raw) else { return };
            if self.sender.has_sent(lowest_tsn) {
                self.sender.on_congestion_echo(now, lowest_tsn, &mut self.paths);
                self.answer_echo(path, lowest_tsn);
            }
        }
    }

    /// Queues a CWR, or lets one that waits answer this report as well.
    fn answer_echo(&mut self, path: PathId, tsn: Tsn) {
        let waits = self.outbox.chunks.iter_mut().find_map(|(_, control)| match control {
            Control::WindowReduced(tsn) => Some(tsn),
            _ => None,
        });
        match waits {
            Some(waits) if tsn.gt(*waits) => *waits = tsn,
            Some(_) => {}
            None => self.answer(self.reply_path(path), Control::WindowReduced(tsn), CHUNK_LEN),
        }
    }

    /// Handles the mark of a packet with data, if it has one; returns whether it must be reported at once.
    pub(super) fn on_marked(
        &mut self,
        path: PathId,
        arrival: &Arrival,
        chunks: Screened<'_>,
    ) -> bool {
        if !arrival.congestion_experienced || !self.features.has(Features::ECN) {
            return false;
        }
        let chunks = chunks.map_while(Result::ok);
        let tsns = chunks.filter_map(|raw| self.user_data(raw)?.ok()).map(|data| data.tsn);
        let lowest = tsns.reduce(|lowest, tsn| if tsn.lt(lowest) { tsn } else { lowest });
        lowest.is_some_and(|tsn| self.receiver.on_marked(path, tsn))
    }

    /// Writes a report of each path whose mark the peer has not answered, before an acknowledgement.
    pub(super) fn write_echoes(&mut self, packet: &mut PacketWriter<'_>) {
        for (lowest_tsn, marked) in self.receiver.echoes() {
            let echo = Ecne { lowest_tsn, marked_packets: Some(marked) };
            if packet.chunk(&Chunk::Ecne(echo)).is_err() {
                return;
            }
            self.counts.control_chunks_sent += 1;
        }
    }
}
