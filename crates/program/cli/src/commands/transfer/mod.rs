//! `anabranch send` and `anabranch receive`.

pub(crate) mod receive;
pub(crate) mod send;

use anabranch_transfer::Digest;

/// The SCTP port of a sender. Users see the UDP port only.
const PORT: u16 = 9081;

/// Most files that are listed in text; JSON has all.
const SHOWN: usize = 32;

/// The files with their digests, as `sha256sum` prints them.
fn digests<'a>(files: impl ExactSizeIterator<Item = (String, &'a Digest)>) -> String {
    let more = files.len().saturating_sub(SHOWN);
    let mut text = String::new();
    for (name, digest) in files.take(SHOWN) {
        text.push_str(&format!("{digest}  {name}\n"));
    }
    if more > 0 {
        text.push_str(&format!("and {}\n", crate::output::count(more as u64, "more file")));
    }
    text
}
