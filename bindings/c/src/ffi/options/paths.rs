//! Options of paths and of the addresses that they lead to.

use std::time::Duration;

use anabranch::Association;
use anabranch_sockets::{AssocId, Error, Socket};

use super::{Row, choose, configuration, duration, milliseconds, parse, read_only};
use crate::abi::{self, AssocValue, Paddrinfo, Paddrparams, Paddrthlds, Prim, Storage, option};
use crate::address;
use crate::errno::Errno;

/// Flags of SCTP_PEER_ADDR_PARAMS.
const HB_ENABLE: u32 = 1;
const HB_DISABLE: u32 = 1 << 1;
const HB_DEMAND: u32 = 1 << 2;
const PMTUD_ENABLE: u32 = 1 << 3;
const PMTUD_DISABLE: u32 = 1 << 4;
const SACKDELAY_ENABLE: u32 = 1 << 5;
const SACKDELAY_DISABLE: u32 = 1 << 6;

pub(super) const ROWS: &[Row] = &[
    (option::PRIMARY_ADDR, set_primary, primary),
    (option::PEER_ADDR_PARAMS, |socket, bytes| set_path(socket, &parse_params(bytes)?), path),
    (option::PEER_ADDR_THLDS, |s, bytes| set_thresholds(s, &parse(bytes)?, false), thresholds),
    (option::PEER_ADDR_THLDS_V2, |s, bytes| set_thresholds(s, &parse(bytes)?, true), thresholds),
    (option::EXPOSE_POTENTIALLY_FAILED_STATE, set_expose_pf, expose_pf),
    (option::GET_PEER_ADDR_INFO, read_only, path_info),
];

fn set_primary(socket: &Socket, bytes: &[u8]) -> Result<(), Errno> {
    let prim: Prim = parse(bytes)?;
    let remote = address::from_bytes(&prim.address)?.0.ip();
    let set = |association: &Association| association.set_primary(remote);
    socket.with_association(AssocId(prim.assoc_id), set)?.map_err(|_| Errno::EINVAL)
}

fn primary(socket: &Socket, given: &[u8]) -> Result<Vec<u8>, Errno> {
    let prim: Prim = parse(given)?;
    let primary =
        *socket.peer_addresses(AssocId(prim.assoc_id))?.first().ok_or(Error::NotConnected)?;
    let address = address::to_storage(primary);
    Ok(abi::to_bytes(&Prim { assoc_id: prim.assoc_id, address }))
}

/// `struct sctp_paddrparams` of all sizes that it has had; what a smaller one lacks is 0.
fn parse_params(bytes: &[u8]) -> Result<Paddrparams, Errno> {
    if bytes.len() == super::OLD_PADDRPARAMS {
        let mut whole = bytes.to_vec();
        whole.resize(size_of::<Paddrparams>(), 0);
        return parse(&whole);
    }
    parse(bytes)
}

pub(super) fn is_unspecified(storage: &Storage) -> bool {
    address::from_bytes(storage).is_ok_and(|(address, _)| address.ip().is_unspecified())
        || storage.iter().all(|byte| *byte == 0)
}

/// Whether the request is possible: no contradictions, and nothing for one path of several.
fn check_path(socket: &Socket, params: &Paddrparams) -> Result<(), Errno> {
    let flags = params.flags;
    let contradicts = |one: u32, other: u32| flags & one != 0 && flags & other != 0;
    if contradicts(HB_ENABLE, HB_DISABLE)
        || contradicts(PMTUD_ENABLE, PMTUD_DISABLE)
        || contradicts(SACKDELAY_ENABLE, SACKDELAY_DISABLE)
    {
        return Err(Errno::EINVAL);
    }
    if !is_unspecified(&params.address) {
        // A path of its own parameters the engine has not, but where all paths lead to this
        // address they are those of the association; a heartbeat it has.
        let remote = address::from_bytes(&params.address)?.0.ip();
        let known = socket.peer_addresses(AssocId(params.assoc_id))?;
        // IPv4 ones may be shown mapped.
        let all = known.iter().all(|known| known.ip().to_canonical() == remote);
        let changes = flags & !HB_DEMAND != 0 || params.pathmaxrxt != 0 || params.hbinterval != 0;
        if changes && !all {
            return Err(Errno::EOPNOTSUPP);
        }
    }
    Ok(())
}

