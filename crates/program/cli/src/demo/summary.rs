//! Compares the ways in which the page was loaded.

use anabranch_web::Loaded;
use serde::Serialize;

use super::{Conditions, Way};
use crate::failure::Failure;

/// Percentages of all pictures whose times are reported.
const PARTS: [u64; 4] = [25, 50, 75, 100];

/// How the page loaded in one way.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) way: Way,
    pub(crate) loaded: Loaded,
}

impl Outcome {
    pub(crate) fn compute(conditions: &Conditions, way: Way) -> Result<Self, String> {
        let loaded = conditions
            .load(way)
            .map_err(|error| format!("{}: {error}", way.name(conditions.streams)))?;
        Ok(Self { way, loaded })
    }

    /// When `percent` of all pictures had arrived, in seconds.
    pub(crate) fn part(&self, percent: u64) -> Option<f64> {
        self.loaded.page.ppage(percent).map(|time| time.as_secs_f64())
    }
}

/// A sentence about the first quarter of all pictures, and one about the whole page.
pub(crate) fn summary(conditions: &Conditions, outcomes: &[Outcome]) -> String {
    let times = |percent| {
        let named = |outcome: &Outcome| {
            Some((outcome.part(percent)?, outcome.way.name(conditions.streams)))
        };
        sentence(percent, outcomes.iter().filter_map(named).collect())
    };
    [25, 100].into_iter().filter_map(times).collect::<Vec<_>>().join("\n")
}

/// Says which way has `percent` of all pictures first, and how long the others take in comparison.
fn sentence(percent: u64, mut times: Vec<(f64, String)>) -> Option<String> {
    let what = if percent == 100 { "The whole page" } else { "A quarter of every picture" };
    times.sort_by(|one, other| one.0.total_cmp(&other.0));
    let ((first, winner), others) = times.split_first()?;
    let mut line = format!("{what} is there after {first:.1} s with {winner}");
    for (time, other) in others {
        let times = time / first;
        // A difference below a twentieth is not noticeable.
        let beside =
            if times < 1.05 { "alike".to_owned() } else { format!("{times:.1} times as long") };
        line.push_str(&format!("; with {other} after {time:.1} s ({beside})"));
    }
    Some(line + ".")
}

/// Means over all seeds for one way and one loss rate.
#[derive(Debug, Serialize)]
struct Row {
    loss_percent: f64,
    carriage: String,
    seeds: u64,
    bytes: u64,
    page_s: f64,
    p25_s: f64,
    p50_s: f64,
    p75_s: f64,
    p100_s: f64,
    speed_index_ms: f64,
    /// `None` for QUIC, which does not report them.
    timeouts: Option<f64>,
    fast_retransmits: f64,
    handshake_retransmissions: f64,
    runs: Vec<Run>,
}

/// The result of one load.
#[derive(Debug, Serialize)]
struct Run {
    seed: u64,
    bytes: u64,
    page_s: f64,
    p25_s: f64,
    p100_s: f64,
    /// Hash of all packets and their times.
    trace: String,
}

/// The results computed without a browser.
#[derive(Debug, Serialize)]
pub(crate) struct Headless {
    rate_kbit: f64,
    rtt_ms: f64,
    pictures: u16,
    streams: u16,
    rows: Vec<Row>,
}

/// Computes every way for every loss and seed, on `jobs` threads.
pub(crate) fn headless(
    conditions: Conditions,
    losses: &[f64],
    ways: &[Way],
    seeds: u64,
    jobs: usize,
) -> Result<Headless, Failure> {
    let mut rows = Vec::new();
    for loss in losses {
        for way in ways {
            let conditions = Conditions { loss: *loss, ..conditions };
            let runs = all_seeds(&conditions, *way, seeds, jobs)?;
            rows.push(row(&conditions, *way, &runs)?);
        }
    }
    Ok(Headless {
        rate_kbit: conditions.rate as f64 / 1e3,
        rtt_ms: conditions.rtt.as_secs_f64() * 1e3,
        pictures: conditions.pictures,
        streams: conditions.streams,
        rows,
    })
}

/// The loads of all seeds, in the order of seeds, regardless of which thread computed them.
fn all_seeds(
    conditions: &Conditions,
    way: Way,
    seeds: u64,
    jobs: usize,
) -> Result<Vec<(u64, Outcome)>, Failure> {
    let jobs = jobs.clamp(1, 64) as u64;
    let mut all = std::thread::scope(|scope| {
        let threads = (0..jobs).map(|job| {
            scope.spawn(move || {
                let mine = (1..=seeds).filter(|seed| seed % jobs == job);
                let runs = mine.map(|seed| {
                    let conditions = Conditions { seed, ..*conditions };
                    Outcome::compute(&conditions, way).map(|outcome| (seed, outcome))
                });
                runs.collect::<Result<Vec<_>, _>>()
            })
        });
        let threads: Vec<_> = threads.collect();
        let joined = threads.into_iter().map(|thread| {
            thread
                .join()
                .unwrap_or_else(|_| Err("a thread panicked".to_owned()))
                .map_err(Failure::failed)
        });
        joined.collect::<Result<Vec<_>, _>>()
    })?
    .concat_all();
    all.sort_by_key(|(seed, _)| *seed);
    Ok(all)
}

