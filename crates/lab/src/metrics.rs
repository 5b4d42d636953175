//! What is measured in every run.

use std::fmt;

/// A metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Metric {
    /// Its name in files and JSON, with its unit.
    pub name: &'static str,
    /// The unit, for people.
    pub unit: &'static str,
    /// What it is.
    pub what: &'static str,
}

const fn metric(name: &'static str, unit: &'static str, what: &'static str) -> Metric {
    Metric { name, unit, what }
}

/// All metrics. Numbers of `path1` and `path2` are those of the first and second path, counted at
/// the sender.
pub const METRICS: &[Metric] = &[
    metric("transfer_time_s", "s", "from the start of the association to the last new chunk"),
    metric(
        "transfer_time_from_first_data_s",
        "s",
        "from the first data to the last new chunk: without the handshake",
    ),
    metric("goodput_kbit_s", "kbit/s", "user data received in the transfer time"),
    metric("throughput_kbit_s", "kbit/s", "user data received while it was measured"),
    metric("longest_gap_s", "s", "longest time in which the application received nothing"),
    metric("longest_gap_end_s", "s", "when that time ended"),
    metric("delay_mean_s", "s", "mean time of a message from being sent to being delivered"),
    metric("delay_p95_s", "s", "time within which 95 % of the messages were delivered"),
    metric("delay_max_s", "s", "time of the slowest message"),
    metric("complete", "share", "1 when everything arrived, 0 otherwise"),
    metric("ended_s", "s", "when the run ended: done, aborted or out of time"),
    metric("fast_retransmits", "chunks", "chunks sent again after missing reports"),
    metric("timeout_retransmits", "chunks", "chunks sent again after a timeout"),
    metric("timeouts", "", "expiries of the retransmission timer"),
    metric("failovers", "", "times that the path of new data changed because one had failed"),
    metric(
        "failure_detected_s",
        "s",
        "when a path, or the one that was cut, was found to have failed",
    ),
    metric(
        "goodput_in_failure_kb_s",
        "kB/s",
        "user data received from the first cut of a path to its repair or the detection of the failure",
    ),
    metric("loss_path1_percent", "%", "share of SCTP packets that path 1 lost, both ways"),
    metric("loss_path2_percent", "%", "share of SCTP packets that path 2 lost, both ways"),
    metric("queue_path1_percent", "%", "mean queue of the core of path 1, of its room, forward"),
    metric("queue_path2_percent", "%", "mean queue of the core of path 2, of its room, forward"),
    metric(
        "dropped_path1_percent",
        "%",
        "share of all packets that the core of path 1 lost, forward",
    ),
    metric(
        "dropped_path2_percent",
        "%",
        "share of all packets that the core of path 2 lost, forward",
    ),
    metric("rto_path1_mean_s", "s", "mean over time of the retransmission timeout of path 1"),
    metric("rto_path2_mean_s", "s", "mean over time of the retransmission timeout of path 2"),
    metric("packets_path1", "packets", "packets sent over path 1"),
    metric("packets_path2", "packets", "packets sent over path 2"),
    metric("data_packets_path1", "packets", "packets with data sent over path 1"),
    metric("data_packets_path2", "packets", "packets with data sent over path 2"),
    metric("retransmissions_path1", "chunks", "chunks sent again over path 1"),
    metric("retransmissions_path2", "chunks", "chunks sent again over path 2"),
    metric("timeouts_path1", "", "expiries of the retransmission timer of path 1"),
    metric("timeouts_path2", "", "expiries of the retransmission timer of path 2"),
    metric("timeouts_in_a_row_2_path1", "", "times that a second timeout in a row came on path 1"),
    metric("timeouts_in_a_row_3_path1", "", "times that a third timeout in a row came on path 1"),
    metric("timeouts_in_a_row_4_path1", "", "times that a fourth timeout in a row came on path 1"),
    metric("timeouts_in_a_row_5_path1", "", "times that a fifth timeout in a row came on path 1"),
    metric("timeouts_in_a_row_2_path2", "", "times that a second timeout in a row came on path 2"),
    metric("timeouts_in_a_row_3_path2", "", "times that a third timeout in a row came on path 2"),
    metric("timeouts_in_a_row_4_path2", "", "times that a fourth timeout in a row came on path 2"),
    metric("timeouts_in_a_row_5_path2", "", "times that a fifth timeout in a row came on path 2"),
    metric("rtxq_mean_kb", "kB", "mean of the retransmission queue while there was data in it"),
    metric("rtxq_peak_kb", "kB", "most user data in the retransmission queue"),
    metric("rtxq_arrived_percent", "%", "share of the retransmission queue that had arrived"),
    metric(
        "rtxq_util_percent",
        "%",
        "RtxQ_Util: necessary share of the retransmission queue, averaged over time",
    ),
    metric(
        "rtxq_util_recovery_percent",
        "%",
        "RtxQ_Util_L: the same in loss recovery, as gaps in acknowledgements tell it; not for CMT",
    ),
    metric("recovery_s", "s", "time in loss recovery, as gaps in acknowledgements tell it"),
    metric("send_buffer_blocked_s", "s", "time in which a full send buffer left cwnd unused"),
    metric("send_buffer_blocks", "", "times that it did"),
    metric(
        "recovery_blocked_percent",
        "%",
        "p/q: share of the transfer time in loss recovery with the send buffer blocking",
    ),
    metric("receive_window_blocked_s", "s", "time in which the peer's window left cwnd unused"),
    metric("receive_window_blocks", "", "times that it did"),
    metric(
        "receive_window_blocked_timeouts_s",
        "s",
        "the part of that time around timeouts: of the times that one fell into or came before",
    ),
    metric("heartbeats", "", "heartbeats sent on all paths"),
    metric(
        "tcp_goodput_kbit_s",
        "kbit/s",
        "user data of TCP cross-traffic until the end of the run, mean of its connections",
    ),
];

