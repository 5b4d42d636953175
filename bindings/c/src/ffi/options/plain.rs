//! Options at the level SOL_SOCKET.

use std::time::Duration;

use anabranch_sockets::{AssocId, Family, Options, ReceiveBuffer, SendBuffer, Socket, Style};
use libc::c_int;

use super::{choose, int, number, parse, switch};
use crate::abi;
use crate::errno::Errno;

pub(super) fn set(socket: &Socket, name: c_int, bytes: &[u8]) -> Result<(), Errno> {
    let timeout = || {
        let time: libc::timeval = parse(bytes)?;
        let seconds = u64::try_from(time.tv_sec).map_err(|_| Errno::EINVAL)?;
        let micros = u64::try_from(time.tv_usec).map_err(|_| Errno::EINVAL)?;
        let total = Duration::from_secs(seconds).saturating_add(Duration::from_micros(micros));
        Ok::<_, Errno>((!total.is_zero()).then_some(total))
    };
    let size = || usize::try_from(int(bytes)?).map_err(|_| Errno::EINVAL);
    match name {
        libc::SO_LINGER => {
            let linger: libc::linger = parse(bytes)?;
            let time = Duration::from_secs(u64::try_from(linger.l_linger).unwrap_or(0));
            choose(socket, |options| options.linger = (linger.l_onoff != 0).then_some(time))
        }
        libc::SO_RCVBUF => Ok(socket.set_option(AssocId::FUTURE, &ReceiveBuffer(size()?))?),
        libc::SO_SNDBUF => Ok(socket.set_option(AssocId::FUTURE, &SendBuffer(size()?))?),
        libc::SO_RCVTIMEO => {
            let limit = timeout()?;
            choose(socket, |options| options.receive_timeout = limit)
        }
        libc::SO_SNDTIMEO => {
            let limit = timeout()?;
            choose(socket, |options| options.send_timeout = limit)
        }
        // Ports of ended associations are free immediately, so there is nothing to set.
        libc::SO_REUSEADDR => int(bytes).map(|_| ()),
        // SCTP has no broadcasts. Go's libraries ask for them, and fail if they may not.
        libc::SO_BROADCAST => int(bytes).map(|_| ()),
        // Heartbeats keep associations alive anyway.
        libc::SO_KEEPALIVE => switch(socket, bytes, |options| &mut options.keepalive),
        // An SCTP port has one listener; the second one gets EADDRINUSE.
        libc::SO_REUSEPORT => switch(socket, bytes, |options| &mut options.reuse_port),
        libc::SO_BINDTODEVICE => {
            let name = bytes.split(|byte| *byte == 0).next().unwrap_or_default();
            let name = std::str::from_utf8(name).map_err(|_| Errno::EINVAL)?.to_owned();
            Ok(socket.choose_interface((!name.is_empty()).then_some(name))?)
        }
        _ => Err(Errno::ENOPROTOOPT),
    }
}

pub(super) fn get(socket: &Socket, name: c_int) -> Result<Vec<u8>, Errno> {
    let timeval = |limit: Option<Duration>| {
        let limit = limit.unwrap_or_default();
        let tv_sec = limit.as_secs().try_into().unwrap_or(i32::MAX.into());
        abi::to_bytes(&libc::timeval { tv_sec, tv_usec: limit.subsec_micros().into() })
    };
    let options = socket.options(Options::clone);
    Ok(match name {
        libc::SO_ERROR => {
            abi::to_bytes(&socket.take_error().map_or(0, |error| Errno::from(error).0))
        }
        libc::SO_TYPE => abi::to_bytes(&match socket.style() {
            Style::OneToOne => libc::SOCK_STREAM,
            Style::OneToMany => libc::SOCK_SEQPACKET,
        }),
        libc::SO_LINGER => {
            let time = options.linger.unwrap_or_default().as_secs();
            let l_linger = time.try_into().unwrap_or(c_int::MAX);
            abi::to_bytes(&libc::linger { l_onoff: options.linger.is_some().into(), l_linger })
        }
        libc::SO_RCVBUF => number(options.config().receiving.first_receive_buffer())?,
        libc::SO_SNDBUF => number(options.config().sending.first_send_buffer())?,
        libc::SO_RCVTIMEO => timeval(options.receive_timeout),
        libc::SO_SNDTIMEO => timeval(options.send_timeout),
        libc::SO_REUSEADDR => abi::to_bytes(&1),
        libc::SO_BROADCAST => abi::to_bytes(&0),
        libc::SO_KEEPALIVE => abi::to_bytes(&c_int::from(options.keepalive)),
        libc::SO_REUSEPORT => abi::to_bytes(&c_int::from(options.reuse_port)),
        libc::SO_BINDTODEVICE => match options.interface() {
            Some(name) => [name.as_bytes(), &[0]].concat(),
            None => Vec::new(),
        },
        libc::SO_DOMAIN => abi::to_bytes(&match socket.family() {
            Family::Ipv4 => libc::AF_INET,
            Family::Ipv6 => libc::AF_INET6,
        }),
        libc::SO_PROTOCOL => abi::to_bytes(&abi::IPPROTO_SCTP),
        libc::SO_ACCEPTCONN => abi::to_bytes(&c_int::from(socket.is_listening())),
        _ => return Err(Errno::ENOPROTOOPT),
    })
}

/// Options at the levels of IPv4 and IPv6. An IPv6 socket accepts both, and type of service and traffic
/// class are one value.
pub(super) fn set_ip(
    socket: &Socket,
    level: c_int,
    name: c_int,
    bytes: &[u8],
) -> Result<(), Errno> {
    match (level, name) {
        (libc::IPPROTO_IPV6, libc::IPV6_V6ONLY) => match int(bytes)? {
            0 => Ok(()),
            _ => Err(Errno::EOPNOTSUPP),
        },
        (libc::IPPROTO_IPV6, libc::IPV6_TCLASS) | (libc::IPPROTO_IP, libc::IP_TOS) => {
            let class = u8::try_from(int(bytes)?).map_err(|_| Errno::EINVAL)?;
            Ok(socket.choose_traffic_class(class)?)
        }
        _ => Err(Errno::ENOPROTOOPT),
    }
}

pub(super) fn get_ip(socket: &Socket, level: c_int, name: c_int) -> Result<Vec<u8>, Errno> {
    match (level, name) {
        (libc::IPPROTO_IPV6, libc::IPV6_V6ONLY) => number(0),
        (libc::IPPROTO_IPV6, libc::IPV6_TCLASS) | (libc::IPPROTO_IP, libc::IP_TOS) => {
            number(socket.options(|options| options.traffic_class()).into())
        }
        _ => Err(Errno::ENOPROTOOPT),
    }
}
