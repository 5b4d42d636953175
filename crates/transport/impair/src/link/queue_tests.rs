//! Tests of the fates of waiting packets.

use super::*;
use crate::{CoDel, Discipline, Loss, Probability, QueueLimit, Red};

const MS: u64 = 1_000_000;

/// Offers `per_ms` packets of 125 bytes in each of `millis` milliseconds to a link that sends one
/// per millisecond.
fn overload(config: LinkConfig, per_ms: u64, millis: u64) -> Link<Vec<u8>> {
    let config = config.rate(1_000_000);
    let mut link = Link::new(config, 9).unwrap();
    for ms in 0..millis {
        for packet in 0..per_ms {
            link.send(ms * MS + packet * MS / per_ms, vec![0; 125]);
        }
        while link.poll(ms * MS).is_some() {}
    }
    let stats = *link.stats();
    assert_eq!(
        stats.offered,
        stats.delivered
            + stats.lost_model
            + stats.queue_drops
            + stats.early_drops
            + link.in_transit() as u64
    );
    link
}

fn mean_queue(link: &mut Link<Vec<u8>>, now: u64) -> (f64, f64) {
    link.queue_integral(now).mean_since(&QueueIntegral::default())
}

#[test]
fn drop_tail_fills_its_queue() {
    let config = LinkConfig::new().queue(QueueLimit::Packets(50));
    let mut link = overload(config, 2, 2000);
    let (packets, bytes) = mean_queue(&mut link, 2000 * MS);
    assert!((48.0..50.0).contains(&packets), "{packets}");
    assert!((bytes - 125.0 * packets).abs() < 1.0, "{bytes}");
    assert_eq!(link.stats().early_drops, 0);
}

#[test]
fn red_keeps_the_queue_between_its_thresholds() {
    let red = Discipline::Red(Red { weight: Probability::percent(1), ..Red::default() });
    let config = LinkConfig::new().queue(QueueLimit::Packets(50)).discipline(red);
    let mut link = overload(config, 2, 20_000);
    // Half of the packets must be dropped, which requires a probability beyond the upper threshold.
    let (packets, _) = mean_queue(&mut link, 20_000 * MS);
    assert!((10.0..30.0).contains(&packets), "{packets}");
    let stats = link.stats();
    assert!(stats.early_drops > 19_000 && stats.queue_drops < 100, "{stats:?}");
}

#[test]
fn red_counts_in_the_unit_of_the_limit() {
    let red = |max| Red { min_threshold: max / 3, max_threshold: max, ..Red::default() };
    let drops = |max| {
        let config = LinkConfig::new()
            .queue(QueueLimit::Bytes(100_000))
            .discipline(Discipline::Red(red(max)));
        overload(config, 2, 3000).stats().early_drops
    };
    // 15 packets of 125 bytes, or 15 bytes.
    assert!(drops(1875) > 500);
    assert!(drops(15) > drops(1875));
}

#[test]
fn codel_brings_waits_down_to_its_target() {
    let codel = Discipline::CoDel(CoDel::default());
    let config = LinkConfig::new().queue(QueueLimit::Packets(1000)).discipline(codel);
    // A burst of 200 ms, followed by a load that fits.
    let mut link = Link::new(config.rate(1_000_000), 9).unwrap();
    (0..200).for_each(|_| {
        link.send(0, vec![0; 125]);
    });
    let mut longest = 0;
    for ms in 0..6000 {
        link.send(ms * MS, vec![0; 125]);
        while link.poll(ms * MS).is_some() {}
        if ms > 5500 {
            longest = longest.max(link.queue_len());
        }
    }
    assert!(longest <= 6, "{longest}");
    assert!((190..=205).contains(&link.stats().early_drops), "{:?}", link.stats());
}

