//! Loads a page over the streams of a connection.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use bytes::{Bytes, BytesMut};
use futures_util::future::{join, join_all};
use http::StatusCode;
use tokio::io::{AsyncWriteExt, ReadHalf, WriteHalf};

use super::AGENT;
use super::embedded::embedded;
use super::measures::PageLoad;
use super::notes::{Kept, MOST_OBJECTS, Notes, Part};
use crate::answers::{Answers, WireError};
use crate::client::resume::{Decision, FileState, Kept as FilePart, decide};
use crate::error::FetchError;
use crate::stream::{ByteStream, OpenStreams};

/// Maximum useful number of streams for objects that can be shown only when they are complete.
const ADVISED: usize = 4;

/// Maximum number of streams used by default.
const MOST_ADVISED: usize = 64;

/// Types of objects that may be shown before they are complete. Whether a particular object can depends
/// on its content.
const PROGRESSIVE: [&str; 5] = [".jpg", ".jpeg", ".jpe", ".png", ".gif"];

/// Maximum bytes read of an unwanted answer.
const MOST_SKIPPED: u64 = 256 << 10;

/// Maximum number of requests for an object whose stream ends without an answer.
const MOST_ATTEMPTS: u32 = 3;

/// A page to load, and how to load it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct PageRequest {
    /// Value of the Host field.
    pub host: String,
    /// Path and query of the index.
    pub target: String,
    /// Maximum number of streams, including that of the index; at least 1. `None` follows the advice in
    /// the documents: one for each object, up to 64, if some are pictures that can be shown before they
    /// are complete; otherwise 4 (nat 2.8.2, web 5.3.2).
    pub streams: Option<usize>,
    /// Whether requests are sent without waiting for earlier answers, on all streams in rotation.
    /// Otherwise each object uses the next free stream. Default: true.
    pub pipelined: bool,
    /// Whether bodies are stored. Default: false.
    pub keep: bool,
    /// If nothing arrives on any stream for this time, or at most twice as long, gives up the
    /// outstanding objects. Needs a tokio runtime with a timer. Default: never.
    pub silence: Option<Duration>,
}

impl PageRequest {
    /// A page to load over the default number of streams.
    pub fn new(host: impl Into<String>, target: impl Into<String>) -> Self {
        let (host, target) = (host.into(), target.into());
        Self { host, target, streams: None, pipelined: true, keep: false, silence: None }
    }

    /// Number of streams for these objects.
    pub(super) fn streams_for(&self, targets: &[String]) -> usize {
        let progressive = |target: &String| {
            let path = target.split('?').next().unwrap_or_default().to_ascii_lowercase();
            PROGRESSIVE.iter().any(|suffix| path.ends_with(suffix))
        };
        let advised = || match targets.iter().any(progressive) {
            true => targets.len().min(MOST_ADVISED),
            false => ADVISED,
        };
        self.streams.unwrap_or_else(advised).max(1)
    }
}

/// Loads a page over streams of `connection`: the index on the first one, then the embedded objects.
///
/// `clock` returns the time since any origin. If an object fails, this is recorded and does not affect
/// others.
///
/// # Errors
/// The index could not be loaded, or its status is not 200.
pub async fn load_page<C: OpenStreams>(
    connection: &C,
    request: &PageRequest,
    clock: &(dyn Fn() -> Duration + Sync),
) -> Result<PageLoad, FetchError> {
    let opened = connection.open().await.map_err(FetchError::Stream)?;
    let mut stream = Stream::new(opened);
    let notes = Notes::new(clock, request.silence, request.keep);
    notes.expect([request.target.clone()]);
    let page = Loading { connection, request, notes, queues: Mutex::default() };
    // The index is always stored, because it must be parsed.
    let index = async {
        stream.ask(&page, &[0]).await?;
        stream.receive(&page, 0, true).await
    };
    let body = page.notes.unless_silent(index).await.map_err(FetchError::Silent)??;
    let found = embedded(&request.host, &request.target, &body, MOST_OBJECTS);
    let streams = request.streams_for(&found.targets);
    let index = page.notes.take_index(request.keep);
    let count = found.targets.len();
    page.queues().plan(count, if request.pipelined { streams } else { 1 });
    page.notes.expect(found.targets);
    let workers = streams.clamp(1, count.max(1));
    let mut first = Some(stream).filter(|stream| stream.is_usable());
    let work = (0..workers).map(|number| page.work(number, first.take()));
    if let Err(silence) = page.notes.unless_silent(join_all(work)).await {
        page.notes.give_up(&FetchError::Silent(silence));
    }
    let (left_out, beyond) = (found.left_out, found.beyond);
    Ok(PageLoad { index, objects: page.notes.into_objects(), left_out, beyond })
}

struct Loading<'a, C> {
    connection: &'a C,
    request: &'a PageRequest,
    notes: Notes<'a>,
    queues: Mutex<Queues>,
}

