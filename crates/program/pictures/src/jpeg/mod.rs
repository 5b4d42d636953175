//! JPEG (ITU-T T.81): from sequential to progressive form.
//!
//! Only the coding changes: the coefficients of all blocks stay, and so do the pixels. There is no crate that recodes
//! without C. libjpeg-turbo could, but its build needs CMake and an assembler on each system, and its code would parse
//! pictures of strangers; this is short, and safe Rust.

mod frame;
mod huffman;
mod progressive;
mod segments;
mod sequential;

use zune_core::bytestream::ZCursor;
use zune_core::options::DecoderOptions;
use zune_jpeg::JpegDecoder;

use self::segments::{APP11, DHT, DRI, EOI, SOF0, SOF1, SOF2, SOI, SOS, Segment, segments, write};
use crate::Unchanged;

pub(crate) fn is_jpeg(picture: &[u8]) -> bool {
    picture.starts_with(&[0xff, SOI, 0xff])
}

/// The picture in progressive form.
pub(crate) fn convert(picture: &[u8]) -> Result<Vec<u8>, Unchanged> {
    let progressive = recode(picture)?;
    // What another reader sees decides. Blocks beyond the edges lose what no reader needs.
    if pixels(picture)? != pixels(&progressive)? {
        return Err(Unchanged("its pixels would change"));
    }
    Ok(progressive)
}

fn recode(picture: &[u8]) -> Result<Vec<u8>, Unchanged> {
    let segments = segments(picture)?;
    let frame = frame::sequential(&segments)?;
    if segments.iter().any(|segment| segment.marker == APP11) {
        return Err(Unchanged("it may be signed"));
    }
    let blocks = sequential::read(&frame, &segments)?;
    let mut out = Vec::with_capacity(picture.len());
    out.extend([0xff, SOI]);
    for segment in &segments {
        match segment.marker {
            SOF0 | SOF1 => write(SOF2, segment.body, &mut out),
            DHT | DRI | SOS => {}
            _ => segment.write(&mut out),
        }
    }
    progressive::write_scans(&frame, &blocks, &mut out);
    out.extend([0xff, EOI]);
    Ok(out)
}

/// The decoded picture.
fn pixels(picture: &[u8]) -> Result<Vec<u8>, Unchanged> {
    let options = DecoderOptions::default().set_strict_mode(true);
    let mut decoder = JpegDecoder::new_with_options(ZCursor::new(picture), options);
    decoder.decode().map_err(|_| Unchanged("it cannot be decoded"))
}

/// Whether `converted` can be what [`convert`] made of the original, as far as that shows without decoding.
pub(crate) fn check(original: &[u8], converted: &[u8]) -> Result<(), Unchanged> {
    const OTHER: Unchanged = Unchanged("the result is another picture");
    let (before, after) = (segments(original)?, segments(converted)?);
    let ((_, size), (form, converted_size)) = (frame::size(&before)?, frame::size(&after)?);
    if form != SOF2 || size != converted_size || !kept(&before).eq(kept(&after)) {
        return Err(OTHER);
    }
    let body = |segments: &[Segment<'_>], markers: &[u8]| {
        let frame = segments.iter().find(|segment| markers.contains(&segment.marker));
        frame.map(|segment| segment.body.to_vec())
    };
    let scans = || after.iter().filter(|segment| segment.marker == SOS);
    let empty = scans().any(|scan| scan.coded.is_empty()) || scans().next().is_none();
    if empty || body(&before, &[SOF0, SOF1]) != body(&after, &[SOF2]) {
        return Err(OTHER);
    }
    Ok(())
}

fn kept<'a>(segments: &'a [Segment<'a>]) -> impl Iterator<Item = (u8, &'a [u8])> {
    segments
        .iter()
        .filter(|segment| segment.is_kept())
        .map(|segment| (segment.marker, segment.body))
}
