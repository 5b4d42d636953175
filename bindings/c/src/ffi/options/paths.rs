//! Options of paths and peer addresses.

use std::net::IpAddr;

use anabranch_sockets::{
    AssocId, AutoAsconf, Error, PathMtu, PathParameters, PathThresholds, Setting, Socket,
};

use super::{Row, choose, duration, id, int, milliseconds, number, parse, read_only, short};
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
    (option::SET_PEER_PRIMARY_ADDR, set_peer_primary, |_, _| Err(Errno::EOPNOTSUPP)),
    (option::AUTO_ASCONF, set_auto_asconf, auto_asconf),
    (option::PEER_ADDR_PARAMS, |socket, bytes| set_path(socket, &parse_params(bytes)?), path),
    (option::PEER_ADDR_THLDS, |s, bytes| set_thresholds(s, &parse(bytes)?, false), thresholds),
    (option::PEER_ADDR_THLDS_V2, |s, bytes| set_thresholds(s, &parse(bytes)?, true), thresholds),
    (option::EXPOSE_POTENTIALLY_FAILED_STATE, set_expose_pf, expose_pf),
    (option::GET_PEER_ADDR_INFO, read_only, path_info),
];

fn set_primary(socket: &Socket, bytes: &[u8]) -> Result<(), Errno> {
    let prim: Prim = parse(bytes)?;
    let remote = address::from_bytes(&prim.address)?.0.ip();
    Ok(socket.set_primary(AssocId(prim.assoc_id), remote)?)
}

/// `struct sctp_setpeerprim`, which is laid out as `struct sctp_prim`.
fn set_peer_primary(socket: &Socket, bytes: &[u8]) -> Result<(), Errno> {
    let prim: Prim = parse(bytes)?;
    let local = address::from_bytes(&prim.address)?.0.ip();
    Ok(socket.set_peer_primary(AssocId(prim.assoc_id), local)?)
}

fn set_auto_asconf(socket: &Socket, bytes: &[u8]) -> Result<(), Errno> {
    Ok(socket.set_option(AssocId::FUTURE, &AutoAsconf(int(bytes)? != 0))?)
}

fn auto_asconf(socket: &Socket, _: &[u8]) -> Result<Vec<u8>, Errno> {
    let AutoAsconf(on) = socket.option(AssocId::FUTURE)?;
    number(on.into())
}

fn primary(socket: &Socket, given: &[u8]) -> Result<Vec<u8>, Errno> {
    let prim: Prim = parse(given)?;
    let primary =
        *socket.peer_addresses(AssocId(prim.assoc_id))?.first().ok_or(Error::NotConnected)?;
    let address = address::to_storage(primary);
    Ok(abi::to_bytes(&Prim { assoc_id: prim.assoc_id, address }))
}

/// `struct sctp_paddrparams` in any size that it has had; fields missing in a smaller one are 0.
fn parse_params(bytes: &[u8]) -> Result<Paddrparams, Errno> {
    if bytes.len() == super::OLD_PADDRPARAMS {
        let mut whole = bytes.to_vec();
        whole.resize(size_of::<Paddrparams>(), 0);
        return parse(&whole);
    }
    parse(bytes)
}

/// An address in a structure, if there is one.
pub(super) fn remote(storage: &Storage) -> Result<Option<IpAddr>, Errno> {
    if storage.iter().all(|byte| *byte == 0) {
        return Ok(None);
    }
    let ip = address::from_bytes(storage)?.0.ip();
    Ok((!ip.is_unspecified()).then_some(ip))
}

/// Converts a pair of flags of SCTP_PEER_ADDR_PARAMS.
fn setting<T>(flags: u32, on: u32, off: u32, value: Option<T>) -> Result<Setting<T>, Errno> {
    match (flags & on != 0, flags & off != 0) {
        (true, true) => Err(Errno::EINVAL),
        (false, true) => Ok(Setting::Off),
        (true, false) => Ok(Setting::On(value)),
        (false, false) => Ok(Setting::Keep),
    }
}

