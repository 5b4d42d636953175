//! The peers: what they can do, and how they are started.

mod guest;
mod process;

use std::time::Duration;

use clap::ValueEnum;
use tokio::sync::mpsc::UnboundedReceiver;

pub(crate) use self::guest::{Guest, UDP_PORT as GUEST_UDP_PORT};
pub(crate) use self::process::has_crashed;
use crate::lane::{Lane, Transport};
use crate::net;
use crate::side::{HEARTBEAT, RTO_MIN};

/// How long a peer may take to answer a request.
const PATIENCE: Duration = Duration::from_secs(20);

/// The implementations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Kind {
    /// usrsctp, the user-space stack of FreeBSD's code.
    Usrsctp,
    /// The Linux kernel, in User-Mode Linux.
    Linux,
    /// dcsctp from crates.io.
    Dcsctp,
    /// rtc-sctp from crates.io.
    RtcSctp,
    /// sctp-proto from crates.io.
    SctpProto,
    /// pion/sctp in Go: its current release.
    Pion,
    /// pion/sctp 1.9.0.
    #[value(name = "pion-1.9")]
    Pion19,
}

impl Kind {
    pub(crate) const ALL: [Kind; 7] = [
        Kind::Usrsctp,
        Kind::Linux,
        Kind::Dcsctp,
        Kind::RtcSctp,
        Kind::SctpProto,
        Kind::Pion,
        Kind::Pion19,
    ];

    /// The name in tables and on command lines.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Kind::Usrsctp => "usrsctp",
            Kind::Linux => "linux",
            Kind::Dcsctp => "dcsctp",
            Kind::RtcSctp => "rtc-sctp",
            Kind::SctpProto => "sctp-proto",
            Kind::Pion => "pion",
            Kind::Pion19 => "pion-1.9",
        }
    }

    /// The script that builds the peer and prints what to run, with its arguments, if the peer is not part of this
    /// program.
    pub(crate) fn build_script(self) -> Option<(&'static str, &'static [&'static str])> {
        match self {
            Kind::Usrsctp => Some(("interop/usrsctp/build", &[])),
            Kind::Linux => Some(("interop/linux/build", &[])),
            Kind::Pion => Some(("interop/pion/build", &[])),
            Kind::Pion19 => Some(("interop/pion/build", &["1.9"])),
            Kind::Dcsctp | Kind::RtcSctp | Kind::SctpProto => None,
        }
    }

    /// Builds the peer. Returns what to run; nothing if it is part of this program.
    pub(crate) async fn build(self) -> Result<String, String> {
        let Some((script, arguments)) = self.build_script() else { return Ok(String::new()) };
        let output = net::run(script, arguments).await?;
        Ok(output.lines().last().unwrap_or_default().to_owned())
    }

    /// Whether it is a release of pion/sctp.
    pub(crate) fn is_pion(self) -> bool {
        matches!(self, Kind::Pion | Kind::Pion19)
    }

    /// Made for WebRTC: one path, over datagrams of another protocol, port 5000.
    pub(crate) fn is_webrtc(self) -> bool {
        !matches!(self, Kind::Usrsctp | Kind::Linux)
    }

    /// Whether its program returns the payload protocol identifier of a message.
    pub(crate) fn returns_ppid(self) -> bool {
        matches!(self, Kind::Usrsctp | Kind::Linux) || self.is_pion()
    }
}

/// The mode of a peer's program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// Returns messages and takes commands; the only mode of the peers for WebRTC.
    Echo,
    /// Serves an `anabranch perf` client.
    Perf,
}

impl Mode {
    fn name(self) -> &'static str {
        match self {
            Mode::Echo => "echo",
            Mode::Perf => "perf",
        }
    }
}

/// How to start a peer for a case.
pub(crate) struct Start<'a> {
    pub(crate) lane: &'a Lane,
    pub(crate) slot: u16,
    /// Whether the peer waits for our association; otherwise it begins one.
    pub(crate) listens: bool,
    pub(crate) links: &'a [u8],
    /// Whether it is bound to all addresses of its host, of both IP versions.
    pub(crate) wildcard: bool,
    pub(crate) mode: Mode,
    /// Size of its socket buffers, in bytes.
    pub(crate) buffer: usize,
    /// Outgoing streams that it wants, if it can choose.
    pub(crate) streams: Option<u16>,
    /// Whether it interleaves messages, if it can.
    pub(crate) interleaves: bool,
    /// The secret with which it authenticates, if it can.
    pub(crate) secret: Option<&'static str>,
    pub(crate) path_max_retrans: u32,
    pub(crate) rto_max: Duration,
}

