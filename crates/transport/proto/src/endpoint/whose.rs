//! Finds the association that an INIT or COOKIE ECHO refers to (RFC 9260 sections 5.1.2 and 5.2).
//!
//! Over UDP another host may send from the same IP address with the same SCTP ports. So packets from
//! another UDP port than the peer's are considered another host's, and never restart an association:
//! they begin a new one, or are refused if this side assumes only one peer at that address, because
//! it began the association itself.

use std::net::IpAddr;

use anabranch_wire::Header;

use super::Endpoint;
use super::demux::{Key, Tag};
use crate::association::Arrival;
use crate::cookie::CookieContents;
use crate::event::AssociationId;

/// The association that an INIT or COOKIE ECHO refers to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum About {
    /// It does not refer to an existing association.
    None,
    /// It refers to this association.
    Association(AssociationId),
    /// It refers to an association whose peer has this UDP port, but the packet came from another
    /// port.
    OtherPort(u16),
}

impl Endpoint {
    /// Finds the association that an INIT refers to, by its source address or any that it lists.
    // req: rfc9260 5.1.2 "chunk MUST be treated as belonging to an"
    pub(super) fn init_is_about(
        &self,
        arrival: &Arrival,
        header: Header,
        listed: &[IpAddr],
    ) -> About {
        let (source, port) = (arrival.remote, arrival.remote_udp_port);
        let about = self.source_is_about(source, port, header);
        if about != About::None {
            return about;
        }
        self.listed_is_about(listed, port, header)
    }

    /// Finds the association that a COOKIE ECHO refers to.
    pub(super) fn cookie_is_about(
        &self,
        arrival: &Arrival,
        header: Header,
        cookie: &CookieContents,
    ) -> About {
        let tag = Tag::arriving(cookie.local_tag, header);
        // A cookie with an association's tag belongs to it, whatever the packet's source is.
        if let Some(id) = self.demux.find_tag(&tag)
            && let Some(association) = self.association(id)
            && association.remotes().any(|ip| ip == arrival.remote || ip == cookie.remote)
        {
            return About::Association(id);
        }
        let port = arrival.remote_udp_port;
        let here = self.source_is_about(arrival.remote, port, header);
        let there = self.source_is_about(cookie.remote, cookie.remote_udp_port, header);
        if arrival.remote == cookie.remote && port != cookie.remote_udp_port {
            // If the INIT was allowed from its port, the cookie is not allowed from another one.
            return match (there, here) {
                (About::Association(_), _) => About::OtherPort(cookie.remote_udp_port),
                (_, About::Association(_)) => About::OtherPort(port),
                (_, about) => about,
            };
        }
        match (here, there) {
            (About::Association(_), _) => here,
            (_, About::Association(_)) => there,
            (About::None, About::None) => {
                self.listed_is_about(&cookie.addresses, cookie.remote_udp_port, header)
            }
            (About::None, _) => there,
            (About::OtherPort(_), _) => here,
        }
    }

    /// Finds the association with a peer at this address and UDP port.
    fn source_is_about(&self, source: IpAddr, port: u16, header: Header) -> About {
        let key = Key::new(source, port, header.source_port, header.destination_port);
        if let Some(id) = self.demux.owner(&key) {
            return About::Association(id);
        }
        let Some(id) = self.demux.owner(&key.of_any_port()) else { return About::None };
        let ports = self.association(id).into_iter().flat_map(|own| own.udp_ports(source));
        let mut ports = ports.peekable();
        match ports.peek().copied() {
            Some(current) if ports.all(|other| other != port) => About::OtherPort(current),
            _ => About::Association(id),
        }
    }

    /// Finds an association that has one of these addresses.
    fn listed_is_about(&self, listed: &[IpAddr], port: u16, header: Header) -> About {
        let owner = |address: &IpAddr| {
            let key = Key::new(*address, port, header.source_port, header.destination_port);
            self.demux.owner(&key).or_else(|| self.demux.owner(&key.of_any_port()))
        };
        listed.iter().find_map(owner).map_or(About::None, About::Association)
    }
}
