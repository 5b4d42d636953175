//! Notifications: events of an association besides its data (RFC 9260 section 11.2).

use std::net::IpAddr;

use anabranch_proto::{CloseReason, Event, Features, OutgoingMessage, PathId, PathState};
use bytes::Bytes;

/// An event of an association, from [`Events`](crate::Events).
///
/// ```
/// use anabranch::Notification;
///
/// /// The alarm to raise for an event, if any.
/// fn alarm(event: &Notification) -> Option<String> {
///     match event {
///         Notification::FailedOver { remote, .. } => Some(format!("data goes to {remote} now")),
///         Notification::Closed(reason) => Some(format!("the association is over: {reason}")),
///         _ => None,
///     }
/// }
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Notification {
    /// The association is up: COMMUNICATION UP of RFC 9260 section 11.2. The first of all, of an
    /// association that was connected to or accepted.
    Up {
        /// The peer took the first step.
        incoming: bool,
        /// Streams this side may send on.
        outbound_streams: u16,
        /// Streams the peer may send on.
        inbound_streams: u16,
        /// Extensions to RFC 9260 that the peer agreed on.
        features: Features,
    },
    /// A path changed its state.
    PathChanged {
        /// The path.
        path: PathId,
        /// Its local address.
        local: IpAddr,
        /// Its remote address.
        remote: IpAddr,
        /// Its new state.
        state: PathState,
    },
    /// New data goes to another address from now on.
    ActivePathChanged {
        /// The path.
        path: PathId,
        /// Its remote address.
        remote: IpAddr,
    },
    /// The path in use failed, or its failover became permanent.
    FailedOver {
        /// The path that new data leaves.
        from: PathId,
        /// The path that has it from now on.
        to: PathId,
        /// Its remote address.
        remote: IpAddr,
        /// It is the primary path from now on; otherwise data returns when the primary answers.
        permanent: bool,
    },
    /// No path is active any more.
    Dormant,
    /// A path that had failed answers, and data returns to it.
    Recovered {
        /// The path.
        path: PathId,
        /// Its remote address.
        remote: IpAddr,
    },
    /// The peer lost its state and set the association up again.
    Restarted {
        /// Streams this side may send on.
        outbound_streams: u16,
        /// Streams the peer may send on.
        inbound_streams: u16,
        /// Extensions to RFC 9260 that the new incarnation agreed on.
        features: Features,
    },
    /// All sent messages are acknowledged or abandoned, after
    /// [`Association::tell_when_dry`](crate::Association::tell_when_dry) asked for it.
    SenderDry,
    /// A message was abandoned.
    SendFailed {
        /// The message, with the part of its data that was not acknowledged.
        message: Box<OutgoingMessage>,
        /// Whether the peer may have received part of it.
        sent: bool,
    },
    /// The peer reported an error that does not end the association.
    PeerError {
        /// The cause's code.
        code: u16,
        /// The cause as received, up to 2,048 bytes of it.
        cause: Bytes,
    },
    /// The peer announced an adaptation layer (RFC 5061 section 4.2.6).
    AdaptationIndication(u32),
    /// The peer sends nothing more.
    PeerShutdown,
    /// The association ended. Nothing follows.
    Closed(CloseReason),
    /// This many notifications were dropped because they were not read in time.
    Missed(u64),
}

impl Notification {
    /// Bytes that it brings with it.
    pub(crate) fn payload(&self) -> usize {
        match self {
            Self::SendFailed { message, .. } => size_of_val(&**message) + message.data.len(),
            Self::PeerError { cause, .. } => cause.len().max(1),
            _ => 0,
        }
    }

    /// Memory that it needs, if it may be left out when there is none: a message that comes back
    /// takes the memory that it had in the send buffer.
    pub(crate) fn needs_memory(&self) -> Option<usize> {
        match self {
            Self::PeerError { cause, .. } => Some(cause.len()),
            _ => None,
        }
    }

    /// The notification for an engine's event, if there is one.
    pub(crate) fn of(event: Event) -> Option<Self> {
        Some(match event {
            Event::Connected { incoming, outbound_streams, inbound_streams, features } => {
                Self::Up { incoming, outbound_streams, inbound_streams, features }
            }
            Event::PathChanged { path, local, remote, state } => {
                Self::PathChanged { path, local, remote, state }
            }
            Event::ActivePathChanged { path, remote } => Self::ActivePathChanged { path, remote },
            Event::FailedOver { from, to, remote, permanent } => {
                Self::FailedOver { from, to, remote, permanent }
            }
            Event::Dormant => Self::Dormant,
            Event::Recovered { path, remote } => Self::Recovered { path, remote },
            Event::Restarted { outbound_streams, inbound_streams, features } => {
                Self::Restarted { outbound_streams, inbound_streams, features }
            }
            Event::SenderDry => Self::SenderDry,
            Event::SendFailed { message, sent } => Self::SendFailed { message, sent },
            Event::PeerError { code, cause } => Self::PeerError { code, cause },
            Event::AdaptationIndication(value) => Self::AdaptationIndication(value),
            Event::PeerShutdown => Self::PeerShutdown,
            Event::Closed(reason) => Self::Closed(reason),
            _ => return None,
        })
    }
}
