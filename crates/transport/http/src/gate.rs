//! Limits the requests that a server processes at the same time, and the time it waits for slow peers.
//!
//! A request in progress occupies memory, an open file and sometimes a thread, and a peer may send requests on a
//! thousand streams without reading the answers. So the number of places for requests is limited, and a connection
//! gets at most a quarter of them. Other requests wait. Additional places are reserved for the first request of a
//! connection, so that a few connections with many requests cannot keep others out. A request keeps its place until
//! the transport has accepted the whole answer. But when others wait, an answer whose reader has stalled for a
//! quarter of a second loses its place and continues without one ([`parked`]). If there is no room for parking it,
//! it is ended once its connection has made no progress for five seconds. Any answer is ended after two minutes
//! without progress.
//!
//! At most one piece of an answer is read ahead: the next one is read when the transport has accepted the previous
//! one. So an answer without a reader holds little memory.
//!
//! The last request to arrive is served first. During an attack by clients that do not read, most requests that
//! arrived before an honest one belong to attackers. If requests were served in order of arrival, each of those
//! would block a place until it timed out.

mod open;
mod parked;
mod patience;
mod places;
mod watched;

use std::fmt;
use std::io::IoSlice;
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Waker};
use std::time::Duration;

use bytes::Bytes;
use http::StatusCode;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;

pub(crate) use self::open::End;
use self::open::Member;
use self::parked::Pass;
pub(crate) use self::patience::Patience;
use self::places::{Place, Places};
pub(crate) use self::watched::{Answer, Watched};
use crate::handed::{Handed, Next};
use crate::stream::Pending;

/// Default maximum number of requests in progress.
const MOST_REQUESTS: usize = 256;

/// Default maximum length of a request's head, in bytes.
const LONGEST_HEAD: usize = 16 << 10;

/// Bytes of an incomplete head that are always allowed.
const SHORT_HEAD: usize = 2 << 10;

/// Total bytes of incomplete heads allowed, for each request that may be in progress.
const HEADS: usize = 32 << 10;

/// Default time without progress after which an answer is ended.
const PATIENCE: Duration = Duration::from_secs(120);

/// The same time if other requests wait.
const LEAST_PATIENCE: Duration = Duration::from_secs(5);

/// The limits of a server.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// Maximum number of requests in progress.
    pub(crate) requests: usize,
    /// Maximum bytes of a request's head.
    pub(crate) head: usize,
    /// How long an answer may be in progress without any progress on its connection.
    pub(crate) patience: Duration,
    /// A connection may have only one request in progress.
    pub(crate) one_by_one: bool,
    /// Maximum number of answers that wait for their reader without a place; by default, eight for each request in
    /// progress.
    pub(crate) parked: Option<usize>,
}

impl Default for Limits {
    fn default() -> Self {
        let (requests, head, patience) = (MOST_REQUESTS, LONGEST_HEAD, PATIENCE);
        Self { requests, head, patience, one_by_one: false, parked: None }
    }
}

/// The places of a server.
#[derive(Clone, Debug)]
pub(crate) struct Gate(Arc<Places>);

impl Gate {
    /// Allows `limits.requests` requests in progress, and a quarter more for connections that have none.
    pub(crate) fn new(limits: Limits) -> Self {
        Self(Arc::new(Places::new(limits)))
    }

    /// `pending` returns the bytes that the transport holds for the peer, if the transport reports them. `activity`
    /// is called with `true` when a request is in progress after there was none, and with `false` when all answers
    /// are sent.
    pub(crate) fn connection(
        &self,
        pending: Option<Pending>,
        activity: Option<Activity>,
    ) -> Arc<Connection> {
        Arc::new(Connection {
            number: self.0.open.connection(),
            places: Arc::clone(&self.0),
            own: Arc::new(Semaphore::new(self.0.share())),
            at_work: Arc::default(),
            answering: AtomicUsize::new(0),
            moved: Mutex::new((Instant::now(), 0)),
            pending,
            activity,
        })
    }
}

