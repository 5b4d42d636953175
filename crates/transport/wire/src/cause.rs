//! Error causes of ERROR and ABORT chunks.

use core::fmt;

use alloc::vec::Vec;

use crate::error::ParameterError;
use crate::list::U16List;
use crate::parameter::{ParameterIter, Parameters, RawParameter};
use crate::reader::Reader;
use crate::serial::Tsn;
use crate::text::Bytes;
use crate::tlv;

/// Cause codes by name.
pub mod cause_code {
    /// Data for a stream that does not exist (RFC 9260 section 3.3.10.1).
    pub const INVALID_STREAM_IDENTIFIER: u16 = 1;
    /// A mandatory parameter is missing (RFC 9260 section 3.3.10.2).
    pub const MISSING_MANDATORY_PARAMETER: u16 = 2;
    /// The cookie has expired (RFC 9260 section 3.3.10.3).
    pub const STALE_COOKIE: u16 = 3;
    /// The sender lacks resources (RFC 9260 section 3.3.10.4).
    pub const OUT_OF_RESOURCE: u16 = 4;
    /// An address cannot be used (RFC 9260 section 3.3.10.5).
    pub const UNRESOLVABLE_ADDRESS: u16 = 5;
    /// An unknown chunk type (RFC 9260 section 3.3.10.6).
    pub const UNRECOGNIZED_CHUNK_TYPE: u16 = 6;
    /// A mandatory parameter has an invalid value (RFC 9260 section 3.3.10.7).
    pub const INVALID_MANDATORY_PARAMETER: u16 = 7;
    /// Unknown parameters (RFC 9260 section 3.3.10.8).
    pub const UNRECOGNIZED_PARAMETERS: u16 = 8;
    /// A DATA chunk without user data (RFC 9260 section 3.3.10.9).
    pub const NO_USER_DATA: u16 = 9;
    /// A cookie arrived during the shutdown (RFC 9260 section 3.3.10.10).
    pub const COOKIE_RECEIVED_WHILE_SHUTTING_DOWN: u16 = 10;
    /// A restart added addresses (RFC 9260 section 3.3.10.11).
    pub const RESTART_WITH_NEW_ADDRESSES: u16 = 11;
    /// The upper layer requested it (RFC 9260 section 3.3.10.12).
    pub const USER_INITIATED_ABORT: u16 = 12;
    /// The peer violated the protocol (RFC 9260 section 3.3.10.13).
    pub const PROTOCOL_VIOLATION: u16 = 13;
    /// A restart came from another UDP port (draft-tuexen-tsvwg-sctp-udp-encaps-cons section 4).
    pub const RESTART_WITH_NEW_ENCAPSULATION_PORT: u16 = 14;
    /// Request to delete the last address (RFC 5061 section 4.3.1).
    pub const DELETE_LAST_ADDRESS: u16 = 0x00a0;
    /// Request refused for lack of resources (RFC 5061 section 4.3.2).
    pub const RESOURCE_SHORTAGE: u16 = 0x00a1;
    /// Request to delete the source address (RFC 5061 section 4.3.3).
    pub const DELETE_SOURCE_ADDRESS: u16 = 0x00a2;
    /// Abort because of an illegal ASCONF-ACK (RFC 5061 section 4.3.4).
    pub const ILLEGAL_ASCONF_ACK: u16 = 0x00a3;
    /// Request refused for lack of authorization (RFC 5061 section 4.3.5).
    pub const NO_AUTHORIZATION: u16 = 0x00a4;
    /// HMAC identifier that was not offered (RFC 4895 section 4.2).
    // req: rfc4895 4.1 "This value MUST be set to 0x0105"
    pub const UNSUPPORTED_HMAC_IDENTIFIER: u16 = 0x0105;

