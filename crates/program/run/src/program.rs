//! Starts a program, passes signals on to it, and stays until the last of its processes has ended.

use std::io;
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Child, Command, ExitStatus};
use std::thread;

use anabranch_notify::Listener;
use rustix::process::{Pid, Signal, WaitOptions, getpgrp, kill_process, set_child_subreaper, wait};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{mpsc, oneshot};

/// Signals that are passed on, and whether a terminal sends them to all processes in its foreground.
const PASSED_ON: [(Signal, bool); 7] = [
    (Signal::INT, true),
    (Signal::QUIT, true),
    (Signal::HUP, true),
    (Signal::WINCH, true),
    (Signal::TERM, false),
    (Signal::USR1, false),
    (Signal::USR2, false),
];

/// A program that has been started.
#[derive(Debug)]
pub struct Program {
    pid: Pid,
    signals: mpsc::UnboundedReceiver<Signal>,
}

impl Program {
    /// Starts a program, and catches signals from then on. Processes that it leaves behind become children of this one.
    ///
    /// # Errors
    /// The system cannot start it, or catch signals.
    pub fn start(command: &mut Command) -> io::Result<Self> {
        Self::start_by(|| command.spawn())
    }

    /// As [`start`](Self::start), with the filter of [`anabranch_notify`]. Returns what its calls wait for, which must be
    /// [answered](crate::Engine::answer_calls).
    ///
    /// # Errors
    /// Those of [`anabranch_notify::spawn`]. Otherwise as [`start`](Self::start).
    pub fn start_trapped(command: Command) -> io::Result<(Self, Listener)> {
        let mut listener = None;
        let spawn = || {
            let (child, taken) = anabranch_notify::spawn(command)?;
            listener = Some(taken);
            Ok(child)
        };
        let started = Self::start_by(spawn)?;
        Ok((started, listener.ok_or(io::ErrorKind::Other)?))
    }

    fn start_by(spawn: impl FnOnce() -> io::Result<Child>) -> io::Result<Self> {
        let (sender, signals) = mpsc::unbounded_channel();
        // First, so that no signal ends this process and leaves the program without its engine.
        for (number, of_terminals) in PASSED_ON {
            let mut caught = signal(SignalKind::from_raw(number.as_raw()))?;
            let sender = sender.clone();
            tokio::spawn(async move {
                while caught.recv().await.is_some() {
                    if !(of_terminals && is_in_foreground()) && sender.send(number).is_err() {
                        return;
                    }
                }
            });
        }
        // The number only says that it is wanted.
        set_child_subreaper(Some(Pid::INIT))?;
        let child = spawn()?;
        let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
        Ok(Self { pid: pid.ok_or(io::ErrorKind::InvalidData)?, signals })
    }

    /// Passes signals on until all processes have ended. Returns the exit code of the program, or 128 plus the number
    /// of the signal that ended it.
    ///
    /// # Errors
    /// There can be no thread that waits.
    pub async fn wait(mut self) -> io::Result<u8> {
        let (done, mut ended) = oneshot::channel();
        let pid = self.pid;
        thread::Builder::new().name("children".to_owned()).spawn(move || {
            let _ = done.send(wait_for_all(pid));
        })?;
        loop {
            tokio::select! {
                code = &mut ended => return Ok(code.unwrap_or(1)),
                Some(signal) = self.signals.recv() => {
                    // It may have ended: then the processes that it has left get it from whoever sends it to them.
                    let _ = kill_process(pid, signal);
                }
            }
        }
    }
}

/// Waits until there is no child left. Returns the exit code of one of them.
fn wait_for_all(pid: Pid) -> u8 {
    let mut code = 1;
    loop {
        match wait(WaitOptions::empty()) {
            Ok(Some((child, status))) if child == pid => {
                code = exit_code(ExitStatus::from_raw(status.as_raw()));
            }
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(_) => return code,
        }
    }
}

fn exit_code(status: ExitStatus) -> u8 {
    let code = status.code().or_else(|| Some(128 + status.signal()?));
    code.and_then(|code| u8::try_from(code).ok()).unwrap_or(1)
}

/// Whether this process is in the foreground of its terminal, which then sends signals to the program as well.
fn is_in_foreground() -> bool {
    let Ok(stat) = std::fs::read_to_string("/proc/self/stat") else { return false };
    // After the name in parentheses: state, parent, group, session, terminal, the terminal's foreground group.
    let Some((_, rest)) = stat.rsplit_once(')') else { return false };
    let foreground = rest.split_whitespace().nth(5).and_then(|field| field.parse::<i32>().ok());
    foreground == Some(getpgrp().as_raw_nonzero().get())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_exit_code_is_that_of_shells() {
        assert_eq!(exit_code(ExitStatus::from_raw(0)), 0);
        assert_eq!(exit_code(ExitStatus::from_raw(7 << 8)), 7);
        assert_eq!(exit_code(ExitStatus::from_raw(9)), 137);
    }
}
