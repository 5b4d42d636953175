//! Limits the requests that a server works on at once, and the time that it waits for slow peers.
//!
//! A request at work costs memory, an open file and now and then a thread. A peer may ask on a
//! thousand streams and take nothing: so there are so many places for all, and one connection has a
//! quarter of them at the most. Whoever is not at work yet waits; the first request of a connection has
//! places of its own, so that no number of requests of a few connections keeps others out. A place is
//! kept until the transport has taken all of the answer. When others wait for it, an answer that its
//! reader has not taken for a quarter of a second goes on without one ([`parked`]). If there is no room
//! for it there, it ends once nothing has moved on its connection for five seconds. Any answer ends when
//! nothing has moved for two minutes.
//!
//! An answer is one piece ahead of its reader until the transport has taken all of that, so that one which
//! nobody reads holds little.
//!
//! The last request to arrive is served first. In a crowd of clients that read nothing, most requests
//! that arrived before an honest one belong to that crowd; served in order of arrival, each would block
//! a place until its time is up.

mod open;
mod parked;
mod patience;

use std::any::Any;
use std::fmt;
use std::io::{self, IoSlice};
use std::num::NonZeroUsize;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::{Buf, Bytes};
use http::StatusCode;
use http_body::{Body, Frame, SizeHint};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};
use tokio::time::{Instant, Sleep, sleep};

pub(crate) use self::open::End;
use self::open::{Member, Open};
use self::parked::{Parked, Pass};
pub(crate) use self::patience::Patience;
use crate::handed::{Handed, Next};
use crate::stream::{Pending, TakeBytes};

/// Default number of requests at work.
const MOST_REQUESTS: usize = 256;

/// One connection may have 1/SHARE of all places.
const SHARE: usize = 4;

/// Default limit for a request's head, in bytes.
const LONGEST_HEAD: usize = 16 << 10;

/// Bytes of an incomplete head that are always allowed.
const SHORT_HEAD: usize = 2 << 10;

/// Bytes of incomplete heads, for each request that may be at work.
const HEADS: usize = 32 << 10;

/// Default time without progress on a connection with an answer to send.
const PATIENCE: Duration = Duration::from_secs(120);

/// The same when others wait.
const LEAST_PATIENCE: Duration = Duration::from_secs(5);

/// How often that is checked.
const LOOK: Duration = Duration::from_secs(1);

/// How long an answer may stand still and keep its place when others wait.
const STILL: Duration = Duration::from_millis(250);

/// Answers that wait for their reader without a place, for each request at work, unless told otherwise.
const PARKED: usize = 8;

/// What a server bounds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// Requests at work.
    pub(crate) requests: usize,
    /// Bytes of a request's head.
    pub(crate) head: usize,
    /// How long nothing may move on a connection that has an answer coming.
    pub(crate) patience: Duration,
    /// A connection has one request at work at a time.
    pub(crate) one_by_one: bool,
    /// Answers that wait for their reader and have no place; unless given, as many as [`PARKED`] says.
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

#[derive(Debug)]
struct Places {
    most: usize,
    limits: Limits,
    line: Mutex<Line>,
    /// Requests that wait for a place that others have.
    waiting: AtomicUsize,
    /// Bytes of heads that are not complete.
    heads: AtomicUsize,
    open: Open,
    parked: Parked,
}

/// Places that are free, and who waits for them.
#[derive(Debug)]
struct Line {
    /// For everybody, and for connections that have nothing at work.
    free: [usize; 2],
    waiting: Vec<Waiter>,
}

impl Line {
    fn has_waiters(&self) -> bool {
        self.waiting.iter().rev().any(|waiter| !waiter.place.is_closed())
    }
}

#[derive(Debug)]
struct Waiter {
    /// Places that its connection has.
    at_work: Arc<AtomicUsize>,
    place: oneshot::Sender<Place>,
}

/// A place; when it is dropped, the next waiting request gets it.
#[derive(Debug)]
struct Place {
    places: Arc<Places>,
    /// The kind of free place that it came from.
    kind: usize,
    /// Places that its connection has.
    at_work: Arc<AtomicUsize>,
}

