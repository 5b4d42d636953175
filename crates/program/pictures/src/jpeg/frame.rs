//! The header of a frame: the size of the picture, and how its components are sampled.

use super::segments::{SOF0, SOF1, SOF2, Segment};
use crate::{MOST_PIXELS, Unchanged};

/// The coefficients of a block of 8 by 8 samples, in zigzag order.
pub(super) type Block = [i16; 64];

/// One component of a frame, such as the luminance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Component {
    pub(super) id: u8,
    /// Blocks of it in a unit of an interleaved scan, horizontally and vertically.
    pub(super) per_unit: (usize, usize),
    /// Blocks that have a part of the picture. Scans of this component alone have only these.
    pub(super) blocks: (usize, usize),
}

/// The header of a frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Frame {
    pub(super) size: (u16, u16),
    /// Units of an interleaved scan, horizontally and vertically.
    pub(super) units: (usize, usize),
    pub(super) components: Vec<Component>,
}

impl Frame {
    /// Blocks of a component in a row, with those that only fill up units.
    pub(super) fn stride(&self, component: &Component) -> usize {
        self.units.0 * component.per_unit.0
    }

    /// All blocks of a component.
    pub(super) fn count(&self, component: &Component) -> usize {
        self.stride(component) * self.units.1 * component.per_unit.1
    }
}

/// The size of the picture, whichever kind of frame it has.
pub(super) fn size(segments: &[Segment<'_>]) -> Result<(u8, (u16, u16)), Unchanged> {
    let is_frame = |segment: &&Segment<'_>| matches!(segment.marker, SOF0..=SOF2);
    let mut frames = segments.iter().filter(is_frame);
    let (Some(frame), None) = (frames.next(), frames.next()) else {
        return Err(Unchanged("it has no frame, or several"));
    };
    let [8, a, b, c, d, ..] = *frame.body else {
        return Err(Unchanged("its samples do not have 8 bits"));
    };
    let size = (u16::from_be_bytes([c, d]), u16::from_be_bytes([a, b]));
    if size.0 == 0 || size.1 == 0 {
        return Err(Unchanged("its size is unknown"));
    }
    if u64::from(size.0) * u64::from(size.1) > MOST_PIXELS {
        return Err(Unchanged("it has too many pixels"));
    }
    Ok((frame.marker, size))
}

/// The frame of a picture in sequential form.
pub(super) fn sequential(segments: &[Segment<'_>]) -> Result<Frame, Unchanged> {
    let (marker, size) = size(segments)?;
    if !matches!(marker, SOF0 | SOF1) {
        return Err(Unchanged("it is progressive already"));
    }
    let body = segments.iter().find(|segment| segment.marker == marker).map_or(&[][..], |s| s.body);
    let [_, _, _, _, _, count @ (1 | 3), components @ ..] = body else {
        return Err(Unchanged("its colours are neither grey nor of three components"));
    };
    let (components, rest) = components.as_chunks::<3>();
    if components.len() != usize::from(*count) || !rest.is_empty() {
        return Err(Unchanged("the header of its frame is malformed"));
    }
    let factors = |sampling: u8| (usize::from(sampling >> 4), usize::from(sampling & 15));
    let mut per_unit = Vec::new();
    for (number, [id, sampling, _]) in components.iter().enumerate() {
        let (across, down) = factors(*sampling);
        let again = components[..number].iter().any(|[other, ..]| other == id);
        if !(1..=4).contains(&across) || !(1..=4).contains(&down) || again {
            return Err(Unchanged("the header of its frame is malformed"));
        }
        // A scan of one component is not interleaved, so its sampling does not matter (T.81 A.2.2).
        per_unit.push(if *count == 1 { (1, 1) } else { (across, down) });
    }
    if per_unit.iter().map(|(across, down)| across * down).sum::<usize>() > 10 {
        return Err(Unchanged("its units have too many blocks"));
    }
    let most = |of: fn(&(usize, usize)) -> usize| per_unit.iter().map(of).max().unwrap_or(1);
    let most = (most(|factors| factors.0), most(|factors| factors.1));
    let (width, height) = (usize::from(size.0), usize::from(size.1));
    let blocks =
        |length: usize, factor: usize, most: usize| (length * factor).div_ceil(most).div_ceil(8);
    let component = |(part, [id, ..]): (&(usize, usize), &[u8; 3])| Component {
        id: *id,
        per_unit: *part,
        blocks: (blocks(width, part.0, most.0), blocks(height, part.1, most.1)),
    };
    let components = per_unit.iter().zip(components).map(component).collect();
    Ok(Frame { size, units: (width.div_ceil(8 * most.0), height.div_ceil(8 * most.1)), components })
}
