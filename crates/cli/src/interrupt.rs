//! Ctrl-C, SIGTERM, and SIGHUP of a terminal that is closed.

use std::time::Duration;

use tokio::sync::watch;

use crate::failure::Failure;

/// Tells every part of a command that the user wants it to stop.
#[derive(Clone, Debug)]
pub(crate) struct Interrupt(watch::Receiver<bool>);

impl Interrupt {
    /// Catches the signals from now on. The first one asks the command to stop; a second one
    /// ends the program at once.
    pub(crate) fn install() -> Result<Self, Failure> {
        let refused = |error| Failure::failed(format!("signals cannot be caught: {error}"));
        let mut signals = Signals::new().map_err(refused)?;
        let (sender, receiver) = watch::channel(false);
        tokio::spawn(async move {
            signals.next().await;
            // Nobody listening is as good as everybody stopped.
            let _ = sender.send(true);
            // One wish may come as two signals: to the process and to its group.
            let twice = tokio::time::sleep(Duration::from_millis(300));
            tokio::pin!(twice);
            loop {
                tokio::select! {
                    () = &mut twice => break,
                    () = signals.next() => {}
                }
            }
            signals.next().await;
            #[cfg(unix)]
            crate::control::remove_sockets();
            std::process::exit(130);
        });
        Ok(Self(receiver))
    }

    /// Waits for the first signal; at once if there was one. Cancel-safe.
    pub(crate) async fn wait(&self) {
        let mut receiver = self.0.clone();
        if receiver.wait_for(|stop| *stop).await.is_err() {
            // The sender lives as long as the runtime.
            std::future::pending::<()>().await;
        }
    }
}

#[cfg(unix)]
struct Signals {
    interrupt: tokio::signal::unix::Signal,
    terminate: tokio::signal::unix::Signal,
    /// `None` under nohup and the like, which want the command to outlive its terminal.
    hang_up: Option<tokio::signal::unix::Signal>,
}

#[cfg(unix)]
impl Signals {
    fn new() -> std::io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        let hang_up = match hang_up_ends() {
            true => Some(signal(SignalKind::hangup())?),
            false => None,
        };
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hang_up,
        })
    }

    async fn next(&mut self) {
        let hang_up = async {
            match &mut self.hang_up {
                Some(signal) => signal.recv().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
            _ = hang_up => {}
        }
    }
}

/// Whether SIGHUP is to end the program, that is, whether who started it has not had it ignored. Where the
/// system does not tell, it keeps the meaning that it has.
#[cfg(unix)]
fn hang_up_ends() -> bool {
    let status = std::fs::read_to_string("/proc/self/status");
    status.is_ok_and(|status| ignored(&status).is_some_and(|signals| signals & 1 == 0))
}

/// The signals that a process ignores, SIGHUP in the lowest bit, from its status in /proc.
#[cfg(unix)]
fn ignored(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("SigIgn:"))?;
    u64::from_str_radix(line.trim(), 16).ok()
}

#[cfg(all(test, unix))]
mod tests {
    use super::ignored;

    #[test]
    fn ignored_signals_are_read() {
        assert_eq!(ignored("SigBlk:\t0000\nSigIgn:\t0000000000001001\n"), Some(0x1001));
        assert_eq!(ignored("SigIgn:\tx\n"), None);
        assert_eq!(ignored("Name:\tx\n"), None);
    }
}

#[cfg(not(unix))]
struct Signals;

#[cfg(not(unix))]
impl Signals {
    fn new() -> std::io::Result<Self> {
        Ok(Self)
    }

    async fn next(&mut self) {
        // Without the signal there is nothing to wait for.
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}
