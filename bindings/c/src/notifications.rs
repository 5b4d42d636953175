//! Notifications as C sees them (RFC 6458 section 6.1): a structure, and the data that follows it.

use std::ops::Range;

use anabranch::{AuthenticationChange, ReconfigurationResult};
use anabranch_sockets::{
    AddressChange, AssocChange, AssocId, Event, EventKind, FailedMessage, Notification, SendFlags,
    SendInfo,
};
use bytes::Bytes;

use crate::abi::{
    self, AdaptationEvent, AssocChange as AssocChangeC, AssocResetEvent, AuthkeyEvent, NamedEvent,
    PaddrChange, PdapiEvent, Plain, RemoteError, SendFailed, SendFailedEvent, SenderDryEvent,
    ShutdownEvent, Sndinfo, Sndrcvinfo, StreamChangeEvent, StreamResetEvent, event, reset,
};
use crate::address;
use crate::errno::Errno;

/// SCTP_COMM_UP and the other values of `enum sctp_sac_state`.
const COMM_UP: u16 = 0;
const COMM_LOST: u16 = 1;
const RESTART: u16 = 2;
const SHUTDOWN_COMP: u16 = 3;
const CANT_STR_ASSOC: u16 = 4;

/// The number of a notification type.
pub(crate) fn number(kind: EventKind) -> u16 {
    KINDS.iter().find(|(known, _)| *known == kind).map_or(0, |(_, number)| *number)
}

/// All types with their numbers, in the order of the fields of `struct sctp_event_subscribe`, which has no field
/// for our own type.
pub(crate) const KINDS: [(EventKind, u16); 15] = [
    (EventKind::DataIo, event::DATA_IO),
    (EventKind::AssocChange, event::ASSOC_CHANGE),
    (EventKind::PeerAddrChange, event::PEER_ADDR_CHANGE),
    (EventKind::SendFailed, event::SEND_FAILED),
    (EventKind::RemoteError, event::REMOTE_ERROR),
    (EventKind::Shutdown, event::SHUTDOWN),
    (EventKind::PartialDelivery, event::PARTIAL_DELIVERY),
    (EventKind::Adaptation, event::ADAPTATION),
    (EventKind::Authentication, event::AUTHENTICATION),
    (EventKind::SenderDry, event::SENDER_DRY),
    (EventKind::StreamReset, event::STREAM_RESET),
    (EventKind::AssocReset, event::ASSOC_RESET),
    (EventKind::StreamChange, event::STREAM_CHANGE),
    (EventKind::SendFailedEvent, event::SEND_FAILED_EVENT),
    (EventKind::Named, event::NAMED),
];

/// `enum sctp_spc_state`.
fn address_state(change: AddressChange) -> i32 {
    match change {
        AddressChange::Available => 0,
        AddressChange::Unreachable => 1,
        AddressChange::Removed => 2,
        AddressChange::Added => 3,
        AddressChange::MadePrimary => 4,
        AddressChange::Confirmed => 5,
        AddressChange::PotentiallyFailed => 6,
    }
}

/// Sets the length field (bytes 4 to 8) to the length of the structure and the data that follows it.
fn with_length<T: Plain>(structure: &T, data: &[u8]) -> Vec<u8> {
    let mut bytes = abi::to_bytes(structure);
    let length = u32::try_from(bytes.len() + data.len()).unwrap_or(u32::MAX);
    bytes[4..8].copy_from_slice(&length.to_ne_bytes());
    bytes
}

