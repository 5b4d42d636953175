//! Notifications about an association (RFC 9260 section 11.2).
//!
//! The table below has one row for each: its name in JSON, its name in qlog, its notification in RFC 6458, and its
//! fields. The enum, the JSON objects and the log entries are derived from it. `Display` gives a sentence as text.

use std::fmt;
use std::net::IpAddr;

use bytes::Bytes;

use super::{AuthenticationChange, CloseReason, PathState};
use crate::features::Features;
use crate::message::OutgoingMessage;
use crate::per_path::PathId;
use crate::reconfiguration::ReconfigurationResult;
use crate::roaming::AddressChange;

/// How a log in the style of qlog represents a notification.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum InQlog {
    /// As an event with this name, and the notification's fields.
    Event(&'static str),
    /// As an event with this name and more details, which the log writes when it compares states.
    Compared(&'static str),
}

/// The notification of RFC 6458 section 6.1 for an event; the names are those of the C headers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum InSockets {
    /// SCTP_ASSOC_CHANGE.
    AssocChange,
    /// SCTP_PEER_ADDR_CHANGE.
    PeerAddrChange,
    /// SCTP_REMOTE_ERROR.
    RemoteError,
    /// SCTP_SEND_FAILED and SCTP_SEND_FAILED_EVENT.
    SendFailed,
    /// SCTP_PARTIAL_DELIVERY_EVENT.
    PartialDelivery,
    /// SCTP_SHUTDOWN_EVENT.
    Shutdown,
    /// SCTP_ADAPTATION_INDICATION.
    Adaptation,
    /// SCTP_SENDER_DRY_EVENT.
    SenderDry,
    /// SCTP_STREAM_RESET_EVENT (RFC 6525 section 6.1.1).
    StreamReset,
    /// SCTP_ASSOC_RESET_EVENT (RFC 6525 section 6.1.2).
    AssocReset,
    /// SCTP_STREAM_CHANGE_EVENT (RFC 6525 section 6.1.3).
    StreamChange,
    /// SCTP_AUTHENTICATION_EVENT.
    Authentication,
    /// ANABRANCH_EVENT, our own with a name and a sentence, for events without a notification in the RFC.
    Named,
}

impl InSockets {
    /// The name of the constant in C.
    pub const fn name(self) -> &'static str {
        match self {
            Self::AssocChange => "SCTP_ASSOC_CHANGE",
            Self::PeerAddrChange => "SCTP_PEER_ADDR_CHANGE",
            Self::RemoteError => "SCTP_REMOTE_ERROR",
            Self::SendFailed => "SCTP_SEND_FAILED_EVENT",
            Self::PartialDelivery => "SCTP_PARTIAL_DELIVERY_EVENT",
            Self::Shutdown => "SCTP_SHUTDOWN_EVENT",
            Self::Adaptation => "SCTP_ADAPTATION_INDICATION",
            Self::SenderDry => "SCTP_SENDER_DRY_EVENT",
            Self::StreamReset => "SCTP_STREAM_RESET_EVENT",
            Self::AssocReset => "SCTP_ASSOC_RESET_EVENT",
            Self::StreamChange => "SCTP_STREAM_CHANGE_EVENT",
            Self::Authentication => "SCTP_AUTHENTICATION_EVENT",
            Self::Named => "ANABRANCH_EVENT",
        }
    }
}

/// A value in a notification.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[cfg_attr(feature = "serde", serde(untagged))]
#[non_exhaustive]
pub enum Detail {
    /// True or false.
    Flag(bool),
    /// A count, a number or a code.
    Number(u64),
    /// A name, an address or a text.
    Text(String),
}

/// One row of the table.
#[derive(Debug)]
#[non_exhaustive]
pub struct NotificationKind {
    /// Its name in JSON, as `event`.
    pub name: &'static str,
    /// Its representation in a log.
    pub qlog: InQlog,
    /// Its notification in C.
    pub sockets: InSockets,
    /// Its meaning, in sentences.
    pub doc: &'static [&'static str],
    /// Names of its fields in JSON, each with an example value of the field's kind.
    pub fields: fn() -> Vec<(&'static str, Detail)>,
}

