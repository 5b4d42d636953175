//! Cases that exchange messages of all kinds.

use std::time::Duration;

use anabranch::{Features, MultipathMode, PathStatistics, Statistics};

use super::meeting::Meeting;
use crate::lane::{Family, Lane, Transport};
use crate::net;
use crate::peer::Kind;
use crate::plan::{self, Expected, Planned};
use crate::side::{self, Setting};

/// A few messages of all lengths on two streams.
fn some() -> Vec<Planned> {
    plan::messages(plan::mixed_lengths().take(16), 1, |index| (index / 4) as u16)
}

pub(super) async fn connect(lane: &Lane, slot: u16) -> Result<(), String> {
    let meeting = Meeting::ours(lane, slot, Setting::default()).await?;
    side::echo(lane, &meeting.association, &some()).await?;
    meeting.part().await
}

pub(super) async fn accept(lane: &Lane, slot: u16) -> Result<(), String> {
    let meeting = Meeting::theirs(lane, slot, Setting::default()).await?;
    side::echo(lane, &meeting.association, &some()).await?;
    meeting.part().await
}

pub(super) async fn lengths(lane: &Lane, slot: u16) -> Result<(), String> {
    let decades = [1, 2, 3, 4, 5, 10, 100, 1000, 10_000, 100_000, 1_000_000];
    let around_a_packet = 1400..=1460;
    let all = decades.into_iter().chain(around_a_packet).chain([999_999]);
    let meeting = Meeting::ours(lane, slot, Setting::default()).await?;
    side::echo(lane, &meeting.association, &plan::messages(all, 2, |_| 0)).await?;
    meeting.part().await
}

pub(super) async fn one_stream(lane: &Lane, slot: u16, stream: u16) -> Result<(), String> {
    let plan = plan::messages(plan::mixed_lengths().take(200), 3, |_| stream);
    let meeting = Meeting::ours(lane, slot, Setting::default()).await?;
    side::echo(lane, &meeting.association, &plan).await?;
    meeting.part().await
}

pub(super) async fn streams(lane: &Lane, slot: u16) -> Result<(), String> {
    let lengths = (0..1200).map(|index| 1 + index % 400);
    let plan = plan::messages(lengths, 4, |index| (index % 400) as u16);
    let meeting = Meeting::ours(lane, slot, Setting::default()).await?;
    side::echo(lane, &meeting.association, &plan).await?;
    meeting.part().await
}

/// The peer sends its own messages on streams 0 to 15, and returns messages on other streams.
pub(super) async fn both(lane: &Lane, slot: u16, impaired: bool) -> Result<(), String> {
    let losses = side::losses()?;
    let impairment = impaired.then_some(&losses);
    exchange(lane, slot, Setting { impairment, ..Setting::default() }).await.map(drop)
}

/// The last two of five packets are lost. The tail probe has the I bit, so the peer answers
/// immediately, and its answer shows what else is missing.
pub(super) async fn probe(lane: &Lane, slot: u16) -> Result<(), String> {
    let losses = side::pattern("...xx")?;
    let mut setting = Setting { impairment: Some(&losses), ..Setting::default() };
    // No timer expires before the probe, however slow the machine is.
    setting.config.timers.rto_initial = Duration::from_secs(3);
    setting.config.timers.rto_min = Duration::from_secs(3);
    setting.config.timers.rto_max = Duration::from_secs(30);
    let meeting = Meeting::ours(lane, slot, setting).await?;
    let messages = |count, seed| plan::messages(std::iter::repeat_n(1100, count), seed, |_| 0);
    side::echo(lane, &meeting.association, &messages(1, 14)).await?;
    side::echo(lane, &meeting.association, &messages(4, 15)).await?;
    let statistics = meeting.association.statistics();
    meeting.part().await?;
    let (probes, timeouts) = (
        statistics.counters.tail_probes,
        statistics.paths.iter().map(|path| path.timeouts).sum::<u64>(),
    );
    if probes > 0 && timeouts == 0 {
        Ok(())
    } else {
        Err(format!("{probes} tail probes and {timeouts} timeouts"))
    }
}

