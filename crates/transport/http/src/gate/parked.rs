//! Answers that wait for their reader without a place.
//!
//! Places are for requests that make progress. An answer whose reader has stalled keeps the data that it has read,
//! usually one piece of a file, until the reader continues. The total is limited, in units of such a piece. If
//! there is no room for another answer, it evicts:
//!
//! - one whose connection has made no progress for five seconds, the longest stalled first;
//! - otherwise the last one of the connection that has the most, if it has several.
//!
//! If there is no such answer, none is evicted: then all connections have a single answer each and read it, however
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
    /// By the numbers of their connections and streams.
    connections: BTreeMap<u64, BTreeMap<u64, Entry>>,
}

#[derive(Debug)]
struct Entry {
    units: usize,
    member: Arc<Member>,
    connection: Arc<Connection>,
}

/// An answer without a place, until this is dropped.
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

    /// The connection and the stream of the answer to evict.
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

    /// The units that they occupy.
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
