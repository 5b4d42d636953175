//! Which route of the kernel a packet would take: RTM_GETROUTE, which needs no privilege.
//!
//! A host with two networks usually has two default routes that differ in their metric, and sends everything by the one
//! with the lower metric, also what comes from the address of the other network. The other network's router is then never
//! asked, and the first one drops the packets or translates them to the wrong address. A socket that is bound to the
//! interface of the address uses the other route.
//!
//! Not every packet that leaves by another interface has lost its way. The address may belong to the loopback interface,
//! or to an interface without a route to the peer, for which an IPv4 socket would look in vain on the link itself. A virtual
//! private network has more specific routes, or a table of its own, and must not be bypassed. So the interface of the
//! address is used only if its route is for the same destinations in the same table as the one that the kernel prefers.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsRawFd, OwnedFd};

use nix::errno::Errno;
use nix::libc;
use nix::sys::socket::{
    AddressFamily, MsgFlags, NetlinkAddr, SockFlag, SockProtocol, SockType, recv, sendto, socket,
};

use crate::runtime::LocalAddress;

/// Flags of a question (include/uapi/linux/rtnetlink.h): answer with the true table, and with its entry instead of what
/// follows from it.
const RTM_F_LOOKUP_TABLE: u32 = 0x1000;
const RTM_F_FIB_MATCH: u32 = 0x2000;

/// Attributes of routes, of the same header.
const RTA_DST: u16 = 1;
const RTA_SRC: u16 = 2;
const RTA_OIF: u16 = 4;
const RTA_MULTIPATH: u16 = 9;
const RTA_TABLE: u16 = 15;
const RTA_IP_PROTO: u16 = 27;
const RTA_DPORT: u16 = 29;

/// Lengths of struct nlmsghdr and struct rtmsg.
const HEADER: usize = 16;
const ROUTE: usize = 12;

/// A route as far as it matters here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Route {
    table: u32,
    prefix_len: u8,
    /// The interface; `None` if there are several.
    interface: Option<u32>,
}

/// As [`Runtime::strays`](crate::runtime::Runtime::strays).
pub(super) fn stray(local: &LocalAddress, remote: SocketAddr) -> io::Result<bool> {
    if local.index == 0 || local.ip.is_ipv4() != remote.is_ipv4() {
        return Ok(false);
    }
    let flags = SockFlag::SOCK_NONBLOCK | SockFlag::SOCK_CLOEXEC;
    let protocol = SockProtocol::NetlinkRoute;
    let netlink = socket(AddressFamily::Netlink, SockType::Raw, flags, protocol)?;
    let Some(usual) = ask(&netlink, Some(local.ip), remote, None)? else {
        return Ok(false);
    };
    if usual.interface.is_none_or(|interface| interface == local.index) {
        return Ok(false);
    }
    // With a source, the kernel takes an interface of IPv6 for a mere preference.
    let source = Some(local.ip).filter(IpAddr::is_ipv4);
    let own = ask(&netlink, source, remote, Some(local.index))?;
    Ok(own == Some(Route { interface: Some(local.index), ..usual }))
}

/// The route from `local`, over `interface` if that is given; `None` if there is none.
fn ask(
    netlink: &OwnedFd,
    local: Option<IpAddr>,
    remote: SocketAddr,
    interface: Option<u32>,
) -> io::Result<Option<Route>> {
    let question = question(local, remote, interface);
    sendto(netlink.as_raw_fd(), &question, &NetlinkAddr::new(0, 0), MsgFlags::empty())?;
    let mut answer = [0; 4096];
    // The kernel has answered before the call above returned.
    let len = recv(netlink.as_raw_fd(), &mut answer, MsgFlags::empty())?;
    read(answer.get(..len).unwrap_or_default())
}

fn question(local: Option<IpAddr>, remote: SocketAddr, interface: Option<u32>) -> Vec<u8> {
    let bits = |ip: IpAddr| if ip.is_ipv4() { 32 } else { 128 };
    let family = if remote.is_ipv4() { libc::AF_INET } else { libc::AF_INET6 };
    let mut message = vec![0; HEADER];
    message.extend([family as u8, bits(remote.ip()), local.map_or(0, bits), 0, 0, 0, 0, 0]);
    message.extend((RTM_F_LOOKUP_TABLE | RTM_F_FIB_MATCH).to_ne_bytes());
    let octets = |ip: IpAddr| match ip {
        IpAddr::V4(v4) => v4.octets().to_vec(),
        IpAddr::V6(v6) => v6.octets().to_vec(),
    };
    let mut attribute = |kind: u16, value: &[u8]| {
        message.extend((value.len() as u16 + 4).to_ne_bytes());
        message.extend(kind.to_ne_bytes());
        message.extend(value);
        message.resize(message.len().next_multiple_of(4), 0);
    };
    attribute(RTA_DST, &octets(remote.ip()));
    if let Some(local) = local {
        attribute(RTA_SRC, &octets(local));
    }
    if let Some(interface) = interface {
        attribute(RTA_OIF, &interface.to_ne_bytes());
    }
    // Rules may be about UDP ports. The kernel accepts no other protocols here.
    if remote.port() != 0 {
        attribute(RTA_IP_PROTO, &[libc::IPPROTO_UDP as u8]);
        attribute(RTA_DPORT, &remote.port().to_be_bytes());
    }
    let len = message.len() as u32;
    let header = [
        &len.to_ne_bytes()[..],
        &libc::RTM_GETROUTE.to_ne_bytes(),
        &(libc::NLM_F_REQUEST as u16).to_ne_bytes(),
    ];
    message.iter_mut().zip(header.concat()).for_each(|(to, from)| *to = from);
    message
}

/// Reads the answer of the kernel.
fn read(answer: &[u8]) -> io::Result<Option<Route>> {
    let wrong = || io::Error::from(io::ErrorKind::InvalidData);
    let long = |at: usize| Some(u32::from_ne_bytes(*answer.get(at..)?.first_chunk()?));
    let short = |at: usize| Some(u16::from_ne_bytes(*answer.get(at..)?.first_chunk()?));
    match short(4).ok_or_else(wrong)? {
        libc::RTM_NEWROUTE => {}
        kind if i32::from(kind) == libc::NLMSG_ERROR => {
            let error = long(HEADER).ok_or_else(wrong)?.cast_signed();
            return match Errno::from_raw(error.saturating_neg()) {
                Errno::ENETUNREACH | Errno::EHOSTUNREACH | Errno::EACCES | Errno::EINVAL => {
                    Ok(None)
                }
                other => Err(other.into()),
            };
        }
        _ => return Err(wrong()),
    }
    let prefix_len = *answer.get(HEADER + 1).ok_or_else(wrong)?;
    let mut route = Route {
        table: u32::from(*answer.get(HEADER + 4).ok_or_else(wrong)?),
        prefix_len,
        interface: None,
    };
    let mut at = HEADER + ROUTE;
    while let (Some(len @ 4..), Some(kind)) = (short(at), short(at + 2)) {
        match kind {
            RTA_TABLE => route.table = long(at + 4).ok_or_else(wrong)?,
            RTA_OIF => route.interface = Some(long(at + 4).ok_or_else(wrong)?),
            // The kernel distributes packets among several interfaces, and the user wants that.
            RTA_MULTIPATH => return Ok(Some(Route { interface: None, ..route })),
            _ => {}
        }
        at += usize::from(len).next_multiple_of(4);
    }
    Ok(Some(route))
}
