//! Reads the peer's INIT or INIT ACK, and writes this side's.

use std::net::IpAddr;
use std::time::Duration;

use anabranch_wire::{Cause, Init, Parameter, Parameters, Tsn, kind, parameter_kind};
use bytes::Bytes;

use super::Surroundings;
use crate::authentication::Offer;
use crate::config::AssociationConfig;
use crate::features::Features;
use crate::path::address;

/// Maximum number of a peer's addresses that are used. The rest is ignored, so a list of other hosts'
/// addresses cannot make this side send to all of them.
pub(crate) const MAX_PEER_ADDRESSES: usize = 16;

/// The contents of the peer's INIT or INIT ACK.
#[derive(Debug, Default)]
pub(crate) struct Peer {
    pub(crate) tag: u32,
    pub(crate) rwnd: u32,
    pub(crate) outbound_streams: u16,
    pub(crate) inbound_streams: u16,
    pub(crate) initial_tsn: u32,
    /// The listed addresses, without the packet's source.
    pub(crate) addresses: Vec<IpAddr>,
    /// Listed addresses that are not valid in the scope of the packet's source address, such as
    /// private addresses next to a global one.
    out_of_scope: Vec<IpAddr>,
    pub(crate) adaptation: Option<u32>,
    pub(crate) cookie: Option<Bytes>,
    /// Features that the peer supports and wants.
    pub(crate) features: Features,
    /// Parameters to report as unrecognized, as they were received.
    pub(crate) unrecognized: Vec<Bytes>,
    /// What the peer says of authentication.
    pub(crate) offer: Offer,
    /// Additional cookie lifetime that the peer asks for.
    pub(crate) preserve: Option<Duration>,
}

/// Why an INIT or INIT ACK cannot be used: the error cause for the ABORT that answers it.
#[derive(Debug)]
pub(crate) struct Refusal {
    pub(crate) cause: Vec<u8>,
    pub(crate) why: &'static str,
}

