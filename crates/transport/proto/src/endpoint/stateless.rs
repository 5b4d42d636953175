//! Answers to packets without an association: INIT, COOKIE ECHO, and packets out of the blue.
//!
//! This code stores nothing for a peer, and each packet causes at most one answer.

use std::net::IpAddr;
use std::time::Duration;

use anabranch_wire::{
    Abort, Cause, Causes, Chunk, Error, Header, Init, Packet, PacketWriter, Parameter, RawChunk,
    ShutdownComplete, Tsn, cause_code, kind,
};
use bytes::Bytes;

use super::ended::Refused;
use super::whose::About;
use super::{Endpoint, Listener, Transmit};
use crate::association::{
    Arrival, Association, InitAnswer, Peer, Refusal, init_value, new_addresses_cause,
};
use crate::authentication::{KeyVector, KeyVectors};
use crate::config::OutOfTheBlue;
use crate::cookie::{CookieContents, CookieError, CookiePacket};
use crate::event::AssociationId;
use crate::features::Features;
use crate::marks::mark;
use crate::path::address;
use crate::tag_mark;
use crate::time::Instant;

/// Maximum bytes of an INIT ACK; parameters to report as unrecognized are omitted beyond that.
// req: rfc9260 12.4 "SHOULD attempt to make the INIT ACK chunk"
const MAX_INIT_ACK: usize = 1000;

/// Size of an SCTP packet that no router fragments: 576 bytes of IPv4, minus its largest header (RFC 791) and
/// that of UDP.
const NEVER_FRAGMENTED: usize = 576 - 60 - 8;

/// Maximum number of tags drawn to find one that was not used recently.
const DRAWS: usize = 16;

/// What this side says in an INIT ACK.
struct Said {
    tag: u32,
    tsn: Tsn,
    /// Of authentication, if it said that in its INIT already.
    vector: Option<KeyVector>,
}

impl Endpoint {
    /// Handles a packet that begins with INIT or COOKIE ECHO.
    pub(super) fn handle_setup(
        &mut self,
        now: Instant,
        arrival: &Arrival,
        packet: &Packet<'_>,
        first: RawChunk<'_>,
        batch: &Bytes,
    ) -> Option<AssociationId> {
        self.setups += 1;
        if !address::is_unicast(arrival.local) || !address::is_unicast(arrival.remote) {
            self.discarded += 1;
            return None;
        }
        match first.decode() {
            Ok(Chunk::Init(init)) => {
                // req: rfc9260 8.5.1 "SHOULD verify that the packet contains only an"
                let alone = packet.chunks().count() == 1;
                // req: rfc9260 3.3.2 "the receiver MUST silently discard the packet"
                // req: rfc9260 8.5.1 "MUST silently discard the packet"
                // req: rfc9260 12.3 "MUST silently discard the INIT chunk and all"
                if !alone || packet.header().verification_tag != 0 || init.initiate_tag == 0 {
                    self.discarded += 1;
                    return None;
                }
                self.handle_init(now, arrival, packet.header(), &init)
            }
            Ok(Chunk::CookieEcho(echo)) => {
                self.handle_cookie_echo(now, arrival, packet, echo.cookie, batch)
            }
            _ => {
                self.discarded += 1;
                None
            }
        }
    }

