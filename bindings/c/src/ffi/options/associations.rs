//! Options of associations: those of a structure's fields, and what takes more than a field.

use std::time::Duration;

use anabranch::config::BurstControl;
use anabranch::{Association, AssociationConfig};
use anabranch_sockets::{AssocId, DATA_OVERHEAD, Socket, Style};
use libc::c_int;

use super::{
    Row, choose, configuration, duration, fields, int, milliseconds, number, parse, read_only,
};
use crate::abi::{
    self, AssocValue, Assocparams, Initmsg, Rtoinfo, SackInfo, Setadaptation, option,
};
use crate::errno::Errno;

/// Bytes of an IPv4 header.
const IPV4_HEADER: u32 = 20;

pub(super) const ROWS: &[Row] = &[
    (option::RTOINFO, set_rtoinfo, rtoinfo),
    (option::ASSOCINFO, set_associnfo, associnfo),
    (option::INITMSG, set_initmsg, initmsg),
    (option::NODELAY, set_nodelay, |socket, _| field(socket, option::NODELAY)),
    (option::AUTOCLOSE, set_autoclose, |socket, _| field(socket, option::AUTOCLOSE)),
    (option::PARTIAL_DELIVERY_POINT, set_partial_delivery_point, |socket, _| {
        field(socket, option::PARTIAL_DELIVERY_POINT)
    }),
    (option::ADAPTATION_LAYER, set_adaptation_layer, |socket, _| {
        field(socket, option::ADAPTATION_LAYER)
    }),
    (option::NRSACK_SUPPORTED, set_nr_sack, nr_sack),
    (option::DELAYED_SACK, set_delayed_sack, delayed_sack),
    (option::MAX_BURST, set_max_burst, max_burst),
    (option::MAXSEG, set_maxseg, maxseg),
    (option::STATUS, read_only, |socket, given| {
        let status = socket.status(AssocId(parse::<abi::Status>(given)?.assoc_id))?;
        Ok(abi::to_bytes(&abi::Status::from(status)))
    }),
    (option::GET_ASSOC_STATS, read_only, |socket, given| {
        let totals = socket.totals(AssocId(parse::<AssocValue>(given)?.assoc_id))?;
        Ok(abi::to_bytes(&abi::AssocStats::from(totals)))
    }),
    (option::GET_ASSOC_NUMBER, read_only, |socket, _| number(socket.ids().len())),
    (option::GET_ASSOC_ID_LIST, read_only, |socket, _| Ok(id_list(&socket.ids()))),
];

/// An option that is one number, of associations to come.
fn field(socket: &Socket, name: c_int) -> Result<Vec<u8>, Errno> {
    let config = socket.configuration(AssocId::FUTURE)?;
    Ok(fields::fill(&config, name, vec![0; size_of::<c_int>()]))
}

fn set_rtoinfo(socket: &Socket, bytes: &[u8]) -> Result<(), Errno> {
    fields::set(socket, AssocId(parse::<Rtoinfo>(bytes)?.assoc_id), option::RTOINFO, bytes)
}

fn rtoinfo(socket: &Socket, given: &[u8]) -> Result<Vec<u8>, Errno> {
    let config = configuration(socket, given)?;
    Ok(fields::fill(&config, option::RTOINFO, abi::to_bytes(&parse::<Rtoinfo>(given)?)))
}

/// The life of cookies is the endpoint's, and stays.
fn set_associnfo(socket: &Socket, bytes: &[u8]) -> Result<(), Errno> {
    fields::set(socket, AssocId(parse::<Assocparams>(bytes)?.assoc_id), option::ASSOCINFO, bytes)
}

fn associnfo(socket: &Socket, given: &[u8]) -> Result<Vec<u8>, Errno> {
    let config = configuration(socket, given)?;
    let assoc_id = parse::<Assocparams>(given)?.assoc_id;
    let known = socket.with_association(AssocId(assoc_id), Association::statistics).ok();
    let params = Assocparams {
        assoc_id,
        asocmaxrxt: 0,
        number_peer_destinations: known.as_ref().map_or(0, |known| known.paths.len() as u16),
        peer_rwnd: known.as_ref().map_or(0, |known| known.peer_rwnd),
        local_rwnd: u32::try_from(config.receiving.receive_buffer).unwrap_or(u32::MAX),
        cookie_life: 60_000,
    };
    Ok(fields::fill(&config, option::ASSOCINFO, abi::to_bytes(&params)))
}

/// 0 keeps the present value.
fn set_initmsg(socket: &Socket, bytes: &[u8]) -> Result<(), Errno> {
    // sinit_max_init_timeo bounds the RTO of INIT; the engine has one bound for all.
    parse::<Initmsg>(bytes)?;
    fields::set(socket, AssocId::FUTURE, option::INITMSG, bytes)
}

/// What SCTP_INIT says of the one association that begins with it, over what the socket has.
pub(in crate::ffi) fn init(socket: &Socket, init: &Initmsg) -> Result<AssociationConfig, Errno> {
    fields::with(socket.configuration(AssocId::FUTURE)?, option::INITMSG, &abi::to_bytes(init))
}

fn initmsg(socket: &Socket, _: &[u8]) -> Result<Vec<u8>, Errno> {
    let config = socket.configuration(AssocId::FUTURE)?;
    let longest = u16::try_from(config.timers.rto_max.as_millis()).unwrap_or(u16::MAX);
    let init = Initmsg { max_init_timeo: longest, ..Initmsg::default() };
    Ok(fields::fill(&config, option::INITMSG, abi::to_bytes(&init)))
}

fn set_nodelay(socket: &Socket, bytes: &[u8]) -> Result<(), Errno> {
    let on = c_int::from(int(bytes)? != 0);
    fields::set(socket, AssocId::ALL, option::NODELAY, &on.to_ne_bytes())
}

