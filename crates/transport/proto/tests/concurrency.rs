//! How many objects of a page arrive at the same time (web 6).

use std::collections::BTreeSet;
use std::time::Duration;

use anabranch_harness::Pair;
use anabranch_impair::{LinkConfig, QueueLimit};
use anabranch_proto::{AssociationConfig, SchedulerKind};

const OBJECTS: usize = 48;
const PARTS: usize = 20;
const PART: usize = 1200;

/// A server writes objects one after another, in parts that fit in packets, as far as its send buffer takes them. Returns
/// how many objects are under way when a part of one arrives, on average until the last object is begun.
fn level(streams: usize, fit: usize, scheduler: SchedulerKind) -> f64 {
    let config = AssociationConfig::default().with(|config| {
        config.sending.scheduler = scheduler;
        config.sending.send_buffer = fit * PARTS * PART;
        config.sending.send_buffer_start = None;
    });
    let mut pair = Pair::connected(1, config);
    let link = LinkConfig::new().delay(Duration::from_millis(1)).rate(1_000_000);
    pair.net.set_links(link.queue(QueueLimit::Packets(4)));
    let mut parts = (0..OBJECTS * PARTS).peekable();
    while pair.received[1].len() < OBJECTS * PARTS {
        while let Some(part) = parts.peek()
            && pair.send(0, (part / PARTS % streams) as u16, part.to_be_bytes().repeat(PART / 8))
        {
            parts.next();
        }
        assert!(pair.run_until(Duration::from_secs(60), {
            let before = pair.received[1].len();
            move |pair| pair.received[1].len() > before
        }));
    }
    let (mut arrived, mut open, mut begun) = ([0; OBJECTS], BTreeSet::new(), 0);
    let mut levels = Vec::new();
    for message in &pair.received[1] {
        let bytes = message.payload.clone().into_bytes();
        let part = usize::from_be_bytes(*bytes.first_chunk().unwrap());
        let object = part / PARTS;
        begun = begun.max(object + 1);
        open.insert(object);
        arrived[object] += 1;
        if begun < OBJECTS {
            levels.push(open.len() as f64);
        }
        if arrived[object] == PARTS {
            open.remove(&object);
        }
    }
    levels.iter().sum::<f64>() / levels.len() as f64
}

/// The document has min(L, K) for L streams and a send buffer for K objects (web 6). That is so when the streams are the
/// fewer. When the buffer is the smaller, what has left it makes room for parts of further objects, so that up to twice as
/// many are under way. With first come, first served, one object arrives at a time.
#[test]
fn the_level_is_the_lesser_of_streams_and_objects_that_fit() {
    for fit in [1, 2, 4, 8] {
        for streams in [1, 2, 4, 8] {
            let turns = level(streams, fit, SchedulerKind::RoundRobin);
            println!("{streams} streams, room for {fit}: {turns:.2}");
            let (least, most) = match streams <= fit {
                true => (0.9 * streams as f64, 1.01 * streams as f64),
                false => (fit as f64, 2.0 * fit as f64),
            };
            assert!((least..=most).contains(&turns), "{streams} streams, room for {fit}: {turns}");
            let fifo = level(streams, fit, SchedulerKind::Fifo);
            assert!((fifo - 1.0).abs() < 0.01, "{fifo}");
        }
    }
}
