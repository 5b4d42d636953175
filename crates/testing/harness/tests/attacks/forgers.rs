//! Third parties that see and write all packets between two ends, but do not have the secret with which these
//! authenticate (RFC 4895).

use std::time::Duration;

use anabranch_harness::{Pair, Verdict, craft};
use anabranch_impair::Rng;
use anabranch_proto::config::SharedKeys;
use anabranch_proto::{AssociationConfig, ChunkTypes};
use anabranch_wire::{Auth, Chunk, Packet, PacketWriter, Parameters, kind, parameter_kind};
use bytes::Bytes;

use crate::{Attack, Memory, attack, figure, quiet};

const PACKETS: u64 = 10_000;

/// What the forger tries: everything that changes an association.
const KINDS: &[u8] = &[
    kind::DATA,
    kind::SACK,
    kind::ABORT,
    kind::SHUTDOWN,
    kind::SHUTDOWN_ACK,
    kind::ERROR,
    kind::COOKIE_ECHO,
    kind::COOKIE_ACK,
    kind::HEARTBEAT,
    kind::HEARTBEAT_ACK,
    kind::RE_CONFIG,
    kind::FORWARD_TSN,
];

pub(crate) fn all() -> Vec<Attack> {
    vec![
        forged("10,000 packets with the right tag and no AUTH chunk", 0, |_, _| Ok(())),
        forged("10,000 packets with the right tag and a wrong MAC", 0, |rng, packet| {
            let tag: Vec<u8> = (0..32).map(|_| rng.next_u64() as u8).collect();
            packet.chunk(&Chunk::Auth(Auth { shared_key_id: 1, hmac_id: 3, hmac: &tag }))
        }),
        forged(
            "10,000 packets with the right tag and a key that does not exist",
            0,
            |rng, packet| {
                let shared_key_id = 2 + rng.below(60_000) as u16;
                packet.chunk(&Chunk::Auth(Auth { shared_key_id, hmac_id: 3, hmac: &[0; 32] }))
            },
        ),
        forged(
            "10,000 packets with the right tag and an unknown algorithm",
            PACKETS,
            |_, packet| {
                packet.chunk(&Chunk::Auth(Auth { shared_key_id: 1, hmac_id: 9, hmac: &[0; 64] }))
            },
        ),
        replayed(),
        downgraded(),
        rekeyed(),
    ]
}

fn config() -> AssociationConfig {
    let mut config = quiet();
    config.authentication.authentication = true;
    config.authentication.authenticated_chunks = ChunkTypes::of(KINDS);
    config.sending.partial_reliability = true;
    config.sending.stream_reconfiguration = true;
    config.keys = SharedKeys::new(1, b"secret");
    config
}

/// 0 if data passes in both directions, otherwise 1.
fn harmed(pair: &mut Pair) -> u64 {
    pair.received = Default::default();
    let sent = pair.both_up() && pair.send(0, 0, "still here") && pair.send(1, 0, "so am I");
    pair.run(Duration::from_secs(10));
    u64::from(!sent || [0, 1].map(|node| pair.received_len(node)) != [7, 10])
}

