//! What carries the packets: UDP and its ports, or IP protocol 132.

use super::paths::is_unspecified;
use super::{Row, choose, int, number, parse, switch};
use crate::abi::{self, Udpencaps, option};
use crate::address;
use crate::errno::Errno;
use anabranch_sockets::{AssocId, Socket, Style};

pub(super) const ROWS: &[Row] = &[
    (option::REMOTE_UDP_ENCAPS_PORT, set_remote_port, remote_port),
    (option::LOCAL_UDP_PORT, set_local_port, |socket, _| number(socket.udp_port().into())),
    (
        option::RAW_IP,
        |socket, bytes| switch(socket, bytes, |options| &mut options.raw),
        |socket, _| number(socket.options(|options| options.raw).into()),
    ),
];

fn set_remote_port(socket: &Socket, bytes: &[u8]) -> Result<(), Errno> {
    let info: Udpencaps = parse(bytes)?;
    match AssocId(info.assoc_id) {
        // A one-to-one socket has one association at most (RFC 6951 section 6.1).
        _ if socket.style() == Style::OneToOne => {}
        AssocId::FUTURE => {}
        AssocId::CURRENT | AssocId::ALL => return Err(Errno::EINVAL),
        // The engine follows where a peer's packets come from (RFC 6951 section 5.4).
        _ => return Err(Errno::EOPNOTSUPP),
    }
    choose(socket, |options| options.remote_udp_port = u16::from_be(info.port))
}

fn remote_port(socket: &Socket, given: &[u8]) -> Result<Vec<u8>, Errno> {
    let info: Udpencaps = parse(given)?;
    let remote = if is_unspecified(&info.address.0) {
        None
    } else {
        Some(address::from_bytes(&info.address.0)?.0.ip())
    };
    let known = socket.remote_udp_port(AssocId(info.assoc_id), remote)?;
    let port = known.unwrap_or_else(|| socket.options(|options| options.remote_udp_port));
    Ok(abi::to_bytes(&Udpencaps { port: port.to_be(), ..info }))
}

fn set_local_port(socket: &Socket, bytes: &[u8]) -> Result<(), Errno> {
    let port = u16::try_from(int(bytes)?).map_err(|_| Errno::EINVAL)?;
    choose(socket, |options| options.udp_port = Some(port))
}
