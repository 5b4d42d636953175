//! Interleaving of messages and schedulers: SCTP_FRAGMENT_INTERLEAVE (RFC 6458 section 8.1.20), and the options of RFC
//! 8260 section 4.3.

use anabranch::config::SchedulerKind;
use anabranch_sockets::{AssocId, Options, Socket, StreamScheduler};

use super::{Row, id, int, number, parse};
use crate::abi::{self, AssocValue, StreamValue, option, scheduler};
use crate::errno::Errno;

pub(super) const ROWS: &[Row] = &[
    (
        option::FRAGMENT_INTERLEAVE,
        |socket, bytes| Ok(socket.set_fragment_interleave(int(bytes)?)?),
        |socket, _| number(socket.options(Options::fragment_interleave).into()),
    ),
    (option::STREAM_SCHEDULER, set_scheduler, scheduler_of),
    (option::STREAM_SCHEDULER_VALUE, set_value, value_of),
];

/// The numbers of schedulers.
const SCHEDULERS: &[(u32, SchedulerKind)] = &[
    (scheduler::FCFS, SchedulerKind::Fifo),
    (scheduler::PRIO, SchedulerKind::Priority),
    (scheduler::RR, SchedulerKind::RoundRobin),
    (scheduler::FC, SchedulerKind::Fair),
    (scheduler::WFQ, SchedulerKind::WeightedFair),
    (scheduler::RR_PKT, SchedulerKind::RoundRobinPacket),
];

fn set_scheduler(socket: &Socket, bytes: &[u8]) -> Result<(), Errno> {
    let AssocValue { assoc_id, value } = parse(bytes)?;
    let (_, kind) = SCHEDULERS.iter().find(|(number, _)| *number == value).ok_or(Errno::EINVAL)?;
    Ok(socket.set_option(AssocId(assoc_id), &StreamScheduler(*kind))?)
}

/// A scheduler without a number is EINVAL: the option by name returns it.
fn scheduler_of(socket: &Socket, given: &[u8]) -> Result<Vec<u8>, Errno> {
    let AssocId(assoc_id) = id(given);
    let StreamScheduler(used) = socket.option(AssocId(assoc_id))?;
    let known = SCHEDULERS.iter().find(|(_, kind)| *kind == used);
    Ok(abi::to_bytes(&AssocValue { assoc_id, value: known.ok_or(Errno::EINVAL)?.0 }))
}

fn set_value(socket: &Socket, bytes: &[u8]) -> Result<(), Errno> {
    let StreamValue { assoc_id, stream, value } = parse(bytes)?;
    Ok(socket.set_stream_value(AssocId(assoc_id), stream, value)?)
}

fn value_of(socket: &Socket, given: &[u8]) -> Result<Vec<u8>, Errno> {
    let asked: StreamValue = parse(given)?;
    let value = socket.stream_value(AssocId(asked.assoc_id), asked.stream)?;
    Ok(abi::to_bytes(&StreamValue { value, ..asked }))
}