/// The objects still to request.
#[derive(Debug, Default)]
struct Queues {
    /// With pipelining, a queue for each stream; otherwise one for all.
    queues: Vec<VecDeque<usize>>,
    attempts: Vec<u32>,
}

impl Queues {
    fn plan(&mut self, objects: usize, queues: usize) {
        self.queues = vec![VecDeque::new(); queues];
        self.attempts = vec![0; objects];
        for index in 0..objects {
            self.queues[index % queues].push_back(index);
        }
    }
}

impl<C: OpenStreams> Loading<'_, C> {
    fn queues(&self) -> MutexGuard<'_, Queues> {
        self.queues.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next requests for stream `number`: with pipelining, all that are queued for it, otherwise a
    /// single object.
    fn next(&self, number: usize) -> Vec<usize> {
        let mut state = self.queues();
        let queues = state.queues.len().max(1);
        let Some(queue) = state.queues.get_mut(number % queues) else { return Vec::new() };
        let count = if self.request.pipelined { queue.len() } else { queue.len().min(1) };
        let taken: Vec<usize> = queue.drain(..count).collect();
        for index in &taken {
            if let Some(attempts) = state.attempts.get_mut(*index) {
                *attempts += 1;
            }
        }
        taken
    }

    /// Queues objects again whose stream ended before their answers were complete.
    fn again(&self, number: usize, indices: &[usize], error: &FetchError) {
        let mut state = self.queues();
        for index in indices {
            if state.attempts.get(*index).is_some_and(|attempts| *attempts < MOST_ATTEMPTS) {
                let queues = state.queues.len().max(1);
                if let Some(queue) = state.queues.get_mut(number % queues) {
                    queue.push_back(*index);
                }
            } else {
                self.notes.fail(*index, error);
            }
        }
    }

    /// Runs one stream, which is replaced if it ends while requests are left.
    async fn work(&self, number: usize, mut stream: Option<Stream<C::Stream>>) {
        loop {
            let indices = self.next(number);
            let (Some(first), rest) = (indices.first().copied(), indices.get(1..).unwrap_or(&[]))
            else {
                return;
            };
            let mut usable = match stream.take() {
                Some(usable) => usable,
                None => match self.connection.open().await {
                    Ok(opened) => Stream::new(opened),
                    Err(error) => {
                        let error = FetchError::Stream(error);
                        indices.iter().for_each(|index| self.notes.fail(*index, &error));
                        continue;
                    }
                },
            };
            match usable.transact(self, first, rest).await {
                Ok(()) => stream = Some(usable).filter(Stream::is_usable),
                Err((broken, untouched, error)) => {
                    if let Some(broken) = broken {
                        self.notes.fail(broken, &error);
                    }
                    self.again(number, &untouched, &error);
                }
            }
        }
    }
}

/// A stream, and the bytes already read from it.
struct Stream<S> {
    id: u16,
    answers: Answers<ReadHalf<S>>,
    writer: WriteHalf<S>,
    closes: bool,
}

/// The object whose answer broke off, the objects whose answers had not started, and the error.
type Broken = (Option<usize>, Vec<usize>, FetchError);

impl<S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin + Send> Stream<S> {
    fn new(opened: ByteStream<S>) -> Self {
        let (reader, writer) = tokio::io::split(opened.io);
        Self { id: opened.id, answers: Answers::new(reader), writer, closes: false }
    }

    fn is_usable(&self) -> bool {
        !self.closes
    }

    /// Returns the requests for some objects in sequence, and records that they are sent.
    fn requests<C: OpenStreams>(&self, page: &Loading<'_, C>, indices: &[usize]) -> Bytes {
        let mut requests = BytesMut::new();
        for index in indices {
            let Some(target) = page.notes.ask(*index, self.id) else { continue };
            let host = &page.request.host;
            let rest = page.notes.part(*index).map(|(validator, bytes)| {
                format!("Range: bytes={bytes}-\r\nIf-Range: {validator}\r\n")
            });
            let rest = rest.unwrap_or_default();
            requests.extend_from_slice(
                format!(
                    "GET {target} HTTP/1.1\r\nHost: {host}\r\nUser-Agent: {AGENT}\r\n{rest}\r\n"
                )
                .as_bytes(),
            );
        }
        requests.freeze()
    }

    async fn ask<C: OpenStreams>(
        &mut self,
        page: &Loading<'_, C>,
        indices: &[usize],
    ) -> Result<(), FetchError> {
        let requests = self.requests(page, indices);
        self.writer.write_all(&requests).await.map_err(FetchError::Stream)
    }

