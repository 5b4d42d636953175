//! The pool of streams on which transactions are carried out.

use std::collections::{BTreeMap, VecDeque};
use std::fmt::Write as _;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use futures_util::future::join_all;
use http::Request;
use http::header::{HeaderValue, LOCATION};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::time::{Instant, sleep_until, timeout, timeout_at};

use super::part::Claim;
use super::resume::{Decision, FileState, decide, length};
use super::sink::{self, Sink};
use super::table::{Attempt, Table};
use super::{FetchOptions, FetchReport, Fetched, Observer, Output, Transaction, unanswered};
use crate::answers::{Answers, Head, WireError};
use crate::error::FetchError;
use crate::priority::Priority;
use crate::stream::{Counted, Counters, OpenStreams};

/// The value of User-Agent.
pub(super) const AGENT: &str = concat!("anabranch/", env!("CARGO_PKG_VERSION"));

/// Maximum number of unanswered requests on a stream. A server need not read a request before it has answered the
/// previous one. With more requests, both sides could run out of buffer space and wait for each other.
const MOST_ASKED: usize = 32;

/// How long to wait for the end of a stream that is no longer needed.
const LEAVE: Duration = Duration::from_secs(1);

/// The longest single wait when reading is slowed down.
const PAUSE: Duration = Duration::from_millis(500);

/// Maximum bytes of an unwanted body that are read to use the stream again. A stream with more is closed, because the
/// body may never end.
const MOST_SKIPPED: u64 = 256 << 10;

/// Carries out `transactions` with `options`.
pub(super) async fn run<C: OpenStreams>(
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
        options,
        observer,
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
    let streams = state.counters.iter().map(|(id, c)| c.totals(*id)).collect();
    let results = state.results.into_iter();
    FetchReport {
        results: results.map(|r| r.unwrap_or_else(|| Err(unanswered()))).collect(),
        streams,
    }
}

struct Pool<'a, C> {
    connection: &'a C,
    transactions: &'a [Transaction],
    options: &'a FetchOptions,
    observer: &'a dyn Observer,
    /// When data last arrived on any stream, or the last request was sent.
    heard: Mutex<Instant>,
    /// Nothing has arrived for too long.
    silent: AtomicBool,
    state: Mutex<State>,
}

struct State {
    table: Table,
    results: Vec<Option<Result<Fetched, FetchError>>>,
    /// Counters by stream number; a number may be used again after its stream has ended.
    counters: BTreeMap<u16, Arc<Counters>>,
}

/// A sent request.
struct Asked {
    attempt: Attempt,
    /// The lock on the unfinished file, if the output is a file.
    claim: Option<Claim>,
}

/// The next step of a transaction after an answer.
enum Outcome {
    /// The transaction has ended.
    Over(Result<Fetched, FetchError>),
    /// Another request must be sent.
    Again(Attempt),
}

impl From<FetchError> for Outcome {
    fn from(error: FetchError) -> Self {
        Self::Over(Err(error))
    }
}

impl Asked {
    /// Whether the user asked to continue a kept part.
    fn resumes(&self, transaction: &Transaction) -> bool {
        resumes(&self.attempt, &transaction.output)
    }
}

/// Whether an attempt continues a kept part.
fn resumes(attempt: &Attempt, output: &Output) -> bool {
    let wanted = matches!(output, Output::File { resume: true, .. });
    !attempt.fresh && (wanted || attempt.begun_at.is_some())
}

/// The state of the stream after a transaction.
#[derive(PartialEq)]
enum Next {
    /// It is free.
    Free,
    /// It is no longer needed.
    Over,
}

/// A stream of the pool: its row in the table, its number, and the requests sent on it.
struct Line<R, W> {
    row: usize,
    id: u16,
    answers: Answers<R>,
    writer: W,
    asked: VecDeque<Asked>,
    counters: Arc<Counters>,
    /// At least one answer on this stream was complete.
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

    /// Runs one stream of the pool; a stream that ends is replaced while transactions are left.
    async fn work(&self, row: usize) {
        while let Some(attempt) = self.take(row) {
            match self.options.silence.filter(|_| self.silent.load(Relaxed)) {
                Some(silence) => self.settle(attempt.index, Err(FetchError::Silent(silence))),
                None => self.run_stream(row, attempt).await,
            }
            self.state().table.forget(row);
        }
    }

