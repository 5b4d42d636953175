//! A socket bound to an address: the code that both encapsulations share.
//!
//! A [`Descriptor`] sends and receives, for UDP or for IP. [`Bound`] adds the address, the wait for
//! room, the rare permission to fragment, the descriptors for packets without an association, and
//! the collection of errors.

use std::fmt::Debug;
use std::io::{self, IoSliceMut};
use std::net::SocketAddr;
use std::task::{Context, Poll};

use quinn_udp::UdpSocketState;

use super::others::Others;
use super::polled::Polled;
#[cfg(target_os = "linux")]
use super::{APART_BUFFER, Binding, TagMark};
use super::{
    Apart, Batch, Datagrams, NetworkError, PacketSocket, SOCKET_BUFFER, TransmitError, error_queue,
    fragmentation,
};

/// Length of the SCTP common header (RFC 9260 section 3.1), which precedes the first chunk.
const SCTP_HEADER: usize = 12;

/// The chunk type of INIT ACK (RFC 9260 section 3.3.3).
const INIT_ACK: u8 = 2;

/// A descriptor that is ready for use.
pub(super) trait Descriptor: Debug + Send + Sized {
    /// The runtime's watch over it.
    fn io(&self) -> &Polled;

    /// Sends datagrams. Returns the bytes that were accepted.
    fn send(&self, datagrams: &Datagrams<'_>) -> io::Result<usize>;

    /// Translates an error of `send`.
    fn classify(&self, datagrams: &Datagrams<'_>, error: io::Error) -> TransmitError;

    /// As [`PacketSocket::poll_receive`].
    fn poll_receive(
        &self,
        cx: &mut Context<'_>,
        buffers: &mut [IoSliceMut<'_>],
        batches: &mut [Batch],
    ) -> Poll<io::Result<usize>>;

    /// As [`PacketSocket::max_segments`].
    fn max_segments(&self) -> usize;

    /// As [`PacketSocket::refresh`].
    fn refresh(&self) {}

    /// As [`PacketSocket::has_neighbours`]; `others` are the descriptors for packets without an
    /// association.
    fn has_neighbours(&self, _others: &[Self], _address: SocketAddr) -> bool {
        false
    }

    /// Opens another descriptor on the address.
    #[cfg(target_os = "linux")]
    fn open_other(&self, binding: &Binding, address: SocketAddr) -> io::Result<Self>;

    /// Opens a descriptor on the address for [`PacketSocket::outlet`]; `binding` names the interface.
    #[cfg(target_os = "linux")]
    fn open_outlet(
        &self,
        binding: &Binding,
        address: SocketAddr,
        remote: SocketAddr,
    ) -> io::Result<Self>;

    /// Makes the system divide incoming packets between this descriptor and the others, in the
    /// order of [`Apart::ALL`].
    #[cfg(target_os = "linux")]
    fn divide(&self, others: &[Self; 2], binding: &Binding, mark: &TagMark) -> io::Result<()>;
}

/// A socket for SCTP packets.
#[derive(Debug)]
pub(super) struct Bound<D> {
    main: D,
    address: SocketAddr,
    /// The parameters that it was opened with, if this library opened it.
    #[cfg(target_os = "linux")]
    binding: Option<Binding>,
    others: Others<D>,
}

impl<D: Descriptor> Bound<D> {
    /// Wraps a descriptor that is bound to an address.
    pub(super) fn new(main: D, address: SocketAddr) -> Self {
        Self {
            main,
            address,
            #[cfg(target_os = "linux")]
            binding: None,
            others: Others::default(),
        }
    }

    fn send_from(&self, from: &D, datagrams: &Datagrams<'_>) -> Result<usize, TransmitError> {
        let send = || {
            let send = || from.send(datagrams);
            if datagrams.may_fragment {
                return fragmentation::allowed(from.io().get(), self.address.is_ipv4(), send);
            }
            send()
        };
        from.io().try_send(send).map_err(|error| from.classify(datagrams, error))
    }

    /// Records the parameters that it was opened with.
    #[cfg(target_os = "linux")]
    pub(super) fn opened(self, binding: &Binding) -> Self {
        Self { binding: Some(binding.clone()), ..self }
    }
}

/// Prepares a socket for use: no fragmentation, ECN and destination reported with each packet, and
/// large buffers.
pub(super) fn prepare(socket: &socket2::Socket) -> io::Result<UdpSocketState> {
    let state = state(socket)?;
    // Failure is ignored: small buffers only cost throughput.
    let _ = state.set_send_buffer_size(socket.into(), SOCKET_BUFFER);
    let _ = state.set_recv_buffer_size(socket.into(), SOCKET_BUFFER);
    socket.set_nonblocking(true)?;
    Ok(state)
}

/// The capabilities that quinn-udp detects for a socket, and the options that it sets.
#[cfg(unix)]
pub(super) fn state(socket: &impl std::os::fd::AsFd) -> io::Result<UdpSocketState> {
    let state = UdpSocketState::new((&socket.as_fd()).into())?;
    #[cfg(any(target_os = "linux", target_os = "android"))]
    {
        use nix::sys::socket::{setsockopt, sockopt::ReceiveTimestampns};
        // The time of arrival is not used, so the system need not record it.
        let _ = setsockopt(socket, ReceiveTimestampns, &false);
    }
    Ok(state)
}

/// The capabilities that quinn-udp detects for a socket, and the options that it sets.
#[cfg(not(unix))]
pub(super) fn state<'a, S>(socket: &'a S) -> io::Result<UdpSocketState>
where
    &'a S: Into<quinn_udp::UdpSockRef<'a>>,
{
    UdpSocketState::new(socket.into())
}

impl<D: Descriptor + 'static> PacketSocket for Bound<D> {
    fn local_address(&self) -> SocketAddr {
        self.address
    }

    fn poll_writable(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.main.io().poll_writable(cx)
    }

    fn try_send(&self, datagrams: &Datagrams<'_>) -> Result<usize, TransmitError> {
        self.send_from(&self.main, datagrams)
    }

    fn try_send_apart(&self, datagrams: &Datagrams<'_>) -> Result<usize, TransmitError> {
        // INIT ACKs must not queue behind other answers.
        let is_init_ack = datagrams.contents.get(SCTP_HEADER) == Some(&INIT_ACK);
        let sent = self.others.with(None, |[inits, rest]| {
            Some(self.send_from(if is_init_ack { inits } else { rest }, datagrams))
        });
        match sent {
            Some(Err(TransmitError::WouldBlock)) => Err(TransmitError::Dropped),
            Some(sent) => sent,
            None => self.try_send(datagrams),
        }
    }

    fn poll_receive(
        &self,
        cx: &mut Context<'_>,
        buffers: &mut [IoSliceMut<'_>],
        batches: &mut [Batch],
    ) -> Poll<io::Result<usize>> {
        self.main.poll_receive(cx, buffers, batches)
    }

    fn look_again(&self) {
        self.main.io().look_again();
    }

    #[cfg(target_os = "linux")]
    fn keep_apart(&self, mark: &TagMark) -> bool {
        let Some(binding) = &self.binding else {
            return false;
        };
        let open = || {
            let other = self.main.open_other(binding, self.address)?;
            socket2::SockRef::from(other.io().get()).set_recv_buffer_size(APART_BUFFER)?;
            Ok(other)
        };
        self.others.keep(open, |others| self.main.divide(others, binding, mark))
    }

    fn poll_receive_apart(
        &self,
        apart: Apart,
        cx: &mut Context<'_>,
        buffers: &mut [IoSliceMut<'_>],
        batches: &mut [Batch],
    ) -> Poll<io::Result<usize>> {
        self.others.with(Poll::Pending, |[inits, rest]| {
            let other = match apart {
                Apart::Inits => inits,
                Apart::Rest => rest,
            };
            other.poll_receive(cx, buffers, batches)
        })
    }

    fn max_segments(&self) -> usize {
        self.main.max_segments()
    }

    #[cfg(target_os = "linux")]
    fn outlet(&self, interface: &str, remote: SocketAddr) -> io::Result<Box<dyn PacketSocket>> {
        let Some(binding) = self.binding.as_ref().filter(|binding| binding.interface.is_none())
        else {
            return Err(io::ErrorKind::Unsupported.into());
        };
        let binding = Binding { interface: Some(interface.to_owned()), ..binding.clone() };
        let outlet = self.main.open_outlet(&binding, self.address, remote)?;
        Ok(Box::new(Self::new(outlet, self.address)))
    }

    fn has_neighbours(&self) -> bool {
        let among = |others: &[D]| self.main.has_neighbours(others, self.address);
        self.others.with(None, |others| Some(among(others))).unwrap_or_else(|| among(&[]))
    }

    fn poll_error(&self, cx: &mut Context<'_>) -> Poll<()> {
        // The system may report an error to any socket on the address.
        let others = self.others.with(Poll::Pending, |[inits, rest]| {
            let inits = inits.io().poll_error(cx);
            let rest = rest.io().poll_error(cx);
            if inits.is_ready() { inits } else { rest }
        });
        let main = self.main.io().poll_error(cx);
        if others.is_ready() { others } else { main }
    }

    fn refresh(&self) {
        self.main.refresh();
    }

    fn next_error(&self) -> Option<NetworkError> {
        let main = self.main.io().next_error(error_queue::next);
        let next = |other: &D| other.io().next_error(error_queue::next);
        main.or_else(|| self.others.with(None, |others| others.iter().find_map(next)))
    }
}
