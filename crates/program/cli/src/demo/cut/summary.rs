//! Sentences that compare the carriers: which completes the file first, and which stop.

use std::time::Duration;

use anabranch_web::Downloaded;

use super::compute::{Carried, CutConditions};
use super::events::Events;

/// A download without data for this time at its end has stopped.
const STOPPED: Duration = Duration::from_secs(5);

/// How the file arrived in one way.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) way: Carried,
    pub(crate) bytes: usize,
    pub(crate) done: Downloaded,
}

impl Outcome {
    pub(crate) fn compute(conditions: &CutConditions, way: Carried) -> Result<Self, String> {
        let done = conditions.download(way).map_err(|error| format!("{}: {error}", way.name()))?;
        Ok(Self { way, bytes: conditions.bytes, done })
    }

    /// Computes all ways at the same time; the result does not depend on it.
    pub(crate) fn compute_all(
        conditions: &CutConditions,
        ways: &[Carried],
    ) -> Result<Vec<Self>, String> {
        std::thread::scope(|scope| {
            let compute = |way: &Carried| {
                let way = *way;
                scope.spawn(move || Self::compute(conditions, way))
            };
            let threads: Vec<_> = ways.iter().map(compute).collect();
            let joined = threads.into_iter().map(|thread| thread.join());
            let joined = joined.map(|run| run.map_err(|_| "a thread panicked".to_owned())?);
            joined.collect()
        })
    }

    /// When the last byte so far arrived.
    pub(crate) fn last(&self) -> Option<Duration> {
        self.done.arrivals.last().map(|(at, _)| *at)
    }

    /// The percentage of the file that arrived, rounded down: only a whole file is 100 %.
    pub(crate) fn percent(&self) -> u64 {
        let bytes = self.done.arrivals.last().map_or(0, |(_, bytes)| *bytes);
        100 * bytes / (self.bytes as u64).max(1)
    }

    /// The longest time without a byte.
    pub(crate) fn pause(&self) -> Duration {
        self.done.record_pauses().last().map_or(Duration::ZERO, |(from, to)| *to - *from)
    }

    /// Whether nothing arrived at the end, and the file is not complete.
    pub(crate) fn has_stopped(&self) -> bool {
        let quiet = self.done.ended.saturating_sub(self.last().unwrap_or_default());
        self.done.completed.is_none() && (self.done.failed.is_some() || quiet >= STOPPED)
    }
}

/// Sentences about the cuts, who was first, who stopped, and how long each paused.
pub(crate) fn summary(events: &Events, outcomes: &[Outcome]) -> String {
    let mut complete: Vec<_> = outcomes
        .iter()
        .filter_map(|outcome| Some((outcome.done.completed?.as_secs_f64(), outcome)))
        .collect();
    complete.sort_by(|(one, _), (other, _)| one.total_cmp(other));
    let incomplete = outcomes.iter().filter(|outcome| outcome.done.completed.is_none());
    let lines = [cuts(events), order(&complete)].into_iter().flatten();
    let lines = lines.chain(incomplete.map(stopped));
    let pauses = (events.iter().count() > 0).then(|| pauses(outcomes)).flatten();
    lines.chain(pauses).collect::<Vec<_>>().join("\n")
}

/// When paths were cut and repaired.
fn cuts(events: &Events) -> Option<String> {
    let said = events.iter().map(|event| {
        let what = if event.is_cut { "cut" } else { "repaired" };
        format!("path {} is {what} at {:.1} s", event.path + 1, event.at.as_secs_f64())
    });
    let said = said.collect::<Vec<_>>().join(", ");
    (!said.is_empty()).then(|| capital(&format!("{said}.")))
}

/// The order of completion, and how much longer the slower carriers take.
fn order(complete: &[(f64, &Outcome)]) -> Option<String> {
    let ((first, winner), others) = complete.split_first()?;
    let mut line = format!("{} has the whole file first, after {first:.1} s", winner.way.name());
    for (time, other) in others {
        let times = time / first;
        // A difference below a twentieth is not noticeable.
        let beside =
            if times < 1.05 { "alike".to_owned() } else { format!("{times:.1} times as long") };
        line.push_str(&format!("; {} after {time:.1} s ({beside})", other.way.name()));
    }
    Some(capital(&format!("{line}.")))
}

/// How far a download came that is not complete.
fn stopped(outcome: &Outcome) -> String {
    let (name, percent) = (outcome.way.name(), outcome.percent());
    let ended = outcome.done.ended.as_secs_f64();
    let last = match outcome.last() {
        Some(last) => format!("nothing arrives after {:.1} s", last.as_secs_f64()),
        None => "nothing arrives".to_owned(),
    };
    capital(&match &outcome.done.failed {
        Some((at, reason)) => {
            let at = at.as_secs_f64();
            format!(
                "{name} stops at {percent} %: {last}, and the connection ends at {at:.0} s ({reason})."
            )
        }
        None if outcome.has_stopped() => {
            format!("{name} stops at {percent} %: {last}. The computation ends at {ended:.0} s.")
        }
        None => format!("{name} has {percent} % when the computation ends at {ended:.0} s."),
    })
}

/// The longest pauses of those that did not stop.
fn pauses(outcomes: &[Outcome]) -> Option<String> {
    let going = outcomes.iter().filter(|outcome| !outcome.has_stopped());
    let said = going.map(|outcome| {
        format!("{:.2} s over {}", outcome.pause().as_secs_f64(), outcome.way.name())
    });
    let said = said.collect::<Vec<_>>().join(", ");
    (!said.is_empty()).then(|| format!("Longest time without data: {said}."))
}

/// With a capital first letter.
fn capital(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}
