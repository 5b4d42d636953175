//! IEEE 802.11: unencrypted data frames.

use super::Step;
use crate::bytes::Piece;
use crate::reason::Reason;

/// The receiver's pseudo-header, which contains its own length.
pub(super) fn radiotap(piece: Piece<'_>) -> Result<Step<'_>, Reason> {
    let length = piece.le16(2).ok_or(Reason::Cut("radiotap"))?;
    piece.skip(usize::from(length)).map(Step::Wifi).ok_or(Reason::Cut("radiotap"))
}

pub(super) fn step(piece: Piece<'_>) -> Result<Step<'_>, Reason> {
    let short = Reason::Cut("802.11");
    let (control, flags) = piece.byte(0).zip(piece.byte(1)).ok_or(short)?;
    let (kind, subtype) = (control >> 2 & 3, control >> 4);
    // Subtypes with this bit have no data.
    if kind != 2 || subtype & 4 != 0 {
        return Err(Reason::WifiControl);
    }
    if flags & 0x40 != 0 {
        return Err(Reason::Encrypted);
    }
    let mut length = 24;
    // Frames between access points have a fourth address.
    if flags & 3 == 3 {
        length += 6;
    }
    if subtype & 8 != 0 {
        let quality = piece.byte(length).ok_or(short)?;
        // Aggregated frames.
        if quality & 0x80 != 0 {
            return Err(Reason::WifiControl);
        }
        length += 2;
        // The order bit adds a field of 802.11n.
        if flags & 0x80 != 0 {
            length += 4;
        }
    }
    piece.skip(length).map(Step::Llc).ok_or(short)
}
