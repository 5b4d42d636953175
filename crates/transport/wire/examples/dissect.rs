//! Prints an SCTP packet from hexadecimal digits.
//!
//! ```text
//! $ cargo run -p anabranch-wire --example dissect -- 138926ab1a2b3c4d000000000b000004
//! 5001 > 9899 tag 0x1a2b3c4d: COOKIE ACK
//! checksum 0x00000000 is wrong
//! ```

use std::process::ExitCode;

use anabranch_wire::Packet;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments.is_empty() {
        eprintln!("usage: dissect <packet in hexadecimal, from the SCTP common header>");
        return ExitCode::from(2);
    }
    match bytes(&arguments.concat()).and_then(|bytes| dissect(&bytes)) {
        Ok(text) => {
            println!("{text}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::from(2)
        }
    }
}

/// Parses hexadecimal digits; ignores spaces, colons and a leading `0x`.
fn bytes(text: &str) -> Result<Vec<u8>, String> {
    let text = text.strip_prefix("0x").unwrap_or(text);
    let digits: Vec<u32> = text
        .chars()
        .filter(|c| !c.is_whitespace() && *c != ':')
        .map(|c| c.to_digit(16).ok_or_else(|| format!("{c:?} is not a hexadecimal digit")))
        .collect::<Result<_, _>>()?;
    if !digits.len().is_multiple_of(2) {
        return Err(format!("{} hexadecimal digits are not whole bytes", digits.len()));
    }
    Ok(digits
        .chunks(2)
        .map(|pair| pair.iter().fold(0, |byte, digit| byte << 4 | *digit as u8))
        .collect())
}

fn dissect(bytes: &[u8]) -> Result<String, String> {
    let packet = Packet::parse(bytes).map_err(|error| error.to_string())?;
    let verdict = if packet.checksum_ok() { "is right" } else { "is wrong" };
    if packet.chunks().any(|chunk| chunk.is_err()) {
        return Err(packet.to_string());
    }
    Ok(format!("{packet}\nchecksum 0x{:08x} {verdict}", packet.checksum()))
}
