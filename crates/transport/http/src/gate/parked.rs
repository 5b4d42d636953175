//! Answers that wait for their reader without holding a place.
//!
//! Places are for requests that make progress. An answer whose reader has stalled gives up its place and keeps only
//! the data already read, usually one piece of a file, until the reader continues. The total is limited, in units
//! of such a piece. If there is no room for another answer, one of these is evicted:
//!
//! - an answer whose connection has made no progress for five seconds, the longest stalled first;
//! - otherwise the last answer of the connection that has the most, if that has several.
//!
//! If there is no such answer, none is evicted: then each connection has a single answer, and reads it, even if
//! slowly.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::open::Member;
use super::{Connection, LEAST_PATIENCE};

/// Bytes of an answer that count as one unit.
const UNIT: usize = 64 << 10;

/// The answers of a server without a place.
#[derive(Debug)]
pub(super) struct Parked {
    most: usize,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    units: usize,
    /// Entries by the numbers of their connection and stream.
    connections: BTreeMap<u64, BTreeMap<u64, Entry>>,
}

#[derive(Debug)]
struct Entry {
    units: usize,
    member: Arc<Member>,
    connection: Arc<Connection>,
}

/// Entitles an answer to wait without a place until this is dropped.
#[derive(Debug)]
pub(super) struct Pass {
    number: u64,
    connection: Arc<Connection>,
}

impl Drop for Pass {
    fn drop(&mut self) {
        self.connection.at_work.fetch_sub(1, Relaxed);
        self.connection.places.parked.state().remove(self.connection.number, self.number);
    }
}

impl State {
    fn remove(&mut self, connection: u64, number: u64) -> Option<Entry> {
        let streams = self.connections.get_mut(&connection)?;
        let removed = streams.remove(&number);
        if streams.is_empty() {
            self.connections.remove(&connection);
        }
        self.units -= removed.as_ref().map_or(0, |entry| entry.units);
        removed
    }

    /// Selects the answer to evict. Returns its connection and stream.
    fn victim(&self) -> Option<(u64, u64)> {
        let newest = |(connection, streams): (&u64, &BTreeMap<u64, Entry>)| {
            Some((*connection, *streams.last_key_value()?.0))
        };
        let since = |streams: &BTreeMap<u64, Entry>| {
            Some(streams.first_key_value()?.1.connection.moved().0)
        };
        let still = |(_, streams): &(&u64, &BTreeMap<u64, Entry>)| {
            since(streams).is_some_and(|since| since.elapsed() >= LEAST_PATIENCE)
        };
        let stillest =
            self.connections.iter().filter(still).min_by_key(|(_, streams)| since(streams));
        let most = || {
            let several = self.connections.iter().filter(|(_, streams)| streams.len() > 1);
            several.max_by_key(|(_, streams)| streams.len())
        };
        stillest.or_else(most).and_then(newest)
    }
}

impl Parked {
    pub(super) fn new(most: usize) -> Self {
        Self { most, state: Mutex::default() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The number of units in use.
    #[cfg(test)]
    pub(super) fn units(&self) -> usize {
        self.state().units
    }

    /// Adds a stream's answer that holds `bytes`; `None` if there is no room.
    pub(super) fn enter(
        &self,
        number: u64,
        bytes: usize,
        member: &Arc<Member>,
        connection: &Arc<Connection>,
    ) -> Option<Pass> {
        let units = bytes.div_ceil(UNIT).max(1);
        if units > self.most {
            return None;
        }
        let mut state = self.state();
        while state.units + units > self.most {
            let (connection, number) = state.victim()?;
            let ended = state.remove(connection, number)?;
            ended.member.oust();
        }
        state.units += units;
        let entry = Entry { units, member: Arc::clone(member), connection: Arc::clone(connection) };
        state.connections.entry(connection.number).or_default().insert(number, entry);
        connection.at_work.fetch_add(1, Relaxed);
        Some(Pass { number, connection: Arc::clone(connection) })
    }
}
