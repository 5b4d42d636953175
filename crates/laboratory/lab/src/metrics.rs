//! The measurements of every run.

pub mod engine;

use std::collections::HashMap;
use std::fmt;
use std::sync::LazyLock;

/// A metric.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Metric {
    /// Its name in files and JSON, with its unit.
    pub name: String,
    /// The unit, for people.
    pub unit: &'static str,
    /// Its description.
    pub what: String,
    /// Whether it counts events. A count is never negative, and 0 if there are no events.
    pub is_count: bool,
}

/// Maximum number of paths with metrics of their own.
pub const MAX_PATHS: usize = 16;

/// Maximum number of transfers with metrics of their own.
pub const MAX_FLOWS: usize = 16;

/// Name, unit, description, and whether it counts.
type Row = (&'static str, &'static str, &'static str, bool);

/// Metrics of the whole transfer.
const OF_ALL: &[Row] = &[
    ("transfer_time_s", "s", "from the start of the association to the last new chunk", false),
    (
        "transfer_time_from_first_data_s",
        "s",
        "from the first data to the last new chunk: without the handshake",
        false,
    ),
    ("goodput_kbit_s", "kbit/s", "user data received in the transfer time", false),
    ("throughput_kbit_s", "kbit/s", "user data received while it was measured", false),
    ("longest_gap_s", "s", "longest time in which the application received nothing", false),
    ("longest_gap_end_s", "s", "when that time ended", false),
    ("delay_mean_s", "s", "mean time of a message from being sent to being delivered", false),
    ("delay_median_s", "s", "time within which half of the messages were delivered", false),
    ("delay_p95_s", "s", "time within which 95 % of the messages were delivered", false),
    ("delay_p99_s", "s", "time within which 99 % of the messages were delivered", false),
    ("delay_max_s", "s", "time of the slowest message", false),
    ("delay_p5_s", "s", "time within which 5 % of the messages were delivered", false),
    ("delay_p10_s", "s", "time within which 10 % of the messages were delivered", false),
    ("delay_p25_s", "s", "time within which 25 % of the messages were delivered", false),
    ("delay_p75_s", "s", "time within which 75 % of the messages were delivered", false),
    ("delay_p90_s", "s", "time within which 90 % of the messages were delivered", false),
    ("in_time_percent", "%", "messages that were delivered within `measure.in_time`", false),
    ("late_percent", "%", "messages that were delivered later than that", false),
    ("given_up_percent", "%", "messages that the sender gave up", false),
    (
        "delay_late_mean_s",
        "s",
        "mean time of the messages that took more than one and a half times the least: recovery",
        false,
    ),
    ("delay_late_percent", "%", "share of such messages", false),
    ("delay_late_p5_s", "s", "time within which 5 % of such messages were delivered", false),
    ("delay_late_p10_s", "s", "time within which 10 % of such messages were delivered", false),
    ("delay_late_p25_s", "s", "time within which 25 % of such messages were delivered", false),
    ("delay_late_p50_s", "s", "time within which 50 % of such messages were delivered", false),
    ("delay_late_p75_s", "s", "time within which 75 % of such messages were delivered", false),
    ("delay_late_p90_s", "s", "time within which 90 % of such messages were delivered", false),
    ("delay_late_p99_s", "s", "time within which 99 % of such messages were delivered", false),
    ("page_s", "s", "page rendering time: from the request for the index to the last byte", false),
    ("ppage25_s", "s", "from that request until 25 % of all objects of a page had come", false),
    ("ppage50_s", "s", "the same for 50 %", false),
    ("ppage75_s", "s", "the same for 75 %", false),
    ("ppage100_s", "s", "the same for all of them", false),
    ("pren25_s", "s", "from the request for the first object until 25 % of all had come", false),
    ("pren50_s", "s", "the same for 50 %", false),
    ("pren75_s", "s", "the same for 75 %", false),
    ("pren100_s", "s", "the same for all of them", false),
    (
        "speed_index_s",
        "s",
        "time for which the mean object was missing, in parts of its bytes",
        false,
    ),
    ("connect_s", "s", "time of the handshake before a page", false),
    ("complete", "share", "1 when everything arrived, 0 otherwise", false),
    ("ended_s", "s", "when the run ended: done, aborted or out of time", false),
    (
        "fates_compared",
        "packets",
        "packets of patterns whose fates were compared with those of the point's first run",
        true,
    ),
    ("fates_different", "packets", "of these, those that fared otherwise", true),
    ("displaced_asked", "packets", "packets that were displaced by a pattern and arrived", true),
    (
        "displaced_exact",
        "packets",
        "of these, those that the receiver's capture has exactly where they were asked to be",
        true,
    ),
    ("connections", "", "connections that brought data to the receiver's capture", true),
    (
        "connections_out_of_order",
        "",
        "of these, those with data behind later data, as the emulator's log has them",
        true,
    ),
    ("connections_told", "", "connections that had data out of sequence, by the analysis", true),
    (
        "lost_retransmissions",
        "packets",
        "retransmissions that the kernel's TCP took for lost",
        true,
    ),
    ("failovers", "", "times that the path of new data changed because one had failed", true),
    (
        "failure_detected_s",
        "s",
        "when a path, or the one that was cut, was found to have failed",
        false,
    ),
    (
        "goodput_in_failure_kb_s",
        "kB/s",
        "user data received from the first cut of a path to its repair or the detection of the failure",
        false,
    ),
    (
        "in_flight_late_s",
        "s",
        "from the first cut of a path until all that had been sent by then was delivered",
        false,
    ),
    (
        "recovery_blocked_percent",
        "%",
        "p/q: share of the transfer time in loss recovery with the send buffer blocking",
        false,
    ),
    (
        "tcp_goodput_kbit_s",
        "kbit/s",
        "user data of TCP cross-traffic until the end of the run, mean of its connections",
        false,
    ),
    (
        "throughput_all_kbit_s",
        "kbit/s",
        "user data of all transfers that arrived, if there are several: the sum of their throughputs",
        false,
    ),
    (
        "jain_index",
        "",
        "Jain's index of the throughputs of all transfers: 1 when they are equal, 1/n when one has all",
        false,
    ),
];

/// Classes of arrived data according to the log.
pub const IN_TRUTH: [&str; 4] = ["ordered", "reordered", "again", "copied"];
/// Classes that an analysis may assign.
pub const AS_TOLD: [&str; 5] = ["ordered", "reordered", "again", "copied", "unknown"];

/// How the analysis classified packets with data, compared with the truth in a log: a matrix.
const OF_AN_ANALYSIS: Row = (
    "{truth}_as_{told}",
    "packets",
    "packets with data that were {truth} and that the analysis of the capture tells as {told}",
    true,
);

/// Metrics of each path, counted at the sender. `{n}` is the number of the path, from 1.
const OF_A_PATH: &[Row] = &[
    ("loss_path{n}_percent", "%", "share of SCTP packets that path {n} lost, both ways", false),
    (
        "queue_path{n}_percent",
        "%",
        "mean queue of the core of path {n}, of its room, forward",
        false,
    ),
    (
        "dropped_path{n}_percent",
        "%",
        "share of all packets that the core of path {n} lost, forward",
        false,
    ),
    ("rto_path{n}_mean_s", "s", "mean over time of the retransmission timeout of path {n}", false),
    (
        "lost_path{n}",
        "packets",
        "packets that the core of path {n} lost, forward, whatever of",
        true,
    ),
    (
        "late_path{n}",
        "packets",
        "packets that the core of path {n} delivered behind later ones (RFC 4737), forward",
        true,
    ),
];

/// Metrics of each transfer if there are several. `{n}` is its number, from 1.
const OF_A_FLOW: &[Row] = &[
    (
        "throughput_flow{n}_kbit_s",
        "kbit/s",
        "user data of transfer {n} that arrived, from its start to its end",
        false,
    ),
    ("transfer_time_flow{n}_s", "s", "from the start of transfer {n} to its last new chunk", false),
    ("longest_gap_flow{n}_s", "s", "longest time in which transfer {n} received nothing", false),
    ("delay_mean_flow{n}_s", "s", "mean delay of a message of transfer {n}", false),
    ("delay_p95_flow{n}_s", "s", "time within which 95 % of them were delivered", false),
];

/// All metrics: first those of the whole transfer, then those of each path, of each transfer, and of an analysis.
pub static METRICS: LazyLock<Vec<Metric>> = LazyLock::new(|| {
    let of_all = OF_ALL.iter().map(|row| metric(row, 0)).chain(engine::of_all());
    let told = IN_TRUTH.iter().flat_map(|truth| AS_TOLD.iter().map(move |told| cell(truth, told)));
    let paths = (1..=MAX_PATHS).flat_map(|path| {
        OF_A_PATH.iter().map(move |row| metric(row, path)).chain(engine::of_path(path))
    });
    let flows = (1..=MAX_FLOWS).flat_map(|flow| OF_A_FLOW.iter().map(move |row| metric(row, flow)));
    of_all.chain(paths).chain(flows).chain(told).collect()
});

static INDEX: LazyLock<HashMap<&'static str, usize>> =
    LazyLock::new(|| METRICS.iter().enumerate().map(|(at, m)| (m.name.as_str(), at)).collect());

fn metric((name, unit, what, is_count): &Row, number: usize) -> Metric {
    let number = number.to_string();
    let (name, what) = (name.replace("{n}", &number), what.replace("{n}", &number));
    Metric { name, unit, what, is_count: *is_count }
}

fn cell(truth: &str, told: &str) -> Metric {
    let (name, unit, what, is_count) = OF_AN_ANALYSIS;
    let put = |text: &str| text.replace("{truth}", truth).replace("{told}", told);
    Metric { name: put(name), unit, what: put(what), is_count }
}

/// Index of the metric with a name.
pub fn find(name: &str) -> Option<usize> {
    INDEX.get(name).copied()
}

/// A scenario's names of its paths and transfers, in its order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Names {
    /// The paths.
    pub paths: Vec<String>,
    /// The transfers.
    pub flows: Vec<String>,
}

