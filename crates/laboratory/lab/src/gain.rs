//! The region of gain of NR-SACKs (nrsack 5.1): the interval of loss rates in which they raise the
//! throughput by at least a given share, over a path of given rate, delay and send buffer.
//!
//! The search first measures loss rates a factor of two apart and then bisects each edge on a
//! logarithmic scale.

use std::path::Path;

use crate::metrics;
use crate::runner::Results;
use crate::scenario::Scenario;
use crate::stats::{self, Estimate};
use crate::tree::Checked;
use crate::units::{Kind, write};

/// Smallest loss rate that is examined.
const LEAST_LOSS: f64 = 1e-5;
/// Number of loss rates in the first step, each twice the previous one: up to 65.5 %.
const LOSSES: i32 = 17;
/// An edge is known when the losses around it differ by at most this factor.
const NEAR: f64 = 1.1;

/// The properties of a path.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Conditions {
    /// Rate in bits per second.
    pub rate: f64,
    /// One-way delay in nanoseconds.
    pub delay: f64,
    /// Send buffer in bytes.
    pub buffer: f64,
    /// User bytes of a transfer.
    pub size: f64,
}

/// The gain of NR-SACKs at one loss rate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Gain {
    /// A fraction of one.
    pub loss: f64,
    /// Percent of the throughput with SACKs.
    pub percent: Estimate,
}

/// The region where the gain is at least the requested one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Region {
    /// Its smallest measured loss rate.
    pub from: f64,
    /// Its largest measured loss rate.
    pub to: f64,
    /// Whether it continues below the smallest examined loss rate.
    pub open_below: bool,
    /// Whether it continues above.
    pub open_above: bool,
}

/// The result of a search.
#[derive(Clone, Debug, PartialEq)]
pub struct Search {
    /// All measurements, by loss.
    pub gains: Vec<Gain>,
    /// The region around the largest gain; `None` if that gain is too small.
    pub region: Option<Region>,
}

impl Search {
    /// The largest gain.
    pub fn peak(&self) -> Option<&Gain> {
        self.gains.iter().max_by(|a, b| a.percent.value.total_cmp(&b.percent.value))
    }
}

/// Searches the region; `measure` returns the gains at some losses, in their order.
///
/// # Errors
/// Passes on the errors of `measure`.
pub fn search<E>(
    least_percent: f64,
    mut measure: impl FnMut(&[f64]) -> Result<Vec<Gain>, E>,
) -> Result<Search, E> {
    let losses: Vec<f64> = (0..LOSSES).map(|step| LEAST_LOSS * 2.0_f64.powi(step)).collect();
    let gains = measure(&losses)?;
    let mut search = Search { gains, region: None };
    let enough = |gain: &Gain| gain.percent.value >= least_percent;
    let Some(peak) = search.peak().filter(|peak| enough(peak)).map(|peak| peak.loss) else {
        return Ok(search);
    };
    let (below, above): (Vec<Gain>, Vec<Gain>) =
        search.gains.iter().copied().partition(|gain| gain.loss <= peak);
    let left = edge(below.iter().rev(), enough);
    let right = edge(above.iter(), enough);
    let (from, open_below) = refine(peak, left, enough, &mut search.gains, &mut measure)?;
    let (to, open_above) = refine(peak, right, enough, &mut search.gains, &mut measure)?;
    search.gains.sort_by(|a, b| a.loss.total_cmp(&b.loss));
    search.region = Some(Region { from, to, open_below, open_above });
    Ok(search)
}

/// The last loss with enough gain in the direction away from the peak, and the first one without.
fn edge<'a>(
    gains: impl Iterator<Item = &'a Gain>,
    enough: impl Fn(&Gain) -> bool,
) -> (Option<f64>, Option<f64>) {
    let mut inside = None;
    for gain in gains {
        if !enough(gain) {
            return (inside, Some(gain.loss));
        }
        inside = Some(gain.loss);
    }
    (inside, None)
}

/// Bisects an edge. Returns its innermost loss rate, and whether the region is open on this side.
fn refine<E>(
    peak: f64,
    (inside, outside): (Option<f64>, Option<f64>),
    enough: impl Fn(&Gain) -> bool,
    gains: &mut Vec<Gain>,
    measure: &mut impl FnMut(&[f64]) -> Result<Vec<Gain>, E>,
) -> Result<(f64, bool), E> {
    let mut inside = inside.unwrap_or(peak);
    let Some(mut outside) = outside else { return Ok((inside, true)) };
    while (outside / inside).max(inside / outside) > NEAR {
        let middle = (inside * outside).sqrt();
        let Some(gain) = measure(&[middle])?.pop() else { break };
        if enough(&gain) {
            inside = middle;
        } else {
            outside = middle;
        }
        gains.push(gain);
    }
    Ok((inside, false))
}