impl Start<'_> {
    /// The command line of the C programs, without the program.
    fn socket_arguments(&self) -> Vec<String> {
        let (lane, slot) = (self.lane, self.slot);
        let list = |address: fn(_, _) -> std::net::IpAddr| {
            let each = self.links.iter().map(|&link| address(lane.family, link).to_string());
            each.collect::<Vec<_>>().join(",")
        };
        let port = lane.sctp_port(slot).to_string();
        let mut arguments = vec![if self.listens { "listen" } else { "connect" }.to_string()];
        let mut add = |name: &str, value: String| arguments.extend([format!("--{name}"), value]);
        add("mode", self.mode.name().into());
        add("local", if self.wildcard { "::".to_owned() } else { list(net::far) });
        add("port", port.clone());
        if !self.listens {
            add("remote", list(net::near));
            add("local-port", port);
        }
        if lane.transport == Transport::Udp {
            add("udp", lane.peer_udp_port(slot).to_string());
            add("remote-udp", lane.our_udp_port(slot).to_string());
        }
        add("heartbeat", HEARTBEAT.as_millis().to_string());
        add("rto-min", RTO_MIN.as_millis().to_string());
        add("rto-max", self.rto_max.as_millis().to_string());
        add("buffer", self.buffer.to_string());
        add("pmr", self.path_max_retrans.to_string());
        if let Some(streams) = self.streams {
            add("streams", streams.to_string());
        }
        if lane.transport == Transport::Native {
            arguments.push("--silent".into());
        }
        arguments.extend(self.interleaves.then(|| "--interleave".into()));
        arguments
            .extend(self.secret.into_iter().flat_map(|secret| ["--secret".into(), secret.into()]));
        arguments
    }

    /// The command line of the programs for WebRTC's engines, without the program.
    fn datagram_arguments(&self) -> Vec<String> {
        let (lane, slot) = (self.lane, self.slot);
        let link = self.links.first().copied().unwrap_or(0);
        let local = (net::far(lane.family, link), lane.peer_udp_port(slot));
        let remote = (net::near(lane.family, link), lane.our_udp_port(slot));
        let mut arguments = vec![
            "--role".into(),
            if self.listens { "listen" } else { "connect" }.into(),
            "--local".into(),
            std::net::SocketAddr::from(local).to_string(),
            "--remote".into(),
            std::net::SocketAddr::from(remote).to_string(),
            "--window".into(),
            self.buffer.to_string(),
        ];
        arguments.extend(self.interleaves.then(|| "--interleave".into()));
        arguments
    }

    pub(crate) async fn start(&self) -> Result<Peer, String> {
        let kind = self.lane.kind;
        let mut peer = match (kind, &self.lane.guest) {
            (Kind::Linux, Some(guest)) => guest.start(&self.socket_arguments()).await?,
            (Kind::Linux, None) => return Err("no guest".into()),
            (Kind::Usrsctp, _) => process::start(&self.lane.program, &self.socket_arguments())?,
            (Kind::Pion | Kind::Pion19, _) => {
                process::start(&self.lane.program, &self.datagram_arguments())?
            }
            (Kind::Dcsctp | Kind::RtcSctp | Kind::SctpProto, _) => {
                let own = std::env::current_exe().map_err(|e| e.to_string())?;
                let mut arguments = vec!["engine".into(), "--kind".into(), kind.name().into()];
                arguments.extend(self.datagram_arguments());
                process::start(&own.to_string_lossy(), &arguments)?
            }
        };
        if self.listens {
            peer.line("ready").await?;
        }
        Ok(peer)
    }
}

/// A peer's running program.
pub(crate) struct Peer {
    lines: UnboundedReceiver<String>,
    handle: Handle,
}

enum Handle {
    Process(process::Process),
    Guest { guest: Guest, pid: String },
}

/// How an association ended, as the peer's program saw it.
#[derive(Debug)]
pub(crate) struct End {
    /// `shutdown`, or an error; the engines do not report errors.
    pub(crate) how: String,
    /// Bytes of the messages that it received.
    pub(crate) bytes: usize,
    /// FNV-1a hash of all messages, in hexadecimal digits.
    pub(crate) hash: String,
}

impl Peer {
    /// A program on this host.
    pub(crate) fn here(command: tokio::process::Command) -> Result<Self, String> {
        process::spawn(command)
    }

    /// Waits for a line that begins with a word and returns the rest.
    pub(crate) async fn line(&mut self, word: &str) -> Result<String, String> {
        let wait = async {
            let mut before = Vec::new();
            while let Some(line) = self.lines.recv().await {
                if let Some(rest) = line.strip_prefix(word) {
                    return Ok(rest.trim().to_string());
                }
                before.push(line);
            }
            Err(format!("the peer's program ended without '{word}' after {before:?}"))
        };
        let ended = tokio::time::timeout(PATIENCE, wait).await;
        ended.unwrap_or_else(|_| Err(format!("the peer's program did not print '{word}'")))
    }

    /// Waits for the next line.
    pub(crate) async fn next(&mut self) -> Result<String, String> {
        match tokio::time::timeout(PATIENCE, self.lines.recv()).await {
            Ok(line) => line.ok_or_else(|| "the peer's program ended".to_owned()),
            Err(_) => Err("the peer's program prints nothing".to_owned()),
        }
    }

    /// Waits for the end of the association.
    pub(crate) async fn end(&mut self) -> Result<End, String> {
        let line = self.line("end").await?;
        let value = |name: &str| {
            let at = line.find(name).map(|at| at + name.len());
            at.and_then(|at| line.get(at..)).unwrap_or_default()
        };
        let word = |name: &str| value(name).split(' ').next().unwrap_or_default().to_string();
        let bytes = word("bytes=").parse().map_err(|_| format!("the peer says 'end {line}'"))?;
        Ok(End { how: value("how=").to_string(), bytes, hash: word("hash=") })
    }

    /// Kills the program. If it is a process, it cannot send anything more.
    pub(crate) async fn kill(&mut self) {
        match &mut self.handle {
            Handle::Process(process) => process.kill().await,
            Handle::Guest { guest, pid } => {
                let _ = guest.shell(&format!("kill -9 {pid}")).await;
            }
        }
    }
}