/// The type of a field.
trait Field {
    /// Adds the field's value.
    fn describe(&self, name: &'static str, out: &mut Vec<(&'static str, Detail)>);

    /// Adds the names, with example values of their kinds.
    fn names(name: &'static str, out: &mut Vec<(&'static str, Detail)>);
}

/// Types with one value.
macro_rules! fields {
    ($($type:ty: $kind:ident, $any:expr, |$value:ident| $detail:expr;)*) => {
        $(impl Field for $type {
            fn describe(&self, name: &'static str, out: &mut Vec<(&'static str, Detail)>) {
                let $value = self;
                out.push((name, Detail::$kind($detail)));
            }

            fn names(name: &'static str, out: &mut Vec<(&'static str, Detail)>) {
                out.push((name, Detail::$kind($any)));
            }
        })*
    };
}

fields! {
    bool: Flag, false, |value| *value;
    u16: Number, 0, |value| u64::from(*value);
    u32: Number, 0, |value| u64::from(*value);
    u64: Number, 0, |value| *value;
    PathId: Number, 0, |value| u64::from(value.number());
    IpAddr: Text, String::new(), |value| value.to_string();
    PathState: Text, String::new(), |value| value.to_string();
    Features: Text, String::new(), |value| value.to_string();
    ReconfigurationResult: Text, String::new(), |value| value.to_string();
    AuthenticationChange: Text, String::new(), |value| value.to_string();
    AddressChange: Text, String::new(), |value| value.to_string();
    // The numbers, separated by commas.
    Box<[u16]>: Text, String::new(), |value| listed(value);
    CloseReason: Text, String::new(), |value| value.to_string();
    // The peer may send arbitrary bytes, so report only their number.
    Bytes: Number, 0, |value| value.len() as u64;
}

/// A list of streams as text.
fn listed(streams: &[u16]) -> String {
    streams.iter().map(u16::to_string).collect::<Vec<_>>().join(",")
}

/// A message is described by its stream and its size.
impl Field for Box<OutgoingMessage> {
    fn describe(&self, _: &'static str, out: &mut Vec<(&'static str, Detail)>) {
        out.push(("stream", Detail::Number(self.stream.into())));
        out.push(("ppid", Detail::Number(self.ppid.0.into())));
        out.push(("context", Detail::Number(self.context)));
        out.push(("bytes", Detail::Number(self.data.len() as u64)));
    }

    fn names(_: &'static str, out: &mut Vec<(&'static str, Detail)>) {
        out.extend(["stream", "ppid", "context", "bytes"].map(|name| (name, Detail::Number(0))));
    }
}

