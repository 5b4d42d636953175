//! Options of sockets.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use anabranch::{AssociationConfig, Reliability};

use crate::endpoints::Local;
use crate::host::Host;
use crate::lock::lock;
use crate::message::SendInfo;
use crate::notification::EventKind;

/// The level of SCTP_FRAGMENT_INTERLEAVE at which the parts of messages of one association, on several streams, may
/// alternate.
pub(super) const ACROSS_STREAMS: u8 = 2;

/// Options of a socket.
#[derive(Clone, Debug)]
pub struct Options {
    /// Configuration of future associations.
    pub(crate) config: AssociationConfig,
    /// Local UDP port. `None`: `listen` uses the default port 9899, and `connect` a free one, whichever is
    /// called first.
    pub udp_port: Option<u16>,
    /// IP protocol 132 instead of UDP.
    pub raw: bool,
    /// Local addresses of all associations, whatever the socket is bound to, which may only be some of them or the
    /// wildcard address; empty if `bind` decides.
    pub addresses: Vec<Local>,
    /// UDP port of peers.
    pub(crate) remote_udp_port: u16,
    /// SCTP_RECVRCVINFO.
    pub receive_info: bool,
    /// SCTP_RECVNXTINFO.
    pub next_info: bool,
    /// SCTP_USE_EXT_RCVINFO: SCTP_EXTRCV instead of SCTP_SNDRCV.
    pub extended: bool,
    /// SO_LINGER.
    pub linger: Option<Duration>,
    /// SO_RCVTIMEO; `None` waits forever.
    pub receive_timeout: Option<Duration>,
    /// SO_SNDTIMEO; `None` waits forever.
    pub send_timeout: Option<Duration>,
    /// SO_BINDTODEVICE.
    pub(crate) interface: Option<String>,
    /// IP_TOS and IPV6_TCLASS, which share one value.
    pub(crate) traffic_class: u8,
    /// SCTP_DISABLE_FRAGMENTS: refuse messages that do not fit into one packet.
    pub whole: bool,
    /// SCTP_EXPLICIT_EOR (RFC 6458 section 8.1.26): a message goes on until a call with SCTP_EOR.
    pub explicit_end: bool,
    /// SO_KEEPALIVE, which has no effect: heartbeats keep associations alive anyway.
    pub keepalive: bool,
    /// SO_REUSEPORT, which has no effect: an SCTP port has one listener.
    pub reuse_port: bool,
    /// SCTP_MAXSEG as it was set; 0 for none.
    pub(crate) max_segment: u32,
    /// SCTP_I_WANT_MAPPED_V4_ADDR.
    pub(crate) mapped: bool,
    /// SCTP_EXPOSE_POTENTIALLY_FAILED_STATE; otherwise such a path is shown as active.
    pub expose_pf: bool,
    /// SCTP_FRAGMENT_INTERLEAVE.
    pub(crate) interleave: u8,
    /// Initial settings of future associations.
    pub(crate) own: Own,
}

/// Per-association settings besides the configuration (RFC 6458 section 7.1).
#[derive(Clone, Debug, Default)]
pub struct Own {
    /// Enabled notification types.
    pub events: BTreeSet<EventKind>,
    /// SCTP_CONTEXT: a number returned with every received message.
    pub context: u32,
    /// SCTP_DEFAULT_SNDINFO, without an association id.
    pub default_send: SendInfo,
    /// SCTP_STREAM_SCHEDULER_VALUE of the streams that have one: priorities, or weights.
    pub stream_values: BTreeMap<u16, u16>,
    /// SCTP_DEFAULT_PRINFO, and SCTP_DEFAULT_SEND_PARAM's policy and time to live.
    pub default_reliability: Reliability,
}

impl Options {
    pub(crate) fn new(host: &Host) -> Self {
        Self {
            config: lock(&host.config).clone(),
            udp_port: None,
            raw: false,
            addresses: Vec::new(),
            remote_udp_port: host.remote_udp_port,
            receive_info: false,
            next_info: false,
            extended: false,
            linger: None,
            receive_timeout: None,
            send_timeout: None,
            interface: None,
            traffic_class: 0,
            whole: false,
            explicit_end: false,
            keepalive: false,
            reuse_port: false,
            max_segment: 0,
            mapped: false,
            expose_pf: false,
            interleave: 1,
            own: Own::default(),
        }
    }

    /// Options of future associations, which [`Socket::configure`](super::Socket::configure) changes.
    pub fn config(&self) -> &AssociationConfig {
        &self.config
    }

    /// The configuration of an association that begins now. It offers interleaving only if the program has said that it
    /// can handle parts of several messages, wherever the option was switched on. Otherwise the parts of a message come
    /// one after the other.
    // req: rfc8260 2.2.1 "NOT indicate user message interleaving support unless the user"
    // req: rfc8260 2.2.1 "MUST indicate to the SCTP implementation its support for"
    // req: rfc8260 2.2.1 "MUST know that the application can handle interleaved"
    pub(crate) fn offered(&self, mut config: AssociationConfig) -> AssociationConfig {
        let across = self.interleave >= ACROSS_STREAMS;
        config.sending.interleaving &= across;
        config.receiving.fragment_interleave = across;
        config
    }

    /// SCTP_FRAGMENT_INTERLEAVE (RFC 6458 section 8.1.20), which
    /// [`Socket::set_fragment_interleave`](super::Socket::set_fragment_interleave) changes.
    pub fn fragment_interleave(&self) -> u8 {
        self.interleave
    }

    /// SO_BINDTODEVICE: the name of the interface, which
    /// [`Socket::choose_interface`](super::Socket::choose_interface) changes.
    pub fn interface(&self) -> Option<&str> {
        self.interface.as_deref()
    }

    /// SCTP_I_WANT_MAPPED_V4_ADDR, which [`Socket::set_mapped`](super::Socket::set_mapped) changes.
    pub fn mapped(&self) -> bool {
        self.mapped
    }

    /// SCTP_MAXSEG in bytes, which [`Socket::set_max_segment`](super::Socket::set_max_segment) changes; 0 if
    /// there is no such limit.
    pub fn max_segment(&self) -> u32 {
        self.max_segment
    }

    /// IP_TOS, which [`Socket::choose_traffic_class`](super::Socket::choose_traffic_class) changes.
    pub fn traffic_class(&self) -> u8 {
        self.traffic_class
    }

    /// `None` if messages may be fragmented; otherwise whether packets are raw.
    pub(crate) fn whole(&self) -> Option<bool> {
        self.whole.then_some(self.raw)
    }
}