/// The requests in progress of one connection.
pub(crate) struct Connection {
    number: u64,
    places: Arc<Places>,
    own: Arc<Semaphore>,
    /// The number of places that the connection holds; changed only while the line is locked.
    at_work: Arc<AtomicUsize>,
    /// Streams with a request whose answer the transport has not fully accepted.
    answering: AtomicUsize,
    /// When the transport or the peer last accepted part of an answer, and the number of pending bytes at that
    /// time.
    moved: Mutex<(Instant, u64)>,
    pending: Option<Pending>,
    activity: Option<Activity>,
}

/// Called with `true` when a request is in progress after there was none, and with `false` when all answers are
/// sent.
pub(crate) type Activity = Arc<dyn Fn(bool) + Send + Sync>;

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection").field("own", &self.own).finish_non_exhaustive()
    }
}

impl Connection {
    pub(crate) fn stream(self: &Arc<Self>) -> Arc<Stream> {
        let member = Arc::<Member>::default();
        let number = self.places.open.enter(self.number, Arc::clone(&member));
        let connection = Arc::clone(self);
        Arc::new(Stream { connection, number, member, state: Mutex::default() })
    }

    /// Ends the connection's streams after the answers in progress.
    pub(crate) fn stop(&self) {
        self.places.open.stop(self.number);
    }

    fn begin(&self) {
        if self.answering.fetch_add(1, Relaxed) == 0
            && let Some(activity) = &self.activity
        {
            activity(true);
        }
    }

    fn end(&self) {
        if self.answering.fetch_sub(1, Relaxed) == 1
            && let Some(activity) = &self.activity
        {
            activity(false);
        }
    }

    fn moved(&self) -> MutexGuard<'_, (Instant, u64)> {
        self.moved.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The time of the last progress. A slow peer reads from the transport's buffer long before the transport
    /// accepts more data.
    fn last_moved(&self) -> Instant {
        let pending = self.pending.as_ref().map_or(0, |pending| pending());
        let mut moved = self.moved();
        if moved.1 != pending {
            *moved = (Instant::now(), pending);
        }
        moved.0
    }
}

/// The request in progress on one stream.
#[derive(Debug)]
pub(crate) struct Stream {
    connection: Arc<Connection>,
    /// Unique among all open streams.
    number: u64,
    member: Arc<Member>,
    state: Mutex<State>,
}

/// The resource that a request holds.
#[derive(Debug)]
enum Held {
    /// A place, which is released when this is dropped.
    Place { _place: Place },
    /// A pass, which replaces the place after the reader has stalled.
    Pass { _pass: Pass },
}

#[derive(Debug, Default)]
struct State {
    /// The connection's permit for this request, and the resource that the request holds.
    places: Option<(OwnedSemaphorePermit, Held)>,
    /// Bytes of the answer's body that were read but not accepted by the transport yet.
    ahead: usize,
    /// The transport has accepted everything without stalling, so more than one piece may be read ahead.
    eager: bool,
    /// The transport has stalled since it last accepted everything.
    slow: bool,
    /// The task of a body that waits until the transport has accepted the bytes read ahead.
    waits: Option<Waker>,
    /// The request's head is complete, and its answer is not.
    answering: bool,
    /// The answer is complete, but the transport has not accepted all of it.
    answered: bool,
    /// Bytes received of an incomplete head.
    head: usize,
    /// The status with which the last request was refused.
    refused: Option<StatusCode>,
    /// Bytes that the answer's body has passed to hyper; `None` if the transport cannot send them without a copy.
    handed: Option<Handed>,
}

impl Stream {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn forget_head(&self, state: &mut State) {
        self.connection.places.heads.fetch_sub(std::mem::take(&mut state.head), Relaxed);
    }

    /// Called when a request is complete: waits until it may be processed.
    pub(crate) async fn enter(&self) {
        let has_places = {
            let mut state = self.state();
            self.forget_head(&mut state);
            if !state.answering {
                self.connection.begin();
            }
            (state.answering, state.answered) = (true, false);
            state.places.is_some()
        };
        if has_places {
            return;
        }
        let Ok(own) = Arc::clone(&self.connection.own).acquire_owned().await else { return };
        let places = &self.connection.places;
        let Some(place) = places.enter(&self.connection.at_work).await else { return };
        self.member.set_at_work(true);
        self.state().places = Some((own, Held::Place { _place: place }));
    }

    /// Waits until the stream must end. Returns how.
    pub(crate) async fn told_to_end(&self) -> End {
        self.member.told().await
    }