/// The structure of a notification, without the data that follows it.
fn structure(Notification { id: AssocId(assoc_id), event }: &Notification) -> Vec<u8> {
    let (assoc_id, kind, data) = (*assoc_id, number(event.kind()), event.data());
    match event {
        Event::AssocChange(change) => {
            let structure = AssocChangeC { kind, assoc_id, ..assoc_change(change) };
            with_length(&structure, data)
        }
        Event::PeerAddrChange { address, change } => {
            let (address, state) = (address::to_storage(*address), address_state(*change));
            with_length(&PaddrChange { kind, address, state, assoc_id, ..abi::zeroed() }, data)
        }
        Event::RemoteError { code, .. } => {
            with_length(&RemoteError { kind, error: code.to_be(), assoc_id, ..abi::zeroed() }, data)
        }
        Event::SendFailed(failed) => {
            let Sndinfo { sid: stream, flags, ppid, context, .. } = info(failed);
            let info = Sndrcvinfo { stream, flags, ppid, context, assoc_id, ..abi::zeroed() };
            let flags = u16::from(failed.sent);
            with_length(&SendFailed { kind, flags, info, assoc_id, ..abi::zeroed() }, data)
        }
        Event::SendFailedEvent(failed) => {
            let info = Sndinfo { assoc_id, ..info(failed) };
            let flags = u16::from(failed.sent);
            with_length(&SendFailedEvent { kind, flags, info, assoc_id, ..abi::zeroed() }, data)
        }
        Event::PartialDelivery(cut) => {
            let flags = if cut.unordered { SendFlags::UNORDERED.bits() } else { 0 };
            let (indication, stream, seq) =
                (event::ABORTED.into(), cut.stream.into(), cut.ssn.into());
            let event = PdapiEvent { kind, flags, indication, assoc_id, stream, seq, length: 0 };
            with_length(&event, data)
        }
        Event::Shutdown => with_length(&ShutdownEvent { kind, assoc_id, ..abi::zeroed() }, data),
        Event::Adaptation(ind) => {
            with_length(&AdaptationEvent { kind, ind: *ind, assoc_id, ..abi::zeroed() }, data)
        }
        Event::SenderDry => with_length(&SenderDryEvent { kind, assoc_id, ..abi::zeroed() }, data),
        Event::StreamReset { .. } | Event::AssocReset { .. } | Event::StreamChange { .. } => {
            reconfiguration(kind, assoc_id, event)
        }
        Event::Authentication { change, key } => authentication(kind, assoc_id, *change, *key),
        Event::Named { name, .. } => {
            let mut named = NamedEvent { kind, assoc_id, ..abi::zeroed() };
            // The last byte stays 0.
            let room = named.name.len() - 1;
            named.name[..room].iter_mut().zip(name.bytes()).for_each(|(to, from)| *to = from);
            with_length(&named, data)
        }
    }
}

/// The structure of a notification about streams and TSNs (RFC 6525 section 6.1), with the list after it.
fn reconfiguration(kind: u16, assoc_id: i32, event: &Event) -> Vec<u8> {
    let data = event.data();
    match event {
        Event::StreamReset { outgoing, streams, result } => {
            let direction = if *outgoing { reset::OUTGOING } else { reset::INCOMING };
            let flags = direction | outcome(*result);
            let list: Vec<u8> = streams.iter().flat_map(|stream| stream.to_ne_bytes()).collect();
            let event = StreamResetEvent { kind, flags, assoc_id, ..abi::zeroed() };
            let mut bytes = with_length(&event, &list);
            bytes.extend(list);
            bytes
        }
        Event::AssocReset { local_tsn, remote_tsn, result } => {
            let (local_tsn, remote_tsn, flags) = (*local_tsn, *remote_tsn, outcome(*result));
            let event = AssocResetEvent { kind, flags, length: 0, assoc_id, local_tsn, remote_tsn };
            with_length(&event, data)
        }
        Event::StreamChange { outbound_streams, inbound_streams, result } => {
            let event = StreamChangeEvent {
                kind,
                flags: outcome(*result),
                length: 0,
                assoc_id,
                inbound_streams: *inbound_streams,
                outbound_streams: *outbound_streams,
            };
            with_length(&event, data)
        }
        _ => Vec::new(),
    }
}