/// The same with losses, and NR-SACKs if the peer supports them.
pub(super) async fn nr_sack(lane: &Lane, slot: u16) -> Result<(), String> {
    let losses = side::losses()?;
    let mut setting = Setting { impairment: Some(&losses), ..Setting::default() };
    setting.config.acknowledging.nr_sack = true;
    let statistics = exchange(lane, slot, setting).await?;
    let counters = statistics.counters;
    let (sent, received) = (counters.nr_sacks_sent, counters.nr_sacks_received);
    let expected = lane.kind == Kind::Usrsctp;
    if (statistics.nr_sack, sent > 0, received > 0) == (expected, expected, expected) {
        Ok(())
    } else {
        Err(format!("agreed {}, {sent} NR-SACKs sent, {received} received", statistics.nr_sack))
    }
}

/// Whether the peer sets and sees ECN codepoints.
pub(super) fn sees_codepoints(lane: &Lane) -> bool {
    match lane.kind {
        Kind::Linux => true,
        Kind::Usrsctp => (lane.transport, lane.family) == (Transport::Native, Family::V4),
        _ => false,
    }
}

/// The same, where queues mark packets if both sides agree on ECN. This side hears of the marks of its packets, and sees
/// those of the peer's.
pub(super) async fn ecn(lane: &Lane, slot: u16) -> Result<(), String> {
    let marks = side::marks()?;
    let mut setting = Setting { impairment: Some(&marks), ..Setting::default() };
    setting.config.congestion.ecn = true;
    let statistics = exchange(lane, slot, setting).await?;
    let agreed = statistics.features.has(Features::ECN);
    let sum = |of: fn(&PathStatistics) -> u64| statistics.paths.iter().map(of).sum::<u64>();
    let (heard, seen) = (sum(|path| path.ecn_reductions), sum(|path| path.ecn_ce_received));
    let failures = sum(|path| path.ecn_failures);
    let (wanted, marks) = (!lane.kind.is_webrtc(), sees_codepoints(lane));
    if (agreed, heard > 0, seen > 0, failures) == (wanted, marks, marks, 0) {
        Ok(())
    } else {
        let found = format!("{heard} windows lowered, {seen} marked packets, {failures} failures");
        Err(format!("agreed {agreed}: {found}"))
    }
}

/// The same with two paths, both of which carry new data of this side.
pub(super) async fn multipath(lane: &Lane, slot: u16) -> Result<(), String> {
    let losses = side::losses()?;
    let mut setting = Setting { links: &[0, 1], impairment: Some(&losses), ..Setting::default() };
    setting.config = setting.config.with_multipath(MultipathMode::Cmt);
    setting.config.acknowledging.nr_sack = true;
    let statistics = exchange(lane, slot, setting).await?;
    let sent = [0, 1].map(|link| {
        let remote = net::far(lane.family, link);
        let paths = statistics.paths.iter().filter(|path| path.remote == remote);
        paths.map(|path| path.data_bytes_sent).sum::<u64>()
    });
    if sent.iter().all(|bytes| *bytes > 10_000) {
        Ok(())
    } else {
        Err(format!("{} and {} bytes were sent on the two paths", sent[0], sent[1]))
    }
}

/// Sends and receives at the same time; returns the statistics of this side.
async fn exchange(lane: &Lane, slot: u16, mut setting: Setting<'_>) -> Result<Statistics, String> {
    const SEED: u64 = 6;
    const SIZE: usize = 5000;
    const STREAMS: u64 = 16;
    // After a loss, pion sends one packet at a time for long.
    let count = if setting.impairment.is_some() { 100 } else { 300 };
    let ours = plan::messages(plan::mixed_lengths().take(count), 5, |i| 100 + (i % 8) as u16);
    let mut wanted =
        plan::messages(std::iter::repeat_n(SIZE, count), SEED, |i| (i % STREAMS) as u16);
    wanted.extend_from_slice(&ours);
    if setting.impairment.is_some() && lane.kind.is_pion() {
        // Each packet of these would wait for a delayed SACK.
        setting.config.acknowledging.sack_delay = Duration::from_millis(10);
    }
    let meeting = Meeting::ours(lane, slot, setting).await?;
    let command = format!("source {count} {SIZE} {STREAMS} {SEED}");
    side::command(&meeting.association, &command).await?;
    let expected = Expected::new(lane.kind.returns_ppid());
    side::exchange(&meeting.association, &ours, expected, &wanted).await?;
    let statistics = meeting.association.statistics();
    meeting.part().await?;
    Ok(statistics)
}
