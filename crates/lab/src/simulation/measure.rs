//! From a network that has run to metrics.

use anabranch_proto::Statistics;
use anabranch_sim::{Direction, Instant, Network, Outcome, Traffic};

use super::build::Built;
use crate::metrics::Metrics;
use crate::setup::Setup;

/// Gauges of the sender, read again and again during a run.
#[derive(Clone, Debug, Default)]
pub(super) struct Gauges {
    /// Sum of the readings of each path's RTO, in seconds, and how many there were.
    rto: Vec<(f64, u64)>,
}

impl Gauges {
    pub(super) fn read(&mut self, built: &Built) {
        let Some(id) = built.transfers.first() else { return };
        let Some(association) = built.net.sender(*id) else { return };
        let paths = association.statistics().paths;
        self.rto.resize(built.pairs.len(), (0.0, 0));
        for path in &paths {
            let slot = built.path_of(path.remote).and_then(|number| self.rto.get_mut(number));
            let Some((sum, count)) = slot else { continue };
            *sum += path.rto.as_secs_f64();
            *count += 1;
        }
    }
}

/// Times, delays and counters of the first transfer; it is complete if all are.
#[expect(clippy::too_many_lines, reason = "one line for each metric")]
pub(super) fn metrics(built: &Built, gauges: Option<&Gauges>) -> Metrics {
    let mut metrics = Metrics::default();
    let net = &built.net;
    let Some(id) = built.transfers.first() else { return metrics };
    let result = net.transfer(*id);
    let seconds = |at: Instant| at.saturating_since(result.started_at).as_secs_f64();
    let complete = built.transfers.iter().all(|id| net.transfer(*id).outcome == Outcome::Complete);
    metrics.set("complete", f64::from(u8::from(complete)));
    metrics.set("ended_s", seconds(net.now()));
    if let Some(time) = result.transfer_time().map(|time| time.as_secs_f64()) {
        metrics.set("transfer_time_s", time);
        if time > 0.0 {
            metrics.set("goodput_kbit_s", result.bytes as f64 * 8e-3 / time);
        }
        if let (Some(first), Some(last)) = (result.first_data_at, result.completed_at) {
            metrics
                .set("transfer_time_from_first_data_s", last.saturating_since(first).as_secs_f64());
        }
    }
    metrics.set("longest_gap_s", result.longest_gap.as_secs_f64());
    metrics.set("longest_gap_end_s", seconds(result.longest_gap_at + result.longest_gap));
    let delays = [
        ("delay_mean_s", result.delays.mean()),
        ("delay_p95_s", result.delays.quantile(950)),
        ("delay_max_s", result.delays.max()),
    ];
    for (name, delay) in delays {
        if let Some(delay) = delay {
            metrics.set(name, delay.as_secs_f64());
        }
    }
    metrics.set("failovers", result.failures as f64);
    if let Some(failure) = result.path_failures.first() {
        metrics.set("failure_detected_s", seconds(failure.at));
    }
    let statistics =
        result.sender.clone().or_else(|| net.sender(*id).map(|sender| sender.statistics()));
    if let Some(statistics) = statistics {
        let counters = &statistics.counters;
        metrics.set("fast_retransmits", counters.fast_retransmitted_chunks as f64);
        metrics.set("timeout_retransmits", counters.timeout_retransmitted_chunks as f64);
        metrics.set("timeouts", counters.t3_timeouts as f64);
        let queue = &statistics.retransmission_queue;
        metrics.set("rtxq_mean_kb", queue.mean_bytes * 1e-3);
        metrics.set("rtxq_peak_kb", queue.peak_bytes as f64 * 1e-3);
        metrics.set("rtxq_arrived_percent", queue.acknowledged_share * 100.0);
        blocking(&statistics, &mut metrics);
        let heartbeats: u64 = statistics.paths.iter().map(|path| path.heartbeats_sent).sum();
        metrics.set("heartbeats", heartbeats as f64);
        for path in &statistics.paths {
            let Some(index) = built.path_of(path.remote) else { continue };
            let mut set =
                |name: &str, value: f64| metrics.set(&format!("{name}_path{}", index + 1), value);
            set("packets", path.packets_sent as f64);
            set("data_packets", path.data_packets_sent as f64);
            set("retransmissions", path.retransmitted_chunks as f64);
            set("timeouts", path.t3_timeouts as f64);
            for (length, times) in (2..).zip(path.timeout_runs) {
                set(&format!("timeouts_in_a_row_{length}"), times.into());
            }
        }
    }
    if let Some(goodput) = tcp_goodput(net) {
        metrics.set("tcp_goodput_kbit_s", goodput);
    }
    if let Some(gauges) = gauges {
        for (path, (sum, count)) in gauges.rto.iter().enumerate() {
            if *count > 0 {
                metrics.set(&format!("rto_path{}_mean_s", path + 1), sum / *count as f64);
            }
        }
    }
    metrics
}