fn set_autoclose(socket: &Socket, bytes: &[u8]) -> Result<(), Errno> {
    if socket.style() == Style::OneToOne {
        return Err(Errno::EOPNOTSUPP);
    }
    fields::set(socket, AssocId::ALL, option::AUTOCLOSE, bytes)
}

fn set_partial_delivery_point(socket: &Socket, bytes: &[u8]) -> Result<(), Errno> {
    fields::set(socket, AssocId::ALL, option::PARTIAL_DELIVERY_POINT, bytes)
}

fn set_adaptation_layer(socket: &Socket, bytes: &[u8]) -> Result<(), Errno> {
    let Setadaptation { ind } = parse(bytes)?;
    fields::set(socket, AssocId::FUTURE, option::ADAPTATION_LAYER, &ind.to_ne_bytes())
}

fn set_nr_sack(socket: &Socket, bytes: &[u8]) -> Result<(), Errno> {
    fields::set(
        socket,
        AssocId(parse::<AssocValue>(bytes)?.assoc_id),
        option::NRSACK_SUPPORTED,
        bytes,
    )
}

/// Of an association that is up: whether both sides agreed on NR-SACKs.
fn nr_sack(socket: &Socket, given: &[u8]) -> Result<Vec<u8>, Errno> {
    let config = socket.configuration(AssocId::FUTURE)?;
    let AssocValue { assoc_id, .. } = parse(given)?;
    let known = socket.with_association(AssocId(assoc_id), Association::statistics).ok();
    let value = known.map_or(config.acknowledging.nr_sack, |statistics| statistics.nr_sack);
    Ok(abi::to_bytes(&AssocValue { assoc_id, value: value.into() }))
}

fn set_delayed_sack(socket: &Socket, bytes: &[u8]) -> Result<(), Errno> {
    let info: SackInfo = parse(bytes)?;
    socket.configure(AssocId(info.assoc_id), |config| {
        if info.freq == 1 {
            config.acknowledging.sack_delay = Duration::ZERO;
        } else if info.delay > 0 {
            config.acknowledging.sack_delay = duration(info.delay);
        }
        if info.freq > 0 {
            config.acknowledging.sack_frequency = info.freq;
        }
    })?;
    Ok(())
}

fn delayed_sack(socket: &Socket, given: &[u8]) -> Result<Vec<u8>, Errno> {
    let acknowledging = configuration(socket, given)?.acknowledging;
    Ok(abi::to_bytes(&SackInfo {
        assoc_id: parse::<SackInfo>(given)?.assoc_id,
        delay: milliseconds(acknowledging.sack_delay),
        freq: acknowledging.sack_frequency,
    }))
}

/// A value for associations, or the int of old programs, which is for all of them.
fn value_or_int(bytes: &[u8]) -> Result<AssocValue, Errno> {
    parse(bytes).or_else(|_| {
        let value = u32::try_from(int(bytes)?).map_err(|_| Errno::EINVAL)?;
        Ok(AssocValue { assoc_id: AssocId::ALL.0, value })
    })
}

/// A value in the form in which it was asked for.
fn as_asked(given: &[u8], value: u32) -> Result<Vec<u8>, Errno> {
    match parse::<AssocValue>(given) {
        Ok(asked) => Ok(abi::to_bytes(&AssocValue { value, ..asked })),
        Err(_) => number(value as usize),
    }
}

fn set_max_burst(socket: &Socket, bytes: &[u8]) -> Result<(), Errno> {
    let AssocValue { assoc_id, value: packets } = value_or_int(bytes)?;
    socket.configure(AssocId(assoc_id), |config| {
        config.congestion.burst = match packets {
            0 => BurstControl::Unlimited,
            packets => BurstControl::MaxBurst(packets),
        };
    })?;
    Ok(())
}

fn max_burst(socket: &Socket, given: &[u8]) -> Result<Vec<u8>, Errno> {
    let packets = match configuration(socket, given)?.congestion.burst {
        BurstControl::MaxBurst(packets) | BurstControl::MaxBurstCutsCwnd(packets) => packets,
        BurstControl::Pacing { quantum } => quantum,
        BurstControl::Unlimited => 0,
    };
    as_asked(given, packets)
}

/// SCTP_MAXSEG: bytes of a fragment at the most (RFC 6458 section 8.1.16), 0 for as many as the path
/// takes. The engine bounds packets, whose largest fragment has what their headers leave.
fn set_maxseg(socket: &Socket, bytes: &[u8]) -> Result<(), Errno> {
    let AssocValue { value, .. } = value_or_int(bytes)?;
    let usual = AssociationConfig::default().mtu;
    let most = match value {
        0 => usual.max,
        // The least that is around a fragment; over UDP and IPv6 it is smaller by their headers.
        value => u16::try_from(value.saturating_add(DATA_OVERHEAD + IPV4_HEADER))
            .map_err(|_| Errno::EINVAL)?,
    };
    socket.configure(AssocId::FUTURE, |config| {
        config.mtu.max = most.min(usual.max);
        config.mtu.base = usual.base.min(config.mtu.max);
    })?;
    choose(socket, |options| options.maxseg = value)
}

fn maxseg(socket: &Socket, given: &[u8]) -> Result<Vec<u8>, Errno> {
    as_asked(given, socket.options(|options| options.maxseg))
}

/// How many numbers there are, and the numbers.
fn id_list(ids: &[AssocId]) -> Vec<u8> {
    let count = u32::try_from(ids.len()).unwrap_or(u32::MAX).to_ne_bytes();
    count.into_iter().chain(ids.iter().flat_map(|id| id.0.to_ne_bytes())).collect()
}
