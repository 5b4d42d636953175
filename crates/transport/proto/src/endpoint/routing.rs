//! Routes an incoming packet to an association or to a handshake, or discards it.

use anabranch_wire::{Header, Packet, RawChunk, kind};
use bytes::Bytes;

use super::demux::{Key, Tag};
use super::{Ecn, Endpoint, Received};
use crate::association::{Arrival, Association, Rest, TagCheck};
use crate::event::AssociationId;
use crate::time::Instant;

impl Endpoint {
    /// Handles a batch of packets from one source to one destination, such as the result of a receive
    /// call with GRO.
    pub fn handle_batch(&mut self, now: Instant, received: &Received, bytes: Bytes) {
        let mut touched: Option<AssociationId> = None;
        // The user data that the association in `touched` had accepted after the first of its packets.
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

    /// Finishes a batch for an association that had accepted `accepted` bytes of user data after its
    /// first packet.
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

    /// Handles a packet. Returns the association that it changed. `last` is the association of the
    /// previous packet, most likely the same.
    fn handle_packet(
        &mut self,
        now: Instant,
        received: &Received,
        batch: &Bytes,
        range: std::ops::Range<usize>,
        last: Option<AssociationId>,
    ) -> Option<AssociationId> {
        let taken = Packet::parse(&batch[range]).ok().and_then(|packet| {
            let first = self.first_chunk(&packet)?;
            Some((packet, first))
        });
        let Some((packet, first)) = taken else {
            self.discarded += 1;
            return last;
        };
        let mut arrival = Arrival {
            local: received.local,
            remote: received.remote,
            remote_udp_port: received.remote_udp_port,
            congestion_experienced: received.ecn == Some(Ecn::Ce),
            continues: false,
        };
        let id = match sets_up(&packet, first) {
            Some(setup) => self.handle_setup(now, &arrival, &packet, setup, batch),
            None => self.deliver(now, &mut arrival, &packet, first, batch, last),
        };
        id.into_iter().for_each(|id| self.log_received(now, id, &arrival, &packet));
        id.or(last)
    }

    /// Returns the first chunk of a packet, if the packet is valid.
    #[inline]
    fn first_chunk<'a>(&self, packet: &Packet<'a>) -> Option<RawChunk<'a>> {
        // req: rfc9260 6.8 "the receiver MUST first check the"
        if self.config.checksum && !packet.checksum_ok() {
            return None;
        }
        let header = packet.header();
        // An answer would have to use port 0.
        // req: rfc9260 3.1 "Source Port Number 0 MUST NOT be used"
        // req: rfc9260 3.1 "Destination Port Number 0 MUST NOT be used"
        if header.source_port == 0 || header.destination_port == 0 {
            return None;
        }
        packet.chunks().next()?.ok()
    }

    /// Passes a packet that does not set up an association to its association, if it has one. The
    /// checks are in the order of RFC 9260 section 8.4.
    #[inline]
    fn deliver(
        &mut self,
        now: Instant,
        arrival: &mut Arrival,
        packet: &Packet<'_>,
        first: RawChunk<'_>,
        batch: &Bytes,
        last: Option<AssociationId>,
    ) -> Option<AssociationId> {
        let header = packet.header();
        let ports = (header.source_port, header.destination_port);
        let key = Key::new(arrival.remote, arrival.remote_udp_port, ports.0, ports.1);
        let id = match last {
            Some(id) if self.demux.is_last(&key, id) => Some(id),
            _ => self.demux.find(&key),
        };
        let mut check = TagCheck::OutOfTheBlue;
        if let Some(id) = id
            && let Some(association) = self.get_mut(id)
        {
            check = association.check_tag(packet, first);
            match check {
                TagCheck::Valid => {
                    arrival.continues = last == Some(id);
                    association.handle_packet(now, *arrival, packet, Rest::ALL, batch);
                    return Some(id);
                }
                TagCheck::Reflected => {
                    association.handle_reflected(now, arrival, first);
                    return Some(id);
                }
                TagCheck::OutOfTheBlue | TagCheck::Discard => {}
            }
        }
        if let Some(id) = self.find_by_tag(arrival, packet, first)
            && let Some(association) = self.get_mut(id)
        {
            association.handle_packet(now, *arrival, packet, Rest::ALL, batch);
            self.demux.remember(key, id);
            return Some(id);
        }
        if let Some(id) = self.find_refused(arrival, packet, first)
            && let Some(association) = self.get_mut(id)
        {
            association.handle_reflected(now, arrival, first);
            return Some(id);
        }
        let late = match first.kind {
            kind::INIT_ACK => self.is_late_init_ack(header),
            _ => self.is_from_gone_address(header),
        };
        if late && check == TagCheck::OutOfTheBlue {
            check = TagCheck::Discard;
        }
        match check {
            // req: rfc9260 6 "SHOULD be handled per Section 8.4"
            // req: rfc9260 6 "SHOULD be processed according to the rules"
            TagCheck::OutOfTheBlue => self.out_of_the_blue(now, arrival, packet),
            TagCheck::Valid | TagCheck::Reflected | TagCheck::Discard => self.discarded += 1,
        }
        None
    }

    /// Whether an INIT ACK from an unknown address is for an association that already has another
    /// answer. This side sent INITs to several addresses, and the peer may not have listed all of them.
    /// It must not get an answer that denies the association.
    // req: rfc9260 5.2.3 "the endpoint SHOULD discard the INIT ACK"
    fn is_late_init_ack(&self, header: Header) -> bool {
        let own = Tag::arriving(header.verification_tag, header);
        let association = self.demux.find_tag(&own).and_then(|id| self.association(id));
        association.is_some_and(|association| !association.awaits_init_ack())
    }

    /// Whether a packet from an unknown address has the tag of an association whose addresses can change: the peer sent it
    /// before that address left the association, or before it joined. An answer that denies the association would end
    /// it, because its peer has the tag, too.
    fn is_from_gone_address(&self, header: Header) -> bool {
        let own = Tag::arriving(header.verification_tag, header);
        let association = self.demux.find_tag(&own).and_then(|id| self.association(id));
        association.is_some_and(Association::may_change_addresses)
    }

    /// Finds the association of a packet by its tag, if address and ports do not identify it: the
    /// source address is not verified, or a NAT has given the peer another UDP port.
    // req: rfc5061 5.2 "the following procedures SHOULD be followed"
    fn find_by_tag(
        &self,
        arrival: &Arrival,
        packet: &Packet<'_>,
        first: RawChunk<'_>,
    ) -> Option<AssociationId> {
        let header = packet.header();
        let tag = Tag::arriving(header.verification_tag, header);
        let id = self.demux.find_tag(&tag)?;
        let association = self.association(id)?;
        let known = association.path_of(arrival.local, arrival.remote).is_some()
            || association.may_be_answered_from(arrival.remote, first)
            || association.may_move(packet);
        let valid = known && association.check_tag(packet, first) == TagCheck::Valid;
        valid.then_some(id)
    }

    /// Finds the association that has this unverified address, from which an ABORT arrived with the tag
    /// that this side sent there: the host there does not have the association.
    fn find_refused(
        &self,
        arrival: &Arrival,
        packet: &Packet<'_>,
        first: RawChunk<'_>,
    ) -> Option<AssociationId> {
        let header = packet.header();
        let ports = (header.source_port, header.destination_port);
        let reflected = |id: &AssociationId| {
            self.association(*id).is_some_and(|association| {
                association.is_unverified(arrival.local, arrival.remote)
                    && association.check_tag(packet, first) == TagCheck::Reflected
            })
        };
        if first.kind != kind::ABORT {
            return None;
        }
        self.demux.between(arrival.remote, ports.0, ports.1).find(reflected)
    }
}

/// The chunk of a packet that sets up an association: the first one, or a COOKIE ECHO after an AUTH.
// req: rfc4895 6.3 "second chunk, it MUST use the chunks after"
// req: rfc4895 6.3 "found, the packet MUST be considered as out"
// req: rfc4895 6.3 "The out of the blue handling MUST be based on"
// req: rfc4895 6.3 "is found, it MUST process the AUTH"
#[inline]
fn sets_up<'a>(packet: &Packet<'a>, first: RawChunk<'a>) -> Option<RawChunk<'a>> {
    match first.kind {
        kind::INIT | kind::COOKIE_ECHO => Some(first),
        kind::AUTH => {
            let second = packet.chunks().nth(1)?.ok()?;
            (second.kind == kind::COOKIE_ECHO).then_some(second)
        }
        _ => None,
    }
}