impl Names {
    /// The name of a metric with the scenario's own names of paths and transfers, such as `packets_sent_path_satellite`
    /// for `packets_sent_path3`.
    pub fn spelled(&self, metric: &str) -> String {
        let named = |what: &str, list: &[String]| {
            let (before, after) = metric.split_once(&format!("_{what}"))?;
            let digits = after.find(|c: char| !c.is_ascii_digit()).unwrap_or(after.len());
            let (number, after) = after.split_at(digits);
            let own = list.get(number.parse::<usize>().ok()?.checked_sub(1)?)?;
            Some(format!("{before}_{what}_{own}{after}"))
        };
        let spelled = named("path", &self.paths).or_else(|| named("flow", &self.flows));
        spelled.unwrap_or_else(|| metric.to_owned())
    }
}

/// Index of a metric whose name may contain the scenario's own name of a path or transfer, such as
/// `packets_sent_path_satellite` where [`find`] knows `packets_sent_path3`.
pub fn find_named(name: &str, names: &Names) -> Option<usize> {
    let named = |what: &str, list: &[String]| {
        let by_length = |(_, name): &(usize, &String)| std::cmp::Reverse(name.len());
        let mut list: Vec<_> = list.iter().enumerate().collect();
        list.sort_by_key(by_length);
        list.into_iter().find_map(|(index, own)| {
            let (before, after) = name.split_once(&format!("_{what}_{own}"))?;
            find(&format!("{before}_{what}{}{after}", index + 1))
        })
    };
    find(name).or_else(|| named("path", &names.paths)).or_else(|| named("flow", &names.flows))
}