#[test]
fn codel_leaves_what_the_loss_model_took_to_it() {
    let codel = Discipline::CoDel(CoDel::default());
    let config = LinkConfig::new()
        .queue(QueueLimit::Packets(100))
        .discipline(codel)
        .loss(Loss::Uniform(Probability::percent(30)));
    let link = overload(config, 3, 3000);
    assert!(link.stats().early_drops > 10 && link.stats().lost_model > 500);
}

/// A packet that may be ECN-capable.
#[derive(Debug)]
struct Capable {
    ecn: bool,
    marked: bool,
}

impl Packet for Capable {
    fn size(&self) -> usize {
        125
    }

    fn corrupt(&mut self, _: &mut Rng) -> bool {
        false
    }

    fn mark(&mut self) -> bool {
        self.marked = self.ecn;
        self.ecn
    }

    fn duplicate(&self) -> Option<Self> {
        None
    }
}

#[test]
// RFC 3168 section 5, RFC 8289 section 5.
fn packets_are_marked_in_place_of_drops_if_they_are_ecn_capable() {
    let red = Red { ecn: true, weight: Probability::percent(1), ..Red::default() };
    let red = Red { max_threshold: 60, ..red };
    let codel = CoDel { ecn: true, ..CoDel::default() };
    for discipline in [Discipline::Red(red), Discipline::CoDel(codel)] {
        for capable in [true, false] {
            let config = LinkConfig::new().rate(1_000_000).queue(QueueLimit::Packets(60));
            let mut link = Link::new(config.discipline(discipline), 9).unwrap();
            let mut marked = 0;
            // 5 % more than the link carries, but for a pause in which the queue drains.
            for ms in (0..4000).filter(|ms| ms % 1000 < 900) {
                link.send(ms * MS, Capable { ecn: capable, marked: false });
                if ms % 20 == 0 {
                    link.send(ms * MS, Capable { ecn: capable, marked: false });
                }
                while let Some(packet) = link.poll(ms * MS) {
                    marked += u64::from(packet.marked);
                }
            }
            let stats = link.stats();
            assert_eq!(stats.marked > 5, capable, "{discipline:?} {stats:?}");
            assert_eq!(stats.early_drops > 5, !capable, "{discipline:?} {stats:?}");
            assert!(marked <= stats.marked && marked + 60 >= stats.marked, "{stats:?}");
        }
    }
}

#[test]
fn a_discipline_may_change_on_the_way() {
    let tail = LinkConfig::new().rate(1_000_000);
    let mut link = Link::new(tail.clone(), 9).unwrap();
    (0..100).for_each(|_| {
        link.send(0, vec![0; 125]);
    });
    let strict = Red { min_threshold: 0, max_threshold: 1, gentle: false, ..Red::default() };
    let strict = Red { weight: Probability::ONE, ..strict };
    link.set_config(MS, tail.discipline(Discipline::Red(strict))).unwrap();
    assert_eq!(link.send(2 * MS, vec![0; 125]), SendOutcome::QueueFull);
    assert_eq!(link.stats().early_drops, 1);
}

#[test]
fn the_queue_integral_is_exact() {
    let mut link = Link::new(LinkConfig::new().rate(1_000_000), 1).unwrap();
    // Three packets of a millisecond each: two wait for the first, one for the second.
    (0..3).for_each(|_| {
        link.send(MS, vec![0; 125]);
    });
    let early = link.queue_integral(MS + MS / 2);
    assert_eq!(early.packet_nanos, u128::from(MS));
    let late = link.queue_integral(11 * MS);
    assert_eq!((late.packet_nanos, late.byte_nanos), (3 * u128::from(MS), 375 * u128::from(MS)));
    assert_eq!(late.until, 11 * MS);
    let (packets, bytes) = late.mean_since(&early);
    assert!((packets - 2.0 / 9.5).abs() < 1e-9 && (bytes - 125.0 * packets).abs() < 1e-9);
    assert_eq!(late.mean_since(&late), (0.0, 0.0));
}
