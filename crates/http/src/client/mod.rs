//! Fetches a list of files over a pool of streams.

mod sink;
mod table;

use std::collections::{BTreeMap, VecDeque};
use std::fmt::Write as _;
use std::io;
use std::path::PathBuf;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::future::join_all;
use http::header::{CONTENT_LENGTH, CONTENT_RANGE, ETAG, HeaderValue};
use http::{Request, StatusCode};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::time::{Instant, timeout, timeout_at};

use self::sink::Sink;
pub use self::sink::{Part, part_of};
pub use self::table::Placement;
use self::table::{Attempt, Table};
use crate::answers::{Answers, Head, WireError};
use crate::error::FetchError;
use crate::priority::Priority;
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

/// How transactions are carried out.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct FetchOptions {
    /// Streams at the most.
    pub streams: usize,
    /// Requests on a stream that are not answered yet, at the most; 1 does not pipeline.
    pub depth: usize,
    /// Which stream a transaction goes on.
    pub placement: Placement,
    /// Gives up when nothing has come on any stream for so long.
    pub silence: Option<Duration>,
    /// What is asked of a server that tells requests apart by it.
    pub priority: Option<Priority>,
}

impl FetchOptions {
    /// So many streams, with one request at a time each, on whichever is free.
    pub fn new(streams: usize) -> Self {
        let placement = Placement::NextFree;
        Self { streams, depth: 1, placement, silence: None, priority: None }
    }

    /// Sends up to so many requests on a stream before the first of them is answered, and takes
    /// streams in turn.
    #[must_use]
    pub fn with_depth(mut self, depth: usize) -> Self {
        self.depth = depth;
        if depth > 1 && self.placement == Placement::NextFree {
            self.placement = Placement::RoundRobin;
        }
        self
    }

    /// Chooses streams in this way.
    #[must_use]
    pub fn with_placement(mut self, placement: Placement) -> Self {
        self.placement = placement;
        self
    }

    /// Gives up when nothing has come on any stream for so long.
    #[must_use]
    pub fn with_silence(mut self, silence: Option<Duration>) -> Self {
        self.silence = silence;
        self
    }

    /// Asks for this priority (RFC 9218).
    #[must_use]
    pub fn with_priority(mut self, priority: Option<Priority>) -> Self {
        self.priority = priority;
        self
    }
}

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
    fetch_with(connection, transactions, &FetchOptions::new(streams), observer).await
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
    let options = FetchOptions::new(streams).with_silence(silence);
    fetch_with(connection, transactions, &options, observer).await
}

/// The same as `options` say.
pub async fn fetch_with<C: OpenStreams>(
    connection: &C,
    transactions: &[Transaction],
    options: &FetchOptions,
    observer: &dyn Observer,
) -> FetchReport {
    let workers = options.streams.clamp(1, transactions.len().max(1));
    let depth = options.depth.clamp(1, MOST_ASKED);
    let pool = Pool {
        connection,
        transactions,
        observer,
        silence: options.silence,
        priority: options.priority,
        heard: Mutex::new(Instant::now()),
        silent: AtomicBool::new(false),
        state: Mutex::new(State {
            table: Table::new(options.placement, workers, depth, transactions.len()),
            results: transactions.iter().map(|_| None).collect(),
            counters: BTreeMap::new(),
        }),
    };
    join_all((0..workers).map(|row| pool.work(row))).await;

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

/// Requests on a stream that wait for their answers. A server need not read a request before it has
/// answered the one before, so that more might find no room, and both would wait for each other.
const MOST_ASKED: usize = 32;

/// How long the end of a stream is waited for that is of no more use.
const LEAVE: Duration = Duration::from_secs(1);

struct Pool<'a, C> {
    connection: &'a C,
    transactions: &'a [Transaction],
    observer: &'a dyn Observer,
    /// How long nothing may come.
    silence: Option<Duration>,
    priority: Option<Priority>,
    /// When something last came on any stream, or was last asked for.
    heard: Mutex<Instant>,
    /// Nothing came for too long.
    silent: AtomicBool,
    state: Mutex<State>,
}

struct State {
    table: Table,
    results: Vec<Option<Result<Fetched, FetchError>>>,
    /// By stream; a number comes again when a stream is used anew after its end.
    counters: BTreeMap<u16, Arc<Counters>>,
}

/// A request that was sent.
struct Asked {
    attempt: Attempt,
    part: Option<Part>,
}

/// How the stream goes on after a transaction.
#[derive(PartialEq)]
enum Next {
    /// It is free.
    Free,
    /// It is of no more use.
    Over,
}

