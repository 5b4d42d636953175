//! Reads events from a file: a sequence of JSON texts, up to its end or the first damage.

use std::collections::BTreeMap;
use std::io::{BufRead, Read as _};

use serde::Deserialize;

/// The byte before each JSON text (RFC 7464).
const RECORD_SEPARATOR: u8 = 0x1e;

/// Maximum size of a JSON text in bytes; a packet of 64 KiB full of small chunks needs less.
const LONGEST: u64 = 4 << 20;

/// The first record.
#[derive(Debug, Deserialize)]
pub struct Header {
    /// `JSON-SEQ`.
    pub qlog_format: String,
    /// A title for people.
    #[serde(default)]
    pub title: String,
    /// The properties that all events share.
    pub trace: Trace,
}

/// The properties that all events share.
#[derive(Debug, Deserialize)]
pub struct Trace {
    /// Where the log was written.
    pub vantage_point: VantagePoint,
    /// Fields of every event.
    pub common_fields: CommonFields,
}

/// Where the log was written.
#[derive(Debug, Deserialize)]
pub struct VantagePoint {
    /// Its name.
    #[serde(default)]
    pub name: String,
    /// `client`, `server` and so on.
    #[serde(rename = "type")]
    pub kind: String,
}

/// Fields of every event.
#[derive(Debug, Deserialize)]
pub struct CommonFields {
    /// The protocols; SCTP is one of them.
    #[serde(default)]
    pub protocol_type: Vec<String>,
    /// Milliseconds since 1970.
    #[serde(default)]
    pub reference_time: f64,
}

/// Any other record.
#[derive(Debug, Deserialize)]
pub struct Event {
    /// Milliseconds since the reference time.
    pub time: f64,
    /// The event with its category: `recovery:packet_lost`.
    pub name: String,
    /// The association; empty for events about the log.
    #[serde(default)]
    pub group_id: String,
    /// The event's values.
    #[serde(default)]
    pub data: Data,
}

/// The possible values of events; docs/qlog.md has the units.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
#[expect(missing_docs, reason = "docs/qlog.md and its schema describe the values")]
pub struct Data {
    pub path_id: Option<u16>,
    pub primary_path_id: Option<u16>,
    pub initiator: Option<String>,
    pub local_port: Option<u16>,
    pub remote_port: Option<u16>,
    pub local_address: Option<String>,
    pub remote_address: Option<String>,
    pub old: Option<String>,
    pub new: Option<String>,
    pub congestion_window: Option<f64>,
    pub ssthresh: Option<f64>,
    pub bytes_in_flight: Option<f64>,
    pub smoothed_rtt: Option<f64>,
    pub rtt_variance: Option<f64>,
    pub min_rtt: Option<f64>,
    pub rto: Option<f64>,
    pub peer_rwnd: Option<f64>,
    pub trigger: Option<String>,
    pub tsn: Option<u32>,
    pub length: Option<u64>,
    pub chunks: Vec<Chunk>,
    pub reason: Option<String>,
    pub counters: BTreeMap<String, f64>,
    pub records: Option<u64>,
}

/// A chunk of a packet.
#[derive(Debug, Deserialize)]
#[expect(missing_docs, reason = "docs/qlog.md and its schema describe the values")]
pub struct Chunk {
    pub chunk_type: String,
    pub tsn: Option<u32>,
    pub stream_id: Option<u16>,
    pub payload_length: Option<u64>,
    pub cumulative_tsn: Option<u32>,
    #[serde(default)]
    pub gaps: Vec<(u32, u32)>,
}

/// How reading a log ended.
#[derive(Debug, PartialEq, Eq)]
pub enum Ended {
    /// At the end of a complete log.
    Whole,
    /// Before the end; the message says where.
    Early(String),
}

/// Reads a log sequentially.
#[derive(Debug)]
pub struct Reader<R> {
    input: R,
    record: Vec<u8>,
    /// Number of records read.
    count: u64,
}

impl<R: BufRead> Reader<R> {
    /// Reads the header.
    ///
    /// # Errors
    /// Returns a message if the file is not a log.
    pub fn new(input: R) -> Result<(Self, Header), String> {
        let mut reader = Self { input, record: Vec::new(), count: 0 };
        let no_log = |why: String| format!("it is not a log of events (qlog in JSON-SEQ): {why}");
        let first = reader.next_byte().map_err(|error| format!("it cannot be read: {error}"))?;
        match first {
            Some(RECORD_SEPARATOR) => {}
            Some(b'{') => return Err(no_log("it is one JSON text and no sequence".to_owned())),
            Some(_) => return Err(no_log("it does not begin with a record separator".to_owned())),
            None => return Err(no_log("it is empty".to_owned())),
        }
        reader.read_record().map_err(no_log)?;
        let header: Header = serde_json::from_slice(&reader.record)
            .map_err(|error| no_log(format!("its header: {error}")))?;
        if header.qlog_format != "JSON-SEQ" {
            return Err(no_log(format!("its format is '{}'", header.qlog_format)));
        }
        if !header.trace.common_fields.protocol_type.iter().any(|name| name == "SCTP") {
            return Err("it is a log, but not of SCTP".to_owned());
        }
        Ok((reader, header))
    }

