//! Captures of both sides, with comments on the fates of packets.

use std::io::{self, BufWriter, Write};
use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

use anabranch_impair::Record;

use super::fates::{by, effects};
use super::ways::Way;
use crate::Error;

/// A capture that is being written. Its interfaces are the ends of links at hosts.
pub struct Capture {
    path: PathBuf,
    out: BufWriter<Box<dyn Write + Send>>,
    block: Vec<u8>,
    /// Start of the run in nanoseconds since 1970.
    begun: u64,
    failed: Option<io::Error>,
}

impl Capture {
    /// Writes to `out`; `path` is its name in errors. `interfaces` are those of the network.
    pub fn new(out: Box<dyn Write + Send>, path: PathBuf, interfaces: &[String]) -> Self {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let begun = u64::try_from(since.as_nanos()).unwrap_or(u64::MAX);
        let out = BufWriter::with_capacity(1 << 18, out);
        let block = Vec::new();
        let mut capture = Self { path, out, block, begun, failed: None };
        anabranch_pcapng::section_header(&mut capture.block);
        for name in interfaces {
            anabranch_pcapng::interface_description(&mut capture.block, name);
        }
        capture.put();
        capture
    }

    fn put(&mut self) {
        if self.failed.is_none()
            && let Err(error) = self.out.write_all(&self.block)
        {
            self.failed = Some(error);
        }
        self.block.clear();
    }

    pub(super) fn packet(&mut self, interface: usize, now: u64, bytes: &[u8], comment: &str) {
        let time = self.begun.saturating_add(now);
        let interface = u32::try_from(interface).unwrap_or(u32::MAX);
        anabranch_pcapng::raw_packet(&mut self.block, interface, time, bytes, comment);
        self.put();
    }

    pub(super) fn finish(mut self) -> Result<(), Error> {
        let ended = match self.failed {
            Some(error) => Err(error),
            None => self.out.flush(),
        };
        ended.map_err(|error| Error::Incomplete { what: "capture", file: self.path, error })
    }
}

/// The comment on a packet.
pub(super) fn comment(way: &Way, record: &Record) -> String {
    let mut text = format!(
        "{} packet {}, flow index {}: {} by {}",
        way.short,
        record.number,
        record.index,
        record.fate.name(),
        by(way, record.cause)
    );
    let effects = effects(record);
    if effects != "-" {
        text.push_str(", ");
        text.push_str(&effects);
    }
    if let Some(left) = record.left {
        let ms = left.saturating_sub(record.entered) as f64 / 1e6;
        text.push_str(&format!(", {ms:.3} ms on the link"));
    }
    text
}
