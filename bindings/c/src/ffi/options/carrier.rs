//! Encapsulation: UDP and its ports, or IP protocol 132.

use super::paths::remote;
use super::{Row, choose, int, number, parse, switch};
use crate::abi::{self, Udpencaps, option};
use crate::errno::Errno;
use anabranch_sockets::{AssocId, Socket};

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
    Ok(socket.set_remote_udp_port(AssocId(info.assoc_id), u16::from_be(info.port))?)
}

fn remote_port(socket: &Socket, given: &[u8]) -> Result<Vec<u8>, Errno> {
    let info: Udpencaps = parse(given)?;
    let port = socket.remote_udp_port(AssocId(info.assoc_id), remote(&info.address.0)?)?;
    Ok(abi::to_bytes(&Udpencaps { port: port.to_be(), ..info }))
}

fn set_local_port(socket: &Socket, bytes: &[u8]) -> Result<(), Errno> {
    let port = u16::try_from(int(bytes)?).map_err(|_| Errno::EINVAL)?;
    choose(socket, |options| options.udp_port = Some(port))
}
