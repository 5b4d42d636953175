//! Options of endpoints.

use std::net::IpAddr;
use std::time::Duration;

use super::{ConfigError, Encapsulation};
use crate::tag_mark::TagMark;

/// Options of an [`Endpoint`](crate::Endpoint).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct EndpointConfig {
    /// The layer below SCTP, whose headers reduce the path MTU.
    pub encapsulation: Encapsulation,
    /// Bytes that a layer between SCTP and the encapsulation adds to each packet, such as a seal: they
    /// reduce the path MTU as well. Default: 0.
    pub shim: u8,
    /// Valid.Cookie.Life: how long a State Cookie may be used. Default: 60 s.
    pub valid_cookie_life: Duration,
    /// How often a fresh cookie secret is made; the previous one remains valid. Default: 10 minutes.
    pub cookie_secret_lifetime: Duration,
    /// Maximum number of associations. An idle one needs less than 4 KiB. When the endpoint is full,
    /// a new association evicts one that makes no progress and has never carried data, or whose peer
    /// does not accept the data that it requested; at addresses with more than a quarter of all
    /// associations also an idle one. If there is none to evict, the new association is refused.
    /// Default: 65,536.
    pub max_associations: usize,
    /// Maximum bytes of the receive and send buffers of all associations together, at least 65,536.
    /// Each association is guaranteed 16 KiB of them (or a sixteenth, if that is less), and an eighth
    /// is reserved for new ones. Once the rest is used up, associations above the guaranteed amount
    /// close their windows and refuse sends. A second later, out-of-order data that was not reported
    /// as non-renegable is dropped, first on associations without progress. If that is not enough,
    /// associations without progress for three RTOs (at least 10 s, at most 60 s) are ended, those
    /// that hold most first. Data that fills gaps may exceed the limit. Default: 1 GiB.
    pub memory_limit: usize,
    /// Maximum number of answers to packets without an association (INIT ACK, ABORT, SHUTDOWN
    /// COMPLETE) that wait for the driver; further ones are dropped. Default: 1,024.
    pub max_stateless_replies: usize,
    /// Maximum number of address pairs whose metrics are stored for later associations; 0 stores
    /// none. The option [`metric_cache`](super::PathConfig::metric_cache) decides whether an
    /// association uses them, and which. Default: 1,024.
    pub metric_cache_entries: usize,
    /// How long metrics are stored. Default: 10 minutes.
    pub metric_cache_life: Duration,
    /// Whether out-of-the-blue packets are answered (RFC 9260 section 8.4).
    pub out_of_the_blue: OutOfTheBlue,
    /// Whether the CRC32c of packets is computed and checked. Only simulators switch it off, to save
    /// time, and drivers whose packets are sealed; other drivers of real sockets always switch it on.
    /// (The zero checksum of RFC 9653 is different: both ends agree on it.)
    pub checksum: bool,
    /// Which local addresses reach which remote addresses.
    pub routes: Routes,
    /// The first TSN of every association, for simulations of TSNs that wrap. `None` draws a random
    /// one, as required on a network.
    pub initial_tsn: Option<u32>,
    /// A mark that verification tags carry, so that a driver can have them recognised before packets
    /// reach it. `None`, the default, draws all 32 bits at random.
    pub tag_mark: Option<TagMark>,
    /// For simulations: one in this many decisions chooses behaviour that is allowed but rare
    /// (packets that are not filled, acknowledgements that are sent alone or immediately, data that
    /// is dropped for lack of memory). 0 means never.
    #[cfg(feature = "invariants")]
    pub buggify: u32,
    /// Bytes that an association may send before the next one may send. Default: 65,536.
    pub quantum: usize,
}

impl Default for EndpointConfig {
    fn default() -> Self {
        Self {
            encapsulation: Encapsulation::Udp,
            shim: 0,
            valid_cookie_life: Duration::from_secs(60),
            cookie_secret_lifetime: Duration::from_secs(600),
            max_associations: 65_536,
            memory_limit: 1 << 30,
            max_stateless_replies: 1_024,
            metric_cache_entries: 1_024,
            metric_cache_life: Duration::from_secs(600),
            out_of_the_blue: OutOfTheBlue::Answer,
            checksum: true,
            routes: Routes::Any,
            initial_tsn: None,
            tag_mark: None,
            #[cfg(feature = "invariants")]
            buggify: 0,
            quantum: 65_536,
        }
    }
}

