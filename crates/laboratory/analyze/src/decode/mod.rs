//! Decodes a frame down to the TCP or SCTP data in it.
//!
//! A packet is parsed header by header: the link's header (`link`), EtherTypes (`ether`), IP (`ip`), and what IP
//! carries (`transport`). That may be a tunnel (`tunnel`), which contains all of these again. Each step needs only the
//! bytes of its own header, so short snapshots are parsed as far as possible; lengths are those on the wire. Packets
//! that are excluded have a `Reason`.

mod ether;
mod ip;
mod link;
mod place;
mod transport;
mod tunnel;
mod wifi;

pub(crate) use ip::{Fragment, Network};
pub(crate) use place::{Label, Place};
pub(crate) use transport::{Content, Decoded, Ends, Segment};

use crate::bytes::Piece;
use crate::reason::Reason;

/// Maximum number of headers in a packet, including those of tunnels.
const MOST_STEPS: usize = 64;

/// The protocol that begins at an offset in a packet.
#[derive(Clone, Copy)]
pub(crate) enum Step<'a> {
    Ethernet(Piece<'a>),
    /// The protocol of an EtherType.
    Ether(u16, Piece<'a>),
    Llc(Piece<'a>),
    Ppp(Piece<'a>),
    Wifi(Piece<'a>),
    Mpls(Piece<'a>),
    Ip(Piece<'a>),
    /// An IP header has been read.
    Network(Network<'a>),
}

/// The result of decoding a packet.
pub(crate) enum Outcome<'a> {
    Packet(Decoded<'a>),
    Fragment(Network<'a>, Fragment),
}

/// Decodes a frame. Adds the networks that it names to `place`.
pub(crate) fn frame<'a>(
    link: u32,
    piece: Piece<'a>,
    place: &mut Place,
) -> Result<Outcome<'a>, Reason> {
    follow(link::step(link, piece, place)?, place)
}

/// Decodes an IP packet whose header has been read.
pub(crate) fn network<'a>(packet: Network<'a>, place: &mut Place) -> Result<Outcome<'a>, Reason> {
    follow(Step::Network(packet), place)
}

fn follow<'a>(mut step: Step<'a>, place: &mut Place) -> Result<Outcome<'a>, Reason> {
    for _ in 0..MOST_STEPS {
        step = match step {
            Step::Network(packet) => match packet.fragment {
                Some(fragment) => return Ok(Outcome::Fragment(packet, fragment)),
                None => match transport::read(packet, place)? {
                    transport::Found::Packet(decoded) => return Ok(Outcome::Packet(decoded)),
                    transport::Found::Inner(step) => step,
                },
            },
            other => next(other, place)?,
        };
    }
    Err(Reason::TooDeep)
}

/// The outermost IP packet in a frame.
pub(crate) fn outermost<'a>(link: u32, piece: Piece<'a>) -> Result<Network<'a>, Reason> {
    let mut place = Place::default();
    let mut step = link::step(link, piece, &mut place)?;
    for _ in 0..MOST_STEPS {
        match step {
            Step::Network(packet) => return Ok(packet),
            other => step = next(other, &mut place)?,
        }
    }
    Err(Reason::TooDeep)
}

fn next<'a>(step: Step<'a>, place: &mut Place) -> Result<Step<'a>, Reason> {
    match step {
        Step::Ethernet(piece) => ether::ethernet(piece),
        Step::Ether(kind, piece) => ether::ether_type(kind, piece, place),
        Step::Llc(piece) => ether::llc(piece),
        Step::Ppp(piece) => ether::ppp(piece),
        Step::Wifi(piece) => wifi::step(piece),
        Step::Mpls(piece) => ether::mpls(piece),
        Step::Ip(piece) => ip::read(piece).map(Step::Network),
        Step::Network(packet) => Ok(Step::Network(packet)),
    }
}
