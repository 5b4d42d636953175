//! Reasons why something cannot be emulated.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

use anabranch_impair::ConfigError;

use crate::EndAddress;

/// The reason why something cannot be emulated.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A program is to run at a host that the network does not have.
    #[error("there is no host '{0}' in the network")]
    NoHost(String),
    /// The command does not exist, and nothing that runs before it could create it.
    #[error("'{0}' cannot be run: there is no such program")]
    NoProgram(String),
    /// A program cannot be started.
    #[error("'{program}' cannot be run: {error}")]
    Program {
        /// The program or the shell command line.
        program: String,
        /// The reason.
        error: io::Error,
    },
    /// A host cannot be created.
    #[error("host '{host}' cannot be made: {error}")]
    Host {
        /// Its name.
        host: String,
        /// The reason.
        error: io::Error,
    },
    /// A host cannot be created because its devices cannot.
    #[error("host '{host}' cannot be made: {file} cannot be opened: {error}: {help}")]
    NoTun {
        /// Its name.
        host: String,
        /// The file through which devices are created.
        file: &'static str,
        /// Why it cannot be opened.
        error: io::Error,
        /// What to do.
        help: &'static str,
    },
    /// A namespace of ip-netns does not exist.
    #[error("there is no network namespace '{0}'")]
    NoNamespace(String),
    /// A namespace of ip-netns cannot be entered.
    #[error("the network namespace '{name}' cannot be entered: {error}")]
    Namespace {
        /// Its name.
        name: String,
        /// The reason.
        error: io::Error,
    },
    /// The device of a line cannot be created.
    #[error("cannot make the device of {end}: {error}{}", privileges(.error))]
    Device {
        /// The end of the line.
        end: EndAddress,
        /// The reason.
        error: io::Error,
    },
    /// A device can no longer be read from.
    #[error("a device failed: {0}")]
    DeviceFailed(io::Error),
    /// The system cannot report when packets arrive.
    #[error("devices cannot be waited for: {0}")]
    Wait(String),
    /// A relay cannot listen.
    #[error("cannot listen at {address}: {error}")]
    Listen {
        /// The address where it should listen.
        address: SocketAddr,
        /// The reason.
        error: io::Error,
    },
    /// A relay can no longer receive.
    #[error("can no longer receive at {address}: {error}")]
    Receive {
        /// Where it listens.
        address: SocketAddr,
        /// The reason.
        error: io::Error,
    },
    /// A log or a capture could not be written completely.
    #[error("the {what} {} is incomplete: {error}", .file.display())]
    Incomplete {
        /// `log` or `capture`.
        what: &'static str,
        /// Its file.
        file: PathBuf,
        /// The first error.
        error: io::Error,
    },
    /// The log to compare with cannot be read.
    #[error("the log {} cannot be read: {error}", .file.display())]
    Log {
        /// Its file.
        file: PathBuf,
        /// The reason.
        error: io::Error,
    },
    /// The log to compare with has an invalid line.
    #[error("{}, line {line}: {reason}", .file.display())]
    WrongLog {
        /// Its file.
        file: PathBuf,
        /// The line, from 1.
        line: usize,
        /// What is wrong with it.
        reason: String,
    },
    /// The fate of a packet differs from that in the log of an earlier run.
    #[error("packet {packet} of link {way} had another fate: {now} now, {logged} in the log")]
    Different {
        /// Its number on the link in its direction.
        packet: u64,
        /// The link and its direction.
        way: String,
        /// What happened to it in this run.
        now: String,
        /// What happened to it according to the log.
        logged: String,
    },
    /// The system does not allow an ordinary user to create namespaces.
    #[error(
        "the system does not allow {what} ({reason}): run as root, or allow user namespaces (sysctl \
         user.max_user_namespaces, kernel.apparmor_restrict_unprivileged_userns)"
    )]
    NotAllowed {
        /// Which namespaces.
        what: &'static str,
        /// What the system says.
        reason: String,
    },
    /// A step of entering namespaces failed.
    #[error("{what}: {reason}")]
    Isolation {
        /// The step.
        what: &'static str,
        /// What the system says.
        reason: String,
    },
    /// The network ended while its programs were running.
    #[error("the network ended before its programs")]
    Early,
    /// A link cannot be created.
    #[error("{0}")]
    Link(ConfigError),
    /// A network's thread ended early.
    #[error("{0}")]
    Task(tokio::task::JoinError),
    /// Another request that the system refused.
    #[error("{0}")]
    Io(io::Error),
}

/// What to do if privileges are missing.
fn privileges(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::PermissionDenied => ": run as root or with CAP_NET_ADMIN",
        _ => "",
    }
}
