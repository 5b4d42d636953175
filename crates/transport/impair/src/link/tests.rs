use super::*;
use crate::{Loss, Probability, QueueLimit};

pub(super) const MS: u64 = 1_000_000;

pub(super) fn link(config: LinkConfig) -> Link<Vec<u8>> {
    Link::new(config, 42).unwrap()
}

pub(super) fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

/// A packet of `size` bytes that begins with its number.
pub(super) fn packet(number: u32, size: usize) -> Vec<u8> {
    let mut bytes = number.to_be_bytes().to_vec();
    bytes.resize(size.max(4), 0);
    bytes
}

pub(super) fn number(packet: &[u8]) -> u32 {
    u32::from_be_bytes(packet[..4].try_into().unwrap())
}

/// Everything still in the link, with arrival times.
pub(super) fn drain(link: &mut Link<Vec<u8>>) -> Vec<(u64, u32)> {
    let mut arrived = Vec::new();
    let mut last = None;
    while let Some(deadline) = link.next_deadline() {
        let first = link.poll(deadline);
        // A deadline without a delivery must not be repeated.
        assert!(first.is_some() || last != Some(deadline));
        last = Some(deadline);
        arrived.extend(first.map(|packet| (deadline, number(&packet))));
    }
    arrived
}

pub(super) fn numbers(arrived: &[(u64, u32)]) -> Vec<u32> {
    arrived.iter().map(|(_, number)| *number).collect()
}

pub(super) fn assert_balance(link: &Link<Vec<u8>>) {
    let s = link.stats();
    assert_eq!(
        s.offered + s.duplicated,
        s.delivered
            + s.lost_model
            + s.lost_down
            + s.queue_drops
            + s.early_drops
            + s.too_big
            + link.in_transit() as u64
    );
}

#[test]
pub(super) fn a_perfect_link_delivers_at_once() {
    let mut link = link(LinkConfig::new());
    assert_eq!(link.next_deadline(), None);
    assert_eq!(link.send(5, packet(1, 100)), SendOutcome::Accepted);
    assert_eq!(link.next_deadline(), Some(5));
    assert_eq!(link.poll(5), Some(packet(1, 100)));
    assert_eq!(link.poll(5), None);
    assert_eq!(link.next_deadline(), None);
    let stats = link.stats();
    assert_eq!((stats.offered_bytes, stats.delivered_bytes), (100, 100));
}

#[test]
pub(super) fn rate_gives_exact_serialisation_times() {
    // 1 Mbit/s: 8 us per byte.
    let mut link = link(LinkConfig::new().rate(1_000_000));
    link.send(0, packet(1, 125));
    link.send(0, packet(2, 250));
    link.send(4 * MS, packet(3, 125));
    assert_eq!(
        drain(&mut link),
        [(MS, 1), (3 * MS, 2), (5 * MS, 3)],
        "back to back, then after a pause"
    );
}

#[test]
pub(super) fn overhead_costs_time() {
    let mut link = link(LinkConfig::new().rate(1_000_000).overhead(25));
    link.send(0, packet(1, 100));
    assert_eq!(drain(&mut link), [(MS, 1)]);
    assert_eq!(link.stats().delivered_bytes, 100);
}

#[test]
pub(super) fn a_queue_of_packets_drops_its_tail() {
    let config = LinkConfig::new().rate(1_000_000).queue(QueueLimit::Packets(2));
    let mut link = link(config);
    let outcomes: Vec<SendOutcome> = (1..=5).map(|n| link.send(0, packet(n, 125))).collect();
    // One is being sent, two are waiting.
    assert_eq!(
        outcomes,
        [
            SendOutcome::Accepted,
            SendOutcome::Accepted,
            SendOutcome::Accepted,
            SendOutcome::QueueFull,
            SendOutcome::QueueFull
        ]
    );
    assert_eq!(link.queue_len(), 2);
    // The first was sent by 1 ms, which makes room for one more.
    assert_eq!(link.send(MS, packet(6, 125)), SendOutcome::Accepted);
    assert_eq!(link.send(MS, packet(7, 125)), SendOutcome::QueueFull);
    assert_eq!(numbers(&drain(&mut link)), [1, 2, 3, 6]);
    assert_eq!(link.stats().queue_drops, 3);
    assert_eq!(link.stats().max_queue_packets, 2);
    assert_balance(&link);
}