    /// A short name, for known codes.
    pub(crate) const fn name(code: u16) -> Option<&'static str> {
        Some(match code {
            INVALID_STREAM_IDENTIFIER => "invalid stream",
            MISSING_MANDATORY_PARAMETER => "missing parameter",
            STALE_COOKIE => "stale cookie",
            OUT_OF_RESOURCE => "out of resource",
            UNRESOLVABLE_ADDRESS => "unresolvable address",
            UNRECOGNIZED_CHUNK_TYPE => "unrecognized chunk",
            INVALID_MANDATORY_PARAMETER => "invalid mandatory parameter",
            UNRECOGNIZED_PARAMETERS => "unrecognized parameters",
            NO_USER_DATA => "no user data",
            COOKIE_RECEIVED_WHILE_SHUTTING_DOWN => "cookie while shutting down",
            RESTART_WITH_NEW_ADDRESSES => "restart with new addresses",
            USER_INITIATED_ABORT => "user abort",
            PROTOCOL_VIOLATION => "protocol violation",
            RESTART_WITH_NEW_ENCAPSULATION_PORT => "restart with new encapsulation port",
            DELETE_LAST_ADDRESS => "delete last address",
            RESOURCE_SHORTAGE => "resource shortage",
            DELETE_SOURCE_ADDRESS => "delete source address",
            ILLEGAL_ASCONF_ACK => "illegal asconf-ack",
            NO_AUTHORIZATION => "no authorization",
            UNSUPPORTED_HMAC_IDENTIFIER => "unsupported hmac",
            _ => return None,
        })
    }
}