/// What the retransmission queue was good for, and how long full buffers left cwnd unused.
fn blocking(statistics: &Statistics, metrics: &mut Metrics) {
    let queue = &statistics.retransmission_queue;
    let shares = [
        ("rtxq_util_percent", queue.utilization),
        ("rtxq_util_recovery_percent", queue.recovery_utilization),
    ];
    for (name, share) in shares {
        if let Some(share) = share {
            metrics.set(name, share * 100.0);
        }
    }
    metrics.set("recovery_s", queue.recovery_time.as_secs_f64());
    let (send, receive) = (&statistics.blocking.send_buffer, &statistics.blocking.receive_window);
    metrics.set("send_buffer_blocked_s", send.time.as_secs_f64());
    metrics.set("send_buffer_blocks", send.times as f64);
    if let Some(time) = metrics.get("transfer_time_s").filter(|time| *time > 0.0) {
        metrics.set("recovery_blocked_percent", 100.0 * send.in_recovery.as_secs_f64() / time);
    }
    metrics.set("receive_window_blocked_s", receive.time.as_secs_f64());
    metrics.set("receive_window_blocks", receive.times as f64);
    metrics.set("receive_window_blocked_timeouts_s", receive.with_timeouts.as_secs_f64());
}

/// Kilobits a second that TCP connections delivered, each since its start, on average.
fn tcp_goodput(net: &Network) -> Option<f64> {
    let rates = net.tcp_flows().map(|flow| {
        let seconds = net.now().saturating_since(flow.started_at).as_secs_f64();
        if seconds > 0.0 { flow.delivered as f64 * 8e-3 / seconds } else { 0.0 }
    });
    let (count, sum) = rates.fold((0_u64, 0.0), |(count, sum), rate| (count + 1, sum + rate));
    (count > 0).then(|| sum / count as f64)
}

/// What the cores of the paths lost, once nothing is on its way any more.
pub(super) fn losses(setup: &Setup, built: &Built, metrics: &mut Metrics) {
    for index in 0..setup.network.paths.len() {
        if let Some(loss) = observed_loss(setup, built, index) {
            metrics.set(&format!("loss_path{}_percent", index + 1), loss);
        }
    }
}

/// Percent of the SCTP packets that the core of a path lost, both ways.
fn observed_loss(setup: &Setup, built: &Built, path: usize) -> Option<f64> {
    let path = setup.network.paths.get(path)?;
    let core = *built.links.get(path.core)?;
    let (mut offered, mut delivered) = (0, 0);
    for direction in [Direction::Forward, Direction::Backward] {
        let counters = built.net.link_traffic(core, direction, Traffic::Sctp);
        offered += counters.offered;
        delivered += counters.delivered;
    }
    (offered > 0).then(|| 100.0 * offered.saturating_sub(delivered) as f64 / offered as f64)
}
