//! `anabranch gateway near LINE -- COMMAND`.
//!
//! The terminal is the command's: of the gateway there is only what went wrong, on standard error.

use std::os::unix::process::ExitStatusExt as _;
use std::process::ExitStatus;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};

use anabranch_gateway::{Command, Link, LinkEvent, Log};
use tokio::sync::oneshot;

use super::{Dial, Near, Teller, bind};
use crate::commands::gateway::report;
use crate::endpoint::close;
use crate::failure::{Failure, complain};
use crate::output::write_in_background;

/// How the log is written: in JSON or not; `None` if there is none.
type Lines = Option<bool>;

/// Runs the command when the far side has been reached, and until it has ended.
pub(super) async fn run(options: Near) -> Result<(), Failure> {
    let lines: Lines = options.log.is_some().then_some(options.json);
    if options.json && lines.is_none() {
        return Err(Failure::usage("--json with a COMMAND needs --log"));
    }
    if lines.is_some() {
        write_in_background(options.log.as_deref(), options.json)?;
    }
    crate::commands::serve::descriptors();
    let dial = options.dial()?;
    let listener = match options.listen {
        Some(listen) => Some(bind(listen).await?),
        None => None,
    };
    let endpoint = dial.endpoint.clone();
    let uplinks = Arc::clone(&dial.uplinks);
    let ended = Arc::new(AtomicBool::new(false));
    let link = reach(dial, lines, Arc::clone(&ended)).await?;
    let log: Log = match lines {
        Some(json) => Arc::new(move |access| report::access(&access, json)),
        None => Arc::new(|_| {}),
    };
    let near = anabranch_gateway::Near::new(Arc::clone(&link), &options.options(), log);
    crate::metrics::also(near.traffic(), None, None);
    let command = Command::start(&options.command).map_err(Failure::failed)?;
    let proxy = async {
        match listener {
            Some(listener) => near.serve(listener).await,
            None => std::future::pending().await,
        }
    };
    // Without a proxy to serve, this never ends.
    let others = async { tokio::join!(proxy, uplinks.follow(Some(&link))) };
    let status = tokio::select! {
        status = command.run(Arc::clone(&near)) => status.map_err(Failure::failed)?,
        ((), ()) = others => return Ok(()),
    };
    uplinks.save();
    ended.store(true, Relaxed);
    drop((near, link));
    close(&endpoint).await;
    end(status)
}

/// Waits for the first association. Without one the command is not started.
async fn reach(dial: Dial, lines: Lines, ended: Arc<AtomicBool>) -> Result<Arc<Link>, Failure> {
    let teller = Teller::new(&dial, lines);
    let (first, reached) = oneshot::channel();
    let first = Mutex::new(Some(first));
    let link = Link::new(dial.connect(), move |event| {
        teller.tell(&event);
        let first = first.lock().unwrap_or_else(PoisonError::into_inner).take();
        match (event, first) {
            (LinkEvent::Up(_), Some(first)) => drop(first.send(Ok(()))),
            (LinkEvent::Failed(error), Some(first)) => drop(first.send(Err(error))),
            (LinkEvent::Down(error), None) if !ended.load(Relaxed) => {
                complain(&format!("the far side is lost, connecting again: {error}"));
            }
            _ => {}
        }
    });
    let reached = reached.await.map_err(Failure::failed)?;
    reached.map(|()| link).map_err(Failure::failed)
}

/// Ends near as the command has ended.
fn end(status: ExitStatus) -> Result<(), Failure> {
    let code = status.code().or(status.signal().map(|signal| 128 + signal));
    match code.and_then(|code| u8::try_from(code).ok()) {
        Some(0) => Ok(()),
        code => Err(Failure::Exit(code.unwrap_or(1))),
    }
}
