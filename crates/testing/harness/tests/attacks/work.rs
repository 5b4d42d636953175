//! Attacks that cause much work with few bytes.

use std::time::Duration;

use anabranch_harness::craft;
use anabranch_harness::hostile::Target;
use anabranch_proto::{EndpointConfig, OutgoingMessage, Ppid};
use anabranch_wire::{Chunk, GapBlock, Header, Packet, Tsn};

use crate::{Attack, attack, figure, quiet};

pub(crate) fn all() -> Vec<Attack> {
    vec![toggled_gaps(), send_errors()]
}

/// Number of DATA chunks in the target's current output.
fn chunks(target: &mut Target) -> u32 {
    let sent = target.sent();
    let count = |bytes: &[u8]| {
        let packet = Packet::parse(bytes).expect("a packet");
        let chunks = packet.chunks().map_while(Result::ok).map_while(|chunk| chunk.decode().ok());
        chunks.filter(|chunk| matches!(chunk, Chunk::Data(_))).count() as u32
    };
    sent.iter().map(|sent| count(&sent.bytes)).sum()
}

/// All outstanding data is alternately acknowledged and reported missing again.
fn toggled_gaps() -> Attack {
    const OUTSTANDING: u32 = 5000;
    const SACKS: u64 = 1000;
    let mut config = quiet();
    config.sending.send_buffer = 64 << 20;
    config.sending.send_buffer_start = None;
    let (mut target, id) = Target::connected(config, &[]);
    let now = target.now;
    for _ in 0..40_000 {
        let message = OutgoingMessage::new(0, Ppid(0), vec![7]);
        target.association(id).send(now, message).expect("room");
    }
    let (mut sent, mut acknowledged) = (0, 0);
    while sent - acknowledged < OUTSTANDING {
        let sack = target.sack(sent, 1 << 24);
        acknowledged = sent;
        target.take(Target::THERE, &sack);
        sent += chunks(&mut target);
        target.now += Duration::from_millis(1);
    }
    let outstanding = sent - acknowledged;
    let cumulative = Tsn(target.tsn.wrapping_add(acknowledged).wrapping_sub(1));
    let before = target.association(id).statistics().counters.taken_back_chunks;
    for number in 0..SACKS {
        let all = [GapBlock { start: 2, end: outstanding as u16 }];
        let blocks = if number % 2 == 0 { &all[..] } else { &[] };
        let header = Target::header(target.tag);
        // Close the window, so that nothing more is sent.
        let sack = craft::packet(header, |packet| packet.sack(cumulative, 0, blocks, &[]));
        target.take(Target::THERE, &sack);
        target.drain();
    }
    let statistics = target.association(id).statistics();
    let taken_back = statistics.counters.taken_back_chunks - before;
    assert!(outstanding < 2 * OUTSTANDING && taken_back >= u64::from(outstanding) - 1);
    attack(
        "1,000 SACKs within an RTO that acknowledge 5,000 chunks and none by turns",
        [figure("chunks taken back", 2 * u64::from(OUTSTANDING) + SACKS, taken_back)],
    )
}

/// Send errors are charged to the association that caused them, regardless of the number of
/// associations with the host.
fn send_errors() -> Attack {
    const ALL: u16 = 2000;
    let mut target = Target::new(EndpointConfig::default(), quiet());
    for port in 1..=ALL {
        let header = Header { source_port: port, ..Target::header(0) };
        let cookie = target.cookie(Target::THERE, header, &[]).expect("an INIT ACK");
        target.take(Target::THERE, &cookie);
        target.drain();
        target.connected_now().expect("an association");
    }
    let ids: Vec<_> = target.endpoint.associations().collect();
    let quoted = target.association(ids[ids.len() / 2]).start_of_packet();
    let now = target.now;
    target.endpoint.handle_send_error(now, Target::HERE, Target::THERE, &quoted);
    let blamed = ids.iter().filter(|id| {
        let association = target.endpoint.association(**id).expect("nobody has ended");
        association.statistics().paths.iter().any(|path| path.error_count > 0)
    });
    let blamed = blamed.count();
    assert_eq!(ids.len(), usize::from(ALL));
    attack(
        "a packet that cannot be sent, of one of 2,000 associations with one host",
        [figure("associations blamed", 1, blamed)],
    )
}
