//! Namespaces for commands that set up networks.

use anabranch_emulator::isolation::{self, Entered};

use super::exit_code;
use crate::failure::Failure;
use crate::interrupt::Interrupt;

/// Enters the namespaces. Call this while the program has only one thread. Returns `Some` with the exit code when
/// the program inside has ended.
pub(crate) fn enter() -> Result<Option<u8>, Failure> {
    let supervisor = match isolation::enter()? {
        Entered::Within => return Ok(None),
        Entered::Outside(supervisor) => supervisor,
    };
    // The system does not let this process create threads, so use the current one.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::failed(format!("no runtime can be started: {error}")))?;
    runtime.block_on(async {
        let interrupt = Interrupt::install()?;
        let status = supervisor.wait(interrupt.stop()).await?;
        Ok(Some(exit_code(status)))
    })
}
