//! Runs `anabranch perf client` as a process and reads its output.

use std::net::IpAddr;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use serde::Deserialize;
use tokio::io::{AsyncBufReadExt, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};
use tokio::sync::oneshot;

use crate::lane::{Lane, Transport};
use crate::net;
use crate::side::Setting;

/// The impairment file, relative to the root of the repository.
const IMPAIRMENT: &str = "interop/failover.toml";

/// Time between two lines of output.
const INTERVAL: Duration = Duration::from_millis(20);

/// A running client.
pub(crate) struct Client {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

/// One line of output. docs/perf.md explains the keys.
#[derive(Debug, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
enum Document {
    Connected {},
    Interval(Interval),
    Summary(Summary),
}

/// The figures of an interval.
#[derive(Debug, Deserialize)]
pub(crate) struct Interval {
    pub(crate) from_seconds: f64,
    pub(crate) to_seconds: f64,
    /// Acknowledged bytes.
    pub(crate) bytes_sent: u64,
    pub(crate) bytes_received: u64,
    pub(crate) paths: Vec<PathInterval>,
}

/// The same over one path.
#[derive(Debug, Deserialize)]
pub(crate) struct PathInterval {
    pub(crate) local: IpAddr,
    pub(crate) remote: IpAddr,
    /// 1 if it is active.
    pub(crate) active: u64,
    pub(crate) data_bytes_sent: u64,
    pub(crate) data_bytes_received: u64,
}

/// The end of the measurement.
#[derive(Debug, Deserialize)]
pub(crate) struct Summary {
    pub(crate) connect_seconds: f64,
    pub(crate) sent: Option<Direction>,
    pub(crate) received: Option<Direction>,
}

/// Data that arrived in one direction.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
pub(crate) struct Direction {
    pub(crate) messages: u64,
    pub(crate) bytes: u64,
    pub(crate) bits_per_second: f64,
}

impl Client {
    /// Starts a client that sends and receives for some time.
    pub(crate) fn start(
        program: &Path,
        lane: &Lane,
        setting: &Setting<'_>,
        time: Duration,
    ) -> Result<Self, String> {
        let list = |address: fn(_, _) -> IpAddr| {
            let each = setting.links.iter().map(|&link| address(lane.family, link));
            each.map(|ip| if ip.is_ipv6() { format!("[{ip}]") } else { ip.to_string() })
                .collect::<Vec<_>>()
                .join(",")
        };
        let config = &setting.config;
        let milliseconds = |time: Duration| format!("{}ms", time.as_millis());
        let mut command = Command::new(program);
        command.args(["perf", "client", &format!("{}:{}", list(net::far), lane.sctp_port(0))]);
        command.args(["--local", &list(net::near), "--mode", "both", "--json"]);
        command.args(["--time", &milliseconds(time), "--interval", &milliseconds(INTERVAL)]);
        command.args(["--impair", IMPAIRMENT]);
        command.args(["--pmr", &config.paths.path_max_retrans.to_string()]);
        for (option, time) in [
            ("--rto-initial", Some(config.timers.rto_initial)),
            ("--rto-min", Some(config.timers.rto_min)),
            ("--rto-max", Some(config.timers.rto_max)),
            ("--heartbeat-interval", config.timers.heartbeat_interval),
        ] {
            command.args(time.map(|time| [option.to_owned(), milliseconds(time)]).iter().flatten());
        }
        match lane.transport {
            Transport::Native => command.args(["--transport", "sctp"]),
            Transport::Udp => command
                .args(["--udp-port", &lane.our_udp_port(0).to_string()])
                .args(["--remote-udp-port", &lane.peer_udp_port(0).to_string()]),
        };
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .map_err(|e| format!("{}: {e}", program.display()))?;
        let output = child.stdout.take().ok_or("no output of the client")?;
        Ok(Self { child, lines: BufReader::new(output).lines() })
    }

    async fn next(&mut self) -> Result<Option<Document>, String> {
        let line = self.lines.next_line().await.map_err(|e| format!("the client: {e}"))?;
        line.map(|line| serde_json::from_str(&line).map_err(|e| format!("the client: {e}: {line}")))
            .transpose()
    }

    /// Waits until the association is set up. Returns the time.
    pub(crate) async fn connected(&mut self) -> Result<Instant, String> {
        match self.next().await? {
            Some(Document::Connected { .. }) => Ok(Instant::now()),
            other => Err(format!("the client does not connect: {other:?}")),
        }
    }

    /// Collects all intervals until the client ends successfully. Sends on `tell` once an interval
    /// fulfils the condition.
    pub(crate) async fn run(
        &mut self,
        wanted: impl Fn(&Interval) -> bool,
        tell: oneshot::Sender<()>,
    ) -> Result<(Vec<Interval>, Summary), String> {
        let (mut intervals, mut summary, mut tell) = (Vec::new(), None, Some(tell));
        while let Some(document) = self.next().await? {
            match document {
                Document::Interval(interval) => {
                    if wanted(&interval)
                        && let Some(tell) = tell.take()
                    {
                        // The receiver is gone if the run has failed.
                        let _ = tell.send(());
                    }
                    intervals.push(interval);
                }
                Document::Summary(end) => summary = Some(end),
                Document::Connected { .. } => return Err("the client connects twice".into()),
            }
        }
        let status = self.child.wait().await.map_err(|e| format!("the client: {e}"))?;
        let summary = summary.filter(|_| status.success());
        Ok((intervals, summary.ok_or(format!("the client failed: {status}"))?))
    }
}
