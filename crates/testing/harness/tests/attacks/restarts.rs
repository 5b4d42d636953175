//! Unwanted restarts, and cookies from other times and places (RFC 5062).

use std::net::{IpAddr, Ipv4Addr};

use anabranch_harness::hostile::{Draft, Sent, Target};
use anabranch_proto::{AssociationConfig, AssociationId, EndpointConfig, Event, Notification};
use anabranch_wire::{Header, kind};

use crate::{Attack, Memory, attack, figure, quiet};

const STRANGER: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 9, 0, 9));
const TRIES: u64 = 1000;

fn connected() -> (Target, AssociationId) {
    Target::connected(quiet(), &[])
}

pub(crate) fn all() -> Vec<Attack> {
    vec![added_address(), listed_peer(), cookie_of_another_port(), cookie_before(), after_the_end()]
}

/// Whether anything of the association has changed.
fn harmed(target: &mut Target, id: AssociationId) -> u64 {
    let restarted = std::iter::from_fn(|| target.endpoint.poll_event())
        .filter(|(_, event)| {
            matches!(
                event,
                Event::Notification(Notification::Restarted { .. } | Notification::Closed(_))
            )
        })
        .count();
    let statistics = target.association(id).statistics();
    let remotes: Vec<_> = statistics.paths.iter().map(|path| path.remote).collect();
    let changed = remotes != [Target::THERE] || statistics.state.name() != "ESTABLISHED";
    restarted as u64 + u64::from(changed) + (target.associations() as u64 - 1)
}

fn only_aborts(sent: &[Sent]) -> bool {
    sent.iter().all(|packet| packet.has(kind::ABORT))
}

/// RFC 5062: a restart that would add the attacker's address.
fn added_address() -> Attack {
    let (mut target, id) = connected();
    let mut memory = Memory::now();
    for _ in 0..TRIES {
        let init = Target::init(Target::header(0), &[Target::THERE, STRANGER], &[]);
        target.take(Target::THERE, &init);
        assert!(only_aborts(&target.sent()));
    }
    attack(
        "1,000 restarts in the peer's name that add an address",
        [
            figure("associations harmed", 0, harmed(&mut target, id)),
            figure("packets sent", TRIES, target.work.packets_out),
            figure("bytes held", 1024, memory.most()),
        ],
    )
}

/// RFC 5062: the attacker's own INIT claims the peer's address.
fn listed_peer() -> Attack {
    let (mut target, id) = connected();
    let mut memory = Memory::now();
    let mut to_peer = 0;
    for _ in 0..TRIES {
        let init = Target::init(Target::header(0), &[Target::THERE], &[]);
        target.take(STRANGER, &init);
        let sent = target.sent();
        assert!(only_aborts(&sent));
        to_peer += sent.iter().filter(|packet| packet.to != STRANGER).count();
    }
    attack(
        "1,000 INITs from a stranger that lists the peer's address",
        [
            figure("associations harmed", 0, harmed(&mut target, id)),
            figure("packets sent", TRIES, target.work.packets_out),
            figure("of them to the peer", 0, to_peer),
            figure("bytes held", 1024, memory.most()),
        ],
    )
}

/// A genuine cookie of the attacker is used for the ports of another host's association.
fn cookie_of_another_port() -> Attack {
    let (mut target, id) = connected();
    let tag = target.tag;
    let own = Header { source_port: 6000, ..Target::header(0) };
    let cookie = target.cookie(STRANGER, own, &[]).expect("a cookie");
    let before = target.work.packets_out;
    let mut memory = Memory::now();
    for number in 0..TRIES {
        let mut forged = Draft::read(&cookie).expect("a packet");
        forged.header.source_port = Target::PEER_PORT;
        if number % 2 == 0 {
            forged.header.verification_tag = tag;
        }
        let from = if number % 3 == 0 { STRANGER } else { Target::THERE };
        target.take(from, &forged.bytes());
        target.drain();
    }
    attack(
        "1,000 COOKIE ECHOs with a genuine cookie for other ports",
        [
            figure("associations harmed", 0, harmed(&mut target, id)),
            figure("packets sent", 0, target.work.packets_out - before),
            figure("bytes held", 1024, memory.most()),
        ],
    )
}

/// The cookie of an association that the peer has restarted in the meantime.
fn cookie_before() -> Attack {
    let (mut target, id) = connected();
    target.peer_tag += 1;
    let old = target.cookie(Target::THERE, Target::header(0), &[]).expect("a cookie");
    target.peer_tag += 1;
    let new = target.cookie(Target::THERE, Target::header(0), &[]).expect("a cookie");
    target.take(Target::THERE, &new);
    target.drain();
    let restarts = std::iter::from_fn(|| target.endpoint.poll_event())
        .filter(|(_, event)| matches!(event, Event::Notification(Notification::Restarted { .. })))
        .count();
    assert_eq!(restarts, 1, "a restart of the peer itself is one");
    let before = target.work.packets_out;
    let mut memory = Memory::now();
    for _ in 0..TRIES {
        target.take(Target::THERE, &old);
        target.drain();
    }
    attack(
        "1,000 COOKIE ECHOs recorded before the peer restarted",
        [
            figure("associations harmed", 0, harmed(&mut target, id)),
            figure("packets sent", 0, target.work.packets_out - before),
            figure("bytes held", 1024, memory.most()),
        ],
    )
}

/// The cookie of an association that has ended.
fn after_the_end() -> Attack {
    let mut target = Target::new(EndpointConfig::default(), AssociationConfig::default());
    let cookie = target.cookie(Target::THERE, Target::header(0), &[]).expect("a cookie");
    target.take(Target::THERE, &cookie);
    target.drain();
    let id = target.connected_now().expect("an association");
    let now = target.now;
    target.association(id).abort(now, b"");
    target.drain();
    target.endpoint.remove(id);
    let before = target.work.packets_out;
    let mut memory = Memory::now();
    for _ in 0..TRIES {
        target.take(Target::THERE, &cookie);
        target.drain();
    }
    attack(
        "1,000 COOKIE ECHOs of an association that has ended",
        [
            figure("associations", 0, target.associations()),
            figure("packets sent", TRIES, target.work.packets_out - before),
            figure("bytes held", 1024, memory.most()),
        ],
    )
}
