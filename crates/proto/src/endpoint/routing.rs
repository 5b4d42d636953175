//! Where a packet that came belongs: to an association, to the setting up of one, or to nobody.

use anabranch_wire::{Packet, kind};
use bytes::Bytes;

use super::demux::Key;
use super::{Ecn, Endpoint, Received};
use crate::association::{Arrival, Association, TagCheck};
use crate::event::AssociationId;
use crate::time::Instant;

impl Endpoint {
    /// Takes a batch of packets from one source to one destination: what one receive call
    /// gave, with GRO.
    pub fn handle_batch(&mut self, now: Instant, received: &Received, bytes: Bytes) {
        let mut touched: Option<AssociationId> = None;
        // What the association in `touched` had accepted when its first packet had been read.
        let mut accepted = 0;
        let size = received.segment_size.max(1);
        let mut start = 0;
        while start < bytes.len() {
            let end = (start + size).min(bytes.len());
            let id = self.handle_packet(now, received, &bytes, start..end, touched);
            if touched != id {
                touched
                    .into_iter()
                    .for_each(|id| self.after_batch(now, id, accepted, &bytes, size));
                touched = id;
                accepted = id.and_then(|id| self.association(id)).map_or(0, Association::accepted);
            }
            start = end;
        }
        touched.into_iter().for_each(|id| self.after_batch(now, id, accepted, &bytes, size));
    }

    /// Packets of a batch were for an association, which had accepted so much user data after the
    /// first of them.
    fn after_batch(
        &mut self,
        now: Instant,
        id: AssociationId,
        accepted: usize,
        batch: &Bytes,
        size: usize,
    ) {
        if batch.len() > size
            && let Some(association) = self.get_mut(id)
        {
            association.end_batch(accepted, batch.len() - size);
        }
        self.after(now, id);
    }

    /// One packet; returns the association that it changed. `last` is the association of the
    /// packet before, most likely the same.
    fn handle_packet(
        &mut self,
        now: Instant,
        received: &Received,
        batch: &Bytes,
        range: std::ops::Range<usize>,
        last: Option<AssociationId>,
    ) -> Option<AssociationId> {
        let Ok(packet) = Packet::parse(&batch[range]) else {
            self.discarded += 1;
            return last;
        };
        // req: rfc9260 6.8 "the receiver MUST first check the"
        if self.config.checksum && !packet.checksum_ok() {
            self.discarded += 1;
            return last;
        }
        let header = packet.header();
        // An answer would have to use the port.
        // req: rfc9260 3.1 "Source Port Number 0 MUST NOT be used"
        // req: rfc9260 3.1 "Destination Port Number 0 MUST NOT be used"
        if header.source_port == 0 || header.destination_port == 0 {
            self.discarded += 1;
            return last;
        }
        let Some(Ok(first)) = packet.chunks().next() else {
            self.discarded += 1;
            return last;
        };
        let arrival = Arrival {
            local: received.local,
            remote: received.remote,
            remote_udp_port: received.remote_udp_port,
            congestion_experienced: received.ecn == Some(Ecn::Ce),
        };
        if first.kind == kind::INIT || first.kind == kind::COOKIE_ECHO {
            return self.handle_setup(now, &arrival, &packet, first, batch).or(last);
        }
        let key = Key::new(received.remote, header.source_port, header.destination_port);
        let id = match last {
            Some(id) if self.demux.is_last(&key, id) => Some(id),
            _ => self.demux.find(&key).or_else(|| self.find_by_listed_address(&packet, first)),
        };
        let Some(id) = id else {
            // req: rfc9260 6 "SHOULD be handled per Section 8.4"
            // req: rfc9260 6 "SHOULD be processed according to the rules"
            self.out_of_the_blue(&arrival, &packet);
            return last;
        };
        let Some(association) = self.get_mut(id) else { return last };
        match association.check_tag(&packet, first) {
            TagCheck::Valid => {
                association.handle_packet(now, arrival, &packet, false, batch);
                Some(id)
            }
            TagCheck::OutOfTheBlue => {
                self.out_of_the_blue(&arrival, &packet);
                last
            }
            TagCheck::Discard => {
                self.discarded += 1;
                last
            }
        }
    }
}