    fn next_byte(&mut self) -> std::io::Result<Option<u8>> {
        let byte = self.input.fill_buf()?.first().copied();
        self.input.consume(usize::from(byte.is_some()));
        Ok(byte)
    }

    /// Reads up to the next record separator or the end, without the separator.
    fn read_record(&mut self) -> Result<(), String> {
        self.record.clear();
        let mut limited = (&mut self.input).take(LONGEST);
        let read = limited.read_until(RECORD_SEPARATOR, &mut self.record);
        read.map_err(|error| error.to_string())?;
        self.count += 1;
        let ended = self.record.pop_if(|last| *last == RECORD_SEPARATOR).is_some();
        if !ended && self.record.len() as u64 == LONGEST {
            return Err(format!("record {} is longer than 4 MiB", self.count));
        }
        Ok(())
    }

    /// Passes all events to `take`.
    pub fn read(mut self, mut take: impl FnMut(&Event)) -> Ended {
        loop {
            match self.input.fill_buf() {
                Ok([]) => {
                    return Ended::Early(format!(
                        "the log has no end after {} records: whoever wrote it was stopped, or is not done",
                        self.count
                    ));
                }
                Ok(_) => {}
                Err(error) => return Ended::Early(error.to_string()),
            }
            if let Err(reason) = self.read_record() {
                return Ended::Early(reason);
            }
            match serde_json::from_slice::<Event>(&self.record) {
                Ok(event) if event.name == "anabranch:log_ended" => return Ended::Whole,
                Ok(event) => take(&event),
                Err(error) => {
                    return Ended::Early(format!(
                        "record {} is damaged or cut off, and the log is read up to there: {error}",
                        self.count
                    ));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: &str = r#"{"qlog_format":"JSON-SEQ","trace":{"vantage_point":{"type":"client"},"common_fields":{"protocol_type":["SCTP"]}}}"#;
    const EVENT: &str = r#"{"time":1.5,"name":"a:b","data":{"path_id":3}}"#;
    const END: &str = r#"{"time":2,"name":"anabranch:log_ended","data":{}}"#;

    fn file(records: &[&str]) -> String {
        records.iter().map(|record| format!("\u{1e}{record}\n")).collect()
    }

    /// Reads a file. Returns the number of events, and how reading ended.
    fn read(text: &[u8]) -> Result<(usize, Ended), String> {
        let (reader, _) = Reader::new(text)?;
        let mut count = 0;
        let ended = reader.read(|event| {
            assert_eq!((event.time, event.data.path_id), (1.5, Some(3)));
            count += 1;
        });
        Ok((count, ended))
    }

    #[test]
    fn a_whole_log() {
        let text = file(&[HEADER, EVENT, EVENT, END]);
        assert_eq!(read(text.as_bytes()), Ok((2, Ended::Whole)));
    }

    #[test]
    fn a_log_that_is_cut_anywhere_is_read_up_to_there() {
        let text = file(&[HEADER, EVENT, EVENT, END]);
        let header = HEADER.len() + 2;
        for cut in 0..text.len() - 2 {
            match read(&text.as_bytes()[..cut]) {
                Ok((count, Ended::Early(why))) => {
                    assert!(cut >= header - 1, "{cut}");
                    // A missing line end loses nothing.
                    let whole = (cut + 1 - header) / (EVENT.len() + 2);
                    assert_eq!(count, whole.min(2), "{cut}: {why}");
                }
                Ok((_, Ended::Whole)) => panic!("{cut} bytes are not all of it"),
                Err(why) => assert!(cut < header && why.contains("not a log of events"), "{why}"),
            }
        }
    }

    #[test]
    fn what_is_no_log_is_told() {
        let other = HEADER.replace("SCTP", "QUIC");
        for (text, why) in [
            (String::new(), "it is empty"),
            ("{}".to_owned(), "no sequence"),
            ("hello".to_owned(), "record separator"),
            (file(&["[]"]), "its header"),
            (file(&["{}"]), "missing field"),
            (file(&[&HEADER.replace("-SEQ", "")]), "its format is 'JSON'"),
            (file(&[&other]), "not of SCTP"),
        ] {
            let reason = read(text.as_bytes()).unwrap_err();
            assert!(reason.contains(why), "{text}: {reason}");
        }
    }

    #[test]
    fn a_record_without_end_takes_no_memory_without_end() {
        let text = format!("{}\u{1e}\"{}", file(&[HEADER]), "x".repeat(5 << 20));
        let (count, ended) = read(text.as_bytes()).unwrap();
        assert_eq!((count, ended), (0, Ended::Early("record 2 is longer than 4 MiB".to_owned())));
    }
}