impl EndpointConfig {
    /// Returns these options after `change`, for use in expressions.
    ///
    /// ```
    /// use anabranch_proto::config::EndpointConfig;
    ///
    /// let config = EndpointConfig::default().with(|config| config.max_associations = 100);
    /// assert!(config.validate().is_ok());
    /// ```
    #[must_use]
    pub fn with(mut self, change: impl FnOnce(&mut Self)) -> Self {
        change(&mut self);
        self
    }

    /// Checks every option against its range.
    ///
    /// # Errors
    /// The first option that is out of range.
    pub fn validate(&self) -> Result<(), ConfigError> {
        let check = |ok: bool, option: &'static str, reason: &'static str| {
            if ok { Ok(()) } else { Err(ConfigError::new(option, reason)) }
        };
        check(
            self.valid_cookie_life >= Duration::from_millis(1),
            "valid_cookie_life",
            "must be at least 1 ms",
        )?;
        // Cookies of the secret before the previous one cannot be checked.
        check(
            self.cookie_secret_lifetime >= self.valid_cookie_life,
            "cookie_secret_lifetime",
            "must not be below valid_cookie_life",
        )?;
        check(
            (1..=1 << 24).contains(&self.max_associations),
            "max_associations",
            "must lie between 1 and 16777216",
        )?;
        check(self.memory_limit >= 65_536, "memory_limit", "must be at least 65536 bytes")?;
        check(
            (1..=1 << 20).contains(&self.max_stateless_replies),
            "max_stateless_replies",
            "must lie between 1 and 1048576",
        )?;
        check(
            self.metric_cache_entries <= 1 << 24,
            "metric_cache_entries",
            "must be at most 16777216",
        )?;
        check((1..=1 << 30).contains(&self.quantum), "quantum", "must lie between 1 byte and 1 GiB")
    }
}

/// How packets that do not belong to an association are handled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutOfTheBlue {
    /// They are answered as RFC 9260 section 8.4 requires.
    Answer,
    /// Only INIT for a listening port, COOKIE ECHO and SHUTDOWN ACK are answered, so that a host that
    /// shares its addresses with another stack does not end that stack's associations.
    Silent,
}

/// The versions of IP that associations use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum IpVersions {
    /// IPv4 and IPv6.
    #[default]
    Both,
    /// Only IPv4: IPv6 addresses are not announced to the peer, and those of the peer are not used.
    Ipv4,
    /// Only IPv6, in the same way.
    Ipv6,
}

impl IpVersions {
    /// Whether an address is of an included version.
    pub fn include(self, address: IpAddr) -> bool {
        match self {
            Self::Both => true,
            Self::Ipv4 => address.is_ipv4(),
            Self::Ipv6 => address.is_ipv6(),
        }
    }
}

/// Which local addresses reach which remote addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Routes {
    /// Every local address reaches every remote address of its family and scope.
    Any,
    /// Only these pairs (local, remote).
    Pairs(Vec<(IpAddr, IpAddr)>),
    /// Every local IPv6 address reaches every remote one that ends with the same byte: the number of a
    /// path, where a layer below shows the engine paths as addresses.
    Numbered,
}

impl Routes {
    /// Whether packets from `local` can reach `remote`.
    ///
    /// Loopback addresses reach only loopback addresses, and link-local ones only link-local ones.
    pub fn reaches(&self, local: IpAddr, remote: IpAddr) -> bool {
        match self {
            Self::Any => crate::path::address::same_scope(local, remote),
            Self::Pairs(pairs) => pairs.contains(&(local, remote)),
            Self::Numbered => match (local, remote) {
                (IpAddr::V6(local), IpAddr::V6(remote)) => {
                    local.octets().last() == remote.octets().last()
                }
                _ => false,
            },
        }
    }
}
