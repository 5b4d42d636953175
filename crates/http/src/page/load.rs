//! The page loader.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures_util::future::{join, join_all};
use tokio::io::{AsyncWriteExt, ReadHalf, WriteHalf};

use super::embedded::embedded;
use super::measures::{ObjectLoad, PageLoad};
use super::pipeline::Answers;
use crate::error::FetchError;
use crate::stream::{ByteStream, OpenStreams};

/// Objects of a page at the most, and bytes of its index.
const MOST_OBJECTS: usize = 1000;
const LONGEST_INDEX: usize = 8 << 20;

/// Times that an object is asked for when streams end without an answer.
const MOST_ATTEMPTS: u32 = 3;

/// What the server learns about the client.
const AGENT: &str = concat!("anabranch/", env!("CARGO_PKG_VERSION"));

/// A page, and how it is to be loaded.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct PageRequest {
    /// Value of the Host field.
    pub host: String,
    /// Path and query of the index.
    pub target: String,
    /// Streams that are used at the most, the one of the index included; at least 1.
    pub streams: usize,
    /// Whether requests are written without waiting for answers to those before, turn by turn on
    /// all streams; if not, each object takes the next stream that is free. Yes.
    pub pipelined: bool,
    /// Whether bodies are kept. No.
    pub keep: bool,
    /// What has not come is given up when nothing came on any stream for as long as this, or twice
    /// as long at the most; that needs a tokio runtime with a timer. Never.
    pub silence: Option<Duration>,
}

impl PageRequest {
    /// A page over so many streams.
    pub fn new(host: impl Into<String>, target: impl Into<String>, streams: usize) -> Self {
        let (host, target) = (host.into(), target.into());
        Self { host, target, streams, pipelined: true, keep: false, silence: None }
    }
}

/// Loads a page over streams of `connection`: the index on the first one, then what it embeds.
///
/// `clock` tells the time; only differences count. An object that does not come is noted and takes
/// no other with it.
///
/// # Errors
/// The index did not come, or not with the status 200.
pub async fn load_page<C: OpenStreams>(
    connection: &C,
    request: &PageRequest,
    clock: &(dyn Fn() -> Duration + Sync),
) -> Result<PageLoad, FetchError> {
    let opened = connection.open().await.map_err(FetchError::Stream)?;
    let mut stream = Stream::new(opened);
    let origin = clock();
    let page = Loading {
        connection,
        request,
        now: &|| clock().saturating_sub(origin),
        state: Mutex::default(),
    };
    // The index is kept in any case, since it is read.
    let index = ObjectLoad { target: request.target.clone(), ..ObjectLoad::default() };
    page.state().objects.push(index);
    let index = async {
        stream.ask(&page, &[0]).await?;
        stream.receive(&page, 0, true).await
    };
    let body = page.unless_silent(index).await.map_err(FetchError::Silent)??;
    let found = embedded(&request.host, &request.target, &body, MOST_OBJECTS);
    let index = {
        let mut state = page.state();
        let index = state.objects.pop().unwrap_or_default();
        state.plan(found.targets, if request.pipelined { request.streams.max(1) } else { 1 });
        index
    };
    let body = request.keep.then_some(body);
    let workers = request.streams.clamp(1, page.state().objects.len().max(1));
    let mut first = Some(stream).filter(|stream| stream.is_usable());
    let work = (0..workers).map(|number| page.work(number, first.take()));
    if let Err(silence) = page.unless_silent(join_all(work)).await {
        page.state().give_up(&FetchError::Silent(silence));
    }
    let state = page.state.into_inner().unwrap_or_else(PoisonError::into_inner);
    let index = ObjectLoad { body, ..index };
    Ok(PageLoad { index, objects: state.objects, left_out: found.left_out })
}

struct Loading<'a, C> {
    connection: &'a C,
    request: &'a PageRequest,
    now: &'a (dyn Fn() -> Duration + Sync),
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    objects: Vec<ObjectLoad>,
    /// Objects that are to be asked for: with pipelining a queue for each stream, else one for all.
    queues: Vec<VecDeque<usize>>,
    attempts: Vec<u32>,
    /// Times that something came.
    heard: u64,
}

impl State {
    fn plan(&mut self, targets: Vec<String>, queues: usize) {
        self.queues = vec![VecDeque::new(); queues];
        for (index, target) in targets.into_iter().enumerate() {
            self.objects.push(ObjectLoad { target, ..ObjectLoad::default() });
            self.attempts.push(0);
            self.queues[index % queues].push_back(index);
        }
    }

    /// What has not come will not come.
    fn give_up(&mut self, error: &FetchError) {
        for object in self.objects.iter_mut().filter(|object| object.completed.is_none()) {
            object.error.get_or_insert_with(|| error.to_string());
        }
    }

    fn fail(&mut self, index: usize, error: &FetchError) {
        if let Some(object) = self.objects.get_mut(index) {
            object.error = Some(error.to_string());
        }
    }
}

