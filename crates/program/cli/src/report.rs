//! The traffic of connections, as tables and as JSON.

use std::net::IpAddr;

use anabranch::{Notification, PathState, PathStatistics};
use anabranch_http::StreamTotals;
use serde::{Deserialize, Serialize};

use crate::options::Transport;
use crate::output::{count, grouped, table};
use crate::perf::latency::time;

/// Maximum number of streams in a table; JSON has all of them.
const SHOWN: usize = 32;

/// A path: a pair of addresses.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct PathReport {
    /// New data is sent on this path.
    pub(crate) primary: bool,
    #[serde(flatten)]
    pub(crate) figures: Figures,
}

/// The figures of a path, by transport.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(untagged)]
pub(crate) enum Figures {
    Sctp(Box<SctpPath>),
    Tcp(TcpPath),
}

/// The figures of SCTP: everything that the engine reports, under its names.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct SctpPath {
    #[serde(flatten)]
    pub(crate) statistics: PathStatistics,
    /// Why the path is unverified; `None` once the peer has answered on it.
    #[serde(default)]
    pub(crate) unverified: Option<String>,
}

/// The figures of TCP.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct TcpPath {
    pub(crate) local: IpAddr,
    pub(crate) remote: IpAddr,
    /// Always active.
    pub(crate) state: PathState,
    /// Bytes of the streams that were received.
    pub(crate) bytes_received: u64,
    pub(crate) bytes_sent: u64,
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

/// An event of a path.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct PathEvent {
    /// Time since the connection was set up.
    pub(crate) seconds: f64,
    /// An object, with the name of the event as `event`.
    #[serde(flatten)]
    pub(crate) event: serde_json::Value,
    /// The event as text.
    #[serde(skip)]
    pub(crate) text: String,
    /// The event is a normal part of every association, such as its establishment. Text omits it.
    #[serde(skip)]
    pub(crate) ordinary: bool,
}

/// The traffic of one connection.
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
    /// Why there was no connection, or why it broke.
    pub(crate) error: Option<String>,
    /// Time from the start of the handshake to the last byte.
    pub(crate) seconds: f64,
    /// Longest time without data while an answer was in progress.
    pub(crate) longest_pause_seconds: f64,
    #[serde(flatten)]
    pub(crate) traffic: Traffic,
}

/// A file of `get`.
#[derive(Debug, Serialize)]
pub(crate) struct FileReport {
    pub(crate) url: String,
    pub(crate) file: String,
    /// The target of redirects, if there were any.
    pub(crate) redirected_to: Option<String>,
    /// An older file of this name was replaced.
    pub(crate) replaced: bool,
    /// A file of this name exists, and the server's is not newer.
    pub(crate) unchanged: bool,
    pub(crate) stream: Option<u16>,
    /// Bytes received, not counting those of an earlier fetch.
    pub(crate) bytes: Option<u64>,
    pub(crate) resumed_bytes: u64,
    /// Time from the start of the answer to the file's end.
    pub(crate) seconds: Option<f64>,
    pub(crate) error: Option<String>,
}

/// The report of `get`.
#[derive(Debug, Serialize)]
pub(crate) struct GetReport {
    pub(crate) bytes: u64,
    pub(crate) seconds: f64,
    pub(crate) files: Vec<FileReport>,
    pub(crate) connections: Vec<ConnectionReport>,
}

impl PathEvent {
    pub(crate) fn new(seconds: f64, notification: &Notification, ordinary: bool) -> Self {
        // A notification consists of text and numbers only, so this cannot fail.
        let event = serde_json::to_value(notification).unwrap_or_default();
        Self { seconds, event, text: notification.to_string(), ordinary }
    }
}

impl FileReport {
    /// Whether the file was fetched.
    fn came(&self) -> bool {
        self.error.is_none() && !self.unchanged
    }
}