    /// Handles an INIT (RFC 9260 sections 5.1 B, 5.2.1 and 5.2.2).
    // req: rfc9260 3.3.2 "the receiver SHOULD process the INIT chunk and"
    // req: rfc9260 8.4 "it SHOULD be processed as described in Section"
    fn handle_init(
        &mut self,
        now: Instant,
        arrival: &Arrival,
        header: Header,
        init: &Init<'_>,
    ) -> Option<AssociationId> {
        let mut peer = match Peer::read(init, arrival.remote) {
            Ok(peer) => peer,
            Err(Refusal { cause, .. }) => {
                let whose = self.owner(header);
                self.abort_init(arrival, header, whose, init.initiate_tag, &cause);
                return None;
            }
        };
        let about = self.init_is_about(arrival, header, &peer.addresses);
        if let About::OtherPort(current) = about {
            self.refuse_other_port(arrival, header, init.initiate_tag, current);
            return None;
        }
        let About::Association(id) = about else {
            let Some(listener) = self.listener(header, arrival.local) else {
                // req: rfc9260 8.4 "MUST be the Initiate Tag of the received INIT"
                if self.config.out_of_the_blue == OutOfTheBlue::Answer {
                    self.abort_init(arrival, header, Whose::Unknown, init.initiate_tag, &[]);
                }
                return None;
            };
            if !self.may_take(now) {
                self.out_of_resource(arrival, header, init.initiate_tag);
                return None;
            }
            let said = self.draw_tag_and_tsn(header);
            // req: rfc9260 5.2.2 "the Tie-Tags MUST be set to 0"
            // req: rfc9260 3.3.3 "The Initiate Tag MUST NOT take the value"
            // req: rfc9260 5.1 "MUST generate and send along with the INIT"
            let tie_tags = (0, 0);
            self.init_ack(now, arrival, header, &mut peer, &listener, said, tie_tags, &[]);
            return None;
        };
        let source = (arrival.local, arrival.remote);
        let association = self.get_mut(id)?;
        let (config, ip_versions) = (association.shared_config(), association.ip_versions());
        let as_before = Listener { config, ip_versions };
        match association.on_init(source, &peer) {
            InitAnswer::Collision { tag, initial_tsn: tsn, tie_tags, vector, remotes } => {
                mark!(InitCollision);
                peer.vouch(&remotes);
                let said = Said { tag, tsn, vector };
                self.init_ack(
                    now, arrival, header, &mut peer, &as_before, said, tie_tags, &remotes,
                );
            }
            // req: rfc9260 5.2.2 "INIT ACK chunk MUST contain a new"
            InitAnswer::Restart { tie_tags } => {
                mark!(InitRestart);
                let said = self.draw_tag_and_tsn(header);
                self.init_ack(now, arrival, header, &mut peer, &as_before, said, tie_tags, &[]);
            }
            InitAnswer::NewAddresses(added) => {
                mark!(InitNewAddresses);
                let cause = new_addresses_cause(&added);
                self.abort_init(arrival, header, Whose::Ours, init.initiate_tag, &cause);
            }
            InitAnswer::Discard => {}
        }
        Some(id)
    }

