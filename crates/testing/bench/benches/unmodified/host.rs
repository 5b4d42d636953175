//! A host of its own for each measurement: a network namespace with nothing but loopback.

use std::ffi::OsStr;
use std::process::Command;

use anabranch_bench::suite::Trouble;

/// What measurements begin with. The kernel's TCP, too, shall send packets of 1,500 bytes and not larger ones. The
/// process identifiers are the host's own, so that nothing survives its first one.
const PRELUDE: &str = r#"
set -e
ip link set lo mtu 1500 up
ethtool -K lo tso off gso off gro off
ulimit -n "$(ulimit -Hn)"
port() { # FILES NUMBER STATE: until it is in use
    until grep -qs ":$2 .* $3 " $1; do sleep 0.02; done
}
tcp_listens() { port "/proc/net/tcp /proc/net/tcp6" "$1" 0A; }
needs() { command -v "$1" >/dev/null || { echo "unshare: there is no $1" >&2; exit 1; }; }
udp_is_bound() { port "/proc/net/udp /proc/net/udp6" "$1" 07; }
"#;

const TOOLS: [&str; 4] = ["unshare", "ip", "ethtool", "iperf3"];

/// Runs a script of sh on a new host. Returns what it writes to standard output.
pub(crate) fn run(script: &str, arguments: &[&OsStr]) -> Result<String, Trouble> {
    for tool in TOOLS {
        let found = Command::new("sh").args(["-c", &format!("command -v {tool}")]).output();
        if !found.is_ok_and(|found| found.status.success()) {
            return Err(Trouble::Missing(format!("there is no {tool}")));
        }
    }
    let mut command = Command::new("unshare");
    command.args(["--map-root-user", "--net", "--mount", "--pid", "--mount-proc"]);
    command.args(["--fork", "--kill-child", "sh", "-c", &format!("{PRELUDE}{script}"), "sh"]);
    let output = command.args(arguments).output().map_err(Trouble::failed)?;
    let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let missing = ["unshare:", "ethtool:", "RTNETLINK"].iter().any(|part| said.contains(part));
    let message = format!("{}: {said}", output.status);
    Err(if missing { Trouble::Missing(message) } else { Trouble::Failed(message) })
}