#[test]
pub(super) fn a_queue_of_bytes_drops_its_tail() {
    let config = LinkConfig::new().rate(1_000_000).queue(QueueLimit::Bytes(300));
    let mut link = link(config);
    for (n, size) in [(1, 1000), (2, 200), (3, 101), (4, 100), (5, 4)] {
        link.send(0, packet(n, size));
    }
    assert_eq!(numbers(&drain(&mut link)), [1, 2, 4]);
    assert_eq!(link.stats().max_queue_bytes, 300);
}

#[test]
pub(super) fn a_queue_of_zero_still_sends() {
    let config = LinkConfig::new().rate(1_000_000).queue(QueueLimit::Packets(0));
    let mut link = link(config);
    assert_eq!(link.send(0, packet(1, 125)), SendOutcome::Accepted);
    assert_eq!(link.send(MS - 1, packet(2, 125)), SendOutcome::QueueFull);
    assert_eq!(link.send(MS, packet(3, 125)), SendOutcome::Accepted);
}

#[test]
pub(super) fn delay_is_exact_and_comes_after_the_rate() {
    let mut link = link(LinkConfig::new().rate(1_000_000).delay(ms(50)));
    link.send(10, packet(1, 125));
    assert_eq!(link.poll(51 * MS + 9), None);
    assert_eq!(drain(&mut link), [(51 * MS + 10, 1)]);
}

#[test]
pub(super) fn a_late_poll_changes_no_other_time() {
    let mut link = link(LinkConfig::new().rate(1_000_000).delay(ms(5)));
    for n in 1..=4 {
        link.send(0, packet(n, 125));
    }
    // Polled again only after two have arrived; the others keep their times.
    assert_eq!(link.poll(7 * MS).as_deref().map(number), Some(1));
    assert_eq!(link.poll(7 * MS).as_deref().map(number), Some(2));
    assert_eq!(link.poll(7 * MS), None);
    assert_eq!(drain(&mut link), [(8 * MS, 3), (9 * MS, 4)]);
}

#[test]
pub(super) fn time_does_not_go_back() {
    let mut link = link(LinkConfig::new().delay(ms(1)));
    link.send(10 * MS, packet(1, 4));
    link.send(3 * MS, packet(2, 4));
    assert_eq!(drain(&mut link), [(11 * MS, 1), (11 * MS, 2)]);
}

#[test]
pub(super) fn jitter_stays_in_bounds_and_reorders() {
    let mut link = link(LinkConfig::new().delay(ms(10)).jitter(ms(4)));
    for n in 0..1000 {
        link.send(u64::from(n) * MS / 10, packet(n, 4));
    }
    let arrived = drain(&mut link);
    assert_eq!(arrived.len(), 1000);
    let delays: Vec<u64> = arrived.iter().map(|(at, n)| at - u64::from(*n) * MS / 10).collect();
    let (least, most) = (*delays.iter().min().unwrap(), *delays.iter().max().unwrap());
    assert!((10 * MS..10 * MS + MS / 10).contains(&least), "{least}");
    assert!((14 * MS - MS / 10..=14 * MS).contains(&most), "{most}");
    let mean = delays.iter().sum::<u64>() / 1000;
    assert!((11_800_000..=12_200_000).contains(&mean), "{mean}");
    assert!(!numbers(&arrived).is_sorted());
    assert!(link.stats().reordered > 0);
}

#[test]
pub(super) fn jitter_can_keep_the_order() {
    let config = LinkConfig::new().delay(ms(10)).jitter(ms(4)).keep_order(true);
    let mut link = link(config);
    for n in 0..500 {
        link.send(u64::from(n) * MS / 10, packet(n, 4));
    }
    let arrived = drain(&mut link);
    assert!(numbers(&arrived).is_sorted());
    assert_eq!(arrived.len(), 500);
    assert_eq!(link.stats().reordered, 0);
}

