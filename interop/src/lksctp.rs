//! Programs written for kernel SCTP, compiled twice: with the C library for this host, and for the Linux
//! kernel in its guest. Each program talks to its counterpart, in both roles.

use tokio::process::Command;

use crate::lane::{self, Family, Lane, Transport, isolated, no_unshare};
use crate::peer::{GUEST_UDP_PORT, Kind, Peer};
use crate::{Selection, net, run};

/// The environment variable with the directory of the programs that use the C library, for a lane.
const HERE: &str = "ANABRANCH_INTEROP_LKSCTP";

/// Programs, and the socket style of each run.
const PROGRAMS: [(&str, &str); 3] =
    [("lksctp", "one-to-one"), ("lksctp", "one-to-many"), ("lksctp_sendv", "sendv")];

/// The output of a client that got back what it sent.
const CONTENT: &str = "4 messages came back";

/// Runs all programs over both transports and prints a line for each. Returns whether none failed.
pub(crate) fn run() -> Result<bool, String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|e| e.to_string())?;
    runtime.block_on(async {
        let (guest, here) = match prepare().await {
            Ok(programs) => programs,
            Err(missing) => {
                eprintln!("skipped: {missing}");
                return Ok(!run::is_all_required());
            }
        };
        let mut all = true;
        for transport in Transport::ALL {
            let mut lane = isolated("lksctp-lane", Kind::Linux, transport, Family::V4, &guest)?;
            let status = lane.env(HERE, &here).status().await.map_err(no_unshare)?;
            all &= status.success();
        }
        Ok(all)
    })
}

/// Builds the programs: for the guest, and for this host.
async fn prepare() -> Result<(String, String), String> {
    run::can_unshare().await?;
    let last = |output: String| output.lines().last().unwrap_or_default().to_string();
    let guest = Kind::Linux.build().await?;
    let here = net::run("interop/linux/lksctp/build", &[]).await.map(last)?;
    Ok((guest, here))
}

/// Runs all programs over one transport, in this process's namespaces. Returns whether none failed.
pub(crate) fn lane(selection: &Selection) -> Result<bool, String> {
    lane::within(selection, async |lane| {
        if lane.transport == Transport::Udp
            && let Some(guest) = &lane.guest
        {
            // The UDP port for associations that the guest begins; servers here listen on it.
            guest.shell(&format!("sysctl -q -w net.sctp.encap_port={GUEST_UDP_PORT}")).await?;
        }
        let (mut all, mut port) = (true, 5000);
        for (program, style) in PROGRAMS {
            for serves_here in [true, false] {
                let met = meet(&lane, program, style, serves_here, port).await;
                let role = if serves_here { "server" } else { "client" };
                let outcome = met.as_ref().err().map_or("ok", |error| error);
                println!("{:<8}{program:<14}{style:<13}{role:<8}{outcome}", lane.transport.name());
                all &= met.is_ok();
                port += 1;
            }
        }
        Ok(all)
    })
}

/// Runs a client against a server; both must succeed.
async fn meet(
    lane: &Lane,
    program: &str,
    style: &str,
    serves_here: bool,
    port: u16,
) -> Result<(), String> {
    let address = if serves_here { net::near } else { net::far }(lane.family, net::STEADY);
    let words = |role| format!("{program} {role} {style} {port} {address}");
    let mut server = start(lane, serves_here, &words("server")).await?;
    server.line("ready").await?;
    let mut client = start(lane, !serves_here, &words("client")).await?;
    client.line(CONTENT).await?;
    for (role, peer) in [("client", &mut client), ("server", &mut server)] {
        let status = peer.line("status").await?;
        if status != "0" {
            return Err(format!("the {role} ends with status {status}"));
        }
    }
    Ok(())
}

/// Starts a program on this host or in the guest. At its end it prints its status.
async fn start(lane: &Lane, here: bool, words: &str) -> Result<Peer, String> {
    match &lane.guest {
        Some(guest) if !here => guest.run(words).await,
        _ => {
            let directory = std::env::var(HERE).unwrap_or_default();
            let mut shell = Command::new("sh");
            shell.args(["-c", &format!("{directory}/{words} 2>&1; echo status $?")]);
            match lane.transport {
                Transport::Native => shell.env("ANABRANCH_RAW_IP", "1"),
                Transport::Udp => {
                    shell.env("ANABRANCH_REMOTE_UDP_PORT", GUEST_UDP_PORT.to_string())
                }
            };
            Peer::here(shell)
        }
    }
}
