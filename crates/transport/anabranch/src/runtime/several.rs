//! Sending several packets, each with its own header, with one call: sendmmsg.

use std::io::{self, IoSlice};
use std::net::{IpAddr, SocketAddr, SocketAddrV6};
use std::os::fd::AsRawFd;

use anabranch_proto::Ecn;
use nix::libc;
use nix::sys::socket::{
    ControlMessage, MsgFlags, MultiHeaders, SockaddrIn, SockaddrIn6, SockaddrLike, sendmmsg,
    sendmsg,
};

use super::Datagrams;

/// Maximum packets in one call: about as many as the engine produces at a time.
pub(super) const MOST_PACKETS: usize = 44;

/// Sends packets with this type of service or traffic class, combined with their ECN bits. Returns the
/// number of bytes that the kernel accepted, in whole packets.
pub(super) fn packets(
    socket: &std::net::UdpSocket,
    destination: SocketAddr,
    datagrams: &Datagrams<'_>,
    class: u8,
) -> io::Result<usize> {
    let tos = class | datagrams.ecn.map_or(0, Ecn::bits);
    match destination {
        SocketAddr::V4(to) => {
            let to = SockaddrIn::from(to);
            let info = match datagrams.source {
                Some(IpAddr::V4(source)) => Some(libc::in_pktinfo {
                    ipi_ifindex: 0,
                    ipi_spec_dst: libc::in_addr { s_addr: u32::from_ne_bytes(source.octets()) },
                    ipi_addr: libc::in_addr { s_addr: 0 },
                }),
                _ => None,
            };
            // The kernel refuses a control buffer that is longer than the messages in it.
            match &info {
                Some(info) => {
                    let control =
                        [ControlMessage::Ipv4Tos(&tos), ControlMessage::Ipv4PacketInfo(info)];
                    let space = nix::cmsg_space!(u8, libc::in_pktinfo);
                    call(socket, datagrams, to, &control, space)
                }
                None => {
                    let control = [ControlMessage::Ipv4Tos(&tos)];
                    call(socket, datagrams, to, &control, nix::cmsg_space!(u8))
                }
            }
        }
        SocketAddr::V6(to) => {
            let (scope, class) = (to.scope_id(), i32::from(tos));
            let to = SockaddrIn6::from(SocketAddrV6::new(*to.ip(), to.port(), 0, scope));
            let info = match datagrams.source {
                Some(IpAddr::V6(source)) => Some(libc::in6_pktinfo {
                    ipi6_addr: libc::in6_addr { s6_addr: source.octets() },
                    ipi6_ifindex: scope,
                }),
                _ => None,
            };
            match &info {
                Some(info) => {
                    let control =
                        [ControlMessage::Ipv6TClass(&class), ControlMessage::Ipv6PacketInfo(info)];
                    let space = nix::cmsg_space!(libc::c_int, libc::in6_pktinfo);
                    call(socket, datagrams, to, &control, space)
                }
                None => {
                    let control = [ControlMessage::Ipv6TClass(&class)];
                    call(socket, datagrams, to, &control, nix::cmsg_space!(libc::c_int))
                }
            }
        }
    }
}

fn call<S: SockaddrLike + Copy>(
    socket: &std::net::UdpSocket,
    datagrams: &Datagrams<'_>,
    to: S,
    control: &[ControlMessage<'_>],
    space: Vec<u8>,
) -> io::Result<usize> {
    let flags = MsgFlags::MSG_DONTWAIT;
    let packets = datagrams.contents.chunks(datagrams.segment_size.max(1)).take(MOST_PACKETS);
    let packets: Vec<[IoSlice<'_>; 1]> = packets.map(|packet| [IoSlice::new(packet)]).collect();
    if let [packet] = &packets[..] {
        return Ok(sendmsg(socket.as_raw_fd(), packet, control, flags, Some(&to))?);
    }
    let addresses = vec![Some(to); packets.len()];
    let mut headers = MultiHeaders::preallocate(packets.len(), Some(space));
    let sent = sendmmsg(socket.as_raw_fd(), &mut headers, &packets, addresses, control, flags)?;
    Ok(sent.map(|message| message.bytes).sum())
}
