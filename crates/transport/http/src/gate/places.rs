//! The places for requests in progress, and the line of requests that wait for one.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{Semaphore, oneshot};

use super::Limits;
use super::open::Open;
use super::parked::Parked;

/// One connection may hold 1/SHARE of all places.
pub(super) const SHARE: usize = 4;

/// Default maximum number of answers without a place, for each request in progress.
const PARKED: usize = 8;

#[derive(Debug)]
pub(super) struct Places {
    pub(super) most: usize,
    pub(super) limits: Limits,
    line: Mutex<Line>,
    /// Number of requests that wait for a place.
    pub(super) waiting: AtomicUsize,
    /// Total bytes of incomplete heads.
    pub(super) heads: AtomicUsize,
    pub(super) open: Open,
    pub(super) parked: Parked,
}

/// The free places, and the requests that wait for one.
#[derive(Debug)]
pub(super) struct Line {
    /// Number of free places: for any connection, and for connections without a request in progress.
    pub(super) free: [usize; 2],
    waiting: Vec<Waiter>,
}

impl Line {
    pub(super) fn has_waiters(&self) -> bool {
        self.waiting.iter().rev().any(|waiter| !waiter.place.is_closed())
    }
}

#[derive(Debug)]
struct Waiter {
    /// The number of places that the request's connection holds.
    at_work: Arc<AtomicUsize>,
    place: oneshot::Sender<Place>,
}

/// A place; when it is dropped, the next waiting request gets it.
#[derive(Debug)]
pub(super) struct Place {
    places: Arc<Places>,
    /// The kind of place: an index into `free`.
    kind: usize,
    /// The number of places that the request's connection holds.
    at_work: Arc<AtomicUsize>,
}

impl Drop for Place {
    fn drop(&mut self) {
        {
            let mut line = self.places.line();
            self.at_work.fetch_sub(1, Relaxed);
            line.free[self.kind] += 1;
        }
        // There are at most two to assign: this place, and one for its connection, which may have no
        // request in progress now.
        while let Some((sender, place)) = self.places.next() {
            // If the receiver is gone, the place is dropped here, and assigned to the next request.
            drop(sender.send(place));
        }
    }
}

/// Counts a waiting request while it exists.
struct Waiting<'a>(&'a AtomicUsize);

impl<'a> Waiting<'a> {
    fn new(waiting: &'a AtomicUsize) -> Self {
        waiting.fetch_add(1, Relaxed);
        Self(waiting)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
}

impl Places {
    pub(super) fn new(limits: Limits) -> Self {
        let most = limits.requests.clamp(1, Semaphore::MAX_PERMITS / 2);
        let parked = limits.parked.unwrap_or_else(|| most.saturating_mul(PARKED));
        Self {
            most,
            limits,
            line: Mutex::new(Line { free: [most, most.div_ceil(SHARE)], waiting: Vec::new() }),
            waiting: AtomicUsize::new(0),
            heads: AtomicUsize::new(0),
            open: Open::new(most),
            parked: Parked::new(parked),
        }
    }

    /// Maximum number of requests in progress for one connection.
    pub(super) fn share(&self) -> usize {
        if self.limits.one_by_one { 1 } else { self.most.div_ceil(SHARE) }
    }

    pub(super) fn line(&self) -> MutexGuard<'_, Line> {
        self.line.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Assigns a free place to a waiting request.
    fn next(self: &Arc<Self>) -> Option<(oneshot::Sender<Place>, Place)> {
        let mut line = self.line();
        for kind in [0, 1] {
            while line.free[kind] > 0 {
                let may = |waiter: &Waiter| kind == 0 || waiter.at_work.load(Relaxed) == 0;
                let Some(at) = line.waiting.iter().rposition(may) else { break };
                let Waiter { at_work, place } = line.waiting.remove(at);
                if !place.is_closed() {
                    line.free[kind] -= 1;
                    return Some((place, self.place(kind, &at_work)));
                }
            }
        }
        None
    }

    /// Takes a free place for the connection whose number of places is `at_work`.
    fn place(self: &Arc<Self>, kind: usize, at_work: &Arc<AtomicUsize>) -> Place {
        at_work.fetch_add(1, Relaxed);
        Place { places: Arc::clone(self), kind, at_work: Arc::clone(at_work) }
    }

    /// Takes a place for an answer that continues, unless requests wait.
    pub(super) fn spare(self: &Arc<Self>, at_work: &Arc<AtomicUsize>) -> Option<Place> {
        let mut line = self.line();
        if line.has_waiters() || line.free[0] == 0 {
            return None;
        }
        line.free[0] -= 1;
        Some(self.place(0, at_work))
    }

    pub(super) async fn enter(self: &Arc<Self>, at_work: &Arc<AtomicUsize>) -> Option<Place> {
        let place = {
            let mut line = self.line();
            let kinds = if at_work.load(Relaxed) == 0 { &[0, 1][..] } else { &[0] };
            match kinds.iter().find(|kind| line.free[**kind] > 0) {
                Some(&kind) => {
                    line.free[kind] -= 1;
                    return Some(self.place(kind, at_work));
                }
                None => {
                    if line.waiting.len() > 2 * self.waiting.load(Relaxed) {
                        line.waiting.retain(|waiter| !waiter.place.is_closed());
                    }
                    let (sender, place) = oneshot::channel();
                    line.waiting.push(Waiter { at_work: Arc::clone(at_work), place: sender });
                    place
                }
            }
        };
        let _waiting = Waiting::new(&self.waiting);
        place.await.ok()
    }
}
