//! How long the body of a request that has a place may bring nothing.

use std::sync::Arc;
use std::time::Duration;

use super::{LEAST_PATIENCE, Stream};

/// Tells a service, as an extension of its request, how long to wait for the body.
#[derive(Clone, Debug)]
pub(crate) struct Patience(Arc<Stream>);

impl Patience {
    pub(crate) fn of(stream: &Arc<Stream>) -> Self {
        Self(Arc::clone(stream))
    }

    /// How long nothing may come, and whether others wait: for a place, or, if the service says so, for its own.
    pub(crate) fn now(&self, crowded: bool) -> (Duration, bool) {
        let places = &self.0.connection.places;
        let crowded = crowded || places.line().has_waiters();
        let patience = places.limits.patience;
        (if crowded { patience.min(LEAST_PATIENCE) } else { patience }, crowded)
    }
}
