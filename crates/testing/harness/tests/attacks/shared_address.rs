//! Hosts that share the peer's address behind a NAT or list it as theirs, and recorded packets that
//! are replayed from another UDP port.

use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use anabranch_harness::hostile::{Draft, Sent, Target};
use anabranch_proto::{
    AssociationConfig, AssociationId, EndpointConfig, Event, Notification, OutgoingMessage, Ppid,
};
use anabranch_wire::{Header, kind};
use bytes::Bytes;

use crate::{Attack, Memory, attack, figure, quiet};

const STRANGER: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 9, 0, 9));
const GLOBAL: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 66));
/// The UDP port of a host other than the peer.
const ELSEWHERE: u16 = 20_000;

pub(crate) fn all() -> Vec<Attack> {
    vec![
        another_port(),
        cookie_from_another_port(),
        camping(),
        session_again(),
        reflected_tag(),
        private_addresses(),
        recorded_packet(),
        answered_challenges(),
    ]
}

/// Whether the first association, whose peer uses port 9899, has changed.
fn harmed(target: &mut Target, id: AssociationId) -> u64 {
    let told = std::iter::from_fn(|| target.endpoint.poll_event())
        .filter(|(of, event)| {
            *of == id
                && matches!(
                    event,
                    Event::Notification(Notification::Restarted { .. } | Notification::Closed(_))
                )
        })
        .count();
    let statistics = target.association(id).statistics();
    let path = &statistics.paths[0];
    let moved = (path.remote, path.remote_udp_port) != (Target::THERE, 9899);
    told as u64 + u64::from(moved || statistics.state.name() != "ESTABLISHED")
}

/// Requests an association and echoes its cookie, followed by `more`.
fn set_up(target: &mut Target, from: IpAddr, header: Header, listed: &[IpAddr], more: &[Draft]) {
    let cookie = target.cookie(from, header, listed).expect("an INIT ACK");
    let mut echo = Draft::read(&cookie).expect("a packet");
    echo.chunks.extend(more.iter().flat_map(|draft| draft.chunks.clone()));
    target.take(from, &echo.bytes());
    target.drain();
}

/// A DATA chunk with the peer's first TSN.
fn data(text: &[u8]) -> Draft {
    let mut value = vec![0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0];
    value.extend_from_slice(text);
    Draft::new(Target::header(0)).with(kind::DATA, 3, value)
}

/// Another host behind the peer's NAT has the same SCTP port, by chance or deliberately.
fn another_port() -> Attack {
    let (mut target, id) = Target::connected(quiet(), &[]);
    let mut memory = Memory::now();
    for number in 0..1000 {
        target.from_port = ELSEWHERE + number;
        set_up(&mut target, Target::THERE, Target::header(0), &[], &[data(b"mine")]);
    }
    let delivered = target.read(id);
    let own = target.associations() - 1;
    attack(
        "1,000 hosts at the peer's address with its SCTP port and other UDP ports",
        [
            figure("associations harmed", 0, harmed(&mut target, id)),
            figure("of their messages in the peer's association", 0, delivered),
            figure("hosts without an association", 0, 1000 - own),
            figure("bytes held for each", 4096, memory.most() / 1000),
        ],
    )
}

/// A cookie for the peer is echoed by another host behind its NAT.
fn cookie_from_another_port() -> Attack {
    let (mut target, id) = Target::connected(quiet(), &[]);
    target.peer_tag += 1;
    let cookie = target.cookie(Target::THERE, Target::header(0), &[]).expect("a cookie");
    target.from_port = ELSEWHERE;
    let before = target.work.packets_out;
    let mut memory = Memory::now();
    for _ in 0..1000 {
        target.take(Target::THERE, &cookie);
        assert!(target.sent().iter().all(|packet| packet.has(kind::ABORT)));
    }
    attack(
        "1,000 COOKIE ECHOs of a restart from another UDP port than its INIT",
        [
            figure("associations harmed", 0, harmed(&mut target, id)),
            figure("packets sent", 1000, target.work.packets_out - before),
            figure("bytes held", 1024, memory.most()),
        ],
    )
}

