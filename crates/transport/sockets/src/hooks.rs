//! What the user of a host adds to its endpoints and associations.

use std::fmt;

use anabranch::{Association, BindError, Builder, Endpoint, EndpointConfig};

/// What the user of a host adds to its endpoints and associations. The calls come from the threads of the host and of
/// its sockets, and must not use a socket.
pub trait Hooks: fmt::Debug + Send + Sync {
    /// The initial options of an endpoint. The host sets the encapsulation.
    fn config(&self) -> EndpointConfig {
        EndpointConfig::default()
    }

    /// Opens an endpoint, for example with a capture. Addresses, ports and the runtime are set.
    ///
    /// # Errors
    /// As [`Builder::bind`].
    fn bind(&self, builder: Builder) -> Result<Endpoint, BindError> {
        builder.bind()
    }

    /// A socket has an association, and has subscribed to its events: an earlier reader would keep them from it.
    /// `accepted`: the peer initiated it.
    fn established(&self, association: &Association, accepted: bool) {
        let _ = (association, accepted);
    }
}

/// Adds nothing.
#[derive(Debug)]
pub(crate) struct NoHooks;

impl Hooks for NoHooks {}
