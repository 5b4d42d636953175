//! SCTP as IP protocol 132, on raw sockets.
//!
//! The kernel builds and takes apart IP headers; IPv4 ones are delivered along with a packet and
//! are removed here. Packets that come one after the other from one sender are handed on
//! together, as receive offload does for UDP.

use std::io::{self, IoSliceMut};
use std::net::SocketAddr;
use std::task::{Context, Poll, ready};

use etherparse::{IpNumber, Ipv4HeaderSlice};
use quinn_udp::{RecvMeta, UdpSocketState};

use super::polled::{Look, Polled};
use super::{
    Batch, Binding, Datagrams, NetworkError, PacketSocket, SOCKET_BUFFER, TransmitError,
    error_queue, errors, fragmentation, interfaces, neighbours, udp,
};

/// SCTP's number among the protocols above IP.
pub(super) const SCTP: IpNumber = IpNumber::SCTP;

/// A raw socket for SCTP packets.
#[derive(Debug)]
pub(super) struct Socket {
    io: Polled,
    state: UdpSocketState,
    address: SocketAddr,
}

impl Socket {
    /// Opens a raw socket, which needs the capability CAP_NET_RAW.
    pub(super) fn bind(binding: &Binding) -> io::Result<Self> {
        let domain = socket2::Domain::for_address(binding.address);
        let protocol = socket2::Protocol::from(i32::from(SCTP.0));
        let socket = socket2::Socket::new(domain, socket2::Type::RAW, Some(protocol))?;
        interfaces::bind_to(&socket, binding)?;
        let mut address = binding.address;
        address.set_port(0);
        socket.bind(&address.into())?;
        Self::new(socket, address)
    }

    /// Takes a raw socket that somebody with the privilege has opened.
    pub(super) fn adopt(socket: socket2::Socket) -> io::Result<Self> {
        let wrong = || io::Error::new(io::ErrorKind::InvalidInput, "not a raw socket for SCTP");
        if socket.r#type()? != socket2::Type::RAW {
            return Err(wrong());
        }
        #[cfg(any(target_os = "linux", target_os = "android"))]
        if rustix::net::sockopt::socket_protocol(&socket)?.map(|p| p.as_raw().get())
            != Some(u32::from(SCTP.0))
        {
            return Err(wrong());
        }
        let mut address = socket.local_addr()?.as_socket().ok_or_else(wrong)?;
        address.set_port(0);
        Self::new(socket, address)
    }

    fn new(socket: socket2::Socket, address: SocketAddr) -> io::Result<Self> {
        // The options that a UDP socket gets, as far as they mean something to IP: no
        // fragmentation, ECN and destination of what arrives.
        let state = UdpSocketState::new((&socket).into())?;
        // Best effort, as for UDP.
        let _ = state.set_send_buffer_size((&socket).into(), SOCKET_BUFFER);
        let _ = state.set_recv_buffer_size((&socket).into(), SOCKET_BUFFER);
        #[cfg(any(target_os = "linux", target_os = "android"))]
        let _ = state.enable_transport_errors((&socket).into());
        socket.set_nonblocking(true)?;
        // The standard library has no type for raw sockets; all are descriptors to the system.
        Ok(Self { io: Polled::new(socket.into())?, state, address })
    }
}

impl PacketSocket for Socket {
    fn local_address(&self) -> SocketAddr {
        self.address
    }

    fn poll_writable(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.io.poll_writable(cx)
    }

    fn try_send(&self, datagrams: &Datagrams<'_>) -> Result<usize, TransmitError> {
        let send = || {
            let send = || send::packets(self.io.get(), &self.state, datagrams);
            if datagrams.may_fragment {
                return fragmentation::allowed(self.io.get(), self.address.is_ipv4(), send);
            }
            send()
        };
        self.io.try_send(send).map_err(errors::classify)
    }

