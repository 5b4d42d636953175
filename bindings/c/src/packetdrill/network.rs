//! The network that packetdrill plays: IP packets in memory.

use std::collections::VecDeque;
use std::io::{self, IoSliceMut};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::SystemTime;

use anabranch::runtime::Ecn;
use anabranch::runtime::{Batch, Datagrams, PacketSocket, TransmitError};

use super::lock;

/// The IP protocol number of SCTP.
const SCTP: u8 = 132;
const HOPS: u8 = 64;

/// Packets in flight.
#[derive(Debug, Default)]
pub(super) struct Network {
    arrived: Mutex<Arrived>,
    sent: Mutex<Sent>,
    something_sent: Condvar,
}

#[derive(Debug, Default)]
struct Arrived {
    packets: VecDeque<(SocketAddr, IpAddr, Option<Ecn>, Vec<u8>)>,
    reader: Option<Waker>,
}

#[derive(Debug, Default)]
struct Sent {
    packets: VecDeque<(Vec<u8>, SystemTime)>,
    closed: bool,
}

impl Network {
    /// Queues a packet that has arrived.
    pub(super) fn arrive(&self, from: SocketAddr, to: IpAddr, ecn: Option<Ecn>, contents: Vec<u8>) {
        let mut arrived = lock(&self.arrived);
        arrived.packets.push_back((from, to, ecn, contents));
        let reader = arrived.reader.take();
        drop(arrived);
        if let Some(reader) = reader {
            reader.wake();
        }
    }

    /// Waits for the next IP packet that was sent; `None` after `close`.
    pub(super) fn next(&self) -> Option<(Vec<u8>, SystemTime)> {
        let mut sent = lock(&self.sent);
        loop {
            if let Some(packet) = sent.packets.pop_front() {
                return Some(packet);
            }
            if sent.closed {
                return None;
            }
            sent = self.something_sent.wait(sent).unwrap_or_else(PoisonError::into_inner);
        }
    }

    pub(super) fn close(&self) {
        lock(&self.sent).closed = true;
        self.something_sent.notify_all();
    }
}

/// A socket on the network.
#[derive(Debug)]
pub(super) struct Socket {
    network: Arc<Network>,
    local: IpAddr,
}

impl Socket {
    pub(super) fn new(network: Arc<Network>, local: IpAddr) -> Self {
        Self { network, local }
    }
}

impl PacketSocket for Socket {
    fn local_address(&self) -> SocketAddr {
        SocketAddr::new(self.local, 0)
    }

