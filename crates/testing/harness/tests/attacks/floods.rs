//! INIT and COOKIE floods.

use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use anabranch_harness::hostile::{Draft, Target};
use anabranch_proto::{AssociationConfig, EndpointConfig};
use anabranch_wire::{Header, kind};

use crate::{Attack, Memory, attack, figure};

const MANY: u32 = 100_000;

fn stranger(number: u32) -> (IpAddr, Header) {
    let address = Ipv4Addr::from(0x0b00_0000 + number);
    let header = Header {
        source_port: 1 + (number % 60_000) as u16,
        destination_port: Target::PORT,
        verification_tag: 0,
    };
    (address.into(), header)
}

fn target() -> Target {
    Target::new(EndpointConfig::default(), AssociationConfig::default())
}

pub(crate) fn all() -> Vec<Attack> {
    vec![
        inits_unsent(),
        inits(),
        unknown_parameters(),
        forged_cookies(),
        one_cookie(),
        too_many_associations(),
        stale_cookies(),
    ]
}

fn inits_unsent() -> Attack {
    let mut target = target();
    let mut memory = Memory::now();
    for number in 0..MANY {
        let (from, header) = stranger(number);
        target.take(from, &Target::init(header, &[], &[]));
    }
    let held = memory.most();
    let waiting = target.sent().len();
    attack(
        "100,000 INITs from as many addresses, while the driver cannot send",
        [
            figure("associations", 0, target.associations()),
            figure("answers wait", 1024, waiting),
            figure("bytes held", 1 << 20, held),
        ],
    )
}

fn inits() -> Attack {
    let mut target = target();
    let mut memory = Memory::now();
    let mut longest = 0;
    for number in 0..MANY {
        let (from, header) = stranger(number);
        target.take(from, &Target::init(header, &[], &[]));
        while let Some(sent) = target.poll() {
            longest = longest.max(sent.bytes.len());
        }
    }
    attack(
        "100,000 INITs from as many addresses, all answered",
        [
            figure("associations", 0, target.associations()),
            figure("packets sent", u64::from(MANY), target.work.packets_out),
            figure("bytes in the longest", 1012, longest),
            figure("bytes held", 4096, memory.most()),
        ],
    )
}

fn unknown_parameters() -> Attack {
    let mut target = target();
    // Each parameter asks to be reported.
    let more: Vec<u8> = [0xc0, 0x63, 0, 12, 1, 2, 3, 4, 5, 6, 7, 8].repeat(1000);
    let mut memory = Memory::now();
    let mut longest = 0;
    for number in 0..1000 {
        let (from, header) = stranger(number);
        target.take(from, &Target::init(header, &[], &more));
        while let Some(sent) = target.poll() {
            longest = longest.max(sent.bytes.len());
        }
    }
    attack(
        "1,000 INITs with 1,000 unknown parameters each that want a report",
        [
            figure("packets sent", 1000, target.work.packets_out),
            figure("bytes in the longest", 1012, longest),
            figure("bytes held", 4096, memory.most()),
        ],
    )
}

fn forged_cookies() -> Attack {
    let mut target = target();
    let (from, header) = stranger(1);
    let real = target.cookie(from, header, &[]).expect("a cookie");
    let mut memory = Memory::now();
    for number in 0..MANY {
        let mut forged = Draft::read(&real).expect("a packet");
        let value = &mut forged.chunks[0].value;
        let bit = number as usize % (value.len() * 8);
        value[bit / 8] ^= 1 << (bit % 8);
        if number % 2 == 1 {
            value.truncate(number as usize % value.len());
        }
        target.take(from, &forged.bytes());
        target.drain();
    }
    attack(
        "100,000 COOKIE ECHOs with one bit changed or cut short",
        [
            figure("associations", 0, target.associations()),
            figure("packets sent", 0, target.work.packets_out - 1),
            figure("bytes held", 4096, memory.most()),
        ],
    )
}

fn one_cookie() -> Attack {
    let mut target = target();
    let header = Target::header(0);
    let cookie = target.cookie(Target::THERE, header, &[]).expect("a cookie");
    let before = target.work.packets_out;
    let mut memory = Memory::now();
    for _ in 0..10_000 {
        target.take(Target::THERE, &cookie);
        target.drain();
        while target.endpoint.poll_event().is_some() {}
    }
    // A heartbeat or an MTU probe may be sent along with the first COOKIE ACK.
    attack(
        "one COOKIE ECHO 10,000 times",
        [
            figure("association", 1, target.associations()),
            figure("packets sent", 10_001, target.work.packets_out - before),
            figure("bytes held", 8192, memory.most()),
        ],
    )
}

fn too_many_associations() -> Attack {
    let mut endpoint = EndpointConfig::default();
    endpoint.max_associations = 100;
    let mut target = Target::new(endpoint, AssociationConfig::default());
    let cookies: Vec<_> = (0..1000)
        .map(|number| {
            let (from, header) = stranger(number);
            (from, target.cookie(from, header, &[]).expect("a cookie"))
        })
        .collect();
    let mut memory = Memory::now();
    let mut aborts = 0;
    for (from, cookie) in &cookies {
        target.take(*from, cookie);
        while let Some(sent) = target.poll() {
            aborts += u64::from(sent.has(kind::ABORT));
        }
        while target.endpoint.poll_event().is_some() {}
    }
    assert_eq!(aborts, 900, "the others are refused");
    attack(
        "1,000 handshakes where 100 associations are allowed",
        [
            figure("associations", 100, target.associations()),
            figure("bytes held for each", 4096, memory.most() / 100),
        ],
    )
}

fn stale_cookies() -> Attack {
    let mut target = target();
    let (from, header) = stranger(1);
    let cookie = target.cookie(from, header, &[]).expect("a cookie");
    target.pass(Duration::from_secs(61), |_, _| {});
    let before = target.work;
    let mut memory = Memory::now();
    for _ in 0..10_000 {
        target.take(from, &cookie);
        target.drain();
    }
    let answers = target.work.packets_out - before.packets_out;
    attack(
        "a cookie past its lifetime, 10,000 times",
        [
            figure("associations", 0, target.associations()),
            figure("packets sent", 10_000, answers),
            figure(
                "bytes in each",
                24,
                (target.work.bytes_out - before.bytes_out) / answers.max(1),
            ),
            figure("bytes held", 4096, memory.most()),
        ],
    )
}
