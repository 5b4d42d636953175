//! `emulate`: its output, and how it stops. The crate `emulator` does the work.

#[cfg(target_os = "linux")]
pub(crate) mod forward;
#[cfg(target_os = "linux")]
pub(crate) mod isolation;
#[cfg(target_os = "linux")]
pub(crate) mod network;
pub(crate) mod relays;
mod report;
#[cfg(target_os = "linux")]
pub(crate) mod sink;

use anabranch_emulator::{Error, Notice};

use crate::failure::{Failure, complain};

/// Reports notices on standard error; in quiet mode, only failures.
fn tell(notice: &Notice, quiet: bool) {
    match notice {
        Notice::NoNames(_) | Notice::Ready if quiet => {}
        Notice::NoNames(reason) => {
            complain(&format!("hosts have no names for programs, only addresses: {reason}"));
        }
        Notice::Ready => complain("the network is ready; Ctrl-C ends it"),
        Notice::Command { line, error } => complain(&format!("'{line}' cannot be run: {error}")),
        Notice::NoSocket { client, error } => {
            complain(&format!("there is no socket for the client {client}: {error}"));
        }
        _ => {}
    }
}

/// The exit code for the status of a program, by the convention of shells.
#[cfg(target_os = "linux")]
fn exit_code(status: std::process::ExitStatus) -> u8 {
    use std::os::unix::process::ExitStatusExt as _;
    let code = status.code().or(status.signal().map(|signal| 128 + signal));
    code.and_then(|code| u8::try_from(code).ok()).unwrap_or(1)
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        match error {
            Error::NoHost(_) => Self::usage(error),
            Error::NoTun { .. } => {
                Self::failed(format!("{error}; 'emulate --relay' does without it"))
            }
            Error::NotAllowed { .. } => {
                Self::failed(format!("{error}; 'emulate --relay' needs neither"))
            }
            _ => Self::failed(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_system_refuses_has_a_way_out() {
        let error = Error::NotAllowed { what: "namespaces of processes", reason: "no".into() };
        let failure = Failure::from(error);
        let (sentence, code) = failure.told();
        let sentence = sentence.unwrap_or_default();
        assert!(sentence.ends_with("; 'emulate --relay' needs neither"), "{sentence}");
        assert_eq!(code, 1);
        assert_eq!(Failure::from(Error::NoHost("b".into())).told().1, 2);
    }
}
