//! Links with patterns: each effect, its start and end, and its record.

use super::tests::*;
use super::*;
use crate::pattern::Patterns;
use crate::{Cause, Fate, Loss};

fn patterned(config: LinkConfig, text: &str) -> Link<Vec<u8>> {
    let text = format!("anabranch pattern 1\n{text}");
    let patterns = Patterns::read(text.as_bytes()).unwrap();
    let mut link = Link::new(config.patterns(patterns), 42).unwrap();
    link.record();
    link
}

/// The numbers of the packets that arrive out of `count`, sent a millisecond apart.
fn arriving(link: &mut Link<Vec<u8>>, count: u32) -> Vec<u32> {
    numbers(&offered(link, count, MS))
}

/// Offers `count` packets at intervals of `apart` and returns their arrival times.
fn offered(link: &mut Link<Vec<u8>>, count: u32, apart: u64) -> Vec<(u64, u32)> {
    let mut arrived = Vec::new();
    for n in 1..=count {
        let now = u64::from(n - 1) * apart;
        while let Some(due) = link.next_deadline().filter(|due| *due <= now) {
            arrived.extend(link.poll(due).map(|packet| (due, number(&packet))));
        }
        link.send(now, packet(n, 125));
    }
    arrived.extend(drain(link));
    assert_balance(link);
    arrived
}

#[test]
fn losses_are_where_the_pattern_says_whatever_the_model_draws() {
    let loss = "pattern loss per packet\nvalues\n..x.x\n";
    assert_eq!(arriving(&mut patterned(LinkConfig::new(), loss), 8), [1, 2, 4, 6, 7, 8]);
    let start = "pattern loss per packet\nstart packet 3\nend repeat\nvalues\nx..\n";
    assert_eq!(arriving(&mut patterned(LinkConfig::new(), start), 10), [1, 2, 4, 5, 7, 8, 10]);
    let hold = "pattern loss per packet\nend hold\nvalues\n..x\n";
    assert_eq!(arriving(&mut patterned(LinkConfig::new(), hold), 6), [1, 2]);
    // Only packets below 100 bytes count, and these have 125.
    let filtered = "pattern loss per packet\nfilter size < 100\nvalues\nx\n";
    assert_eq!(arriving(&mut patterned(LinkConfig::new(), filtered), 3), [1, 2, 3]);
}

#[test]
fn milliseconds_count_from_the_first_packet_or_a_time() {
    let first = "pattern loss per ms\nvalues\n. 2*x .\n";
    assert_eq!(arriving(&mut patterned(LinkConfig::new(), first), 6), [1, 4, 5, 6]);
    let at = "pattern loss per ms\nstart at 3ms\nend repeat\nvalues\nx .\n";
    assert_eq!(arriving(&mut patterned(LinkConfig::new(), at), 8), [1, 2, 3, 5, 7]);
    let hold = "pattern loss per ms\nend hold\nvalues\n3*. x\n";
    assert_eq!(arriving(&mut patterned(LinkConfig::new(), hold), 6), [1, 2, 3]);
}

#[test]
fn a_displaced_packet_passes_behind_as_many_as_asked() {
    let config = || LinkConfig::new().delay(ms(10));
    let text = "pattern displace per packet\nvalues\n. 2 5*. 1\n";
    let mut link = patterned(config(), text);
    assert_eq!(arriving(&mut link, 10), [1, 3, 4, 2, 5, 6, 7, 9, 8, 10]);
    let records: Vec<_> = link.take_records().collect();
    let late: Vec<_> = records.iter().filter(|r| r.effects.reordered).map(|r| r.number).collect();
    assert_eq!(late, [2, 8]);
    assert_eq!(records[3].cause, Cause::Pattern(0));
    // Lost packets count as having passed.
    let both =
        "pattern displace per packet\nvalues\n. 2 8*.\npattern loss per packet\nvalues\n3*. x\n";
    assert_eq!(arriving(&mut patterned(config(), both), 6), [1, 3, 2, 5, 6]);
    // Two packets displaced simultaneously.
    let nested = "pattern displace per packet\nvalues\n3 1 3*.\n";
    assert_eq!(arriving(&mut patterned(config(), nested), 5), [3, 2, 4, 1, 5]);
}

#[test]
fn a_displaced_packet_does_not_wait_for_ever() {
    let text = "pattern displace per packet\nwait 30ms\nvalues\n. . 5\n";
    let mut link = patterned(LinkConfig::new().delay(ms(10)), text);
    let arrived = offered(&mut link, 4, MS);
    assert_eq!(numbers(&arrived), [1, 2, 4, 3]);
    // It arrived at 2 ms, waited for 30 ms and was on the wire for 10 ms.
    assert_eq!(arrived[3].0, 42 * MS);
}

