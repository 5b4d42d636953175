//! SCTP as IP protocol 132, on raw sockets.
//!
//! The kernel builds and takes apart IP headers; IPv4 ones are delivered along with a packet and
//! are removed here.

mod inbox;
mod send;

use std::cell::RefCell;
use std::io::{self, IoSliceMut};
use std::net::SocketAddr;
use std::task::{Context, Poll};

use etherparse::IpNumber;
use quinn_udp::UdpSocketState;

use self::inbox::Inbox;
use super::others::Others;
use super::polled::{Look, Polled};
use super::{
    Batch, Binding, Datagrams, NetworkError, PacketSocket, SOCKET_BUFFER, TransmitError,
    error_queue, errors, fragmentation, interfaces, neighbours,
};
#[cfg(target_os = "linux")]
use super::{
    Preference,
    steering::{self, Start},
};

/// SCTP's number among the protocols above IP.
pub(super) const SCTP: IpNumber = IpNumber::SCTP;

/// A raw socket for SCTP packets.
#[derive(Debug)]
pub(super) struct Socket {
    main: Descriptor,
    address: SocketAddr,
    /// How it was opened, if not by somebody else.
    #[cfg(target_os = "linux")]
    binding: Option<Binding>,
    others: Others<Descriptor>,
}

/// A bound descriptor, ready for use.
#[derive(Debug)]
struct Descriptor {
    io: Polled,
    state: UdpSocketState,
    inbox: RefCell<Inbox>,
}

/// A raw socket bound to the address of a binding.
fn open(binding: &Binding) -> io::Result<(socket2::Socket, SocketAddr)> {
    let domain = socket2::Domain::for_address(binding.address);
    let protocol = socket2::Protocol::from(i32::from(SCTP.0));
    let socket = socket2::Socket::new(domain, socket2::Type::RAW, Some(protocol))?;
    interfaces::bind_to(&socket, binding)?;
    let mut address = binding.address;
    address.set_port(0);
    socket.bind(&address.into())?;
    Ok((socket, address))
}

impl Socket {
    /// Opens a raw socket, which needs the capability CAP_NET_RAW.
    pub(super) fn bind(binding: &Binding) -> io::Result<Self> {
        let (socket, address) = open(binding)?;
        let socket = Self::new(socket, address)?;
        #[cfg(target_os = "linux")]
        let socket = Self { binding: Some(binding.clone()), ..socket };
        Ok(socket)
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
        let main = Descriptor::new(socket, address)?;
        #[cfg(any(target_os = "linux", target_os = "android"))]
        let _ = main.state.enable_transport_errors(main.io.get().into());
        Ok(Self {
            main,
            address,
            #[cfg(target_os = "linux")]
            binding: None,
            others: Others::default(),
        })
    }

    /// Divides what comes between the two descriptors. In between a packet may reach both,
    /// which does no harm.
    #[cfg(target_os = "linux")]
    fn divide(&self, others: &Descriptor, preference: &Preference<'_>) -> io::Result<()> {
        let (main, others) = (self.main.io.get(), others.io.get());
        let start = if self.address.is_ipv4() { Start::Ipv4 } else { Start::Sctp };
        let divided = steering::accept_all(others)
            .and_then(|()| steering::filter(main, start, preference, true))
            .and_then(|()| steering::filter(others, start, preference, false));
        if divided.is_err() {
            // Without the other descriptor everything is for this one.
            let _ = steering::accept_all(main);
        }
        divided
    }
}

impl Descriptor {
    fn new(socket: socket2::Socket, address: SocketAddr) -> io::Result<Self> {
        // The options that a UDP socket gets, as far as they mean something to IP: no
        // fragmentation, ECN and destination of what arrives.
        let state = UdpSocketState::new((&socket).into())?;
        // Best effort, as for UDP.
        let _ = state.set_send_buffer_size((&socket).into(), SOCKET_BUFFER);
        let _ = state.set_recv_buffer_size((&socket).into(), SOCKET_BUFFER);
        socket.set_nonblocking(true)?;
        // The standard library has no type for raw sockets; all are descriptors to the system.
        let io = Polled::new(socket.into())?;
        let inbox = RefCell::new(Inbox::new(address.is_ipv4()));
        Ok(Self { io, state, inbox })
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
                    // After nothing but rubbish there may be more.
                    if !full && count > 0 {
                        break;
                    }
                }
                // An error stays in the error queue, too.
                _ if count > 0 => break,
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                Poll::Pending => return Poll::Pending,
            }
        }
        Poll::Ready(Ok(count))
    }
}