impl GetReport {
    /// Adds the names of the files.
    fn name_files(&self, text: &mut String) {
        let saved = || self.files.iter().filter(|file| file.came() && file.file != "-");
        for file in saved().take(NAMED) {
            let name = file.file.strip_prefix("./").unwrap_or(&file.file).escape_debug();
            let older = if file.replaced { ", in place of an older one" } else { "" };
            text.push_str(&format!("saved as {name}{older}\n"));
            if let Some(to) = &file.redirected_to {
                text.push_str(&format!("  redirected to {to}\n"));
            }
        }
        if let Some(more) = saved().count().checked_sub(NAMED).filter(|more| *more > 0) {
            text.push_str(&format!("and {} more\n", count(more as u64, "file")));
        }
    }

    /// The report as text; empty if there was no connection.
    pub(crate) fn summary(&self, paths: bool) -> String {
        let mut connections = self.connections.iter().filter(|c| !c.traffic.paths.is_empty());
        let Some(first) = connections.next() else { return String::new() };
        let fetched = self.files.iter().filter(|file| file.came()).count();
        let unchanged = self.files.iter().filter(|file| file.unchanged).count();
        let of = match self.files.len() - unchanged {
            files if files == fetched => count(files as u64, "file"),
            files => format!("{fetched} of {}", count(files as u64, "file")),
        };
        let mut text = format!("{of}, {}", count(self.bytes, "byte"));
        if self.bytes > 0 {
            text.push_str(&format!(" in {}", time(self.seconds)));
        }
        // Very short transfers have no meaningful rate.
        if self.bytes >= RATED {
            text.push_str(&format!(" ({:.1} Mb/s)", megabits(self.bytes, self.seconds)));
        }
        text.push('\n');
        if unchanged > 0 {
            let unchanged = count(unchanged as u64, "file");
            text.push_str(&format!("{unchanged} not newer at the server, and left as they are\n"));
        }
        self.name_files(&mut text);
        let single = self.connections.len() == 1;
        for connection in [first].into_iter().chain(connections) {
            if !single {
                text.push_str(&format!("{}: ", connection.authority));
            }
            text.push_str(&format!(
                "over {}, {}, longest pause {}\n",
                connection.transport,
                count(connection.traffic.paths.len() as u64, "path"),
                time(connection.longest_pause_seconds)
            ));
            text.push_str(&connection.traffic.text(paths));
        }
        text
    }
}

impl Traffic {
    /// The events of the paths. Adds a table of the paths if there were events or with `paths`; with
    /// `paths`, also one of the streams.
    pub(crate) fn text(&self, paths: bool) -> String {
        let mut text = String::new();
        let events: Vec<_> = self.events.iter().filter(|event| !event.ordinary).collect();
        let unverified: Vec<_> = self.paths.iter().filter_map(PathReport::unverified).collect();
        for path in unverified {
            text.push_str(&format!("  not verified: {path}\n"));
        }
        for event in &events {
            text.push_str(&format!("  at {:.3} s: {}\n", event.seconds, event.text));
        }
        if paths || !events.is_empty() {
            text.push_str(&self.table_of_paths());
        }
        if paths && !self.streams.is_empty() {
            text.push_str(&self.table_of_streams());
        }
        text
    }

    /// The same over sealed paths. They have numbers, and those without an uplink, over which nothing has ever come, are not
    /// worth a word.
    pub(crate) fn sealed(mut self) -> Self {
        let used = |path: &PathReport| path.sctp().is_none_or(|path| path.packets_received > 0);
        if self.paths.iter().any(used) {
            self.paths.retain(used);
        }
        self
    }

