//! Ctrl-C, SIGTERM and SIGHUP.
//!
//! SIGHUP, which is sent when a terminal is closed, ends a program; that is the default action. A server without a
//! terminal, that is, with neither standard output nor standard error on one, reopens its log instead and
//! continues. So does a server that was started with SIGHUP ignored (nohup).

use std::io::{self, IsTerminal as _};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, timeout_at};

use crate::failure::Failure;

/// A single request may arrive as two signals within this time: to the process and to its group.
const TWICE: Duration = Duration::from_millis(300);

/// Notifies every part of a command that the user wants it to stop.
#[derive(Clone, Debug)]
pub(crate) struct Interrupt(watch::Receiver<bool>);

impl Interrupt {
    /// Catches the signals from now on. The first one asks the command to stop; a second one ends the program
    /// immediately.
    pub(crate) fn install() -> Result<Self, Failure> {
        Self::catch(false)
    }

    /// As [`install`](Self::install), but a server without a terminal reopens its log on SIGHUP.
    pub(crate) fn of_server() -> Result<Self, Failure> {
        let terminal = std::io::stdout().is_terminal() || std::io::stderr().is_terminal();
        Self::catch(!terminal || !hang_up_ends())
    }

    /// Handles signals in a separate thread, so that they end the program even if other threads are blocked.
    fn catch(reopens: bool) -> Result<Self, Failure> {
        let refused = |error| Failure::failed(format!("signals cannot be caught: {error}"));
        let (sender, receiver) = watch::channel(false);
        let (caught, result) = mpsc::channel();
        let stop = sender.clone();
        let thread = thread::Builder::new().name("signals".into());
        let spawned = thread.spawn(move || {
            if let Err(error) = follow_here(reopens, stop, &caught) {
                // The receiver is gone if the signals have already been caught.
                let _ = caught.send(Err(error));
            }
        });
        match spawned {
            Ok(_) => result
                .recv()
                .unwrap_or_else(|error| Err(io::Error::other(error)))
                .map_err(refused)?,
            // The supervisor process of an emulator cannot create threads.
            Err(_) => {
                tokio::spawn(follow(Signals::new(reopens).map_err(refused)?, sender));
            }
        }
        Ok(Self(receiver))
    }

    /// Returns a value that becomes `true` with the first signal.
    pub(crate) fn stop(&self) -> watch::Receiver<bool> {
        self.0.clone()
    }

    /// Waits for the first signal; returns immediately if it has already arrived. Cancel-safe.
    pub(crate) async fn wait(&self) {
        let mut receiver = self.0.clone();
        if receiver.wait_for(|stop| *stop).await.is_err() {
            // The sender lives as long as the process.
            std::future::pending::<()>().await;
        }
    }
}

/// Handles signals in this thread, after reporting through `caught` that they are caught.
fn follow_here(
    reopens: bool,
    stop: watch::Sender<bool>,
    caught: &mpsc::Sender<io::Result<()>>,
) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let signals = Signals::new(reopens)?;
        let _ = caught.send(Ok(()));
        follow(signals, stop).await;
        Ok(())
    })
}

/// Forwards the first signal; the second one ends the program.
async fn follow(mut signals: Signals, stop: watch::Sender<bool>) {
    signals.next().await;
    // There may be no receiver any more.
    let _ = stop.send(true);
    let twice = Instant::now() + TWICE;
    while timeout_at(twice, signals.next()).await.is_ok() {}
    signals.next().await;
    #[cfg(unix)]
    crate::control::remove_sockets();
    std::process::exit(130);
}

#[cfg(unix)]
struct Signals {
    interrupt: tokio::signal::unix::Signal,
    terminate: tokio::signal::unix::Signal,
    /// `None` under nohup and similar programs, because the command must outlive its terminal.
    hang_up: Option<tokio::signal::unix::Signal>,
    /// SIGHUP reopens the log instead of ending the program.
    reopens: bool,
}

#[cfg(unix)]
impl Signals {
    fn new(reopens: bool) -> std::io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        let hang_up = match reopens || hang_up_ends() {
            true => Some(signal(SignalKind::hangup())?),
            false => None,
        };
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hang_up,
            reopens,
        })
    }

    /// Waits for a signal that ends the program.
    async fn next(&mut self) {
        loop {
            let hang_up = async {
                match &mut self.hang_up {
                    Some(signal) => signal.recv().await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                _ = self.interrupt.recv() => return,
                _ = self.terminate.recv() => return,
                _ = hang_up => {
                    if !self.reopens {
                        return;
                    }
                    crate::output::reopen();
                }
            }
        }
    }
}

/// Whether SIGHUP ends the program, that is, whether it was not ignored at the start. If that is unknown, the
/// disposition of SIGHUP is not changed.
fn hang_up_ends() -> bool {
    let status = std::fs::read_to_string("/proc/self/status");
    status.is_ok_and(|status| ignored(&status).is_some_and(|signals| signals & 1 == 0))
}

/// The signals that a process ignores, from its status in /proc; SIGHUP is the lowest bit.
fn ignored(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("SigIgn:"))?;
    u64::from_str_radix(line.trim(), 16).ok()
}

#[cfg(test)]
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
    fn new(_reopens: bool) -> std::io::Result<Self> {
        Ok(Self)
    }

    async fn next(&mut self) {
        // If the signal cannot be caught, wait forever.
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}
