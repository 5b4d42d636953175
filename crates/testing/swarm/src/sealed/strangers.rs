//! Who else sends datagrams to sealed endpoints.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use anabranch_proto::Instant;
use anabranch_seal::{Endpoint, SecretKey, VirtualNetwork};
use anabranch_testnet::Datagram;

use super::{CLIENT, PORT, Paths, SERVER, SealedPaths, family};
use crate::options::Draw;

/// The first port of strangers that begin handshakes, and the port of the one that replays datagrams.
const FIRST_PORT: u16 = 2000;
const RECORDER: u16 = 1000;

/// An address that neither node has.
fn elsewhere(like: IpAddr) -> IpAddr {
    match like {
        IpAddr::V4(_) => Ipv4Addr::new(192, 0, 2, 66).into(),
        IpAddr::V6(_) => Ipv6Addr::new(0x2001, 0xdb8, 66, 0, 0, 0, 0, 66).into(),
    }
}

impl SealedPaths {
    /// Hellos of clients with keys of their own, which know the server's public key.
    pub(crate) fn crowd(&self, now: Instant, count: u32, draw: &mut Draw) -> Vec<Datagram> {
        let paths = self.0.borrow();
        let Some(to) = paths.present[SERVER].first().copied() else { return Vec::new() };
        let key = Paths::secret(SERVER).public();
        let hello = |number| {
            let seed = std::array::from_fn(|_| draw.0.next_u64() as u8);
            let mut stranger = Endpoint::connecting(SecretKey::from_bytes(seed), seed);
            stranger.add_host(key, vec![(to, PORT).into()], None);
            stranger.set_uplink(now, 0, family(to));
            let local = stranger.network().address(0).into();
            let remote = VirtualNetwork::of(&key, 0).address(0).into();
            stranger.seal(now, (local, remote), b"let me in", 9, &mut Vec::new()).ok()?;
            let bytes = stranger.poll_transmit()?.contents.into();
            let udp_port = FIRST_PORT + number;
            let from = elsewhere(to);
            Some(Datagram { from, to, udp_port, ecn: None, dont_fragment: true, bytes })
        };
        (0..count as u16).filter_map(hello).collect()
    }

    /// What somebody on the way makes of a recorded datagram to a node.
    pub(crate) fn forge(&self, node: usize, draw: &mut Draw) -> Option<Datagram> {
        let paths = self.0.borrow();
        let recorded = &paths.recorded;
        let (sender, mut datagram) =
            recorded.get(draw.0.below(recorded.len() as u64 + 1) as usize)?.clone();
        let place = draw.0.below(datagram.bytes.len().max(1) as u64) as usize;
        let mut bytes = datagram.bytes.to_vec();
        match draw.between(0, 6) {
            0 => {}
            // From another address: the paths of the client must not lead there.
            1 => (datagram.from, datagram.udp_port) = (elsewhere(datagram.from), RECORDER),
            2 => bytes.iter_mut().skip(place).take(1).for_each(|byte| *byte ^= 1 << (place % 8)),
            3 => bytes.truncate(place),
            4 => bytes.extend(draw.0.next_u64().to_be_bytes()),
            5 => {
                // The header of a record with other content, or the number of a much later one.
                bytes.iter_mut().skip(12).for_each(|byte| *byte = draw.0.next_u64() as u8);
                bytes.iter_mut().skip(5).take(3).for_each(|byte| *byte ^= 1);
            }
            _ => std::mem::swap(&mut datagram.from, &mut datagram.to),
        }
        let reflected = paths.host_of(datagram.to) == Some(sender);
        if !reflected && sender == node {
            return None;
        }
        if let Some(uplink) = paths.real[CLIENT].iter().position(|ip| *ip == datagram.to) {
            datagram.udp_port = paths.translator.port(uplink);
        }
        datagram.bytes = bytes.into();
        Some(datagram)
    }
}
