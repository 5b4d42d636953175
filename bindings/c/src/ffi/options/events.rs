//! The notifications that are enabled on a socket.

use super::{Row, parse};
use crate::abi::{self, Event, event, option};
use crate::errno::Errno;
use crate::socket::Socket;
use crate::socket::configure::{ALL_ASSOC, FUTURE_ASSOC};

/// The fields of `struct sctp_event_subscribe` in order; those that are not among [`KNOWN`] cannot
/// happen.
const SUBSCRIPTIONS: [u16; 14] = [
    event::DATA_IO,
    event::ASSOC_CHANGE,
    event::PEER_ADDR_CHANGE,
    event::SEND_FAILED,
    event::REMOTE_ERROR,
    event::SHUTDOWN,
    event::PARTIAL_DELIVERY,
    event::ADAPTATION,
    event::AUTHENTICATION,
    event::SENDER_DRY,
    event::STREAM_RESET,
    event::ASSOC_RESET,
    event::STREAM_CHANGE,
    event::SEND_FAILED_EVENT,
];

/// Notifications that can be had.
const KNOWN: [u16; 9] = [
    event::DATA_IO,
    event::ASSOC_CHANGE,
    event::PEER_ADDR_CHANGE,
    event::SEND_FAILED,
    event::REMOTE_ERROR,
    event::SHUTDOWN,
    event::ADAPTATION,
    event::SENDER_DRY,
    event::SEND_FAILED_EVENT,
];

pub(super) const ROWS: &[Row] =
    &[(option::EVENT, set_event, event), (option::EVENTS, set_events, events)];

fn set_event(socket: &Socket, bytes: &[u8]) -> Result<(), Errno> {
    let event: Event = parse(bytes)?;
    if !SUBSCRIPTIONS.contains(&event.kind) {
        return Err(Errno::EINVAL);
    }
    // Who asks for one that never happens is told; it may be switched off.
    if event.on != 0 && !KNOWN.contains(&event.kind) {
        return Err(Errno::EOPNOTSUPP);
    }
    Ok(socket.subscribe(event.assoc_id, event.kind, event.on != 0)?)
}

fn event(socket: &Socket, given: &[u8]) -> Result<Vec<u8>, Errno> {
    let event: Event = parse(given)?;
    let on = socket.own(event.assoc_id)?.events.contains(&event.kind).into();
    Ok(abi::to_bytes(&Event { on, ..event }))
}

/// The structure has grown: programs give as many fields as they know. Many fill all of it with ones, so
/// that those that never happen are taken, as Linux takes them.
fn set_events(socket: &Socket, bytes: &[u8]) -> Result<(), Errno> {
    let mut wanted = SUBSCRIPTIONS.iter().zip(bytes);
    Ok(wanted.try_for_each(|(kind, on)| socket.subscribe(ALL_ASSOC, *kind, *on != 0))?)
}

fn events(socket: &Socket, given: &[u8]) -> Result<Vec<u8>, Errno> {
    let wanted = socket.own(FUTURE_ASSOC)?.events;
    Ok(SUBSCRIPTIONS.iter().take(given.len()).map(|kind| wanted.contains(kind).into()).collect())
}
