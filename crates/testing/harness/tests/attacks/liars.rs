//! Peers with an established association that send false information, through mutators on a live
//! network.

use std::time::Duration;

use anabranch_harness::hostile::{
    AckAhead, AckDivision, CutShort, ForgedTag, GapLies, Mutator, Replay, ShuffledChunks, Split,
    Strange, Target, WindowLies, mutate,
};
use anabranch_harness::{Pair, Trace};
use anabranch_proto::{AssociationConfig, CloseReason, OutgoingMessage, Ppid};
use anabranch_wire::kind;

use crate::{Attack, Figure, Memory, attack, figure};

/// Data that the honest end sends.
const BYTES: usize = 1_000_000;
/// Number of packets that this needs without the attack, doubled for probes and heartbeats.
const HONEST: u64 = 1000;
const LONG: Duration = Duration::from_secs(600);

fn config() -> AssociationConfig {
    let mut config = AssociationConfig::default();
    config.sending.send_buffer = 2 * BYTES;
    config.sending.send_buffer_start = None;
    config
}

pub(crate) fn all() -> Vec<Attack> {
    let boxed = |mutator: Box<dyn Mutator>| vec![mutator];
    vec![
        lossless(
            "each packet with ten copies of forged tags and ten cut short",
            vec![Box::new(ForgedTag(10)), Box::new(CutShort(10))],
        ),
        lossless(
            "each packet eleven times, and the ten before it",
            boxed(Box::new(Replay::new(10, 10))),
        ),
        lossless(
            "chunks shuffled, with unknown ones between, each in a packet of its own",
            vec![Box::new(Strange(5)), Box::new(ShuffledChunks), Box::new(Split)],
        ),
        lossless("a SACK for every chunk, eleven times", boxed(Box::new(AckDivision::new(10)))),
        lossless("a window of 4 GiB", boxed(Box::new(WindowLies(u32::MAX)))),
        transfer("gap blocks that come and go", boxed(Box::new(GapLies(30))), |sent, sacks| {
            vec![figure("packets sent for each SACK", 8, sent.div_ceil(sacks.max(1)))]
        }),
        ahead(),
        closed("a window of 0 for ten minutes", 0),
        closed("a window of 1 byte for ten minutes", 1),
        silent(),
        endless_shutdown(),
        data_after_shutdown(),
    ]
}

/// Node 0 is honest; the packets of node 1 are modified.
fn spoiled(mutators: Vec<Box<dyn Mutator>>) -> Pair {
    let mut pair = Pair::connected(2, config());
    // Drop the trace: its record of all packets would count as memory.
    pair.net.trace = Trace::default();
    mutate(&mut pair.net, 1, mutators, 5);
    pair
}

fn packets(pair: &Pair, node: usize) -> u64 {
    pair.statistics(node).paths.iter().map(|path| path.packets_sent).sum()
}

/// The attack delays nothing, and everything sent arrives exactly once.
fn lossless(name: &'static str, mutators: Vec<Box<dyn Mutator>>) -> Attack {
    let mut pair = spoiled(mutators);
    let before = packets(&pair, 0);
    let now = pair.net.now();
    let mut memory = Memory::now();
    let message = OutgoingMessage::new(0, Ppid(0), vec![7; BYTES]);
    pair.association_mut(0).send(now, message).expect("room");
    assert!(pair.send(1, 0, vec![8; 10_000]), "room");
    let done = pair.run_until(LONG, |pair| {
        memory.grown();
        pair.received_len(1) >= BYTES && pair.received_len(0) >= 10_000
    });
    assert!(done, "{name}: {:?}", pair.statistics(0));
    pair.run(Duration::from_secs(5));
    let wrong = pair.received_len(1).abs_diff(BYTES) + pair.received_len(0).abs_diff(10_000);
    assert_eq!(pair.closed, [None, None], "{name}");
    attack(
        name,
        [
            figure("bytes too many or too few", 0, wrong),
            figure("packets sent for 1 MB", 2 * HONEST, packets(&pair, 0) - before),
            figure("bytes held", 8 * BYTES as u64, memory.most()),
        ],
    )
}

/// The attack harms only the attacker's own data; the other end stays within its bounds.
fn transfer(
    name: &'static str,
    mutators: Vec<Box<dyn Mutator>>,
    judge: impl Fn(u64, u64) -> Vec<Figure>,
) -> Attack {
    let mut pair = spoiled(mutators);
    let before = (packets(&pair, 0), pair.statistics(0).counters.sacks_received);
    let mut memory = Memory::now();
    let now = pair.net.now();
    let message = OutgoingMessage::new(0, Ppid(0), vec![7; BYTES]);
    pair.association_mut(0).send(now, message).expect("room");
    let mut last = (before.0, before.1);
    pair.run_until(Duration::from_secs(60), |pair| {
        memory.grown();
        if pair.association(0).is_none_or(|a| a.is_closed()) {
            return true;
        }
        last = (packets(pair, 0), pair.statistics(0).counters.sacks_received);
        pair.received_len(1) >= BYTES
    });
    let mut figures = judge(last.0 - before.0, last.1 - before.1);
    figures.push(figure("bytes held", 8 * BYTES as u64, memory.most()));
    attack(name, figures)
}

