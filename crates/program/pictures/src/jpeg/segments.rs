//! The outer structure of a JPEG file: segments, and the coded data after each start of a scan.

use crate::Unchanged;

pub(super) const SOF0: u8 = 0xc0;
pub(super) const SOF1: u8 = 0xc1;
pub(super) const SOF2: u8 = 0xc2;
pub(super) const DHT: u8 = 0xc4;
pub(super) const SOI: u8 = 0xd8;
pub(super) const EOI: u8 = 0xd9;
pub(super) const SOS: u8 = 0xda;
pub(super) const DQT: u8 = 0xdb;
pub(super) const DRI: u8 = 0xdd;
pub(super) const APP0: u8 = 0xe0;
pub(super) const APP11: u8 = 0xeb;
pub(super) const APP15: u8 = 0xef;
pub(super) const COM: u8 = 0xfe;

/// Markers that stand alone inside coded data.
const RESTARTS: std::ops::RangeInclusive<u8> = 0xd0..=0xd7;

/// Most segments. Progressive pictures have a dozen scans, and metadata a few pieces of 64 KiB.
const MOST: usize = 1024;

/// A segment: its marker, and what follows its length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Segment<'a> {
    pub(super) marker: u8,
    pub(super) body: &'a [u8],
    /// The coded data after it, if it starts a scan. It includes restart markers.
    pub(super) coded: &'a [u8],
}

impl Segment<'_> {
    /// Metadata, and what else must stay as it is.
    pub(super) fn is_kept(&self) -> bool {
        matches!(self.marker, APP0..=APP15 | COM | DQT)
    }

    pub(super) fn write(&self, out: &mut Vec<u8>) {
        write(self.marker, self.body, out);
    }
}

/// Writes a segment. Its body must be shorter than 65,534 bytes, as that of each that was read is.
pub(super) fn write(marker: u8, body: &[u8], out: &mut Vec<u8>) {
    let length = u16::try_from(body.len() + 2).unwrap_or(u16::MAX);
    out.extend([0xff, marker]);
    out.extend(length.to_be_bytes());
    out.extend(body);
}

/// The segments of a whole file, from the start of the picture to its end, without these two markers.
pub(super) fn segments(picture: &[u8]) -> Result<Vec<Segment<'_>>, Unchanged> {
    let mut rest = picture.strip_prefix(&[0xff, SOI]).ok_or(Unchanged("it is no JPEG"))?;
    let mut segments = Vec::new();
    loop {
        let [0xff, marker, after @ ..] = rest else {
            return Err(Unchanged("there is no marker where one must be"));
        };
        if *marker == EOI {
            return match after {
                [] => Ok(segments),
                _ => Err(Unchanged("there are data after its end")),
            };
        }
        if !matches!(*marker, SOF0..=SOF2 | DHT | SOS | DQT | DRI | APP0..=APP15 | COM) {
            return Err(Unchanged("it has a segment of another kind"));
        }
        let [high, low, after @ ..] = after else { return Err(TRUNCATED) };
        let length = usize::from(u16::from_be_bytes([*high, *low]));
        let length = length.checked_sub(2).ok_or(Unchanged("a segment has no length"))?;
        let (body, after) = after.split_at_checked(length).ok_or(TRUNCATED)?;
        let (coded, after) =
            if *marker == SOS { after.split_at(coded_length(after)) } else { after.split_at(0) };
        if segments.len() == MOST {
            return Err(Unchanged("it has too many segments"));
        }
        segments.push(Segment { marker: *marker, body, coded });
        rest = after;
    }
}

pub(super) const TRUNCATED: Unchanged = Unchanged("it is cut off");

/// Bytes until a marker that does not belong to coded data.
fn coded_length(bytes: &[u8]) -> usize {
    let ends = |pair: &[u8]| pair[0] == 0xff && pair[1] != 0 && !RESTARTS.contains(&pair[1]);
    bytes.windows(2).position(ends).unwrap_or(bytes.len())
}
