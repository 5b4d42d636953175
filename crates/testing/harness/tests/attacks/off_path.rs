//! Third parties that know addresses and ports, but no verification tag (RFC 9260 section 8.5).

use std::time::Duration;

use anabranch_harness::hostile::{Draft, Target};
use anabranch_impair::Rng;
use anabranch_proto::{
    AssociationId, EndpointConfig, IcmpKind, IcmpMessage, OutgoingMessage, Ppid,
};
use anabranch_wire::{Header, kind};

use crate::{Attack, Memory, attack, figure, quiet};

const GUESSES: u64 = 10_000;

pub(crate) fn all() -> Vec<Attack> {
    vec![
        guesses(
            "10,000 ABORTs with tags that are guessed, with the T bit and without",
            &[kind::ABORT],
        ),
        guesses(
            "10,000 SHUTDOWNs, SHUTDOWN ACKs and SHUTDOWN COMPLETEs with guessed tags",
            &[kind::SHUTDOWN, kind::SHUTDOWN_ACK, kind::SHUTDOWN_COMPLETE],
        ),
        guesses(
            "10,000 INIT ACKs, COOKIE ECHOs, COOKIE ACKs and ERRORs with guessed tags",
            &[kind::INIT_ACK, kind::COOKIE_ECHO, kind::COOKIE_ACK, kind::ERROR],
        ),
        guesses(
            "10,000 DATA, SACK, HEARTBEAT and HEARTBEAT ACK chunks with guessed tags",
            &[kind::DATA, kind::SACK, kind::HEARTBEAT, kind::HEARTBEAT_ACK],
        ),
        guesses(
            "10,000 chunks of unknown types of all four sorts with guessed tags",
            &[0x3f, 0x7f, 0xbf, 0xff],
        ),
        inits(),
        icmp(),
        out_of_the_blue(),
        answers_to_answers(),
    ]
}

/// 0 if data passes in both directions, otherwise 1.
fn harmed(target: &mut Target, id: AssociationId) -> u64 {
    let data = target.data(1, 3, 0, 0, b"still here");
    target.take(Target::THERE, &data);
    let heard = target.read(id) == 1;
    let now = target.now;
    let message = OutgoingMessage::new(0, Ppid(0), &b"so am I"[..]);
    let taken = target.association(id).send(now, message).is_ok();
    let sent = target.sent().iter().any(|packet| packet.has(kind::DATA));
    let sack = target.sack(1, 100_000);
    target.take(Target::THERE, &sack);
    let works = heard && taken && sent && target.association(id).pending_bytes() == 0;
    u64::from(!works)
}

fn random(rng: &mut Rng, most: u64) -> Vec<u8> {
    (0..rng.below(most)).map(|_| rng.next_u64() as u8).collect()
}

fn guesses(name: &'static str, kinds: &[u8]) -> Attack {
    let (mut target, id) = Target::connected(quiet(), &[]);
    let mut rng = Rng::new(1);
    let mut memory = Memory::now();
    for number in 0..GUESSES {
        let mut tag = rng.next_u64() as u32;
        if tag == target.tag || tag == Target::PEER_TAG {
            tag ^= 1;
        }
        let kind = kinds[number as usize % kinds.len()];
        let flags = rng.below(4) as u8;
        let packet = Draft::new(Target::header(tag)).with(kind, flags, random(&mut rng, 40));
        target.take(Target::THERE, &packet.bytes());
        target.drain();
    }
    let (held, sent) = (memory.most(), target.work.packets_out);
    attack(
        name,
        [
            figure("associations harmed", 0, harmed(&mut target, id)),
            figure("packets sent", 0, sent),
            figure("bytes held", 1024, held),
        ],
    )
}

