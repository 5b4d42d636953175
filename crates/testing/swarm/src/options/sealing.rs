//! Sealed paths between the nodes: node 0 is the client, behind a translator of addresses for each uplink.

use std::time::Duration;

use anabranch_proto::Encapsulation;
use anabranch_proto::config::Routes;
use anabranch_seal::{KeyLife, OVERHEAD};

use super::{Draw, Options};

/// Which clients the server admits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admits {
    /// All.
    Anybody,
    /// The key of node 0.
    Key,
    /// The first one with a token, which node 0 has.
    Token,
}

/// What the seal and the network below it do.
#[derive(Clone, Debug)]
pub struct Sealing {
    /// Which clients the server admits.
    pub admits: Admits,
    /// The server has one socket for all of its addresses.
    pub wildcard: bool,
    /// The keys of both sides live shorter than usual.
    pub key_life: Option<KeyLife>,
    /// The time without a packet after which a translator forgets an uplink.
    pub translator_life: Option<Duration>,
    /// The uplinks that get another outer address, and when.
    pub moves: Vec<(usize, Duration)>,
    /// The number of strangers that begin a handshake with the server at the same time, and when.
    pub crowds: Vec<(u32, Duration)>,
}

impl Options {
    /// Puts a seal between the nodes and the network. Its options have a random stream of their own, so the others stay
    /// as they are.
    pub fn seal(&mut self) {
        let d = &mut Draw(anabranch_impair::Rng::stream(self.seed, 7748));
        let uplinks = self.addresses[0].len() as u64;
        let key_life = d.one_in(2).then(|| key_life(d));
        let most_moves = d.of(&[3, 20]);
        let moves = (0..d.count(2, most_moves))
            .map(|_| (d.0.below(uplinks) as usize, d.moment(self.faults)))
            .collect();
        self.sealing = Some(Sealing {
            admits: d.of(&[Admits::Anybody, Admits::Key, Admits::Token]),
            wildcard: d.one_in(2),
            key_life,
            // RFC 4787 asks for two minutes or more; many have 30 seconds.
            translator_life: d.one_in(2).then(|| Duration::from_secs(d.of(&[30, 60, 120]))),
            moves,
            crowds: (0..d.count(8, 3))
                .map(|_| (d.between(1, 100) as u32, d.moment(self.faults)))
                .collect(),
        });
        // Whatever is no peer of the seal has no virtual address.
        self.other_host = None;
        for config in &mut self.endpoints {
            config.encapsulation = Encapsulation::Udp;
            config.routes = Routes::Numbered;
            config.shim = OVERHEAD as u8;
            config.checksum = false;
        }
    }
}

/// Keys that live for seconds, or for few packets.
fn key_life(d: &mut Draw) -> KeyLife {
    let usual = KeyLife::default();
    match d.between(0, 2) {
        0 => KeyLife { time: d.millis(1000, 60_000), ..usual },
        1 => KeyLife { records: d.scale(20, 10_000), ..usual },
        _ => KeyLife { bytes: d.scale(20_000, 10_000_000), ..usual },
    }
}