impl PacketSocket for Socket {
    fn local_address(&self) -> SocketAddr {
        self.address
    }

    fn poll_writable(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.main.io.poll_writable(cx)
    }

    fn try_send(&self, datagrams: &Datagrams<'_>) -> Result<usize, TransmitError> {
        let send = || {
            let send = || send::packets(self.main.io.get(), &self.main.state, datagrams);
            if datagrams.may_fragment {
                return fragmentation::allowed(self.main.io.get(), self.address.is_ipv4(), send);
            }
            send()
        };
        self.main.io.try_send(send).map_err(errors::classify)
    }

    fn poll_receive(
        &self,
        cx: &mut Context<'_>,
        buffers: &mut [IoSliceMut<'_>],
        batches: &mut [Batch],
    ) -> Poll<io::Result<usize>> {
        self.main.poll_receive(cx, buffers, batches)
    }

    #[cfg(target_os = "linux")]
    fn prefer(&self, preference: &Preference<'_>) -> bool {
        let Some(binding) = &self.binding else {
            return false;
        };
        let open = || open(binding).and_then(|(socket, address)| Descriptor::new(socket, address));
        self.others.keep(open, |others| self.divide(others, preference))
    }

    fn poll_receive_others(
        &self,
        cx: &mut Context<'_>,
        buffers: &mut [IoSliceMut<'_>],
        batches: &mut [Batch],
    ) -> Poll<io::Result<usize>> {
        self.others.with(Poll::Pending, |others| others.poll_receive(cx, buffers, batches))
    }

    fn max_segments(&self) -> usize {
        send::MOST_PACKETS
    }

    fn has_neighbours(&self) -> bool {
        let (main, ip) = (self.main.io.get(), self.address.ip());
        let share = |own: &[&std::net::UdpSocket]| neighbours::share(own, ip);
        self.others
            .with(None, |others| Some(share(&[main, others.io.get()])))
            .unwrap_or_else(|| share(&[main]))
    }

    fn poll_error(&self, cx: &mut Context<'_>) -> Poll<()> {
        self.main.io.poll_error(cx)
    }

    fn next_error(&self) -> Option<NetworkError> {
        self.main.io.next_error(error_queue::next)
    }
}

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests {
    use super::*;
    use crate::runtime::{Runtime, TokioRuntime};

    /// Two raw sockets in a network of their own, if the test may have such.
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
    async fn what_is_not_preferred_has_a_queue_of_its_own() {
        for address in ["127.0.0.1", "::1"] {
            let Some([from, to]) = pair(address) else { return };
            let destination = SocketAddr::new(address.parse().unwrap(), 0);
            for preference in [Preference::Tags(&[7, 9]), Preference::AllButSetup] {
                assert!(to.prefer(&preference));
                for (tag, kind) in [(7_u32, 0), (8, 1), (9, 0), (10, 10)] {
                    // A checksum that is wrong: no SCTP stack makes anything of them.
                    let head = [&[0, 1, 0, 2], &tag.to_be_bytes()[..], &[0; 4]].concat();
                    let contents = [&head[..], &[kind, 0, 0, 4]].concat();
                    let (source, ecn, segment_size) = (None, None, contents.len());
                    let may_fragment = false;
                    let contents = &contents[..];
                    let datagrams = Datagrams {
                        source,
                        destination,
                        ecn,
                        segment_size,
                        may_fragment,
                        contents,
                    };
                    from.try_send(&datagrams).unwrap();
                    let mut buffer = [0; 100];
                    let mut batches = [Batch::default()];
                    let count = std::future::poll_fn(|cx| {
                        let mut buffers = [IoSliceMut::new(&mut buffer)];
                        if kind == 0 {
                            to.poll_receive(cx, &mut buffers, &mut batches)
                        } else {
                            to.poll_receive_others(cx, &mut buffers, &mut batches)
                        }
                    });
                    assert_eq!(count.await.unwrap(), 1);
                    assert_eq!(buffer[..batches[0].len], *contents);
                }
            }
        }
    }

    #[tokio::test]
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
