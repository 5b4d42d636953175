//! Reads what a parser asks for, and nothing after it.

use std::io;

use tokio::io::{AsyncRead, AsyncReadExt as _};

use crate::target::{Malformed, Parsed};

/// Reads a value; the parser bounds its length.
pub(crate) async fn read<T>(
    from: &mut (impl AsyncRead + Unpin),
    parse: impl Fn(&[u8]) -> Result<Parsed<T>, Malformed>,
) -> io::Result<Result<T, Malformed>> {
    let mut bytes = Vec::new();
    loop {
        match parse(&bytes) {
            Ok(Parsed::Done(value)) => return Ok(Ok(value)),
            Ok(Parsed::Needs(more)) => {
                let given = bytes.len();
                bytes.resize(more, 0);
                from.read_exact(&mut bytes[given..]).await?;
            }
            Err(malformed) => return Ok(Err(malformed)),
        }
    }
}
