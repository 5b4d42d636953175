//! A lane: one peer over one transport and IP version.

use std::process::Stdio;
use std::time::{Duration, Instant};

use clap::ValueEnum;
use serde::{Deserialize, Serialize};
use tokio::process::Command;

use crate::Selection;
use crate::cases::Case;
use crate::net;
use crate::peer::{Guest, Kind, has_crashed};

/// How long a case may take.
const LIMIT: Duration = Duration::from_secs(60);
/// A case fails if the peer's program crashes this many times.
const MOST_CRASHES: u32 = 3;

/// The environment variable with the output of the peer's build script, for a lane.
pub(crate) const PROGRAM: &str = "ANABRANCH_INTEROP_PROGRAM";

/// The environment variable with a directory for captures of our endpoints, one per case.
pub(crate) const CAPTURES: &str = "ANABRANCH_INTEROP_CAPTURES";

/// How SCTP packets travel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Transport {
    /// RFC 6951.
    Udp,
    /// IP protocol 132.
    Native,
}

impl Transport {
    pub(crate) const ALL: [Transport; 2] = [Transport::Udp, Transport::Native];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Transport::Udp => "udp",
            Transport::Native => "native",
        }
    }
}

/// IP version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Family {
    /// IPv4.
    V4,
    /// IPv6.
    V6,
}

impl Family {
    pub(crate) const ALL: [Family; 2] = [Family::V4, Family::V6];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Family::V4 => "v4",
            Family::V6 => "v6",
        }
    }
}

/// One peer over one transport and IP version.
#[derive(Clone)]
pub(crate) struct Lane {
    pub(crate) kind: Kind,
    pub(crate) transport: Transport,
    pub(crate) family: Family,
    /// The output of the peer's build script.
    pub(crate) program: String,
    pub(crate) guest: Option<Guest>,
}

impl Lane {
    /// The SCTP port of both sides in a case.
    pub(crate) fn sctp_port(&self, slot: u16) -> u16 {
        if self.kind.is_webrtc() { 5000 } else { 5000 + slot }
    }

    pub(crate) fn our_udp_port(&self, slot: u16) -> u16 {
        match self.transport {
            Transport::Udp => 9700 + slot,
            Transport::Native => 0,
        }
    }

    pub(crate) fn peer_udp_port(&self, slot: u16) -> u16 {
        match (self.transport, self.kind) {
            (Transport::Native, _) => 0,
            (Transport::Udp, Kind::Linux) => crate::peer::GUEST_UDP_PORT,
            (Transport::Udp, _) => 9800 + slot,
        }
    }

    /// Cuts a link in both directions without notifying either side, or repairs it.
    pub(crate) async fn set_cut(&self, link: u8, cut: bool) -> Result<(), String> {
        self.set_cut_near(link, cut).await?;
        self.set_cut_far(link, cut).await
    }

    /// The same for packets of this side.
    pub(crate) async fn set_cut_near(&self, link: u8, cut: bool) -> Result<(), String> {
        net::ip(&net::near_side(self.family, link, cut)).await
    }

    /// The same for packets of the peer.
    pub(crate) async fn set_cut_far(&self, link: u8, cut: bool) -> Result<(), String> {
        self.ip_far(link, |device| net::far_side(self.family, link, cut, device)).await
    }

    /// Removes this host's address on a link, or adds it again.
    pub(crate) async fn set_near(&self, link: u8, present: bool) -> Result<(), String> {
        net::ip(&net::assignment(net::near(self.family, link), present, &format!("a{link}"))).await
    }

    /// The same for the peer's address.
    pub(crate) async fn set_far(&self, link: u8, present: bool) -> Result<(), String> {
        let address = net::far(self.family, link);
        self.ip_far(link, |device| net::assignment(address, present, device)).await
    }

    /// Runs `ip` on the peer's host, with words that follow from the name of its device on a link.
    async fn ip_far(&self, link: u8, words: impl Fn(&str) -> String) -> Result<(), String> {
        match &self.guest {
            Some(guest) => {
                let words = words(&format!("vec{link}"));
                guest.shell(&format!("/bin/ip {words}")).await.map(|_| ())
            }
            None => net::ip(&format!("-n peer {}", words(&format!("b{link}")))).await,
        }
    }
}

/// The result of one case.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Report {
    pub(crate) peer: String,
    pub(crate) transport: String,
    pub(crate) family: String,
    pub(crate) case: String,
    pub(crate) outcome: Outcome,
    /// What went wrong, or why the case or a part of it was excluded.
    pub(crate) detail: String,
    pub(crate) seconds: f64,
}