    /// How many bytes may be read now; `None` if the request's head is too long.
    ///
    /// Several requests may arrive together. The bytes read at a time are limited to the length of one head: if
    /// these contain no complete head, the head is too long.
    fn room(&self) -> Option<NonZeroUsize> {
        let state = self.state();
        if state.answering {
            return Some(NonZeroUsize::MAX);
        }
        let places = &self.connection.places;
        let crowded = places.heads.load(Relaxed) >= HEADS * places.most;
        let longest = if crowded { SHORT_HEAD.min(places.limits.head) } else { places.limits.head };
        NonZeroUsize::new(longest.saturating_sub(state.head))
    }

    /// Counts bytes of a head that arrived.
    fn read(&self, count: usize) {
        let mut state = self.state();
        if !state.answering {
            state.head += count;
            self.connection.places.heads.fetch_add(count, Relaxed);
        }
    }

    /// The status with which the last request was refused, if there was such a request.
    pub(crate) fn refused(&self) -> Option<StatusCode> {
        self.state().refused
    }

    /// Whether only a part of a head has arrived.
    pub(crate) fn has_part_of_a_head(&self) -> bool {
        let state = self.state();
        !state.answering && state.head > 0
    }

    fn answered(&self) {
        self.state().answered = true;
    }

    /// Whether more of the body may be read. If not, the task is woken later.
    fn may_read_on(&self, cx: &Context<'_>) -> bool {
        let mut state = self.state();
        let may = state.eager || state.ahead == 0;
        state.waits = (!may).then(|| cx.waker().clone());
        may
    }

    /// Counts bytes of the answer that the transport accepted.
    fn wrote(&self, count: usize) {
        let mut state = self.state();
        let before = state.ahead;
        state.ahead = before.saturating_sub(count);
        // The head of an answer is no measure of the reader's speed.
        if before == 0 || state.ahead > 0 || state.eager {
            return;
        }
        let slow = std::mem::take(&mut state.slow);
        if let Some((_, held @ Held::Pass { .. })) = &mut state.places
            && let Some(place) = self.connection.places.spare(&self.connection.at_work)
        {
            *held = Held::Place { _place: place };
        }
        state.eager = !slow && matches!(state.places, Some((_, Held::Place { .. })));
        if let Some(waker) = state.waits.take() {
            waker.wake();
        }
    }

    /// Called when the reader has stalled. If others wait, the answer loses its place. Returns whether it has none
    /// any more.
    fn stood_still(&self, crowded: bool) -> bool {
        let mut state = self.state();
        (state.eager, state.slow) = (false, true);
        let ahead = state.ahead;
        let Some((_, held @ Held::Place { .. })) = &mut state.places else { return true };
        if !crowded {
            return false;
        }
        let parked = &self.connection.places.parked;
        let pass = parked.enter(self.number, ahead, &self.member, &self.connection);
        let Some(pass) = pass else { return false };
        let place = std::mem::replace(held, Held::Pass { _pass: pass });
        drop(state);
        drop(place);
        true
    }

    /// Called when the transport has accepted everything.
    fn flushed(&self) {
        let mut state = self.state();
        if state.answered {
            let handed = state.handed.as_ref().map(|_| Handed::default());
            *state = State { head: state.head, handed, ..State::default() };
            self.member.set_at_work(false);
            self.connection.end();
        }
    }

    /// Records that `count` bytes of the body are passed to hyper; `bytes` are these bytes, if known.
    fn hand_on(&self, count: usize, bytes: Option<&Bytes>) {
        let mut state = self.state();
        state.ahead = state.ahead.saturating_add(count);
        if let (Some(handed), Some(bytes)) = (&mut state.handed, bytes) {
            handed.give(bytes);
        }
    }

    /// Returns what to write first from these slices.
    fn next(&self, slices: &[IoSlice<'_>]) -> Next {
        let mut state = self.state();
        state.handed.as_mut().map_or(Next::Slices(slices.len()), |handed| handed.next(slices))
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        let (head, answering) = {
            let state = self.state();
            (state.head, state.answering)
        };
        if answering {
            self.connection.end();
        }
        self.connection.places.heads.fetch_sub(head, Relaxed);
        self.connection.places.open.leave(self.connection.number, self.number);
    }
}

#[cfg(test)]
mod tests;