fn parameters(params: &Paddrparams) -> Result<PathParameters, Errno> {
    let flags = params.flags;
    let time = |milliseconds: u32| (milliseconds > 0).then(|| duration(milliseconds));
    let interval = time(params.hbinterval);
    let heartbeats = match setting(flags, HB_ENABLE, HB_DISABLE, interval)? {
        // An interval applies even without a flag.
        Setting::Keep if interval.is_some() => Setting::On(interval),
        heartbeats => heartbeats,
    };
    let mtu = match setting::<u16>(flags, PMTUD_ENABLE, PMTUD_DISABLE, None)? {
        Setting::Keep => PathMtu::Keep,
        Setting::On(_) => PathMtu::Discover,
        Setting::Off => {
            PathMtu::Fixed(u16::try_from(params.pathmtu).ok().filter(|bytes| *bytes > 0))
        }
    };
    let delay = time(params.sackdelay);
    let sack_delay = setting(flags, SACKDELAY_ENABLE, SACKDELAY_DISABLE, delay)?;
    let max_retrans = (params.pathmaxrxt > 0).then(|| params.pathmaxrxt.into());
    Ok(PathParameters { heartbeats, max_retrans, mtu, sack_delay })
}

fn set_path(socket: &Socket, params: &Paddrparams) -> Result<(), Errno> {
    let (id, parameters) = (AssocId(params.assoc_id), parameters(params)?);
    let demanded = if params.flags & HB_DEMAND != 0 {
        Some(address::from_bytes(&params.address)?.0.ip())
    } else {
        None
    };
    socket.set_path_parameters(id, remote(&params.address)?, &parameters)?;
    if let Some(remote) = demanded {
        socket.request_heartbeat(id, remote)?;
    }
    Ok(())
}

fn path(socket: &Socket, given: &[u8]) -> Result<Vec<u8>, Errno> {
    let parameters: PathParameters = socket.option(id(given))?;
    let time = |setting| match setting {
        Setting::On(time) => time.map_or(0, milliseconds),
        Setting::Keep | Setting::Off => 0,
    };
    let flag = |is_on, on, off| if is_on { on } else { off };
    let (heartbeats, sack_delay) = (parameters.heartbeats, parameters.sack_delay);
    Ok(abi::to_bytes(&Paddrparams {
        hbinterval: time(heartbeats),
        pathmaxrxt: short(parameters.max_retrans.unwrap_or(0)),
        pathmtu: match parameters.mtu {
            PathMtu::Fixed(bytes) => bytes.unwrap_or(0).into(),
            PathMtu::Keep | PathMtu::Discover => 0,
        },
        sackdelay: time(sack_delay),
        flags: flag(heartbeats != Setting::Off, HB_ENABLE, HB_DISABLE)
            | flag(parameters.mtu == PathMtu::Discover, PMTUD_ENABLE, PMTUD_DISABLE)
            | flag(sack_delay != Setting::Off, SACKDELAY_ENABLE, SACKDELAY_DISABLE),
        ..parse_params(given)?
    }))
}

/// The path thresholds (RFC 7829 section 7.2); 0xffff means no threshold.
fn set_thresholds(socket: &Socket, given: &Paddrthlds, primary: bool) -> Result<(), Errno> {
    let threshold = |errors: u16| Setting::of((errors != u16::MAX).then_some(u32::from(errors)));
    let thresholds = PathThresholds {
        max_retrans: (given.pathmaxrxt > 0).then(|| given.pathmaxrxt.into()),
        potentially_failed: threshold(given.pathpfthld),
        change_primary: if primary { threshold(given.pathcpthld) } else { Setting::Keep },
    };
    let remote = remote(&given.address.0)?;
    Ok(socket.set_path_thresholds(AssocId(given.assoc_id), remote, &thresholds)?)
}

fn thresholds(socket: &Socket, given: &[u8]) -> Result<Vec<u8>, Errno> {
    let thresholds: PathThresholds = socket.option(id(given))?;
    let threshold = |errors: Setting<u32>| match errors {
        Setting::On(Some(errors)) => short(errors),
        _ => u16::MAX,
    };
    Ok(abi::to_bytes(&Paddrthlds {
        pathmaxrxt: short(thresholds.max_retrans.unwrap_or(0)),
        pathpfthld: threshold(thresholds.potentially_failed),
        pathcpthld: threshold(thresholds.change_primary),
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
