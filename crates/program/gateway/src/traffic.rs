//! What a side of the gateway has carried: connections by outcome, and bytes by host, those of open connections
//! included.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::Serialize;

use crate::access::Log;

/// Most bytes of a host's name; DNS allows no more.
const LONGEST_HOST: usize = 255;

/// Under this name are the hosts that have no row of their own.
const OTHERS: &str = "";

/// Bytes that a connection has carried so far.
pub(crate) trait Carries: Send + Sync {
    /// Bytes towards the target, and from it.
    fn carried(&self) -> Amount;
}

/// Bytes in both directions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Amount {
    /// Towards the target.
    pub bytes_sent: u64,
    /// From the target.
    pub bytes_received: u64,
}

impl Amount {
    pub(crate) fn new(bytes_sent: u64, bytes_received: u64) -> Self {
        Self { bytes_sent, bytes_received }
    }

    fn add(&mut self, other: Self) {
        self.bytes_sent = self.bytes_sent.saturating_add(other.bytes_sent);
        self.bytes_received = self.bytes_received.saturating_add(other.bytes_received);
    }
}

/// What was carried for one host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct HostTraffic {
    /// Its name or address; empty for all hosts without a row of their own.
    pub host: String,
    /// Connections and requests that have not ended.
    pub open: u64,
    /// All connections and requests so far.
    pub connections: u64,
    /// The bytes of all.
    #[serde(flatten)]
    pub amount: Amount,
}

/// The row of a host.
#[derive(Clone, Copy, Debug, Default)]
struct Row {
    open: u64,
    connections: u64,
    /// Of the connections that have ended.
    ended: Amount,
    /// When a connection began or ended last, in steps of a counter.
    used: u64,
}

#[derive(Default)]
struct Inner {
    rows: BTreeMap<String, Row>,
    /// The open connections.
    live: BTreeMap<u64, (String, Box<dyn Carries>)>,
    /// Counts what begins and ends.
    clock: u64,
    /// Ended connections and requests, by how they were asked for and their status.
    outcomes: BTreeMap<(&'static str, &'static str), u64>,
}

/// What a side has carried.
pub struct Traffic {
    inner: Mutex<Inner>,
    /// Most hosts with a row of their own.
    most_hosts: usize,
}

impl fmt::Debug for Traffic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let open = self.lock().live.len();
        f.debug_struct("Traffic").field("open", &open).finish_non_exhaustive()
    }
}

