//! Ctrl-C and SIGTERM.

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
}

#[cfg(unix)]
impl Signals {
    fn new() -> std::io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
        })
    }

    async fn next(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
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
