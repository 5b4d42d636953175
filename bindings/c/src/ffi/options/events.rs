//! Which notifications a socket gives.

use super::{Row, parse};
use crate::abi::{self, Event, event, option};
use crate::errno::Errno;
use crate::socket::Socket;

/// The fields of `struct sctp_event_subscribe` in order; those that are not among [`KNOWN`] cannot
/// happen and may not be asked for.
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

fn subscribe(socket: &Socket, kind: u16, on: bool) -> Result<(), Errno> {
    if !SUBSCRIPTIONS.contains(&kind) {
        return Err(Errno::EINVAL);
    }
    // What never happens may only be switched off.
    if on && !KNOWN.contains(&kind) {
        return Err(Errno::EOPNOTSUPP);
    }
    socket.subscribe(kind, on);
    Ok(())
}

fn set_event(socket: &Socket, bytes: &[u8]) -> Result<(), Errno> {
    let event: Event = parse(bytes)?;
    subscribe(socket, event.kind, event.on != 0)
}

fn event(socket: &Socket, given: &[u8]) -> Result<Vec<u8>, Errno> {
    let event: Event = parse(given)?;
    let on = socket.with(|state| state.options.events.contains(&event.kind)).into();
    Ok(abi::to_bytes(&Event { on, ..event }))
}

/// The structure has grown: programs give as many fields as they know.
fn set_events(socket: &Socket, bytes: &[u8]) -> Result<(), Errno> {
    SUBSCRIPTIONS.iter().zip(bytes).try_for_each(|(kind, on)| subscribe(socket, *kind, *on != 0))
}

fn events(socket: &Socket, given: &[u8]) -> Result<Vec<u8>, Errno> {
    let wanted = socket.with(|state| state.options.events.clone());
    Ok(SUBSCRIPTIONS.iter().take(given.len()).map(|kind| wanted.contains(kind).into()).collect())
}
