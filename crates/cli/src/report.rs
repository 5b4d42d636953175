//! What went where, as a table and as JSON.

use std::net::IpAddr;

use anabranch_http::StreamTotals;
use serde::{Deserialize, Serialize};

use crate::options::Transport;
use crate::output::{grouped, table};

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
    pub(crate) bytes: Option<u64>,
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
    /// The report for people.
    pub(crate) fn summary(&self) -> String {
        let fetched = self.files.iter().filter(|file| file.error.is_none()).count();
        let mut text = format!(
            "{fetched} of {} files, {} bytes in {:.2} s ({:.1} Mb/s)\n",
            self.files.len(),
            grouped(self.bytes),
            self.seconds,
            megabits(self.bytes, self.seconds),
        );
        for connection in self.connections.iter().filter(|c| !c.traffic.paths.is_empty()) {
            text.push_str(&format!(
                "{} over {}, longest pause {:.3} s\n",
                connection.authority, connection.transport, connection.longest_pause_seconds
            ));
            text.push_str(&connection.traffic.tables());
        }
        text
    }
}

impl Traffic {
    /// Tables of paths and of streams.
    pub(crate) fn tables(&self) -> String {
        let sctp = self.paths.iter().any(|path| path.sctp.is_some());
        let mut heading = vec!["path", "state", "bytes in", "bytes out"];
        if sctp {
            heading.extend(["packets in", "packets out", "retransmitted", "srtt", "mtu"]);
        }
        let mut rows = vec![heading.into_iter().map(str::to_owned).collect()];
        rows.extend(self.paths.iter().map(PathReport::row));
        let mut text = table(&rows);

        if !self.streams.is_empty() {
            let heading = ["stream", "transactions", "bytes in", "bytes out"].map(str::to_owned);
            let mut rows = vec![heading.to_vec()];
            rows.extend(self.streams.iter().take(SHOWN).map(StreamReport::row));
            text.push_str(&table(&rows));
        }
        if let Some(more) = self.streams.len().checked_sub(SHOWN).filter(|&more| more > 0) {
            text.push_str(&format!("  and {more} streams more\n"));
        }
        let unverified: Vec<_> = self.paths.iter().filter_map(PathReport::unverified).collect();
        if !unverified.is_empty() {
            text.push_str(&format!("  not verified: {}\n", unverified.join(", ")));
        }
        for event in &self.events {
            text.push_str(&format!("  at {:.3} s: {}\n", event.seconds, event.event));
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

    fn row(&self) -> Vec<String> {
        let primary = if self.primary { ", primary" } else { "" };
        let mut row = vec![
            format!("{} -> {}", self.local, self.remote),
            format!("{}{primary}", self.state),
            grouped(self.bytes_received),
            grouped(self.bytes_sent),
        ];
        if let Some(sctp) = &self.sctp {
            let srtt = sctp.srtt_seconds.map_or("-".to_owned(), |s| format!("{:.2} ms", s * 1e3));
            row.extend([
                grouped(sctp.packets_received),
                grouped(sctp.packets_sent),
                grouped(sctp.retransmitted_chunks),
                srtt,
                sctp.mtu.to_string(),
            ]);
        }
        row
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
        let event = PathEvent { seconds: 1.5, event: "127.0.0.2 is inactive".into() };
        let traffic = Traffic {
            paths: vec![path],
            streams: (0..40).map(stream).collect(),
            events: vec![event],
        };
        let text = traffic.tables();
        assert!(text.contains("127.0.0.1 -> 127.0.0.2  active, primary     2,000         30\n"));
        assert!(text.contains("  and 8 streams more\n"), "{text}");
        assert!(text.contains("  at 1.500 s: 127.0.0.2 is inactive\n"), "{text}");
        assert!(!text.contains("not verified"), "{text}");
        assert_eq!(traffic.totals(), (2000, 30));
        let json = serde_json::to_value(&traffic).unwrap();
        assert_eq!(json["streams"].as_array().unwrap().len(), 40);
        assert_eq!(json["paths"][0]["remote"], "127.0.0.2");
    }
}