#[test]
pub(super) fn lost_packets_still_use_the_rate() {
    let config = LinkConfig::new().rate(1_000_000).loss(Loss::positions([1, 3]));
    let mut link = link(config);
    let outcomes: Vec<SendOutcome> = (1..=4).map(|n| link.send(0, packet(n, 125))).collect();
    let lost = SendOutcome::Lost(LossCause::Model);
    assert_eq!(outcomes, [lost, SendOutcome::Accepted, lost, SendOutcome::Accepted]);
    assert_eq!(link.in_transit(), 2);
    assert_eq!(drain(&mut link), [(2 * MS, 2), (4 * MS, 4)]);
    assert_eq!(link.stats().lost_model, 2);
    assert_balance(&link);
}

#[test]
pub(super) fn the_same_packets_are_lost_whatever_else_happens() {
    let loss = Loss::Uniform(Probability::percent(10));
    let half = Probability::percent(50);
    let configs = [
        LinkConfig::new(),
        LinkConfig::new().jitter(ms(3)).duplicate(half),
        LinkConfig::new().reorder(half, ms(1)).corrupt(half),
        LinkConfig::new().cut(20, Some(60)),
        LinkConfig::new().rate(8_000_000_000).queue(QueueLimit::Packets(1)),
    ];
    let victims: Vec<Vec<u64>> = configs
        .into_iter()
        .map(|config| {
            let mut link = link(config.loss(loss.clone()));
            (0..500)
                .filter(|n| {
                    link.send(*n, packet(0, 4)) == SendOutcome::Lost(LossCause::Model) && *n >= 60
                })
                .collect()
        })
        .collect();
    assert!(victims[0].len() > 20);
    for other in &victims[1..4] {
        assert_eq!(other, &victims[0]);
    }
    // Queue drops come before losses, so losses can only decrease there.
    assert!(victims[4].iter().all(|n| victims[0].contains(n)));
}

#[test]
pub(super) fn duplicates_follow_their_originals() {
    let mut link = link(LinkConfig::new().delay(ms(1)).duplicate(Probability::ONE));
    link.send(0, packet(1, 4));
    link.send(0, packet(2, 4));
    assert_eq!(numbers(&drain(&mut link)), [1, 1, 2, 2]);
    assert_eq!((link.stats().duplicated, link.stats().reordered), (2, 0));
    assert_balance(&link);
}

#[test]
pub(super) fn duplication_has_its_frequency() {
    let mut link = link(LinkConfig::new().duplicate(Probability::percent(20)));
    for n in 0..10_000 {
        link.send(n, packet(0, 4));
    }
    let duplicated = link.stats().duplicated;
    assert!((1840..=2160).contains(&duplicated), "{duplicated}");
}

/// A packet that cannot be copied.
#[derive(Debug, PartialEq)]
struct Unique;

impl Packet for Unique {
    fn size(&self) -> usize {
        1
    }

    fn corrupt(&mut self, _: &mut Rng) -> bool {
        false
    }

    fn duplicate(&self) -> Option<Self> {
        None
    }
}

#[test]
pub(super) fn what_cannot_be_copied_is_not_duplicated() {
    let config = LinkConfig::new().duplicate(Probability::ONE).corrupt(Probability::ONE);
    let mut link = Link::new(config, 1).unwrap();
    link.send(0, Unique);
    assert_eq!((link.poll(0), link.poll(0)), (Some(Unique), None));
    assert_eq!((link.stats().duplicated, link.stats().corrupted), (0, 0));
}