/// Index of the metric of a name.
pub fn find(name: &str) -> Option<usize> {
    METRICS.iter().position(|metric| metric.name == name)
}

/// What one run measured; what it could not measure is missing.
#[derive(Clone)]
pub struct Metrics([f64; METRICS.len()]);

impl Default for Metrics {
    fn default() -> Self {
        Self([f64::NAN; METRICS.len()])
    }
}

impl PartialEq for Metrics {
    fn eq(&self, other: &Self) -> bool {
        (0..METRICS.len()).all(|index| self.at(index) == other.at(index))
    }
}

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let known = METRICS.iter().zip(self.0).filter(|(_, value)| value.is_finite());
        f.debug_map().entries(known.map(|(metric, value)| (metric.name, value))).finish()
    }
}

impl Metrics {
    /// Sets a metric by its name; a name that is none is ignored.
    #[must_use]
    pub fn with(mut self, name: &str, value: f64) -> Self {
        self.set(name, value);
        self
    }

    /// Sets a metric by its name; a name that is none is ignored.
    pub fn set(&mut self, name: &str, value: f64) {
        if let Some(field) = find(name).and_then(|index| self.0.get_mut(index)) {
            *field = value;
        }
    }

    /// A metric by its index; `None` when it is missing.
    pub fn at(&self, index: usize) -> Option<f64> {
        self.0.get(index).copied().filter(|value| value.is_finite())
    }

    /// A metric by its name; `None` when it is missing.
    pub fn get(&self, name: &str) -> Option<f64> {
        self.at(find(name)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_values_may_be_missing() {
        for (index, metric) in METRICS.iter().enumerate() {
            assert_eq!(find(metric.name), Some(index));
        }
        let metrics = Metrics::default().with("timeouts", 3.0).with("nonsense", 1.0);
        assert_eq!(metrics.get("timeouts"), Some(3.0));
        assert_eq!(metrics.get("longest_gap_s"), None);
    }
}