impl Traffic {
    /// Hosts that were not used for the longest time lose their rows when there are more than `most_hosts`.
    pub(crate) fn new(most_hosts: usize) -> Arc<Self> {
        Arc::new(Self { inner: Mutex::default(), most_hosts })
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts a connection or request until the guard is dropped.
    pub(crate) fn begin(
        self: &Arc<Self>,
        host: &str,
        carries: impl Carries + 'static,
    ) -> Connection {
        let mut inner = self.lock();
        let has_row = inner.rows.contains_key(host);
        let named = !host.is_empty()
            && host.len() <= LONGEST_HOST
            && (has_row || inner.makes_room(self.most_hosts));
        let host = if named { host } else { OTHERS }.to_owned();
        inner.clock += 1;
        let number = inner.clock;
        let row = inner.rows.entry(host.clone()).or_default();
        row.open += 1;
        row.connections += 1;
        row.used = number;
        inner.live.insert(number, (host, Box::new(carries)));
        Connection { traffic: Arc::clone(self), number }
    }

    /// A log that also counts.
    pub(crate) fn counting(self: &Arc<Self>, log: Log) -> Log {
        let traffic = Arc::clone(self);
        Arc::new(move |access| {
            let outcome = (access.asked.name(), access.status.name());
            *traffic.lock().outcomes.entry(outcome).or_default() += 1;
            log(access);
        })
    }

    /// The hosts: those with open connections first, then those that were used last.
    pub fn hosts(&self) -> Vec<HostTraffic> {
        let inner = self.lock();
        let mut amounts: BTreeMap<&str, Amount> = BTreeMap::new();
        for (host, carries) in inner.live.values() {
            amounts.entry(host).or_default().add(carries.carried());
        }
        let mut rows: Vec<_> = inner.rows.iter().collect();
        rows.sort_by_key(|(host, row)| {
            (host.is_empty(), row.open == 0, std::cmp::Reverse(row.used))
        });
        let host = |(host, row): (&String, &Row)| {
            let mut amount = row.ended;
            amount.add(amounts.get(&host[..]).copied().unwrap_or_default());
            let Row { open, connections, .. } = *row;
            HostTraffic { host: host.clone(), open, connections, amount }
        };
        rows.into_iter().map(host).collect()
    }

    /// The number of open connections, and the bytes of all connections.
    pub fn totals(&self) -> (u64, Amount) {
        let inner = self.lock();
        let mut sum = Amount::default();
        inner.rows.values().for_each(|row| sum.add(row.ended));
        inner.live.values().for_each(|(_, carries)| sum.add(carries.carried()));
        (inner.live.len() as u64, sum)
    }

    /// How often connections and requests ended with each outcome: how they were asked for, their status, the number.
    pub fn outcomes(&self) -> Vec<(&'static str, &'static str, u64)> {
        let inner = self.lock();
        inner.outcomes.iter().map(|((asked, status), count)| (*asked, *status, *count)).collect()
    }
}

impl Inner {
    /// Makes room for one more row; the totals of a row that goes are moved to the others. Returns false if all rows
    /// have open connections.
    fn makes_room(&mut self, most: usize) -> bool {
        let named = self.rows.iter().filter(|(host, _)| !host.is_empty());
        if named.clone().count() < most {
            return true;
        }
        let idle = named.filter(|(_, row)| row.open == 0).min_by_key(|(_, row)| row.used);
        let Some(oldest) = idle.map(|(host, _)| host.clone()) else { return false };
        if let Some(row) = self.rows.remove(&oldest) {
            let others = self.rows.entry(OTHERS.to_owned()).or_default();
            others.connections += row.connections;
            others.ended.add(row.ended);
        }
        true
    }
}

/// Counts a connection as open until it is dropped.
#[derive(Debug)]
pub(crate) struct Connection {
    traffic: Arc<Traffic>,
    number: u64,
}

impl Drop for Connection {
    fn drop(&mut self) {
        let mut inner = self.traffic.lock();
        let Some((host, carries)) = inner.live.remove(&self.number) else { return };
        inner.clock += 1;
        let now = inner.clock;
        if let Some(row) = inner.rows.get_mut(&host) {
            row.open -= 1;
            row.ended.add(carries.carried());
            row.used = now;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Fixed(u64);

    impl Carries for Fixed {
        fn carried(&self) -> Amount {
            Amount::new(self.0, 2 * self.0)
        }
    }

    fn row(traffic: &Traffic, host: &str) -> Option<(u64, u64, u64)> {
        let hosts = traffic.hosts();
        let row = hosts.into_iter().find(|row| row.host == host)?;
        assert_eq!(row.amount.bytes_received, 2 * row.amount.bytes_sent);
        Some((row.open, row.connections, row.amount.bytes_sent))
    }

    #[test]
    fn open_connections_count_from_their_first_byte() {
        let traffic = Traffic::new(2);
        let first = traffic.begin("a.example", Fixed(1));
        let second = traffic.begin("a.example", Fixed(10));
        assert_eq!(row(&traffic, "a.example"), Some((2, 2, 11)));
        drop(first);
        assert_eq!(row(&traffic, "a.example"), Some((1, 2, 11)));
        drop(second);
        assert_eq!(row(&traffic, "a.example"), Some((0, 2, 11)));
        assert_eq!(traffic.totals(), (0, Amount::new(11, 22)));
    }

    #[test]
    fn rows_are_bounded_and_nothing_is_lost() {
        let traffic = Traffic::new(2);
        let open = traffic.begin("open.example", Fixed(1));
        drop(traffic.begin("old.example", Fixed(2)));
        drop(traffic.begin("new.example", Fixed(3)));
        assert_eq!(row(&traffic, "old.example"), None, "its row was taken");
        assert_eq!(row(&traffic, OTHERS), Some((0, 1, 2)));
        let also = traffic.begin("new.example", Fixed(4));
        let third = traffic.begin("third.example", Fixed(5));
        assert_eq!(row(&traffic, OTHERS), Some((1, 2, 7)), "the others have open connections");
        assert_eq!(traffic.totals(), (3, Amount::new(15, 30)));
        drop((open, also, third));
        drop(traffic.begin(&"x".repeat(256), Fixed(6)));
        assert_eq!(row(&traffic, OTHERS).map(|(_, connections, _)| connections), Some(3));
        let names: Vec<_> = traffic.hosts().into_iter().map(|row| row.host).collect();
        assert_eq!(names, ["new.example", "open.example", ""]);
    }
}
