//! Fetches a list of files over a pool of streams.

mod sink;

use std::collections::{BTreeMap, VecDeque};
use std::error::Error as _;
use std::io;
use std::path::PathBuf;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::join_all;
use http::header::{CONTENT_LENGTH, CONTENT_RANGE, ETAG, HOST, IF_RANGE, RANGE, USER_AGENT};
use http::{Request, StatusCode};
use http_body_util::{BodyExt, Empty};
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use tokio::time::{Instant, timeout_at};

use self::sink::Sink;
pub use self::sink::{Part, part_of};
use crate::error::{FetchError, root_cause};
use crate::stream::{Counted, Counters, OpenStreams, StreamTotals};

/// What the server learns about the client.
const AGENT: &str = concat!("anabranch/", env!("CARGO_PKG_VERSION"));

/// One file to fetch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transaction {
    /// Value of the Host field.
    pub host: String,
    /// Path and query as a request line has them.
    pub target: String,
    /// Where the body goes.
    pub output: Output,
}

/// Where an answer's body goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// A file, which has its name when it is whole. What has come of it when the connection breaks
    /// or the future is dropped is kept beside it ([`part_of`]), if the server gives a strong
    /// entity tag.
    File {
        /// Its name; the directory must exist.
        path: PathBuf,
        /// Go on with what was kept, if the server still has the same.
        resume: bool,
    },
    /// A device or a pipe, which is written to and not replaced; nothing can be gone on with.
    Device(PathBuf),
    /// Standard output.
    Stdout,
}

impl Output {
    /// A file of this name, or what else it is the name of.
    pub fn named(path: PathBuf, resume: bool) -> Self {
        match std::fs::metadata(&path) {
            Ok(found) if !found.is_file() => Self::Device(path),
            _ => Self::File { path, resume },
        }
    }
}

/// A file that was fetched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fetched {
    /// The stream that carried it.
    pub stream: u16,
    /// Bytes of the body that came.
    pub bytes: u64,
    /// Bytes that were there already.
    pub resumed: u64,
}

/// Outcome of [`fetch`].
#[derive(Debug)]
pub struct FetchReport {
    /// One for each transaction, in the order given.
    pub results: Vec<Result<Fetched, FetchError>>,
    /// The streams used, by number.
    pub streams: Vec<StreamTotals>,
}

/// Is told how a fetch goes on. Transactions are named by their index.
pub trait Observer: Sync {
    /// The answer has begun; `total` bytes will come if the server says so. A transaction whose
    /// request went unanswered may begin again on another stream.
    fn started(&self, transaction: usize, stream: u16, total: Option<u64>) {
        let _ = (transaction, stream, total);
    }
    /// So many bytes more have come.
    fn progress(&self, transaction: usize, bytes: u64) {
        let _ = (transaction, bytes);
    }
    /// The transaction is over; called once for each.
    fn finished(&self, transaction: usize, result: &Result<Fetched, FetchError>) {
        let _ = (transaction, result);
    }
}

/// An observer that ignores everything.
#[derive(Clone, Copy, Debug)]
pub struct Silent;

impl Observer for Silent {}

/// Carries out `transactions` over at most `streams` streams of `connection`. They begin in the
/// order given, each on the next stream that is free.
///
/// A failed transaction does not stop the others. Dropping the future leaves no unfinished file
/// behind.
pub async fn fetch<C: OpenStreams>(
    connection: &C,
    transactions: &[Transaction],
    streams: usize,
    observer: &dyn Observer,
) -> FetchReport {
    fetch_within(connection, transactions, streams, observer, None).await
}

/// The same, and gives up when nothing has come on any stream for `silence`: neither what is under
/// way nor what has not begun is waited for then. To be called within a tokio runtime with a timer.
pub async fn fetch_within<C: OpenStreams>(
    connection: &C,
    transactions: &[Transaction],
    streams: usize,
    observer: &dyn Observer,
    silence: Option<Duration>,
) -> FetchReport {
    let pool = Pool {
        connection,
        transactions,
        observer,
        silence,
        heard: Mutex::new(Instant::now()),
        silent: AtomicBool::new(false),
        state: Mutex::new(State {
            queue: (0..transactions.len()).map(|index| Attempt { index, again: false }).collect(),
            results: transactions.iter().map(|_| None).collect(),
            counters: BTreeMap::new(),
        }),
    };
    let workers = streams.clamp(1, transactions.len().max(1));
    join_all((0..workers).map(|_| pool.work())).await;

    let state = pool.state.into_inner().unwrap_or_else(PoisonError::into_inner);
    let unanswered = || FetchError::Stream(io::ErrorKind::NotConnected.into());
    let totals = state.counters.iter().map(|(id, c)| c.totals(*id)).collect();
    FetchReport {
        results: state
            .results
            .into_iter()
            .map(|r| r.unwrap_or_else(|| Err(unanswered())))
            .collect(),
        streams: totals,
    }
}

