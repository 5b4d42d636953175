//! What all associations of this process did, ended ones included: counters that only grow.
//!
//! A counter is a row of [`COUNTERS`]; the metrics, the control socket and the schema of `inspect` have it by its name.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use anabranch::{Association, Notification, PathState, Statistics};

/// A number that only grows.
pub(crate) struct Counter {
    /// As in `anabranch_NAME_total`.
    pub(crate) name: &'static str,
    pub(crate) help: &'static str,
    source: Source,
}

enum Source {
    /// Statistics of each association.
    Statistics(fn(&Statistics) -> u64),
    /// What happened, noted with [`add`].
    Noted,
}

const fn of(name: &'static str, help: &'static str, source: fn(&Statistics) -> u64) -> Counter {
    Counter { name, help, source: Source::Statistics(source) }
}

const fn noted(name: &'static str, help: &'static str) -> Counter {
    Counter { name, help, source: Source::Noted }
}

pub(crate) const ACCEPTED: &str = "associations_accepted";
pub(crate) const CONNECTED: &str = "associations_connected";
pub(crate) const ENDED: &str = "associations_ended";
const FAILOVERS: &str = "failovers";
const PATH_FAILURES: &str = "path_failures";

/// All counters.
pub(crate) const COUNTERS: &[Counter] = &[
    noted(ACCEPTED, "Associations accepted."),
    noted(CONNECTED, "Associations connected."),
    noted(ENDED, "Associations that ended."),
    of("messages_sent", "Messages sent.", |s| s.counters.messages_sent),
    of("messages_received", "Messages received.", |s| s.counters.messages_received),
    of("message_bytes_received", "User data received.", |s| s.counters.message_bytes_received),
    of("bytes_sent", "Bytes of SCTP packets sent.", |s| s.paths.iter().map(|p| p.bytes_sent).sum()),
    of("bytes_received", "Bytes of SCTP packets received.", |s| {
        s.paths.iter().map(|p| p.bytes_received).sum()
    }),
    of("packets_sent", "SCTP packets sent.", |s| s.paths.iter().map(|p| p.packets_sent).sum()),
    of("packets_received", "SCTP packets received.", |s| {
        s.paths.iter().map(|p| p.packets_received).sum()
    }),
    of("retransmitted_chunks", "DATA chunks sent again.", |s| {
        s.paths.iter().map(|p| p.retransmitted_chunks).sum()
    }),
    of("fast_retransmitted_chunks", "DATA chunks sent again after missing reports.", |s| {
        s.counters.fast_retransmitted_chunks
    }),
    of("timeout_retransmitted_chunks", "DATA chunks sent again after a timeout.", |s| {
        s.counters.timeout_retransmitted_chunks
    }),
    of("duplicate_chunks", "DATA chunks received again.", |s| s.counters.duplicate_chunks),
    of("timeouts", "Expiries of T3-rtx.", |s| s.counters.timeouts),
    noted(FAILOVERS, "Times that new data went to another path because the one in use failed."),
    noted(PATH_FAILURES, "Times that a path became inactive."),
];

/// Values, in the order of [`COUNTERS`].
type Values = [u64; COUNTERS.len()];

/// The counters of this process.
struct Totals {
    /// What ended associations had counted, and what was noted.
    settled: Values,
    next: u64,
    /// Associations that are still counted.
    live: BTreeMap<u64, Association>,
    /// What was told last: a path that is removed takes its numbers along.
    told: Values,
}

static TOTALS: Mutex<Totals> = Mutex::new(Totals {
    settled: [0; COUNTERS.len()],
    next: 0,
    live: BTreeMap::new(),
    told: [0; COUNTERS.len()],
});

fn totals() -> MutexGuard<'static, Totals> {
    TOTALS.lock().unwrap_or_else(PoisonError::into_inner)
}

fn sum(values: &mut Values, statistics: &Statistics) {
    for (value, counter) in values.iter_mut().zip(COUNTERS) {
        if let Source::Statistics(of) = counter.source {
            *value += of(statistics);
        }
    }
}

impl Totals {
    fn add(&mut self, name: &str) {
        let row = COUNTERS.iter().position(|counter| counter.name == name);
        if let Some(value) = row.and_then(|row| self.settled.get_mut(row)) {
            *value += 1;
        }
    }
}

/// What all associations of this process did, by the names of the counters.
pub(crate) fn now() -> BTreeMap<String, u64> {
    let mut totals = totals();
    let mut values = totals.settled;
    for association in totals.live.values() {
        sum(&mut values, &association.statistics());
    }
    for (told, value) in totals.told.iter_mut().zip(values) {
        *told = value.max(*told);
    }
    COUNTERS
        .iter()
        .zip(totals.told)
        .map(|(counter, value)| (counter.name.to_owned(), value))
        .collect()
}

/// Notes what happened to the paths of an association.
pub(crate) fn note(notification: &Notification) {
    match notification {
        Notification::FailedOver { permanent: false, .. } => totals().add(FAILOVERS),
        Notification::PathChanged { state: PathState::Inactive, .. } => totals().add(PATH_FAILURES),
        _ => {}
    }
}

/// An association that is counted, until this is dropped.
#[derive(Debug)]
pub(crate) struct Counted(u64);

impl Counted {
    /// Counts an association that was accepted or connected, as `how` says.
    pub(crate) fn start(association: &Association, how: &str) -> Self {
        let mut totals = totals();
        totals.add(how);
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
            sum(&mut totals.settled, &association.statistics());
            totals.add(ENDED);
        }
        drop(totals);
        // Dropping the last handle may take longer than this lock should be held.
        drop(ended);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_counter_has_a_name_of_its_own() {
        let word = |name: &str| {
            name.bytes()
                .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_')
        };
        let mut names: Vec<_> = COUNTERS.iter().map(|counter| counter.name).collect();
        assert!(names.iter().all(|name| word(name) && !name.ends_with("_total")), "{names:?}");
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), COUNTERS.len());
        for name in [ACCEPTED, CONNECTED, ENDED, FAILOVERS, PATH_FAILURES] {
            assert!(names.contains(&name), "{name}");
        }
    }
}