    fn poll_writable(&self, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn try_send(&self, datagrams: &Datagrams<'_>) -> Result<usize, TransmitError> {
        let source = datagrams.source.unwrap_or(self.local);
        let size = datagrams.segment_size.max(1);
        let mut sent = lock(&self.network.sent);
        for contents in datagrams.contents.chunks(size) {
            let destination = datagrams.destination.ip();
            let fragment = datagrams.may_fragment;
            let packet = build(source, destination, datagrams.ecn, fragment, contents)
                .ok_or_else(|| TransmitError::Failed(io::ErrorKind::InvalidInput.into()))?;
            sent.packets.push_back((packet, SystemTime::now()));
        }
        drop(sent);
        self.network.something_sent.notify_all();
        Ok(datagrams.contents.len())
    }

    fn poll_receive(
        &self,
        cx: &mut Context<'_>,
        buffers: &mut [IoSliceMut<'_>],
        batches: &mut [Batch],
    ) -> Poll<io::Result<usize>> {
        let mut arrived = lock(&self.network.arrived);
        let mut count = 0;
        for (buffer, batch) in buffers.iter_mut().zip(batches) {
            let Some((source, to, ecn, contents)) = arrived.packets.pop_front() else { break };
            let len = contents.len().min(buffer.len());
            buffer[..len].copy_from_slice(&contents[..len]);
            *batch = Batch { source, destination: Some(to), ecn, segment_size: len, len };
            count += 1;
        }
        if count > 0 {
            return Poll::Ready(Ok(count));
        }
        arrived.reader = Some(cx.waker().clone());
        Poll::Pending
    }
}

fn ecn_of(bits: u8) -> Option<Ecn> {
    match bits & 3 {
        1 => Some(Ecn::Ect1),
        2 => Some(Ecn::Ect0),
        3 => Some(Ecn::Ce),
        _ => None,
    }
}

/// The SCTP packet in an IP packet: source, destination, ECN codepoint and bytes. `None` for
/// anything else.
pub(super) fn parse(packet: &[u8]) -> Option<(IpAddr, IpAddr, Option<Ecn>, &[u8])> {
    match packet.first()? >> 4 {
        4 => {
            let header = usize::from(packet[0] & 15) * 4;
            let total = usize::from(u16::from_be_bytes(packet.get(2..4)?.try_into().ok()?));
            let fragment = u16::from_be_bytes(packet.get(6..8)?.try_into().ok()?) & 0x3fff;
            if header < 20 || *packet.get(9)? != SCTP || fragment != 0 {
                return None;
            }
            let from: [u8; 4] = packet.get(12..16)?.try_into().ok()?;
            let to: [u8; 4] = packet.get(16..20)?.try_into().ok()?;
            let contents = packet.get(header..total)?;
            Some((from.into(), to.into(), ecn_of(packet[1]), contents))
        }
        6 => {
            let length = usize::from(u16::from_be_bytes(packet.get(4..6)?.try_into().ok()?));
            if *packet.get(6)? != SCTP {
                return None;
            }
            let from: [u8; 16] = packet.get(8..24)?.try_into().ok()?;
            let to: [u8; 16] = packet.get(24..40)?.try_into().ok()?;
            let contents = packet.get(40..40 + length)?;
            let from = Ipv6Addr::from(from);
            Some((from.into(), Ipv6Addr::from(to).into(), ecn_of(packet[1] >> 4), contents))
        }
        _ => None,
    }
}

/// An IP packet with these contents.
fn build(
    source: IpAddr,
    destination: IpAddr,
    ecn: Option<Ecn>,
    may_fragment: bool,
    contents: &[u8],
) -> Option<Vec<u8>> {
    let ecn = ecn.map_or(0, Ecn::bits);
    let length = u16::try_from(contents.len()).ok()?;
    let mut packet = match (source, destination) {
        (IpAddr::V4(source), IpAddr::V4(destination)) => {
            v4_header(source, destination, ecn, may_fragment, length.checked_add(20)?).to_vec()
        }
        (IpAddr::V6(source), IpAddr::V6(destination)) => {
            let mut header = vec![0x60, ecn << 4, 0, 0];
            header.extend_from_slice(&length.to_be_bytes());
            header.extend_from_slice(&[SCTP, HOPS]);
            header.extend_from_slice(&source.octets());
            header.extend_from_slice(&destination.octets());
            header
        }
        _ => return None,
    };
    packet.extend_from_slice(contents);
    Some(packet)
}

fn v4_header(
    source: Ipv4Addr,
    destination: Ipv4Addr,
    ecn: u8,
    may_fragment: bool,
    total: u16,
) -> [u8; 20] {
    let mut header = [0; 20];
    header[0] = 0x45;
    header[1] = ecn;
    header[2..4].copy_from_slice(&total.to_be_bytes());
    header[6] = if may_fragment { 0 } else { 0x40 };
    header[8] = HOPS;
    header[9] = SCTP;
    header[12..16].copy_from_slice(&source.octets());
    header[16..20].copy_from_slice(&destination.octets());
    let words = header.chunks_exact(2).map(|word| u32::from(word[0]) << 8 | u32::from(word[1]));
    let mut sum: u32 = words.sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    header[10..12].copy_from_slice(&(!(sum as u16)).to_be_bytes());
    header
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_are_parsed_as_they_were_built() {
        for (source, destination) in [("192.168.0.1", "192.0.2.1"), ("fd3d::1", "2001:db8::1")] {
            let (source, destination) = (source.parse().unwrap(), destination.parse().unwrap());
            let packet = build(source, destination, Some(Ecn::Ce), false, b"sctp").unwrap();
            let (from, to, ecn, contents) = parse(&packet).unwrap();
            assert_eq!(
                (from, to, ecn, contents),
                (source, destination, Some(Ecn::Ce), &b"sctp"[..])
            );
            for end in 0..packet.len() {
                assert!(parse(&packet[..end]).is_none(), "{end}");
            }
        }
    }

    #[test]
    fn what_is_not_sctp_is_passed_over() {
        let (a, b) = ([10, 0, 0, 1].into(), [10, 0, 0, 2].into());
        let mut packet = build(a, b, None, true, b"udp").unwrap();
        packet[9] = 17;
        assert!(parse(&packet).is_none());
        assert!(parse(&[]).is_none());
        assert!(build(a, Ipv6Addr::LOCALHOST.into(), None, true, b"").is_none());
    }
}
