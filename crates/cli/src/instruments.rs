//! What senders measured of their buffers, as text and as JSON.

use anabranch::Statistics;
use serde::{Deserialize, Serialize};

use crate::output::{count, grouped};
use crate::perf::time;

/// The sending side of one association, or of several together.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
pub(crate) struct Instruments {
    pub(crate) retransmission_queue: QueueReport,
    pub(crate) send_buffer: BlockedReport,
    pub(crate) receive_window: BlockedReport,
}

/// The retransmission queue over the time with something in it.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
pub(crate) struct QueueReport {
    pub(crate) mean_bytes: f64,
    pub(crate) peak_bytes: usize,
    pub(crate) seconds: f64,
    /// Of it in loss recovery.
    pub(crate) recovery_seconds: f64,
    /// `RtxQ_Util`: share of the queue that was necessary, on average over time; and `RtxQ_Util_L`:
    /// over the time in loss recovery.
    pub(crate) utilization: Option<f64>,
    pub(crate) recovery_utilization: Option<f64>,
}

/// A full buffer that held new data back which the congestion window had room for.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
pub(crate) struct BlockedReport {
    pub(crate) times: u64,
    pub(crate) seconds: f64,
    /// Of it in loss recovery, and of the times that had to do with a timeout.
    pub(crate) recovery_seconds: f64,
    pub(crate) timeout_seconds: f64,
}

impl Instruments {
    pub(crate) fn of(statistics: &Statistics) -> Self {
        let queue = &statistics.retransmission_queue;
        let blocked = |blocked: &anabranch::Blocked| BlockedReport {
            times: blocked.times,
            seconds: blocked.time.as_secs_f64(),
            recovery_seconds: blocked.in_recovery.as_secs_f64(),
            timeout_seconds: blocked.with_timeouts.as_secs_f64(),
        };
        Self {
            retransmission_queue: QueueReport {
                mean_bytes: queue.mean_bytes,
                peak_bytes: queue.peak_bytes,
                seconds: queue.time.as_secs_f64(),
                recovery_seconds: queue.recovery_time.as_secs_f64(),
                utilization: queue.utilization,
                recovery_utilization: queue.recovery_utilization,
            },
            send_buffer: blocked(&statistics.blocking.send_buffer),
            receive_window: blocked(&statistics.blocking.receive_window),
        }
    }

    /// Adds another association. The queues lie side by side, so that their sizes add up, as times
    /// and numbers do; shares are weighted by time.
    pub(crate) fn add(&mut self, other: &Self) {
        let (queue, more) = (&mut self.retransmission_queue, &other.retransmission_queue);
        let mean = |a: (Option<f64>, f64), b: (Option<f64>, f64)| {
            let parts = [a, b].into_iter().filter_map(|(value, weight)| Some((value?, weight)));
            let (sum, weight) = parts.fold((0.0, 0.0), |(sum, all), (value, weight)| {
                (sum + value * weight, all + weight)
            });
            (weight > 0.0).then(|| sum / weight)
        };
        queue.utilization =
            mean((queue.utilization, queue.seconds), (more.utilization, more.seconds));
        queue.recovery_utilization = mean(
            (queue.recovery_utilization, queue.recovery_seconds),
            (more.recovery_utilization, more.recovery_seconds),
        );
        queue.mean_bytes += more.mean_bytes;
        queue.peak_bytes += more.peak_bytes;
        queue.seconds += more.seconds;
        queue.recovery_seconds += more.recovery_seconds;
        self.send_buffer.add(&other.send_buffer);
        self.receive_window.add(&other.receive_window);
    }

    /// A few lines; none of a side that sent nothing.
    pub(crate) fn text(&self) -> String {
        let queue = &self.retransmission_queue;
        let Some(utilization) = queue.utilization else { return String::new() };
        let mut text = format!(
            "  retransmission queue: mean {}, {:.1} % not yet acknowledged\n",
            count(queue.mean_bytes as u64, "byte"),
            utilization * 100.0,
        );
        if let Some(utilization) = queue.recovery_utilization {
            text.push_str(&format!(
                "    in {} of loss recovery: {:.1} % not yet acknowledged\n",
                time(queue.recovery_seconds),
                utilization * 100.0,
            ));
        }
        for (what, blocked) in
            [("a full send buffer", &self.send_buffer), ("the peer's window", &self.receive_window)]
        {
            if blocked.times > 0 {
                text.push_str(&format!("  held up by {what}: {}\n", blocked.text()));
            }
        }
        text
    }
}

impl BlockedReport {
    fn add(&mut self, other: &Self) {
        self.times += other.times;
        self.seconds += other.seconds;
        self.recovery_seconds += other.recovery_seconds;
        self.timeout_seconds += other.timeout_seconds;
    }

    fn text(&self) -> String {
        let times = match self.times {
            1 => "once".to_owned(),
            times => format!("{} times", grouped(times)),
        };
        let mut text = format!("{times}, {}", time(self.seconds));
        if self.recovery_seconds > 0.0 {
            text.push_str(&format!(", {} in loss recovery", time(self.recovery_seconds)));
        }
        if self.timeout_seconds > 0.0 {
            text.push_str(&format!(", {} around timeouts", time(self.timeout_seconds)));
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sender(seconds: f64, utilization: Option<f64>) -> Instruments {
        let retransmission_queue =
            QueueReport { mean_bytes: 1000.0, seconds, utilization, ..QueueReport::default() };
        let send_buffer =
            BlockedReport { times: 2, seconds: 0.5, timeout_seconds: 0.25, ..Default::default() };
        Instruments { retransmission_queue, send_buffer, ..Instruments::default() }
    }

    #[test]
    fn utilizations_are_weighted_by_time() {
        let mut sum = Instruments::default();
        for (seconds, utilization) in [(1.0, Some(0.5)), (0.0, None), (3.0, Some(1.0))] {
            sum.add(&sender(seconds, utilization));
        }
        let queue = &sum.retransmission_queue;
        assert_eq!((queue.utilization, queue.recovery_utilization), (Some(0.875), None));
        assert_eq!((queue.mean_bytes, queue.seconds), (3000.0, 4.0));
        assert_eq!((sum.send_buffer.times, sum.send_buffer.seconds), (6, 1.5));
    }

    #[test]
    fn who_sent_nothing_tells_nothing() {
        assert_eq!(sender(0.0, None).text(), "");
        let text = sender(1.0, Some(0.5)).text();
        assert!(text.contains("mean 1,000 bytes, 50.0 % not yet acknowledged\n"), "{text}");
        let blocked = "a full send buffer: 2 times, 500.00 ms, 250.00 ms around timeouts\n";
        assert!(text.ends_with(blocked) && !text.contains("window"), "{text}");
        assert!(text.lines().all(|line| line.len() <= 80), "{text}");
    }
}