#[test]
pub(super) fn packets_held_back_are_overtaken() {
    let half = Probability::percent(50);
    let config = LinkConfig::new().delay(ms(10)).keep_order(true).reorder(half, ms(3));
    let mut link = link(config);
    for n in 0..100 {
        link.send(u64::from(n) * MS, packet(n, 4));
    }
    let arrived = drain(&mut link);
    let held: Vec<u32> = arrived
        .iter()
        .filter(|(at, n)| at - u64::from(*n) * MS == 13 * MS)
        .map(|(_, n)| *n)
        .collect();
    let straight = arrived.iter().filter(|(at, n)| at - u64::from(*n) * MS == 10 * MS).count();
    assert_eq!(held.len() + straight, 100);
    assert!((30..=70).contains(&held.len()), "{}", held.len());
    // The counter can be recomputed from the order of arrivals.
    let overtaken = held
        .iter()
        .filter(|n| {
            let before = arrived.iter().take_while(|(_, m)| m != *n);
            before.clone().any(|(_, m)| m > *n)
        })
        .count() as u64;
    assert!(overtaken > 10);
    assert_eq!(link.stats().reordered, overtaken);
}

#[test]
pub(super) fn corruption_flips_one_bit() {
    let mut link = link(LinkConfig::new().corrupt(Probability::percent(50)));
    let original = packet(7, 60);
    let mut corrupted = 0;
    for n in 0..1000 {
        link.send(n, original.clone());
        let arrived = link.poll(n).unwrap();
        let bits: u32 = arrived.iter().zip(&original).map(|(a, b)| (a ^ b).count_ones()).sum();
        assert!(bits <= 1 && arrived.len() == original.len());
        corrupted += u64::from(bits);
    }
    assert_eq!(link.stats().corrupted, corrupted);
    assert!((430..=570).contains(&corrupted), "{corrupted}");
}

#[test]
pub(super) fn a_copy_of_a_corrupted_packet_is_whole() {
    let config = LinkConfig::new().duplicate(Probability::ONE).corrupt(Probability::ONE);
    let mut link = link(config);
    link.send(0, packet(7, 60));
    assert_ne!(link.poll(0), Some(packet(7, 60)));
    assert_eq!(link.poll(0), Some(packet(7, 60)));
}

#[test]
pub(super) fn packets_above_the_mtu_are_reported_or_vanish() {
    let config = LinkConfig::new().mtu(128).overhead(28);
    let mut reporting = link(config.clone());
    assert_eq!(reporting.send(0, packet(1, 100)), SendOutcome::Accepted);
    assert_eq!(reporting.send(0, packet(2, 101)), SendOutcome::TooBig { mtu: 100 });
    let mut silent = link(config.mtu_blackhole(true));
    assert_eq!(silent.send(0, packet(1, 101)), SendOutcome::Lost(LossCause::Blackhole));
    for (link, arriving) in [(&mut reporting, 1), (&mut silent, 0)] {
        assert_eq!(drain(link).len(), arriving);
        assert_eq!(link.stats().too_big, 1);
        assert_balance(link);
    }
}

#[test]
pub(super) fn a_cut_loses_what_is_offered_and_what_is_in_the_link() {
    let config = LinkConfig::new().rate(1_000_000).delay(ms(10)).cut(12 * MS, Some(20 * MS));
    let mut link = link(config);
    // Sent at 1, 2, 3 and 4 ms, due ten later: 1 and 2 arrive, the second just in time.
    for n in 1..=4 {
        link.send(0, packet(n, 125));
    }
    // One is being sent and one is waiting when the cut starts.
    link.send(11 * MS + MS / 2, packet(5, 125));
    link.send(11 * MS + MS / 2, packet(6, 125));
    assert_eq!(link.send(12 * MS, packet(7, 125)), SendOutcome::Lost(LossCause::Down));
    assert!(!link.is_up());
    assert_eq!(link.send(20 * MS - 1, packet(8, 125)), SendOutcome::Lost(LossCause::Down));
    assert_eq!(link.send(20 * MS, packet(9, 125)), SendOutcome::Accepted);
    assert!(link.is_up());
    assert_eq!(numbers(&drain(&mut link)), [1, 2, 9]);
    assert_eq!(link.stats().lost_down, 6);
    assert_balance(&link);
}

