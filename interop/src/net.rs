//! The two hosts of a lane and the links between them.
//!
//! This process is one host. The other one is the namespace `peer`, or the guest of the Linux-kernel
//! peer behind TAP devices. There are three links: two that cases cut and repair, and one that is never
//! cut.

use std::io::ErrorKind;
use std::net::{IpAddr, SocketAddr};
use std::process::Stdio;
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::process::Command;

use crate::lane::Family;

/// Links between the hosts.
pub(crate) const LINKS: u8 = 3;

/// The link that is never cut.
pub(crate) const STEADY: u8 = 2;

/// A port without a listener.
const DISCARD: u16 = 9;

/// The MAC address of a station that does not exist: frames to it vanish silently.
const NOBODY: &str = "02:00:00:00:00:fe";

/// This host's address on a link.
pub(crate) fn near(family: Family, link: u8) -> IpAddr {
    address(family, link, 1)
}

/// The peer's address on a link.
pub(crate) fn far(family: Family, link: u8) -> IpAddr {
    address(family, link, 2)
}

fn address(family: Family, link: u8, host: u8) -> IpAddr {
    match family {
        Family::V4 => [10, 99, link, host].into(),
        Family::V6 => [0xfd99, u16::from(link), 0, 0, 0, 0, 0, u16::from(host)].into(),
    }
}

/// An address with its prefix length.
pub(crate) fn with_prefix(address: IpAddr) -> String {
    format!("{address}/{}", if address.is_ipv4() { 24 } else { 64 })
}

/// Runs a program to its end. The error is its output.
pub(crate) async fn run(program: &str, arguments: &[&str]) -> Result<String, String> {
    let output = Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .output()
        .await
        .map_err(|e| format!("{program}: {e}"))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let error = String::from_utf8_lossy(&output.stderr);
    Err(format!("{program} {}: {}", arguments.join(" "), error.trim()))
}

/// Runs `ip` with these arguments.
pub(crate) async fn ip(words: &str) -> Result<(), String> {
    let words: Vec<&str> = words.split_whitespace().collect();
    run("ip", &words).await.map(|_| ())
}

/// Creates this host's links: with `taps` the TAP devices `a0` to `a2` for a guest, otherwise veth pairs
/// from `a0` to `b0` and so on in the namespace `peer`.
pub(crate) async fn make(taps: bool) -> Result<(), String> {
    // Only within the mount namespace of this lane.
    run("mount", &["-t", "tmpfs", "tmpfs", "/run"]).await?;
    for setting in ["all", "default"] {
        let dad = format!("net.ipv6.conf.{setting}.accept_dad=0");
        run("sysctl", &["-q", "-w", &dad]).await?;
    }
    ip("link set lo up").await?;
    if !taps {
        ip("netns add peer").await?;
        // Duplicate address detection would delay the first packets by a second.
        let dad = "net.ipv6.conf.default.accept_dad=0";
        run("ip", &["netns", "exec", "peer", "sysctl", "-q", "-w", dad]).await?;
        ip("-n peer link set lo up").await?;
    }
    for link in 0..LINKS {
        if taps {
            ip(&format!("tuntap add dev a{link} mode tap")).await?;
        } else {
            ip(&format!("link add a{link} type veth peer name b{link} netns peer")).await?;
        }
        for family in [Family::V4, Family::V6] {
            let nodad = if family == Family::V6 { "nodad" } else { "" };
            let local = with_prefix(near(family, link));
            ip(&format!("address add {local} dev a{link} {nodad}")).await?;
            if !taps {
                let remote = with_prefix(far(family, link));
                ip(&format!("-n peer address add {remote} dev b{link} {nodad}")).await?;
            }
        }
        ip(&format!("link set a{link} up")).await?;
        if !taps {
            ip(&format!("-n peer link set b{link} up")).await?;
        }
    }
    Ok(())
}

/// Waits until every link carries packets of an IP version: address resolution may delay the first
/// packets.
pub(crate) async fn wait(family: Family) -> Result<(), String> {
    for link in 0..LINKS {
        let address = SocketAddr::new(far(family, link), DISCARD);
        let answered = async {
            // There is no listener; a refusal is an answer, too.
            while let Err(error) = TcpStream::connect(address).await {
                if error.kind() == ErrorKind::ConnectionRefused {
                    break;
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        let patience = Duration::from_secs(20);
        let answered = tokio::time::timeout(patience, answered).await;
        answered.map_err(|_| format!("{address} cannot be reached"))?;
    }
    Ok(())
}

/// The command that stops, or no longer stops, packets from the far host to this one on a link.
pub(crate) fn far_side(family: Family, link: u8, cut: bool, device: &str) -> String {
    neighbour(near(family, link), cut, device)
}

/// The command for packets of this host.
pub(crate) fn near_side(family: Family, link: u8, cut: bool) -> String {
    neighbour(far(family, link), cut, &format!("a{link}"))
}

/// The command that removes an address from a device, or adds it again.
pub(crate) fn assignment(address: IpAddr, present: bool, device: &str) -> String {
    let verb = if present { "add" } else { "del" };
    let nodad = if present && address.is_ipv6() { " nodad" } else { "" };
    format!("address {verb} {} dev {device}{nodad}", with_prefix(address))
}

fn neighbour(address: IpAddr, cut: bool, device: &str) -> String {
    if cut {
        format!("neighbour replace {address} lladdr {NOBODY} dev {device} nud permanent")
    } else {
        format!("neighbour del {address} dev {device}")
    }
}
