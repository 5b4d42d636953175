//! Link types (<https://www.tcpdump.org/linktypes.html>).

use super::{Place, Step};
use crate::bytes::Piece;
use crate::reason::Reason;

/// The first step into a frame.
pub(super) fn step<'a>(link: u32, piece: Piece<'a>, place: &mut Place) -> Result<Step<'a>, Reason> {
    // In pcap the upper 16 bits contain the length of the frame check sequence.
    let link = link & 0xffff;
    match link {
        1 => Ok(Step::Ethernet(piece)),
        // The address family of BSD's loopback may be in either byte order, so the version is read from the packet
        // itself.
        0 | 108 => piece.skip(4).map(Step::Ip).ok_or(Reason::Cut("loopback")),
        // OpenBSD's variant, with its flags.
        109 => piece.skip(12).map(Step::Ip).ok_or(Reason::Cut("ENC")),
        12 | 14 | 101 | 228 | 229 => Ok(Step::Ip(piece)),
        9 => Ok(Step::Ppp(piece)),
        // Preceded by a byte for the direction.
        204 => piece.skip(1).map(Step::Ppp).ok_or(Reason::Cut("PPP")),
        50 if matches!(piece.byte(0), Some(0x0f | 0x8f)) => cisco(piece),
        50 => Ok(Step::Ppp(piece)),
        51 => Ok(Step::Ether(super::ether::PPPOE, piece)),
        104 => cisco(piece),
        105 => Ok(Step::Wifi(piece)),
        127 => super::wifi::radiotap(piece),
        113 => {
            let kind = piece.be16(14).ok_or(Reason::Cut("Linux cooked"))?;
            cooked(kind, piece.skip(16))
        }
        219 => Ok(Step::Mpls(piece)),
        239 => nflog(piece),
        276 => {
            let short = Reason::Cut("Linux cooked");
            let kind = piece.be16(0).ok_or(short)?;
            place.device = Some(piece.be32(4).ok_or(short)?);
            cooked(kind, piece.skip(20))
        }
        _ => Err(Reason::LinkType(link)),
    }
}

fn cisco(piece: Piece<'_>) -> Result<Step<'_>, Reason> {
    let short = Reason::Cut("HDLC");
    let kind = piece.be16(2).ok_or(short)?;
    Ok(Step::Ether(kind, piece.skip(4).ok_or(short)?))
}

fn cooked(kind: u16, rest: Option<Piece<'_>>) -> Result<Step<'_>, Reason> {
    let rest = rest.ok_or(Reason::Cut("Linux cooked"))?;
    match kind {
        4 => Ok(Step::Llc(rest)),
        kind => Ok(Step::Ether(kind, rest)),
    }
}

/// An address family, then fields with lengths in the host's byte order; one field is the packet.
fn nflog(piece: Piece<'_>) -> Result<Step<'_>, Reason> {
    let mut rest = piece.skip(4).ok_or(Reason::Cut("NFLOG"))?;
    for _ in 0..64 {
        let (little, big) = (rest.le16(0), rest.be16(0));
        let (Some(little), Some(big)) = (little, big) else { break };
        // All fields other than the packet are short.
        let (length, kind) = match (little, rest.le16(2), rest.be16(2)) {
            (_, Some(kind @ 0..=255), _) => (usize::from(little), kind),
            (_, _, Some(kind)) => (usize::from(big), kind),
            _ => break,
        };
        if length < 4 {
            return Err(Reason::Malformed("NFLOG field"));
        }
        if kind == 9 {
            let packet = rest.limit(length).skip(4).ok_or(Reason::Cut("NFLOG"))?;
            return Ok(Step::Ip(packet));
        }
        rest = rest.skip(length.next_multiple_of(4)).ok_or(Reason::Cut("NFLOG"))?;
    }
    Err(Reason::Cut("NFLOG"))
}