    /// Answers an INIT with an INIT ACK, whose cookie holds the whole state. `remotes`: addresses that this
    /// side's own INIT was for.
    // req: rfc9260 5.1 "MUST NOT allocate any resources or keep any states"
    #[allow(clippy::too_many_arguments)]
    fn init_ack(
        &mut self,
        now: Instant,
        arrival: &Arrival,
        header: Header,
        peer: &mut Peer,
        Listener { config, ip_versions }: &Listener,
        Said { tag, tsn: initial_tsn, vector }: Said,
        tie_tags: (u32, u32),
        remotes: &[IpAddr],
    ) {
        if let Some(Refusal { cause, .. }) = peer.refusal(config) {
            self.abort_init(arrival, header, Whose::Ours, peer.tag, &cause);
            return;
        }
        let wants = config.features().has(Features::AUTHENTICATION);
        let own = vector.or_else(|| {
            wants.then(|| {
                KeyVector::own(
                    &config.authentication,
                    &config.authenticated_chunks(),
                    &mut self.rng,
                )
            })
        });
        let features = peer.agree(config);
        let vectors =
            own.clone().zip(peer.offer.vector()).map(|(own, peer)| KeyVectors { own, peer });
        let outbound = config.sending.outbound_streams.min(peer.inbound_streams);
        let inbound = config.receiving.inbound_streams.min(peer.outbound_streams);
        let more = peer.preserve.unwrap_or_default().min(self.config.valid_cookie_life);
        let contents = CookieContents {
            created: now,
            lifetime: self.config.valid_cookie_life + more,
            local_port: header.destination_port,
            remote_port: header.source_port,
            local_tag: tag,
            peer_tag: peer.tag,
            local_initial_tsn: initial_tsn.0,
            peer_initial_tsn: peer.initial_tsn,
            peer_rwnd: peer.rwnd,
            outbound_streams: outbound,
            inbound_streams: inbound,
            local_tie_tag: tie_tags.0,
            peer_tie_tag: tie_tags.1,
            local: arrival.local,
            remote: arrival.remote,
            remote_udp_port: arrival.remote_udp_port,
            vectors: vectors.filter(|_| features.has(Features::AUTHENTICATION)),
            features,
            adaptation_indication: peer.adaptation,
            addresses: std::mem::take(&mut peer.addresses),
        };
        let cookie = self.cookies.seal(&contents, now);
        let mut listed_for = contents.addresses;
        listed_for.push(arrival.remote);
        listed_for.extend(remotes);
        // req: rfc9260 3.3.3 "value MUST NOT be greater than the MIS"
        let streams = (outbound, config.receiving.inbound_streams);
        let surroundings = self.surroundings.within_link_of(arrival.local, *ip_versions);
        let value =
            init_value(tag, initial_tsn, streams, config, &surroundings, &listed_for, |value| {
                if let Some(own) = &own {
                    own.write(value);
                }
                // req: rfc9260 3.3.3.1.1 "MUST contain all the necessary state and"
                Parameter::StateCookie(&cookie).encode(value);
                for unknown in &peer.unrecognized {
                    if value.len() + unknown.len() + 8 <= MAX_INIT_ACK {
                        // req: rfc9260 3.2.2 "it MUST put the"
                        Parameter::UnrecognizedParameter(unknown).encode(value);
                    }
                }
            });
        // req: rfc9260 5.1 "MUST set the Verification Tag field to Tag_A and"
        // req: rfc9260 5.2.2 "MUST carry a Verification Tag value equal"
        self.reply(arrival, header, Whose::Ours, peer.tag, |packet| {
            packet.raw(kind::INIT_ACK, 0, &value)
        });
    }

    // req: rfc9260 5.1 "MUST be set to the Initiate Tag value"
    fn draw_tag_and_tsn(&mut self, header: Header) -> Said {
        let (remote_port, local_port) = (header.source_port, header.destination_port);
        let mark = self.config.tag_mark;
        let mut draw = || tag_mark::draw(mark, &mut self.rng, remote_port, local_port);
        // A cookie with the tag of an ended association would look like a repetition. If many associations used
        // the same port within a minute, some tags are drawn again.
        let drawn = std::iter::repeat_with(&mut draw).take(DRAWS).find(|tag| !self.ended.has(*tag));
        let tag = drawn.unwrap_or_else(draw);
        let tsn = self.rng.next_u32();
        Said { tag, tsn: Tsn(self.config.initial_tsn.unwrap_or(tsn)), vector: None }
    }

    /// The listener for a packet's port at this address.
    fn listener(&self, header: Header, local: IpAddr) -> Option<Listener> {
        let listener = self.listeners.get(&header.destination_port)?;
        listener.ip_versions.include(local).then(|| listener.clone())
    }

    /// Whether a packet is for this endpoint, judging by the port.
    fn owner(&self, header: Header) -> Whose {
        if self.listeners.contains_key(&header.destination_port) {
            Whose::Ours
        } else {
            Whose::Unknown
        }
    }

    // req: rfc9260 5.1 "it SHOULD respond with an ABORT"
    // req: rfc9260 5.1 "It SHOULD also specify the cause of abort"
    fn out_of_resource(&mut self, arrival: &Arrival, header: Header, tag: u32) {
        let mut cause = Vec::new();
        Cause::OutOfResource.encode(&mut cause);
        self.abort_init(arrival, header, Whose::Ours, tag, &cause);
    }

