//! Totals over all associations of this process, including ended ones: counters that only grow.
//!
//! They consist of the engine's counters of associations, the sums of its counters of paths, and the
//! [`Noted`] events. The metrics and the control socket report them under their names.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use anabranch::{
    Association, Counter, CounterKind, Notification, PathState, PathStatistics, Statistics, Unit,
};

use crate::numbers::Numbers;

/// Events that are counted when they happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Noted {
    Accepted,
    Connected,
    Ended,
    Failover,
    PathFailure,
}

impl Noted {
    pub(crate) const ALL: [Self; 5] =
        [Self::Accepted, Self::Connected, Self::Ended, Self::Failover, Self::PathFailure];

    /// The name, as in `anabranch_NAME_total`, and the meaning.
    pub(crate) fn describe(self) -> (&'static str, &'static str) {
        match self {
            Self::Accepted => ("associations_accepted", "Associations accepted."),
            Self::Connected => ("associations_connected", "Associations connected."),
            Self::Ended => ("associations_ended", "Associations that ended."),
            Self::Failover => (
                "failovers",
                "Times that new data went to another path because the one in use failed.",
            ),
            Self::PathFailure => ("path_failures", "Times that a path became inactive."),
        }
    }
}

/// Counters of associations.
pub(crate) fn of_associations() -> impl Iterator<Item = &'static Counter<Statistics>> {
    Statistics::counters().filter(|row| row.kind == CounterKind::Counter)
}

/// Counters of paths that are summed, because the association does not count them itself.
pub(crate) fn of_paths() -> impl Iterator<Item = &'static Counter<PathStatistics>> {
    let counted = |row: &&Counter<PathStatistics>| {
        row.kind == CounterKind::Counter && Statistics::counters().all(|own| own.name != row.name)
    };
    PathStatistics::counters().filter(counted)
}

/// Values of noted events, then of counters of associations, then of counters of paths.
#[derive(Clone, Debug)]
struct Values(Vec<f64>);

impl Values {
    const fn new() -> Self {
        Self(Vec::new())
    }

    fn add(&mut self, values: impl Iterator<Item = f64>) {
        for (place, value) in values.enumerate() {
            match self.0.get_mut(place) {
                Some(sum) => *sum += value,
                None => self.0.push(value),
            }
        }
    }

    fn note(&mut self, what: Noted) {
        self.add(Noted::ALL.into_iter().map(|noted| f64::from(u8::from(noted == what))));
    }

    fn sum(&mut self, statistics: &Statistics) {
        let noted = Noted::ALL.iter().map(|_| 0.0);
        let own = of_associations().map(|row| read(row, statistics));
        let of_path = |row: &Counter<PathStatistics>| {
            statistics.paths.iter().map(|path| read(row, path)).sum::<f64>()
        };
        self.add(noted.chain(own).chain(of_paths().map(of_path)));
    }

    /// Keeps totals from decreasing when a path is removed together with its counters.
    fn keep_most(&mut self, now: &Self) {
        self.0.resize(now.0.len().max(self.0.len()), 0.0);
        self.0.iter_mut().zip(&now.0).for_each(|(most, value)| *most = value.max(*most));
    }

    fn by_name(&self) -> Numbers {
        let noted = Noted::ALL.into_iter().map(|noted| (noted.describe().0.to_owned(), false));
        let own = of_associations().map(|row| (row.json_name(), row.unit == Unit::Seconds));
        let paths = of_paths().map(|row| (row.json_name(), row.unit == Unit::Seconds));
        let mut numbers = Numbers::default();
        for (place, (name, is_time)) in noted.chain(own).chain(paths).enumerate() {
            let value = self.0.get(place).copied().unwrap_or(0.0);
            match serde_json::Number::from_f64(value) {
                Some(seconds) if is_time => numbers.set(&name, seconds),
                _ => numbers.set(&name, value as u64),
            }
        }
        numbers
    }
}

fn read<S>(row: &Counter<S>, of: &S) -> f64 {
    (row.get)(of).map_or(0.0, anabranch::Number::as_f64)
}

/// The counters of this process.
struct Totals {
    /// The values of ended associations, and the noted events.
    settled: Values,
    next: u64,
    /// Associations that are still alive.
    live: BTreeMap<u64, Association>,
    /// The last reported values.
    told: Values,
}

static TOTALS: Mutex<Totals> = Mutex::new(Totals {
    settled: Values::new(),
    next: 0,
    live: BTreeMap::new(),
    told: Values::new(),
});

fn totals() -> MutexGuard<'static, Totals> {
    TOTALS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Totals over all associations of this process, by the names of the counters.
pub(crate) fn now() -> Numbers {
    let mut totals = totals();
    let mut values = totals.settled.clone();
    for association in totals.live.values() {
        values.sum(&association.statistics());
    }
    totals.told.keep_most(&values);
    totals.told.by_name()
}

/// Counts failovers and failures of paths.
pub(crate) fn note(notification: &Notification) {
    match notification {
        Notification::FailedOver { permanent: false, .. } => totals().settled.note(Noted::Failover),
        Notification::PathChanged { state: PathState::Inactive, .. } => {
            totals().settled.note(Noted::PathFailure);
        }
        _ => {}
    }
}

/// Counts an association until this is dropped.
#[derive(Debug)]
pub(crate) struct Counted(u64);

impl Counted {
    /// Starts to count an association; `how` says whether it was accepted or connected.
    pub(crate) fn start(association: &Association, how: Noted) -> Self {
        let mut totals = totals();
        totals.settled.note(how);
        totals.next += 1;
        let number = totals.next;
        totals.live.insert(number, association.clone());
        Self(number)
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        let mut totals = totals();
        let ended = totals.live.remove(&self.0);
        if let Some(association) = &ended {
            totals.settled.sum(&association.statistics());
            totals.settled.note(Noted::Ended);
        }
        drop(totals);
        // Drop the last handle here, because that may take longer than the lock should be held.
        drop(ended);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_counter_has_a_name_of_its_own() {
        let noted = Noted::ALL.map(|noted| noted.describe().0.to_owned());
        let rows = of_associations().map(Counter::json_name);
        let rows = rows.chain(of_paths().map(Counter::json_name));
        let mut names: Vec<_> = noted.into_iter().chain(rows).collect();
        let all = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), all);
        assert!(names.iter().any(|name| name == "bytes_sent"), "summed over paths");
        assert!(of_paths().all(|row| row.name != "timeouts"), "the association counts them");
    }

    #[test]
    fn totals_never_fall() {
        let (mut told, mut now) = (Values::new(), Values::new());
        now.note(Noted::Accepted);
        told.keep_most(&now);
        assert_eq!(told.by_name().whole("associations_accepted"), 1);
        told.keep_most(&Values(vec![0.0; 3]));
        assert_eq!(told.by_name().whole("associations_accepted"), 1);
        assert_eq!(told.by_name().whole("messages_sent"), 0, "all have a value");
    }
}