#[test]
fn those_that_pass_may_still_stand_in_the_queue() {
    // 1 ms per packet, all offered at once.
    let config = LinkConfig::new().rate(1_000_000).queue(QueueLimit::Packets(3));
    let mut link = patterned(config, "pattern displace per packet\nvalues\n3 9*.\n");
    // The queue has room for 2, 3 and 4; packet 5 and all later ones find it full.
    assert_eq!(numbers(&offered(&mut link, 6, 0)), [2, 3, 4, 1]);
    let full: Vec<_> =
        link.take_records().filter(|r| r.cause == Cause::Queue).map(|r| r.number).collect();
    assert_eq!(full, [5, 6]);
    // Refused packets count as having passed.
    let config = LinkConfig::new().rate(1_000_000).queue(QueueLimit::Packets(1));
    let mut link = patterned(config, "pattern displace per packet\nvalues\n3 9*.\n");
    let arrived = offered(&mut link, 5, 0);
    assert_eq!(arrived, [(2 * MS, 2), (2 * MS, 1)]);
}

#[test]
fn delays_keep_the_order_or_do_not() {
    let values = "values\n20ms 10ms . 300us\n";
    let kept = format!("pattern delay per packet\n{values}");
    let mut link = patterned(LinkConfig::new().delay(ms(5)), &kept);
    assert_eq!(offered(&mut link, 5, MS), [1, 2, 3, 4, 5].map(|n| (20 * MS, n)));
    let free = format!("pattern delay per packet\novertake yes\n{values}");
    let mut link = patterned(LinkConfig::new().delay(ms(5)), &free);
    let expected = [(3_300_000, 4), (7 * MS, 3), (9 * MS, 5), (11 * MS, 2), (20 * MS, 1)];
    assert_eq!(offered(&mut link, 5, MS), expected);
}

#[test]
fn rates_change_each_millisecond_and_keep_every_bit() {
    // 125 bytes are 1 ms at 1 Mb/s.
    let text = "pattern rate per ms\nend repeat\nvalues\n1Mb/s 500kb/s 3*0\n";
    let mut link = patterned(LinkConfig::new(), text);
    let arrived = offered(&mut link, 4, 0);
    // 1000 bits in the first millisecond, 500 in the second, none in the next three, and again.
    assert_eq!(arrived, [(MS, 1), (5_500_000, 2), (6 * MS + MS, 3), (11 * MS, 4)]);
    // After a pause of many cycles the position in the cycle is right.
    let mut link = patterned(LinkConfig::new(), text);
    offered(&mut link, 1, 0);
    link.send(5_000_002 * MS, packet(9, 125));
    assert_eq!(drain(&mut link), [(5_000_006 * MS, 9)]);
}

#[test]
fn a_packet_may_have_a_rate_of_its_own() {
    let text = "pattern rate per packet\nvalues\n. 500kb/s .\n";
    let mut link = patterned(LinkConfig::new().rate(1_000_000), text);
    assert_eq!(offered(&mut link, 3, 0), [(MS, 1), (3 * MS, 2), (4 * MS, 3)]);
}

#[test]
fn bits_and_copies_are_those_asked_for() {
    let text =
        "pattern corrupt per packet\nvalues\n. 39+-1\npattern duplicate per packet\nvalues\n2\n";
    let mut link = patterned(LinkConfig::new(), text);
    link.send(0, packet(1, 10));
    link.send(0, packet(2, 10));
    let arrived: Vec<_> = std::iter::from_fn(|| link.poll(0)).collect();
    assert_eq!(arrived[..3], [packet(1, 10), packet(1, 10), packet(1, 10)]);
    let mut spoiled = packet(2, 10);
    (spoiled[4], spoiled[9]) = (1, 1);
    assert_eq!(arrived[3..], [spoiled]);
    assert_eq!((link.stats().duplicated, link.stats().corrupted), (2, 1));
    let fates: Vec<_> = link.take_records().map(|r| (r.number, r.fate)).collect();
    assert_eq!(fates, [(1, Fate::Passed), (1, Fate::Copy), (1, Fate::Copy), (2, Fate::Passed)]);
}

