//! Metrics that an association leaves to later ones between the same addresses.

use std::time::Duration;

use anabranch_harness::{Pair, Verdict};
use anabranch_proto::AssociationConfig;
use anabranch_proto::config::MetricCache;
use anabranch_wire::kind;

fn config(cache: MetricCache) -> AssociationConfig {
    let mut config = AssociationConfig::rfc9260();
    config.timers.rto_min = Duration::from_millis(100);
    config.paths.metric_cache = cache;
    config
}

/// After an association between two hosts 10 ms apart has carried `bytes` and, if `lossy`, lost a
/// packet, and has ended.
fn after(cache: MetricCache, bytes: usize, lossy: bool) -> Pair {
    let mut pair = Pair::connected(1, config(cache));
    let mut seen = 0;
    pair.net.script(move |sight| {
        seen += usize::from(sight.node == 0 && sight.has(kind::DATA));
        if lossy && seen == 2 { Verdict::Drop } else { Verdict::Pass }
    });
    assert!(pair.send(0, 0, vec![1; bytes]));
    assert!(pair.run_until(Duration::from_secs(60), |pair| pair.received_len(1) == bytes));
    pair.net.end_script();
    pair.run(Duration::from_secs(1));
    end(&mut pair);
    pair
}

fn end(pair: &mut Pair) {
    pair.shutdown(0);
    pair.run(Duration::from_secs(1));
    pair.take();
}

/// RTO and ssthresh with which the next association begins.
fn next(pair: &mut Pair, cache: MetricCache) -> (Duration, usize) {
    pair.connect(config(cache));
    let path = pair.statistics(0).paths[0];
    (path.rto, path.ssthresh)
}

const INITIAL: Duration = Duration::from_secs(1);

#[test]
fn the_next_association_begins_with_what_the_last_one_knew() {
    let mut off = after(MetricCache::Off, 30_000, true);
    assert_eq!(next(&mut off, MetricCache::Off), (INITIAL, usize::MAX));
    assert_eq!(off.net.node(0).endpoint.metrics(off.net.now()), []);

    let mut full = after(MetricCache::Full, 30_000, true);
    let (rto, ssthresh) = next(&mut full, MetricCache::Full);
    assert!(rto < INITIAL / 2 && ssthresh < 30_000, "{rto:?} {ssthresh}");
    let known = full.net.node(0).endpoint.metrics(full.net.now());
    assert_eq!(known.len(), 1);
    assert_eq!(known[0].ssthresh, Some(ssthresh));

    let mut selective = after(MetricCache::Selective, 30_000, true);
    let (rto, ssthresh) = next(&mut selective, MetricCache::Selective);
    assert!(rto < INITIAL / 2 && ssthresh == usize::MAX, "{rto:?} {ssthresh}");
}

#[test]
fn who_is_informed_believes_long_transfers_for_a_while() {
    let mut short = after(MetricCache::Informed, 30_000, true);
    assert_eq!(next(&mut short, MetricCache::Informed).1, usize::MAX);
    let mut long = after(MetricCache::Informed, 1_000_000, true);
    let (rto, ssthresh) = next(&mut long, MetricCache::Informed);
    assert!(rto < INITIAL / 2 && ssthresh < 1_000_000);
    end(&mut long);
    long.run(Duration::from_secs(61));
    assert_eq!(next(&mut long, MetricCache::Informed).1, usize::MAX);
}

#[test]
fn associations_that_are_up_share_what_they_know() {
    for (cache, shares) in [(MetricCache::Informed, true), (MetricCache::Full, false)] {
        let mut pair = Pair::connected(1, config(cache));
        assert!(pair.send(0, 0, vec![1; 1000]));
        pair.run(Duration::from_secs(1));
        // The first one continues.
        pair.connect(config(cache));
        assert_eq!(pair.statistics(0).paths[0].rto < INITIAL, shares, "{cache}");
    }
}

#[test]
fn another_network_is_another_matter() {
    let mut pair = after(MetricCache::Full, 30_000, true);
    let local = pair.addresses[0][0];
    let now = pair.net.now();
    pair.net.node_mut(0).endpoint.handle_local_address(now, local, false);
    pair.net.node_mut(0).endpoint.handle_local_address(now, local, true);
    assert_eq!(next(&mut pair, MetricCache::Full), (INITIAL, usize::MAX));
}

#[test]
fn what_is_remembered_is_bounded_in_time() {
    let mut pair = after(MetricCache::Full, 30_000, false);
    pair.run(Duration::from_secs(601));
    assert_eq!(next(&mut pair, MetricCache::Full), (INITIAL, usize::MAX));
}

#[test]
fn a_lost_init_leaves_again_as_soon_as_the_last_round_trips_say() {
    let took = |cache| {
        let mut pair = after(cache, 30_000, false);
        let begun = pair.net.now();
        let mut lost = false;
        pair.net.script(move |sight| {
            let first = sight.node == 0 && sight.has(kind::INIT) && !lost;
            lost |= first;
            if first { Verdict::Drop } else { Verdict::Pass }
        });
        pair.connect(config(cache));
        assert!(pair.run_until(Duration::from_secs(9), |pair| {
            pair.association(0).is_some_and(anabranch_proto::Association::is_established)
        }));
        pair.net.now().saturating_since(begun)
    };
    assert_eq!(took(MetricCache::Off), INITIAL + 4 * Pair::DELAY);
    assert!(took(MetricCache::Selective) < INITIAL / 2);
}

#[test]
fn a_peer_that_is_away_is_waited_for_as_long_as_without() {
    let gives_up = |cache| {
        let mut pair = after(cache, 30_000, false);
        let begun = pair.net.now();
        pair.net.script(|_| Verdict::Drop);
        pair.connect(config(cache));
        assert!(pair.run_until(Duration::from_secs(1000), |pair| {
            pair.association(0).is_none_or(anabranch_proto::Association::is_closed)
        }));
        pair.net.now().saturating_since(begun)
    };
    let without = gives_up(MetricCache::Off);
    let with = gives_up(MetricCache::Selective);
    assert!(with + INITIAL >= without && with <= without, "{with:?} {without:?}");
}