    /// Refuses an INIT or COOKIE ECHO whose sender has the address and the ports of an association's peer, but
    /// another UDP port: it may be any host behind the same NAT (draft-tuexen-tsvwg-sctp-udp-encaps-cons).
    fn refuse_other_port(&mut self, arrival: &Arrival, header: Header, tag: u32, current: u16) {
        let mut cause = Vec::new();
        let new = arrival.remote_udp_port;
        Cause::RestartWithNewEncapsulationPort { current, new }.encode(&mut cause);
        self.abort_init(arrival, header, Whose::Ours, tag, &cause);
    }

    fn abort_init(
        &mut self,
        arrival: &Arrival,
        header: Header,
        whose: Whose,
        tag: u32,
        causes: &[u8],
    ) {
        self.reply(arrival, header, whose, tag, |packet| {
            packet.chunk(&Chunk::Abort(Abort { tag_reflected: false, causes: Causes::new(causes) }))
        });
    }

    /// Handles a COOKIE ECHO (RFC 9260 sections 5.1.5 and 5.2.4).
    // req: rfc9260 8.4 "COOKIE ECHO chunk as the first chunk, it MUST"
    fn handle_cookie_echo(
        &mut self,
        now: Instant,
        arrival: &Arrival,
        packet: &Packet<'_>,
        cookie: &[u8],
        batch: &Bytes,
    ) -> Option<AssociationId> {
        let header = packet.header();
        let said = CookiePacket {
            local_port: header.destination_port,
            remote_port: header.source_port,
            verification_tag: header.verification_tag,
        };
        let (contents, stale) = match self.cookies.open(cookie, said, now) {
            Ok(contents) => (contents, None),
            Err(CookieError::Stale { by, contents }) => (*contents, Some(by)),
            // req: rfc9260 4 "the receiver MUST silently discard the packet"
            Err(CookieError::Invalid) => {
                self.discarded += 1;
                return None;
            }
        };
        let arrived = (arrival.local, arrival.remote, arrival.remote_udp_port);
        let about = self.cookie_is_about(arrival, header, &contents);
        let existing = match about {
            About::Association(id) => Some(id),
            About::None | About::OtherPort(_) => None,
        };
        // A cookie with the tags of the existing association is valid however old it is.
        let current = existing
            .and_then(|id| self.get_mut(id))
            .is_some_and(|known| known.has_tags(contents.local_tag, contents.peer_tag));
        // Do not accept a packet that contains an ABORT, which would end the new association immediately.
        // req: rfc9260 9.1 "An endpoint MUST NOT respond to any received"
        let takes_back =
            packet.chunks().map_while(Result::ok).any(|chunk| chunk.kind == kind::ABORT);
        if takes_back && (existing.is_none() || stale.is_some() && !current) {
            self.discarded += 1;
            return None;
        }
        // req: rfc9260 4 "the receiver MUST send back an ERROR chunk"
        // req: rfc9260 5.2.4 "If the State Cookie is older than the lifespan"
        // req: rfc9260 5.2.4 "MUST transmit an ERROR chunk with a"
        if let Some(by) = stale.filter(|_| !current) {
            mark!(CookieStale);
            self.stale_cookie(arrival, header, contents.peer_tag, by);
            return None;
        }
        let Some(rest) = self.after_cookie(packet, &contents, existing) else {
            self.discarded += 1;
            return None;
        };
        if let Some(id) = existing {
            let association = self.get_mut(id)?;
            // req: rfc9260 5.1.5 "the procedures in Section 5.2 SHOULD be"
            if association.on_cookie_echo(now, &contents, arrived) {
                association.handle_packet(now, *arrival, packet, rest, batch);
            }
            return Some(id);
        }
        if let About::OtherPort(current) = about {
            self.refuse_other_port(arrival, header, contents.peer_tag, current);
            return None;
        }
        if let Some(refused) = self.ended.refuses(&contents) {
            self.refuse_cookie(arrival, header, contents.peer_tag, refused);
            return None;
        }
        let id = self.accept(now, arrival, header, &contents)?;
        self.get_mut(id)?.handle_packet(now, *arrival, packet, rest, batch);
        Some(id)
    }

