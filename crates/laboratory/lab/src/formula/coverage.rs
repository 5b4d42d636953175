//! How often intervals contain the truth, by simulation with fixed seeds: at least 88 % where they say 90 %.

use anabranch_impair::Rng;

use super::{Formula, Runs};
use crate::metrics::{Metrics, Names};
use crate::scenario::Scenario;
use crate::scenario::tests::{read, text};
use crate::stats::Estimate;

/// A normal number (Box and Muller).
fn normal(rng: &mut Rng) -> f64 {
    let mut uniform = || (rng.below(1 << 40) as f64 + 1.0) / (1u64 << 40) as f64;
    let (a, b) = (uniform(), uniform());
    (-2.0 * a.ln()).sqrt() * (std::f64::consts::TAU * b).cos()
}

/// A log-normal number with the mean 1 and about this deviation.
fn spread(rng: &mut Rng, deviation: f64) -> f64 {
    (deviation * normal(rng) - deviation * deviation / 2.0).exp()
}

/// A scenario with a baseline (Same) and something new (Alt) at 11 points of an axis.
fn eleven() -> Scenario {
    let values: Vec<String> = (0..11).map(|value| format!("\"{value} %\"")).collect();
    let text = text().replace("[\"1 %\", \"3 %\"]", &format!("[{}]", values.join(", ")));
    read(&text, &[]).unwrap()
}

/// Where the interval is, of this many samples: percent that contain the truth, are below and are above it.
fn coverage(
    formula: &str,
    truth: f64,
    rounds: usize,
    mut sample: impl FnMut(&Scenario) -> Vec<Vec<Metrics>>,
) -> [f64; 3] {
    let scenario = eleven();
    let formula = Formula::parse(formula, &scenario.axes, &Names::default()).unwrap();
    let mut counts = [0_usize; 3];
    for _ in 0..rounds {
        let points = sample(&scenario);
        let estimate: Estimate =
            formula.evaluate(&Runs { scenario: &scenario, points: &points }, 0.9).unwrap();
        assert!(estimate.interval.is_some());
        counts[match () {
            () if estimate.high() < truth => 1,
            () if estimate.low() > truth => 2,
            () => 0,
        }] += 1;
    }
    counts.map(|count| 100.0 * count as f64 / rounds as f64)
}

/// Independent runs of all points; the new one is faster by these percent.
fn gains<'a>(
    rng: &'a mut Rng,
    gains: &'a [f64; 11],
    deviation: f64,
    n: usize,
) -> impl FnMut(&Scenario) -> Vec<Vec<Metrics>> + 'a {
    move |scenario| {
        let mut point = |at: &[usize]| -> Vec<Metrics> {
            let mean = if at[1] == 1 { 1.0 - gains[at[0]] / 100.0 } else { 1.0 };
            let mut time = || mean * spread(rng, deviation);
            (0..n).map(|_| Metrics::default().with("transfer_time_s", time())).collect()
        };
        scenario.points.iter().map(|one| point(&one.at)).collect()
    }
}

const GAIN: &str = "gain(transfer_time_s[policy=Alt], transfer_time_s[policy=Same])";

/// Samples of each case: the probability that 200 of a coverage of 92 % are fewer than 88 % is 3 %, and the seed is fixed.
const ROUNDS: usize = 200;

#[test]
fn intervals_of_extremes_contain_the_truth() {
    let mut rng = Rng::new(20_261_125);
    let mut rising = [0.0; 11];
    rising.iter_mut().enumerate().for_each(|(at, gain)| *gain = at as f64);
    let one = |gain| [gain, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0];
    let mut two = one(10.0);
    two[1] = 10.0;
    let mut failed = Vec::new();
    for (name, truth, largest) in [
        ("all alike", [0.0; 11], 0.0),
        ("one above the rest", one(5.0), 5.0),
        ("rising", rising, 10.0),
        ("two alike", two, 10.0),
    ] {
        for deviation in [0.1, 0.3] {
            for n in [4, 6, 12, 24] {
                let formula = format!("max(loss: {GAIN})");
                let sample = gains(&mut rng, &truth, deviation, n);
                let [covers, below, above] = coverage(&formula, largest, ROUNDS, sample);
                // Neither 'at most' nor 'at least' holds wrongly more often than in 5 %, and what chance adds.
                if covers < 88.0 || below > 9.0 || above > 9.0 {
                    failed.push(format!("{name}, {deviation}, {n}: {covers} {below} {above}"));
                }
            }
        }
    }
    assert_eq!(failed, [] as [String; 0]);
}

#[test]
fn intervals_of_the_smallest_and_of_absolute_values_contain_the_truth() {
    let mut rng = Rng::new(3);
    let mut truth = [0.0; 11];
    truth[4] = -5.0;
    for n in [6, 24] {
        let sample = gains(&mut rng, &truth, 0.1, n);
        let [covers, _, above] = coverage(&format!("min(loss: {GAIN})"), -5.0, ROUNDS, sample);
        assert!(covers >= 88.0 && above <= 9.0, "{n}: {covers} {above}");
        for deviation in [0.1, 0.2] {
            let sample = gains(&mut rng, &[0.0; 11], deviation, n);
            let formula = format!("max(loss: abs({GAIN}))");
            let [covers, below, _] = coverage(&formula, 0.0, ROUNDS, sample);
            assert!(covers >= 88.0 && below == 0.0, "{n}, {deviation}: {covers}");
        }
    }
}

/// This does not hold for few runs if one in ten takes ten times as long: `check` warns of them.
#[test]
fn intervals_of_means_and_gains_contain_the_truth() {
    let mut rng = Rng::new(7);
    for n in [4, 12] {
        for deviation in [0.1, 0.3] {
            let sample = gains(&mut rng, &[0.0; 11], deviation, n);
            let gain = "gain(transfer_time_s[policy=Alt, loss=1 %], \
                        transfer_time_s[policy=Same, loss=1 %])";
            let [covers, ..] = coverage(gain, 0.0, 10 * ROUNDS, sample);
            assert!(covers >= 88.0, "{n}, {deviation}: {covers}");
        }
    }
}