impl Peer {
    /// Reads an INIT or INIT ACK from `source`.
    #[expect(clippy::too_many_lines, reason = "one arm for each parameter")]
    pub(crate) fn read(init: &Init<'_>, source: IpAddr) -> Result<Self, Refusal> {
        let mut peer = Self {
            tag: init.initiate_tag,
            rwnd: init.a_rwnd,
            outbound_streams: init.outbound_streams,
            inbound_streams: init.inbound_streams,
            initial_tsn: init.initial_tsn.0,
            ..Self::default()
        };
        let refuse = |cause: Cause<'_>, why| {
            let mut bytes = Vec::new();
            cause.encode(&mut bytes);
            Err(Refusal { cause: bytes, why })
        };
        // req: rfc9260 3.3.2 "A receiver of an INIT chunk with the a_rwnd"
        // req: rfc9260 3.3.2 "A receiver of an INIT chunk with the OS"
        // req: rfc9260 3.3.2 "A receiver of an INIT chunk with the MIS"
        // req: rfc9260 3.3.3 "OS value set to 0, it MUST destroy"
        // req: rfc9260 3.3.3 "MIS value set to 0, it MUST destroy"
        if init.a_rwnd < 1500 || init.outbound_streams == 0 || init.inbound_streams == 0 {
            return refuse(
                Cause::InvalidMandatoryParameter,
                "window or stream numbers that the protocol does not allow",
            );
        }
        for parameter in init.parameters.iter() {
            let Ok(raw) = parameter else {
                return refuse(
                    Cause::ProtocolViolation(b"malformed parameter"),
                    "a malformed parameter",
                );
            };
            let is_known = matches!(
                raw.kind,
                parameter_kind::IPV4_ADDRESS
                    | parameter_kind::IPV6_ADDRESS
                    | parameter_kind::STATE_COOKIE
                    | parameter_kind::UNRECOGNIZED_PARAMETER
                    | parameter_kind::COOKIE_PRESERVATIVE
                    | parameter_kind::HOST_NAME_ADDRESS
                    | parameter_kind::SUPPORTED_ADDRESS_TYPES
                    | parameter_kind::PADDING
                    | parameter_kind::SUPPORTED_EXTENSIONS
                    | parameter_kind::ADAPTATION_LAYER_INDICATION
            );
            if !is_known {
                peer.features |= Features::announced_by_parameter(raw.kind);
                peer.offer.note(&raw);
                // RFC 9260 section 3.2.1: the two highest bits determine what to do.
                // req: rfc3758 3.3.2 "does not support the Forward-TSN chunk type, the receiver MUST"
                let action = raw.unknown_action();
                if action.reports() && peer.unrecognized.len() < 16 {
                    peer.unrecognized.push(Bytes::copy_from_slice(raw.bytes()));
                }
                if !action.goes_on() {
                    break;
                }
                continue;
            }
            let Ok(parameter) = raw.decode() else {
                return refuse(
                    Cause::ProtocolViolation(b"malformed parameter"),
                    "a malformed parameter",
                );
            };
            match parameter {
                Parameter::Ipv4Address(v4) => peer.add_address(IpAddr::V4(v4), source),
                Parameter::Ipv6Address(v6) => peer.add_address(IpAddr::V6(v6), source),
                Parameter::StateCookie(cookie) => {
                    peer.cookie = Some(Bytes::copy_from_slice(cookie));
                }
                Parameter::CookiePreservative(millis) => {
                    peer.preserve = Some(Duration::from_millis(u64::from(millis)));
                }
                // req: rfc5061 4.2.6 "NOT be examined by the receiving SCTP implementation and should be"
                // req: rfc5061 4.2.6 "SHOULD be passed to the receiver's upper-layer protocol"
                Parameter::AdaptationLayerIndication(code) => peer.adaptation = Some(code),
                Parameter::SupportedExtensions(kinds) => {
                    peer.features |= Features::announced(kinds);
                }
                // req: rfc9260 5.1.2 "the endpoint MUST immediately send an"
                // req: rfc9260 3.3.2 "Host Name Address parameter MUST send an ABORT"
                // req: rfc9260 3.3.3 "Host Name Address parameter MUST send an ABORT"
                // req: rfc9260 3.3.2.1.4 "Host Name Address parameter MUST send an ABORT"
                // req: rfc9260 12.2.4.1 "MUST send an ABORT chunk in response"
                // req: rfc9260 3.3.2.1.5 "MUST be ignored when receiving this parameter"
                Parameter::HostNameAddress(_) => {
                    return refuse(
                        Cause::UnresolvableAddress(raw.bytes()),
                        "a host name in place of an address",
                    );
                }
                _ => {}
            }
        }
        Ok(peer)
    }

    /// Why the peer's INIT or INIT ACK cannot be used with these options.
    // req: rfc4895 6.1 "Number is not 32 bytes, the association MUST be aborted"
    // req: rfc4895 6.1 "chunk SHOULD contain the error cause"
    // req: rfc5061 6 "such an INIT MUST send an ABORT in"
    pub(crate) fn refusal(&self, config: &AssociationConfig) -> Option<Refusal> {
        let wanted = &config.authentication;
        let (reason, why) = if !wanted.authentication {
            return None;
        } else if self.offer.is_invalid() {
            let reason = Cause::ProtocolViolation(b"RANDOM is not 32 bytes long");
            (reason, "a random number of a wrong length")
        } else if config.addresses.address_reconfiguration
            && self.features.has(Features::ADDRESS_RECONFIGURATION)
            && self.offer.vector().is_none()
        {
            let reason = Cause::ProtocolViolation(b"ASCONF without AUTH");
            (reason, "changes of addresses without authentication")
        } else if wanted.require_authentication && self.offer.vector().is_none() {
            let reason = Cause::UserInitiatedAbort(b"authentication is required");
            (reason, "the peer does not support authentication")
        } else {
            return None;
        };
        let mut cause = Vec::new();
        reason.encode(&mut cause);
        Some(Refusal { cause, why })
    }

    fn add_address(&mut self, address: IpAddr, source: IpAddr) {
        let list = match address::may_be_listed(address, source) {
            true => &mut self.addresses,
            false => &mut self.out_of_scope,
        };
        if list.len() < MAX_PEER_ADDRESSES && !list.contains(&address) {
            list.push(address);
        }
    }

    /// The error cause for unknown parameters, sent with the COOKIE ECHO; empty if all are known.
    pub(crate) fn unrecognized_cause(&self) -> Vec<u8> {
        let mut cause = Vec::new();
        if self.unrecognized.is_empty() {
            return cause;
        }
        let mut all = Vec::new();
        for parameter in &self.unrecognized {
            // The padding of the last one does not belong to the cause.
            // RFC 9260 section 3.2: the length does not count it.
            all.resize(all.len().next_multiple_of(4), 0);
            all.extend_from_slice(parameter);
        }
        Cause::UnrecognizedParameters(&all).encode(&mut cause);
        cause
    }

    /// The features that both sides want, given these options of this side. The parameters that
    /// announced them are not reported as unrecognized.
    pub(crate) fn agree(&mut self, config: &AssociationConfig) -> Features {
        let mut wanted = config.features();
        // The list of extensions says nothing without the parameters, and these suffice.
        match self.offer.vector() {
            Some(vector) => {
                self.features |= Features::AUTHENTICATION;
                // Somebody may have shortened the list on its way.
                let chunks = vector.chunks();
                if !(chunks.has(kind::ASCONF) && chunks.has(kind::ASCONF_ACK)) {
                    wanted = wanted.without(Features::ADDRESS_RECONFIGURATION);
                }
            }
            None => wanted = wanted.without(Features::AUTHENTICATION),
        }
        let kind_of = |raw: &Bytes| raw.first_chunk().map_or(0, |kind| u16::from_be_bytes(*kind));
        self.unrecognized.retain(|raw| {
            let announced = Features::announced_by_parameter(kind_of(raw));
            announced == Features::NONE || !wanted.has(announced)
        });
        wanted.agreed(self.features)
    }

    /// Accepts these addresses, which the user passed, when the peer lists them, whatever the packet's
    /// source address is.
    pub(crate) fn vouch(&mut self, given: &[IpAddr]) {
        let vouched = self.out_of_scope.iter().filter(|address| given.contains(address)).copied();
        let room = MAX_PEER_ADDRESSES.saturating_sub(self.addresses.len());
        self.addresses.extend(vouched.take(room));
    }
}

