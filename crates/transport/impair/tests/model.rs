//! Properties of a link under random configurations and traffic, and a trace hash that must be the
//! same on every machine.

use std::collections::BTreeMap;
use std::time::Duration;

use anabranch_impair::{Link, LinkConfig, Loss, Probability, QueueLimit, SendOutcome};
use proptest::prelude::*;

/// The next step, and its distance from the previous one in nanoseconds.
#[derive(Clone, Debug)]
enum Step {
    Send(u64, usize),
    Poll(u64),
    SetUp(u64, bool),
    Configure(u64, Box<LinkConfig>),
}

fn probability() -> impl Strategy<Value = Probability> {
    prop_oneof![
        Just(Probability::ZERO),
        (0..=1_000_000u32).prop_map(Probability::per_million),
        Just(Probability::ONE),
    ]
}

fn loss() -> impl Strategy<Value = Loss> {
    prop_oneof![
        Just(Loss::None),
        probability().prop_map(Loss::Uniform),
        (1..30u32, 1..10u32).prop_map(|(gap, burst)| Loss::bursts(gap, burst)),
        prop::collection::btree_set(1..60u64, 0..20).prop_map(Loss::Positions),
    ]
}

/// Impairments that keep packets in order.
fn in_order() -> impl Strategy<Value = LinkConfig> {
    let queue = prop_oneof![
        Just(QueueLimit::Unlimited),
        (0..8usize).prop_map(QueueLimit::Packets),
        (0..4000usize).prop_map(QueueLimit::Bytes),
    ];
    (
        prop::option::of(1_000_000..10_000_000_000u64),
        0..2_000_000u64,
        queue,
        prop::option::of(100..1500usize),
        loss(),
        probability(),
        prop::option::of((0..5_000_000u64, 1..5_000_000u64)),
    )
        .prop_map(|(rate, delay, queue, mtu, loss, duplicate, cut)| {
            let mut config = LinkConfig::new()
                .delay(Duration::from_nanos(delay))
                .queue(queue)
                .loss(loss)
                .duplicate(duplicate);
            config.rate = rate;
            config.mtu = mtu;
            match cut {
                Some((at, length)) => config.cut(at, Some(at + length)),
                None => config,
            }
        })
}

fn any_config() -> impl Strategy<Value = LinkConfig> {
    (in_order(), 0..3_000_000u64, any::<bool>(), (1..=1_000_000u32, 1..3_000_000u64)).prop_map(
        |(config, jitter, keep_order, (reorder, reorder_delay))| {
            config
                .jitter(Duration::from_nanos(jitter))
                .keep_order(keep_order)
                .reorder(Probability::per_million(reorder), Duration::from_nanos(reorder_delay))
        },
    )
}

fn steps(config: impl Strategy<Value = LinkConfig> + 'static) -> impl Strategy<Value = Vec<Step>> {
    let wait = 0..400_000u64;
    let step = prop_oneof![
        12 => (wait.clone(), 8..1400usize).prop_map(|(t, size)| Step::Send(t, size)),
        6 => wait.clone().prop_map(Step::Poll),
        1 => (wait.clone(), any::<bool>()).prop_map(|(t, up)| Step::SetUp(t, up)),
        1 => (wait, config).prop_map(|(t, config)| Step::Configure(t, Box::new(config))),
    ];
    prop::collection::vec(step, 1..80)
}

/// Size of each packet offered, by its number.
type Offered = BTreeMap<u64, usize>;
/// Time and bytes of each packet delivered, in order.
type Delivered = Vec<(u64, Vec<u8>)>;

/// Runs the steps, then polls until the link is empty.
fn run(link: &mut Link<Vec<u8>>, steps: &[Step]) -> (Offered, Delivered) {
    let mut now = 0;
    let mut offered = BTreeMap::new();
    let mut delivered = Vec::new();
    for step in steps {
        match step {
            Step::Send(wait, size) => {
                now += wait;
                let number = offered.len() as u64;
                offered.insert(number, *size);
                let mut packet = number.to_be_bytes().to_vec();
                packet.resize(*size, 0);
                if let SendOutcome::TooBig { mtu } = link.send(now, packet) {
                    assert!(*size > mtu);
                }
            }
            Step::Poll(wait) => {
                now += wait;
                while let Some(packet) = link.poll(now) {
                    delivered.push((now, packet));
                }
            }
            Step::SetUp(wait, up) => {
                now += wait;
                link.set_up(now, *up);
            }
            Step::Configure(wait, config) => {
                now += wait;
                link.set_config(now, config.as_ref().clone()).unwrap();
            }
        }
    }
    let mut empty_polls = 0;
    while let Some(deadline) = link.next_deadline() {
        match link.poll(deadline) {
            Some(packet) => delivered.push((deadline, packet)),
            None => empty_polls += 1,
        }
        // At most one each for the departure and the arrival of a packet that a cut drops.
        assert!(empty_polls <= 2 * steps.len(), "deadlines that lead nowhere");
    }
    (offered, delivered)
}

