//! HTTP servers and clients for measurements: this project's, and HTTP/3 with h3 over quinn.

pub mod ask;
pub mod http3;
pub mod ours;

use std::io::Write as _;

use crate::Result;

/// Reports the listening port to the parent process.
///
/// # Errors
/// Fails if the parent does not read it.
pub fn listening(port: u16) -> Result<()> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "listening {port}")?;
    Ok(out.flush()?)
}