/// Concatenates vectors.
trait ConcatAll<T> {
    fn concat_all(self) -> Vec<T>;
}

impl<T> ConcatAll<T> for Vec<Vec<T>> {
    fn concat_all(self) -> Vec<T> {
        self.into_iter().flatten().collect()
    }
}

fn row(conditions: &Conditions, way: Way, runs: &[(u64, Outcome)]) -> Result<Row, Failure> {
    let incomplete = |seed: u64| {
        let (name, loss) = (way.name(conditions.streams), conditions.loss * 100.0);
        Failure::failed(format!(
            "{name}: with seed {seed} and {loss} % of loss the page stays incomplete"
        ))
    };
    let mut told = Vec::new();
    for (seed, outcome) in runs {
        let page = &outcome.loaded.page;
        let times = (page.page_time(), outcome.part(25), outcome.part(100));
        let (Some(time), Some(p25_s), Some(p100_s)) = times else { return Err(incomplete(*seed)) };
        let bytes = page.objects.iter().chain([&page.index]).map(|object| object.bytes()).sum();
        let trace = format!("{:016x}", outcome.loaded.trace);
        told.push(Run { seed: *seed, bytes, page_s: time.as_secs_f64(), p25_s, p100_s, trace });
    }
    let count = runs.len().max(1) as f64;
    let mean =
        |of: &dyn Fn(&Outcome) -> f64| runs.iter().map(|(_, run)| of(run)).sum::<f64>() / count;
    let part = |percent| mean(&|run| run.part(percent).unwrap_or_default());
    let [p25_s, p50_s, p75_s, p100_s] = PARTS.map(part);
    let transport = |of: fn(&anabranch_web::Transport) -> u64| {
        mean(&|run| run.loaded.transport.iter().map(of).sum::<u64>() as f64)
    };
    let ends = runs.iter().flat_map(|(_, run)| &run.loaded.transport);
    let timeouts: Option<u64> = ends.map(|end| end.timeouts).sum();
    Ok(Row {
        loss_percent: conditions.loss * 100.0,
        carriage: way.key(),
        seeds: runs.len() as u64,
        bytes: told.first().map_or(0, |run| run.bytes),
        page_s: told.iter().map(|run| run.page_s).sum::<f64>() / count,
        p25_s,
        p50_s,
        p75_s,
        p100_s,
        speed_index_ms: mean(&|run| {
            run.loaded.page.speed_index().unwrap_or_default().as_secs_f64() * 1e3
        }),
        timeouts: timeouts.map(|sum| sum as f64 / count),
        fast_retransmits: transport(|end| end.fast_retransmits),
        handshake_retransmissions: transport(|end| end.handshake_retransmissions),
        runs: told,
    })
}

impl Headless {
    /// A table, and sentences about each loss rate.
    pub(crate) fn text(&self) -> String {
        let head = ["loss", "carried by", "25 %", "50 %", "75 %", "all", "timeouts", "fast"];
        let mut rows = vec![head.map(str::to_owned).to_vec()];
        for row in &self.rows {
            let times =
                [row.p25_s, row.p50_s, row.p75_s, row.page_s].map(|time| format!("{time:.1} s"));
            let timeouts = row.timeouts.map_or("-".to_owned(), |count| format!("{count:.1}"));
            let counts = [timeouts, format!("{:.1}", row.fast_retransmits)];
            rows.push(
                [format!("{:.1} %", row.loss_percent), self.name(row)]
                    .into_iter()
                    .chain(times)
                    .chain(counts)
                    .collect(),
            );
        }
        let mut text = crate::output::table(&rows);
        for of_one_loss in self.rows.chunk_by(|one, next| one.loss_percent == next.loss_percent) {
            let Some(loss) = of_one_loss.first().map(|row| row.loss_percent) else { continue };
            let times = |of: fn(&Row) -> f64| {
                of_one_loss.iter().map(|row| (of(row), self.name(row))).collect()
            };
            let told = [(25, times(|row| row.p25_s)), (100, times(|row| row.page_s))];
            let told = told.into_iter().filter_map(|(percent, times)| sentence(percent, times));
            text.push_str(&format!("\n{loss:.1} % of loss:\n"));
            told.for_each(|line| text.push_str(&(line + "\n")));
        }
        text
    }

    fn name(&self, row: &Row) -> String {
        Way::from_key(&row.carriage).map_or_else(String::new, |way| way.name(self.streams))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peer_that_wins_or_is_alike_is_said_to() {
        let times = [(10.0, "SCTP"), (9.9, "HTTP/3"), (20.0, "one")];
        let times = times.map(|(time, name)| (time, name.to_owned())).to_vec();
        let expected = "The whole page is there after 9.9 s with HTTP/3; with SCTP after 10.0 s (alike); \
                        with one after 20.0 s (2.0 times as long).";
        assert_eq!(sentence(100, times).unwrap(), expected);
        assert_eq!(sentence(25, Vec::new()), None);
    }
}