/// The value of an INIT or INIT ACK chunk of this side.
#[allow(clippy::too_many_arguments)]
// req: rfc5061 4.2.6 "This parameter MUST NOT be sent in any"
// req: rfc5061 4.2.7 "sender MUST NOT include multiple Supported Extensions"
// req: rfc5061 4.2.7 "This parameter MUST NOT appear in any other"
pub(crate) fn init_value(
    tag: u32,
    initial_tsn: Tsn,
    streams: (u16, u16),
    config: &AssociationConfig,
    surroundings: &Surroundings,
    remotes: &[IpAddr],
    more: impl FnOnce(&mut Vec<u8>),
) -> Vec<u8> {
    let mut value = Vec::with_capacity(64);
    // req: rfc9260 5.1 "MUST provide its Verification Tag (Tag_A)"
    // req: rfc9260 5.1.1 "MUST indicate the number of outbound streams"
    value.extend_from_slice(&tag.to_be_bytes());
    let rwnd = u32::try_from(config.receiving.first_receive_buffer()).unwrap_or(u32::MAX);
    value.extend_from_slice(&rwnd.to_be_bytes());
    value.extend_from_slice(&streams.0.to_be_bytes());
    value.extend_from_slice(&streams.1.to_be_bytes());
    value.extend_from_slice(&initial_tsn.0.to_be_bytes());
    let listed: Vec<IpAddr> = (surroundings.locals.iter().copied())
        .filter(|local| remotes.iter().any(|remote| address::may_be_listed(*local, *remote)))
        .filter(|local| remotes.iter().any(|remote| reachable_family(*local, remote)))
        .collect();
    // A single address need not be listed, because it is the packet's source, even behind a NAT.
    // req: rfc6951 3.2 "associations, IP addresses MUST NOT be listed in"
    // req: rfc9260 3.3.2.1.2 "SHOULD instead use an IPv4 Address parameter"
    // req: rfc9260 3.3.2.1.2 "A sender MUST NOT use an IPv4-mapped"
    // req: rfc9260 3.3.2 "MUST NOT contain the Host Name Address"
    // req: rfc9260 3.3.2.1.4 "MUST NOT include this parameter"
    // req: rfc9260 3.3.3 "MUST NOT contain the Host Name Address"
    // req: rfc9260 3.3.3.1 "MUST NOT be included in an INIT ACK"
    // req: rfc9260 3.3.2 "each parameter MUST only be included once"
    // req: rfc9260 3.3.2.1.5 "MUST NOT be used when sending this"
    if listed.len() > 1 {
        for local in listed {
            match local {
                IpAddr::V4(v4) => Parameter::Ipv4Address(v4).encode(&mut value),
                IpAddr::V6(v6) => Parameter::Ipv6Address(v6).encode(&mut value),
            }
        }
    }
    if let Some(code) = config.adaptation_indication {
        Parameter::AdaptationLayerIndication(code).encode(&mut value);
    }
    // These have no value. rtc-sctp 0.21 discards an INIT whose last parameter has none.
    for parameter in config.features().parameters() {
        parameter.encode(&mut value);
    }
    let extensions = config.features().chunks();
    if !extensions.is_empty() {
        Parameter::SupportedExtensions(&extensions).encode(&mut value);
    }
    more(&mut value);
    // The chunk's length does not include the padding of the last parameter.
    let parameters = Parameters::new(&value[16..]).bytes().len();
    value.truncate(16 + parameters);
    value
}

