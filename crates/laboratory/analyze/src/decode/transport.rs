//! Protocols over IP: TCP, SCTP with and without UDP, and tunnels.

use std::net::IpAddr;

use anabranch_wire::Packet;

use super::{Network, Place, Step, tunnel};
use crate::bytes::Piece;
use crate::reason::Reason;

/// The UDP port of SCTP (RFC 6951 section 6.1).
const SCTP_PORT: u16 = 9899;

/// Source and destination of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Ends {
    pub(crate) from: (IpAddr, u16),
    pub(crate) to: (IpAddr, u16),
    /// The UDP ports of encapsulated SCTP.
    pub(crate) udp: Option<(u16, u16)>,
}

impl Ends {
    /// The reverse direction.
    pub(crate) fn back(self) -> Self {
        let udp = self.udp.map(|(from, to)| (to, from));
        Self { from: self.to, to: self.from, udp }
    }
}

/// The contents of a packet.
#[derive(Clone, Copy)]
pub(crate) enum Content<'a> {
    Tcp(Segment),
    /// An SCTP packet: its verification tag and its chunks, which may be truncated.
    Sctp(u32, &'a [u8]),
}

/// The data of a TCP segment.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Segment {
    pub(crate) sequence: u32,
    pub(crate) acknowledgment: Option<u32>,
    /// Number of data bytes, including those that were not captured.
    pub(crate) length: u32,
    pub(crate) window: u16,
    pub(crate) syn: bool,
    pub(crate) fin: bool,
    pub(crate) rst: bool,
    /// Value of the timestamp option.
    pub(crate) timestamp: Option<u32>,
    pub(crate) mss: Option<u16>,
    pub(crate) window_scale: bool,
    pub(crate) sack_permitted: bool,
    /// The end of the highest SACK block beyond the acknowledgement, if any; other blocks report duplicates (RFC 2883).
    pub(crate) sacked: Option<u32>,
}

pub(crate) struct Decoded<'a> {
    pub(crate) ends: Ends,
    pub(crate) content: Content<'a>,
    /// IPv4 identification, unless it is 0.
    pub(crate) identification: Option<u16>,
    /// Bytes of the IP packet.
    pub(crate) size: u64,
}

pub(super) enum Found<'a> {
    Packet(Decoded<'a>),
    Inner(Step<'a>),
}

/// Reads the payload of an IP packet.
pub(super) fn read<'a>(packet: Network<'a>, place: &mut Place) -> Result<Found<'a>, Reason> {
    let payload = packet.payload;
    match packet.protocol {
        4 | 41 => Ok(Found::Inner(Step::Ip(payload))),
        6 => tcp(packet).map(Found::Packet),
        17 => udp(packet, place),
        47 => tunnel::gre(payload).map(Found::Inner),
        51 => tunnel::authenticated(packet).map(Found::Inner),
        // EtherIP (RFC 3378).
        97 => payload
            .skip(2)
            .map(|rest| Found::Inner(Step::Ethernet(rest)))
            .ok_or(Reason::Cut("EtherIP")),
        132 => sctp(packet, payload, None).map(Found::Packet),
        137 => Ok(Found::Inner(Step::Mpls(payload))),
        other => Err(Reason::IpProtocol(other)),
    }
}

fn decoded<'a>(
    packet: &Network<'a>,
    ports: (u16, u16),
    udp: Option<(u16, u16)>,
    content: Content<'a>,
) -> Decoded<'a> {
    let (from, to) = ((packet.from, ports.0), (packet.to, ports.1));
    Decoded {
        ends: Ends { from, to, udp },
        content,
        identification: packet.identification.filter(|id| *id > 0),
        size: packet.size as u64,
    }
}

/// The first 16 bytes contain everything necessary; options are used as far as they were captured.
fn tcp(packet: Network<'_>) -> Result<Decoded<'_>, Reason> {
    let payload = packet.payload;
    let head = payload.data.first_chunk::<16>().ok_or(Reason::Cut("TCP"))?;
    let number = |at: usize| payload.be32(at).unwrap_or_default();
    let own = usize::from(head[12] >> 4) * 4;
    if own < 20 || own > payload.whole {
        return Err(Reason::Malformed("TCP header length"));
    }
    let flags = head[13];
    let mut segment = Segment {
        sequence: number(4),
        acknowledgment: (flags & 0x10 != 0).then(|| number(8)),
        length: u32::try_from(payload.whole - own).unwrap_or(u32::MAX),
        window: u16::from_be_bytes([head[14], head[15]]),
        fin: flags & 1 != 0,
        syn: flags & 2 != 0,
        rst: flags & 4 != 0,
        ..Segment::default()
    };
    let options = payload.data.get(20..own).or(payload.data.get(20..)).unwrap_or_default();
    crate::tcp::read_options(options, &mut segment);
    let ports = (u16::from_be_bytes([head[0], head[1]]), u16::from_be_bytes([head[2], head[3]]));
    Ok(decoded(&packet, ports, None, Content::Tcp(segment)))
}

fn udp<'a>(packet: Network<'a>, place: &mut Place) -> Result<Found<'a>, Reason> {
    let payload = packet.payload;
    let (Some(from), Some(to), Some(length)) = (payload.be16(0), payload.be16(2), payload.be16(4))
    else {
        return Err(Reason::Cut("UDP"));
    };
    let rest = payload.skip(8).ok_or(Reason::Cut("UDP"))?;
    let rest = match length {
        // A jumbogram, or a length that has not been filled in yet.
        0 => rest,
        1..8 => return Err(Reason::Malformed("UDP length")),
        length => rest.limit(usize::from(length - 8)),
    };
    if let Some(inner) = tunnel::in_udp(to, rest, place) {
        return inner.map(Found::Inner);
    }
    // On other ports SCTP is recognised by its checksum, if the packet is complete.
    let is_whole = || rest.data.len() == rest.whole;
    let is_sctp = from == SCTP_PORT
        || to == SCTP_PORT
        || is_whole() && Packet::parse(rest.data).is_ok_and(|p| p.checksum_ok());
    match is_sctp {
        true => sctp(packet, rest, Some((from, to))).map(Found::Packet),
        false => Err(Reason::Udp),
    }
}

fn sctp<'a>(
    packet: Network<'a>,
    payload: Piece<'a>,
    udp: Option<(u16, u16)>,
) -> Result<Decoded<'a>, Reason> {
    let short = Reason::Cut("SCTP");
    let ports = payload.be16(0).zip(payload.be16(2)).ok_or(short)?;
    let tag = payload.be32(4).ok_or(short)?;
    let chunks = payload.data.get(12..).ok_or(short)?;
    Ok(decoded(&packet, ports, udp, Content::Sctp(tag, chunks)))
}