    fn heard(&self) -> MutexGuard<'_, Instant> {
        self.heard.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for data from the server, unless nothing arrives on any stream for too long.
    async fn hear<T>(&self, what: impl Future<Output = T>) -> Result<T, FetchError> {
        let Some(silence) = self.options.silence else { return Ok(what.await) };
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

    /// Opens a stream and carries out transactions on it, starting with `first`.
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
            // Requests sent before the stream broke may still be answered.
            let Some(asked) = line.asked.pop_front() else { break };
            let next = self.answer(&mut line, asked).await;
            self.state().table.answered(row);
            if next == Next::Over {
                break;
            }
        }
        // The other requests will not be answered on this stream, which is not their fault. The first one is already
        // handled.
        for Asked { attempt, .. } in line.asked.drain(..).rev() {
            self.state().table.put_back(row, attempt);
        }
        // After a timeout, do not wait for the end of the stream.
        if self.silent.load(Relaxed) {
            return;
        }
        // If we closed our side before the peer has ended its own, the peer would take this as a refusal of data.
        if line.writer.shutdown().await.is_ok() && line.answers.goes_on() {
            let _late = timeout(LEAVE, line.answers.end()).await;
        }
    }

    /// Queues an unanswered transaction again, but only once.
    fn again(&self, row: usize, attempt: Attempt, error: &WireError) {
        if attempt.again {
            let reason = error.reason();
            let broken = FetchError::Broken { received: 0, expected: None, reason };
            return self.settle(attempt.index, Err(broken));
        }
        self.state().table.put_back(row, Attempt { again: true, ..attempt });
    }

    /// Sends a request. Returns `false` if the stream does not accept it.
    async fn ask<R, W: AsyncWrite + Unpin>(&self, line: &mut Line<R, W>, attempt: Attempt) -> bool {
        let Some(transaction) = self.transactions.get(attempt.index) else { return true };
        let claim = match &transaction.output {
            Output::File { path, .. } => match sink::claim(path, &transaction.source).await {
                Ok(claim) => Some(claim),
                Err(error) => {
                    self.settle(attempt.index, Err(error));
                    return true;
                }
            },
            Output::Device(_) | Output::Stdout => None,
        };
        let asked = Asked { attempt, claim };
        let request = match self.request(transaction, &asked) {
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
                line.asked.push_back(asked);
                self.state().table.asked(line.row);
                true
            }
            // Read the answers to earlier requests first: the server may have ended the stream after one of them.
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
    fn request(&self, of: &Transaction, asked: &Asked) -> Result<String, http::Error> {
        // Text that is invalid in a request line or a field is rejected here.
        let host = HeaderValue::from_str(&of.host)?;
        let checked = Request::get(of.target.as_str()).header("host", host).body(())?;
        let target = checked.uri().path_and_query().map_or("/", |target| target.as_str());
        let mut text =
            format!("GET {target} HTTP/1.1\r\nhost: {}\r\nuser-agent: {AGENT}\r\n", of.host);
        if let Some(priority) = self.options.priority {
            let Priority { urgency, incremental } = priority;
            let also = if incremental { ", i" } else { "" };
            let _ = write!(text, "priority: u={urgency}{also}\r\n");
        }
        let kept = asked.claim.as_ref().and_then(Claim::kept).filter(|_| asked.resumes(of));
        if let Some((kept, validator)) = kept.and_then(|kept| Some((kept, kept.state.validator()?)))
        {
            let _ = write!(text, "range: bytes={}-\r\nif-range: {validator}\r\n", kept.bytes);
        }
        if let Some(since) = of.bounds.since() {
            let _ = write!(text, "if-modified-since: {since}\r\n");
        }
        text.push_str("\r\n");
        Ok(text)
    }

    /// Reads the answer to a request.
    async fn answer<R: AsyncRead + Unpin, W>(&self, line: &mut Line<R, W>, asked: Asked) -> Next {
        let index = asked.attempt.index;
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
            // The server ended the idle stream before it received the request.
            Err(error @ (WireError::Ended | WireError::Io(_))) if line.answered => {
                drop(asked.claim);
                self.again(line.row, asked.attempt, &error);
                return Next::Over;
            }
            Err(error) => {
                self.settle(index, Err(broken(&error, 0, None)));
                return Next::Over;
            }
        };
        line.answered = true;
        let (outcome, whole) = self.receive(transaction, asked, line, head).await;
        if whole {
            line.counters.transaction();
        }
        match outcome {
            Outcome::Over(result) => self.settle(index, result),
            Outcome::Again(attempt) => self.state().table.put_back(line.row, attempt),
        }
        if whole && line.answers.goes_on() { Next::Free } else { Next::Over }
    }

    /// Processes an answer. Also returns whether it was read to its end, so the stream can be used again.
    async fn receive<R: AsyncRead + Unpin, W>(
        &self,
        transaction: &Transaction,
        asked: Asked,
        line: &mut Line<R, W>,
        head: Head,
    ) -> (Outcome, bool) {
        let index = asked.attempt.index;
        let resumes = asked.resumes(transaction);
        let Asked { mut attempt, mut claim } = asked;
        let kept = claim.as_ref().and_then(Claim::kept).filter(|_| resumes);
        if let Some(error) = transaction.bounds.refuse(&head, kept) {
            if let (FetchError::NotNewer, Some(claim)) = (&error, &mut claim) {
                // The existing file is up to date, so the kept part is useless. If it cannot be emptied, it stays.
                let _ = claim.discard();
            }
            let whole = self.skip(line, length(&head.headers)).await;
            return (error.into(), whole);
        }
        let decision = decide(kept, head.status, &head.headers);
        let failed = match decision {
            Decision::Whole(total) => {
                if kept.is_some() {
                    let why =
                        "the server sent all of it, since it has changed or cannot be had in parts";
                    self.observer.restarted(index, why);
                }
                attempt.begun_at = None;
                let outcome = self.whole(transaction, attempt, claim, line, &head, total).await;
                let whole = matches!(outcome, Outcome::Over(Ok(_)));
                return (outcome, whole);
            }
            Decision::Continue { last, total } => {
                let outcome = self.rest(transaction, attempt, claim, line, last, total).await;
                let whole = matches!(outcome, Outcome::Over(Ok(_)) | Outcome::Again(_));
                return (outcome, whole);
            }
            Decision::Restart(why) => {
                self.observer.restarted(index, why);
                drop(claim);
                Outcome::Again(Attempt { again: false, fresh: true, begun_at: None, ..attempt })
            }
            Decision::Refuse(why) => FetchError::Refused(why).into(),
            Decision::Status => not_there(&head).into(),
        };
        // Read it to its end, so that the stream can be used again.
        let whole = self.skip(line, length(&head.headers)).await;
        (failed, whole)
    }

    /// Reads a body that contains a whole file.
    async fn whole<R: AsyncRead + Unpin, W>(
        &self,
        transaction: &Transaction,
        attempt: Attempt,
        claim: Option<Claim>,
        line: &mut Line<R, W>,
        head: &Head,
        total: Option<u64>,
    ) -> Outcome {
        let index = attempt.index;
        self.observer.started(index, line.id, total);
        self.state().table.expects(line.row, total);
        let state = FileState::of(&head.headers, total, SystemTime::now());
        let changed = state.changed_at();
        let known_again = state.validator().is_some();
        let sink = match (&transaction.output, claim) {
            (Output::File { path, .. }, Some(claim)) => Sink::begin(path, claim, state),
            (Output::Device(path), _) => Sink::device(path).await,
            (Output::File { .. } | Output::Stdout, _) => Ok(Sink::stdout()),
        };
        let mut sink = match sink {
            Ok(sink) => sink,
            Err(error) => return error.into(),
        };
        sink.set_modified(changed.filter(|_| self.options.times));
        match self.fill(index, &mut sink, line, total, 0).await {
            // `fill` fails if the body ends before a known length.
            Ok(bytes) => match sink.finish().await {
                Ok(replaced) => {
                    let known = total.is_some() || line.answers.was_framed();
                    let (stream, modified) = (line.id, changed);
                    let fetched = Fetched { stream, bytes, resumed: 0, replaced, modified, known };
                    Outcome::Over(Ok(fetched))
                }
                Err(error) => error.into(),
            },
            Err(error) => {
                let kept = sink.keep().await;
                if !kept && !known_again && matches!(transaction.output, Output::File { .. }) {
                    self.observer.lost(index);
                }
                error.into()
            }
        }
    }

    /// Reads a body that continues the kept part, up to byte `last` of `total`.
    async fn rest<R: AsyncRead + Unpin, W>(
        &self,
        transaction: &Transaction,
        mut attempt: Attempt,
        claim: Option<Claim>,
        line: &mut Line<R, W>,
        last: u64,
        total: u64,
    ) -> Outcome {
        let index = attempt.index;
        let (Output::File { path, .. }, Some(claim)) = (&transaction.output, claim) else {
            return FetchError::Refused("it sent a part (206) although the output is not a file")
                .into();
        };
        let from = claim.kept().map_or(0, |kept| kept.bytes);
        let began = *attempt.begun_at.get_or_insert(from);
        let coming = (last + 1).saturating_sub(from);
        self.observer.started(index, line.id, Some(total.saturating_sub(from)));
        self.state().table.expects(line.row, Some(coming));
        let modified = claim.kept().and_then(|kept| kept.state.changed_at());
        let mut sink = match Sink::go_on(path, claim, total).await {
            Ok(sink) => sink,
            Err(error) => return error.into(),
        };
        sink.set_modified(modified.filter(|_| self.options.times));
        match self.fill(index, &mut sink, line, Some(coming), from).await {
            Ok(bytes) if bytes < coming => {
                sink.keep().await;
                let reason = "the server ended it".to_owned();
                FetchError::Broken { received: bytes, expected: Some(coming), reason }.into()
            }
            Ok(_) if last + 1 < total => match sink.pause().await {
                Ok(()) => Outcome::Again(Attempt { again: false, ..attempt }),
                Err(error) => error.into(),
            },
            Ok(_) => match sink.finish().await {
                Ok(replaced) => {
                    let (bytes, resumed) = (total.saturating_sub(began), began);
                    let (stream, known) = (line.id, true);
                    let fetched = Fetched { stream, bytes, resumed, replaced, modified, known };
                    Outcome::Over(Ok(fetched))
                }
                Err(error) => error.into(),
            },
            // The server sent more than it announced, so no part of this answer can be trusted.
            Err(FetchError::Length { .. }) => {
                sink.discard();
                self.observer.restarted(index, "the server sent more than it said");
                Outcome::Again(Attempt { again: false, fresh: true, begun_at: None, ..attempt })
            }
            Err(error) => {
                sink.keep().await;
                error.into()
            }
        }
    }

    /// Reads a body that is not needed. Returns whether the stream can be used again.
    async fn skip<R: AsyncRead + Unpin, W>(
        &self,
        line: &mut Line<R, W>,
        expected: Option<u64>,
    ) -> bool {
        let mut left = MOST_SKIPPED;
        if expected.is_some_and(|expected| expected > left) {
            return false;
        }
        while let Ok(Ok(piece)) = self.hear(line.answers.piece()).await {
            let Some(piece) = piece else { return true };
            match left.checked_sub(piece.len() as u64) {
                Some(less) => left = less,
                None => return false,
            }
        }
        false
    }

    /// Writes a body to the output as it arrives, at most `most` bytes; returns its length.
    async fn fill<R: AsyncRead + Unpin, W>(
        &self,
        index: usize,
        sink: &mut Sink,
        line: &mut Line<R, W>,
        most: Option<u64>,
        from: u64,
    ) -> Result<u64, FetchError> {
        let bounds = self.transactions.get(index).map(|of| of.bounds).unwrap_or_default();
        let mut bytes = 0;
        loop {
            let piece = self.hear(line.answers.piece()).await?;
            let piece = piece.map_err(|error| broken(&error, bytes, most))?;
            let Some(piece) = piece else { return Ok(bytes) };
            let len = piece.len() as u64;
            bytes += len;
            if let Some(expected) = most.filter(|most| bytes > *most) {
                return Err(FetchError::Length { received: bytes, expected });
            }
            bounds.check(from.saturating_add(bytes))?;
            self.options.budget.as_ref().map_or(Ok(()), |budget| budget.take(len))?;
            sink.write(piece).await?;
            self.state().table.received(line.row, len);
            self.observer.progress(index, len);
            self.wait(len).await;
        }
    }

    /// Accounts for `bytes` received bytes, and waits until the rate permits more.
    async fn wait(&self, bytes: u64) {
        let Some(pace) = &self.options.pace else { return };
        let until = pace.spend(bytes, Instant::now());
        while Instant::now() < until {
            sleep_until(until.min(Instant::now() + PAUSE)).await;
            // This side was waiting; the server was not silent.
            *self.heard() = Instant::now();
        }
    }
}

/// The error for an answer that does not contain a file.
fn not_there(head: &Head) -> FetchError {
    let status = head.status;
    let location = head.headers.get(LOCATION).and_then(|value| value.to_str().ok());
    match (status.as_u16(), location) {
        (301 | 302 | 303 | 307 | 308, Some(location)) => {
            FetchError::Redirect { status, location: location.trim().to_owned() }
        }
        _ => FetchError::Status(status),
    }
}

pub(super) fn broken(error: &WireError, received: u64, expected: Option<u64>) -> FetchError {
    FetchError::Broken { received, expected, reason: error.reason() }
}
