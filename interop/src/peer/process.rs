//! Peers that are processes in the namespace of the far host.

use std::process::Stdio;

use tokio::io::{AsyncBufReadExt, AsyncRead, BufReader};
use tokio::process::Command;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use super::{Handle, Peer};

pub(super) fn start(program: &str, arguments: &[String]) -> Result<Peer, String> {
    let mut command = Command::new("ip");
    command.args(["netns", "exec", "peer", program]).args(arguments);
    spawn(command).map_err(|error| format!("{program}: {error}"))
}

/// Starts a command and reads its lines.
pub(super) fn spawn(mut command: Command) -> Result<Peer, String> {
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .map_err(|error| error.to_string())?;
    let output = child.stdout.take().ok_or("no output of the peer's program")?;
    Ok(Peer { lines: lines(output), handle: Handle::Process(child) })
}

/// The lines of a program's output as they arrive.
pub(super) fn lines(output: impl AsyncRead + Unpin + Send + 'static) -> UnboundedReceiver<String> {
    let (send, receive) = unbounded_channel();
    tokio::spawn(async move {
        let mut lines = BufReader::new(output).lines();
        while let Ok(Some(line)) = lines.next_line().await {
            if send.send(line).is_err() {
                break;
            }
        }
    });
    receive
}
