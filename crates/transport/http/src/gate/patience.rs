//! How long the body of a request that holds a place may make no progress.

use std::sync::Arc;
use std::time::Duration;

use super::{LEAST_PATIENCE, Stream};

/// An extension of requests that tells a service how long to wait for the body.
#[derive(Clone, Debug)]
pub(crate) struct Patience(Arc<Stream>);

impl Patience {
    pub(crate) fn of(stream: &Arc<Stream>) -> Self {
        Self(Arc::clone(stream))
    }

    /// How long the body may make no progress, and whether other requests wait: for a place, or, with
    /// `crowded`, for a resource of the service.
    pub(crate) fn now(&self, crowded: bool) -> (Duration, bool) {
        let places = &self.0.connection.places;
        let crowded = crowded || places.line().has_waiters();
        let patience = places.limits.patience;
        (if crowded { patience.min(LEAST_PATIENCE) } else { patience }, crowded)
    }
}