fn set_path(socket: &Socket, params: &Paddrparams) -> Result<(), Errno> {
    check_path(socket, params)?;
    let flags = params.flags;
    if flags & HB_DEMAND != 0 {
        let remote = address::from_bytes(&params.address)?.0.ip();
        let ask = |association: &Association| association.request_heartbeat(remote);
        socket.with_association(AssocId(params.assoc_id), ask)?.map_err(|_| Errno::EINVAL)?;
    }
    socket.configure(AssocId(params.assoc_id), |config| {
        if flags & HB_DISABLE != 0 {
            config.timers.heartbeat_interval = None;
        } else if params.hbinterval > 0 {
            config.timers.heartbeat_interval = Some(duration(params.hbinterval));
        }
        if params.pathmaxrxt > 0 {
            config.paths.path_max_retrans = params.pathmaxrxt.into();
        }
        if flags & PMTUD_DISABLE != 0 {
            config.mtu.discovery = false;
            if let Ok(mtu @ 1..) = u16::try_from(params.pathmtu) {
                (config.mtu.base, config.mtu.max) = (mtu, mtu);
            }
        } else if flags & PMTUD_ENABLE != 0 {
            config.mtu.discovery = true;
        }
        if flags & SACKDELAY_DISABLE != 0 {
            config.acknowledging.sack_delay = Duration::ZERO;
        } else if flags & SACKDELAY_ENABLE != 0 && params.sackdelay > 0 {
            config.acknowledging.sack_delay = duration(params.sackdelay);
        }
    })?;
    Ok(())
}

fn path(socket: &Socket, given: &[u8]) -> Result<Vec<u8>, Errno> {
    let config = configuration(socket, given)?;
    let (heartbeats, delay) = (config.timers.heartbeat_interval, config.acknowledging.sack_delay);
    let discovery = config.mtu.discovery;
    Ok(abi::to_bytes(&Paddrparams {
        hbinterval: heartbeats.map_or(0, milliseconds),
        pathmaxrxt: u16::try_from(config.paths.path_max_retrans).unwrap_or(u16::MAX),
        pathmtu: if discovery { 0 } else { config.mtu.base.into() },
        sackdelay: milliseconds(delay),
        flags: if heartbeats.is_some() { HB_ENABLE } else { HB_DISABLE }
            | if discovery { PMTUD_ENABLE } else { PMTUD_DISABLE }
            | if delay.is_zero() { SACKDELAY_DISABLE } else { SACKDELAY_ENABLE },
        ..parse_params(given)?
    }))
}

/// The thresholds of paths (RFC 7829 section 7.2); 0xffff is none.
fn set_thresholds(socket: &Socket, given: &Paddrthlds, primary: bool) -> Result<(), Errno> {
    // A path of its own thresholds the engine has not.
    if !is_unspecified(&given.address.0) {
        return Err(Errno::EOPNOTSUPP);
    }
    let threshold = |errors: u16| (errors != u16::MAX).then_some(u32::from(errors));
    socket.configure(AssocId(given.assoc_id), |config| {
        if given.pathmaxrxt > 0 {
            config.paths.path_max_retrans = given.pathmaxrxt.into();
        }
        config.paths.potentially_failed_max_retrans = threshold(given.pathpfthld);
        if primary {
            config.paths.change_primary_threshold = threshold(given.pathcpthld);
        }
    })?;
    Ok(())
}

fn thresholds(socket: &Socket, given: &[u8]) -> Result<Vec<u8>, Errno> {
    let paths = configuration(socket, given)?.paths;
    let threshold = |errors: Option<u32>| {
        errors.map_or(u16::MAX, |errors| u16::try_from(errors).unwrap_or(u16::MAX))
    };
    Ok(abi::to_bytes(&Paddrthlds {
        pathmaxrxt: threshold(Some(paths.path_max_retrans)),
        pathpfthld: threshold(paths.potentially_failed_max_retrans),
        pathcpthld: threshold(paths.change_primary_threshold),
        ..parse(given)?
    }))
}

fn set_expose_pf(socket: &Socket, bytes: &[u8]) -> Result<(), Errno> {
    let AssocValue { value, .. } = parse(bytes)?;
    choose(socket, |options| options.expose_pf = value != 0)
}

fn expose_pf(socket: &Socket, given: &[u8]) -> Result<Vec<u8>, Errno> {
    let value = socket.options(|options| options.expose_pf).into();
    Ok(abi::to_bytes(&AssocValue { value, ..parse(given)? }))
}

fn path_info(socket: &Socket, given: &[u8]) -> Result<Vec<u8>, Errno> {
    let info: Paddrinfo = parse(given)?;
    let remote = address::from_bytes(&info.address)?.0;
    Ok(abi::to_bytes(&Paddrinfo::from(socket.path_info(AssocId(info.assoc_id), remote)?)))
}
