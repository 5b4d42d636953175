//! SCTP as IP protocol 132, on raw sockets.
//!
//! The kernel builds and parses IP headers. It delivers IPv4 packets with their header, which is
//! removed here.

mod inbox;
mod send;

use std::cell::RefCell;
use std::io::{self, IoSliceMut};
use std::net::SocketAddr;
use std::task::{Context, Poll};

use etherparse::IpNumber;
use quinn_udp::UdpSocketState;

use self::inbox::Inbox;
use super::bound::{self, Bound};
use super::polled::{Look, Polled};
#[cfg(target_os = "linux")]
use super::{
    Apart, TagMark,
    steering::{self, Start},
};
use super::{Batch, Binding, Datagrams, TransmitError, errors, interfaces, neighbours};

/// The IP protocol number of SCTP.
pub(super) const SCTP: IpNumber = IpNumber::SCTP;

/// A raw socket for SCTP packets.
pub(super) type Socket = Bound<Descriptor>;

/// A bound raw descriptor, ready for use.
#[derive(Debug)]
pub(super) struct Descriptor {
    io: Polled,
    state: UdpSocketState,
    inbox: RefCell<Inbox>,
    /// The type of service or traffic class of all packets.
    class: u8,
}

/// Opens a raw socket, bound to the address of `binding`.
fn open(binding: &Binding) -> io::Result<(socket2::Socket, SocketAddr)> {
    let domain = socket2::Domain::for_address(binding.address);
    let protocol = socket2::Protocol::from(i32::from(SCTP.0));
    let socket = socket2::Socket::new(domain, socket2::Type::RAW, Some(protocol))?;
    interfaces::bind_to(&socket, binding)?;
    interfaces::check_class(binding)?;
    let mut address = binding.address;
    address.set_port(0);
    socket.bind(&address.into())?;
    Ok((socket, address))
}

/// Opens a raw socket, which needs the capability CAP_NET_RAW.
pub(super) fn bind(binding: &Binding) -> io::Result<Socket> {
    let (socket, address) = open(binding)?;
    let socket = main(socket, address, binding.traffic_class)?;
    #[cfg(target_os = "linux")]
    let socket = socket.opened(binding);
    Ok(socket)
}

/// Wraps a raw socket that a privileged process has opened.
pub(super) fn adopt(socket: socket2::Socket) -> io::Result<Socket> {
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
    main(socket, address, 0)
}

fn main(socket: socket2::Socket, address: SocketAddr, class: u8) -> io::Result<Socket> {
    let main = Descriptor::new(socket, address, class)?;
    #[cfg(any(target_os = "linux", target_os = "android"))]
    let _ = main.state.enable_transport_errors(main.io.get().into());
    Ok(Bound::new(main, address))
}

impl Descriptor {
    fn new(socket: socket2::Socket, address: SocketAddr, class: u8) -> io::Result<Self> {
        // The options of a UDP socket that also apply to raw sockets.
        let state = bound::prepare(&socket)?;
        // The standard library has no type for raw sockets. For the system, all sockets are
        // descriptors.
        let io = Polled::new(socket.into())?;
        let inbox = RefCell::new(Inbox::new(address.is_ipv4()));
        Ok(Self { io, state, inbox, class })
    }
}

impl bound::Descriptor for Descriptor {
    fn io(&self) -> &Polled {
        &self.io
    }

    fn send(&self, datagrams: &Datagrams<'_>) -> io::Result<usize> {
        send::packets(self.io.get(), &self.state, datagrams, self.class)
    }

    fn classify(&self, _datagrams: &Datagrams<'_>, error: io::Error) -> TransmitError {
        errors::classify(error)
    }