/// A stream of the pool: its row in the table, its number, and what was asked on it.
struct Line<R, W> {
    row: usize,
    id: u16,
    answers: Answers<R>,
    writer: W,
    asked: VecDeque<Asked>,
    counters: Arc<Counters>,
    /// Something was answered here.
    answered: bool,
}

impl<C: OpenStreams> Pool<'_, C> {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take(&self, row: usize) -> Option<Attempt> {
        self.state().table.take(row)
    }

    fn settle(&self, index: usize, result: Result<Fetched, FetchError>) {
        self.observer.finished(index, &result);
        if let Some(slot) = self.state().results.get_mut(index) {
            *slot = Some(result);
        }
    }

    /// One stream of the pool; a stream that ends is replaced while there is something to do.
    async fn work(&self, row: usize) {
        while let Some(attempt) = self.take(row) {
            match self.silence.filter(|_| self.silent.load(Relaxed)) {
                Some(silence) => self.settle(attempt.index, Err(FetchError::Silent(silence))),
                None => self.run_stream(row, attempt).await,
            }
            self.state().table.forget(row);
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
    async fn run_stream(&self, row: usize, first: Attempt) {
        let opened = self.hear(self.connection.open()).await;
        let stream = match opened.and_then(|opened| opened.map_err(FetchError::Stream)) {
            Ok(stream) => stream,
            Err(error) => return self.settle(first.index, Err(error)),
        };
        let id = stream.id;
        let counters = Arc::clone(self.state().counters.entry(id).or_default());
        let (reader, writer) = tokio::io::split(Counted::new(stream.io, Arc::clone(&counters)));
        let (answers, asked) = (Answers::new(reader), VecDeque::new());
        let mut line = Line { row, id, answers, writer, asked, counters, answered: false };
        let mut next = Some(first);
        let mut takes = true;
        loop {
            while takes && let Some(attempt) = next.take().or_else(|| self.take(row)) {
                takes = self.ask(&mut line, attempt).await;
            }
            // What was asked before the stream broke may be answered all the same.
            let Some(asked) = line.asked.pop_front() else { break };
            let next = self.answer(&mut line, asked).await;
            self.state().table.answered(row);
            if next == Next::Over {
                break;
            }
        }
        // Nobody will answer these here, which is no fault of theirs; the first of all was settled.
        for Asked { attempt, .. } in line.asked.drain(..).rev() {
            self.state().table.put_back(row, attempt);
        }
        // Nobody is there to tell.
        if self.silent.load(Relaxed) {
            return;
        }
        // To be gone before the peer has ended its side would tell it that something is not wanted.
        if line.writer.shutdown().await.is_ok() && line.answers.goes_on() {
            let _late = timeout(LEAVE, line.answers.end()).await;
        }
    }

    /// Puts a transaction back that was not answered, if it was not before.
    fn again(&self, row: usize, attempt: Attempt, error: &WireError) {
        if attempt.again {
            let reason = error.reason();
            let broken = FetchError::Broken { received: 0, expected: None, reason };
            return self.settle(attempt.index, Err(broken));
        }
        self.state().table.put_back(row, Attempt { again: true, ..attempt });
    }

    /// Sends a request. `false` if the stream takes nothing.
    async fn ask<R, W: AsyncWrite + Unpin>(&self, line: &mut Line<R, W>, attempt: Attempt) -> bool {
        let Some(transaction) = self.transactions.get(attempt.index) else { return true };
        let part = match &transaction.output {
            Output::File { path, resume: true } => sink::look_for_part(path).await,
            Output::File { .. } | Output::Device(_) | Output::Stdout => None,
        };
        let request = match self.request(transaction, part.as_ref()) {
            Ok(request) => request,
            Err(error) => {
                self.settle(attempt.index, Err(FetchError::Request(error)));
                return true;
            }
        };
        let sent = async {
            line.writer.write_all(request.as_bytes()).await?;
            line.writer.flush().await
        };
        match self.hear(sent).await {
            Ok(Ok(())) => {
                line.asked.push_back(Asked { attempt, part });
                self.state().table.asked(line.row);
                true
            }
            // What was asked before it decides how the stream goes on: the server may have ended it with an
            // answer that is to be read yet.
            Ok(Err(_)) if !line.asked.is_empty() => {
                self.state().table.put_back(line.row, attempt);
                false
            }
            Ok(Err(error)) => {
                self.again(line.row, attempt, &WireError::Io(error));
                false
            }
            Err(silent) => {
                self.settle(attempt.index, Err(silent));
                false
            }
        }
    }

    /// The text of a request.
    fn request(&self, of: &Transaction, part: Option<&Part>) -> Result<String, http::Error> {
        // What does not go into a request line or a field is refused here.
        let host = HeaderValue::from_str(&of.host)?;
        let checked = Request::get(of.target.as_str()).header("host", host).body(())?;
        let target = checked.uri().path_and_query().map_or("/", |target| target.as_str());
        let mut text =
            format!("GET {target} HTTP/1.1\r\nhost: {}\r\nuser-agent: {AGENT}\r\n", of.host);
        if let Some(priority) = self.priority {
            let Priority { urgency, incremental } = priority;
            let also = if incremental { ", i" } else { "" };
            let _ = write!(text, "priority: u={urgency}{also}\r\n");
        }
        if let Some(part) = part {
            let _ = write!(text, "range: bytes={}-\r\n", part.bytes);
            let _ = write!(text, "if-range: \"{}\"\r\n", part.tag);
        }
        text.push_str("\r\n");
        Ok(text)
    }

    /// Reads the answer to what was asked.
    async fn answer<R: AsyncRead + Unpin, W>(&self, line: &mut Line<R, W>, asked: Asked) -> Next {
        let Asked { attempt, part } = asked;
        let index = attempt.index;
        let Some(transaction) = self.transactions.get(index) else { return Next::Free };
        let head = match self.hear(line.answers.head()).await {
            Ok(head) => head,
            Err(silent) => {
                self.settle(index, Err(silent));
                return Next::Over;
            }
        };
        let head = match head {
            Ok(head) => head,
            // The server ended the idle stream before the request was on it.
            Err(error @ (WireError::Ended | WireError::Io(_))) if line.answered => {
                self.again(line.row, attempt, &error);
                return Next::Over;
            }
            Err(error) => {
                self.settle(index, Err(broken(&error, 0, None)));
                return Next::Over;
            }
        };
        line.answered = true;
        let result = self.receive(transaction, part, index, line, head).await;
        // An answer that is not wanted, but whole, leaves the stream as good as before.
        let whole = result.is_ok() || matches!(result, Err(FetchError::Status(_)));
        if whole {
            line.counters.transaction();
        }
        self.settle(index, result);
        if whole && line.answers.goes_on() { Next::Free } else { Next::Over }
    }

    async fn receive<R: AsyncRead + Unpin, W>(
        &self,
        transaction: &Transaction,
        part: Option<Part>,
        index: usize,
        line: &mut Line<R, W>,
        head: Head,
    ) -> Result<Fetched, FetchError> {
        let stream = line.id;
        let field = |name| head.headers.get(name).and_then(|value| value.to_str().ok());
        let expected = field(CONTENT_LENGTH).and_then(|value| value.parse::<u64>().ok());
        let kept = part.as_ref().filter(|part| goes_on(head.status, field(CONTENT_RANGE), part));
        if head.status != StatusCode::OK && kept.is_none() {
            // Read to the end, so that the stream can be used again.
            self.skip(line, expected).await?;
            return Err(FetchError::Status(head.status));
        }
        self.observer.started(index, stream, expected);
        self.state().table.expects(line.row, expected);
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
            self.skip(line, expected).await?;
            sink.finish().await?;
            return Ok(Fetched { stream, bytes: 0, resumed });
        }
        let bytes = match self.fill(index, &mut sink, line, expected).await {
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

    /// Reads a body that is not wanted.
    async fn skip<R: AsyncRead + Unpin, W>(
        &self,
        line: &mut Line<R, W>,
        expected: Option<u64>,
    ) -> Result<(), FetchError> {
        loop {
            let piece = self.hear(line.answers.piece()).await?;
            if piece.map_err(|error| broken(&error, 0, expected))?.is_none() {
                return Ok(());
            }
        }
    }

    /// Writes a body as it comes; returns its bytes.
    async fn fill<R: AsyncRead + Unpin, W>(
        &self,
        index: usize,
        sink: &mut Sink,
        line: &mut Line<R, W>,
        expected: Option<u64>,
    ) -> Result<u64, FetchError> {
        let mut bytes = 0;
        loop {
            let piece = self.hear(line.answers.piece()).await?;
            let piece = piece.map_err(|error| broken(&error, bytes, expected))?;
            let Some(piece) = piece else { return Ok(bytes) };
            let len = piece.len() as u64;
            bytes += len;
            sink.write(piece).await?;
            self.state().table.received(line.row, len);
            self.observer.progress(index, len);
        }
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

fn broken(error: &WireError, received: u64, expected: Option<u64>) -> FetchError {
    FetchError::Broken { received, expected, reason: error.reason() }
}

#[cfg(test)]
mod tests;
