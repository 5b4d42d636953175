//! Limits the open streams of all connections together.
//!
//! A stream occupies about 27 kB before it has sent a request, or while it waits for a place, and sending a byte
//! on each of a thousand streams costs an attacker nothing. So the total is limited. Beyond the limit, a new
//! stream evicts one of the connection that has the most, so connections with few streams keep theirs.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

/// Maximum number of streams, for each request that may be in progress.
const STREAMS: usize = 32;

/// The maximum is at least this number.
const LEAST: usize = 1024;

/// The state of one stream.
#[derive(Debug, Default)]
pub(super) struct Member {
    at_work: AtomicBool,
    /// The stream must end after its answer instead of immediately.
    last: AtomicBool,
    told: Notify,
}

/// How a stream must end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// Immediately: there are too many streams, or its slow reader keeps others from being served.
    Ousted,
    /// After the answer in progress, because the server stops.
    AfterAnswer,
}

impl Member {
    /// Sets whether the stream's request is being answered.
    pub(super) fn set_at_work(&self, at_work: bool) {
        self.at_work.store(at_work, Relaxed);
    }

    /// Makes the stream end immediately.
    pub(super) fn oust(&self) {
        self.told.notify_one();
    }

    /// Waits until the stream must end.
    pub(super) async fn told(&self) -> End {
        self.told.notified().await;
        if self.last.swap(false, Relaxed) { End::AfterAnswer } else { End::Ousted }
    }
}

/// The streams of a server.
#[derive(Debug)]
pub(super) struct Open {
    most: usize,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    next: u64,
    count: usize,
    /// The streams of each connection, oldest first.
    connections: BTreeMap<u64, BTreeMap<u64, Arc<Member>>>,
    /// Connections by number of streams; among those with equal numbers, the oldest connection last.
    sizes: BTreeSet<(usize, Reverse<u64>)>,
}

impl State {
    fn number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    /// Modifies the streams of a connection.
    fn change<T>(
        &mut self,
        connection: u64,
        change: impl FnOnce(&mut BTreeMap<u64, Arc<Member>>) -> T,
    ) -> T {
        let streams = self.connections.entry(connection).or_default();
        let before = streams.len();
        let changed = change(streams);
        let after = streams.len();
        if after == 0 {
            self.connections.remove(&connection);
        }
        self.count = self.count + after - before;
        self.sizes.remove(&(before, Reverse(connection)));
        if after > 0 {
            self.sizes.insert((after, Reverse(connection)));
        }
        changed
    }

    /// Selects a stream without an answer in progress, of the connection that has the most streams.
    fn least_needed(&self) -> Option<(u64, u64)> {
        self.sizes.iter().rev().find_map(|(_, Reverse(connection))| {
            let mut streams = self.connections.get(connection)?.iter();
            let (number, _) = streams.find(|(_, member)| !member.at_work.load(Relaxed))?;
            Some((*connection, *number))
        })
    }
}

impl Open {
    /// The limit follows from the number of requests in progress.
    pub(super) fn new(requests: usize) -> Self {
        Self { most: requests.saturating_mul(STREAMS).max(LEAST), state: Mutex::default() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Assigns a number to a connection.
    pub(super) fn connection(&self) -> u64 {
        self.state().number()
    }

    /// Adds a stream of a connection; evicts one if there are too many. Returns the number of the new stream.
    pub(super) fn enter(&self, connection: u64, member: Arc<Member>) -> u64 {
        let mut state = self.state();
        let number = state.number();
        state.change(connection, |streams| streams.insert(number, member));
        if state.count > self.most
            && let Some((connection, number)) = state.least_needed()
            && let Some(member) = state.change(connection, |streams| streams.remove(&number))
        {
            member.oust();
        }
        number
    }

    /// Makes the streams of a connection end after their answers.
    pub(super) fn stop(&self, connection: u64) {
        for member in
            self.state().connections.get(&connection).into_iter().flat_map(BTreeMap::values)
        {
            member.last.store(true, Relaxed);
            member.told.notify_one();
        }
    }

    /// Removes a stream of a connection that has ended.
    pub(super) fn leave(&self, connection: u64, number: u64) {
        self.state().change(connection, |streams| streams.remove(&number));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether the stream was evicted.
    fn is_ousted(member: &Member) -> bool {
        let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
        std::pin::pin!(member.told()).poll(&mut cx) == std::task::Poll::Ready(End::Ousted)
    }

    #[test]
    fn who_has_most_gives_way() {
        let open = Open::new(1);
        let enter = |connection| {
            let member = Arc::new(Member::default());
            (open.enter(connection, Arc::clone(&member)), member)
        };
        let [few, many, more] = [open.connection(), open.connection(), open.connection()];
        let kept: Vec<_> = (0..10).map(|_| enter(few)).collect();
        let first = enter(many);
        first.1.set_at_work(true);
        let streams: Vec<_> = (0..LEAST).map(|_| enter(many)).collect();
        assert_eq!(open.state().count, LEAST);
        let ousted = streams.iter().take_while(|(_, member)| is_ousted(member)).count();
        assert_eq!(ousted, 11, "the oldest of those that are not being answered");
        assert!(!is_ousted(&first.1));
        // In the end, both connections have the same number of streams.
        let others: Vec<_> = (0..LEAST).map(|_| enter(more)).collect();
        let sizes = |of| open.state().connections[&of].len();
        assert!(sizes(many).abs_diff(sizes(more)) <= 1);
        assert_eq!(sizes(few), 10);
        for (connection, all) in [(few, kept), (many, streams), (more, others), (many, vec![first])]
        {
            all.iter().for_each(|(number, _)| open.leave(connection, *number));
        }
        let state = open.state();
        assert_eq!((state.count, state.connections.len(), state.sizes.len()), (0, 0, 0));
    }
}
