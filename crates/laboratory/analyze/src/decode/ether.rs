//! Ethernet, and encapsulations with EtherTypes: VLANs, LLC, MPLS, PPP and PPPoE, MACsec.

use super::{Label, Place, Step};
use crate::bytes::Piece;
use crate::reason::Reason;

pub(super) const PPPOE: u16 = 0x8864;

pub(super) fn ethernet(piece: Piece<'_>) -> Result<Step<'_>, Reason> {
    let short = Reason::Cut("Ethernet");
    let kind = piece.be16(12).ok_or(short)?;
    let rest = piece.skip(14).ok_or(short)?;
    match kind {
        // IEEE 802.3: this is a length.
        0..=1500 => Ok(Step::Llc(rest.limit(usize::from(kind)))),
        kind => Ok(Step::Ether(kind, rest)),
    }
}

pub(super) fn ether_type<'a>(
    kind: u16,
    piece: Piece<'a>,
    place: &mut Place,
) -> Result<Step<'a>, Reason> {
    match kind {
        0x0800 | 0x86dd => Ok(Step::Ip(piece)),
        0x8100 | 0x88a8 | 0x9100 | 0x9200 | 0x9300 => {
            let short = Reason::Cut("VLAN");
            let (tag, inner) = piece.be16(0).zip(piece.be16(2)).ok_or(short)?;
            // 0 means a priority without a VLAN.
            if tag & 0xfff > 0 {
                place.label(Label::Vlan(tag & 0xfff));
            }
            let rest = piece.skip(4).ok_or(short)?;
            match inner {
                0..=1500 => Ok(Step::Llc(rest.limit(usize::from(inner)))),
                inner => Ok(Step::Ether(inner, rest)),
            }
        }
        // Transparent Ethernet bridging.
        0x6558 => Ok(Step::Ethernet(piece)),
        0x8847 | 0x8848 => Ok(Step::Mpls(piece)),
        0x880b => Ok(Step::Ppp(piece)),
        PPPOE => {
            let length = piece.be16(4).ok_or(Reason::Cut("PPPoE"))?;
            let rest = piece.skip(6).ok_or(Reason::Cut("PPPoE"))?;
            Ok(Step::Ppp(rest.limit(usize::from(length))))
        }
        // Provider backbone bridges (802.1ah): a service tag, then a frame.
        0x88e7 => piece.skip(4).map(Step::Ethernet).ok_or(Reason::Cut("802.1ah")),
        0x88e5 => macsec(piece),
        kind => Err(Reason::EtherType(kind)),
    }
}

/// Authenticated frames are readable, encrypted ones are not (IEEE 802.1AE).
fn macsec(piece: Piece<'_>) -> Result<Step<'_>, Reason> {
    let control = piece.byte(0).ok_or(Reason::Cut("MACsec"))?;
    if control & 0x0c != 0 {
        return Err(Reason::Encrypted);
    }
    let length = if control & 0x20 == 0 { 6 } else { 14 };
    let kind = piece.be16(length).ok_or(Reason::Cut("MACsec"))?;
    Ok(Step::Ether(kind, piece.skip(length + 2).ok_or(Reason::Cut("MACsec"))?))
}

pub(super) fn llc(piece: Piece<'_>) -> Result<Step<'_>, Reason> {
    let service = piece.be16(0).ok_or(Reason::Cut("LLC"))?;
    let control = piece.byte(2).ok_or(Reason::Cut("LLC"))?;
    match (service, control) {
        (0xaaaa, 3) => {
            let kind = piece.be16(6).ok_or(Reason::Cut("SNAP"))?;
            let rest = piece.skip(8).ok_or(Reason::Cut("SNAP"))?;
            // Without an organisation code, or bridged (RFC 1042, IEEE 802.1H).
            match piece.be24(3) {
                Some(0 | 0xf8) => Ok(Step::Ether(kind, rest)),
                _ => Err(Reason::Llc),
            }
        }
        (0x0606, 3) => piece.skip(3).map(Step::Ip).ok_or(Reason::Cut("LLC")),
        _ => Err(Reason::Llc),
    }
}

/// PPP, with or without its HDLC header (RFC 1661, RFC 1662).
pub(super) fn ppp(piece: Piece<'_>) -> Result<Step<'_>, Reason> {
    let short = Reason::Cut("PPP");
    let piece = match piece.be16(0) {
        Some(0xff03) => piece.skip(2).ok_or(short)?,
        _ => piece,
    };
    let first = piece.byte(0).ok_or(short)?;
    // The protocol may be compressed to one byte; the last byte of a protocol is odd.
    let (protocol, length) = match first & 1 {
        1 => (u16::from(first), 1),
        _ => (piece.be16(0).ok_or(short)?, 2),
    };
    let rest = piece.skip(length).ok_or(short)?;
    match protocol {
        0x0021 | 0x0057 => Ok(Step::Ip(rest)),
        0x0281 | 0x0283 => Ok(Step::Mpls(rest)),
        protocol => Err(Reason::Ppp(protocol)),
    }
}

/// A label stack (RFC 3032). Only the packet itself shows what follows: IP, or a pseudowire with a control word (RFC
/// 4385) and an Ethernet frame.
pub(super) fn mpls(mut piece: Piece<'_>) -> Result<Step<'_>, Reason> {
    let short = Reason::Cut("MPLS");
    for _ in 0..super::MOST_STEPS {
        let label = piece.be32(0).ok_or(short)?;
        piece = piece.skip(4).ok_or(short)?;
        if label & 0x100 != 0 {
            return match piece.byte(0).ok_or(short)? >> 4 {
                4 | 6 => Ok(Step::Ip(piece)),
                0 => piece.skip(4).map(Step::Ethernet).ok_or(short),
                _ => Err(Reason::NotIp),
            };
        }
    }
    Err(Reason::TooDeep)
}