    fn poll_receive(
        &self,
        cx: &mut Context<'_>,
        buffers: &mut [IoSliceMut<'_>],
        batches: &mut [Batch],
    ) -> Poll<io::Result<usize>> {
        let mut metas = [RecvMeta::default(); quinn_udp::BATCH_SIZE];
        let most = buffers.len().min(batches.len()).min(metas.len());
        loop {
            let received = self.io.poll_receive(cx, || {
                let (buffers, metas) = (&mut buffers[..most], &mut metas[..most]);
                let count = self.state.recv(self.io.get().into(), buffers, metas)?;
                Ok(Look { value: count, emptied: count < most })
            });
            let count = ready!(received)?;
            let has_header = self.address.is_ipv4();
            let count = merge(has_header, buffers, &metas[..count], batches);
            // After nothing but rubbish there may be more.
            if count > 0 {
                return Poll::Ready(Ok(count));
            }
        }
    }

    fn max_segments(&self) -> usize {
        send::MOST_PACKETS
    }

    fn has_neighbours(&self) -> bool {
        neighbours::share(self.io.get(), self.address.ip())
    }

    fn poll_error(&self, cx: &mut Context<'_>) -> Poll<()> {
        self.io.poll_error(cx)
    }

    fn next_error(&self) -> Option<NetworkError> {
        self.io.next_error(error_queue::next)
    }
}

/// The SCTP packet in an IPv4 packet: its place; `None` if the packet is not what it should be.
fn strip_ipv4(packet: &[u8]) -> Option<std::ops::Range<usize>> {
    let header = Ipv4HeaderSlice::from_slice(packet).ok()?;
    if header.protocol() != SCTP || header.is_fragmenting_payload() {
        return None;
    }
    let from = header.slice().len();
    // Some systems count the payload only, or in another byte order: the length received decides
    // then.
    let total = usize::from(header.total_len());
    let to = if (from..packet.len()).contains(&total) { total } else { packet.len() };
    Some(from..to)
}

/// Removes headers, and moves packets of one sender and of equal size into one buffer. The first
/// buffers hold what there is then, as `batches` says. Returns how many.
fn merge(
    has_header: bool,
    buffers: &mut [IoSliceMut<'_>],
    metas: &[RecvMeta],
    batches: &mut [Batch],
) -> usize {
    let mut count: usize = 0;
    for (index, meta) in metas.iter().enumerate() {
        let Some(received) = buffers.get(index).and_then(|buffer| buffer.get(..meta.len)) else {
            continue;
        };
        let range = if has_header { strip_ipv4(received) } else { Some(0..meta.len) };
        let Some(range) = range.filter(|range| !range.is_empty()) else {
            continue;
        };
        let len = range.len();
        let mut batch = udp::from_meta(meta);
        batch.source.set_port(0);
        (batch.len, batch.segment_size) = (len, len);
        let last = count.checked_sub(1).and_then(|last| batches.get(last)).copied();
        let (slot, at) = match last {
            Some(last) if continues(&last, &batch, buffers.get(count - 1)) => (count - 1, last.len),
            _ => (count, 0),
        };
        if slot == index {
            if let Some(buffer) = buffers.get_mut(slot) {
                buffer.copy_within(range, 0);
            }
        } else if let Some((to, from)) = buffers.split_at_mut_checked(index)
            && let (Some(to), Some(from)) = (to.get_mut(slot), from.first())
            && let (Some(to), Some(from)) = (to.get_mut(at..at + len), from.get(range))
        {
            to.copy_from_slice(from);
        }
        let Some(entry) = batches.get_mut(slot) else {
            break;
        };
        if slot == count {
            *entry = batch;
            count += 1;
        } else {
            entry.len += len;
        }
    }
    count
}

/// Whether a packet may join those before it: no more can follow one that is shorter.
fn continues(batch: &Batch, packet: &Batch, buffer: Option<&IoSliceMut<'_>>) -> bool {
    batch.source == packet.source
        && batch.destination == packet.destination
        && batch.ecn == packet.ecn
        && batch.len.is_multiple_of(batch.segment_size)
        && packet.len <= batch.segment_size
        && buffer.is_some_and(|buffer| batch.len + packet.len <= buffer.len())
}

/// Sending several packets with one call.
#[cfg(any(target_os = "linux", target_os = "android"))]
mod send {
    use std::io::{self, IoSlice};
    use std::net::{IpAddr, SocketAddr, SocketAddrV4, SocketAddrV6};
    use std::os::fd::AsRawFd;

    use anabranch_proto::Ecn;
    use nix::libc;
    use nix::sys::socket::{
        ControlMessage, MsgFlags, MultiHeaders, SockaddrIn, SockaddrIn6, SockaddrLike, sendmmsg,
        sendmsg,
    };
    use quinn_udp::UdpSocketState;

    use crate::runtime::Datagrams;

    /// Packets sent with one call.
    pub(super) const MOST_PACKETS: usize = 32;

    /// Sends packets and returns the bytes of those that the kernel took.
    pub(super) fn packets(
        socket: &std::net::UdpSocket,
        _state: &UdpSocketState,
        datagrams: &Datagrams<'_>,
    ) -> io::Result<usize> {
        let ecn = datagrams.ecn.map_or(0, Ecn::bits);
        match datagrams.destination {
            SocketAddr::V4(to) => {
                let to = SockaddrIn::from(SocketAddrV4::new(*to.ip(), 0));
                let info = match datagrams.source {
                    Some(IpAddr::V4(source)) => Some(libc::in_pktinfo {
                        ipi_ifindex: 0,
                        ipi_spec_dst: libc::in_addr { s_addr: u32::from_ne_bytes(source.octets()) },
                        ipi_addr: libc::in_addr { s_addr: 0 },
                    }),
                    _ => None,
                };
                // The kernel refuses room that no control message fills.
                match &info {
                    Some(info) => {
                        let control =
                            [ControlMessage::Ipv4Tos(&ecn), ControlMessage::Ipv4PacketInfo(info)];
                        let space = nix::cmsg_space!(u8, libc::in_pktinfo);
                        call(socket, datagrams, to, &control, space)
                    }
                    None => {
                        let control = [ControlMessage::Ipv4Tos(&ecn)];
                        call(socket, datagrams, to, &control, nix::cmsg_space!(u8))
                    }
                }
            }
            SocketAddr::V6(to) => {
                let (scope, class) = (to.scope_id(), i32::from(ecn));
                let to = SockaddrIn6::from(SocketAddrV6::new(*to.ip(), 0, 0, scope));
                let info = match datagrams.source {
                    Some(IpAddr::V6(source)) => Some(libc::in6_pktinfo {
                        ipi6_addr: libc::in6_addr { s6_addr: source.octets() },
                        ipi6_ifindex: scope,
                    }),
                    _ => None,
                };
                match &info {
                    Some(info) => {
                        let control = [
                            ControlMessage::Ipv6TClass(&class),
                            ControlMessage::Ipv6PacketInfo(info),
                        ];
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
}

/// Sending one packet after the other.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
mod send {
    use std::io;

    use quinn_udp::UdpSocketState;

    use crate::runtime::{Datagrams, udp};

    /// Packets sent with one call.
    pub(super) const MOST_PACKETS: usize = 1;

    /// Sends the first packet and returns its length.
    pub(super) fn packets(
        socket: &std::net::UdpSocket,
        state: &UdpSocketState,
        datagrams: &Datagrams<'_>,
    ) -> io::Result<usize> {
        let len = datagrams.segment_size.min(datagrams.contents.len());
        let contents = datagrams.contents.get(..len).unwrap_or_default();
        let transmit = quinn_udp::Transmit { contents, ..udp::transmit(datagrams) };
        state.try_send(socket.into(), &transmit).map(|()| len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    #[cfg(target_os = "linux")]
    use crate::runtime::{Runtime, TokioRuntime};

    /// A whole IPv4 packet.
    fn packet(protocol: IpNumber, payload: &[u8]) -> Vec<u8> {
        let length = u16::try_from(payload.len()).unwrap();
        let header =
            etherparse::Ipv4Header::new(length, 64, protocol, [10, 0, 0, 1], [10, 0, 0, 2]);
        [&header.unwrap().to_bytes()[..], payload].concat()
    }

    #[test]
    fn headers_are_checked_and_removed() {
        let good = packet(SCTP, b"sctp packet");
        assert_eq!(strip_ipv4(&good), Some(20..31));
        // What a link added is no part of it.
        assert_eq!(strip_ipv4(&[&good[..], &[0; 9]].concat()), Some(20..31));
        // A total length that makes no sense.
        let mut odd = good.clone();
        odd[2..4].copy_from_slice(&[0, 5]);
        assert_eq!(strip_ipv4(&odd), Some(20..31));
        // With options.
        let mut options = [&good[..20], &[1, 1, 1, 0], &good[20..]].concat();
        options[0] = 0x46;
        options[3] = 35;
        assert_eq!(strip_ipv4(&options), Some(24..35));
        assert_eq!(strip_ipv4(&packet(IpNumber::UDP, b"sctp packet")), None);
        for (at, value) in [(0, 0x65), (0, 0x41), (0, 0x4f), (6, 0x20), (7, 3)] {
            let mut bad = good.clone();
            bad[at] = value;
            assert_eq!(strip_ipv4(&bad), None, "byte {at} is {value}");
        }
        (0..20).for_each(|len| assert_eq!(strip_ipv4(&good[..len]), None));
    }

    /// What `merge` makes of packets from these sources with these payloads.
    fn merged(has_header: bool, packets: &[(u8, &[u8])]) -> Vec<(u8, usize, Vec<u8>)> {
        let mut buffers: Vec<Vec<u8>> = Vec::new();
        let mut metas = Vec::new();
        for (source, payload) in packets {
            let bytes = if has_header { packet(SCTP, payload) } else { payload.to_vec() };
            let mut meta = RecvMeta::default();
            meta.addr = ([10, 0, 0, *source], 132).into();
            meta.len = bytes.len();
            metas.push(meta);
            buffers.push([bytes, vec![0; 100]].concat());
        }
        let mut batches = vec![Batch::default(); packets.len()];
        let mut slices: Vec<_> = buffers.iter_mut().map(|b| IoSliceMut::new(b)).collect();
        let count = merge(has_header, &mut slices, &metas, &mut batches);
        let found = batches[..count].iter().zip(&buffers).map(|(batch, buffer)| {
            assert_eq!(batch.source.port(), 0);
            let std::net::IpAddr::V4(source) = batch.source.ip() else { panic!("IPv4") };
            (source.octets()[3], batch.segment_size, buffer[..batch.len].to_vec())
        });
        found.collect()
    }

    #[test]
    fn packets_of_one_sender_come_together() {
        for has_header in [false, true] {
            let found = merged(has_header, &[(1, b"aaaa"), (1, b"bbbb"), (1, b"cc"), (1, b"dd")]);
            assert_eq!(found, [(1, 4, b"aaaabbbbcc".to_vec()), (1, 2, b"dd".to_vec())]);
            let found = merged(has_header, &[(1, b"aa"), (2, b"bb"), (1, b"cc"), (1, b"dddd")]);
            let apart = [(1, 2, "aa"), (2, 2, "bb"), (1, 2, "cc"), (1, 4, "dddd")];
            assert_eq!(found, apart.map(|(s, size, text)| (s, size, text.as_bytes().to_vec())));
            assert_eq!(merged(has_header, &[(1, b""), (1, b"aa")]), [(1, 2, b"aa".to_vec())]);
            // More than a buffer holds.
            let long = [7; 90];
            let found = merged(has_header, &[(1, &long), (1, &long), (1, &long)]);
            assert_eq!(found.iter().map(|batch| batch.2.len()).collect::<Vec<_>>(), [180, 90]);
        }
    }

    /// Two raw sockets in a network of their own, if the test may have such.
    #[cfg(target_os = "linux")]
    fn pair(address: &str) -> Option<[Box<dyn PacketSocket>; 2]> {
        if let Err(error) = nix::sched::unshare(nix::sched::CloneFlags::CLONE_NEWNET) {
            let required = std::env::var("ANABRANCH_REQUIRE_ALL").is_ok_and(|all| all == "1");
            assert!(!required, "no network namespace can be made: {error}");
            eprintln!("skipped: no network namespace can be made: {error}");
            return None;
        }
        let up = ["link", "set", "lo", "up"];
        assert!(std::process::Command::new("ip").args(up).status().unwrap().success());
        let runtime = TokioRuntime::current().unwrap();
        let bind = || runtime.bind(&Binding::ip(address.parse().unwrap())).unwrap();
        Some([bind(), bind()])
    }

    #[tokio::test]
    #[cfg(target_os = "linux")]
    async fn packets_arrive_with_their_addresses_and_ecn() {
        use anabranch_proto::Ecn;
        for address in ["127.0.0.1", "::1"] {
            let Some([from, to]) = pair(address) else { return };
            let ip = address.parse().unwrap();
            let mut sent = Vec::new();
            for (ecn, may_fragment) in [(Some(Ecn::Ect1), false), (Some(Ecn::Ce), true)] {
                // A checksum that is wrong: no SCTP stack makes anything of them.
                let contents: Vec<u8> = (0..2500_u32).map(|i| (i % 251) as u8).collect();
                let destination = SocketAddr::new(ip, 0);
                let segment_size = 1000;
                let datagrams = Datagrams {
                    source: None,
                    destination,
                    ecn,
                    segment_size,
                    may_fragment,
                    contents: &contents,
                };
                let mut done = 0;
                while done < contents.len() {
                    let contents = &contents[done..];
                    done += from.try_send(&Datagrams { contents, ..datagrams }).unwrap();
                }
                sent.push((ecn, contents));
            }
            let mut received: Vec<(Option<Ecn>, Vec<u8>)> = Vec::new();
            while received.iter().map(|(_, bytes)| bytes.len()).sum::<usize>() < 5000 {
                let mut buffers = vec![vec![0; 65_535]; 8];
                let mut batches = [Batch::default(); 8];
                let count = std::future::poll_fn(|cx| {
                    let mut slices: Vec<_> =
                        buffers.iter_mut().map(|buffer| IoSliceMut::new(buffer)).collect();
                    to.poll_receive(cx, &mut slices, &mut batches)
                });
                let count = count.await.unwrap();
                for (batch, buffer) in batches[..count].iter().zip(&buffers) {
                    assert_eq!((batch.source, batch.destination), ((ip, 0).into(), Some(ip)));
                    match received.last_mut() {
                        Some((ecn, bytes)) if *ecn == batch.ecn => {
                            bytes.extend(&buffer[..batch.len]);
                        }
                        _ => received.push((batch.ecn, buffer[..batch.len].to_vec())),
                    }
                }
            }
            assert_eq!(received, sent);
            assert!(from.has_neighbours());
        }
    }

    #[tokio::test]
    #[cfg(target_os = "linux")]
    async fn only_what_may_be_fragmented_exceeds_the_interface() {
        let Some([from, _to]) = pair("127.0.0.1") else { return };
        // The loopback interface takes 65,536 bytes, and no IPv4 packet is as long as this.
        let contents = [0; 65_520];
        let datagrams = Datagrams {
            source: None,
            destination: from.local_address(),
            ecn: None,
            segment_size: contents.len(),
            may_fragment: false,
            contents: &contents,
        };
        assert!(matches!(from.try_send(&datagrams), Err(TransmitError::TooBig)));
    }
}
