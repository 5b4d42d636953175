//! Programs on the hosts.

use std::any::Any;
use std::net::IpAddr;
use std::sync::Arc;

use anabranch_proto::{
    Association, AssociationConfig, AssociationId, AssociationMut, ConnectRequest, Encapsulation,
    Event, Instant,
};

use crate::endpoint::{EndpointId, EndpointState};
use crate::error::SimError;

/// Identifies an application of a network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ApplicationId(pub(crate) u32);

/// A program that uses associations. Like a transfer, it may run on several hosts at once and so can measure both ends.
///
/// It owns the associations that it connects and those that arrive on the ports where it listens. An association is
/// forgotten after its [`Notification::Closed`](anabranch_proto::Notification::Closed).
pub trait Application: Any {
    /// Called once, at its start time.
    fn start(&mut self, context: &mut Context<'_>);

    /// Handles an event of one of its associations, at either end.
    fn event(
        &mut self,
        context: &mut Context<'_>,
        endpoint: EndpointId,
        association: AssociationId,
        event: Event,
    );

    /// Called at the time requested with [`Context::wake_at`].
    fn wake(&mut self, context: &mut Context<'_>);

    /// Whether it has finished; [`Network::run`](crate::Network::run) ends when all applications
    /// have.
    fn is_done(&self) -> bool;
}

/// An application in the network.
pub(crate) struct Running {
    /// `None` while it is being called.
    pub(crate) application: Option<Box<dyn Application>>,
    pub(crate) started: bool,
    /// Its entry in the calendar.
    pub(crate) source: usize,
}

/// The operations available to an application.
pub struct Context<'a> {
    pub(crate) now: Instant,
    pub(crate) application: ApplicationId,
    pub(crate) endpoints: &'a mut [EndpointState],
    /// Endpoints whose output must be collected.
    pub(crate) touched: &'a mut Vec<usize>,
    pub(crate) wake: Option<Instant>,
}

impl std::fmt::Debug for Context<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Context").field("now", &self.now).finish_non_exhaustive()
    }
}

impl Context<'_> {
    /// Virtual time.
    pub fn now(&self) -> Instant {
        self.now
    }

    /// Requests a call of [`Application::wake`] at `at`, replacing an earlier request.
    pub fn wake_at(&mut self, at: Instant) {
        self.wake = Some(at.max(self.now));
    }

    fn touch(&mut self, endpoint: EndpointId) -> &mut EndpointState {
        if !self.touched.contains(&endpoint.index()) {
            self.touched.push(endpoint.index());
        }
        &mut self.endpoints[endpoint.index()]
    }

    /// Addresses of an endpoint's host, in the order in which its links were created.
    pub fn addresses(&self, endpoint: EndpointId) -> &[IpAddr] {
        self.endpoints[endpoint.index()].endpoint.local_addresses()
    }

    /// Listens on an SCTP port; incoming associations belong to this application.
    ///
    /// # Errors
    /// [`SimError::Listen`].
    pub fn listen(
        &mut self,
        endpoint: EndpointId,
        port: u16,
        config: Arc<AssociationConfig>,
    ) -> Result<(), SimError> {
        let application = self.application;
        let state = self.touch(endpoint);
        state.endpoint.listen(port, config)?;
        state.listeners.insert(port, application);
        Ok(())
    }

    /// Starts an association with the endpoint's encapsulation.
    ///
    /// # Errors
    /// [`SimError::Connect`].
    pub fn connect(
        &mut self,
        endpoint: EndpointId,
        mut request: ConnectRequest,
    ) -> Result<AssociationId, SimError> {
        let (now, application) = (self.now, self.application);
        let state = self.touch(endpoint);
        request.remote_udp_port = match state.encapsulation {
            Encapsulation::Ip => 0,
            Encapsulation::Udp => crate::endpoint::UDP_PORT,
        };
        let id = state.endpoint.connect(now, request)?;
        state.owners.insert(id, application);
        Ok(id)
    }

    /// An association, mutable; `None` if it was removed.
    pub fn association(
        &mut self,
        endpoint: EndpointId,
        id: AssociationId,
    ) -> Option<AssociationMut<'_>> {
        let now = self.now;
        self.touch(endpoint).endpoint.association_mut(now, id)
    }

    /// An association, read-only; `None` if it was removed.
    pub fn look(&self, endpoint: EndpointId, id: AssociationId) -> Option<&Association> {
        self.endpoints[endpoint.index()].endpoint.association(id)
    }
}