/// An INIT has no tag to guess. It is answered, with the answer sent to the peer, and changes
/// nothing.
fn inits() -> Attack {
    let (mut target, id) = Target::connected(quiet(), &[]);
    let mut memory = Memory::now();
    let mut elsewhere = 0;
    for _ in 0..GUESSES {
        let init = Target::init(Target::header(0), &[], &[]);
        target.take(Target::THERE, &init);
        while let Some(sent) = target.poll() {
            elsewhere += u64::from(sent.to != Target::THERE || !sent.has(kind::INIT_ACK));
        }
    }
    let (held, sent) = (memory.most(), target.work.packets_out);
    attack(
        "10,000 INITs in the name of the peer of an association",
        [
            figure("associations harmed", 0, harmed(&mut target, id)),
            figure("packets sent", GUESSES, sent),
            figure("of them not INIT ACKs to the peer", 0, elsewhere),
            figure("bytes held", 1024, held),
        ],
    )
}

fn icmp() -> Attack {
    let (mut target, id) = Target::connected(quiet(), &[]);
    let before = target.association(id).statistics().paths[0].mtu;
    let mut rng = Rng::new(2);
    let kinds = [
        IcmpKind::PacketTooBig { mtu: 576 },
        IcmpKind::ProtocolUnreachable,
        IcmpKind::PortUnreachable,
        IcmpKind::OtherUnreachable,
    ];
    let mut memory = Memory::now();
    for number in 0..GUESSES {
        let header = Header {
            source_port: Target::PORT,
            destination_port: Target::PEER_PORT,
            verification_tag: (rng.next_u64() as u32).max(Target::PEER_TAG + 1),
        };
        let quoted = Draft::new(header).with(kind::DATA, 3, random(&mut rng, 40)).bytes();
        let message = IcmpMessage {
            local: Target::HERE,
            remote: Target::THERE,
            kind: kinds[number as usize % kinds.len()],
            quoted: &quoted,
        };
        target.endpoint.handle_icmp(target.now, &message);
        target.drain();
    }
    let (held, sent) = (memory.most(), target.work.packets_out);
    let path = target.association(id).statistics().paths[0];
    assert_eq!((path.mtu, path.error_count), (before, 0));
    attack(
        "10,000 ICMP messages of every kind that quote guessed tags",
        [
            figure("associations harmed", 0, harmed(&mut target, id)),
            figure("packets sent", 0, sent),
            figure("bytes held", 1024, held),
        ],
    )
}

fn out_of_the_blue() -> Attack {
    let mut target = Target::new(EndpointConfig::default(), quiet());
    let mut rng = Rng::new(3);
    let mut memory = Memory::now();
    let mut longer = 0;
    for number in 0..GUESSES {
        let header = Target::header(rng.next_u64() as u32 | 1);
        let packet = Draft::new(header).with((number % 256) as u8, 0, random(&mut rng, 40));
        // An INIT with a tag, or an incomplete INIT, is invalid.
        let bytes = packet.bytes();
        target.take(Target::THERE, &bytes);
        while let Some(sent) = target.poll() {
            longer += u64::from(sent.bytes.len() > bytes.len());
        }
    }
    attack(
        "10,000 packets of all chunk types for no association",
        [
            figure("associations", 0, target.associations()),
            figure("packets sent", GUESSES, target.work.packets_out),
            figure("answers longer than what they answer", 0, longer),
            figure("bytes held", 1024, memory.most()),
        ],
    )
}

/// Two endpoints are made to send packets to each other.
fn answers_to_answers() -> Attack {
    let mut one = Target::new(EndpointConfig::default(), quiet());
    let mut other = Target::new(EndpointConfig::default(), quiet());
    let mut rng = Rng::new(4);
    let mut answers = 0;
    for number in 0..GUESSES {
        let header = Header {
            source_port: Target::PORT,
            destination_port: Target::PORT,
            verification_tag: rng.next_u64() as u32 | 1,
        };
        let packet = Draft::new(header).with((number % 256) as u8, 0, random(&mut rng, 40));
        one.take(Target::THERE, &packet.bytes());
        let mut turn = [&mut one, &mut other];
        loop {
            let sent = turn[0].sent();
            if sent.is_empty() {
                break;
            }
            answers += sent.len();
            for packet in sent {
                turn[1].take(Target::HERE, &packet.bytes);
            }
            turn.reverse();
        }
    }
    one.pass(Duration::from_secs(60), |_, _| {});
    attack(
        "10,000 packets that set two endpoints on each other",
        [figure("packets sent by both", GUESSES, answers)],
    )
}
