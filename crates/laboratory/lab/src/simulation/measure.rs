//! Computes the metrics of a network that has run.

use anabranch_proto::{PathStatistics, Statistics};
use anabranch_sim::{Direction, Instant, LinkId, TcpFlowId, TcpStats, Traffic, TransferId};

use super::build::{Built, Measured};
use super::flows::now;
use crate::metrics::{Metrics, engine};
use crate::setup::{Over, Setup};

/// Gauges of the sender, read repeatedly during a run.
#[derive(Clone, Debug, Default)]
pub(super) struct Gauges {
    /// For each path, the sum of its RTO readings in seconds, and their number.
    rto: Vec<(f64, u64)>,
}

impl Gauges {
    pub(super) fn read(&mut self, built: &Built) {
        let Some(id) = built.transfers.first() else { return };
        let Some(association) = built.net.sender(*id) else { return };
        let paths = association.statistics().paths;
        self.rto.resize(built.pairs.len(), (0.0, 0));
        for path in &paths {
            let slot = built
                .path_between(path.local, path.remote)
                .and_then(|number| self.rto.get_mut(number));
            let Some((sum, count)) = slot else { continue };
            *sum += path.rto.as_secs_f64();
            *count += 1;
        }
    }
}

/// Times, delays and counters of the first transfer; `complete` is set if all transfers are complete.
pub(super) fn metrics(built: &Built, gauges: Option<&Gauges>) -> Metrics {
    let mut metrics = Metrics::default();
    let all = built.observed();
    let complete = all.iter().all(|seen| seen.completed.is_some());
    metrics.set("complete", f64::from(u8::from(complete)));
    if let Some(first) = all.first() {
        first.measure(now(built), &mut metrics);
    }
    match built.measured.first() {
        Some(Measured::Association(id)) => of_association(built, *id, &mut metrics),
        Some(Measured::Connection(id)) => {
            of_connections(built, std::slice::from_ref(id), &mut metrics);
        }
        Some(Measured::Repeated(ids)) => of_connections(built, ids, &mut metrics),
        None => {}
    }
    if let Some(goodput) = tcp_goodput(built) {
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

/// The totals of all TCP connections.
fn of_connections(built: &Built, ids: &[TcpFlowId], metrics: &mut Metrics) {
    let mut set = |name: &str, count: fn(&TcpStats) -> u64| {
        let sum: u64 = ids.iter().map(|id| count(&built.net.tcp_flow(*id).stats)).sum();
        metrics.set(name, sum as f64);
    };
    set("timeouts", |stats| stats.timeouts);
    set("fast_recoveries", |stats| stats.recoveries);
    set("retransmitted_chunks_path1", |stats| stats.retransmissions);
    set("handshake_retransmissions", |stats| stats.handshake_retransmissions);
    set("packets_sent_path1", |stats| stats.segments_sent);
    set("early_retransmitted_chunks", |stats| stats.early_retransmits);
    set("tail_probes", |stats| stats.tail_probes);
    set("spurious_retransmissions", |stats| stats.needless_retransmissions);
    set("undone_recoveries", |stats| stats.recoveries_undone);
}

/// The simulator's measurements of an association.
fn of_association(built: &Built, id: TransferId, metrics: &mut Metrics) {
    let net = &built.net;
    let result = net.transfer(id);
    let seconds = |at: Instant| at.saturating_since(result.started_at).as_secs_f64();
    metrics.set("failovers", result.failures as f64);
    if let Some(failure) = result.path_failures.first() {
        metrics.set("failure_detected_s", seconds(failure.at));
    }
    let statistics =
        result.sender.clone().or_else(|| net.sender(id).map(|sender| sender.statistics()));
    if let Some(statistics) = statistics {
        of_sender(&statistics, &|path| built.path_between(path.local, path.remote), metrics);
    }
}

/// The metrics of a sending association. `path_of` returns the number of a path, from 0.
pub fn of_sender(
    statistics: &Statistics,
    path_of: &dyn Fn(&PathStatistics) -> Option<usize>,
    metrics: &mut Metrics,
) {
    engine::set(statistics, |path| Some(path_of(path)? + 1), metrics);
    if let Some(time) = metrics.get("transfer_time_s").filter(|time| *time > 0.0) {
        let blocked = statistics.blocking.send_buffer.in_recovery.as_secs_f64();
        metrics.set("recovery_blocked_percent", 100.0 * blocked / time);
    }
}

/// Mean goodput, in kilobits per second since their start, of the TCP connections that are not measured themselves.
fn tcp_goodput(built: &Built) -> Option<f64> {
    let net = &built.net;
    let measured: Vec<TcpFlowId> = built.connections().collect();
    let cross = net.tcp_flows().filter(|(id, _)| !measured.contains(id));
    let rates = cross.map(|(_, flow)| {
        let seconds = net.now().saturating_since(flow.started_at).as_secs_f64();
        if seconds > 0.0 { flow.delivered as f64 * 8e-3 / seconds } else { 0.0 }
    });
    let (count, sum) = rates.fold((0_u64, 0.0), |(count, sum), rate| (count + 1, sum + rate));
    (count > 0).then(|| sum / count as f64)
}

/// Losses and reordering in the cores of the paths, after nothing is in flight any more.
pub(super) fn losses(setup: &Setup, built: &Built, metrics: &mut Metrics) {
    for (index, path) in setup.network.paths.iter().enumerate() {
        let Some(core) = built.links.get(path.core).copied() else { continue };
        let mut set = |name: &str, value: f64| metrics.set(&format!("{name}{}", index + 1), value);
        let ways =
            [Direction::Forward, Direction::Backward].map(|way| built.net.link_stats(core, way));
        let reversed = path.links.iter().any(|(link, back)| *link == path.core && *back);
        let forward = ways[usize::from(reversed)];
        let lost =
            forward.lost_model + forward.lost_down + forward.queue_drops + forward.early_drops;
        set("lost_path", (lost + forward.too_big) as f64);
        set("late_path", forward.reordered as f64);
        if let Some(loss) = observed_loss(setup, built, core) {
            metrics.set(&format!("loss_path{}_percent", index + 1), loss);
        }
    }
}

/// Percent of the transfers' packets that a link lost, in both directions.
fn observed_loss(setup: &Setup, built: &Built, core: LinkId) -> Option<f64> {
    let over_tcp = setup.transfers.first().is_some_and(|first| first.over == Over::Tcp);
    let traffic = if over_tcp { Traffic::Tcp } else { Traffic::Sctp };
    let (mut offered, mut delivered) = (0, 0);
    for direction in [Direction::Forward, Direction::Backward] {
        let counters = built.net.link_traffic(core, direction, traffic);
        offered += counters.offered;
        delivered += counters.delivered;
    }
    (offered > 0).then(|| 100.0 * offered.saturating_sub(delivered) as f64 / offered as f64)
}