    fn table_of_paths(&self) -> String {
        let sctp = self.paths.iter().any(|path| path.sctp().is_some());
        let (received, sent) = self.totals();
        // Omit a direction that carried only acknowledgements.
        let shown = [received >= sent / 16, sent >= received / 16, sctp, sctp];
        let heading = ["bytes in", "bytes out", "resent", "rtt"];
        let pick = |cells: [String; 4]| cells.into_iter().zip(shown).filter(|(_, show)| *show);
        let mut rows = vec![["path", "state"].map(str::to_owned).to_vec()];
        rows[0].extend(pick(heading.map(str::to_owned)).map(|(cell, _)| cell));
        rows.extend(self.paths.iter().map(|path| {
            let mut row = vec![path.name(), path.short_state()];
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
        primary.map(|path| path.ends().1.to_string())
    }

    /// Bytes received and sent on all paths.
    pub(crate) fn totals(&self) -> (u64, u64) {
        self.paths
            .iter()
            .map(PathReport::bytes)
            .fold((0, 0), |sum, (received, sent)| (sum.0 + received, sum.1 + sent))
    }
}

impl PathReport {
    /// A TCP path without traffic so far.
    pub(crate) fn tcp(local: IpAddr, remote: IpAddr) -> Self {
        let (state, bytes_received, bytes_sent) = (PathState::Active, 0, 0);
        let tcp = TcpPath { local, remote, state, bytes_received, bytes_sent };
        Self { primary: false, figures: Figures::Tcp(tcp) }
    }

    /// The figures of SCTP, if the path has them.
    pub(crate) fn sctp(&self) -> Option<&PathStatistics> {
        match &self.figures {
            Figures::Sctp(path) => Some(&path.statistics),
            Figures::Tcp(_) => None,
        }
    }

    /// Local and remote address.
    pub(crate) fn ends(&self) -> (IpAddr, IpAddr) {
        match &self.figures {
            Figures::Sctp(path) => (path.statistics.local, path.statistics.remote),
            Figures::Tcp(path) => (path.local, path.remote),
        }
    }

    /// Its addresses as text.
    pub(crate) fn name(&self) -> String {
        let (local, remote) = self.ends();
        format!("{local} -> {remote}")
    }

    pub(crate) fn state(&self) -> PathState {
        match &self.figures {
            Figures::Sctp(path) => path.statistics.state,
            Figures::Tcp(path) => path.state,
        }
    }

    /// Bytes received and sent. SCTP counts packets, including the common header; TCP counts the
    /// streams' bytes.
    pub(crate) fn bytes(&self) -> (u64, u64) {
        match &self.figures {
            Figures::Sctp(path) => (path.statistics.bytes_received, path.statistics.bytes_sent),
            Figures::Tcp(path) => (path.bytes_received, path.bytes_sent),
        }
    }

    /// The path, and why it could not be verified.
    fn unverified(&self) -> Option<String> {
        match &self.figures {
            Figures::Sctp(path) => Some(format!("{} ({})", self.name(), path.unverified.as_ref()?)),
            Figures::Tcp(_) => None,
        }
    }

    /// The state; 'active' is omitted for the primary path.
    pub(crate) fn short_state(&self) -> String {
        match (self.primary, self.state()) {
            (true, PathState::Active) => "primary".to_owned(),
            (true, state) => format!("{state}, primary"),
            (false, state) => state.to_string(),
        }
    }

    /// Bytes in and out, retransmissions, and the round-trip time.
    fn figures(&self) -> [String; 4] {
        let (received, sent) = self.bytes();
        let rtt = self.sctp().and_then(|sctp| sctp.srtt);
        [
            grouped(received),
            grouped(sent),
            self.sctp().map_or(String::new(), |sctp| grouped(sctp.retransmitted_chunks)),
            rtt.map_or("-".to_owned(), |rtt| format!("{:.2} ms", rtt.as_secs_f64() * 1e3)),
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

/// Maximum number of files whose names are shown.
const NAMED: usize = 4;

/// Minimum number of bytes for which a rate is reported.
const RATED: u64 = 100_000;

/// Megabits per second.
pub(crate) fn megabits(bytes: u64, seconds: f64) -> f64 {
    if seconds > 0.0 { bytes as f64 * 8.0 / seconds / 1e6 } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use anabranch::PathId;

    use super::*;

    fn stream(id: u16) -> StreamReport {
        StreamReport { id, transactions: 1, bytes_received: 2000, bytes_sent: 30 }
    }

    /// `inspect` reads this from other processes, and other programs read the JSON, too.
    #[test]
    fn a_path_of_sctp_is_what_the_engine_tells_and_comes_back_whole() {
        let json = serde_json::json!({
            "id": 0, "local": "10.0.0.1", "remote": "10.0.0.2", "remote_udp_port": 9899,
            "state": "potentially-failed", "primary": true, "verified": false, "disowned": false,
            "unverified": "no answer yet", "srtt_seconds": 0.25, "rttvar_seconds": 0.125,
            "min_rtt_seconds": 0.2, "delivery_rate": null, "lost_packets": 1, "lost_bytes": 1200,
            "rto_seconds": 1.0, "cwnd": 4404, "ssthresh": 65536, "flight": 1200, "mtu": 1500,
            "error_count": 2, "loss": 0.5, "packets_sent": 7, "bytes_sent": 9000,
            "packets_received": 6, "bytes_received": 300, "data_packets_sent": 5,
            "data_chunks_sent": 5, "data_bytes_sent": 6000, "data_bytes_received": 0,
            "retransmitted_chunks": 1, "timeouts": 1, "longest_timeout_run": 1,
            "timeout_runs": [1, 0, 0, 0], "heartbeats_sent": 3, "heartbeats_acked": 2,
            "ecn_ce_received": 0, "ecn_reductions": 0, "ecn_failures": 0,
        });
        let path: PathReport = serde_json::from_value(json.clone()).unwrap();
        assert_eq!(path.short_state(), "potentially-failed, primary");
        assert_eq!(path.unverified().unwrap(), "10.0.0.1 -> 10.0.0.2 (no answer yet)");
        assert_eq!(path.sctp().unwrap().srtt.unwrap().as_millis(), 250);
        assert_eq!((path.bytes(), path.figures()[3].as_str()), ((300, 9000), "250.00 ms"));
        assert_eq!(serde_json::to_value(&path).unwrap(), json);
    }

    #[test]
    fn tables_name_paths_and_streams() {
        let mut path = PathReport::tcp([127, 0, 0, 1].into(), [127, 0, 0, 2].into());
        path.primary = true;
        if let Figures::Tcp(tcp) = &mut path.figures {
            (tcp.bytes_received, tcp.bytes_sent) = (2000, 30);
        }
        let (local, remote) = ([127, 0, 0, 1].into(), [127, 0, 0, 2].into());
        let event = |seconds, state, ordinary| {
            let changed =
                Notification::PathChanged { path: PathId::default(), local, remote, state };
            PathEvent::new(seconds, &changed, ordinary)
        };
        let traffic = Traffic {
            paths: vec![path],
            streams: (0..40).map(stream).collect(),
            events: vec![
                event(1.5, PathState::Inactive, false),
                event(0.5, PathState::Active, true),
            ],
        };
        let text = traffic.text(true);
        assert!(text.contains("127.0.0.1 -> 127.0.0.2  primary     2,000\n"), "{text}");
        assert!(text.contains("  and 8 more streams\n"), "{text}");
        assert!(!text.contains("is active") && !traffic.text(false).contains("stream"), "{text}");
        assert!(text.contains("  at 1.500 s: 127.0.0.1 -> 127.0.0.2 is inactive\n"), "{text}");
        assert!(!text.contains("not verified"), "{text}");
        assert_eq!(traffic.totals(), (2000, 30));
        let json = serde_json::to_value(&traffic).unwrap();
        assert_eq!(json["streams"].as_array().unwrap().len(), 40);
        assert_eq!(json["paths"][0]["remote"], "127.0.0.2");
        let changed = serde_json::json!({
            "seconds": 1.5, "event": "path_changed", "path": 0, "local": "127.0.0.1",
            "remote": "127.0.0.2", "state": "inactive",
        });
        assert_eq!(json["events"][0], changed);
    }
}
