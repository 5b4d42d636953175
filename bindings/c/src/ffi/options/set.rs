//! Setting options at the level of SCTP.

use std::time::Duration;

use anabranch::AssociationConfig;
use anabranch::config::BurstControl;
use libc::c_int;

use super::{
    HB_DEMAND, HB_DISABLE, HB_ENABLE, PMTUD_DISABLE, PMTUD_ENABLE, SACKDELAY_DISABLE,
    SACKDELAY_ENABLE, SUBSCRIPTIONS, duration, fields, int, named, parse, parse_paddrparams,
};
use crate::abi::{
    self, AssocValue, Assocparams, DefaultPrinfo, Event, Initmsg, Paddrparams, Paddrthlds, Prim,
    Rtoinfo, SackInfo, Sndinfo, Sndrcvinfo, Storage, Udpencaps, event, flag, option,
};
use crate::address;
use crate::errno::Errno;
use crate::ffi::transfer::lifetime;
use crate::socket::configure::{ALL_ASSOC, FUTURE_ASSOC};
use crate::socket::options::Options;
use crate::socket::{DATA_OVERHEAD, Socket, Style};

/// Bytes of an IPv4 header.
const IPV4_HEADER: u32 = 20;

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

/// Changes an option that takes effect at once.
pub(super) fn choose(socket: &Socket, change: impl FnOnce(&mut Options)) -> Result<(), Errno> {
    socket.with(|state| change(&mut state.options));
    Ok(())
}

/// What SCTP_INITMSG and SCTP_INIT say; 0 leaves a value as it is.
pub(in crate::ffi) fn init(socket: &Socket, init: Initmsg) -> Result<(), Errno> {
    // sinit_max_init_timeo bounds the RTO of INIT; the engine has one bound for all.
    fields::set(socket, FUTURE_ASSOC, option::INITMSG, &abi::to_bytes(&init))
}

#[expect(clippy::too_many_lines, reason = "one arm for each socket option")]
pub(super) fn set(socket: &Socket, name: c_int, bytes: &[u8]) -> Result<(), Errno> {
    match name {
        option::RTOINFO => fields::set(socket, parse::<Rtoinfo>(bytes)?.assoc_id, name, bytes),
        option::ASSOCINFO => {
            // The life of cookies is the endpoint's.
            fields::set(socket, parse::<Assocparams>(bytes)?.assoc_id, name, bytes)
        }
        option::NRSACK_SUPPORTED => {
            fields::set(socket, parse::<AssocValue>(bytes)?.assoc_id, name, bytes)
        }
        option::INITMSG => init(socket, parse(bytes)?),
        option::NODELAY => {
            let on = c_int::from(int(bytes)? != 0);
            fields::set(socket, ALL_ASSOC, name, &on.to_ne_bytes())
        }
        option::AUTOCLOSE if socket.style == Style::OneToOne => Err(Errno::EOPNOTSUPP),
        option::AUTOCLOSE | option::PARTIAL_DELIVERY_POINT => {
            fields::set(socket, ALL_ASSOC, name, bytes)
        }
        option::PRIMARY_ADDR => {
            let prim: Prim = parse(bytes)?;
            let remote = address::from_bytes(&prim.address)?.0.ip();
            let set = |association: &anabranch::Association| association.set_primary(remote);
            socket.with_association(prim.assoc_id, set)?.map_err(|_| Errno::EINVAL)
        }
        option::ADAPTATION_LAYER => fields::set(socket, FUTURE_ASSOC, name, bytes),
        option::PEER_ADDR_PARAMS => set_path(socket, &parse_paddrparams(bytes)?),
        option::PEER_ADDR_THLDS => set_thresholds(socket, &parse(bytes)?, false),
        option::PEER_ADDR_THLDS_V2 => set_thresholds(socket, &parse(bytes)?, true),
        option::EXPOSE_POTENTIALLY_FAILED_STATE => {
            let AssocValue { value, .. } = parse(bytes)?;
            choose(socket, |options| options.expose_pf = value != 0)
        }
        option::DELAYED_SACK => {
            let info: SackInfo = parse(bytes)?;
            socket.configure(info.assoc_id, |config| {
                if info.freq == 1 {
                    config.acknowledging.sack_delay = Duration::ZERO;
                } else if info.delay > 0 {
                    config.acknowledging.sack_delay = duration(info.delay);
                }
                if info.freq > 0 {
                    config.acknowledging.sack_frequency = info.freq;
                }
            })
        }
        option::MAX_BURST => {
            // An int in old programs.
            let AssocValue { assoc_id, value: packets } = match parse(bytes) {
                Ok(value) => value,
                Err(_) => {
                    let value = u32::try_from(int(bytes)?).map_err(|_| Errno::EINVAL)?;
                    AssocValue { assoc_id: ALL_ASSOC, value }
                }
            };
            socket.configure(assoc_id, |config| {
                config.congestion.burst = match packets {
                    0 => BurstControl::Unlimited,
                    packets => BurstControl::MaxBurst(packets),
                };
            })
        }
        option::MAXSEG => {
            let value = match parse::<AssocValue>(bytes) {
                Ok(value) => value.value,
                Err(_) => u32::try_from(int(bytes)?).map_err(|_| Errno::EINVAL)?,
            };
            set_maxseg(socket, value)
        }
        option::DISABLE_FRAGMENTS => {
            let on = int(bytes)? != 0;
            choose(socket, |options| options.whole = on)
        }
        // Messages of different associations may be interleaved, those of one are not.
        option::FRAGMENT_INTERLEAVE => match int(bytes)? {
            0 | 1 => Ok(()),
            _ => Err(Errno::EOPNOTSUPP),
        },
        option::EVENT => {
            let event: Event = parse(bytes)?;
            subscribe(socket, event.kind, event.on != 0)
        }
        option::EVENTS => {
            for (kind, on) in SUBSCRIPTIONS.iter().zip(bytes) {
                subscribe(socket, *kind, *on != 0)?;
            }
            Ok(())
        }
        option::I_WANT_MAPPED_V4_ADDR => {
            let on = int(bytes)? != 0;
            if socket.domain == libc::AF_INET {
                return Err(Errno::EINVAL);
            }
            choose(socket, |options| options.mapped = on)
        }
        option::CONTEXT => {
            let AssocValue { value, .. } = parse(bytes)?;
            choose(socket, |options| options.context = value)
        }
        option::RECVRCVINFO => {
            let on = int(bytes)? != 0;
            choose(socket, |options| options.rcvinfo = on)
        }
        option::RECVNXTINFO => {
            let on = int(bytes)? != 0;
            choose(socket, |options| options.nxtinfo = on)
        }
        option::DEFAULT_SNDINFO => {
            let info: Sndinfo = parse(bytes)?;
            choose(socket, |options| options.default_send = info)
        }
        option::DEFAULT_SEND_PARAM => {
            let Sndrcvinfo { stream, flags, ppid, context, assoc_id, timetolive, .. } =
                parse(bytes)?;
            choose(socket, |options| {
                options.default_send = Sndinfo { sid: stream, flags, ppid, context, assoc_id };
                options.default_lifetime = lifetime(timetolive);
            })
        }
        option::DEFAULT_PRINFO => {
            let info: DefaultPrinfo = parse(bytes)?;
            let time = match info.policy & flag::PR_MASK {
                0 => None,
                flag::PR_TTL => lifetime(info.value),
                _ => return Err(Errno::EOPNOTSUPP),
            };
            choose(socket, |options| options.default_lifetime = time)
        }
        option::REMOTE_UDP_ENCAPS_PORT => {
            let info: Udpencaps = parse(bytes)?;
            if info.assoc_id > 2 {
                // The engine follows where a peer's packets come from (RFC 6951 section 5.4).
                return Err(Errno::EOPNOTSUPP);
            }
            choose(socket, |options| options.remote_udp_port = u16::from_be(info.port))
        }
        option::LOCAL_UDP_PORT => {
            let port = u16::try_from(int(bytes)?).map_err(|_| Errno::EINVAL)?;
            choose(socket, |options| options.udp_port = Some(port))
        }
        option::RAW_IP => {
            let on = int(bytes)? != 0;
            choose(socket, |options| options.raw = on)
        }
        option::NAMED => named::set(socket, bytes),
        _ => Err(Errno::ENOPROTOOPT),
    }
}

