//! Options that enable notifications.

use super::{Row, parse};
use crate::abi::{self, Event, option};
use crate::errno::Errno;
use crate::notifications::KINDS;
use anabranch_sockets::{AssocId, EventKind, Socket};

pub(super) const ROWS: &[Row] =
    &[(option::EVENT, set_event, event), (option::EVENTS, set_events, events)];

fn kind(number: u16) -> Option<EventKind> {
    KINDS.iter().find(|(_, known)| *known == number).map(|(kind, _)| *kind)
}

fn set_event(socket: &Socket, bytes: &[u8]) -> Result<(), Errno> {
    let event: Event = parse(bytes)?;
    let kind = kind(event.kind).ok_or(Errno::EINVAL)?;
    Ok(socket.subscribe(AssocId(event.assoc_id), kind, event.on != 0)?)
}

fn event(socket: &Socket, given: &[u8]) -> Result<Vec<u8>, Errno> {
    let event: Event = parse(given)?;
    let events = socket.own(AssocId(event.assoc_id))?.events;
    let on = kind(event.kind).is_some_and(|kind| events.contains(&kind)).into();
    Ok(abi::to_bytes(&Event { on, ..event }))
}

/// The structure has grown: programs pass as many fields as they know.
fn set_events(socket: &Socket, bytes: &[u8]) -> Result<(), Errno> {
    let mut wanted = KINDS.iter().zip(bytes);
    Ok(wanted.try_for_each(|((kind, _), on)| socket.subscribe(AssocId::ALL, *kind, *on != 0))?)
}

fn events(socket: &Socket, given: &[u8]) -> Result<Vec<u8>, Errno> {
    let wanted = socket.own(AssocId::FUTURE)?.events;
    Ok(KINDS.iter().take(given.len()).map(|(kind, _)| wanted.contains(kind).into()).collect())
}
