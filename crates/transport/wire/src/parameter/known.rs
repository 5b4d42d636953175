//! The parameter types of the RFCs.

use core::net::{Ipv4Addr, Ipv6Addr};

use alloc::vec::Vec;

use super::{Parameters, RawParameter, kind};
use crate::cause::Causes;
use crate::error::ParameterError;
use crate::list::U16List;
use crate::reader::Reader;
use crate::serial::Tsn;
use crate::tlv;

/// A decoded parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Parameter<'a> {
    /// Opaque to all but the sender of the HEARTBEAT.
    HeartbeatInfo(&'a [u8]),
    /// An address of the sender.
    Ipv4Address(Ipv4Addr),
    /// An address of the sender.
    Ipv6Address(Ipv6Addr),
    /// The peer returns it unchanged in a COOKIE ECHO.
    StateCookie(&'a [u8]),
    /// A whole parameter that the peer did not know.
    UnrecognizedParameter(&'a [u8]),
    /// Asks for a longer cookie lifetime, in milliseconds.
    CookiePreservative(u32),
    /// A host name; deprecated, and answered with an ABORT.
    HostNameAddress(&'a [u8]),
    /// Address types (as parameter types) the sender can use.
    SupportedAddressTypes(U16List<'a>),
    /// Asks to reset the sender's outgoing streams (all if none are listed).
    OutgoingResetRequest {
        /// Number of this request.
        request: u32,
        /// Number of the peer's request that this request answers.
        response: u32,
        /// Last TSN that the sender has assigned.
        last_tsn: Tsn,
        /// Streams to reset.
        streams: U16List<'a>,
    },
    /// Asks the peer to reset its outgoing streams (all if none are listed).
    IncomingResetRequest {
        /// Number of this request.
        request: u32,
        /// Streams to reset.
        streams: U16List<'a>,
    },
    /// Asks for new TSNs and SSNs in both directions; has the request number.
    TsnResetRequest(u32),
    /// The answer to a re-configuration request.
    ReconfigResponse {
        /// Number of the answered request.
        response: u32,
        /// 0 nothing to do, 1 performed, 2 denied, 3 wrong SSN, 4 already in
        /// progress, 5 bad sequence number, 6 in progress.
        result: u32,
        /// Sender's and receiver's next TSN, in answers to a TSN reset.
        next_tsns: Option<(Tsn, Tsn)>,
    },
    /// Asks for more streams from the sender to the peer.
    AddOutgoingStreams {
        /// Number of this request.
        request: u32,
        /// Number of additional streams.
        count: u16,
    },
    /// Asks for more streams from the peer to the sender.
    AddIncomingStreams {
        /// Number of this request.
        request: u32,
        /// Number of additional streams.
        count: u16,
    },
    /// The sender supports ECN as in RFC 4960.
    EcnCapable,
    /// The sender accepts packets without checksum, with this error detection
    /// method (RFC 9653).
    ZeroChecksumAcceptable(u32),
    /// Random bytes for the authentication key.
    Random(&'a [u8]),
    /// Chunk types that must be authenticated.
    ChunkList(&'a [u8]),
    /// HMAC identifiers in order of preference.
    RequestedHmacAlgorithm(U16List<'a>),
    /// Padding.
    Padding(&'a [u8]),
    /// Chunk types of extensions that the sender supports.
    SupportedExtensions(&'a [u8]),
    /// The sender understands FORWARD TSN.
    ForwardTsnSupported,
    /// Asks to add an address.
    AddIpAddress {
        /// Returned in the answer.
        correlation: u32,
        /// The address parameter.
        address: Parameters<'a>,
    },
    /// Asks to remove an address.
    DeleteIpAddress {
        /// Returned in the answer.
        correlation: u32,
        /// The address parameter.
        address: Parameters<'a>,
    },
    /// The reason why an ASCONF request failed.
    ErrorCauseIndication {
        /// The correlation identifier of the request.
        correlation: u32,
        /// The reason.
        causes: Causes<'a>,
    },
    /// Asks to use an address as the primary one.
    SetPrimaryAddress {
        /// Returned in the answer.
        correlation: u32,
        /// The address parameter.
        address: Parameters<'a>,
    },
    /// A request of an ASCONF succeeded; carries its correlation identifier.
    SuccessIndication(u32),
    /// Opaque value for the upper layer.
    AdaptationLayerIndication(u32),
    /// An unknown type.
    Unknown(RawParameter<'a>),
}

/// Decodes a value with `fields`, which must read the whole value.
fn fixed<'a, T>(
    raw: &RawParameter<'a>,
    fields: impl FnOnce(&mut Reader<'a>) -> Option<T>,
) -> Result<T, ParameterError> {
    let mut reader = Reader::new(raw.value);
    match fields(&mut reader) {
        Some(decoded) if reader.rest().is_empty() => Ok(decoded),
        _ => Err(wrong_length(raw)),
    }
}

fn wrong_length(raw: &RawParameter<'_>) -> ParameterError {
    ParameterError::ValueLength { kind: raw.kind, len: raw.value.len() }
}

/// A whole value as 16-bit numbers.
fn list16<'a>(reader: &mut Reader<'a>) -> Option<U16List<'a>> {
    let bytes = reader.rest();
    reader.take(bytes.len() & !1).map(U16List::new)
}

/// A correlation identifier and the TLVs after it.
fn correlated<'a>(reader: &mut Reader<'a>) -> Option<(u32, Parameters<'a>)> {
    let correlation = reader.u32()?;
    let inner = Parameters::new(reader.take(reader.rest().len())?);
    Some((correlation, inner))
}

impl<'a> Parameter<'a> {
    #[expect(clippy::too_many_lines, reason = "one arm for each parameter")]
    pub(super) fn decode(raw: RawParameter<'a>) -> Result<Self, ParameterError> {
        let value = raw.value;
        Ok(match raw.kind {
            kind::HEARTBEAT_INFO => Self::HeartbeatInfo(value),
            kind::IPV4_ADDRESS => Self::Ipv4Address(fixed(&raw, |r| r.u32())?.into()),
            kind::IPV6_ADDRESS => {
                let octets: [u8; 16] = value.try_into().map_err(|_| wrong_length(&raw))?;
                Self::Ipv6Address(octets.into())
            }
            kind::STATE_COOKIE => Self::StateCookie(value),
            kind::UNRECOGNIZED_PARAMETER => Self::UnrecognizedParameter(value),
            kind::COOKIE_PRESERVATIVE => Self::CookiePreservative(fixed(&raw, |r| r.u32())?),
            kind::HOST_NAME_ADDRESS => Self::HostNameAddress(value),
            kind::SUPPORTED_ADDRESS_TYPES => Self::SupportedAddressTypes(fixed(&raw, list16)?),
            kind::OUTGOING_RESET_REQUEST => fixed(&raw, |r| {
                Some(Self::OutgoingResetRequest {
                    request: r.u32()?,
                    response: r.u32()?,
                    last_tsn: Tsn(r.u32()?),
                    streams: list16(r)?,
                })
            })?,
            kind::INCOMING_RESET_REQUEST => fixed(&raw, |r| {
                Some(Self::IncomingResetRequest { request: r.u32()?, streams: list16(r)? })
            })?,
            kind::TSN_RESET_REQUEST => Self::TsnResetRequest(fixed(&raw, |r| r.u32())?),
            kind::RECONFIG_RESPONSE => fixed(&raw, |r| {
                Some(Self::ReconfigResponse {
                    response: r.u32()?,
                    result: r.u32()?,
                    next_tsns: match r.rest() {
                        [] => None,
                        _ => Some((Tsn(r.u32()?), Tsn(r.u32()?))),
                    },
                })
            })?,
            kind::ADD_OUTGOING_STREAMS => {
                let (request, count) = fixed(&raw, more_streams)?;
                Self::AddOutgoingStreams { request, count }
            }
            kind::ADD_INCOMING_STREAMS => {
                let (request, count) = fixed(&raw, more_streams)?;
                Self::AddIncomingStreams { request, count }
            }
            kind::ECN_CAPABLE => fixed(&raw, |_| Some(Self::EcnCapable))?,
            kind::ZERO_CHECKSUM_ACCEPTABLE => {
                Self::ZeroChecksumAcceptable(fixed(&raw, |r| r.u32())?)
            }
            kind::RANDOM => Self::Random(value),
            kind::CHUNK_LIST => Self::ChunkList(value),
            kind::REQUESTED_HMAC_ALGORITHM => Self::RequestedHmacAlgorithm(fixed(&raw, list16)?),
            kind::PADDING => Self::Padding(value),
            kind::SUPPORTED_EXTENSIONS => Self::SupportedExtensions(value),
            kind::FORWARD_TSN_SUPPORTED => fixed(&raw, |_| Some(Self::ForwardTsnSupported))?,
            kind::ADD_IP_ADDRESS => {
                let (correlation, address) = fixed(&raw, correlated)?;
                Self::AddIpAddress { correlation, address }
            }
            kind::DELETE_IP_ADDRESS => {
                let (correlation, address) = fixed(&raw, correlated)?;
                Self::DeleteIpAddress { correlation, address }
            }
            kind::ERROR_CAUSE_INDICATION => {
                let (correlation, causes) = fixed(&raw, correlated)?;
                Self::ErrorCauseIndication { correlation, causes: Causes::new(causes.bytes()) }
            }
            kind::SET_PRIMARY_ADDRESS => {
                let (correlation, address) = fixed(&raw, correlated)?;
                Self::SetPrimaryAddress { correlation, address }
            }
            kind::SUCCESS_INDICATION => Self::SuccessIndication(fixed(&raw, |r| r.u32())?),
            kind::ADAPTATION_LAYER_INDICATION => {
                Self::AdaptationLayerIndication(fixed(&raw, |r| r.u32())?)
            }
            _ => Self::Unknown(raw),
        })
    }

    /// The parameter's type.
    #[must_use]
    pub const fn kind(&self) -> u16 {
        match self {
            Self::HeartbeatInfo(_) => kind::HEARTBEAT_INFO,
            Self::Ipv4Address(_) => kind::IPV4_ADDRESS,
            Self::Ipv6Address(_) => kind::IPV6_ADDRESS,
            Self::StateCookie(_) => kind::STATE_COOKIE,
            Self::UnrecognizedParameter(_) => kind::UNRECOGNIZED_PARAMETER,
            Self::CookiePreservative(_) => kind::COOKIE_PRESERVATIVE,
            Self::HostNameAddress(_) => kind::HOST_NAME_ADDRESS,
            Self::SupportedAddressTypes(_) => kind::SUPPORTED_ADDRESS_TYPES,
            Self::OutgoingResetRequest { .. } => kind::OUTGOING_RESET_REQUEST,
            Self::IncomingResetRequest { .. } => kind::INCOMING_RESET_REQUEST,
            Self::TsnResetRequest(_) => kind::TSN_RESET_REQUEST,
            Self::ReconfigResponse { .. } => kind::RECONFIG_RESPONSE,
            Self::AddOutgoingStreams { .. } => kind::ADD_OUTGOING_STREAMS,
            Self::AddIncomingStreams { .. } => kind::ADD_INCOMING_STREAMS,
            Self::EcnCapable => kind::ECN_CAPABLE,
            Self::ZeroChecksumAcceptable(_) => kind::ZERO_CHECKSUM_ACCEPTABLE,
            Self::Random(_) => kind::RANDOM,
            Self::ChunkList(_) => kind::CHUNK_LIST,
            Self::RequestedHmacAlgorithm(_) => kind::REQUESTED_HMAC_ALGORITHM,
            Self::Padding(_) => kind::PADDING,
            Self::SupportedExtensions(_) => kind::SUPPORTED_EXTENSIONS,
            Self::ForwardTsnSupported => kind::FORWARD_TSN_SUPPORTED,
            Self::AddIpAddress { .. } => kind::ADD_IP_ADDRESS,
            Self::DeleteIpAddress { .. } => kind::DELETE_IP_ADDRESS,
            Self::ErrorCauseIndication { .. } => kind::ERROR_CAUSE_INDICATION,
            Self::SetPrimaryAddress { .. } => kind::SET_PRIMARY_ADDRESS,
            Self::SuccessIndication(_) => kind::SUCCESS_INDICATION,
            Self::AdaptationLayerIndication(_) => kind::ADAPTATION_LAYER_INDICATION,
            Self::Unknown(raw) => raw.kind,
        }
    }

    /// Appends header, value and padding to `out`.
    ///
    /// A value of more than 65528 bytes is cut there. The padding of the last
    /// parameter is dropped again when [`Parameters::new`] wraps the result,
    /// because a chunk's length does not count it.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let start = out.len();
        tlv::write(out, self.kind().to_be_bytes(), |out| self.encode_value(out));
        tlv::pad(out, start);
    }

    fn encode_value(&self, out: &mut Vec<u8>) {
        match *self {
            Self::EcnCapable | Self::ForwardTsnSupported => {}
            Self::HeartbeatInfo(bytes)
            | Self::StateCookie(bytes)
            | Self::UnrecognizedParameter(bytes)
            | Self::HostNameAddress(bytes)
            | Self::Random(bytes)
            | Self::ChunkList(bytes)
            | Self::Padding(bytes)
            | Self::SupportedExtensions(bytes) => out.extend_from_slice(bytes),
            Self::Ipv4Address(address) => out.extend_from_slice(&address.octets()),
            Self::Ipv6Address(address) => out.extend_from_slice(&address.octets()),
            // req: rfc6525 4.3 "parameter; the value MUST be 8"
            Self::CookiePreservative(word)
            | Self::TsnResetRequest(word)
            | Self::ZeroChecksumAcceptable(word)
            | Self::SuccessIndication(word)
            | Self::AdaptationLayerIndication(word) => put(out, &[word]),
            Self::SupportedAddressTypes(list) | Self::RequestedHmacAlgorithm(list) => {
                out.extend_from_slice(list.bytes());
            }
            // req: rfc6525 4.1 "the value MUST be 16 + 2 * N, where N is the number of stream numbers"
            Self::OutgoingResetRequest { request, response, last_tsn, streams } => {
                put(out, &[request, response, last_tsn.0]);
                out.extend_from_slice(streams.bytes());
            }
            // req: rfc6525 4.2 "the value MUST be 8 + 2 * N"
            Self::IncomingResetRequest { request, streams } => {
                put(out, &[request]);
                out.extend_from_slice(streams.bytes());
            }
            // req: rfc6525 4.4 "MUST be 12 if the optional fields are not present and 20"
            Self::ReconfigResponse { response, result, next_tsns } => {
                put(out, &[response, result]);
                if let Some((sender, receiver)) = next_tsns {
                    put(out, &[sender.0, receiver.0]);
                }
            }
            // req: rfc6525 4.5 "parameter; the value MUST be 12"
            // req: rfc6525 4.6 "parameter; the value MUST be 12"
            // req: rfc6525 4.5 "It SHOULD be set to 0 by the sender and"
            // req: rfc6525 4.6 "It SHOULD be set to 0 by the sender and"
            Self::AddOutgoingStreams { request, count }
            | Self::AddIncomingStreams { request, count } => {
                put(out, &[request, u32::from(count) << 16]);
            }
            Self::AddIpAddress { correlation, address: inner }
            | Self::DeleteIpAddress { correlation, address: inner }
            | Self::SetPrimaryAddress { correlation, address: inner } => {
                put(out, &[correlation]);
                out.extend_from_slice(inner.bytes());
            }
            Self::ErrorCauseIndication { correlation, causes } => {
                put(out, &[correlation]);
                out.extend_from_slice(causes.bytes());
            }
            Self::Unknown(raw) => out.extend_from_slice(raw.value),
        }
    }
}

/// Request number and count of an "add streams" request.
fn more_streams(reader: &mut Reader<'_>) -> Option<(u32, u16)> {
    let (request, count) = (reader.u32()?, reader.u16()?);
    reader.u16()?;
    Some((request, count))
}

fn put(out: &mut Vec<u8>, words: &[u32]) {
    for word in words {
        out.extend_from_slice(&word.to_be_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chunk::testing::hex;

    /// Decodes one padded parameter, checks its text, and that encoding gives
    /// the same bytes again.
    fn capture(text: &str, shown: &str) {
        let bytes = hex(text);
        let raw = Parameters::new(&bytes).iter().next().unwrap().unwrap();
        let parameter = raw.decode().unwrap();
        assert_eq!(parameter.to_string(), shown);
        assert_eq!(parameter.kind(), raw.kind);
        let mut out = Vec::new();
        parameter.encode(&mut out);
        assert_eq!(out, bytes);
    }

    #[test]
    // test: rfc9260 3.2.1 "MUST ignore the padding bytes"
    fn of_init_and_init_ack() {
        capture("00050008 c0000201", "192.0.2.1");
        capture("00060014 20010db8000000000000000000000001", "2001:db8::1");
        capture("00070007 01020300", "cookie 3 bytes");
        capture("00080008 c0ff0004", "unrecognized 0xc0ff0004");
        capture("00090008 000003e8", "cookie life +1000 ms");
        capture("000b0008 612e6200", "host name 0x612e6200");
        capture("000c0008 00050006", "address types 5,6");
        capture("80000004", "ecn capable");
        capture("80010008 00000001", "zero checksum method 1");
        capture("80050006 00000000", "padding 2 bytes");
        capture("80080007 c040fe00", "extensions FORWARD TSN,I-DATA,chunk 0xfe");
        capture("c0000004", "forward tsn supported");
        capture("c0060008 00000007", "adaptation 0x00000007");
        capture("00010008 01020304", "heartbeat info 4 bytes");
    }

    #[test]
    fn of_authentication() {
        capture("80020008 01020304", "random 4 bytes");
        capture("80030006 c1800000", "authenticated ASCONF,ASCONF-ACK");
        capture("80040008 00030001", "hmac 3,1");
    }

    #[test]
    // test: rfc6525 4.1 "the value MUST be 16 + 2 * N, where N is the number of stream numbers"
    // test: rfc6525 4.2 "the value MUST be 8 + 2 * N"
    // test: rfc6525 4.3 "parameter; the value MUST be 8"
    // test: rfc6525 4.4 "MUST be 12 if the optional fields are not present and 20"
    // test: rfc6525 4.5 "parameter; the value MUST be 12"
    // test: rfc6525 4.6 "parameter; the value MUST be 12"
    // test: rfc6525 4.5 "It SHOULD be set to 0 by the sender and"
    // test: rfc6525 4.6 "It SHOULD be set to 0 by the sender and"
    fn of_reconfiguration() {
        capture(
            "000d0010 00000001 00000002 00000003",
            "reset outgoing request 1 response 2 last tsn 3 streams all",
        );
        capture("000e000c 00000001 00050006", "reset incoming request 1 streams 5,6");
        capture("000f0008 00000001", "reset tsn request 1");
        capture("0010000c 00000001 00000006", "response 1 result 6");
        capture(
            "00100014 00000001 00000001 0000000a 0000000b",
            "response 1 result 1 next tsns 10 11",
        );
        capture("0011000c 00000001 00030000", "add 3 outgoing streams request 1");
        capture("0012000c 00000001 00030000", "add 3 incoming streams request 1");
    }

    #[test]
    fn of_address_changes() {
        let address = "00000009 00050008 c0000201";
        capture(&format!("c0010010 {address}"), "add [192.0.2.1] id 9");
        capture(&format!("c0020010 {address}"), "delete [192.0.2.1] id 9");
        capture(&format!("c0040010 {address}"), "set primary [192.0.2.1] id 9");
        capture("c0050008 00000009", "success id 9");
        capture("c003000c 00000009 00a10004", "failed [resource shortage empty] id 9");
    }

    #[test]
    fn unknown_ones_stay_as_they_are() {
        capture("4abc0006 01020000", "parameter 0x4abc 0x0102");
    }

    #[test]
    fn values_of_the_wrong_size_are_refused() {
        for text in [
            "00050009 c000020100",
            "00060008 c0000201",
            "00090004",
            "000c0005 00",
            "000d000c 00000001 00000002",
            "0010000e 00000001 00000001 0000",
            "00100010 00000001 00000001 00000001",
            "0011000a 00000001 0003",
            "80000008 00000000",
            "80010004",
            "c0000005 00",
            "c0010007 000000",
            "c0060006 0000",
        ] {
            let bytes = hex(text);
            let raw = Parameters::new(&bytes).iter().next().unwrap().unwrap();
            let (kind, len) = (raw.kind, raw.value.len());
            assert_eq!(raw.decode(), Err(ParameterError::ValueLength { kind, len }), "{text}");
        }
    }
}