/// The outcome of a case.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Outcome {
    /// Passed.
    Ok,
    /// Failed.
    Failed,
    /// Not run, because of a limitation of the peer.
    Excluded,
}

/// Runs the only lane of the selection, in its own namespaces, and prints one report per case.
pub(crate) fn run(selection: &Selection) -> Result<(), String> {
    within(selection, async |lane| {
        // Cases that only wait run in parallel with the others, on a link that is never cut.
        let (quiet, busy): (Vec<Case>, Vec<Case>) =
            selection.case.iter().partition(|case| case.is_quiet(&lane));
        tokio::join!(run_in_turn(&lane, &quiet), run_in_turn(&lane, &busy));
        Ok(())
    })
}

/// Creates the hosts of the only lane of the selection in the namespaces of this process, and runs
/// `act` between them.
pub(crate) fn within<T>(
    selection: &Selection,
    work: impl AsyncFnOnce(Lane) -> Result<T, String>,
) -> Result<T, String> {
    let (&[kind], &[transport], &[family]) =
        (&selection.peer[..], &selection.transport[..], &selection.family[..])
    else {
        return Err("a lane has one peer, transport and IP version".into());
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|e| e.to_string())?;
    runtime.block_on(async {
        let program = std::env::var(PROGRAM).unwrap_or_default();
        let mut lane = Lane { kind, transport, family, program, guest: None };
        net::make(kind == Kind::Linux).await?;
        if kind == Kind::Linux {
            lane.guest = Some(Guest::boot(&lane.program, transport).await?);
        }
        net::wait(family).await?;
        work(lane).await
    })
}

/// A command of this program in namespaces of its own, which end with it, as do all its processes. `program`: what the
/// peer's build script has printed.
pub(crate) fn isolated(
    command: &str,
    kind: Kind,
    transport: Transport,
    family: Family,
    program: &str,
) -> Result<Command, String> {
    let own = std::env::current_exe().map_err(|e| e.to_string())?;
    let mut unshare = Command::new("unshare");
    unshare.args(["--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]);
    unshare.arg(own).args([command, "--peer", kind.name()]);
    unshare.args(["--transport", transport.name(), "--family", family.name()]);
    unshare.env(PROGRAM, program).stdin(Stdio::null()).kill_on_drop(true);
    Ok(unshare)
}

/// The error of a command that does not start.
pub(crate) fn no_unshare(error: std::io::Error) -> String {
    format!("unshare: {error}")
}

/// Runs a case, and repeats it if the peer's program crashes: usrsctp 0.9.5 sometimes does, when it stops the timers of
/// its destinations for a shutdown.
async fn attempt(lane: &Lane, case: Case) -> (Outcome, String) {
    let mut crashes = 0;
    loop {
        let result = tokio::time::timeout(LIMIT, case.run(lane)).await;
        let crashed = has_crashed().await;
        if !case.is_quiet(lane) {
            // Repair all links for what comes next; most were not cut.
            for link in [0, 1] {
                let _ = lane.set_cut_near(link, false).await;
                let _ = lane.set_cut_far(link, false).await;
            }
        }
        let error = match result {
            Ok(Ok(())) if crashes > 0 => {
                let detail =
                    format!("the peer's program crashed, and the case was repeated: {crashes}");
                return (Outcome::Ok, detail);
            }
            Ok(Ok(())) => {
                return (Outcome::Ok, case.limitation(lane).unwrap_or_default().to_owned());
            }
            Ok(Err(error)) => error,
            Err(_) => "took more than a minute".into(),
        };
        if !crashed {
            return (Outcome::Failed, error);
        }
        crashes += 1;
        eprintln!("{}: the peer's program crashed: {error}", case.name());
        if crashes == MOST_CRASHES {
            return (
                Outcome::Failed,
                format!("the peer's program crashed {crashes} times: {error}"),
            );
        }
    }
}

async fn run_in_turn(lane: &Lane, cases: &[Case]) {
    for &case in cases {
        let begun = Instant::now();
        let (outcome, detail) = match case.exclusion(lane) {
            Some(reason) => (Outcome::Excluded, reason.to_string()),
            None => attempt(lane, case).await,
        };
        let report = Report {
            peer: lane.kind.name().into(),
            transport: lane.transport.name().into(),
            family: lane.family.name().into(),
            case: case.name().into(),
            outcome,
            detail,
            seconds: begun.elapsed().as_secs_f64(),
        };
        if let Ok(line) = serde_json::to_string(&report) {
            println!("{line}");
        }
    }
}
