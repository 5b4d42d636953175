//! A protocol engine on a host.

use std::collections::BTreeMap;
use std::net::IpAddr;

use anabranch_proto::{AssociationId, Encapsulation, Endpoint, EndpointConfig};

use crate::application::ApplicationId;
use crate::packet::AddressId;
use crate::route_cache::{CachedRoute, RouteCache};

/// UDP port of encapsulated packets (RFC 6951).
pub(crate) const UDP_PORT: u16 = 9899;

/// Identifies an endpoint of a network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EndpointId(pub(crate) u32);

impl EndpointId {
    pub(crate) fn index(self) -> usize {
        self.0 as usize
    }
}

/// An endpoint and the network's state for it.
#[derive(Debug)]
pub(crate) struct EndpointState {
    pub(crate) endpoint: Endpoint,
    pub(crate) encapsulation: Encapsulation,
    /// Index of its node.
    pub(crate) node: usize,
    /// Its entry in the calendar.
    pub(crate) source: usize,
    pub(crate) owners: BTreeMap<AssociationId, ApplicationId>,
    pub(crate) listeners: BTreeMap<u16, ApplicationId>,
    /// Applications that every event here wakes, so that they write as much as fits.
    pub(crate) eager: Vec<ApplicationId>,
    /// Pairs of addresses between which packets were sent.
    pub(crate) ways: Vec<Way>,
    /// How routes to destinations are discovered, if that takes time.
    pub(crate) route_cache: Option<RouteCache>,
    pub(crate) routes: BTreeMap<AddressId, CachedRoute>,
}

/// The route of a pair of addresses.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Way {
    pub(crate) local: IpAddr,
    pub(crate) remote: IpAddr,
    pub(crate) source: AddressId,
    pub(crate) destination: AddressId,
    /// The channel through which packets leave.
    pub(crate) channel: usize,
    /// Bytes of IP and UDP headers.
    pub(crate) overhead: usize,
}

/// Options of endpoints in a simulator: SCTP directly over IP without checksums, because packets
/// are only damaged if a link is configured to do so.
pub(crate) fn default_config() -> EndpointConfig {
    let mut config = EndpointConfig::default();
    config.encapsulation = Encapsulation::Ip;
    config.checksum = false;
    config
}
