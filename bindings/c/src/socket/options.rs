//! What a socket was told, as it needs it. `ffi::options` knows the options' forms in C.

use std::collections::BTreeSet;
use std::time::Duration;

use anabranch::AssociationConfig;

use crate::host::{Host, lock};
use crate::message::SendInfo;
use crate::notification::EventKind;

/// Options of a socket.
#[derive(Clone, Debug)]
pub(crate) struct Options {
    /// For associations that come to be from now on.
    pub(crate) config: AssociationConfig,
    /// UDP port of this side; `None` leaves it to what the socket does first.
    pub(crate) udp_port: Option<u16>,
    /// IP protocol 132 in place of UDP.
    pub(crate) raw: bool,
    /// UDP port of peers.
    pub(crate) remote_udp_port: u16,
    /// SCTP_RECVRCVINFO and SCTP_RECVNXTINFO.
    pub(crate) receive_info: bool,
    pub(crate) next_info: bool,
    /// SCTP_USE_EXT_RCVINFO: SCTP_EXTRCV in place of SCTP_SNDRCV.
    pub(crate) extended: bool,
    /// SO_LINGER.
    pub(crate) linger: Option<Duration>,
    /// SO_RCVTIMEO and SO_SNDTIMEO.
    pub(crate) receive_timeout: Option<Duration>,
    pub(crate) send_timeout: Option<Duration>,
    /// SO_BINDTODEVICE.
    pub(crate) interface: Option<String>,
    /// IP_TOS and IPV6_TCLASS, which are one.
    pub(crate) traffic_class: u8,
    /// SCTP_DISABLE_FRAGMENTS: what does not fit into one packet is refused.
    pub(crate) whole: bool,
    /// SO_KEEPALIVE and SO_REUSEPORT, which change nothing but what they are asked for.
    pub(crate) keepalive: bool,
    pub(crate) reuse_port: bool,
    /// SCTP_MAXSEG as it was set; 0 for none.
    pub(crate) maxseg: u32,
    /// SCTP_I_WANT_MAPPED_V4_ADDR.
    pub(crate) mapped: bool,
    /// SCTP_EXPOSE_POTENTIALLY_FAILED_STATE; otherwise such a path is shown as active.
    pub(crate) expose_pf: bool,
    /// What associations to come begin with.
    pub(crate) own: Own,
}

/// What each association has for itself beside its configuration (RFC 6458 section 7.1).
#[derive(Clone, Debug, Default)]
pub(crate) struct Own {
    /// Types of notifications that are wanted.
    pub(crate) events: BTreeSet<EventKind>,
    /// SCTP_CONTEXT: a number that comes with every message received.
    pub(crate) context: u32,
    /// SCTP_DEFAULT_SNDINFO, without the number of an association.
    pub(crate) default_send: SendInfo,
    /// SCTP_DEFAULT_PRINFO, and SCTP_DEFAULT_SEND_PARAM's time to live.
    pub(crate) default_lifetime: Option<Duration>,
}

impl Options {
    pub(crate) fn new(host: &Host) -> Self {
        Self {
            config: lock(&host.config).clone(),
            udp_port: None,
            raw: false,
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
            keepalive: false,
            reuse_port: false,
            maxseg: 0,
            mapped: false,
            expose_pf: false,
            own: Own::default(),
        }
    }

    /// Options of associations to come, which [`Socket::configure`](super::Socket::configure) changes.
    pub(crate) fn config(&self) -> &AssociationConfig {
        &self.config
    }

    /// SO_BINDTODEVICE: the name of the interface, which
    /// [`Socket::choose_interface`](super::Socket::choose_interface) changes.
    pub(crate) fn interface(&self) -> Option<&str> {
        self.interface.as_deref()
    }

    /// IP_TOS, which [`Socket::choose_traffic_class`](super::Socket::choose_traffic_class) changes.
    pub(crate) fn traffic_class(&self) -> u8 {
        self.traffic_class
    }

    /// Whether messages must not be fragmented, and then whether their packets are raw.
    pub(crate) fn whole(&self) -> Option<bool> {
        self.whole.then_some(self.raw)
    }
}