impl Drop for Place {
    fn drop(&mut self) {
        {
            let mut line = self.places.line();
            self.at_work.fetch_sub(1, Relaxed);
            line.free[self.kind] += 1;
        }
        // At most two: its own, and one for its connection, which may have nothing at work now.
        while let Some((sender, place)) = self.places.next() {
            // If the receiver is gone, the place is dropped here, and given to the next one.
            drop(sender.send(place));
        }
    }
}

impl Gate {
    /// At most this many requests at work at once, and a quarter more for connections that have
    /// none.
    pub(crate) fn new(limits: Limits) -> Self {
        let most = limits.requests.clamp(1, Semaphore::MAX_PERMITS / 2);
        let parked = limits.parked.unwrap_or_else(|| most.saturating_mul(PARKED));
        Self(Arc::new(Places {
            most,
            limits,
            line: Mutex::new(Line { free: [most, most.div_ceil(SHARE)], waiting: Vec::new() }),
            waiting: AtomicUsize::new(0),
            heads: AtomicUsize::new(0),
            open: Open::new(most),
            parked: Parked::new(parked),
        }))
    }

    /// `pending`: bytes that the transport holds for the peer, if it reports them. `activity`: called when a
    /// connection begins to be answered (`true`), and when nothing is left to be sent.
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
    /// Requests that one connection may have at work.
    fn share(&self) -> usize {
        if self.limits.one_by_one { 1 } else { self.most.div_ceil(SHARE) }
    }

    fn line(&self) -> MutexGuard<'_, Line> {
        self.line.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a free place for a waiting request.
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

    /// A place that was free, for a connection with this many requests at work.
    fn place(self: &Arc<Self>, kind: usize, at_work: &Arc<AtomicUsize>) -> Place {
        at_work.fetch_add(1, Relaxed);
        Place { places: Arc::clone(self), kind, at_work: Arc::clone(at_work) }
    }

    /// A place for one that goes on, if nobody waits for it.
    fn spare(self: &Arc<Self>, at_work: &Arc<AtomicUsize>) -> Option<Place> {
        let mut line = self.line();
        if line.has_waiters() || line.free[0] == 0 {
            return None;
        }
        line.free[0] -= 1;
        Some(self.place(0, at_work))
    }

    async fn enter(self: &Arc<Self>, at_work: &Arc<AtomicUsize>) -> Option<Place> {
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

/// The requests at work of one connection.
pub(crate) struct Connection {
    number: u64,
    places: Arc<Places>,
    own: Arc<Semaphore>,
    /// Places that it has; changed while the line is held.
    at_work: Arc<AtomicUsize>,
    /// Streams with a request whose answer the transport has not fully taken.
    answering: AtomicUsize,
    /// When the transport or the peer last took some of an answer, and the pending bytes then.
    moved: Mutex<(Instant, u64)>,
    pending: Option<Pending>,
    activity: Option<Activity>,
}

/// Called with `true` when a connection begins to be answered, and with `false` when nothing is left to be sent.
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

    /// Its streams end after their answers.
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

    /// When there was last progress. A slow peer reads the transport's buffer long before the
    /// transport takes more.
    fn last_moved(&self) -> Instant {
        let pending = self.pending.as_ref().map_or(0, |pending| pending());
        let mut moved = self.moved();
        if moved.1 != pending {
            *moved = (Instant::now(), pending);
        }
        moved.0
    }
}

/// The requests at work of one stream.
#[derive(Debug)]
pub(crate) struct Stream {
    connection: Arc<Connection>,
    /// Of all open streams.
    number: u64,
    member: Arc<Member>,
    state: Mutex<State>,
}

/// What a request has of what there is for all.
#[derive(Debug)]
enum Held {
    /// It is given back when it is dropped.
    Place { _place: Place },
    /// It had one, and its reader took nothing.
    Pass { _pass: Pass },
}

#[derive(Debug, Default)]
struct State {
    /// What the request has of its connection and of all.
    places: Option<(OwnedSemaphorePermit, Held)>,
    /// Bytes of the answer's body that were read and that the transport has not taken.
    ahead: usize,
    /// The transport has taken what there was without standing still, so that more may be read than the next piece.
    eager: bool,
    /// It has stood still since it last took all.
    slow: bool,
    /// The body waits until the transport has taken what there is.
    waits: Option<Waker>,
    /// A head is complete, and its answer is not.
    answering: bool,
    /// The answer is complete, but the transport has not taken all of it.
    answered: bool,
    /// Bytes of a head that is not complete.
    head: usize,
    /// The status with which the last request was refused.
    refused: Option<StatusCode>,
    /// The bytes that the answer's body has passed to hyper, if the transport takes them without
    /// copying.
    handed: Option<Handed>,
}

impl Stream {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn forget_head(&self, state: &mut State) {
        self.connection.places.heads.fetch_sub(std::mem::take(&mut state.head), Relaxed);
    }

