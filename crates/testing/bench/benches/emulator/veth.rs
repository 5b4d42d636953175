//! The kernel's TCP over a pair of veth devices without segmentation offload.

use std::process::Command;

use anabranch_bench::folder::Folder;
use anabranch_bench::suite::Trouble;

use crate::ends::{MARK, PORT};
use crate::network::read;

/// Creates two network namespaces, which disappear with their processes, and the veth pair between them. The sink is in
/// the first one, so that the shell that waits for it ends last.
const SCRIPT: &str = r#"
set -e
own=$1 sink=$2 seconds=$3
unshare --net sleep 1000 &
far=$!
trap 'kill $far' EXIT
while [ "$(readlink /proc/$far/ns/net)" = "$(readlink /proc/self/ns/net)" ]; do sleep 0.01; done
ip link add va type veth peer name vb
ip link set vb netns $far
ip address add 10.0.0.2/24 dev va
ip link set va up
ethtool -K va tso off gso off >/dev/null
nsenter --net=/proc/$far/ns/net sh -c '
    ip address add 10.0.0.1/24 dev vb
    ip link set vb up
    ethtool -K vb tso off gso off >/dev/null
'
"$own" MARK tcp-sink "$sink" &
taker=$!
sleep 0.5
nsenter --net=/proc/$far/ns/net "$own" MARK tcp-source 10.0.0.2:PORT "$seconds"
wait $taker
"#;

/// Megabytes per second.
pub(crate) fn tcp(seconds: f64) -> Result<f64, Trouble> {
    for tool in ["ip", "ethtool", "nsenter", "unshare"] {
        let found = Command::new("sh").args(["-c", &format!("command -v {tool}")]).output();
        if !found.is_ok_and(|found| found.status.success()) {
            return Err(Trouble::Missing(format!("a veth pair needs {tool}")));
        }
    }
    let folder = Folder::new().map_err(Trouble::failed)?;
    let sink = folder.file("sink.json");
    let own = std::env::current_exe().map_err(Trouble::failed)?;
    let script = SCRIPT.replace("MARK", MARK).replace("PORT", &PORT.to_string());
    let mut command = Command::new("unshare");
    command.args(["--user", "--map-root-user", "--net", "sh", "-c", &script, "sh"]);
    command.arg(&own).arg(&sink).arg(seconds.to_string());
    let output = command.output().map_err(Trouble::failed)?;
    let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    if !output.status.success() {
        let missing = ["unshare:", "ethtool:", "RTNETLINK"].iter().any(|part| said.contains(part));
        let message = format!("a veth pair cannot be made: {said}");
        return Err(if missing { Trouble::Missing(message) } else { Trouble::Failed(message) });
    }
    let sink = read(&sink)?;
    let number = |key: &str| sink.get(key).and_then(serde_json::Value::as_f64).unwrap_or(f64::NAN);
    Ok(number("bytes") / number("seconds") * 1e-6)
}
