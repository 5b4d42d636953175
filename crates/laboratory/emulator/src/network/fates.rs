//! The log of the fate of each packet.

use std::fmt::Write as _;
use std::io::{self, BufWriter, Write};
use std::path::PathBuf;

use anabranch_impair::{Cause, Record};
use serde::Serialize;

use super::ways::Way;
use crate::Error;

/// First line of a compact log.
pub(super) const HEAD: &str = "# anabranch fates 1";

/// The format of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// A line of words for each packet.
    Compact,
    /// A JSON document for each packet.
    Json,
}

/// A log that is being written.
pub struct FateLog {
    path: PathBuf,
    out: BufWriter<Box<dyn Write + Send>>,
    form: Form,
    line: String,
    failed: Option<io::Error>,
}

#[derive(Serialize)]
struct Document<'a> {
    link: &'a str,
    from: &'a str,
    to: &'a str,
    packet: u64,
    flow: String,
    index: u64,
    in_ns: u64,
    out_ns: Option<u64>,
    size: usize,
    fate: &'static str,
    by: &'a str,
    effects: &'a str,
    place: &'a str,
}

impl FateLog {
    /// Writes to `out`; `path` is its name in errors. `ways` and the seed are those of the network.
    pub fn new(
        out: Box<dyn Write + Send>,
        path: PathBuf,
        form: Form,
        ways: &[Way],
        seed: u64,
    ) -> Self {
        let out = BufWriter::with_capacity(1 << 18, out);
        let mut log = Self { path, out, form, line: String::new(), failed: None };
        if form == Form::Compact {
            let mut head = format!("{HEAD}\n# seed {seed}\n");
            for way in ways {
                let _ =
                    writeln!(head, "# {} is {}: {} to {}", way.short, way.link, way.from, way.to);
            }
            head.push_str("# way packet flow index in_ns out_ns size fate by effects place\n");
            log.put(&head);
        }
        log
    }

    fn put(&mut self, text: &str) {
        if self.failed.is_none()
            && let Err(error) = self.out.write_all(text.as_bytes())
        {
            // The run continues; the error is reported at its end.
            self.failed = Some(error);
        }
    }

    pub(super) fn packet(&mut self, way: &Way, record: &Record) {
        let mut line = std::mem::take(&mut self.line);
        line.clear();
        let by = by(way, record.cause);
        let effects = effects(record);
        let place = place(record);
        match self.form {
            Form::Compact => {
                let out = record.left.map_or("-".to_owned(), |left| left.to_string());
                let _ = writeln!(
                    line,
                    "{} {} {} {} {} {out} {} {} {by} {effects} {place}",
                    way.short,
                    record.number,
                    record.flow,
                    record.index,
                    record.entered,
                    record.size,
                    record.fate.name(),
                );
            }
            Form::Json => {
                let document = Document {
                    link: &way.link,
                    from: &way.from,
                    to: &way.to,
                    packet: record.number,
                    flow: record.flow.to_string(),
                    index: record.index,
                    in_ns: record.entered,
                    out_ns: record.left,
                    size: record.size,
                    fate: record.fate.name(),
                    by: &by,
                    effects: &effects,
                    place: &place,
                };
                line.push_str(&serde_json::to_string(&document).unwrap_or_default());
                line.push('\n');
            }
        }
        self.put(&line);
        self.line = line;
    }

    /// Writes the rest, with a last line on the precision of the run.
    pub(super) fn finish(mut self, precision: &str) -> Result<(), Error> {
        if self.form == Form::Compact {
            self.put(&format!("# {precision}\n# end\n"));
        }
        let ended = match self.failed {
            Some(error) => Err(error),
            None => self.out.flush(),
        };
        ended.map_err(|error| Error::Incomplete { what: "log", file: self.path, error })
    }
}

/// The cause of a fate, as one word.
pub(super) fn by(way: &Way, cause: Cause) -> String {
    match cause {
        Cause::Pattern(index) => {
            format!("pattern:{}", way.patterns.get(index).map_or("?", String::as_str))
        }
        other => other.to_string(),
    }
}

/// The place of a packet among those that a pattern's filter selects: the number of the pattern, from 1, and the place;
/// `-` if none selected it.
pub(super) fn place(record: &Record) -> String {
    record.place.map_or("-".to_owned(), |(pattern, place)| format!("{}:{place}", pattern + 1))
}

/// Other effects on a packet, as one word; `-` if there are none. Lateness depends on when other packets came, so it is
/// last.
pub(super) fn effects(record: &Record) -> String {
    let effects = &record.effects;
    let mut words = Vec::new();
    if effects.corrupted {
        words.push("corrupted".to_owned());
    }
    if effects.copies > 0 {
        words.push(format!("copies={}", effects.copies));
    }
    if effects.displaced > 0 {
        words.push(format!("displaced={}", effects.displaced));
    }
    if let Some(delay) = effects.delay {
        words.push(format!("delay={delay}"));
    }
    if effects.reordered {
        words.push("late".to_owned());
    }
    if words.is_empty() { "-".to_owned() } else { words.join(",") }
}