/// All names, for an error message; those of paths only once.
pub fn names() -> String {
    let rows = OF_ALL.iter().chain(OF_A_PATH).chain(OF_A_FLOW).chain([&OF_AN_ANALYSIS]);
    let rows = rows.map(|(name, ..)| (*name).to_owned());
    rows.chain(engine::names()).collect::<Vec<_>>().join(", ")
}

/// The measurements of one run; a metric is missing if it could not be measured. A run with few paths stores nothing
/// for others.
#[derive(Clone, Default)]
pub struct Metrics(Vec<f64>);

impl PartialEq for Metrics {
    fn eq(&self, other: &Self) -> bool {
        (0..self.0.len().max(other.0.len())).all(|index| self.at(index) == other.at(index))
    }
}

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let known = METRICS.iter().zip(&self.0).filter(|(_, value)| value.is_finite());
        f.debug_map().entries(known.map(|(metric, value)| (&metric.name, value))).finish()
    }
}

impl Metrics {
    /// Sets a metric by its name.
    ///
    /// # Panics
    /// Panics with debug assertions if there is no such metric: a misspelled name would be a metric that is always
    /// missing.
    #[must_use]
    pub fn with(mut self, name: &str, value: f64) -> Self {
        self.set(name, value);
        self
    }

    /// Sets a metric by its name.
    ///
    /// # Panics
    /// Like [`with`](Self::with).
    pub fn set(&mut self, name: &str, value: f64) {
        let index = find(name);
        debug_assert!(index.is_some(), "no metric is called {name}");
        if let Some(index) = index {
            self.put(index, value);
        }
    }