#[test]
fn triggers_cut_repair_switch_and_tell_commands() {
    let text = "pattern loss per packet\nname calm\nvalues\n.\npattern loss per packet\nname storm\n\
                start switch\nend repeat\nvalues\nx.\npattern trigger per packet\nvalues\n3 cut\n\
                5 repair\n6 switch storm\n8 run echo eight\n11 switch calm\n";
    let mut link = patterned(LinkConfig::new().delay(ms(1)), text);
    // The link goes down at packet 3; packet 2, due at 2 ms, has just arrived.
    assert_eq!(arriving(&mut link, 12), [1, 2, 5, 7, 9, 11, 12]);
    assert_eq!(link.take_commands(), ["echo eight"]);
    assert!(link.take_commands().is_empty());
    let causes = link.take_records().filter(|r| r.fate == Fate::Lost).map(|r| r.cause);
    let causes = causes.collect::<Vec<_>>();
    let storm = Cause::Pattern(1);
    assert_eq!(causes, [Cause::Down, Cause::Down, storm, storm, storm]);
}

#[test]
fn triggers_in_time_are_on_time_without_packets() {
    let text = "pattern trigger per ms\nstart at 2ms\nvalues\n0ns cut\n3ms repair\n4ms run x\n";
    let mut link = patterned(LinkConfig::new().delay(ms(10)), text);
    link.send(0, packet(1, 10));
    let mut deadlines = Vec::new();
    while let Some(deadline) = link.next_deadline() {
        assert!(link.poll(deadline).is_none());
        deadlines.push(deadline);
    }
    assert_eq!(deadlines, [2 * MS, 5 * MS, 6 * MS]);
    assert_eq!((link.stats().lost_down, link.take_commands()), (1, vec!["x".to_owned()]));
    assert!(link.is_up());
}

#[test]
fn the_record_has_every_packet_once() {
    let config = LinkConfig::new()
        .rate(1_000_000)
        .delay(ms(7))
        .queue(QueueLimit::Packets(3))
        .loss(Loss::Uniform(Probability::percent(10)))
        .cut(50 * MS, Some(60 * MS));
    let text = "pattern loss per packet\nend repeat\nvalues\n16*. x\npattern displace per packet\n\
                end repeat\nvalues\n8*. 2\n";
    let mut link = patterned(config, text);
    offered(&mut link, 200, MS / 2);
    let mut records: Vec<_> = link.take_records().collect();
    records.sort_by_key(|record| record.number);
    let numbers: Vec<_> = records.iter().map(|record| record.number).collect();
    assert_eq!(numbers, (1..=200).collect::<Vec<_>>());
    let count =
        |cause: Cause| records.iter().filter(move |r| r.cause == cause && r.fate == Fate::Lost);
    let stats = *link.stats();
    let (model, pattern) = (count(Cause::Model).count(), count(Cause::Pattern(0)).count());
    assert_eq!((model + pattern) as u64, stats.lost_model);
    assert_eq!(count(Cause::Queue).count() as u64, stats.queue_drops);
    assert_eq!(count(Cause::Down).count() as u64, stats.lost_down);
    assert!(model > 0 && pattern > 0 && stats.queue_drops > 0 && stats.lost_down > 0);
    let passed = records.iter().filter(|record| record.fate == Fate::Passed);
    assert!(passed.clone().all(|r| r.left.is_some_and(|left| left >= r.entered + 8 * MS)));
    assert_eq!(passed.count() as u64, stats.delivered);
}

#[test]
fn the_record_has_the_place_among_those_that_a_filter_chooses() {
    let filtered = "pattern loss per packet\nfilter size > 5\nvalues\n.x\n";
    let mut link = patterned(LinkConfig::new(), filtered);
    for (n, size) in [(1, 4), (2, 9), (3, 4), (4, 9)] {
        link.send(0, packet(n, size));
    }
    drain(&mut link);
    let mut places: Vec<_> = link.take_records().map(|r| (r.number, r.place, r.fate)).collect();
    places.sort_by_key(|(number, ..)| *number);
    let expected = [
        (1, None, Fate::Passed),
        (2, Some((0, 1)), Fate::Passed),
        (3, None, Fate::Passed),
        (4, Some((0, 2)), Fate::Lost),
    ];
    assert_eq!(places, expected);
}

#[test]
fn what_is_underway_is_said_on_request() {
    let mut link =
        patterned(LinkConfig::new().delay(ms(1)), "pattern loss per packet\nvalues\n.x\n");
    link.send(0, packet(1, 125));
    link.send(0, packet(2, 125));
    link.give_up_records();
    let left: Vec<_> = link.take_records().map(|r| (r.number, r.fate)).collect();
    assert_eq!(left, [(2, Fate::Lost), (1, Fate::Underway)]);
}

#[test]
fn filters_that_packets_cannot_answer_are_refused() {
    let text = "anabranch pattern 1\npattern loss per packet\nfilter tcp\nvalues\nx\n";
    let config = LinkConfig::new().patterns(Patterns::read(text.as_bytes()).unwrap());
    assert_eq!(Link::<Vec<u8>>::new(config, 1).err(), Some(ConfigError::Filter));
}
