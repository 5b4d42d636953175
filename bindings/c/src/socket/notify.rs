//! Notifications in their forms in C (RFC 6458 section 6).

use std::net::SocketAddr;

use anabranch::{CloseReason, OutgoingMessage, PathState};

use crate::abi::{
    self, AdaptationEvent, AssocChange, PaddrChange, Plain, RemoteError, SendFailed,
    SendFailedEvent, SenderDryEvent, ShutdownEvent, Sndinfo, Sndrcvinfo, event, flag,
};
use crate::address;
use crate::errno::Errno;
use crate::error::Error;

/// SCTP_COMM_UP and the others of `enum sctp_sac_state`.
const COMM_UP: u16 = 0;
const COMM_LOST: u16 = 1;
const RESTART: u16 = 2;
const SHUTDOWN_COMP: u16 = 3;
const CANT_STR_ASSOC: u16 = 4;

/// `enum sctp_spc_state`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PathChange {
    Available = 0,
    Unreachable = 1,
    MadePrimary = 4,
    Confirmed = 5,
    PotentiallyFailed = 6,
}

/// How an address is reached, over the best path to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Reach {
    Unreachable,
    PotentiallyFailed,
    Active,
}

impl Reach {
    /// Of paths in these states. Users who are not to know of potentially failed paths take them for
    /// active ones (RFC 7829 section 7.3).
    pub(super) fn of(states: impl Iterator<Item = PathState>, expose_pf: bool) -> Self {
        let reach = |state| match state {
            PathState::Active => Self::Active,
            PathState::PotentiallyFailed if expose_pf => Self::PotentiallyFailed,
            PathState::PotentiallyFailed => Self::Active,
            _ => Self::Unreachable,
        };
        states.map(reach).max().unwrap_or(Self::Unreachable)
    }

    /// What is told when it becomes `now`, of which nothing is known `before` the first time.
    pub(super) fn change(before: Option<Self>, now: Self) -> Option<PathChange> {
        match (before, now) {
            (None, Self::Active) => Some(PathChange::Confirmed),
            (Some(before), now) if before == now => None,
            (None, _) => None,
            (Some(_), Self::Active) => Some(PathChange::Available),
            (Some(_), Self::PotentiallyFailed) => Some(PathChange::PotentiallyFailed),
            (Some(_), Self::Unreachable) => Some(PathChange::Unreachable),
        }
    }
}

/// A structure and what follows it, with the whole length in the bytes from 4 to 8.
fn with_length<T: Plain>(structure: &T, data: &[u8]) -> Vec<u8> {
    let mut bytes = abi::to_bytes(structure);
    bytes.extend_from_slice(data);
    let length = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
    bytes[4..8].copy_from_slice(&length.to_ne_bytes());
    bytes
}

fn change(id: i32, state: u16, error: u16, streams: (u16, u16), info: &[u8]) -> Vec<u8> {
    let change = AssocChange {
        kind: event::ASSOC_CHANGE,
        state,
        error,
        outbound_streams: streams.0,
        inbound_streams: streams.1,
        assoc_id: id,
        ..AssocChange::default()
    };
    with_length(&change, info)
}

pub(super) fn up(id: i32, outbound: u16, inbound: u16) -> Vec<u8> {
    change(id, COMM_UP, 0, (outbound, inbound), &[])
}

pub(super) fn restarted(id: i32, outbound: u16, inbound: u16) -> Vec<u8> {
    change(id, RESTART, 0, (outbound, inbound), &[])
}

pub(super) fn cannot_start(id: i32, error: Error) -> Vec<u8> {
    change(id, CANT_STR_ASSOC, Errno::from(error).0 as u16, (0, 0), &[])
}

/// A shutdown completed, or the association was lost: with the code of the peer's first error
/// cause, and all of them as they came.
pub(super) fn ended(id: i32, reason: &CloseReason) -> Vec<u8> {
    match reason {
        CloseReason::Shutdown => change(id, SHUTDOWN_COMP, 0, (0, 0), &[]),
        CloseReason::PeerAbort { code, causes } => {
            change(id, COMM_LOST, code.unwrap_or(0), (0, 0), causes)
        }
        _ => change(id, COMM_LOST, 0, (0, 0), &[]),
    }
}