    /// Sets a metric by its index.
    pub(crate) fn put(&mut self, index: usize, value: f64) {
        if self.0.len() <= index {
            self.0.resize(index + 1, f64::NAN);
        }
        if let Some(field) = self.0.get_mut(index) {
            *field = value;
        }
    }

    /// A metric by its index; `None` if it is missing.
    pub fn at(&self, index: usize) -> Option<f64> {
        self.0.get(index).copied().filter(|value| value.is_finite())
    }

    /// The metrics from the first to the last that is there. Those that are not finite are missing.
    pub(crate) fn fields(&self) -> &[f64] {
        &self.0
    }

    /// A metric by its name; `None` if it is missing.
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
            assert_eq!(find(&metric.name), Some(index));
        }
        let metrics = Metrics::default().with("timeouts", 3.0);
        assert_eq!(metrics.get("timeouts"), Some(3.0));
        assert_eq!(metrics.get("longest_gap_s"), None);
    }

    #[test]
    #[cfg(debug_assertions)]
    #[should_panic(expected = "no metric is called timeuots")]
    fn a_metric_that_does_not_exist_is_not_set() {
        Metrics::default().set("timeuots", 1.0);
    }

    #[test]
    fn every_path_has_its_metrics_by_number_and_by_name() {
        let paths = ["lte", "lte_far", "sat"].map(str::to_owned);
        let flows = ["web", "web_far"].map(str::to_owned).to_vec();
        let names = Names { paths: paths.to_vec(), flows };
        let by_name = |name: &str| find_named(name, &names);
        assert_eq!(by_name("throughput_flow_web_far_kbit_s"), find("throughput_flow2_kbit_s"));
        assert_eq!(by_name("delay_mean_flow_web_s"), find("delay_mean_flow1_s"));
        assert_eq!(by_name("packets_sent_path_sat"), find("packets_sent_path3"));
        assert_eq!(by_name("loss_path_lte_far_percent"), find("loss_path2_percent"));
        assert_eq!(by_name("loss_path_lte_percent"), find("loss_path1_percent"));
        assert_eq!(by_name("timeouts"), find("timeouts"));
        // Printed results use these names too.
        for name in
            ["packets_sent_path_sat", "throughput_flow_web_far_kbit_s", "timeouts", "page_s"]
        {
            let metric = by_name(name).and_then(|index| METRICS.get(index)).unwrap();
            assert_eq!(names.spelled(&metric.name), name);
        }
        assert_eq!(names.spelled("packets_sent_path9"), "packets_sent_path9");
        assert!(find(&format!("packets_sent_path{MAX_PATHS}")).is_some());
        let none =
            [format!("packets_sent_path{}", MAX_PATHS + 1), "packets_sent_path_x".to_owned()];
        assert_eq!(none.map(|name| by_name(&name)), [None, None]);
        assert_eq!(METRICS[find("packets_sent_path3").unwrap()].what, "Packets sent, on path 3");
    }
}