#[test]
pub(super) fn a_cut_without_end_lasts() {
    let mut link = link(LinkConfig::new().cut(1, Some(2)).cut(5, None));
    let outcomes: Vec<bool> = (0..8)
        .chain([u64::MAX])
        .map(|t| link.send(t, packet(0, 4)) == SendOutcome::Accepted)
        .collect();
    assert_eq!(outcomes, [true, false, true, true, true, false, false, false, false]);
}

#[test]
pub(super) fn cuts_between_two_calls_are_not_missed() {
    let mut link = link(LinkConfig::new().delay(ms(10)).cut(2 * MS, Some(3 * MS)));
    link.send(0, packet(1, 4));
    link.send(5 * MS, packet(2, 4));
    assert_eq!(drain(&mut link), [(15 * MS, 2)]);
}

#[test]
pub(super) fn a_link_can_be_taken_down_at_run_time() {
    let mut link = link(LinkConfig::new().delay(ms(10)).cut(40 * MS, None));
    link.send(0, packet(1, 4));
    link.send(MS, packet(2, 4));
    // The first packet has arrived when the link goes down, and waits for the poll.
    link.set_up(10 * MS, false);
    link.send(11 * MS, packet(3, 4));
    link.set_up(12 * MS, true);
    link.send(12 * MS, packet(4, 4));
    assert_eq!(drain(&mut link), [(10 * MS, 1), (22 * MS, 4)]);
    // Taking the link up does not end a cut.
    link.set_up(50 * MS, true);
    assert!(!link.is_up());
    assert_balance(&link);
}

#[test]
pub(super) fn a_new_rate_applies_from_now_on() {
    let mut link = link(LinkConfig::new().rate(1_000_000));
    for n in 1..=3 {
        link.send(0, packet(n, 1250));
    }
    // Half of the first has been sent after 5 ms; the other half takes 10 ms at half the rate.
    let halved = LinkConfig::new().rate(500_000);
    link.set_config(5 * MS, halved.clone()).unwrap();
    assert_eq!(link.config(), &halved);
    assert_eq!(link.poll(15 * MS).as_deref().map(number), Some(1));
    // Without a rate all waiting packets are sent immediately.
    link.set_config(20 * MS, LinkConfig::new()).unwrap();
    assert_eq!(drain(&mut link), [(20 * MS, 2), (20 * MS, 3)]);
}

#[test]
pub(super) fn queued_packets_survive_a_change() {
    let mut link = link(LinkConfig::new().rate(1_000_000).delay(ms(1)));
    for n in 1..=4 {
        link.send(0, packet(n, 125));
    }
    let smaller = LinkConfig::new()
        .rate(1_000_000)
        .delay(ms(100))
        .queue(QueueLimit::Packets(1))
        .loss(Loss::Uniform(Probability::ONE));
    // Packet 1 is on the wire and keeps its arrival time; the others get the new delay. The loss
    // model applies to packets offered from now on.
    link.set_config(MS, smaller).unwrap();
    assert_eq!(drain(&mut link), [(2 * MS, 1), (102 * MS, 2), (103 * MS, 3), (104 * MS, 4)]);
    assert_eq!(link.send(200 * MS, packet(5, 4)), SendOutcome::Lost(LossCause::Model));
}

#[test]
pub(super) fn a_bad_change_changes_nothing() {
    let mut link = link(LinkConfig::new().delay(ms(1)));
    assert_eq!(link.set_config(0, LinkConfig::new().rate(0)), Err(ConfigError::Rate(0)));
    assert_eq!(link.config(), &LinkConfig::new().delay(ms(1)));
}

#[test]
pub(super) fn a_new_schedule_can_cut_at_once() {
    let mut link = link(LinkConfig::new().delay(ms(10)));
    link.send(0, packet(1, 4));
    let cut = LinkConfig::new().cut(0, Some(MS)).cut(2 * MS, Some(6 * MS));
    link.set_config(5 * MS, cut).unwrap();
    assert!(!link.is_up());
    assert_eq!(link.stats().lost_down, 1);
    assert_eq!(link.send(6 * MS, packet(2, 4)), SendOutcome::Accepted);
}
