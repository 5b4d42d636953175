//! Measurements after a warm-up instead of over the whole run.

use std::time::Duration;

use anabranch_proto::{RetransmissionQueue, Statistics};
use anabranch_sim::{Direction, Instant, LinkId, LinkStats, QueueIntegral};

use super::build::Built;
use crate::metrics::Metrics;
use crate::setup::{Queue, Setup};

/// The state at the start of the measurement.
pub(super) struct Window {
    begun: Instant,
    bytes: u64,
    sender: Option<Statistics>,
    cores: Vec<Core>,
}

/// The core of a path in the direction of the data.
struct Core {
    link: LinkId,
    direction: Direction,
    room: Queue,
    queue: QueueIntegral,
    offered: u64,
    dropped: u64,
}

impl Window {
    /// Starts the measurement.
    pub(super) fn open(setup: &Setup, built: &mut Built) -> Self {
        let mut cores = Vec::new();
        for path in &setup.network.paths {
            let (Some(core), Some(link)) =
                (setup.network.links.get(path.core), built.links.get(path.core))
            else {
                continue;
            };
            let reversed = path.links.iter().any(|(link, back)| *link == path.core && *back);
            let (direction, room) = match reversed {
                false => (Direction::Forward, core.forward.queue),
                true => (Direction::Backward, core.backward.queue),
            };
            let queue = built.net.queue_integral(*link, direction);
            let (offered, dropped) = dropped(built.net.link_stats(*link, direction));
            cores.push(Core { link: *link, direction, room, queue, offered, dropped });
        }
        Self { begun: built.net.now(), bytes: bytes(built), sender: sender(built), cores }
    }

    /// Sets the metrics since `open`. Replaces the sender's metrics if the measurement did not
    /// start with the run.
    pub(super) fn close(self, built: &mut Built, metrics: &mut Metrics) {
        let seconds = built.net.now().saturating_since(self.begun).as_secs_f64();
        if seconds <= 0.0 {
            return;
        }
        metrics.set("throughput_kbit_s", (bytes(built) - self.bytes) as f64 * 8e-3 / seconds);
        for (index, core) in self.cores.into_iter().enumerate() {
            let queue = built.net.queue_integral(core.link, core.direction);
            let (packets, bytes) = queue.mean_since(&core.queue);
            let share = match core.room {
                Queue::Packets(room) => packets / room as f64,
                Queue::Bytes(room) => bytes / room as f64,
            };
            let mut set =
                |name, value| metrics.set(&format!("{name}_path{}_percent", index + 1), value);
            set("queue", share * 100.0);
            let (offered, dropped) = dropped(built.net.link_stats(core.link, core.direction));
            if offered > core.offered {
                let share = (dropped - core.dropped) as f64 / (offered - core.offered) as f64;
                set("dropped", share * 100.0);
            }
        }
        if self.begun > Instant::ZERO
            && let (Some(now), Some(then)) = (sender(built), &self.sender)
        {
            let timeouts = now.counters.timeouts.saturating_sub(then.counters.timeouts);
            metrics.set("timeouts", timeouts as f64);
            retransmission_queue(&now.retransmission_queue, &then.retransmission_queue, metrics);
            blocking(&now, then, seconds, metrics);
        }
    }
}

/// Means of the retransmission queue between two times.
fn retransmission_queue(
    now: &RetransmissionQueue,
    then: &RetransmissionQueue,
    metrics: &mut Metrics,
) {
    let part = |now: f64, then: f64, span: f64| (span > 0.0).then(|| (now - then) / span);
    let (time, before) = (now.time.as_secs_f64(), then.time.as_secs_f64());
    let (held, held_before) = (now.mean_bytes * time, then.mean_bytes * before);
    let acked = now.acknowledged_share * held;
    let acked_before = then.acknowledged_share * held_before;
    let weighted = |share: Option<f64>, time: f64| share.unwrap_or(0.0) * time;
    let (recovery, recovery_before) =
        (now.recovery_time.as_secs_f64(), then.recovery_time.as_secs_f64());
    let values = [
        ("retransmission_queue_mean_kb", part(held, held_before, (time - before) * 1e3)),
        (
            "retransmission_queue_acknowledged_percent",
            part(acked, acked_before, (held - held_before) / 100.0),
        ),
        (
            "retransmission_queue_utilization_percent",
            part(
                weighted(now.utilization, time),
                weighted(then.utilization, before),
                (time - before) / 100.0,
            ),
        ),
        (
            "recovery_utilization_percent",
            part(
                weighted(now.recovery_utilization, recovery),
                weighted(then.recovery_utilization, recovery_before),
                (recovery - recovery_before) / 100.0,
            ),
        ),
    ];
    for (name, value) in values {
        metrics.set(name, value.unwrap_or(f64::NAN));
    }
}

/// How long full buffers left cwnd unused during these seconds.
fn blocking(now: &Statistics, then: &Statistics, seconds: f64, metrics: &mut Metrics) {
    let since = |now: Duration, then: Duration| now.saturating_sub(then).as_secs_f64();
    let (queue, queue_then) = (&now.retransmission_queue, &then.retransmission_queue);
    metrics.set("recovery_s", since(queue.recovery_time, queue_then.recovery_time));
    let (now, then) = (&now.blocking, &then.blocking);
    for (name, now, then) in [
        ("send_buffer", &now.send_buffer, &then.send_buffer),
        ("receive_window", &now.receive_window, &then.receive_window),
    ] {
        metrics.set(&format!("{name}_blocked_s"), since(now.time, then.time));
        metrics.set(&format!("{name}_blocks"), now.times.saturating_sub(then.times) as f64);
    }
    let in_recovery = since(now.send_buffer.in_recovery, then.send_buffer.in_recovery);
    metrics.set("recovery_blocked_percent", 100.0 * in_recovery / seconds);
    let with_timeouts = since(now.receive_window.with_timeouts, then.receive_window.with_timeouts);
    metrics.set("receive_window_blocked_timeouts_s", with_timeouts);
}

/// Packets offered to a link and how many of them it lost.
fn dropped(stats: &LinkStats) -> (u64, u64) {
    (stats.offered, stats.lost_model + stats.lost_down + stats.queue_drops + stats.early_drops)
}

/// User bytes that the first transfer delivered.
fn bytes(built: &Built) -> u64 {
    built.measured.first().map_or(0, |measured| measured.delivered(&built.net))
}

/// The statistics of the first transfer's sender, now or at the end of its association.
fn sender(built: &Built) -> Option<Statistics> {
    let id = *built.transfers.first()?;
    let ended = built.net.transfer(id).sender.clone();
    ended.or_else(|| Some(built.net.sender(id)?.statistics()))
}