/// RFC 5062 section 3.1: an association on each port lists the victim's addresses, and contains
/// half a request.
fn camping() -> Attack {
    let mut target = Target::new(EndpointConfig::default(), quiet());
    let victims: Vec<IpAddr> = (2..4).map(|host| IpAddr::from([10, 0, 0, host])).collect();
    for port in 5000..6000 {
        let header = Header { source_port: port, ..Target::header(0) };
        set_up(&mut target, STRANGER, header, &victims, &[data(b"GET /evil ")]);
    }
    while target.endpoint.poll_event().is_some() {}
    let mut refused = 0;
    let mut foreign = 0;
    for port in 5000..6000 {
        let header = Header { source_port: port, ..Target::header(0) };
        set_up(&mut target, victims[0], header, &victims, &[data(b"GET /small")]);
        let Some(id) = target.connected_now() else {
            refused += 1;
            continue;
        };
        let mut association = target.association(id);
        while let Some(message) = association.receive() {
            foreign += u64::from(message.payload.into_bytes() != Bytes::from_static(b"GET /small"));
        }
    }
    attack(
        "1,000 associations of a stranger that list a victim's addresses, one for each of its ports",
        [
            figure("of the victim's associations refused", 0, refused),
            figure("of their messages not the victim's", 0, foreign),
        ],
    )
}

/// Replays all packets that created an association, after more others have ended than the endpoint
/// remembers.
fn session_again() -> Attack {
    let mut target = Target::new(EndpointConfig::default(), quiet());
    let mut first = None;
    let mut memory = Memory::now();
    for number in 0..40_000u32 {
        let port = 1024 + (number % 50_000) as u16;
        let header = Header { source_port: port, ..Target::header(0) };
        let cookie = target.cookie(Target::THERE, header, &[]).expect("a cookie");
        let mut echo = Draft::read(&cookie).expect("a packet");
        echo.chunks.extend(data(b"pay 100").chunks);
        first.get_or_insert_with(|| echo.bytes());
        target.take(Target::THERE, &echo.bytes());
        let id = target.connected_now().expect("an association");
        let now = target.now;
        target.association(id).abort(now, b"");
        while target.poll().is_some() {}
        target.endpoint.remove(id);
        target.now = now + Duration::from_millis(1);
    }
    let first = first.expect("there was one");
    for _ in 0..1000 {
        target.take(Target::THERE, &first);
        target.drain();
    }
    let replayed = target.associations();
    // A peer that comes later, and needs a second to connect, is not affected.
    let cookie = target.cookie(STRANGER, Target::header(0), &[]).expect("a cookie");
    target.now += Duration::from_secs(1);
    target.take(STRANGER, &cookie);
    target.drain();
    let newcomers = target.associations() - replayed;
    attack(
        "1,000 times all of a session again, 40,000 associations later, within the cookie's life",
        [
            figure("associations", 0, replayed),
            figure("newcomers refused", 0, 1 - newcomers),
            figure("bytes held", 2 << 20, memory.most()),
        ],
    )
}

/// An attacker that sees the target's packets knows the peer's tag, and sends chunks after a
/// SHUTDOWN COMPLETE or ABORT with that tag.
fn reflected_tag() -> Attack {
    let (mut target, id) = Target::connected(quiet(), &[]);
    let header = Target::header(Target::PEER_TAG);
    let mut memory = Memory::now();
    for number in 0..10_000u32 {
        let mut packet = Draft::new(header).with(kind::SHUTDOWN_COMPLETE, 1, []);
        packet = match number % 4 {
            0 => packet.with(kind::ABORT, 0, []),
            1 => packet.with(kind::SHUTDOWN, 0, [0; 4]),
            2 => packet.with(kind::HEARTBEAT, 0, [0, 1, 0, 8, 1, 2, 3, 4]),
            _ => packet,
        };
        packet.chunks.extend(data(b"hello").chunks);
        target.from_port = if number % 3 == 0 { ELSEWHERE } else { 9899 };
        target.take(Target::THERE, &packet.bytes());
        target.drain();
    }
    let delivered = target.read(id);
    attack(
        "10,000 SHUTDOWN COMPLETEs with the reflected tag and other chunks behind",
        [
            figure("associations harmed", 0, harmed(&mut target, id)),
            figure("messages delivered", 0, delivered),
            figure("packets sent", 0, target.work.packets_out),
            figure("bytes held", 1024, memory.most()),
        ],
    )
}