    /// A request is complete: waits until it may be worked on.
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

    /// Waits until it must end.
    pub(crate) async fn told_to_end(&self) -> End {
        self.member.told().await
    }

    /// How many bytes may be read now; `None` if a head is longer than it may be.
    ///
    /// Several requests may come at once. No more bytes are read than one head may have, so if these contain no
    /// complete head, the head is too long.
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

    /// Bytes of a head came.
    fn read(&self, count: usize) {
        let mut state = self.state();
        if !state.answering {
            state.head += count;
            self.connection.places.heads.fetch_add(count, Relaxed);
        }
    }

    /// The status with which the last request was refused, if it was.
    pub(crate) fn refused(&self) -> Option<StatusCode> {
        self.state().refused
    }

    /// Whether only part of a head has come.
    pub(crate) fn has_part_of_a_head(&self) -> bool {
        let state = self.state();
        !state.answering && state.head > 0
    }

    fn answered(&self) {
        self.state().answered = true;
    }

    /// Whether more of the body may be read; if not, the task is woken when it may.
    fn may_read_on(&self, cx: &Context<'_>) -> bool {
        let mut state = self.state();
        let may = state.eager || state.ahead == 0;
        state.waits = (!may).then(|| cx.waker().clone());
        may
    }

    /// The transport took some bytes of the answer.
    fn wrote(&self, count: usize) {
        let mut state = self.state();
        let before = state.ahead;
        state.ahead = before.saturating_sub(count);
        // The head of an answer says nothing of its reader.
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

    /// Its reader takes nothing: its place is for others if there is a crowd. Whether it has none any more.
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

    /// The transport has taken all that there was.
    fn flushed(&self) {
        let mut state = self.state();
        if state.answered {
            let handed = state.handed.as_ref().map(|_| Handed::default());
            *state = State { head: state.head, handed, ..State::default() };
            self.member.set_at_work(false);
            self.connection.end();
        }
    }

    /// So many bytes of an answer are on their way to being written, these if they are known.
    fn hand_on(&self, count: usize, bytes: Option<&Bytes>) {
        let mut state = self.state();
        state.ahead = state.ahead.saturating_add(count);
        if let (Some(handed), Some(bytes)) = (&mut state.handed, bytes) {
            handed.give(bytes);
        }
    }

    /// What to write first of these slices.
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

/// The body of an answer, which reports when it is complete or abandoned.
pub(crate) struct Answer<B> {
    /// An answer of the server itself has none.
    body: Option<Pin<Box<B>>>,
    stream: Arc<Stream>,
}

impl<B> Answer<B> {
    pub(crate) fn new(body: B, stream: Arc<Stream>) -> Self {
        Self { body: Some(Box::pin(body)), stream }
    }

    pub(crate) fn empty(stream: Arc<Stream>) -> Self {
        Self { body: None, stream }
    }
}

impl<B> Drop for Answer<B> {
    fn drop(&mut self) {
        self.stream.answered();
    }
}

impl<B: Body + 'static> Body for Answer<B> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<B::Data>, B::Error>>> {
        let Self { body: Some(body), stream } = &mut *self else { return Poll::Ready(None) };
        if !stream.may_read_on(cx) {
            return Poll::Pending;
        }
        let polled = body.as_mut().poll_frame(cx);
        if let Poll::Ready(Some(Ok(frame))) = &polled
            && let Some(data) = frame.data_ref()
        {
            stream.hand_on(data.remaining(), (data as &dyn Any).downcast_ref());
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.as_ref().is_none_or(|body| body.is_end_stream())
    }

    fn size_hint(&self) -> SizeHint {
        self.body.as_ref().map_or_else(|| SizeHint::with_exact(0), |body| body.size_hint())
    }
}

/// A stream whose requests wait for places, and which breaks when its peer reads nothing.
#[derive(Debug)]
pub(crate) struct Watched<S> {
    inner: S,
    stream: Arc<Stream>,
    /// Since when nothing could be written, and when that is checked.
    stalled: Option<(Instant, Pin<Box<Sleep>>)>,
}

impl<S: TakeBytes + Unpin> Watched<S> {
    pub(crate) fn new(inner: S, stream: Arc<Stream>) -> Self {
        stream.state().handed = inner.takes_bytes().then(Handed::default);
        Self { inner, stream, stalled: None }
    }

