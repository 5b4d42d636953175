//! anabranch with itself, with packets in batches.
#![forbid(unsafe_code)]

use anabranch_peers::transfer::{self, Load};
use anabranch_peers::{Config, Kind, Network, Pair, Role, SECOND, Tuning};

/// Retransmissions of unequal lengths must not share a batch, because all packets of a batch have
/// one length: the other side would split it at the wrong places, and the association would hang.
#[test]
fn losses_in_batches_do_not_stop_a_transfer() {
    for tuning in [Tuning::Unpaced, Tuning::Default, Tuning::Rfc9260] {
        for seed in 1..=3 {
            let config = Config { anabranch: tuning, ..Config::default() };
            let network = Network { loss: 0.02, burst: 8, seed, ..Network::default() };
            let client = Kind::Anabranch.build(&config, Role::Client);
            let server = Kind::Anabranch.build(&config, Role::Server);
            let mut pair = Pair::new(client, server, network);
            pair.connect().expect("handshake");
            let load = Load::messages_of(1024);
            for part in 0..4 {
                let delivered = transfer::time(&mut pair, &load, 15 * SECOND).expect("transfer");
                let (client, server) = (pair.end(0).describe(), pair.end(1).describe());
                assert!(
                    delivered.bytes > 0,
                    "{tuning:?}, seed {seed}, part {part}: {client}\n{server}"
                );
            }
        }
    }
}
