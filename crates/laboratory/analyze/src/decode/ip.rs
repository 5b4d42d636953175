//! IPv4 and IPv6, including zero lengths, jumbograms, extension headers and fragments.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::bytes::Piece;
use crate::reason::Reason;

/// Maximum number of extension headers.
const MOST_EXTENSIONS: usize = 16;
const FRAGMENT: u8 = 44;

/// The contents of an IP header.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Network<'a> {
    pub(crate) from: IpAddr,
    pub(crate) to: IpAddr,
    pub(crate) protocol: u8,
    /// IPv4 identification.
    pub(crate) identification: Option<u16>,
    /// Bytes of the IP packet on the wire.
    pub(crate) size: usize,
    pub(crate) payload: Piece<'a>,
    /// The position of the payload, if the packet is a fragment.
    pub(crate) fragment: Option<Fragment>,
}

/// A fragment of a packet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fragment {
    pub(crate) identification: u32,
    /// Offset in bytes.
    pub(crate) offset: usize,
    pub(crate) more: bool,
}

pub(super) fn read(piece: Piece<'_>) -> Result<Network<'_>, Reason> {
    match piece.byte(0).ok_or(Reason::Cut("IP"))? >> 4 {
        4 => v4(piece),
        6 => v6(piece),
        _ => Err(Reason::NotIp),
    }
}

fn v4(piece: Piece<'_>) -> Result<Network<'_>, Reason> {
    let short = Reason::Cut("IPv4");
    let head = piece.data.first_chunk::<20>().ok_or(short)?;
    let length = usize::from(head[0] & 15) * 4;
    let size = match usize::from(u16::from_be_bytes([head[2], head[3]])) {
        // Segmentation offload (TSO) or large receive offload (LRO): the packet fills the frame.
        0 => piece.whole,
        size => size,
    };
    if length < 20 || size < length {
        return Err(Reason::Malformed("IPv4 header length"));
    }
    let payload = piece.skip(length).ok_or(short)?.limit(size - length);
    let identification = u16::from_be_bytes([head[4], head[5]]);
    let place = u16::from_be_bytes([head[6], head[7]]);
    let (more, offset) = (place & 0x2000 != 0, usize::from(place & 0x1fff) * 8);
    let identification_of_all = u32::from(identification);
    Ok(Network {
        from: address4(head[12..16].try_into().ok()),
        to: address4(head[16..20].try_into().ok()),
        protocol: head[9],
        identification: Some(identification),
        size,
        payload,
        fragment: (more || offset > 0).then_some(Fragment {
            identification: identification_of_all,
            offset,
            more,
        }),
    })
}

fn address4(bytes: Option<[u8; 4]>) -> IpAddr {
    IpAddr::V4(Ipv4Addr::from(bytes.unwrap_or_default()))
}

fn address6(bytes: Option<[u8; 16]>) -> IpAddr {
    IpAddr::V6(Ipv6Addr::from(bytes.unwrap_or_default()))
}

fn v6(piece: Piece<'_>) -> Result<Network<'_>, Reason> {
    let short = Reason::Cut("IPv6");
    let head = piece.data.first_chunk::<40>().ok_or(short)?;
    let mut rest = piece.skip(40).ok_or(short)?;
    let mut protocol = head[6];
    let mut fragment = None;
    match usize::from(u16::from_be_bytes([head[4], head[5]])) {
        // A jumbogram (RFC 2675), or offload as in IPv4.
        0 => {
            if protocol == 0
                && let Some(length) = jumbo(rest)
            {
                rest = rest.limit(length);
            }
        }
        length => rest = rest.limit(length),
    }
    let size = 40 + rest.whole;
    for _ in 0..MOST_EXTENSIONS {
        let length = match protocol {
            // Hop-by-hop options, routing, destination options, mobility, HIP, shim6.
            0 | 43 | 60 | 135 | 139 | 140 => (extension(rest, 1)? + 1) * 8,
            FRAGMENT => {
                let place = rest.be16(2).ok_or(Reason::Cut("IPv6 fragment"))?;
                let identification = rest.be32(4).ok_or(Reason::Cut("IPv6 fragment"))?;
                let (more, offset) = (place & 1 != 0, usize::from(place & 0xfff8));
                if more || offset > 0 {
                    fragment = Some(Fragment { identification, offset, more });
                }
                8
            }
            _ => break,
        };
        protocol = rest.byte(0).ok_or(Reason::Cut("IPv6 extension"))?;
        rest = rest.skip(length).ok_or(Reason::Cut("IPv6 extension"))?;
        if fragment.is_some() {
            // The rest belongs to the reassembled packet.
            break;
        }
    }
    Ok(Network {
        from: address6(head[8..24].try_into().ok()),
        to: address6(head[24..40].try_into().ok()),
        protocol,
        identification: None,
        size,
        payload: rest,
        fragment,
    })
}

fn extension(piece: Piece<'_>, at: usize) -> Result<usize, Reason> {
    piece.byte(at).map(usize::from).ok_or(Reason::Cut("IPv6 extension"))
}

/// The length in a jumbo payload option of a hop-by-hop options header.
fn jumbo(options: Piece<'_>) -> Option<usize> {
    let end = (usize::from(options.byte(1)?) + 1) * 8;
    let mut at = 2;
    while at < end {
        let kind = options.byte(at)?;
        if kind == 0 {
            at += 1;
            continue;
        }
        let length = usize::from(options.byte(at + 1)?);
        if kind == 0xc2 && length == 4 {
            return usize::try_from(options.be32(at + 2)?).ok();
        }
        at += 2 + length;
    }
    None
}
