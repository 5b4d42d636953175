//! What happens while something runs and is not an error of the run.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

/// Is called with notices, from any thread.
pub type Notify = Arc<dyn Fn(Notice) + Send + Sync>;

/// Something to know that does not end a run.
#[derive(Debug)]
#[non_exhaustive]
pub enum Notice {
    /// Programs must use the addresses of hosts, because their names cannot be published: the reason.
    NoNames(String),
    /// The network is there, and no command will end it.
    Ready,
    /// The command of a trigger cannot be run.
    Command {
        /// The line for the shell.
        line: String,
        /// Why not.
        error: io::Error,
    },
    /// A relay has no socket for a client, whose datagram is lost.
    NoSocket {
        /// The client.
        client: SocketAddr,
        /// Why not.
        error: io::Error,
    },
}