/// The structure of SCTP_AUTHENTICATION_EVENT.
fn authentication(kind: u16, assoc_id: i32, change: AuthenticationChange, number: u16) -> Vec<u8> {
    let indication = match change {
        AuthenticationChange::NewKey => event::NEW_KEY,
        AuthenticationChange::FreeKey => event::FREE_KEY,
        _ => event::NO_AUTH,
    };
    let event = AuthkeyEvent { kind, number, indication, assoc_id, ..abi::zeroed() };
    with_length(&event, &[])
}

/// The flag for the result of a request.
fn outcome(result: ReconfigurationResult) -> u16 {
    match result {
        ReconfigurationResult::Performed => 0,
        ReconfigurationResult::Denied => reset::DENIED,
        _ => reset::FAILED,
    }
}

fn assoc_change(change: &AssocChange) -> AssocChangeC {
    let zero: AssocChangeC = abi::zeroed();
    match *change {
        AssocChange::Up { outbound_streams, inbound_streams } => {
            AssocChangeC { state: COMM_UP, outbound_streams, inbound_streams, ..zero }
        }
        AssocChange::Restart { outbound_streams, inbound_streams } => {
            AssocChangeC { state: RESTART, outbound_streams, inbound_streams, ..zero }
        }
        AssocChange::Lost { code: error, .. } => AssocChangeC { state: COMM_LOST, error, ..zero },
        AssocChange::ShutdownComplete => AssocChangeC { state: SHUTDOWN_COMP, ..zero },
        AssocChange::CannotStart(error) => {
            AssocChangeC { state: CANT_STR_ASSOC, error: Errno::from(error).0 as u16, ..zero }
        }
    }
}

fn info(failed: &FailedMessage) -> Sndinfo {
    let message = &failed.message;
    let flags = if message.unordered { SendFlags::UNORDERED } else { SendFlags::empty() };
    let (stream, ppid, context) = (message.stream, message.ppid, message.context as u32);
    SendInfo { stream, flags, ppid, context, id: AssocId::default() }.into()
}

/// Bytes of a notification.
pub(crate) fn length(notification: &Notification) -> usize {
    structure(notification).len() + notification.event.data().len()
}

/// Bytes `part` of a notification, in pieces.
pub(crate) fn encode(notification: &Notification, part: Range<usize>) -> [Bytes; 2] {
    let structure = Bytes::from(structure(notification));
    let data = notification.event.data();
    let (start, end, border) = (part.start, part.end, structure.len());
    [
        structure.slice(start.min(border)..end.min(border)),
        data.slice(start.saturating_sub(border)..end.saturating_sub(border)),
    ]
}

#[cfg(test)]
mod tests {
    use anabranch::{OutgoingMessage, Ppid};

    use super::*;

    #[test]
    fn every_name_fits_into_the_structure() {
        let room = abi::zeroed::<NamedEvent>().name.len();
        for kind in anabranch::Notification::KINDS {
            assert!(kind.name.len() < room, "{}", kind.name);
        }
    }

    #[test]
    fn parts_of_a_notification_are_the_whole() {
        let message = OutgoingMessage::new(3, Ppid(7), Bytes::from_static(b"came back"));
        let failed = FailedMessage { message: Box::new(message), sent: true };
        let notification = Notification { id: AssocId(9), event: Event::SendFailedEvent(failed) };
        let all = encode(&notification, 0..length(&notification)).concat();
        let size = size_of::<SendFailedEvent>();
        assert_eq!(all.len(), size + 9);
        assert_eq!(all[..4], [0x0d, 0x80, 1, 0], "the type and the flags");
        assert_eq!(all[4..8], (all.len() as u32).to_ne_bytes());
        assert_eq!(all[size..], *b"came back");
        for border in 0..=all.len() {
            let parts = [0..border, border..all.len()].map(|part| encode(&notification, part));
            assert_eq!(parts.concat().concat(), all, "{border}");
        }
    }
}
