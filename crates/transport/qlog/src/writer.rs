//! The log file: a sequence of JSON texts (RFC 7464) that begins with the header.

use std::fmt;
use std::io::{self, Write};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anabranch_proto::Instant;

use crate::entry::Entry;
use crate::json::Object;
use crate::observer::Sink;

/// The character before each JSON text.
const RECORD_SEPARATOR: char = '\u{1e}';

/// Which end of associations is logged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum VantagePoint {
    /// The side that initiates.
    Client,
    /// The side that accepts.
    Server,
    /// Either side.
    #[default]
    Unknown,
}

impl fmt::Display for VantagePoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Client => "client",
            Self::Server => "server",
            Self::Unknown => "unknown",
        })
    }
}

/// The header of a log.
#[derive(Clone, Debug)]
pub struct Header {
    /// Helps to tell logs apart; may be empty.
    pub title: String,
    /// Which end is logged.
    pub vantage_point: VantagePoint,
    /// The time of day at the given instant, which is the origin of event times.
    pub reference: (SystemTime, Instant),
}

impl Header {
    fn write(&self, out: &mut String) {
        let since_1970 = self.reference.0.duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
        let mut header = Object::begin(out);
        header.text("qlog_version", "0.3");
        header.text("qlog_format", "JSON-SEQ");
        header.text("title", &self.title);
        header.object("trace", |trace| {
            trace.object("vantage_point", |point| {
                point.text("name", concat!("anabranch ", env!("CARGO_PKG_VERSION")));
                point.text("type", self.vantage_point);
            });
            trace.object("common_fields", |fields| {
                fields.list("protocol_type", ["SCTP"], |out, name| {
                    out.push_str(&format!("\"{name}\""));
                });
                fields.text("time_format", "relative");
                fields.millis("reference_time", since_1970.as_nanos());
            });
        });
        header.end();
    }
}

/// Writes a log synchronously.
#[derive(Debug)]
pub struct Writer<W> {
    out: W,
    reference: Instant,
    text: String,
    latest: Instant,
    error: Option<io::Error>,
}

impl<W: Write> Writer<W> {
    /// Starts a log. The writer should be buffered.
    ///
    /// # Errors
    /// Fails if the writer does.
    pub fn new(mut out: W, header: &Header) -> io::Result<Self> {
        let mut text = String::from(RECORD_SEPARATOR);
        header.write(&mut text);
        text.push('\n');
        out.write_all(text.as_bytes())?;
        let reference = header.reference.1;
        Ok(Self { out, reference, text, latest: reference, error: None })
    }

    /// The same log, continued on another writer.
    #[cfg(test)]
    pub(crate) fn onto<V: Write>(self, out: V) -> Writer<V> {
        let Self { reference, text, latest, error, .. } = self;
        Writer { out, reference, text, latest, error }
    }

    /// Writes an event. After an error, does nothing.
    pub fn put(&mut self, entry: &Entry) {
        self.latest = self.latest.max(entry.time);
        let reference = self.reference;
        self.record(|text| entry.write(text, reference));
    }

    /// Records that `records` events are missing here.
    pub(crate) fn left_out(&mut self, records: u64) {
        let time = self.latest.saturating_since(self.reference);
        self.own("anabranch:records_left_out", time, |data| data.plain("records", records));
    }

    /// Writes buffered events.
    pub(crate) fn flush(&mut self) {
        if self.error.is_none() {
            self.error = self.out.flush().err();
        }
    }

    /// The writer's first error.
    pub(crate) fn error(&self) -> Option<&io::Error> {
        self.error.as_ref()
    }

    /// Ends the log with a mark that tells readers that it is complete.
    ///
    /// # Errors
    /// Returns the writer's first error. Nothing was written after it.
    pub fn finish(mut self) -> io::Result<W> {
        let time = self.latest.saturating_since(self.reference);
        self.own("anabranch:log_ended", time, |_| {});
        self.flush();
        match self.error {
            Some(error) => Err(error),
            None => Ok(self.out),
        }
    }

    /// Writes an event that does not belong to an association.
    fn own(&mut self, name: &str, time: Duration, write: impl FnOnce(&mut Object<'_>)) {
        self.record(|text| {
            let mut event = Object::begin(text);
            event.millis("time", time.as_nanos());
            event.text("name", name);
            event.object("data", write);
            event.end();
        });
    }

    fn record(&mut self, write: impl FnOnce(&mut String)) {
        if self.error.is_some() {
            return;
        }
        self.text.clear();
        self.text.push(RECORD_SEPARATOR);
        write(&mut self.text);
        self.text.push('\n');
        self.error = self.out.write_all(self.text.as_bytes()).err();
    }
}

/// A writer that is shared with an observer, so that it can be finished afterwards.
impl<W: Write + Send + fmt::Debug> Sink for Arc<Mutex<Option<Writer<W>>>> {
    fn put(&mut self, entry: Entry) {
        if let Some(writer) = self.lock().unwrap_or_else(PoisonError::into_inner).as_mut() {
            writer.put(&entry);
        }
    }
}