/// SCTP_MAXSEG: bytes of a fragment at the most (RFC 6458 section 8.1.16), 0 for as many as the path
/// takes. The engine bounds packets, whose largest fragment has what their headers leave.
fn set_maxseg(socket: &Socket, value: u32) -> Result<(), Errno> {
    let usual = AssociationConfig::default().mtu;
    let most = match value {
        0 => usual.max,
        // The least that is around a fragment; over UDP and IPv6 it is smaller by their headers.
        value => u16::try_from(value.saturating_add(DATA_OVERHEAD + IPV4_HEADER))
            .map_err(|_| Errno::EINVAL)?,
    };
    socket.configure(FUTURE_ASSOC, |config| {
        config.mtu.max = most.min(usual.max);
        config.mtu.base = usual.base.min(config.mtu.max);
    })?;
    choose(socket, |options| options.maxseg = value)
}

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

fn is_unspecified(storage: &Storage) -> bool {
    address::from_bytes(storage).is_ok_and(|(address, _)| address.ip().is_unspecified())
        || storage.iter().all(|byte| *byte == 0)
}

/// The thresholds of paths (RFC 7829 section 7.2); 0xffff is none.
fn set_thresholds(socket: &Socket, given: &Paddrthlds, primary: bool) -> Result<(), Errno> {
    // A path of its own thresholds the engine has not.
    if !is_unspecified(&given.address.0) {
        return Err(Errno::EOPNOTSUPP);
    }
    let threshold = |errors: u16| (errors != u16::MAX).then_some(u32::from(errors));
    socket.configure(given.assoc_id, |config| {
        if given.pathmaxrxt > 0 {
            config.paths.path_max_retrans = given.pathmaxrxt.into();
        }
        config.paths.potentially_failed_max_retrans = threshold(given.pathpfthld);
        if primary {
            config.paths.change_primary_threshold = threshold(given.pathcpthld);
        }
    })
}

fn set_path(socket: &Socket, params: &Paddrparams) -> Result<(), Errno> {
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
        let all = socket.peer_addresses(params.assoc_id)?.iter().all(|known| known.ip() == remote);
        let changes = flags & !HB_DEMAND != 0 || params.pathmaxrxt != 0 || params.hbinterval != 0;
        if changes && !all {
            return Err(Errno::EOPNOTSUPP);
        }
    }
    if flags & HB_DEMAND != 0 {
        let remote = address::from_bytes(&params.address)?.0.ip();
        let ask = |association: &anabranch::Association| association.request_heartbeat(remote);
        socket.with_association(params.assoc_id, ask)?.map_err(|_| Errno::EINVAL)?;
    }
    socket.configure(params.assoc_id, |config| {
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
    })
}