    /// Answers a cookie that is, or may be, of an association that has ended.
    fn refuse_cookie(
        &mut self,
        arrival: &Arrival,
        header: Header,
        peer_tag: u32,
        refused: Refused,
    ) {
        match refused {
            // This is a repetition. Notify the peer, which may still wait for the COOKIE ACK.
            Refused::Used => {
                mark!(CookieOfEnded);
                self.abort_init(arrival, header, Whose::Ours, peer_tag, &[]);
            }
            Refused::TooOld(by) => self.stale_cookie(arrival, header, peer_tag, by),
        }
    }

    /// Creates the association that a cookie describes, if there is room for it.
    fn accept(
        &mut self,
        now: Instant,
        arrival: &Arrival,
        header: Header,
        contents: &CookieContents,
    ) -> Option<AssociationId> {
        let listener = self.listener(header, contents.local);
        // Do not evict for a peer that will be refused anyway.
        let listener = listener.filter(|_| self.make_room(now, arrival.remote));
        let Some(Listener { config, ip_versions }) = listener else {
            self.out_of_resource(arrival, header, contents.peer_tag);
            return None;
        };
        let association = Association::from_cookie(
            now,
            contents,
            (arrival.local, arrival.remote, arrival.remote_udp_port),
            config,
            self.surroundings.within_link_of(contents.local, ip_versions),
            self.rng.fork(),
        );
        let id = self.insert(now, association);
        self.setups = self.setups.saturating_sub(2);
        Some(id)
    }

    /// Answers a cookie that is too old by this much.
    fn stale_cookie(&mut self, arrival: &Arrival, header: Header, tag: u32, by: Duration) {
        let mut cause = Vec::new();
        let staleness_us = u32::try_from(by.as_micros()).unwrap_or(u32::MAX);
        Cause::StaleCookie { staleness_us }.encode(&mut cause);
        // req: rfc9260 5.1.5 "the endpoint MUST transmit an ERROR chunk with"
        self.reply(arrival, header, Whose::Ours, tag, |packet| {
            packet.chunk(&Chunk::Error(Error { causes: Causes::new(&cause) }))
        });
    }

    /// Handles a packet that does not belong to an association (RFC 9260 section 8.4).
    // req: rfc9260 8.4 "MUST discard the OOTB packet and MUST NOT"
    // req: rfc9260 8.5.1 "MUST follow the procedure described in Section"
    pub(super) fn out_of_the_blue(&mut self, now: Instant, arrival: &Arrival, packet: &Packet<'_>) {
        self.discarded += 1;
        let header = packet.header();
        if !address::is_unicast(arrival.local) || !address::is_unicast(arrival.remote) {
            return;
        }
        // An INIT that is alone in its packet is not a packet out of the blue.
        // req: rfc9260 8.5.1 "it SHOULD verify that the packet contains"
        // req: rfc9260 8.5.1 "MUST silently discard the packet"
        if header.verification_tag == 0 {
            return;
        }
        let Some(answer) = Answer::to(packet) else { return };
        match answer {
            // req: rfc9260 8.4 "respond to the sender of the OOTB packet with a"
            Answer::ShutdownComplete => {
                mark!(OutOfTheBlueComplete);
                // The answer is the same whichever side ended first, because the peer does not wait for
                // anything else.
                self.reply(arrival, header, Whose::Ours, header.verification_tag, |packet| {
                    // req: rfc9260 3.1 "MUST have the Verification Tag copied from"
                    // req: rfc9260 8.5.1 "and MUST set the T bit"
                    packet.chunk(&Chunk::ShutdownComplete(ShutdownComplete { tag_reflected: true }))
                });
            }
            Answer::Nothing => {}
            // A HEARTBEAT of a peer that still waits for SHUTDOWN COMPLETE. It repeats SHUTDOWN ACK, and with an
            // ABORT its user would see an error after a graceful end. A peer that sent SHUTDOWN COMPLETE itself does
            // not wait: if it still sends, a late COOKIE ECHO has revived its association, and the ABORT ends it.
            Answer::Abort if self.ended.peer_waits(now, header.verification_tag) => {}
            // req: rfc9260 8.4 "SHOULD respond to the sender of the"
            // req: rfc9260 8.4 "set the T bit in the Chunk Flags to"
            Answer::Abort => {
                if self.config.out_of_the_blue == OutOfTheBlue::Answer {
                    mark!(OutOfTheBlueAbort);
                    self.reply(
                        arrival,
                        header,
                        Whose::Unknown,
                        header.verification_tag,
                        |packet| {
                            packet.chunk(&Chunk::Abort(Abort {
                                tag_reflected: true,
                                causes: Causes::new(&[]),
                            }))
                        },
                    );
                }
            }
        }
    }