struct Pool<'a, C> {
    connection: &'a C,
    transactions: &'a [Transaction],
    observer: &'a dyn Observer,
    /// How long nothing may come.
    silence: Option<Duration>,
    /// When something last came on any stream, or was last asked for.
    heard: Mutex<Instant>,
    /// Nothing came for too long.
    silent: AtomicBool,
    state: Mutex<State>,
}

struct State {
    queue: VecDeque<Attempt>,
    results: Vec<Option<Result<Fetched, FetchError>>>,
    /// By stream; a number comes again when a stream is used anew after its end.
    counters: BTreeMap<u16, Arc<Counters>>,
}

/// A transaction in the queue.
#[derive(Clone, Copy)]
struct Attempt {
    index: usize,
    /// It was begun before on a stream that ended without taking the request.
    again: bool,
}

/// How the stream goes on after a transaction.
enum Next {
    /// It is free.
    Free,
    /// It is of no more use.
    Over,
}

impl<C: OpenStreams> Pool<'_, C> {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take(&self) -> Option<Attempt> {
        self.state().queue.pop_front()
    }

    fn settle(&self, index: usize, result: Result<Fetched, FetchError>) {
        self.observer.finished(index, &result);
        if let Some(slot) = self.state().results.get_mut(index) {
            *slot = Some(result);
        }
    }

    /// One stream of the pool; a stream that ends is replaced while there is something to do.
    async fn work(&self) {
        while let Some(attempt) = self.take() {
            match self.silence.filter(|_| self.silent.load(Relaxed)) {
                Some(silence) => self.settle(attempt.index, Err(FetchError::Silent(silence))),
                None => self.run_stream(attempt).await,
            }
        }
    }

    fn heard(&self) -> MutexGuard<'_, Instant> {
        self.heard.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for something that comes from the server, as long as anything does.
    async fn hear<T>(&self, what: impl Future<Output = T>) -> Result<T, FetchError> {
        let Some(silence) = self.silence else { return Ok(what.await) };
        let mut what = pin!(what);
        *self.heard() = Instant::now();
        loop {
            let until = *self.heard() + silence;
            match timeout_at(until, &mut what).await {
                Ok(came) => {
                    *self.heard() = Instant::now();
                    return Ok(came);
                }
                Err(_) if *self.heard() + silence > until => {}
                Err(_) => {
                    self.silent.store(true, Relaxed);
                    return Err(FetchError::Silent(silence));
                }
            }
        }
    }

    /// Opens a stream and carries out transactions on it, beginning with `first`.
    async fn run_stream(&self, first: Attempt) {
        let opened = self.hear(self.connection.open()).await;
        let stream = match opened.and_then(|opened| opened.map_err(FetchError::Stream)) {
            Ok(stream) => stream,
            Err(error) => return self.settle(first.index, Err(error)),
        };
        let id = stream.id;
        let counters = Arc::clone(self.state().counters.entry(id).or_default());
        let io = TokioIo::new(Counted::new(stream.io, Arc::clone(&counters)));
        let (mut sender, driver) = match http1::handshake(io).await {
            Ok(halves) => halves,
            Err(error) => {
                let reason = root_cause(&error);
                let broken = FetchError::Broken { received: 0, expected: None, reason };
                return self.settle(first.index, Err(broken));
            }
        };
        let transactions = async {
            let mut next = Some(first);
            while let Some(attempt) = next {
                match self.transact(&mut sender, attempt, id, &counters).await {
                    Next::Free if !sender.is_closed() => next = self.take(),
                    Next::Free | Next::Over => break,
                }
            }
            // The driver ends the stream once nobody can send requests any more.
            drop(sender);
        };
        // What breaks the driver has been told to the transaction that was under way.
        let ((), _) = futures_util::future::join(transactions, driver).await;
    }

    async fn transact(
        &self,
        sender: &mut SendRequest<Empty<Bytes>>,
        attempt: Attempt,
        stream: u16,
        counters: &Counters,
    ) -> Next {
        let Attempt { index, again } = attempt;
        let Some(transaction) = self.transactions.get(index) else {
            return Next::Free;
        };
        let part = match &transaction.output {
            Output::File { path, resume: true } => sink::look_for_part(path).await,
            Output::File { .. } | Output::Device(_) | Output::Stdout => None,
        };
        let mut request = Request::get(transaction.target.as_str())
            .header(HOST, transaction.host.as_str())
            .header(USER_AGENT, AGENT);
        if let Some(part) = &part {
            request = request
                .header(RANGE, format!("bytes={}-", part.bytes))
                .header(IF_RANGE, format!("\"{}\"", part.tag));
        }
        let request = match request.body(Empty::new()) {
            Ok(request) => request,
            Err(error) => {
                self.settle(index, Err(FetchError::Request(error)));
                return Next::Free;
            }
        };
        let response = match self.hear(sender.send_request(request)).await {
            Ok(response) => response,
            Err(silent) => {
                self.settle(index, Err(silent));
                return Next::Over;
            }
        };
        let response = match response {
            Ok(response) => response,
            // The server ended the idle stream before the request was on it.
            Err(error) if error.is_canceled() && !again => {
                self.state().queue.push_front(Attempt { index, again: true });
                return Next::Over;
            }
            Err(error) => {
                let broken = broken(&error, 0, None);
                self.settle(index, Err(broken));
                return Next::Over;
            }
        };
        let result = self.receive(transaction, part, index, stream, response).await;
        let next = if result.is_ok() { Next::Free } else { Next::Over };
        // An answer that is not wanted, but whole, leaves the stream as good as before.
        let next = if matches!(result, Err(FetchError::Status(_))) { Next::Free } else { next };
        if matches!(next, Next::Free) {
            counters.transaction();
        }
        self.settle(index, result);
        next
    }

    async fn receive(
        &self,
        transaction: &Transaction,
        part: Option<Part>,
        index: usize,
        stream: u16,
        response: http::Response<hyper::body::Incoming>,
    ) -> Result<Fetched, FetchError> {
        let (head, mut body) = response.into_parts();
        let field = |name| head.headers.get(name).and_then(|value| value.to_str().ok());
        let expected = field(CONTENT_LENGTH).and_then(|value| value.parse::<u64>().ok());
        let kept = part.as_ref().filter(|part| goes_on(head.status, field(CONTENT_RANGE), part));
        if head.status != StatusCode::OK && kept.is_none() {
            // Read to the end, so that the stream can be used again.
            while let Some(frame) = self.hear(body.frame()).await? {
                if let Err(error) = frame {
                    return Err(broken(&error, 0, expected));
                }
            }
            return Err(FetchError::Status(head.status));
        }
        self.observer.started(index, stream, expected);
        let mut sink = match (&transaction.output, kept) {
            (Output::Stdout, _) => Sink::stdout(),
            (Output::Device(path), _) => Sink::device(path).await?,
            (Output::File { path, .. }, Some(part)) => Sink::resume(path, part).await?,
            (Output::File { path, .. }, None) => {
                if let Some(old) = &part {
                    // The server has something else by now. That the rest of an earlier fetch
                    // cannot be removed keeps nobody from fetching.
                    let _ = std::fs::remove_file(&old.path);
                }
                Sink::create(path, field(ETAG)).await?
            }
        };
        let resumed = kept.map_or(0, |part| part.bytes);
        if head.status == StatusCode::RANGE_NOT_SATISFIABLE {
            // All of it was there, so that this body is no part of the file.
            while self.hear(body.frame()).await?.is_some() {}
            sink.finish().await?;
            return Ok(Fetched { stream, bytes: 0, resumed });
        }
        let bytes = match self.fill(index, &mut sink, &mut body, expected).await {
            Ok(bytes) => bytes,
            Err(error) => {
                sink.keep().await;
                return Err(error);
            }
        };
        if let Some(expected) = expected.filter(|&expected| expected != bytes) {
            return Err(FetchError::Length { received: bytes, expected });
        }
        sink.finish().await?;
        Ok(Fetched { stream, bytes, resumed })
    }

    /// Writes a body as it comes; returns its bytes.
    async fn fill(
        &self,
        index: usize,
        sink: &mut Sink,
        body: &mut hyper::body::Incoming,
        expected: Option<u64>,
    ) -> Result<u64, FetchError> {
        let mut bytes = 0;
        while let Some(frame) = self.hear(body.frame()).await? {
            let frame = frame.map_err(|error| broken(&error, bytes, expected))?;
            if let Ok(piece) = frame.into_data() {
                let len = piece.len() as u64;
                bytes += len;
                sink.write(piece).await?;
                self.observer.progress(index, len);
            }
        }
        Ok(bytes)
    }
}

/// Whether an answer goes on where a part ends: from there on, or with nothing as that is all.
fn goes_on(status: StatusCode, range: Option<&str>, part: &Part) -> bool {
    let range = range.unwrap_or_default();
    match status {
        StatusCode::PARTIAL_CONTENT => range.starts_with(&format!("bytes {}-", part.bytes)),
        StatusCode::RANGE_NOT_SATISFIABLE => range == format!("bytes */{}", part.bytes),
        _ => false,
    }
}

fn broken(error: &hyper::Error, received: u64, expected: Option<u64>) -> FetchError {
    // hyper's own words for an early end name its state rather than what happened.
    let early_end = error
        .source()
        .and_then(|source| source.downcast_ref::<io::Error>())
        .is_none_or(|source| source.kind() == io::ErrorKind::UnexpectedEof);
    let closed = error.is_incomplete_message() || (early_end && !error.is_parse());
    let reason = if closed { "the server closed it".to_owned() } else { root_cause(error) };
    FetchError::Broken { received, expected, reason }
}

#[cfg(test)]
mod tests;
