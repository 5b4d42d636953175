//! Association options. In many of their structures, 0 keeps the current value.

use std::time::Duration;

use anabranch::congestion::CongestionControl;
use anabranch_sockets::{
    AdaptationLayer, AssocId, AssocParams, AssociationOption, AutoClose, DelayedSack, InitMsg,
    MaxBurst, NoDelay, Options, PartialDeliveryPoint, PluggableCc, RtoInfo, Socket,
};

use super::{Row, duration, id, int, milliseconds, number, parse, read_only, short};
use crate::abi::{
    self, AssocValue, Assocparams, Initmsg, Rtoinfo, SackInfo, Setadaptation, control, option,
};
use crate::errno::Errno;

pub(super) const ROWS: &[Row] = &[
    (option::RTOINFO, set_rtoinfo, rtoinfo),
    (option::ASSOCINFO, set_associnfo, associnfo),
    (option::INITMSG, set_initmsg, initmsg),
    (option::NODELAY, set_nodelay, nodelay),
    (option::AUTOCLOSE, set_autoclose, autoclose),
    (option::PARTIAL_DELIVERY_POINT, set_partial_delivery_point, partial_delivery_point),
    (option::ADAPTATION_LAYER, set_adaptation_layer, adaptation_layer),
    (option::DELAYED_SACK, set_delayed_sack, delayed_sack),
    (option::MAX_BURST, set_max_burst, max_burst),
    (option::PLUGGABLE_CC, set_pluggable_cc, pluggable_cc),
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

/// The numbers of congestion controls. FreeBSD's others (HSTCP, HTCP, RTCC) do not exist here.
const CONTROLS: &[(u32, CongestionControl)] = &[
    (control::RFC2581, CongestionControl::Rfc9260),
    (control::CUBIC, CongestionControl::Cubic),
    (control::BBR, CongestionControl::Bbr),
    (control::BBR_LOSSY, CongestionControl::BbrLossy),
];

/// A number, or `None` if it is 0, which keeps the current value.
fn given<T: From<u8> + PartialEq>(number: T) -> Option<T> {
    (number != T::from(0)).then_some(number)
}

/// An option of future associations.
fn future<O: AssociationOption>(socket: &Socket) -> Result<O, Errno> {
    Ok(socket.option(AssocId::FUTURE)?)
}

fn set_rtoinfo(socket: &Socket, bytes: &[u8]) -> Result<(), Errno> {
    let Rtoinfo { assoc_id, initial, max, min } = parse(bytes)?;
    let [initial, max, min] = [initial, max, min].map(|time| given(time).map(duration));
    Ok(socket.set_option(AssocId(assoc_id), &RtoInfo { initial, max, min })?)
}

fn rtoinfo(socket: &Socket, bytes: &[u8]) -> Result<Vec<u8>, Errno> {
    let Rtoinfo { assoc_id, .. } = parse(bytes)?;
    let RtoInfo { initial, max, min } = socket.option(AssocId(assoc_id))?;
    let [initial, max, min] = [initial, max, min].map(|time| time.map_or(0, milliseconds));
    Ok(abi::to_bytes(&Rtoinfo { assoc_id, initial, max, min }))
}

/// The cookie lifetime belongs to the endpoint and is not changed.
fn set_associnfo(socket: &Socket, bytes: &[u8]) -> Result<(), Errno> {
    let Assocparams { assoc_id, asocmaxrxt, .. } = parse(bytes)?;
    let max_retrans = given(asocmaxrxt).map(u32::from);
    Ok(socket.set_option(AssocId(assoc_id), &AssocParams { max_retrans })?)
}

fn associnfo(socket: &Socket, bytes: &[u8]) -> Result<Vec<u8>, Errno> {
    let Assocparams { assoc_id, .. } = parse(bytes)?;
    let info = socket.assoc_info(AssocId(assoc_id))?;
    Ok(abi::to_bytes(&Assocparams {
        assoc_id,
        asocmaxrxt: short(info.max_retrans),
        number_peer_destinations: u16::try_from(info.peer_addresses).unwrap_or(u16::MAX),
        peer_rwnd: info.peer_rwnd,
        local_rwnd: u32::try_from(info.local_rwnd).unwrap_or(u32::MAX),
        cookie_life: milliseconds(info.cookie_life),
    }))
}

/// SCTP_INITMSG, also as ancillary data. Ignores `sinit_max_init_timeo`, a bound for the RTO of INIT: the
/// engine has one bound for all packets.
pub(in crate::ffi) fn init_of(init: &Initmsg) -> InitMsg {
    InitMsg {
        outbound_streams: given(init.num_ostreams),
        inbound_streams: given(init.max_instreams),
        max_attempts: given(init.max_attempts).map(u32::from),
    }
}

fn set_initmsg(socket: &Socket, bytes: &[u8]) -> Result<(), Errno> {
    Ok(socket.set_option(AssocId::FUTURE, &init_of(&parse(bytes)?))?)
}

fn initmsg(socket: &Socket, _: &[u8]) -> Result<Vec<u8>, Errno> {
    let init: InitMsg = future(socket)?;
    let RtoInfo { max, .. } = future(socket)?;
    Ok(abi::to_bytes(&Initmsg {
        num_ostreams: init.outbound_streams.unwrap_or(0),
        max_instreams: init.inbound_streams.unwrap_or(0),
        max_attempts: short(init.max_attempts.unwrap_or(0)),
        max_init_timeo: short(max.map_or(0, milliseconds)),
    }))
}

fn set_nodelay(socket: &Socket, bytes: &[u8]) -> Result<(), Errno> {
    Ok(socket.set_option(AssocId::ALL, &NoDelay(int(bytes)? != 0))?)
}

fn nodelay(socket: &Socket, _: &[u8]) -> Result<Vec<u8>, Errno> {
    let NoDelay(on) = future(socket)?;
    number(on.into())
}

/// An int that must not be negative.
fn natural(bytes: &[u8]) -> Result<u32, Errno> {
    u32::try_from(int(bytes)?).map_err(|_| Errno::EINVAL)
}

fn set_autoclose(socket: &Socket, bytes: &[u8]) -> Result<(), Errno> {
    let time = int(bytes)?;
    let time = u64::try_from(time).map(|time| (time > 0).then(|| Duration::from_secs(time)));
    // Ignore the value on sockets without the option.
    let option = AutoClose(time.unwrap_or(Some(Duration::MAX)));
    Ok(socket.set_option(AssocId::ALL, &option)?)
}

fn autoclose(socket: &Socket, _: &[u8]) -> Result<Vec<u8>, Errno> {
    let AutoClose(time) = future(socket)?;
    number(time.map_or(0, |time| usize::try_from(time.as_secs()).unwrap_or(usize::MAX)))
}

fn set_partial_delivery_point(socket: &Socket, bytes: &[u8]) -> Result<(), Errno> {
    let point = PartialDeliveryPoint(natural(bytes)? as usize);
    Ok(socket.set_option(AssocId::ALL, &point)?)
}

fn partial_delivery_point(socket: &Socket, _: &[u8]) -> Result<Vec<u8>, Errno> {
    let PartialDeliveryPoint(point) = future(socket)?;
    number(point)
}

fn set_adaptation_layer(socket: &Socket, bytes: &[u8]) -> Result<(), Errno> {
    let Setadaptation { ind } = parse(bytes)?;
    Ok(socket.set_option(AssocId::FUTURE, &AdaptationLayer(Some(ind)))?)
}

fn adaptation_layer(socket: &Socket, _: &[u8]) -> Result<Vec<u8>, Errno> {
    let AdaptationLayer(code) = future(socket)?;
    Ok(abi::to_bytes(&Setadaptation { ind: code.unwrap_or(0) }))
}

fn set_delayed_sack(socket: &Socket, bytes: &[u8]) -> Result<(), Errno> {
    let SackInfo { assoc_id, delay, freq } = parse(bytes)?;
    let sack = DelayedSack { delay: given(delay).map(duration), frequency: given(freq) };
    Ok(socket.set_option(AssocId(assoc_id), &sack)?)
}

fn delayed_sack(socket: &Socket, bytes: &[u8]) -> Result<Vec<u8>, Errno> {
    let SackInfo { assoc_id, .. } = parse(bytes)?;
    let sack: DelayedSack = socket.option(AssocId(assoc_id))?;
    let (delay, freq) = (sack.delay.map_or(0, milliseconds), sack.frequency.unwrap_or(0));
    Ok(abi::to_bytes(&SackInfo { assoc_id, delay, freq }))
}

/// A value with an association id, or the plain int of old programs, which applies to all associations.
fn value_or_int(bytes: &[u8]) -> Result<AssocValue, Errno> {
    parse(bytes).or_else(|_| Ok(AssocValue { assoc_id: AssocId::ALL.0, value: natural(bytes)? }))
}

/// A value in the form that the caller used.
fn as_asked(given: &[u8], value: u32) -> Result<Vec<u8>, Errno> {
    match parse::<AssocValue>(given) {
        Ok(asked) => Ok(abi::to_bytes(&AssocValue { value, ..asked })),
        Err(_) => number(value as usize),
    }
}

fn set_max_burst(socket: &Socket, bytes: &[u8]) -> Result<(), Errno> {
    let AssocValue { assoc_id, value: packets } = value_or_int(bytes)?;
    Ok(socket.set_option(AssocId(assoc_id), &MaxBurst(given(packets)))?)
}

fn max_burst(socket: &Socket, bytes: &[u8]) -> Result<Vec<u8>, Errno> {
    let MaxBurst(packets) = socket.option(id(bytes))?;
    as_asked(bytes, packets.unwrap_or(0))
}

fn set_pluggable_cc(socket: &Socket, bytes: &[u8]) -> Result<(), Errno> {
    let AssocValue { assoc_id, value } = value_or_int(bytes)?;
    let (_, control) = CONTROLS.iter().find(|(number, _)| *number == value).ok_or(Errno::EINVAL)?;
    Ok(socket.set_option(AssocId(assoc_id), &PluggableCc(*control))?)
}

/// A congestion control without a number is EINVAL: the option by name returns it.
fn pluggable_cc(socket: &Socket, bytes: &[u8]) -> Result<Vec<u8>, Errno> {
    let PluggableCc(used) = socket.option(id(bytes))?;
    let known = CONTROLS.iter().find(|(_, control)| *control == used);
    as_asked(bytes, known.ok_or(Errno::EINVAL)?.0)
}

fn set_maxseg(socket: &Socket, bytes: &[u8]) -> Result<(), Errno> {
    Ok(socket.set_max_segment(value_or_int(bytes)?.value)?)
}

fn maxseg(socket: &Socket, given: &[u8]) -> Result<Vec<u8>, Errno> {
    as_asked(given, socket.options(Options::max_segment))
}

/// The number of ids, then the ids.
fn id_list(ids: &[AssocId]) -> Vec<u8> {
    let count = u32::try_from(ids.len()).unwrap_or(u32::MAX).to_ne_bytes();
    count.into_iter().chain(ids.iter().flat_map(|id| id.0.to_ne_bytes())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::world;

    #[test]
    fn numbers_that_do_not_fit_are_the_largest_that_do() {
        let fd = crate::ffi::anabranch_socket(libc::AF_INET, libc::SOCK_SEQPACKET, 0);
        let socket = world::find(fd).unwrap();
        socket.set_named(AssocId::ALL, "partial_delivery_point", "unlimited").unwrap();
        assert_eq!(partial_delivery_point(&socket, &[]), Ok(abi::to_bytes(&libc::c_int::MAX)));
        socket.set_named(AssocId::ALL, "association_max_retrans", "100000").unwrap();
        let given = abi::to_bytes(&Assocparams::default());
        let params: Assocparams = parse(&associnfo(&socket, &given).unwrap()).unwrap();
        assert_eq!(params.asocmaxrxt, u16::MAX);
        // Negative numbers are not values.
        let negative = abi::to_bytes(&-1);
        assert_eq!(set_partial_delivery_point(&socket, &negative), Err(Errno::EINVAL));
        assert_eq!(set_autoclose(&socket, &negative), Err(Errno::EINVAL));
        world::close(fd).unwrap();
    }
}