pub(super) fn path(id: i32, address: SocketAddr, change: PathChange) -> Vec<u8> {
    let change = PaddrChange {
        kind: event::PEER_ADDR_CHANGE,
        address: address::to_storage(address),
        state: change as i32,
        assoc_id: id,
        ..PaddrChange::default()
    };
    with_length(&change, &[])
}

pub(super) fn peer_error(id: i32, code: u16, cause: &[u8]) -> Vec<u8> {
    let error = RemoteError {
        kind: event::REMOTE_ERROR,
        error: code.to_be(),
        assoc_id: id,
        ..RemoteError::default()
    };
    with_length(&error, cause)
}

pub(super) fn shutdown(id: i32) -> Vec<u8> {
    let event = ShutdownEvent { kind: event::SHUTDOWN, assoc_id: id, ..ShutdownEvent::default() };
    with_length(&event, &[])
}

/// All sent data is acknowledged.
pub(super) fn dry(id: i32) -> Vec<u8> {
    let event =
        SenderDryEvent { kind: event::SENDER_DRY, assoc_id: id, ..SenderDryEvent::default() };
    with_length(&event, &[])
}

pub(super) fn adaptation(id: i32, ind: u32) -> Vec<u8> {
    let event = AdaptationEvent {
        kind: event::ADAPTATION,
        ind,
        assoc_id: id,
        ..AdaptationEvent::default()
    };
    with_length(&event, &[])
}

fn flags(message: &OutgoingMessage) -> u16 {
    if message.unordered { flag::UNORDERED } else { 0 }
}

pub(super) fn send_failed_event(id: i32, message: &OutgoingMessage, sent: bool) -> Vec<u8> {
    let info = Sndinfo {
        sid: message.stream,
        flags: flags(message),
        ppid: message.ppid.0.to_be(),
        context: message.context as u32,
        assoc_id: id,
    };
    let event = SendFailedEvent {
        kind: event::SEND_FAILED_EVENT,
        flags: u16::from(sent),
        info,
        assoc_id: id,
        ..SendFailedEvent::default()
    };
    with_length(&event, &message.data)
}

pub(super) fn send_failed(id: i32, message: &OutgoingMessage, sent: bool) -> Vec<u8> {
    let info = Sndrcvinfo {
        stream: message.stream,
        flags: flags(message),
        ppid: message.ppid.0.to_be(),
        context: message.context as u32,
        assoc_id: id,
        ..Sndrcvinfo::default()
    };
    let event = SendFailed {
        kind: event::SEND_FAILED,
        flags: u16::from(sent),
        info,
        assoc_id: id,
        ..SendFailed::default()
    };
    with_length(&event, &message.data)
}

#[cfg(test)]
mod tests {
    use super::*;
    use PathState::{Active, Inactive, PotentiallyFailed};

    #[test]
    fn potentially_failed_paths_are_told_to_those_who_want_to_know() {
        let told = |expose| {
            let mut before = None;
            let story = [Active, PotentiallyFailed, Active, PotentiallyFailed, Inactive, Active];
            let changes = story.map(|state| {
                let now = Reach::of([state, Inactive].into_iter(), expose);
                Reach::change(before.replace(now), now)
            });
            changes.into_iter().flatten().collect::<Vec<_>>()
        };
        use PathChange::{Available, Confirmed, Unreachable};
        assert_eq!(told(false), [Confirmed, Unreachable, Available]);
        let doubtful = PathChange::PotentiallyFailed;
        let all = [Confirmed, doubtful, Available, doubtful, Unreachable, Available];
        assert_eq!(told(true), all);
        assert_eq!(Reach::of([PotentiallyFailed, Active].into_iter(), true), Reach::Active);
        assert_eq!(Reach::change(None, Reach::Unreachable), None);
    }
}
