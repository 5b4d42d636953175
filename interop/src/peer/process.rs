//! Peers that are processes in the namespace of the far host.

use std::os::unix::process::ExitStatusExt;
use std::process::Stdio;
use std::sync::Mutex;

use tokio::io::{AsyncBufReadExt, AsyncRead, BufReader};
use tokio::process::{Child, Command};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use super::{Handle, Peer};

/// Programs that are no longer needed.
static ENDED: Mutex<Vec<Child>> = Mutex::new(Vec::new());

/// Signals of a program that is at fault itself: SIGILL, SIGABRT, SIGBUS, SIGFPE and SIGSEGV.
const FAULTS: [i32; 5] = [4, 6, 7, 8, 11];

/// A peer's program. It is killed when this is dropped.
pub(super) struct Process(Option<Child>);

impl Process {
    /// Kills the program, and waits until it cannot send anything more.
    pub(super) async fn kill(&mut self) {
        if let Some(child) = &mut self.0 {
            // It may have ended by itself.
            let _ = child.kill().await;
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if let (Some(mut child), Ok(mut ended)) = (self.0.take(), ENDED.lock()) {
            let _ = child.start_kill();
            ended.push(child);
        }
    }
}

/// Whether any program that was dropped since the last call had crashed.
pub(crate) async fn has_crashed() -> bool {
    let ended = ENDED.lock().map(|mut ended| std::mem::take(&mut *ended)).unwrap_or_default();
    let mut crashed = false;
    for mut child in ended {
        let signal = child.wait().await.ok().and_then(|status| status.signal());
        crashed |= signal.is_some_and(|signal| FAULTS.contains(&signal));
    }
    crashed
}

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
    Ok(Peer { lines: lines(output), handle: Handle::Process(Process(Some(child))) })
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
