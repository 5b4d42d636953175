//! Tunnels: GRE, VXLAN, Geneve, GTP-U, and the authentication header.

use super::{Label, Network, Place, Step};
use crate::bytes::Piece;
use crate::reason::Reason;

/// UDP ports of tunnels.
const GTP_U: u16 = 2152;
const VXLAN: u16 = 4789;
const GENEVE: u16 = 6081;

/// GRE (RFC 2784, RFC 2890), PPTP's variant (RFC 2637), and mirrored frames in GRE (ERSPAN).
pub(super) fn gre(piece: Piece<'_>) -> Result<Step<'_>, Reason> {
    let short = Reason::Cut("GRE");
    let (flags, kind) = piece.be16(0).zip(piece.be16(2)).ok_or(short)?;
    let mut length = 4;
    // Optional fields: checksum, key, sequence number, and PPTP's acknowledgement.
    for bit in [0x8000, 0x2000, 0x1000, 0x0080] {
        length += if flags & bit == 0 { 0 } else { 4 };
    }
    let mut rest = piece.skip(length).ok_or(short)?;
    if kind == 0x88be {
        // Version 2 has a header of its own, and sequence numbers.
        if flags & 0x1000 != 0 {
            rest = rest.skip(8).ok_or(Reason::Cut("ERSPAN"))?;
        }
        return Ok(Step::Ethernet(rest));
    }
    Ok(Step::Ether(kind, rest))
}

/// Skips the authentication header (RFC 4302), which does not encrypt anything.
pub(super) fn authenticated(packet: Network<'_>) -> Result<Step<'_>, Reason> {
    let short = Reason::Cut("AH");
    let payload = packet.payload;
    let (protocol, length) = payload.byte(0).zip(payload.byte(1)).ok_or(short)?;
    let rest = payload.skip((usize::from(length) + 2) * 4).ok_or(short)?;
    Ok(Step::Network(Network { protocol, payload: rest, ..packet }))
}

/// The contents of a UDP datagram to this port, if the port belongs to a tunnel.
pub(super) fn in_udp<'a>(
    port: u16,
    piece: Piece<'a>,
    place: &mut Place,
) -> Option<Result<Step<'a>, Reason>> {
    match port {
        GTP_U => gtp(piece),
        VXLAN => vxlan(piece, place),
        GENEVE => geneve(piece, place),
        _ => None,
    }
}

fn vxlan<'a>(piece: Piece<'a>, place: &mut Place) -> Option<Result<Step<'a>, Reason>> {
    let network = piece.be24(4)?;
    let rest = piece.skip(8)?;
    if piece.byte(0)? & 0x08 != 0 {
        place.label(Label::Network(network));
    }
    Some(Ok(Step::Ethernet(rest)))
}

fn geneve<'a>(piece: Piece<'a>, place: &mut Place) -> Option<Result<Step<'a>, Reason>> {
    let (options, kind, network) = (piece.byte(0)?, piece.be16(2)?, piece.be24(4)?);
    if options >> 6 != 0 {
        return None;
    }
    let rest = piece.skip(8 + usize::from(options & 0x3f) * 4)?;
    place.label(Label::Network(network));
    Some(Ok(Step::Ether(kind, rest)))
}

/// Packets of mobile users (3GPP TS 29.281). Their tunnels differ between directions, so they do not identify flows.
fn gtp(piece: Piece<'_>) -> Option<Result<Step<'_>, Reason>> {
    const EXTENSIONS_AT_MOST: usize = 16;
    const PACKET: u8 = 255;
    let (flags, kind) = (piece.byte(0)?, piece.byte(1)?);
    if flags >> 4 != 3 || kind != PACKET {
        return None;
    }
    let mut rest = piece.skip(8)?;
    if flags & 7 != 0 {
        let mut next = rest.byte(3)?;
        rest = rest.skip(4)?;
        for _ in 0..EXTENSIONS_AT_MOST {
            if flags & 4 == 0 || next == 0 {
                break;
            }
            let length = usize::from(rest.byte(0)?) * 4;
            next = rest.byte(length.checked_sub(1)?)?;
            rest = rest.skip(length)?;
        }
    }
    Some(Ok(Step::Ip(rest)))
}