    fn poll_receive(
        &self,
        cx: &mut Context<'_>,
        buffers: &mut [IoSliceMut<'_>],
        batches: &mut [Batch],
    ) -> Poll<io::Result<usize>> {
        let mut inbox = self.inbox.borrow_mut();
        let mut count = inbox.hand_on(buffers, batches, 0);
        while inbox.is_empty() {
            let received = self.io.poll_receive(cx, || {
                let socket = self.io.get().into();
                let full = inbox.fill(|buffers, metas| self.state.recv(socket, buffers, metas))?;
                Ok(Look { value: full, emptied: !full })
            });
            match received {
                Poll::Ready(Ok(full)) => {
                    count = inbox.hand_on(buffers, batches, count);
                    // If all packets so far were invalid, there may be more.
                    if !full && count > 0 {
                        break;
                    }
                }
                // The error queue also has this error, so it is not lost.
                _ if count > 0 => break,
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                Poll::Pending => return Poll::Pending,
            }
        }
        Poll::Ready(Ok(count))
    }

    fn max_segments(&self) -> usize {
        send::MOST_PACKETS
    }

    fn has_neighbours(&self, others: &[Self], address: SocketAddr) -> bool {
        let own: Vec<_> = std::iter::once(self).chain(others).map(|own| own.io.get()).collect();
        neighbours::share(&own, address.ip())
    }

    #[cfg(target_os = "linux")]
    fn open_other(&self, binding: &Binding, _address: SocketAddr) -> io::Result<Self> {
        let (socket, address) = open(binding)?;
        Self::new(socket, address, self.class)
    }

    // Connected so that it does not look like another stack that receives everything ([`neighbours`]).
    #[cfg(target_os = "linux")]
    fn open_outlet(
        &self,
        binding: &Binding,
        _address: SocketAddr,
        mut remote: SocketAddr,
    ) -> io::Result<Self> {
        let (socket, address) = open(binding)?;
        remote.set_port(0);
        socket.connect(&remote.into())?;
        let outlet = Self::new(socket, address, self.class)?;
        steering::drop_all(outlet.io.get())?;
        let _ = outlet.state.enable_transport_errors(outlet.io.get().into());
        Ok(outlet)
    }

    // Until all filters are set, a packet may reach several sockets, which does no harm.
    #[cfg(target_os = "linux")]
    fn divide(&self, others: &[Self; 2], binding: &Binding, mark: &TagMark) -> io::Result<()> {
        let main = self.io.get();
        let start = if binding.address.is_ipv4() { Start::Ipv4 } else { Start::Sctp };
        let divided = others
            .iter()
            .zip(Apart::ALL)
            .try_for_each(|(other, apart)| {
                steering::filter(other.io.get(), start, mark, Some(apart))
            })
            .and_then(|()| steering::filter(main, start, mark, None));
        if divided.is_err() {
            // If the other descriptors cannot be used, this one receives everything.
            let _ = steering::accept_all(main);
        }
        divided
    }
}

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests {
    use super::*;
    use crate::runtime::{PacketSocket, Runtime, TokioRuntime};

    /// Two raw sockets in a network namespace of their own, if the test may create one.
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
    async fn packets_arrive_with_their_addresses_and_ecn() {
        use anabranch_proto::Ecn;
        for address in ["127.0.0.1", "::1"] {
            let Some([from, to]) = pair(address) else { return };
            let ip = address.parse().unwrap();
            let mut sent = Vec::new();
            for (ecn, may_fragment) in [(Some(Ecn::Ect1), false), (Some(Ecn::Ce), true)] {
                // The checksum is wrong, so every SCTP stack drops these packets.
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
    async fn strangers_packets_have_queues_of_their_own() {
        for address in ["127.0.0.1", "::1"] {
            let Some([from, to]) = pair(address) else { return };
            let destination = SocketAddr::new(address.parse().unwrap(), 0);
            let mark = TagMark::from_seed(&[3; 32]);
            assert!(to.keep_apart(&mark));
            let marked = (0..100).map(|random| mark.mark(random << 13 | 0x1234, 1, 2));
            let others = (0..100).map(|random| mark.mark(random << 13 | 0x1234, 1, 2) ^ 1);
            for (tag, kind) in marked.map(|tag| (tag, 0)).chain(others.map(|tag| (tag, 0))).chain([
                (0, 1),
                (mark.mark(5, 1, 2), 1),
                (mark.mark(5, 1, 2), 10),
                (7, 10),
            ]) {
                // The checksum is wrong, so every SCTP stack drops these packets.
                let head = [&[0, 1, 0, 2], &tag.to_be_bytes()[..], &[0; 4]].concat();
                let contents = [&head[..], &[kind, 0, 0, 4]].concat();
                let (source, ecn, segment_size) = (None, None, contents.len());
                let may_fragment = false;
                let contents = &contents[..];
                let datagrams =
                    Datagrams { source, destination, ecn, segment_size, may_fragment, contents };
                from.try_send(&datagrams).unwrap();
                let mut buffer = [0; 100];
                let mut batches = [Batch::default()];
                // The packet has arrived already, and only in one queue.
                let count = std::future::poll_fn(|cx| {
                    let mut buffers = [IoSliceMut::new(&mut buffer)];
                    let recognised = mark.recognises(tag, 1, 2);
                    match kind {
                        1 => to.poll_receive_apart(Apart::Inits, cx, &mut buffers, &mut batches),
                        _ if recognised => to.poll_receive(cx, &mut buffers, &mut batches),
                        _ => to.poll_receive_apart(Apart::Rest, cx, &mut buffers, &mut batches),
                    }
                });
                assert_eq!(count.await.unwrap(), 1);
                assert_eq!(buffer[..batches[0].len], *contents);
            }
        }
    }

    #[tokio::test]
    async fn only_what_may_be_fragmented_exceeds_the_interface() {
        let Some([from, _to]) = pair("127.0.0.1") else { return };
        // The loopback interface accepts 65,536 bytes, but an IPv4 packet cannot be that long.
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