/// The forger puts `guard` before a chunk; `answers` is how many answers are allowed.
fn forged(
    name: &'static str,
    answers: u64,
    guard: impl Fn(&mut Rng, &mut PacketWriter<'_>) -> Result<(), anabranch_wire::NoRoom>,
) -> Attack {
    let mut pair = Pair::connected(1, config());
    let (header, mut rng) = (pair.header(0), Rng::new(7));
    let mut memory = Memory::now();
    let mut sent = 0;
    for number in 0..PACKETS {
        let value: Vec<u8> = (0..4 + rng.below(40)).map(|_| rng.next_u64() as u8).collect();
        let forged = craft::packet(header, |packet| {
            guard(&mut rng, packet)?;
            packet.raw(KINDS[number as usize % KINDS.len()], 3, &value)
        });
        sent += pair.answers(1, forged).len() as u64;
        if number % 100 == 99 {
            // The answers arrive, and are not kept.
            pair.run(Duration::from_millis(50));
            pair.events = Default::default();
        }
    }
    pair.forget();
    let held = memory.most();
    attack(
        name,
        [
            figure("associations harmed", 0, harmed(&mut pair)),
            figure("packets sent", answers, sent),
            figure("bytes held", 65_536, held),
        ],
    )
}

/// Genuine packets of the association, again and in another order, with a bit changed or with another packet's chunks.
fn replayed() -> Attack {
    let mut pair = Pair::connected(1, config());
    for _ in 0..20 {
        assert!(pair.send(0, 0, vec![7; 3_000]));
    }
    pair.run(Duration::from_secs(5));
    let seen: Vec<Bytes> = pair.sent(0).into_iter().map(|(_, bytes)| bytes).collect();
    let received = pair.received_len(1);
    let mut rng = Rng::new(8);
    for _ in 0..PACKETS {
        let [first, second] = [0, 1].map(|_| &seen[rng.below(seen.len() as u64) as usize]);
        let parsed = [first, second].map(|bytes| Packet::parse(bytes).expect("a packet"));
        let chunks = parsed.iter().flat_map(|packet| packet.chunks().flatten());
        let change = rng.below(3);
        let mixed = craft::packet(parsed[0].header(), |packet| {
            for chunk in chunks.take(if change == 0 { 2 } else { 4 }) {
                let mut value = chunk.value.to_vec();
                if change == 1 && !value.is_empty() {
                    let at = rng.below(value.len() as u64) as usize;
                    value[at] ^= 1 << rng.below(8);
                }
                packet.raw(chunk.kind, chunk.flags, &value)?;
            }
            Ok(())
        });
        pair.inject(1, mixed);
        pair.forget();
    }
    let again = pair.received_len(1) - received;
    attack(
        "10,000 recorded packets, again, with a bit changed, or mixed",
        [
            figure("associations harmed", 0, harmed(&mut pair)),
            figure("bytes delivered again", 0, again as u64),
        ],
    )
}

/// Somebody on the path changes what the ends say of authentication in their INIT and INIT ACK.
fn downgraded() -> Attack {
    let config = config().with(|config| config.authentication.require_authentication = true);
    let mut pair = Pair::new(1, config.clone());
    pair.net.script(|sight| match sight.has(kind::INIT) {
        true => Verdict::Replace(changed(&sight.packet, |_| ())),
        false => Verdict::Pass,
    });
    pair.connect(config.clone());
    pair.run(Duration::from_secs(1));
    assert!(pair.both_up(), "a packet that is only made again does not count as changed");
    let (mut associations, mut delivered) = (0, 0);
    for number in 0..100 {
        let mut pair = Pair::new(1, config.clone());
        let (kind, change) = ([kind::INIT, kind::INIT_ACK][number % 2], CHANGES[number / 2 % 5]);
        pair.net.script(move |sight| match sight.has(kind) {
            true => Verdict::Replace(changed(&sight.packet, change)),
            false => Verdict::Pass,
        });
        pair.connect(config.clone());
        pair.run(Duration::from_secs(5));
        associations += u64::from(pair.id[1].is_some());
        delivered += pair.received_len(0) + pair.received_len(1);
    }
    let figures =
        [figure("associations", 0, associations), figure("bytes delivered", 0, delivered)];
    attack("100 handshakes with the parameters of authentication changed", figures)
}

/// A change of the list of parameters: their types and values.
type Change = fn(&mut Vec<(u16, Vec<u8>)>);

const CHANGES: [Change; 5] = [
    |all| all.retain(|(kind, _)| !ABOUT_AUTHENTICATION.contains(kind)),
    |all| all.retain(|(kind, _)| *kind != parameter_kind::CHUNK_LIST),
    |all| shorten(all, parameter_kind::CHUNK_LIST, 1),
    |all| shorten(all, parameter_kind::REQUESTED_HMAC_ALGORITHM, 2),
    |all| shorten(all, parameter_kind::RANDOM, 1),
];

const ABOUT_AUTHENTICATION: [u16; 4] = [
    parameter_kind::RANDOM,
    parameter_kind::CHUNK_LIST,
    parameter_kind::REQUESTED_HMAC_ALGORITHM,
    parameter_kind::SUPPORTED_EXTENSIONS,
];

/// Takes the last `bytes` of a parameter away.
fn shorten(all: &mut [(u16, Vec<u8>)], kind: u16, bytes: usize) {
    for (_, value) in all.iter_mut().filter(|(of, _)| *of == kind) {
        value.truncate(value.len() - bytes);
    }
}

/// A packet with an INIT or INIT ACK with other parameters.
fn changed(packet: &Packet<'_>, change: Change) -> Bytes {
    let chunk = packet.chunks().next().expect("an INIT or INIT ACK").expect("a whole chunk");
    let (fixed, list) = chunk.value.split_at(16);
    let list = Parameters::new(list).iter().flatten();
    let mut all: Vec<(u16, Vec<u8>)> = list.map(|raw| (raw.kind, raw.value.to_vec())).collect();
    change(&mut all);
    let mut value = fixed.to_vec();
    for (kind, bytes) in all {
        value.extend(kind.to_be_bytes());
        value.extend((bytes.len() as u16 + 4).to_be_bytes());
        value.extend(bytes);
        value.resize(value.len().next_multiple_of(4), 0);
    }
    craft::packet(packet.header(), |packet| packet.raw(chunk.kind, chunk.flags, &value))
}

/// The ends change their keys while packets with the keys before are on their way.
fn rekeyed() -> Attack {
    let mut pair = Pair::connected(1, config());
    let change = |pair: &mut Pair, node: usize, change: &dyn Fn(&mut SharedKeys)| {
        let now = pair.net.now();
        let mut association = pair.association_mut(node);
        let mut config = association.config().clone();
        change(&mut config.keys);
        association.reconfigure(now, &config).expect("keys may change");
    };
    let (mut memory, mut received) = (Memory::now(), 0);
    for round in 0..1_000_u16 {
        for node in [0, 1] {
            change(&mut pair, node, &|keys| {
                keys.set(10 + round, &round.to_be_bytes()).expect("there is room");
                // What it authenticated has arrived.
                let _ = keys.delete(8_u16.wrapping_add(round));
            });
        }
        for node in [0, 1] {
            assert!(pair.send(node, 0, vec![7; 3_000]));
            pair.run(Duration::from_millis(7));
            change(&mut pair, node, &|keys| {
                keys.activate(10 + round).expect("a key that was set");
            });
        }
        pair.run(Duration::from_millis(36));
        received += pair.received_len(0) + pair.received_len(1);
        pair.received = Default::default();
        pair.events = Default::default();
        pair.forget();
    }
    let held = memory.most();
    pair.run(Duration::from_secs(5));
    let missing = 6_000_000 - received - pair.received_len(0) - pair.received_len(1);
    let statistics = [0, 1].map(|node| pair.statistics(node));
    let of_paths = statistics.iter().flat_map(|statistics| &statistics.paths);
    let again = of_paths.map(|path| path.retransmitted_chunks).sum::<u64>();
    let refused = statistics.iter().map(|all| all.counters.authentication_failures).sum::<u64>();
    attack(
        "1,000 changes of the keys while data is on its way",
        [
            figure("bytes missing", 0, missing),
            figure("chunks sent again", 0, again),
            figure("packets refused", 0, refused),
            figure("bytes held", 131_072, held),
            figure("associations harmed", 0, harmed(&mut pair)),
        ],
    )
}