/// Whether to list `local` to a peer at `remote`. The IP versions may differ: the peer chooses which
/// addresses it uses.
fn reachable_family(local: IpAddr, remote: &IpAddr) -> bool {
    address::is_unicast(local) && address::is_unicast(*remote)
}

/// The error cause of the ABORT for an INIT that would add these addresses.
// req: rfc9260 5.2.2 "SHOULD list the addresses that were added to"
pub(crate) fn new_addresses_cause(added: &[IpAddr]) -> Vec<u8> {
    let mut cause = Vec::new();
    Cause::RestartWithNewAddresses(&address_parameters(added)).encode(&mut cause);
    cause
}

/// The `Parameters` of a list of addresses, for an error cause.
fn address_parameters(addresses: &[IpAddr]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for address in addresses {
        match address {
            IpAddr::V4(v4) => Parameter::Ipv4Address(*v4).encode(&mut bytes),
            IpAddr::V6(v6) => Parameter::Ipv6Address(*v6).encode(&mut bytes),
        }
    }
    debug_assert!(Parameters::new(&bytes).iter().all(|parameter| parameter.is_ok()));
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_user_gave_is_believed_from_anywhere() {
        let [global, private, other]: [IpAddr; 3] =
            ["2001:db8::2", "10.1.0.2", "10.1.0.9"].map(|address| address.parse().unwrap());
        let mut value = Vec::new();
        for address in [private, other] {
            match address {
                IpAddr::V4(v4) => Parameter::Ipv4Address(v4).encode(&mut value),
                IpAddr::V6(v6) => Parameter::Ipv6Address(v6).encode(&mut value),
            }
        }
        let init = Init {
            initiate_tag: 1,
            a_rwnd: 1500,
            outbound_streams: 1,
            inbound_streams: 1,
            initial_tsn: Tsn(1),
            parameters: Parameters::new(&value),
        };
        let mut peer = Peer::read(&init, global).unwrap();
        assert!(peer.addresses.is_empty(), "private addresses behind a global one");
        peer.vouch(&[global, private]);
        assert_eq!(peer.addresses, [private], "and not what it lists besides");
        let mut near = Peer::read(&init, other).unwrap();
        near.vouch(&[private]);
        assert_eq!(near.addresses, [private, other]);
    }
}
