//! Parameters in the text of traces.

use core::fmt;

use super::Parameter;
use crate::chunk::kind::Name;
use crate::list::U16List;
use crate::text::{Bytes, join};

impl fmt::Display for Parameter<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::HeartbeatInfo(info) => write!(f, "heartbeat info {} bytes", info.len()),
            Self::Ipv4Address(address) => address.fmt(f),
            Self::Ipv6Address(address) => address.fmt(f),
            Self::StateCookie(cookie) => write!(f, "cookie {} bytes", cookie.len()),
            Self::UnrecognizedParameter(tlv) => write!(f, "unrecognized {}", Bytes(tlv)),
            Self::CookiePreservative(ms) => write!(f, "cookie life +{ms} ms"),
            Self::HostNameAddress(name) => write!(f, "host name {}", Bytes(name)),
            Self::SupportedAddressTypes(types) => write!(f, "address types {types}"),
            Self::OutgoingResetRequest { request, response, last_tsn, streams } => write!(
                f,
                "reset outgoing request {request} response {response} last tsn {last_tsn} streams {}",
                Streams(streams)
            ),
            Self::IncomingResetRequest { request, streams } => {
                write!(f, "reset incoming request {request} streams {}", Streams(streams))
            }
            Self::TsnResetRequest(request) => write!(f, "reset tsn request {request}"),
            Self::ReconfigResponse { response, result, next_tsns } => {
                write!(f, "response {response} result {result}")?;
                match next_tsns {
                    Some((sender, receiver)) => write!(f, " next tsns {sender} {receiver}"),
                    None => Ok(()),
                }
            }
            Self::AddOutgoingStreams { request, count } => {
                write!(f, "add {count} outgoing streams request {request}")
            }
            Self::AddIncomingStreams { request, count } => {
                write!(f, "add {count} incoming streams request {request}")
            }
            Self::EcnCapable => f.write_str("ecn capable"),
            Self::ZeroChecksumAcceptable(method) => write!(f, "zero checksum method {method}"),
            Self::Random(bytes) => write!(f, "random {} bytes", bytes.len()),
            Self::ChunkList(kinds) => {
                f.write_str("authenticated ")?;
                kind_names(f, kinds)
            }
            Self::RequestedHmacAlgorithm(ids) => write!(f, "hmac {ids}"),
            Self::Padding(bytes) => write!(f, "padding {} bytes", bytes.len()),
            Self::SupportedExtensions(kinds) => {
                f.write_str("extensions ")?;
                kind_names(f, kinds)
            }
            Self::ForwardTsnSupported => f.write_str("forward tsn supported"),
            Self::AddIpAddress { correlation, address } => {
                write!(f, "add {address} id {correlation}")
            }
            Self::DeleteIpAddress { correlation, address } => {
                write!(f, "delete {address} id {correlation}")
            }
            Self::ErrorCauseIndication { correlation, causes } => {
                write!(f, "failed {causes} id {correlation}")
            }
            Self::SetPrimaryAddress { correlation, address } => {
                write!(f, "set primary {address} id {correlation}")
            }
            Self::SuccessIndication(correlation) => write!(f, "success id {correlation}"),
            Self::AdaptationLayerIndication(code) => write!(f, "adaptation 0x{code:08x}"),
            Self::Unknown(raw) => write!(f, "parameter 0x{:04x} {}", raw.kind, Bytes(raw.value)),
        }
    }
}

/// Streams of a reset request; an empty list means all.
struct Streams<'a>(U16List<'a>);

impl fmt::Display for Streams<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return f.write_str("all");
        }
        self.0.fmt(f)
    }
}

fn kind_names(f: &mut fmt::Formatter<'_>, kinds: &[u8]) -> fmt::Result {
    join(f, kinds.iter().map(|kind| Name(*kind)))
}