/// Declares the notifications. A row is `Variant "name", qlog, sockets`, and its fields.
macro_rules! notifications {
    ($(
        $(#[doc = $doc:literal])*
        $variant:ident $name:literal, $qlog:ident $qlog_name:literal, $sockets:ident
            $(($value:ident: $value_type:ty))?
            $({ $($(#[doc = $field_doc:literal])* $field:ident: $type:ty,)* })?;
    )*) => {
        /// An event of an association besides its data.
        ///
        /// With the feature `serde` it is serialised as an object with its name as `event`, and its fields. Of data,
        /// only the length is included.
        ///
        /// ```
        /// use anabranch_proto::Notification;
        ///
        /// /// The alarm to raise for an event, if any.
        /// fn alarm(event: &Notification) -> Option<String> {
        ///     match event {
        ///         Notification::FailedOver { .. } | Notification::Closed(_) => Some(event.to_string()),
        ///         _ => None,
        ///     }
        /// }
        /// ```
        #[derive(Clone, Debug)]
        #[non_exhaustive]
        pub enum Notification {
            $(
                $(#[doc = $doc])*
                $variant $(($value_type))? $({ $($(#[doc = $field_doc])* $field: $type,)* })?,
            )*
        }

        impl Notification {
            /// All kinds.
            pub const KINDS: &'static [NotificationKind] = &[$(NotificationKind {
                name: $name,
                qlog: InQlog::$qlog($qlog_name),
                sockets: InSockets::$sockets,
                doc: &[$($doc),*],
                fields: || {
                    #[allow(unused_mut, reason = "some have no fields")]
                    let mut names = Vec::new();
                    $(<$value_type as Field>::names(stringify!($value), &mut names);)?
                    $($(<$type as Field>::names(stringify!($field), &mut names);)*)?
                    names
                },
            },)*];

            /// Its kind.
            pub fn kind(&self) -> &'static NotificationKind {
                let name = match self {
                    $(Self::$variant { .. } => $name,)*
                };
                // The names are those of the table.
                Self::KINDS.iter().find(|kind| kind.name == name).unwrap_or(&Self::KINDS[0])
            }

            /// Its fields, by name.
            pub fn details(&self) -> Vec<(&'static str, Detail)> {
                let mut details = Vec::new();
                match self {
                    $(Self::$variant { $(0: $value)? $($($field),*)? } => {
                        $($value.describe(stringify!($value), &mut details);)?
                        $($($field.describe(stringify!($field), &mut details);)*)?
                    })*
                }
                details
            }
        }
    };
}

notifications! {
    /// The association is up: COMMUNICATION UP. The first event of every association that comes to be, except for
    /// messages that were given before and come back because the peer does not take their streams.
    Up "up", Compared "connectivity:association_state_updated", AssocChange {
        /// Whether the peer took the first step: a listener's association.
        incoming: bool,
        /// Streams this side may send on.
        outbound_streams: u16,
        /// Streams the peer may send on.
        inbound_streams: u16,
        /// Extensions to RFC 9260 that both sides agreed on.
        features: Features,
    };
    /// RESTART: the peer lost its state and set the association up again. Everything that it had not acknowledged, sent
    /// or not, has already come back as [`SendFailed`](Self::SendFailed); stream sequence numbers start at 0 again, and
    /// the numbers of streams may differ. A graceful shutdown that was requested continues with the new incarnation.
    Restarted "restarted", Event "connectivity:association_restarted", AssocChange {
        /// Streams this side may send on.
        outbound_streams: u16,
        /// Streams the peer may send on.
        inbound_streams: u16,
        /// Extensions to RFC 9260 that both sides agreed on with the new incarnation.
        features: Features,
    };
    /// All messages that were given are acknowledged or given up, after
    /// [`Association::tell_when_dry`](crate::Association::tell_when_dry) asked for it.
    SenderDry "sender_dry", Event "transport:sender_dry", SenderDry;
    /// SEND FAILURE: a message that was given up.
    SendFailed "send_failed", Event "transport:send_failed", SendFailed {
        /// The message with the part of its data that was not acknowledged. The data is empty if the peer acknowledged
        /// all of it for good, but may not have delivered it.
        message: Box<OutgoingMessage>,
        /// Whether part of it was sent, so that the peer may have it.
        sent: bool,
    };
    /// The peer gave up a partly delivered message. The rest does not come.
    PartialDeliveryAborted "partial_delivery_aborted", Event "transport:partial_delivery_aborted", PartialDelivery {
        /// Its stream.
        stream: u16,
        /// Its number, as in [`Message::sequence`](crate::Message::sequence).
        sequence: u32,
        /// Whether it was sent unordered.
        unordered: bool,
    };
    /// Streams were reset (RFC 6525), so their stream sequence numbers begin with 0 again, or a request for that ended.
    /// Messages that came before a reset may still wait to be received.
    StreamsReset "streams_reset", Event "connectivity:streams_reset", StreamReset {
        /// Whether they are streams on which this side sends; otherwise the peer sends on them.
        outgoing: bool,
        /// The streams; none means all.
        streams: Box<[u16]>,
        /// How it ended.
        result: ReconfigurationResult,
    };
    /// The TSNs and all stream sequence numbers were reset (RFC 6525), or a request for that ended.
    AssociationReset "association_reset", Event "connectivity:association_reset", AssocReset {
        /// The next TSN of this side.
        local_tsn: u32,
        /// The next TSN of the peer.
        remote_tsn: u32,
        /// How it ended.
        result: ReconfigurationResult,
    };
    /// The number of streams changed (RFC 6525), or a request for that ended.
    StreamsAdded "streams_added", Event "connectivity:streams_added", StreamChange {
        /// Streams this side may send on.
        outbound_streams: u16,
        /// Streams the peer may send on.
        inbound_streams: u16,
        /// How it ended.
        result: ReconfigurationResult,
    };
    /// The authentication of chunks changed (RFC 4895).
    Authentication "authentication", Event "security:authentication_changed", Authentication {
        /// What happened.
        change: AuthenticationChange,
        /// The identifier of the key.
        key: u16,
    };
    /// A change of a local address that was asked for ended (RFC 5061).
    AddressChanged "address_changed", Event "connectivity:address_changed", Named {
        /// What was asked for.
        change: AddressChange,
        /// The local address.
        address: IpAddr,
        /// How it ended.
        result: ReconfigurationResult,
    };
    /// The peer changed its addresses (RFC 5061).
    PeerAddressChanged "peer_address_changed", Event "connectivity:peer_address_changed", PeerAddrChange {
        /// What happened.
        change: AddressChange,
        /// The peer's address.
        remote: IpAddr,
    };
    /// NETWORK STATUS CHANGE: a path changed its state.
    PathChanged "path_changed", Compared "connectivity:path_updated", PeerAddrChange {
        /// The path.
        path: PathId,
        /// Its local address.
        local: IpAddr,
        /// Its remote address.
        remote: IpAddr,
        /// Its new state.
        state: PathState,
    };
    /// New data goes over another path from now on.
    ActivePathChanged "active_path_changed", Compared "connectivity:active_path_updated", Named {
        /// The path.
        path: PathId,
        /// Its remote address.
        remote: IpAddr,
    };
    /// The path in use failed, perhaps only potentially, or its failover became permanent.
    FailedOver "failed_over", Event "connectivity:failed_over", PeerAddrChange {
        /// The path that new data leaves.
        from: PathId,
        /// The path for new data.
        to: PathId,
        /// Its remote address.
        remote: IpAddr,
        /// It is the primary path from now on (caro 3.4); otherwise data returns to the primary path when that answers.
        permanent: bool,
    };
    /// Every path has failed: data goes where the dormant behaviour says until a path answers or the association is given
    /// up (caro 3.3.6, RFC 7829 section 4).
    Dormant "dormant", Event "connectivity:dormant", Named;
    /// A path that had failed answers, and new data returns to it.
    Recovered "recovered", Event "connectivity:recovered", Named {
        /// The path.
        path: PathId,
        /// Its remote address.
        remote: IpAddr,
    };
    /// COMMUNICATION ERROR: the peer reported an error that does not end the association.
    PeerError "peer_error", Event "connectivity:peer_error", RemoteError {
        /// The cause's code.
        code: u16,
        /// The cause as received, up to 2,048 bytes of it.
        cause: Bytes,
    };
    /// The peer announced an adaptation layer (RFC 5061 section 4.2.6).
    AdaptationIndication "adaptation_indication", Event "connectivity:adaptation_indication", Adaptation
        (code: u32);
    /// The peer sends nothing more; outstanding data of this side is still delivered.
    PeerShutdown "peer_shutdown", Event "connectivity:peer_shutdown", Shutdown;
    /// COMMUNICATION LOST or SHUTDOWN COMPLETE. The last event of an association. Received messages can still be taken.
    Closed "closed", Compared "connectivity:association_closed", AssocChange (reason: CloseReason);
    /// This many events were dropped because they were not read in time. Only a reader of several gets it, as of
    /// `anabranch::Events`.
    Missed "missed", Event "anabranch:notifications_missed", Named (count: u64);
}

impl Notification {
    /// Bytes of data that it brings with it: a message that comes back, or the cause of an error.
    pub fn payload(&self) -> usize {
        match self {
            Self::SendFailed { message, .. } => size_of_val(&**message) + message.data.len(),
            Self::PeerError { cause, .. } => cause.len(),
            Self::StreamsReset { streams, .. } => size_of_val(&**streams),
            _ => 0,
        }
    }
}

/// Formats a sentence without a full stop.
impl fmt::Display for Notification {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Up { outbound_streams, inbound_streams, .. } => {
                write!(f, "up with {outbound_streams} streams out, {inbound_streams} in")
            }
            Self::Restarted { .. } => f.write_str("the peer restarted"),
            Self::SenderDry => f.write_str("everything that was sent is acknowledged"),
            Self::SendFailed { message, sent } => {
                let sent = if *sent { "perhaps" } else { "never" };
                write!(f, "a message of stream {} was given up, {sent} delivered", message.stream)
            }
            Self::PartialDeliveryAborted { stream, .. } => {
                write!(f, "the rest of a message of stream {stream} was given up")
            }
            Self::StreamsReset { outgoing, streams, result } => {
                let direction = if *outgoing { "outgoing" } else { "incoming" };
                match streams.len() {
                    0 => write!(f, "reset of all {direction} streams: {result}"),
                    _ => write!(f, "reset of {direction} streams {}: {result}", listed(streams)),
                }
            }
            Self::AssociationReset { result, .. } => write!(f, "reset of all TSNs: {result}"),
            Self::StreamsAdded { outbound_streams, inbound_streams, result } => write!(
                f,
                "streams added: {result}, {outbound_streams} streams out, {inbound_streams} in"
            ),
            Self::AddressChanged { change, address, result } => match change {
                AddressChange::Added => {
                    write!(f, "the local address {address} was added: {result}")
                }
                AddressChange::Removed => {
                    write!(f, "the local address {address} was removed: {result}")
                }
                AddressChange::Preferred => {
                    write!(f, "the peer was asked to prefer {address}: {result}")
                }
            },
            Self::PeerAddressChanged { change, remote } => match change {
                AddressChange::Added => write!(f, "the peer has the address {remote}, too"),
                AddressChange::Removed => write!(f, "the peer no longer has the address {remote}"),
                AddressChange::Preferred => write!(f, "the peer prefers the address {remote}"),
            },
            Self::Authentication { change: AuthenticationChange::NewKey, key } => {
                write!(f, "the peer authenticates with key {key}")
            }
            Self::Authentication { change: AuthenticationChange::FreeKey, key } => {
                write!(f, "key {key} is no longer used")
            }
            Self::Authentication { change: AuthenticationChange::NotSupported, .. } => {
                f.write_str("the peer does not support authentication")
            }
            Self::PathChanged { local, remote, state, .. } => {
                write!(f, "{local} -> {remote} is {state}")
            }
            Self::ActivePathChanged { remote, .. } => write!(f, "new data goes to {remote}"),
            Self::FailedOver { remote, permanent: false, .. } => write!(f, "failover to {remote}"),
            Self::FailedOver { remote, permanent: true, .. } => {
                write!(f, "{remote} is the primary path from now on")
            }
            Self::Dormant => f.write_str("no path is active"),
            Self::Recovered { remote, .. } => write!(f, "{remote} answers again"),
            Self::PeerError { code, .. } => {
                write!(f, "the peer reported an error with cause {code}")
            }
            Self::AdaptationIndication(code) => write!(f, "the peer's adaptation layer is {code}"),
            Self::PeerShutdown => f.write_str("the peer sends nothing more"),
            Self::Closed(reason) => reason.fmt(f),
            Self::Missed(1) => f.write_str("1 event before this is left out"),
            Self::Missed(count) => write!(f, "{count} events before this are left out"),
        }
    }
}

#[cfg(feature = "serde")]
impl serde::Serialize for Notification {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        use serde::ser::SerializeMap as _;
        let details = self.details();
        let mut map = serializer.serialize_map(Some(1 + details.len()))?;
        map.serialize_entry("event", self.kind().name)?;
        for (name, detail) in details {
            map.serialize_entry(name, &detail)?;
        }
        map.end()
    }
}

#[cfg(test)]
mod tests {
    use anabranch_wire::Ppid;

    use super::*;

    #[test]
    fn a_notification_says_what_its_row_says() {
        let remote = IpAddr::from([10, 0, 0, 2]);
        let message = Box::new(OutgoingMessage::new(3, Ppid(0), vec![0; 70]));
        for notification in [
            Notification::FailedOver {
                from: PathId::FIRST,
                to: PathId::FIRST,
                remote,
                permanent: false,
            },
            Notification::SendFailed { message, sent: true },
            Notification::AdaptationIndication(7),
            Notification::Closed(CloseReason::Shutdown),
            Notification::Dormant,
        ] {
            let names = |details: Vec<(&'static str, Detail)>| {
                details.into_iter().map(|(name, _)| name).collect::<Vec<_>>()
            };
            let kind = notification.kind();
            assert_eq!(names(notification.details()), names((kind.fields)()), "{}", kind.name);
        }
        let code = Notification::AdaptationIndication(7);
        assert_eq!(code.details(), [("code", Detail::Number(7))]);
    }

    #[test]
    fn names_differ() {
        let mut names: Vec<_> = Notification::KINDS.iter().map(|kind| kind.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), Notification::KINDS.len());
    }
}