/// The runs that show the gain of NR-SACKs at these losses, with the setup of nrsack 5.
///
/// # Errors
/// Fails if a quantity is invalid in a scenario.
pub fn scenario(conditions: &Conditions, losses: &[f64]) -> Checked<Scenario> {
    let list: Vec<String> =
        losses.iter().map(|loss| format!("\"{}\"", write(Kind::Share, *loss))).collect();
    let text = format!(
        r#"
title = "What NR-SACKs gain"
source = "nrsack 5.1"
[run]
seeds = 10
[network]
shape = "links"
hosts = ["S", "D"]
[link.only]
ends = ["S", "D"]
rate = "{rate}"
delay = "{delay}"
queue = "1000 packets"
[path.only]
links = ["only"]
[association]
profile = "rfc4960"
max_burst = 4
burst_cuts_cwnd = false
receive_buffer = "72000 B"
send_buffer = "{buffer}"
pmr = 1000000
association_max_retrans = 1000000
max_init_retransmits = 1000000
[traffic.file]
size = "{size}"
message = "1452 B"
ordered = false
eager = true
[measure]
time_limit = "1 h"
[axis.acks.variants]
sack = {{ association.nr_sack = false }}
nrsack = {{ association.nr_sack = true }}
[axis.loss]
set = "link.only.loss"
values = [{losses}]
[figure]
x = "loss"
y = "throughput_kbit_s"
series = "acks"
"#,
        rate = write(Kind::Rate, conditions.rate),
        delay = write(Kind::Time, conditions.delay),
        buffer = write(Kind::Size, conditions.buffer),
        size = write(Kind::Size, conditions.size),
        losses = list.join(", "),
    );
    Scenario::read(&text, Path::new("gain.toml"), "gain", &[])
}

/// The gains that the runs of [`scenario`] show.
pub fn gains(scenario: &Scenario, results: &Results, losses: &[f64]) -> Vec<Gain> {
    let metric = metrics::find(&scenario.figure.y).unwrap_or(0);
    // The first axis is that of the acknowledgements.
    let runs = |acks: usize, loss: usize| -> &[metrics::Metrics] {
        let point = scenario.points.iter().position(|point| point.at == [acks, loss]);
        point.and_then(|point| results.points.get(point)).map_or(&[], Vec::as_slice)
    };
    let gain = |(index, loss): (usize, &f64)| {
        let (sack, nr_sack) = (runs(0, index), runs(1, index));
        let n = sack.len().min(nr_sack.len());
        let confidence = scenario.replications.confidence;
        let percent = stats::jackknife(n, n, confidence, |left_out| {
            let mean = |runs: &[metrics::Metrics]| {
                let kept = runs.iter().enumerate().filter(|(run, _)| Some(*run) != left_out);
                let values: Vec<f64> = kept.filter_map(|(_, run)| run.at(metric)).collect();
                stats::mean(&values).ok_or(())
            };
            Ok::<f64, ()>(100.0 * (mean(nr_sack)? / mean(sack)? - 1.0))
        });
        percent.ok().map(|percent| Gain { loss: *loss, percent })
    };
    losses.iter().enumerate().filter_map(gain).collect()
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::sync::atomic::AtomicBool;

    use super::*;
    use crate::runner::{Nobody, Runner};
    use crate::simulation::Simulation;

    fn found(least: f64, gain: impl Fn(f64) -> f64) -> Search {
        let measure = |losses: &[f64]| {
            let at =
                |loss: &f64| Gain { loss: *loss, percent: Estimate::around(gain(*loss), None, 1) };
            Ok::<_, Infallible>(losses.iter().map(at).collect())
        };
        search(least, measure).unwrap()
    }

    #[test]
    fn edges_are_found_to_a_tenth() {
        // A gain of 20 % between 0.1 and 2 %.
        let search = found(5.0, |loss| if (0.001..=0.02).contains(&loss) { 20.0 } else { 1.0 });
        let region = search.region.unwrap();
        assert!((0.001..0.0011).contains(&region.from), "{region:?}");
        assert!((0.02 / 1.1..=0.02).contains(&region.to), "{region:?}");
        assert!(!region.open_below && !region.open_above);
        assert!(search.gains.windows(2).all(|two| two[0].loss < two[1].loss));
    }

    #[test]
    fn a_region_may_be_one_point_open_or_not_there() {
        let at = LEAST_LOSS * 2.0_f64.powi(9);
        let search = found(5.0, |loss| if (loss / at - 1.0).abs() < 0.01 { 6.0 } else { 4.0 });
        let region = search.region.unwrap();
        assert_eq!((region.from, region.to), (at, at));
        let all = found(5.0, |_| 7.0).region.unwrap();
        assert!(all.open_below && all.open_above);
        assert_eq!((all.from, all.to), (LEAST_LOSS, LEAST_LOSS * 65_536.0));
        assert_eq!(found(5.0, |_| 4.9).region, None);
        // Of two regions the one with the peak is returned.
        let two = found(5.0, |loss| {
            if loss < 1e-4 {
                6.0
            } else if loss > 0.1 {
                9.0
            } else {
                0.0
            }
        });
        let region = two.region.unwrap();
        assert!(region.from > 0.09 && region.open_above, "{region:?}");
        assert_eq!(two.peak().unwrap().percent.value, 9.0);
    }

    #[test]
    fn nr_sacks_gain_where_a_small_buffer_blocks() {
        let conditions = Conditions { rate: 1e8, delay: 5e6, buffer: 33e3, size: 2e6 };
        let losses = [0.01, 0.3];
        let scenario = scenario(&conditions, &losses).unwrap();
        let stop = AtomicBool::new(false);
        let runner = Runner {
            experiment: &Simulation,
            jobs: 1,
            stop: &stop,
            observer: &Nobody,
            store: None,
        };
        let mut results = Results::default();
        runner.complete(&scenario, &mut results, Some(3)).unwrap();
        let [low, high] = gains(&scenario, &results, &losses)[..] else { panic!() };
        assert!(low.percent.value > 20.0 && low.percent.interval.is_some(), "{low:?}");
        assert!(high.percent.value < 5.0 && high.loss == 0.3, "{high:?}");
    }
}
