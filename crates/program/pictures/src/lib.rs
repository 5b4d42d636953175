//! Makes JPEG pictures progressive and PNG pictures interlaced, so that a part of the file shows the whole picture.
//!
//! [`convert`] does this without loss: the pixels stay as they are, and the metadata byte for byte. A picture stays
//! unchanged whenever something is in doubt. [`Converter`] does the same in a process of its own that can do nothing else:
//! it has no files, no network and little memory, and when it crashes, nothing else does.
#![forbid(unsafe_code)]

mod converter;
mod helper;
mod jpeg;
mod png;
#[cfg(target_os = "linux")]
mod sandbox;

use std::fmt;

pub use converter::{Converter, ConverterOptions, Room, Statistics};
pub use helper::helper;

/// Most bytes of a picture. Larger ones stay as they are.
pub const MOST_BYTES: usize = 4 << 20;

/// Most pixels of a picture.
pub(crate) const MOST_PIXELS: u64 = 16 << 20;

/// A converted picture may be larger by a tenth, but not by more.
const GROWTH: usize = 10;

/// Why a picture stays as it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unchanged(pub &'static str);

impl fmt::Display for Unchanged {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl std::error::Error for Unchanged {}

/// The form of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Jpeg,
    Png,
}

fn form(picture: &[u8]) -> Result<Form, Unchanged> {
    match () {
        () if jpeg::is_jpeg(picture) => Ok(Form::Jpeg),
        () if png::is_png(picture) => Ok(Form::Png),
        () => Err(Unchanged("it is neither a JPEG nor a PNG")),
    }
}

/// The picture in progressive form, with the same pixels and metadata.
///
/// Takes much memory for large pictures, and decodes what strangers have made: see [`Converter`].
///
/// # Errors
/// The picture should stay as it is.
pub fn convert(picture: &[u8]) -> Result<Vec<u8>, Unchanged> {
    let converted = match form(picture)? {
        Form::Jpeg => jpeg::convert(picture)?,
        Form::Png => png::convert(picture)?,
    };
    check(picture, &converted)?;
    Ok(converted)
}

/// What the fuzz target `pictures` checks: whatever the bytes are, conversion ends, and its result is not converted again.
#[doc(hidden)]
pub fn check_conversion(bytes: &[u8]) {
    if let Ok(converted) = convert(bytes) {
        assert!(convert(&converted).is_err(), "it was converted twice");
    }
}

/// Whether `converted` can be what [`convert`] made of the original: not much larger, of the same size in pixels, in
/// progressive form, with the same metadata. Looks at the outer structure only, so it is cheap and decodes nothing.
///
/// # Errors
/// It cannot.
pub fn check(original: &[u8], converted: &[u8]) -> Result<(), Unchanged> {
    if converted.len() >= longest(original.len()) {
        return Err(Unchanged("it would become larger by a tenth"));
    }
    match (form(original)?, form(converted)?) {
        (Form::Jpeg, Form::Jpeg) => jpeg::check(original, converted),
        (Form::Png, Form::Png) => png::check(original, converted),
        _ => Err(Unchanged("the result is of another form")),
    }
}

/// The length that a converted picture does not reach.
pub(crate) fn longest(original: usize) -> usize {
    original.saturating_add(original / GROWTH)
}
