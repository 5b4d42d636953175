//! What went where, as a table and as JSON.

use std::net::IpAddr;

use anabranch_http::StreamTotals;
use serde::{Deserialize, Serialize};

use crate::options::Transport;
use crate::output::{count, grouped, table};

/// Streams shown in a table; a report in JSON has all of them.
const SHOWN: usize = 32;

/// One path: a pair of addresses.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct PathReport {
    pub(crate) local: IpAddr,
    pub(crate) remote: IpAddr,
    /// `unconfirmed`, `active`, `potentially-failed` or `inactive`; TCP knows `active` only.
    pub(crate) state: String,
    /// New data goes here.
    pub(crate) primary: bool,
    /// SCTP: bytes of packets, from the common header on. TCP: bytes of the streams.
    pub(crate) bytes_received: u64,
    pub(crate) bytes_sent: u64,
    /// What only SCTP tells.
    #[serde(flatten)]
    pub(crate) sctp: Option<SctpPath>,
}

/// What SCTP knows about a path.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct SctpPath {
    pub(crate) packets_received: u64,
    pub(crate) packets_sent: u64,
    pub(crate) data_bytes_received: u64,
    pub(crate) data_bytes_sent: u64,
    pub(crate) data_packets_sent: u64,
    pub(crate) data_chunks_sent: u64,
    pub(crate) retransmitted_chunks: u64,
    pub(crate) t3_timeouts: u64,
    /// Second, third, fourth and fifth expiries in a row.
    pub(crate) timeout_runs: [u16; 4],
    /// Errors in a row now.
    pub(crate) error_count: u32,
    /// Estimated share of packets lost on the way to the peer.
    pub(crate) loss: Option<f64>,
    pub(crate) srtt_seconds: Option<f64>,
    pub(crate) rto_seconds: f64,
    pub(crate) cwnd: usize,
    pub(crate) mtu: u16,
    /// Why nobody knows whether the path leads to the peer; `None` once the peer has answered on it.
    #[serde(default)]
    pub(crate) unverified: Option<String>,
}

/// One stream.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct StreamReport {
    pub(crate) id: u16,
    pub(crate) transactions: u64,
    pub(crate) bytes_received: u64,
    pub(crate) bytes_sent: u64,
}

impl From<StreamTotals> for StreamReport {
    fn from(totals: StreamTotals) -> Self {
        Self {
            id: totals.id,
            transactions: totals.transactions,
            bytes_received: totals.bytes_received,
            bytes_sent: totals.bytes_sent,
        }
    }
}

/// Something that happened to a path.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct PathEvent {
    /// Since the connection was set up.
    pub(crate) seconds: f64,
    pub(crate) event: String,
    /// It belongs to every association: a path was verified. People are not told.
    #[serde(skip)]
    pub(crate) ordinary: bool,
}

/// What went over one connection.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct Traffic {
    pub(crate) paths: Vec<PathReport>,
    pub(crate) streams: Vec<StreamReport>,
    pub(crate) events: Vec<PathEvent>,
}

/// A connection of `get`.
#[derive(Debug, Serialize)]
pub(crate) struct ConnectionReport {
    pub(crate) transport: Transport,
    pub(crate) authority: String,
    /// Why there was no connection, or how it broke.
    pub(crate) error: Option<String>,
    /// From the beginning of the handshake to the last byte.
    pub(crate) seconds: f64,
    /// Longest time without a byte while an answer was under way.
    pub(crate) longest_pause_seconds: f64,
    #[serde(flatten)]
    pub(crate) traffic: Traffic,
}

/// A file of `get`.
#[derive(Debug, Serialize)]
pub(crate) struct FileReport {
    pub(crate) url: String,
    pub(crate) file: String,
    pub(crate) stream: Option<u16>,
    /// Bytes that came, beside those that an earlier fetch had left behind.
    pub(crate) bytes: Option<u64>,
    pub(crate) resumed_bytes: u64,
    /// From the beginning of the answer to the file's end.
    pub(crate) seconds: Option<f64>,
    pub(crate) error: Option<String>,
}

/// All that `get` did.
#[derive(Debug, Serialize)]
pub(crate) struct GetReport {
    pub(crate) bytes: u64,
    pub(crate) seconds: f64,
    pub(crate) files: Vec<FileReport>,
    pub(crate) connections: Vec<ConnectionReport>,
}

impl GetReport {
    /// The report for people; nothing if there was no connection at all.
    pub(crate) fn summary(&self, paths: bool) -> String {
        let mut connections = self.connections.iter().filter(|c| !c.traffic.paths.is_empty());
        let Some(first) = connections.next() else { return String::new() };
        let fetched = self.files.iter().filter(|file| file.error.is_none()).count();
        let of = match self.files.len() {
            files if files == fetched => count(files as u64, "file"),
            files => format!("{fetched} of {}", count(files as u64, "file")),
        };
        let mut text = format!(
            "{of}, {} in {:.2} s ({:.1} Mb/s)\n",
            count(self.bytes, "byte"),
            self.seconds,
            megabits(self.bytes, self.seconds),
        );
        let single = self.connections.len() == 1;
        for connection in [first].into_iter().chain(connections) {
            if !single {
                text.push_str(&format!("{}: ", connection.authority));
            }
            text.push_str(&format!(
                "over {}, {}, longest pause {:.3} s\n",
                connection.transport,
                count(connection.traffic.paths.len() as u64, "path"),
                connection.longest_pause_seconds
            ));
            text.push_str(&connection.traffic.text(paths));
        }
        text
    }
}

