//! Events during a run that are not errors of the run.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

/// Receives notices, from any thread.
pub type Notify = Arc<dyn Fn(Notice) + Send + Sync>;

/// An event that the caller should know about and that does not end the run.
#[derive(Debug)]
#[non_exhaustive]
pub enum Notice {
    /// The names of hosts cannot be published, so programs must use addresses. Contains the reason.
    NoNames(String),
    /// The network is up. There is no command whose end would end it.
    Ready,
    /// The command of a trigger cannot be run.
    Command {
        /// The shell command line.
        line: String,
        /// The reason.
        error: io::Error,
    },
    /// A relay could not open a socket for a client; the client's datagram is lost.
    NoSocket {
        /// The client.
        client: SocketAddr,
        /// The reason.
        error: io::Error,
    },
}