/// A host on the Internet lists addresses of the target's own site.
fn private_addresses() -> Attack {
    let mut target = Target::new(EndpointConfig::default(), AssociationConfig::default());
    let listed: Vec<IpAddr> = ["192.168.77.1", "10.0.0.3", "172.16.0.1", "100.64.0.1", "fd00::1"]
        .iter()
        .map(|address| address.parse().expect("an address"))
        .collect();
    set_up(&mut target, GLOBAL, Target::header(0), &listed, &[]);
    let mut private = 0;
    target.pass(Duration::from_secs(600), |_, sent| private += u64::from(sent.to != GLOBAL));
    attack(
        "an INIT from a global address that lists private ones, and ten silent minutes",
        [figure("packets to private addresses", 0, private)],
    )
}

/// The target sends a message every 100 ms, and the peer acknowledges it from its port. `elsewhere`
/// returns the packets from the other port, given the packets that were sent there.
fn ten_minutes(
    target: &mut Target,
    id: AssociationId,
    mut elsewhere: impl FnMut(&Target, &[Sent]) -> Vec<Bytes>,
) -> (u64, u64, u64) {
    let (mut packets, mut with_data, mut lost) = (0, 0, 0);
    let mut there: Vec<Sent> = Vec::new();
    for number in 1..=6000 {
        let message = OutgoingMessage::new(0, Ppid(0), Bytes::from_static(&[7; 1000]));
        let now = target.now;
        lost += u64::from(target.association(id).send(now, message).is_err());
        let mut asked = Vec::new();
        // The other host is close: it answers packets immediately.
        for _ in 0..2 {
            target.from_port = ELSEWHERE;
            for packet in elsewhere(target, &there) {
                target.take(Target::THERE, &packet);
            }
            there.clear();
            for sent in target.sent() {
                if sent.port == ELSEWHERE {
                    packets += 1;
                    with_data += u64::from(sent.has(kind::DATA));
                    there.push(sent);
                } else if sent.has(kind::HEARTBEAT) {
                    asked.push(sent);
                }
            }
        }
        target.now += Duration::from_millis(50);
        target.from_port = 9899;
        for heartbeat in asked {
            target.take(Target::THERE, &answer(target, &heartbeat));
        }
        target.take(Target::THERE, &target.sack(number, 1 << 20));
        let mut seen = Vec::new();
        target.pass(Duration::from_millis(50), |_, sent| seen.push(sent.clone()));
        for sent in seen.into_iter().filter(|sent| sent.port == ELSEWHERE) {
            packets += 1;
            with_data += u64::from(sent.has(kind::DATA));
            there.push(sent);
        }
    }
    (packets, with_data, lost)
}

/// The HEARTBEAT ACK for a HEARTBEAT.
fn answer(target: &Target, heartbeat: &Sent) -> Bytes {
    let asked = Draft::read(&heartbeat.bytes).expect("a packet");
    let chunk = asked.chunks.iter().find(|chunk| chunk.kind == kind::HEARTBEAT).expect("one");
    target.draft().with(kind::HEARTBEAT_ACK, 0, chunk.value.clone()).bytes()
}

/// A recorded packet of the peer is sent again and again from another UDP port.
fn recorded_packet() -> Attack {
    let (mut target, id) = Target::connected(quiet(), &[]);
    let recorded = target.sack(0, 1 << 20);
    let (packets, with_data, lost) =
        ten_minutes(&mut target, id, |_, _| vec![recorded.clone(), recorded.clone()]);
    attack(
        "a recorded packet 20 times a second for ten minutes from another UDP port",
        [
            figure("associations harmed", 0, harmed(&mut target, id)),
            figure("packets to that port", 63, packets),
            figure("of them with data", 0, with_data),
            figure("messages refused", 0, lost),
        ],
    )
}

/// The same, and the other host has read the tags and answers immediately, before the peer can.
fn answered_challenges() -> Attack {
    let (mut target, id) = Target::connected(quiet(), &[]);
    let recorded = target.sack(0, 1 << 20);
    let (_, with_data, lost) = ten_minutes(&mut target, id, |target, there| {
        let asked = there.iter().filter(|sent| sent.has(kind::HEARTBEAT));
        let answers = asked.map(|heartbeat| answer(target, heartbeat));
        std::iter::once(recorded.clone()).chain(answers).collect()
    });
    attack(
        "the same, and the challenges are answered from there",
        [
            figure("associations harmed", 0, harmed(&mut target, id)),
            figure("packets with data to that port", 21, with_data),
            figure("messages refused", 0, lost),
        ],
    )
}
