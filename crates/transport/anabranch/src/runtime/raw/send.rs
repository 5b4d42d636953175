//! Sending SCTP packets over a raw socket.

#[cfg(any(target_os = "linux", target_os = "android"))]
pub(super) use several::{MOST_PACKETS, packets};

#[cfg(not(any(target_os = "linux", target_os = "android")))]
pub(super) use single::{MOST_PACKETS, packets};

/// Sending several packets with one call.
#[cfg(any(target_os = "linux", target_os = "android"))]
mod several {
    use std::io;

    use quinn_udp::UdpSocketState;

    pub(in super::super) use crate::runtime::several::MOST_PACKETS;
    use crate::runtime::{Datagrams, several};

    /// Sends packets and returns the bytes of those that the kernel accepted.
    pub(in super::super) fn packets(
        socket: &std::net::UdpSocket,
        _state: &UdpSocketState,
        datagrams: &Datagrams<'_>,
        class: u8,
    ) -> io::Result<usize> {
        let mut to = datagrams.destination;
        to.set_port(0);
        several::packets(socket, to, datagrams, class)
    }
}

/// Sends packets one by one.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
mod single {
    use std::io;

    use quinn_udp::UdpSocketState;

    use crate::runtime::{Datagrams, udp};

    /// Packets sent with one call.
    pub(in super::super) const MOST_PACKETS: usize = 1;

    /// Sends the first packet and returns its length.
    pub(in super::super) fn packets(
        socket: &std::net::UdpSocket,
        state: &UdpSocketState,
        datagrams: &Datagrams<'_>,
        _class: u8,
    ) -> io::Result<usize> {
        let len = datagrams.segment_size.min(datagrams.contents.len());
        let contents = datagrams.contents.get(..len).unwrap_or_default();
        let transmit = quinn_udp::Transmit { contents, ..udp::transmit(datagrams) };
        state.try_send(socket.into(), &transmit).map(|()| len)
    }
}
