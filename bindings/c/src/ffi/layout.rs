//! Options, ancillary data, notifications and addresses as the bytes of C programs, in safe Rust: for an engine whose
//! callers are other processes. Errors are numbers of `errno`.

use std::net::SocketAddr;

use anabranch_sockets::{
    Error, EventKind, Family, Notification, ReceiveInfo, Sending, Socket, Style,
};
use bytes::Bytes;
use libc::c_int;

use super::message::{SCTP_EXTRCV, SCTP_RCVINFO, SCTP_SNDRCV, item, prepare as apply};
use super::{control, options};
use crate::abi::{Rcvinfo, Sndrcvinfo};
use crate::errno::Errno;
use crate::{address, notifications, values};

/// The number of an error.
#[must_use]
pub fn number(error: Error) -> c_int {
    Errno::from(error).0
}

/// Parses the arguments of `socket` into style, family and whether it is non-blocking.
///
/// # Errors
/// EAFNOSUPPORT, EPROTONOSUPPORT, ESOCKTNOSUPPORT, EINVAL, as in Linux.
pub fn socket_arguments(
    domain: c_int,
    kind: c_int,
    protocol: c_int,
) -> Result<(Style, Family, bool), c_int> {
    super::socket::parse(domain, kind, protocol).map_err(|errno| errno.0)
}

/// Sets an option of any level to the value in these bytes.
///
/// # Errors
/// As `setsockopt`.
pub fn set_option(socket: &Socket, level: c_int, name: c_int, value: &[u8]) -> Result<(), c_int> {
    options::set(socket, level, name, value).map_err(|errno| errno.0)
}

/// The value of an option of any level, in at most `room` bytes. `given` is what the caller's buffer has in it.
///
/// # Errors
/// As `getsockopt`.
pub fn option(
    socket: &Socket,
    level: c_int,
    name: c_int,
    given: &[u8],
    room: usize,
) -> Result<Vec<u8>, c_int> {
    options::get(socket, (level, name), given, room).map_err(|errno| errno.0)
}

/// Applies the ancillary data of `sendmsg` to a message.
///
/// # Errors
/// As `sendmsg`.
pub fn prepare(sending: &mut Sending, control: &[u8]) -> Result<(), c_int> {
    apply(sending, control).map_err(|errno| errno.0)
}

/// The ancillary data that the socket's options want for a received message; without SCTP_NXTINFO.
#[must_use]
pub fn ancillary(socket: &Socket, info: ReceiveInfo, room: usize) -> Vec<u8> {
    let (receive_info, extended) =
        socket.options(|options| (options.receive_info, options.extended));
    let mut items = Vec::new();
    if receive_info {
        items.push(item(SCTP_RCVINFO, &Rcvinfo::from(info)));
    }
    if socket.is_subscribed(info.id, EventKind::DataIo) {
        items.push(match extended {
            true => item(SCTP_EXTRCV, &values::extended(info, None)),
            false => item(SCTP_SNDRCV, &Sndrcvinfo::from(info)),
        });
    }
    control::encode(&items, room).0
}

/// Bytes of a notification.
#[must_use]
pub fn notification_length(notification: &Notification) -> usize {
    notifications::length(notification)
}

/// A notification as C sees it, in pieces.
#[must_use]
pub fn notification(notification: &Notification) -> Vec<Bytes> {
    notifications::encode(notification, 0..notifications::length(notification)).to_vec()
}

/// The bytes of an address.
#[must_use]
pub fn address(address: SocketAddr) -> Vec<u8> {
    address::to_bytes(address)
}

/// Reads consecutive addresses, each of its family's size.
///
/// # Errors
/// EINVAL: there is none, or the last one is cut. EAFNOSUPPORT: another family than IPv4 and IPv6.
pub fn addresses(bytes: &[u8]) -> Result<Vec<SocketAddr>, c_int> {
    let (mut rest, mut found) = (bytes, Vec::new());
    while !rest.is_empty() {
        let (address, size) = address::from_bytes(rest).map_err(|errno| errno.0)?;
        found.push(address);
        rest = rest.get(size..).unwrap_or_default();
    }
    if found.is_empty() { Err(libc::EINVAL) } else { Ok(found) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_addresses_survive_the_way() {
        let list: Vec<SocketAddr> =
            ["10.0.0.1:7", "[2001:db8::1]:7"].iter().map(|text| text.parse().unwrap()).collect();
        let bytes: Vec<u8> = list.iter().flat_map(|each| address(*each)).collect();
        assert_eq!(addresses(&bytes), Ok(list));
        assert_eq!(addresses(&bytes[..bytes.len() - 1]), Err(libc::EINVAL));
        assert_eq!(addresses(&[]), Err(libc::EINVAL));
    }
}
