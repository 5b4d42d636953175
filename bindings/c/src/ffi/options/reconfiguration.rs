//! Stream reconfiguration (RFC 6525 section 6.3).

use anabranch::StreamDirection;
use anabranch_sockets::{AssocId, EnableStreamReset, Socket};

use super::{Row, parse, read_only};
use crate::abi::{self, AddStreams, AssocValue, ResetStreams, option, reset};
use crate::errno::Errno;

pub(super) const ROWS: &[Row] = &[
    (option::ENABLE_STREAM_RESET, set_enabled, enabled),
    (option::RESET_STREAMS, reset_streams, write_only),
    (option::RESET_ASSOC, reset_association, write_only),
    (option::ADD_STREAMS, add_streams, write_only),
];

/// There is nothing to read.
fn write_only(socket: &Socket, given: &[u8]) -> Result<Vec<u8>, Errno> {
    read_only(socket, given).map(|()| Vec::new())
}

fn set_enabled(socket: &Socket, bytes: &[u8]) -> Result<(), Errno> {
    let AssocValue { assoc_id, value } = parse(bytes)?;
    if value & !(reset::ENABLE_STREAMS | reset::ENABLE_ASSOC | reset::ENABLE_CHANGE) != 0 {
        return Err(Errno::EINVAL);
    }
    let enabled = EnableStreamReset {
        streams: value & reset::ENABLE_STREAMS != 0,
        association: value & reset::ENABLE_ASSOC != 0,
        change: value & reset::ENABLE_CHANGE != 0,
    };
    Ok(socket.set_option(AssocId(assoc_id), &enabled)?)
}

fn enabled(socket: &Socket, given: &[u8]) -> Result<Vec<u8>, Errno> {
    let AssocValue { assoc_id, .. } = parse(given)?;
    let enabled: EnableStreamReset = socket.option(AssocId(assoc_id))?;
    let bit = |on: bool, bit: u32| if on { bit } else { 0 };
    let value = bit(enabled.streams, reset::ENABLE_STREAMS)
        | bit(enabled.association, reset::ENABLE_ASSOC)
        | bit(enabled.change, reset::ENABLE_CHANGE);
    Ok(abi::to_bytes(&AssocValue { assoc_id, value }))
}

fn reset_streams(socket: &Socket, bytes: &[u8]) -> Result<(), Errno> {
    let ResetStreams { assoc_id, flags, number_streams } = parse(bytes)?;
    let direction = match flags {
        reset::INCOMING => StreamDirection::Incoming,
        reset::OUTGOING => StreamDirection::Outgoing,
        _ if flags == reset::INCOMING | reset::OUTGOING => StreamDirection::Both,
        _ => return Err(Errno::EINVAL),
    };
    let list = bytes.get(size_of::<ResetStreams>()..).unwrap_or_default();
    let list = list.get(..usize::from(number_streams) * 2).ok_or(Errno::EINVAL)?;
    let streams: Vec<u16> =
        list.chunks_exact(2).map(|pair| u16::from_ne_bytes([pair[0], pair[1]])).collect();
    Ok(socket.reset_streams(AssocId(assoc_id), direction, &streams)?)
}

fn reset_association(socket: &Socket, bytes: &[u8]) -> Result<(), Errno> {
    Ok(socket.reset_association(AssocId(parse(bytes)?))?)
}

fn add_streams(socket: &Socket, bytes: &[u8]) -> Result<(), Errno> {
    let AddStreams { assoc_id, inbound, outbound } = parse(bytes)?;
    Ok(socket.add_streams(AssocId(assoc_id), outbound, inbound)?)
}