    /// Answers a malformed request, if that is possible now, and ends the stream. Earlier requests are answered, so
    /// the client expects an answer to this one, too.
    pub(crate) fn refuse(&mut self, cx: &mut Context<'_>, status: StatusCode) {
        let reason = status.canonical_reason().unwrap_or_default();
        let answer = format!(
            "HTTP/1.1 {} {reason}\r\nconnection: close\r\ncontent-length: 0\r\n\r\n",
            status.as_u16()
        );
        if Pin::new(&mut self.inner).poll_write(cx, answer.as_bytes()).is_ready() {
            let _ = Pin::new(&mut self.inner).poll_shutdown(cx);
        }
        self.stream.state().refused = Some(status);
    }

    /// Something was written, or not for some time.
    fn watch(
        &mut self,
        cx: &mut Context<'_>,
        written: Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        let connection = &self.stream.connection;
        if let Poll::Ready(result) = written {
            self.stalled = None;
            connection.moved().0 = Instant::now();
            if let Ok(count) = result {
                self.stream.wrote(count);
            }
            return Poll::Ready(result);
        }
        let begin = || (Instant::now(), Box::pin(sleep(STILL)));
        let (since, look) = self.stalled.get_or_insert_with(begin);
        while look.as_mut().poll(cx).is_ready() {
            let crowded = connection.places.line().has_waiters();
            let parked = self.stream.stood_still(crowded);
            let patience = connection.places.limits.patience;
            let patience = if crowded && !parked { patience.min(LEAST_PATIENCE) } else { patience };
            let since = (*since).max(connection.last_moved());
            if since.elapsed() >= patience {
                return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
            }
            look.as_mut().reset(Instant::now() + if parked { LOOK } else { STILL });
        }
        Poll::Pending
    }
}

impl<S: AsyncRead + TakeBytes + Unpin> AsyncRead for Watched<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let Some(room) = self.stream.room().map(NonZeroUsize::get) else {
            self.refuse(cx, StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE);
            return Poll::Ready(Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "too long a request",
            )));
        };
        let before = buf.filled().len();
        let result = if buf.remaining() <= room {
            Pin::new(&mut self.inner).poll_read(cx, buf)
        } else {
            let mut part = ReadBuf::new(buf.initialize_unfilled_to(room));
            let result = Pin::new(&mut self.inner).poll_read(cx, &mut part);
            let read = part.filled().len();
            buf.advance(read);
            result
        };
        let read = buf.filled().len().saturating_sub(before);
        if matches!(result, Poll::Ready(Ok(()))) && read > 0 {
            self.stream.read(read);
        }
        result
    }
}

impl<S: TakeBytes + Unpin> AsyncWrite for Watched<S> {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let written = Pin::new(&mut this.inner).poll_write(cx, buf);
        this.watch(cx, written)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let inner = Pin::new(&mut this.inner);
        let written = match this.stream.next(bufs) {
            Next::Bytes(bytes) => inner.poll_take_bytes(cx, &bytes),
            Next::Slices(count) => inner.poll_write_vectored(cx, &bufs[..count]),
        };
        this.watch(cx, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.inner).poll_flush(cx);
        if matches!(flushed, Poll::Ready(Ok(()))) {
            self.stream.flushed();
        }
        flushed
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests;
