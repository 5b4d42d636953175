//! The process that converts one picture: from standard input to standard output.

use std::io::{self, Read as _, Write as _};

use crate::{MOST_BYTES, Unchanged, convert};

/// Set for the process.
pub(crate) const HELPER: &str = "ANABRANCH_PICTURE";

/// The first byte of the answer: a picture follows, or a text.
pub(crate) const CONVERTED: u8 = 0;
pub(crate) const UNCHANGED: u8 = 1;
pub(crate) const NOT_ISOLATED: u8 = 2;

/// Converts a picture if a [`Converter`](crate::Converter) has started this process for that, and returns its exit code.
/// Returns `None` in all other processes. A program with a converter must call this first, while it has one thread and
/// before it reads its arguments.
pub fn helper() -> Option<u8> {
    std::env::var_os(HELPER)?;
    Some(u8::from(answer().is_err()))
}

fn answer() -> io::Result<()> {
    let (status, bytes) = match isolate() {
        Ok(()) => match convert(&input()?) {
            Ok(picture) => (CONVERTED, picture),
            Err(Unchanged(reason)) => (UNCHANGED, reason.into()),
        },
        Err(reason) => (NOT_ISOLATED, reason.into_bytes()),
    };
    let mut out = io::stdout().lock();
    out.write_all(&[status])?;
    out.write_all(&bytes)?;
    out.flush()
}

fn input() -> io::Result<Vec<u8>> {
    let mut picture = Vec::new();
    let limit = u64::try_from(MOST_BYTES).unwrap_or(u64::MAX);
    io::stdin().lock().take(limit).read_to_end(&mut picture)?;
    Ok(picture)
}

#[cfg(target_os = "linux")]
fn isolate() -> Result<(), String> {
    crate::sandbox::enter()
}

#[cfg(not(target_os = "linux"))]
fn isolate() -> Result<(), String> {
    Err("that needs Linux".to_owned())
}
