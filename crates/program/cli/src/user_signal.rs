//! SIGUSR1, with which the user wishes for something that each command explains.

use crate::failure::Failure;

/// Waits for SIGUSR1. Systems without it never send it.
pub(crate) struct UserSignal {
    #[cfg(unix)]
    signal: Option<tokio::signal::unix::Signal>,
}

impl UserSignal {
    /// Catches the signal from now on; until then it ends the program.
    pub(crate) fn listen() -> Result<Self, Failure> {
        #[cfg(unix)]
        {
            use tokio::signal::unix::{SignalKind, signal};
            let signal = signal(SignalKind::user_defined1()).map_err(Failure::failed)?;
            Ok(Self { signal: Some(signal) })
        }
        #[cfg(not(unix))]
        Ok(Self::never())
    }

    /// Leaves the signal alone.
    pub(crate) fn never() -> Self {
        Self {
            #[cfg(unix)]
            signal: None,
        }
    }

    /// Waits for the next signal. Cancel-safe.
    pub(crate) async fn next(&mut self) {
        #[cfg(unix)]
        if let Some(signal) = &mut self.signal
            && signal.recv().await.is_some()
        {
            return;
        }
        std::future::pending::<()>().await;
    }
}