/// A decoded error cause. Bytes that the peer quotes are complete chunks or parameters, including
/// headers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Cause<'a> {
    /// Data arrived for a stream that does not exist.
    InvalidStreamIdentifier {
        /// The stream.
        stream: u16,
    },
    /// Mandatory parameters of these types are missing.
    MissingMandatoryParameter(U16List<'a>),
    /// The cookie is valid but has expired.
    StaleCookie {
        /// How long ago, in microseconds; 0 if not reported.
        staleness_us: u32,
    },
    /// The sender lacks resources.
    OutOfResource,
    /// This address parameter cannot be used.
    UnresolvableAddress(&'a [u8]),
    /// This chunk's type is unknown.
    UnrecognizedChunkType(&'a [u8]),
    /// A mandatory parameter has an invalid value.
    InvalidMandatoryParameter,
    /// These parameters are unknown.
    UnrecognizedParameters(&'a [u8]),
    /// A DATA chunk has no user data.
    NoUserData {
        /// The TSN of the chunk.
        tsn: Tsn,
    },
    /// A COOKIE ECHO arrived in the state SHUTDOWN-ACK-SENT.
    CookieReceivedWhileShuttingDown,
    /// An INIT that would restart the association has these new addresses.
    RestartWithNewAddresses(&'a [u8]),
    /// The upper layer gave this reason.
    UserInitiatedAbort(&'a [u8]),
    /// A protocol violation; the text is arbitrary.
    ProtocolViolation(&'a [u8]),
    /// An INIT that would restart the association was received from another UDP port; 0 means no
    /// encapsulation.
    RestartWithNewEncapsulationPort {
        /// The peer's UDP port.
        current: u16,
        /// The source port of the INIT.
        new: u16,
    },
    /// This request would delete the last address (RFC 5061).
    DeleteLastAddress(&'a [u8]),
    /// This request was refused for lack of resources (RFC 5061).
    ResourceShortage(&'a [u8]),
    /// This request would delete its own source address (RFC 5061).
    DeleteSourceAddress(&'a [u8]),
    /// The ASCONF-ACK did not belong to an ASCONF (RFC 5061).
    IllegalAsconfAck,
    /// This request is not allowed (RFC 5061).
    NoAuthorization(&'a [u8]),
    /// This HMAC identifier was not offered (RFC 4895).
    UnsupportedHmacIdentifier {
        /// The identifier.
        identifier: u16,
    },
    /// An unknown code.
    Unknown {
        /// The cause code.
        code: u16,
        /// The bytes after the cause header.
        value: &'a [u8],
    },
}

impl<'a> Cause<'a> {
    /// Decodes a cause.
    ///
    /// # Errors
    ///
    /// [`ParameterError::ValueLength`] if the value is too short for its code.
    pub fn decode(raw: RawParameter<'a>) -> Result<Self, ParameterError> {
        Self::read(raw.kind, raw.value)
            .ok_or(ParameterError::ValueLength { kind: raw.kind, len: raw.value.len() })
    }

    fn read(code: u16, value: &'a [u8]) -> Option<Self> {
        let mut reader = Reader::new(value);
        Some(match code {
            cause_code::INVALID_STREAM_IDENTIFIER => {
                Self::InvalidStreamIdentifier { stream: reader.u16()? }
            }
            cause_code::MISSING_MANDATORY_PARAMETER => {
                let count = usize::try_from(reader.u32()?).ok()?;
                let kinds = reader.take(count.checked_mul(2)?)?;
                Self::MissingMandatoryParameter(U16List::new(kinds))
            }
            cause_code::STALE_COOKIE => Self::StaleCookie { staleness_us: reader.u32()? },
            cause_code::OUT_OF_RESOURCE => Self::OutOfResource,
            cause_code::UNRESOLVABLE_ADDRESS => Self::UnresolvableAddress(value),
            cause_code::UNRECOGNIZED_CHUNK_TYPE => Self::UnrecognizedChunkType(value),
            cause_code::INVALID_MANDATORY_PARAMETER => Self::InvalidMandatoryParameter,
            cause_code::UNRECOGNIZED_PARAMETERS => Self::UnrecognizedParameters(value),
            cause_code::NO_USER_DATA => Self::NoUserData { tsn: Tsn(reader.u32()?) },
            cause_code::COOKIE_RECEIVED_WHILE_SHUTTING_DOWN => {
                Self::CookieReceivedWhileShuttingDown
            }
            cause_code::RESTART_WITH_NEW_ADDRESSES => Self::RestartWithNewAddresses(value),
            cause_code::USER_INITIATED_ABORT => Self::UserInitiatedAbort(value),
            cause_code::PROTOCOL_VIOLATION => Self::ProtocolViolation(value),
            cause_code::RESTART_WITH_NEW_ENCAPSULATION_PORT => {
                Self::RestartWithNewEncapsulationPort { current: reader.u16()?, new: reader.u16()? }
            }
            cause_code::DELETE_LAST_ADDRESS => Self::DeleteLastAddress(value),
            cause_code::RESOURCE_SHORTAGE => Self::ResourceShortage(value),
            cause_code::DELETE_SOURCE_ADDRESS => Self::DeleteSourceAddress(value),
            cause_code::ILLEGAL_ASCONF_ACK => Self::IllegalAsconfAck,
            cause_code::NO_AUTHORIZATION => Self::NoAuthorization(value),
            cause_code::UNSUPPORTED_HMAC_IDENTIFIER => {
                // req: rfc4895 4.1 "This value MUST be set to 6"
                Self::UnsupportedHmacIdentifier { identifier: reader.u16()? }
            }
            _ => Self::Unknown { code, value },
        })
    }

    /// The cause code.
    #[must_use]
    pub const fn code(&self) -> u16 {
        match self {
            Self::InvalidStreamIdentifier { .. } => cause_code::INVALID_STREAM_IDENTIFIER,
            Self::MissingMandatoryParameter(_) => cause_code::MISSING_MANDATORY_PARAMETER,
            Self::StaleCookie { .. } => cause_code::STALE_COOKIE,
            Self::OutOfResource => cause_code::OUT_OF_RESOURCE,
            Self::UnresolvableAddress(_) => cause_code::UNRESOLVABLE_ADDRESS,
            Self::UnrecognizedChunkType(_) => cause_code::UNRECOGNIZED_CHUNK_TYPE,
            Self::InvalidMandatoryParameter => cause_code::INVALID_MANDATORY_PARAMETER,
            Self::UnrecognizedParameters(_) => cause_code::UNRECOGNIZED_PARAMETERS,
            Self::NoUserData { .. } => cause_code::NO_USER_DATA,
            Self::CookieReceivedWhileShuttingDown => {
                cause_code::COOKIE_RECEIVED_WHILE_SHUTTING_DOWN
            }
            Self::RestartWithNewAddresses(_) => cause_code::RESTART_WITH_NEW_ADDRESSES,
            Self::UserInitiatedAbort(_) => cause_code::USER_INITIATED_ABORT,
            Self::ProtocolViolation(_) => cause_code::PROTOCOL_VIOLATION,
            Self::RestartWithNewEncapsulationPort { .. } => {
                cause_code::RESTART_WITH_NEW_ENCAPSULATION_PORT
            }
            Self::DeleteLastAddress(_) => cause_code::DELETE_LAST_ADDRESS,
            Self::ResourceShortage(_) => cause_code::RESOURCE_SHORTAGE,
            Self::DeleteSourceAddress(_) => cause_code::DELETE_SOURCE_ADDRESS,
            Self::IllegalAsconfAck => cause_code::ILLEGAL_ASCONF_ACK,
            Self::NoAuthorization(_) => cause_code::NO_AUTHORIZATION,
            Self::UnsupportedHmacIdentifier { .. } => cause_code::UNSUPPORTED_HMAC_IDENTIFIER,
            Self::Unknown { code, .. } => *code,
        }
    }

    /// Appends header, value and padding to `out`; a value of more than 65528
    /// bytes is cut there.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let start = out.len();
        tlv::write(out, self.code().to_be_bytes(), |out| match *self {
            Self::InvalidStreamIdentifier { stream: word }
            | Self::UnsupportedHmacIdentifier { identifier: word } => {
                let [a, b] = word.to_be_bytes();
                // Only the stream identifier is followed by a reserved half.
                let len = if matches!(self, Self::InvalidStreamIdentifier { .. }) { 4 } else { 2 };
                out.extend([a, b, 0, 0].iter().take(len));
            }
            Self::MissingMandatoryParameter(kinds) => {
                let count = u32::try_from(kinds.len()).unwrap_or(u32::MAX);
                out.extend_from_slice(&count.to_be_bytes());
                out.extend_from_slice(kinds.bytes());
            }
            Self::StaleCookie { staleness_us: word } | Self::NoUserData { tsn: Tsn(word) } => {
                out.extend_from_slice(&word.to_be_bytes());
            }
            Self::RestartWithNewEncapsulationPort { current, new } => {
                out.extend_from_slice(&current.to_be_bytes());
                out.extend_from_slice(&new.to_be_bytes());
            }
            Self::OutOfResource
            | Self::InvalidMandatoryParameter
            | Self::CookieReceivedWhileShuttingDown
            | Self::IllegalAsconfAck => {}
            Self::UnresolvableAddress(bytes)
            | Self::UnrecognizedChunkType(bytes)
            | Self::UnrecognizedParameters(bytes)
            | Self::RestartWithNewAddresses(bytes)
            | Self::UserInitiatedAbort(bytes)
            | Self::ProtocolViolation(bytes)
            | Self::DeleteLastAddress(bytes)
            | Self::ResourceShortage(bytes)
            | Self::DeleteSourceAddress(bytes)
            | Self::NoAuthorization(bytes)
            | Self::Unknown { value: bytes, .. } => out.extend_from_slice(bytes),
        });
        tlv::pad(out, start);
    }
}

impl fmt::Display for Cause<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match cause_code::name(self.code()) {
            Some(name) => f.write_str(name)?,
            None => write!(f, "cause {}", self.code())?,
        }
        match *self {
            Self::InvalidStreamIdentifier { stream } => write!(f, " {stream}"),
            Self::MissingMandatoryParameter(kinds) => write!(f, " {kinds}"),
            Self::StaleCookie { staleness_us } => write!(f, " {staleness_us} us"),
            Self::NoUserData { tsn } => write!(f, " tsn {tsn}"),
            Self::RestartWithNewEncapsulationPort { current, new } => {
                write!(f, " {new}, not {current}")
            }
            Self::UnsupportedHmacIdentifier { identifier } => write!(f, " {identifier}"),
            Self::OutOfResource
            | Self::InvalidMandatoryParameter
            | Self::CookieReceivedWhileShuttingDown
            | Self::IllegalAsconfAck => Ok(()),
            Self::UserInitiatedAbort(bytes)
            | Self::ProtocolViolation(bytes)
            | Self::Unknown { value: bytes, .. }
                if bytes.is_empty() =>
            {
                Ok(())
            }
            Self::UnresolvableAddress(bytes)
            | Self::UnrecognizedChunkType(bytes)
            | Self::UnrecognizedParameters(bytes)
            | Self::RestartWithNewAddresses(bytes)
            | Self::UserInitiatedAbort(bytes)
            | Self::ProtocolViolation(bytes)
            | Self::DeleteLastAddress(bytes)
            | Self::ResourceShortage(bytes)
            | Self::DeleteSourceAddress(bytes)
            | Self::NoAuthorization(bytes)
            | Self::Unknown { value: bytes, .. } => write!(f, " {}", Bytes(bytes)),
        }
    }
}

/// A sequence of error causes in wire format, which is that of [`Parameters`] with the cause code
/// in place of the type.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Causes<'a>(Parameters<'a>);

impl<'a> Causes<'a> {
    /// Wraps `bytes`, well formed or not, such as the output of [`Cause::encode`].
    #[must_use]
    pub fn new(bytes: &'a [u8]) -> Self {
        Self(Parameters::new(bytes))
    }

    /// The causes in their order, up to and including the first error. [`Cause::decode`] decodes
    /// them.
    #[must_use]
    pub const fn iter(&self) -> ParameterIter<'a> {
        self.0.iter()
    }

    /// The decoded causes; malformed ones are omitted.
    pub fn decoded(&self) -> impl Iterator<Item = Cause<'a>> + use<'a> {
        self.iter().filter_map(|raw| raw.and_then(Cause::decode).ok())
    }

    /// Whether the list is empty.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The bytes on the wire, without padding after the last cause.
    #[must_use]
    pub const fn bytes(&self) -> &'a [u8] {
        self.0.bytes()
    }
}

impl<'a> IntoIterator for Causes<'a> {
    type Item = Result<RawParameter<'a>, ParameterError>;
    type IntoIter = ParameterIter<'a>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl fmt::Display for Causes<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[")?;
        for (i, cause) in self.iter().enumerate() {
            if i > 0 {
                f.write_str(", ")?;
            }
            match cause.and_then(Cause::decode) {
                Ok(cause) => cause.fmt(f)?,
                Err(error) => write!(f, "malformed ({error})")?,
            }
        }
        f.write_str("]")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chunk::testing::hex;

    /// Decodes one padded cause, checks its text, and that encoding gives the
    /// same bytes again.
    fn capture(text: &str, shown: &str) {
        let bytes = hex(text);
        let causes = Causes::new(&bytes);
        let raw = causes.into_iter().next().unwrap().unwrap();
        let cause = Cause::decode(raw).unwrap();
        assert_eq!(cause.to_string(), shown);
        assert_eq!(cause.code(), raw.kind);
        let mut out = Vec::new();
        cause.encode(&mut out);
        assert_eq!(out, bytes);
    }

    #[test]
    fn of_rfc_9260() {
        capture("00010008 00030000", "invalid stream 3");
        capture("0002000a 00000001 00070000", "missing parameter 7");
        capture("00030008 000003e8", "stale cookie 1000 us");
        capture("00040004", "out of resource");
        capture("0005000c 00050008 c0000201", "unresolvable address 0x00050008c0000201");
        capture("00060008 3f000004", "unrecognized chunk 0x3f000004");
        capture("00070004", "invalid mandatory parameter");
        capture("00080008 c0ff0004", "unrecognized parameters 0xc0ff0004");
        capture("00090008 0000002a", "no user data tsn 42");
        capture("000a0004", "cookie while shutting down");
        capture("000b000c 00050008 c0000201", "restart with new addresses 0x00050008c0000201");
        capture("000c0004", "user abort");
        capture("000d0007 62616400", "protocol violation \"bad\"");
    }

    #[test]
    fn of_extensions() {
        capture("00a00008 00000001", "delete last address 0x00000001");
        capture("00a10008 00000001", "resource shortage 0x00000001");
        capture("00a20008 00000001", "delete source address 0x00000001");
        capture("00a30004", "illegal asconf-ack");
        capture("00a40008 00000001", "no authorization 0x00000001");
        capture("01050006 00050000", "unsupported hmac 5");
        capture("03e70005 ff000000", "cause 999 0xff");
    }

    #[test]
    fn values_that_are_too_short_are_refused() {
        for text in [
            "00010005 00",
            "00020006 0000",
            "00020008 00000001",
            "0002000a ffffffff 0007",
            "00030007 000000",
            "00090004",
            "01050005 00",
        ] {
            let bytes = hex(text);
            let causes = Causes::new(&bytes);
            let raw = causes.iter().next().unwrap().unwrap();
            let (kind, len) = (raw.kind, raw.value.len());
            assert_eq!(Cause::decode(raw), Err(ParameterError::ValueLength { kind, len }));
            assert_eq!(causes.decoded().count(), 0);
            assert!(!causes.is_empty());
        }
    }
}