impl Traffic {
    /// What happened to the paths; with `paths`, or if something did, a table of them; with
    /// `paths`, what went over which stream.
    pub(crate) fn text(&self, paths: bool) -> String {
        let mut text = String::new();
        let events: Vec<_> = self.events.iter().filter(|event| !event.ordinary).collect();
        let unverified: Vec<_> = self.paths.iter().filter_map(PathReport::unverified).collect();
        for path in unverified {
            text.push_str(&format!("  not verified: {path}\n"));
        }
        for event in &events {
            text.push_str(&format!("  at {:.3} s: {}\n", event.seconds, event.event));
        }
        if paths || !events.is_empty() {
            text.push_str(&self.table_of_paths());
        }
        if paths && !self.streams.is_empty() {
            text.push_str(&self.table_of_streams());
        }
        text
    }

    fn table_of_paths(&self) -> String {
        let sctp = self.paths.iter().any(|path| path.sctp.is_some());
        let (received, sent) = self.totals();
        // Acknowledgements alone are no direction of their own.
        let shown = [received >= sent / 16, sent >= received / 16, sctp, sctp];
        let heading = ["bytes in", "bytes out", "resent", "rtt"];
        let pick = |cells: [String; 4]| cells.into_iter().zip(shown).filter(|(_, show)| *show);
        let mut rows = vec![["path", "state"].map(str::to_owned).to_vec()];
        rows[0].extend(pick(heading.map(str::to_owned)).map(|(cell, _)| cell));
        rows.extend(self.paths.iter().map(|path| {
            let mut row = vec![format!("{} -> {}", path.local, path.remote), path.short_state()];
            row.extend(pick(path.figures()).map(|(cell, _)| cell));
            row
        }));
        table(&rows)
    }

    fn table_of_streams(&self) -> String {
        let heading = ["stream", "transactions", "bytes in", "bytes out"].map(str::to_owned);
        let mut rows = vec![heading.to_vec()];
        rows.extend(self.streams.iter().take(SHOWN).map(StreamReport::row));
        let mut text = table(&rows);
        if let Some(more) = self.streams.len().checked_sub(SHOWN).filter(|&more| more > 0) {
            text.push_str(&format!("  and {more} more streams\n"));
        }
        text
    }

    /// The peer's primary address.
    pub(crate) fn peer(&self) -> Option<String> {
        let primary = self.paths.iter().find(|path| path.primary).or(self.paths.first());
        primary.map(|path| path.remote.to_string())
    }

    /// Bytes received and sent on all paths.
    pub(crate) fn totals(&self) -> (u64, u64) {
        self.paths.iter().fold((0, 0), |(received, sent), path| {
            (received + path.bytes_received, sent + path.bytes_sent)
        })
    }
}

impl PathReport {
    /// The path and why it could not be verified.
    fn unverified(&self) -> Option<String> {
        let why = self.sctp.as_ref()?.unverified.as_ref()?;
        Some(format!("{} -> {} ({why})", self.local, self.remote))
    }

    /// The state, in which 'active' goes without saying of the primary path.
    pub(crate) fn short_state(&self) -> String {
        match (self.primary, self.state.as_str()) {
            (true, "active") => "primary".to_owned(),
            (true, state) => format!("{state}, primary"),
            (false, state) => state.to_owned(),
        }
    }

    /// Bytes in and out, what was retransmitted, and the round-trip time.
    fn figures(&self) -> [String; 4] {
        let sctp = self.sctp.as_ref();
        let rtt = sctp.and_then(|sctp| sctp.srtt_seconds);
        [
            grouped(self.bytes_received),
            grouped(self.bytes_sent),
            sctp.map_or(String::new(), |sctp| grouped(sctp.retransmitted_chunks)),
            rtt.map_or("-".to_owned(), |s| format!("{:.2} ms", s * 1e3)),
        ]
    }
}

impl StreamReport {
    fn row(&self) -> Vec<String> {
        vec![
            self.id.to_string(),
            grouped(self.transactions),
            grouped(self.bytes_received),
            grouped(self.bytes_sent),
        ]
    }
}

/// Megabits per second.
pub(crate) fn megabits(bytes: u64, seconds: f64) -> f64 {
    if seconds > 0.0 { bytes as f64 * 8.0 / seconds / 1e6 } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stream(id: u16) -> StreamReport {
        StreamReport { id, transactions: 1, bytes_received: 2000, bytes_sent: 30 }
    }

    #[test]
    fn tables_name_paths_and_streams() {
        let path = PathReport {
            local: [127, 0, 0, 1].into(),
            remote: [127, 0, 0, 2].into(),
            state: "active".into(),
            primary: true,
            bytes_received: 2000,
            bytes_sent: 30,
            sctp: None,
        };
        let event =
            |seconds, event: &str, ordinary| PathEvent { seconds, event: event.into(), ordinary };
        let traffic = Traffic {
            paths: vec![path],
            streams: (0..40).map(stream).collect(),
            events: vec![event(1.5, "127.0.0.2 is inactive", false), event(0.5, "verified", true)],
        };
        let text = traffic.text(true);
        assert!(text.contains("127.0.0.1 -> 127.0.0.2  primary     2,000\n"), "{text}");
        assert!(text.contains("  and 8 more streams\n"), "{text}");
        assert!(!text.contains("verified") && !traffic.text(false).contains("stream"), "{text}");
        assert!(text.contains("  at 1.500 s: 127.0.0.2 is inactive\n"), "{text}");
        assert!(!text.contains("not verified"), "{text}");
        assert_eq!(traffic.totals(), (2000, 30));
        let json = serde_json::to_value(&traffic).unwrap();
        assert_eq!(json["streams"].as_array().unwrap().len(), 40);
        assert_eq!(json["paths"][0]["remote"], "127.0.0.2");
    }
}