    /// Sends requests for objects and reads their answers at the same time. Otherwise a server that
    /// reads no further requests until its answers are read would block this.
    async fn transact<C: OpenStreams>(
        &mut self,
        page: &Loading<'_, C>,
        first: usize,
        rest: &[usize],
    ) -> Result<(), Broken> {
        let all: Vec<usize> = [first].iter().chain(rest).copied().collect();
        let requests = self.requests(page, &all);
        let Self { answers, writer, closes, .. } = self;
        let read = async {
            for (at, index) in all.iter().enumerate() {
                let later = || all.get(at + 1..).unwrap_or(&[]).to_vec();
                if *closes {
                    let error = "the server closed it".to_owned();
                    let error = FetchError::Broken { received: 0, expected: None, reason: error };
                    return Err((None, all.get(at..).unwrap_or(&[]).to_vec(), error));
                }
                let had_part = page.notes.part(*index).is_some();
                let result = receive(answers, page, *index, page.request.keep, closes).await;
                match result {
                    Ok(_) => {}
                    // Request the whole object, because the part cannot be continued.
                    Err(error @ FetchError::Refused(_)) if had_part => {
                        return Err((None, all.get(at..).unwrap_or(&[]).to_vec(), error));
                    }
                    Err(error @ (FetchError::Status(_) | FetchError::Refused(_))) => {
                        page.notes.fail(*index, &error);
                    }
                    Err(error)
                        if page.notes.has_begun(*index) && page.notes.part(*index).is_none() =>
                    {
                        return Err((Some(*index), later(), error));
                    }
                    Err(error) => {
                        return Err((None, all.get(at..).unwrap_or(&[]).to_vec(), error));
                    }
                }
            }
            Ok(())
        };
        // Reading the answers reports the same errors.
        let (_, read) = join(writer.write_all(&requests), read).await;
        read
    }

    async fn receive<C: OpenStreams>(
        &mut self,
        page: &Loading<'_, C>,
        index: usize,
        keep: bool,
    ) -> Result<Bytes, FetchError> {
        receive(&mut self.answers, page, index, keep, &mut self.closes).await
    }
}

/// Reads the answer to the request for an object; returns the body if it is to be stored.
async fn receive<R, C>(
    answers: &mut Answers<R>,
    page: &Loading<'_, C>,
    index: usize,
    keep: bool,
    closes: &mut bool,
) -> Result<Bytes, FetchError>
where
    R: tokio::io::AsyncRead + Unpin,
    C: OpenStreams,
{
    let broken = |received, expected, error: WireError| FetchError::Broken {
        received,
        expected,
        reason: error.reason(),
    };
    let head = answers.head().await.map_err(|error| broken(0, None, error))?;
    let part = page.notes.take_part(index);
    let decision = decide(part.as_ref().map(|part| &part.of), head.status, &head.headers);
    let (is_whole, end) = match decision {
        Decision::Whole(length) => (true, length),
        Decision::Continue { last, total } if last + 1 == total => (true, Some(total)),
        // A page is loaded to measure times, so an object in further pieces is requested again.
        _ => (false, None),
    };
    let part = part.filter(|_| matches!(decision, Decision::Continue { .. }) && is_whole);
    let state = match &part {
        Some(part) => part.of.state.clone(),
        None => FileState::of(&head.headers, end, SystemTime::now()),
    };
    if part.is_none() {
        page.notes.begin_anew(index);
    }
    let (mut kept, mut received) =
        part.map_or_else(|| (Kept::new(keep), 0), |part| (part.kept, part.of.bytes));
    let announced = answers.announced().map(|rest| received + rest);
    page.notes.begin(index, head.status.as_u16(), announced);
    loop {
        let piece = match answers.piece().await {
            Ok(Some(piece)) => piece,
            Ok(None) => break,
            Err(error) => {
                if is_whole && state.validator().is_some() {
                    let of = FilePart { bytes: received, state };
                    page.notes.cut_off(index, Part { of, kept });
                }
                return Err(broken(received, announced, error));
            }
        };
        received += piece.len() as u64;
        if !is_whole && received > MOST_SKIPPED {
            // An unwanted answer may never end, so close the stream.
            *closes = true;
            return Err(refusal(&decision, head.status));
        }
        if let Some(expected) = end.filter(|end| received > *end) {
            *closes = true;
            return Err(FetchError::Length { received, expected });
        }
        page.notes.arrive(index, piece.len());
        page.notes.keep(&mut kept, &piece);
    }
    *closes |= !answers.goes_on();
    if !is_whole {
        return Err(refusal(&decision, head.status));
    }
    if let Some(expected) = end.filter(|end| received < *end) {
        return Err(FetchError::Length { received, expected });
    }
    Ok(page.notes.complete(index, kept))
}

/// Why an answer is not accepted.
fn refusal(decision: &Decision, status: StatusCode) -> FetchError {
    match decision {
        Decision::Refuse(why) | Decision::Restart(why) => FetchError::Refused(why),
        _ => FetchError::Status(status),
    }
}

#[cfg(test)]
mod tests;
