//! What each of several transfers got, and how evenly.

use anabranch_sim::{Instant, Network, TransferId};

use super::build::Built;
use crate::metrics::{MAX_FLOWS, Metrics};

/// The bytes of all transfers when measuring begins.
pub(super) struct Flows {
    begun: Instant,
    bytes: Vec<u64>,
}

impl Flows {
    /// Measuring begins now.
    pub(super) fn open(built: &Built) -> Self {
        let bytes = built.transfers.iter().map(|id| built.net.transfer(*id).bytes).collect();
        Self { begun: built.net.now(), bytes }
    }

    /// What was measured until now; nothing when there is one transfer, which the other metrics tell.
    pub(super) fn close(&self, built: &Built, metrics: &mut Metrics) {
        if built.transfers.len() < 2 {
            return;
        }
        let mut rates = Vec::new();
        for (index, (id, before)) in built.transfers.iter().zip(&self.bytes).enumerate() {
            let rate = self.throughput(&built.net, *id, *before);
            rates.push(rate);
            if index < MAX_FLOWS {
                one(&built.net, *id, index + 1, rate, metrics);
            }
        }
        if let Some(index) = jain(&rates) {
            metrics.set("jain_index", index);
        }
    }

    /// In kbit/s.
    fn throughput(&self, net: &Network, id: TransferId, before: u64) -> f64 {
        let result = net.transfer(id);
        let end = result.completed_at.unwrap_or(net.now());
        let seconds = end.saturating_since(self.begun.max(result.started_at)).as_secs_f64();
        let bytes = result.bytes.saturating_sub(before) as f64;
        if seconds > 0.0 { bytes * 8e-3 / seconds } else { 0.0 }
    }
}

fn one(net: &Network, id: TransferId, number: usize, rate: f64, metrics: &mut Metrics) {
    let result = net.transfer(id);
    let seconds = |time: Option<std::time::Duration>| time.map(|time| time.as_secs_f64());
    let values = [
        ("throughput", "_kbit_s", Some(rate)),
        ("transfer_time", "_s", seconds(result.transfer_time())),
        ("longest_gap", "_s", seconds(Some(result.longest_gap))),
        ("delay_mean", "_s", seconds(result.delays.mean())),
        ("delay_p95", "_s", seconds(result.delays.quantile(950))),
    ];
    for (name, unit, value) in values {
        metrics.set(&format!("{name}_flow{number}{unit}"), value.unwrap_or(f64::NAN));
    }
}

/// (Jain, Chiu, Hawe 1984) The square of the sum over n times the sum of squares; `None` when nobody
/// got anything.
fn jain(rates: &[f64]) -> Option<f64> {
    let sum: f64 = rates.iter().sum();
    let squares: f64 = rates.iter().map(|rate| rate * rate).sum();
    (squares > 0.0).then(|| sum * sum / (rates.len() as f64 * squares))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_index_of_jain_is_one_for_equals() {
        assert_eq!(jain(&[3.0, 3.0, 3.0]), Some(1.0));
        assert_eq!(jain(&[6.0, 0.0]), Some(0.5));
        assert_eq!(jain(&[0.0, 0.0]), None);
        // (1 + 2 + 3) squared is 36, over 3 times 14.
        assert!((jain(&[1.0, 2.0, 3.0]).unwrap() - 36.0 / 42.0).abs() < 1e-12);
    }
}