/// Acknowledgements of data that was never sent end the association.
fn ahead() -> Attack {
    let mut pair = spoiled(vec![Box::new(AckAhead(10_000))]);
    pair.net.trace.keep_packets();
    assert!(pair.send(0, 0, vec![7; 100]));
    pair.run(LONG);
    let violated = matches!(pair.closed[0], Some(CloseReason::ProtocolViolation(_)));
    assert!(violated, "{:?}", pair.closed);
    let aborts = pair.count(0, kind::ABORT) as u64;
    attack(
        "SACKs of what was never sent",
        [figure("associations go on", 0, u64::from(!violated)), figure("ABORT", 1, aborts)],
    )
}

/// The window stays closed while much data is waiting.
fn closed(name: &'static str, window: u32) -> Attack {
    let mut pair = spoiled(vec![Box::new(WindowLies(window))]);
    let now = pair.net.now();
    let message = OutgoingMessage::new(0, Ppid(0), vec![7; BYTES]);
    pair.association_mut(0).send(now, message).expect("room");
    // Data for which the window had room before it closed is sent first.
    pair.run(Duration::from_secs(10));
    let before = pair.statistics(0).counters.zero_window_probes;
    let sent = packets(&pair, 0);
    let mut memory = Memory::now();
    pair.run(LONG);
    let probes = pair.statistics(0).counters.zero_window_probes - before;
    attack(
        name,
        [
            // One probe per RTO of at least 300 ms, and the data that a probe gets through.
            figure("probes", 2000, probes),
            figure("packets sent", 1800, packets(&pair, 0) - sent),
            figure("bytes held", 2 * BYTES as u64, memory.most()),
        ],
    )
}

/// The peer stops answering while data waits for it.
fn silent() -> Attack {
    let (mut target, id) = Target::connected(config(), &[]);
    let now = target.now;
    let mut memory = Memory::now();
    let message = OutgoingMessage::new(0, Ppid(0), vec![7; BYTES]);
    target.association(id).send(now, message).expect("room");
    let begun = target.now;
    while target.endpoint.association(id).is_some_and(|a| !a.is_closed()) {
        target.pass(Duration::from_secs(1), |_, _| {});
    }
    let seconds = target.now.saturating_since(begun).as_secs();
    let packets = target.work.packets_out;
    target.endpoint.remove(id);
    attack(
        "a peer that falls silent while 1 MB waits",
        [
            figure("seconds", 900, seconds),
            figure("packets sent", 300, packets),
            figure("bytes held afterwards", 4096, memory.grown()),
        ],
    )
}

/// The peer never answers a SHUTDOWN, but keeps sending the same data again and again.
fn endless_shutdown() -> Attack {
    let (mut target, id) = Target::connected(config(), &[]);
    let now = target.now;
    target.association(id).shutdown(now);
    target.drain();
    let begun = target.now;
    let mut packets = 0_u32;
    while target.endpoint.association(id).is_some_and(|a| !a.is_closed()) {
        packets += 1;
        let data = target.data(1, 3, 0, 0, b"more");
        target.take(Target::THERE, &data);
        target.read(id);
        target.pass(Duration::from_millis(500), |_, _| {});
    }
    let seconds = target.now.saturating_since(begun).as_secs();
    attack(
        "a peer that does not answer a SHUTDOWN",
        [
            figure("seconds", 302, seconds),
            figure("packets for each of its own", 1, target.work.packets_out / u64::from(packets)),
        ],
    )
}

/// The peer sends new data for an hour after a SHUTDOWN. Its link may be slow, so an association
/// that makes progress is not ended. It costs what an association costs.
fn data_after_shutdown() -> Attack {
    let (mut target, id) = Target::connected(config(), &[]);
    let now = target.now;
    let mut memory = Memory::now();
    target.association(id).shutdown(now);
    target.drain();
    let packets = 7200_u32;
    for packet in 1..=packets {
        let data = target.data(packet, 3, 0, packet as u16 - 1, b"more");
        target.take(Target::THERE, &data);
        target.read(id);
        target.pass(Duration::from_millis(500), |_, _| {});
    }
    let per_packet = target.work.packets_out / u64::from(packets);
    let held = memory.grown();
    attack(
        "a peer that sends on after a SHUTDOWN for an hour",
        [figure("packets for each of its own", 1, per_packet), figure("bytes held", 65_536, held)],
    )
}