impl<C: OpenStreams> Loading<'_, C> {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What stream `number` asks for next: all that waits for it, or with pipelining off one object.
    fn next(&self, number: usize) -> Vec<usize> {
        let mut state = self.state();
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

    /// Objects whose stream ended before their answers had begun are asked for again.
    fn again(&self, number: usize, indices: &[usize], error: &FetchError) {
        let mut state = self.state();
        for index in indices {
            if state.attempts.get(*index).is_some_and(|attempts| *attempts < MOST_ATTEMPTS) {
                let queues = state.queues.len().max(1);
                if let Some(queue) = state.queues.get_mut(number % queues) {
                    queue.push_back(*index);
                }
            } else {
                state.fail(*index, error);
            }
        }
    }

    /// One stream, which is replaced when it ends as long as there is something to do.
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
                        indices.iter().for_each(|index| self.state().fail(*index, &error));
                        continue;
                    }
                },
            };
            match usable.transact(self, first, rest).await {
                Ok(()) => stream = Some(usable).filter(Stream::is_usable),
                Err((broken, untouched, error)) => {
                    if let Some(broken) = broken {
                        self.state().fail(broken, &error);
                    }
                    self.again(number, &untouched, &error);
                }
            }
        }
    }
}

/// A stream with what was read of it.
struct Stream<S> {
    id: u16,
    answers: Answers<ReadHalf<S>>,
    writer: WriteHalf<S>,
    closes: bool,
}

/// An object whose answer was cut off, those whose answers had not begun, and why.
type Broken = (Option<usize>, Vec<usize>, FetchError);

impl<S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin + Send> Stream<S> {
    fn new(opened: ByteStream<S>) -> Self {
        let (reader, writer) = tokio::io::split(opened.io);
        Self { id: opened.id, answers: Answers::new(reader), writer, closes: false }
    }

    fn is_usable(&self) -> bool {
        !self.closes
    }

    /// The requests for some objects, one behind the other, and notes when they are written.
    fn requests<C: OpenStreams>(&self, page: &Loading<'_, C>, indices: &[usize]) -> Bytes {
        let now = (page.now)();
        let mut state = page.state();
        let mut requests = BytesMut::new();
        for index in indices {
            let Some(object) = state.objects.get_mut(*index) else { continue };
            (object.requested, object.stream) = (now, self.id);
            let (target, host) = (&object.target, &page.request.host);
            requests.extend_from_slice(
                format!("GET {target} HTTP/1.1\r\nHost: {host}\r\nUser-Agent: {AGENT}\r\n\r\n")
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

    /// Asks for objects and reads their answers. A server that waits for its answers to be read
    /// before it reads on does not stop this: both go on at once.
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
                let result = receive(answers, page, *index, page.request.keep, closes).await;
                match result {
                    Ok(_) => {}
                    Err(FetchError::Status(status)) => {
                        page.state().fail(*index, &FetchError::Status(status));
                    }
                    Err(error) if page.has_begun(*index) => {
                        return Err((Some(*index), later(), error));
                    }
                    Err(error) => {
                        return Err((None, all.get(at..).unwrap_or(&[]).to_vec(), error));
                    }
                }
            }
            Ok(())
        };
        // What cannot be written shows where answers are read, too.
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

impl<C: OpenStreams> Loading<'_, C> {
    fn has_begun(&self, index: usize) -> bool {
        self.state().objects.get(index).is_some_and(|object| object.status.is_some())
    }

    fn change(&self, index: usize, change: impl FnOnce(&mut ObjectLoad, Duration)) {
        let now = (self.now)();
        let mut state = self.state();
        state.heard += 1;
        if let Some(object) = state.objects.get_mut(index) {
            change(object, now);
        }
    }

    /// Does what waits for the server, as long as anything comes from it.
    async fn unless_silent<T>(&self, what: impl Future<Output = T>) -> Result<T, Duration> {
        let Some(silence) = self.request.silence else { return Ok(what.await) };
        let mut what = std::pin::pin!(what);
        loop {
            let before = self.state().heard;
            match tokio::time::timeout(silence, &mut what).await {
                Ok(done) => return Ok(done),
                Err(_) if self.state().heard > before => {}
                Err(_) => return Err(silence),
            }
        }
    }
}

/// Reads the answer to the request for an object; its body if it is kept.
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
    let head = answers.head().await?;
    *closes |= head.closes;
    page.change(index, |object, _| {
        (object.status, object.announced) = (Some(head.status), head.length);
    });
    let mut kept = BytesMut::new();
    let body = answers.body(head, |piece| {
        page.change(index, |object, now| object.arrive(now, piece.len() as u64));
        if keep && kept.len() + piece.len() <= LONGEST_INDEX {
            kept.extend_from_slice(&piece);
        }
    });
    body.await?;
    if head.status != 200 {
        let status = http::StatusCode::from_u16(head.status);
        return Err(FetchError::Status(status.unwrap_or(http::StatusCode::IM_A_TEAPOT)));
    }
    let kept = kept.freeze();
    page.change(index, |object, now| {
        if object.arrivals.is_empty() {
            object.arrive(now, 0);
        }
        object.completed = Some(now);
        object.body = keep.then(|| kept.clone());
    });
    Ok(kept)
}