    /// Queues an answer to the source of `arrival`, unless too many answers wait already.
    fn reply(
        &mut self,
        arrival: &Arrival,
        received: Header,
        whose: Whose,
        tag: u32,
        write: impl FnOnce(&mut PacketWriter<'_>) -> Result<(), anabranch_wire::NoRoom>,
    ) {
        if self.replies.len() >= self.config.max_stateless_replies {
            return;
        }
        let header = Header {
            source_port: received.destination_port,
            destination_port: received.source_port,
            verification_tag: tag,
        };
        let mut bytes = Vec::new();
        let mut packet = PacketWriter::new(&mut bytes, header, 4096);
        if write(&mut packet).is_err() {
            return;
        }
        let len =
            if self.config.checksum { packet.finish() } else { packet.finish_without_checksum() };
        // While the answer waits, it uses no more memory than its length.
        bytes.shrink_to_fit();
        let transmit = Transmit {
            // req: rfc9260 5.1 "MUST be set to the source IP address"
            // req: rfc9260 5.1 "MUST send the INIT ACK chunk to the"
            // req: rfc9260 5.1.2 "chunk MUST be sent to the source address"
            local: arrival.local,
            remote: arrival.remote,
            remote_udp_port: arrival.remote_udp_port,
            ecn: None,
            len,
            segment_size: len,
            // Packets that fit every path may be fragmented, because forbidding it would cost a driver two
            // calls.
            dont_fragment: len <= NEVER_FRAGMENTED,
            out_of_the_blue: whose == Whose::Unknown,
            unverified: true,
            roams: false,
        };
        // req: rfc9260 12.4 "MUST NOT send more than one packet containing"
        self.replies.push_back((transmit, bytes));
    }
}

/// Whether a packet is for this endpoint.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Whose {
    Ours,
    /// Not for its associations and listeners, but perhaps for another stack on the same addresses.
    Unknown,
}

/// The answer to a packet out of the blue. Variants of later rules in RFC 9260 section 8.4 come first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Answer {
    Abort,
    Nothing,
    ShutdownComplete,
}

impl Answer {
    /// The answer to a packet without an association; `None` for one with an ABORT, which is never answered.
    fn to(packet: &Packet<'_>) -> Option<Self> {
        let mut answer = Self::Abort;
        for chunk in packet.chunks() {
            let Ok(chunk) = chunk else { break };
            match chunk.kind {
                // req: rfc9260 8.4 "If the OOTB packet contains an ABORT chunk"
                // req: rfc9260 3.3.7 "chunk with a format error or no TCB"
                // req: rfc9260 3.3.7 "MUST NOT respond to that ABORT chunk by"
                kind::ABORT => return None,
                kind::SHUTDOWN_ACK => answer = Self::ShutdownComplete,
                // req: rfc9260 8.4 "If the packet contains a SHUTDOWN COMPLETE chunk"
                kind::SHUTDOWN_COMPLETE | kind::COOKIE_ACK => answer = answer.max(Self::Nothing),
                kind::ERROR => {
                    if let Ok(Chunk::Error(error)) = chunk.decode() {
                        let mut causes = error.causes.iter().map_while(Result::ok);
                        // req: rfc9260 8.4 "cause or a COOKIE ACK chunk, the SCTP packet"
                        if causes.any(|cause| cause.kind == cause_code::STALE_COOKIE) {
                            answer = answer.max(Self::Nothing);
                        }
                    }
                }
                _ => {}
            }
        }
        Some(answer)
    }
}
