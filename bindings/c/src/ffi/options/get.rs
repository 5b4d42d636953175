//! Asking for options at the level of SCTP.

use anabranch::config::BurstControl;
use libc::c_int;

use super::{
    HB_DISABLE, HB_ENABLE, PMTUD_DISABLE, PMTUD_ENABLE, SACKDELAY_DISABLE, SACKDELAY_ENABLE,
    SUBSCRIPTIONS, fields, milliseconds, named, parse, parse_paddrparams,
};
use crate::abi::{
    self, AssocValue, Assocparams, DefaultPrinfo, Event, Initmsg, Paddrinfo, Paddrparams,
    Paddrthlds, Prim, Rtoinfo, SackInfo, Sndinfo, Sndrcvinfo, Status, Udpencaps, flag, option,
};
use crate::address;
use crate::errno::Errno;
use crate::socket::Socket;
use crate::socket::configure::FUTURE_ASSOC;

#[expect(clippy::too_many_lines, reason = "one arm for each socket option")]
pub(super) fn get(socket: &Socket, name: c_int, given: &[u8]) -> Result<Vec<u8>, Errno> {
    let options = socket.with(|state| state.options.clone());
    // Those that associations of a one-to-many socket have for themselves.
    let id = match name {
        option::RTOINFO
        | option::ASSOCINFO
        | option::PEER_ADDR_PARAMS
        | option::DELAYED_SACK
        | option::MAX_BURST => parse::<AssocValue>(given).map_or(FUTURE_ASSOC, |v| v.assoc_id),
        _ => FUTURE_ASSOC,
    };
    let config = &socket.configuration(id)?;
    let flag = |on: bool| abi::to_bytes(&c_int::from(on));
    let number = |number: usize| abi::to_bytes(&c_int::try_from(number).unwrap_or(c_int::MAX));
    Ok(match name {
        option::RTOINFO => fields::fill(config, name, abi::to_bytes(&parse::<Rtoinfo>(given)?)),
        option::ASSOCINFO => {
            let assoc_id = parse::<Assocparams>(given)?.assoc_id;
            let known = socket.with_association(assoc_id, anabranch::Association::statistics);
            let known = known.ok();
            let params = Assocparams {
                assoc_id,
                asocmaxrxt: 0,
                number_peer_destinations: known
                    .as_ref()
                    .map_or(0, |known| known.paths.len() as u16),
                peer_rwnd: known.as_ref().map_or(0, |known| known.peer_rwnd),
                local_rwnd: u32::try_from(config.receiving.receive_buffer).unwrap_or(u32::MAX),
                cookie_life: 60_000,
            };
            fields::fill(config, name, abi::to_bytes(&params))
        }
        option::INITMSG => {
            let longest = u16::try_from(config.timers.rto_max.as_millis()).unwrap_or(u16::MAX);
            let init = Initmsg { max_init_timeo: longest, ..Initmsg::default() };
            fields::fill(config, name, abi::to_bytes(&init))
        }
        option::NODELAY
        | option::AUTOCLOSE
        | option::PARTIAL_DELIVERY_POINT
        | option::ADAPTATION_LAYER => fields::fill(config, name, vec![0; size_of::<c_int>()]),
        option::PRIMARY_ADDR => {
            let prim: Prim = parse(given)?;
            let primary = *socket.peer_addresses(prim.assoc_id)?.first().ok_or(Errno::ENOTCONN)?;
            abi::to_bytes(&Prim { assoc_id: prim.assoc_id, address: address::to_storage(primary) })
        }
        option::PEER_ADDR_PARAMS => {
            let params: Paddrparams = parse_paddrparams(given)?;
            let (heartbeats, delays) =
                (config.timers.heartbeat_interval, !config.acknowledging.sack_delay.is_zero());
            abi::to_bytes(&Paddrparams {
                hbinterval: heartbeats.map_or(0, milliseconds),
                pathmaxrxt: u16::try_from(config.paths.path_max_retrans).unwrap_or(u16::MAX),
                pathmtu: if config.mtu.discovery { 0 } else { config.mtu.base.into() },
                sackdelay: milliseconds(config.acknowledging.sack_delay),
                flags: if heartbeats.is_some() { HB_ENABLE } else { HB_DISABLE }
                    | if config.mtu.discovery { PMTUD_ENABLE } else { PMTUD_DISABLE }
                    | if delays { SACKDELAY_ENABLE } else { SACKDELAY_DISABLE },
                ..params
            })
        }
        option::PEER_ADDR_THLDS | option::PEER_ADDR_THLDS_V2 => {
            let threshold = |errors: Option<u32>| {
                errors.map_or(u16::MAX, |errors| u16::try_from(errors).unwrap_or(u16::MAX))
            };
            abi::to_bytes(&Paddrthlds {
                pathmaxrxt: threshold(Some(config.paths.path_max_retrans)),
                pathpfthld: threshold(config.paths.potentially_failed_max_retrans),
                pathcpthld: threshold(config.paths.change_primary_threshold),
                ..parse(given)?
            })
        }
        option::DEFAULT_PRINFO => {
            let time = options.default_lifetime;
            abi::to_bytes(&DefaultPrinfo {
                assoc_id: parse::<DefaultPrinfo>(given)?.assoc_id,
                value: time.map_or(0, milliseconds),
                policy: if time.is_some() { flag::PR_TTL } else { 0 },
                pad: 0,
            })
        }
        option::EXPOSE_POTENTIALLY_FAILED_STATE => {
            let value = u32::from(options.expose_pf);
            abi::to_bytes(&AssocValue { value, ..parse::<AssocValue>(given)? })
        }
        option::NRSACK_SUPPORTED => {
            let AssocValue { assoc_id, .. } = parse(given)?;
            // Of one that is up: what was agreed on.
            let known = socket.with_association(assoc_id, anabranch::Association::statistics);
            let known = known.ok();
            let value = known.map_or(config.acknowledging.nr_sack, |statistics| statistics.nr_sack);
            abi::to_bytes(&AssocValue { assoc_id, value: value.into() })
        }
        option::DELAYED_SACK => abi::to_bytes(&SackInfo {
            assoc_id: parse::<SackInfo>(given)?.assoc_id,
            delay: milliseconds(config.acknowledging.sack_delay),
            freq: config.acknowledging.sack_frequency,
        }),
        option::MAX_BURST => {
            let packets = match config.congestion.burst {
                BurstControl::MaxBurst(packets) | BurstControl::MaxBurstCutsCwnd(packets) => {
                    packets
                }
                BurstControl::Pacing { quantum } => quantum,
                BurstControl::Unlimited => 0,
            };
            match parse::<AssocValue>(given) {
                Ok(value) => abi::to_bytes(&AssocValue { value: packets, ..value }),
                Err(_) => number(packets as usize),
            }
        }
        option::MAXSEG => match parse::<AssocValue>(given) {
            Ok(value) => abi::to_bytes(&AssocValue { value: options.maxseg, ..value }),
            Err(_) => number(options.maxseg as usize),
        },
        option::DISABLE_FRAGMENTS => flag(options.whole),
        option::FRAGMENT_INTERLEAVE => number(1),
        option::EVENT => {
            let event: Event = parse(given)?;
            abi::to_bytes(&Event { on: options.events.contains(&event.kind).into(), ..event })
        }
        option::EVENTS => SUBSCRIPTIONS
            .iter()
            .take(given.len())
            .map(|kind| options.events.contains(kind).into())
            .collect(),
        option::I_WANT_MAPPED_V4_ADDR => flag(options.mapped),
        option::CONTEXT => {
            abi::to_bytes(&AssocValue { value: options.context, ..parse::<AssocValue>(given)? })
        }
        option::RECVRCVINFO => flag(options.rcvinfo),
        option::RECVNXTINFO => flag(options.nxtinfo),
        option::DEFAULT_SNDINFO => abi::to_bytes(&options.default_send),
        option::DEFAULT_SEND_PARAM => {
            let Sndinfo { sid, flags, ppid, context, assoc_id } = options.default_send;
            let timetolive = options.default_lifetime.map_or(0, milliseconds);
            let info = Sndrcvinfo {
                stream: sid,
                flags,
                ppid,
                context,
                assoc_id,
                timetolive,
                ..Sndrcvinfo::default()
            };
            abi::to_bytes(&info)
        }
        option::STATUS => {
            abi::to_bytes::<Status>(&socket.status(parse::<Status>(given)?.assoc_id)?)
        }
        option::GET_ASSOC_STATS => {
            abi::to_bytes(&socket.totals(parse::<AssocValue>(given)?.assoc_id)?)
        }
        option::GET_PEER_ADDR_INFO => {
            let info: Paddrinfo = parse(given)?;
            let remote = address::from_bytes(&info.address)?.0;
            abi::to_bytes(&socket.path_info(info.assoc_id, remote)?)
        }
        option::GET_ASSOC_NUMBER => {
            abi::to_bytes(&u32::try_from(socket.ids().len()).unwrap_or(u32::MAX).cast_signed())
        }
        option::GET_ASSOC_ID_LIST => {
            let ids = socket.ids();
            let count = u32::try_from(ids.len()).unwrap_or(u32::MAX).to_ne_bytes();
            count.into_iter().chain(ids.iter().flat_map(|id| id.to_ne_bytes())).collect()
        }
        option::REMOTE_UDP_ENCAPS_PORT => {
            let info: Udpencaps = parse(given)?;
            abi::to_bytes(&Udpencaps { port: options.remote_udp_port.to_be(), ..info })
        }
        option::LOCAL_UDP_PORT => number(usize::from(socket.udp_port())),
        option::RAW_IP => flag(options.raw),
        option::NAMED => named::get(socket, given)?,
        _ => return Err(Errno::ENOPROTOOPT),
    })
}