fn number(packet: &[u8]) -> u64 {
    u64::from_be_bytes(packet[..8].try_into().unwrap())
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(300) })]

    #[test]
    fn only_what_was_offered_arrives(
        first in any_config(),
        steps in steps(any_config()),
        seed: u64,
    ) {
        let mut link = Link::new(first, seed).unwrap();
        let (offered, delivered) = run(&mut link, &steps);
        let mut arrivals: BTreeMap<u64, u64> = BTreeMap::new();
        for (_, packet) in &delivered {
            prop_assert_eq!(offered.get(&number(packet)), Some(&packet.len()));
            prop_assert!(packet[8..].iter().all(|byte| *byte == 0));
            *arrivals.entry(number(packet)).or_default() += 1;
        }
        prop_assert!(arrivals.values().all(|times| *times <= 2));
        let stats = link.stats();
        prop_assert_eq!(stats.delivered, delivered.len() as u64);
        prop_assert!(stats.delivered <= stats.offered + stats.duplicated);
        prop_assert_eq!(link.in_transit(), 0);
        prop_assert_eq!(
            stats.offered + stats.duplicated,
            stats.delivered + stats.lost_model + stats.lost_down + stats.queue_drops + stats.early_drops
                + stats.too_big
        );
    }

    #[test]
    fn nothing_overtakes_without_jitter_and_reordering(
        config in in_order(),
        steps in steps(Just(LinkConfig::new().rate(50_000_000).delay(Duration::from_millis(2)))),
        seed: u64,
    ) {
        // The delay of the first configuration is at most that of the others, so that a change
        // does not reorder either.
        let mut link = Link::new(config, seed).unwrap();
        let (_, delivered) = run(&mut link, &steps);
        prop_assert!(delivered.iter().map(|(_, packet)| number(packet)).is_sorted());
        prop_assert_eq!(link.stats().reordered, 0);
    }

    #[test]
    fn the_same_seed_gives_the_same_run(
        first in any_config(),
        steps in steps(any_config()),
        seed: u64,
    ) {
        let mut one = Link::new(first.clone(), seed).unwrap();
        let mut other = Link::new(first, seed).unwrap();
        prop_assert_eq!(run(&mut one, &steps), run(&mut other, &steps));
        prop_assert_eq!(one.stats(), other.stats());
    }
}

/// FNV-1a over every delivery of a link that uses all models.
fn trace_hash(seed: u64) -> u64 {
    let config = LinkConfig::new()
        .rate(10_000_000)
        .delay(Duration::from_millis(20))
        .jitter(Duration::from_millis(3))
        .queue(QueueLimit::Packets(20))
        .loss(Loss::bursts(50, 3))
        .duplicate(Probability::percent(2))
        .reorder(Probability::percent(3), Duration::from_millis(5))
        .corrupt(Probability::percent(4))
        .cut(400_000_000, Some(450_000_000));
    let mut link = Link::new(config, seed).unwrap();
    let steps: Vec<Step> = (0..1000u64)
        .map(|n| Step::Send((n * 7919) % 1_800_000, 100 + (n as usize * 131) % 1300))
        .collect();
    let (_, delivered) = run(&mut link, &steps);
    let stats = *link.stats();
    assert!(stats.lost_model > 0 && stats.lost_down > 0 && stats.queue_drops > 0);
    assert!(stats.duplicated > 0 && stats.reordered > 0 && stats.corrupted > 0);
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for (time, packet) in &delivered {
        for byte in time.to_be_bytes().iter().chain(packet) {
            hash = (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
    hash
}

#[test]
fn the_trace_is_the_same_on_every_machine() {
    assert_eq!(trace_hash(1), 0x51a9_2302_36cd_a693);
    assert_ne!(trace_hash(1), trace_hash(2));
}
