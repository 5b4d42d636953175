//! Serves HTTP on all streams of a connection.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::error::Error;
use std::fmt;
use std::future::poll_fn;
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use futures_util::stream::FuturesUnordered;
use http::header::{CONNECTION, HeaderValue};
use http::{Request, Response, StatusCode};
use http_body::Body;
use hyper::body::Incoming;
use hyper::rt::Timer;
use hyper::server::conn::http1;
use hyper::service::Service;
use hyper_util::rt::TokioIo;
use tokio::sync::watch;
use tokio::time::{Instant, sleep};
use tracing::debug;

use crate::access::{self, Access};
use crate::error::root_cause;
use crate::gate::{Activity, Answer, End, Gate, Limits, Patience, Stream, Watched};
use crate::host::names_its_host;
use crate::priority::Priority;
use crate::stream::{
    AcceptStreams, ByteStream, Counted, Counters, Prioritise, StreamTotals, TakeBytes,
};
use crate::turn::Turn;

/// Default time that a connection may be without a stream.
const IDLE: Duration = Duration::from_secs(120);

/// How HTTP is served on streams.
#[derive(Clone)]
pub struct ServerOptions {
    http: http1::Builder,
    limits: Limits,
    gate: Gate,
    idle: Option<Duration>,
    refused: Option<Arc<dyn Fn(Access) + Send + Sync>>,
    activity: Option<Activity>,
    stop: Option<watch::Receiver<bool>>,
}

impl fmt::Debug for ServerOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { http, limits, gate, idle, .. } = self;
        let mut options = f.debug_struct("ServerOptions");
        options.field("http", http).field("limits", limits).field("gate", gate).field("idle", idle);
        options.finish_non_exhaustive()
    }
}

impl Default for ServerOptions {
    fn default() -> Self {
        let mut http = http1::Builder::new();
        // Limits the bytes of a body that a slow stream holds in addition to the transport's send buffer.
        http.max_buf_size(256 << 10);
        // A client may end its side and wait for the answer.
        http.half_close(true);
        let limits = Limits::default();
        let (gate, idle) = (Gate::new(limits), Some(IDLE));
        Self { http, limits, gate, idle, refused: None, activity: None, stop: None }
    }
}

/// Limits apply to all connections together that are served with clones of these options.
impl ServerOptions {
    /// Processes at most this many requests at the same time, over all connections that are served with clones of these
    /// options; 256 by default. One connection may have a quarter of them, and another quarter is reserved for
    /// connections without a request in progress. Other requests wait.
    #[must_use]
    pub fn with_requests(self, most: usize) -> Self {
        self.with_limits(|limits| limits.requests = most)
    }

    /// Keeps up to this many answers with slow readers while others wait for a place, in addition to the requests in
    /// progress; by default eight times as many as those. Each has an open file and about 64 KiB; an answer that holds
    /// more counts as several. When there are too many, one is ended: an answer whose connection has made no progress
    /// for 5 s, or one of the connection that has the most.
    #[must_use]
    pub fn with_slow_answers(self, most: usize) -> Self {
        self.with_limits(|limits| limits.parked = Some(most))
    }

    /// Answers the requests of a connection one after another, in the order in which they are complete, instead of
    /// several at the same time.
    #[must_use]
    pub fn with_one_by_one(self, one_by_one: bool) -> Self {
        self.with_limits(|limits| limits.one_by_one = one_by_one)
    }

    /// Sets the maximum length of a request's head, in bytes; 16 KiB by default.
    #[must_use]
    pub fn with_longest_head(self, bytes: usize) -> Self {
        self.with_limits(|limits| limits.head = bytes)
    }

    /// Sets how long a peer may read nothing of its answers on any stream of its connection; two minutes by default.
    #[must_use]
    pub fn with_patience(self, patience: Duration) -> Self {
        self.with_limits(|limits| limits.patience = patience)
    }

    /// Ends connections that had no open stream for this time, two minutes by default; `None` never ends them.
    #[must_use]
    pub fn with_idle_timeout(mut self, idle: Option<Duration>) -> Self {
        self.idle = idle;
        self
    }

    /// Sets a timer, with which streams whose next request is not complete within 30 s are closed.
    #[must_use]
    pub fn with_timer(mut self, timer: impl Timer + Send + Sync + 'static) -> Self {
        self.http.timer(timer);
        self
    }

    /// Sets how long a request may take to arrive before its stream is closed; 30 s by default. Needs a timer.
    #[must_use]
    pub fn with_header_timeout(mut self, time: Duration) -> Self {
        self.http.header_read_timeout(time);
        self
    }

    /// Calls `refused` for each request that the service does not see, because it is malformed (400), its head is too
    /// long (431), or it was incomplete after the time limit (408). `refused` must not block.
    #[must_use]
    pub fn with_refused(mut self, refused: impl Fn(Access) + Send + Sync + 'static) -> Self {
        self.refused = Some(Arc::new(refused));
        self
    }

    /// Calls `activity` with `true` when a connection has a request in progress after there was none, and with `false`
    /// when the transport has accepted all of its answers. `activity` must not block.
    #[must_use]
    pub fn with_activity(mut self, activity: impl Fn(bool) + Send + Sync + 'static) -> Self {
        self.activity = Some(Arc::new(activity));
        self
    }

    /// Stops the server when `stop` becomes `true`: connections accept no more requests, and end after the answers in
    /// progress.
    #[must_use]
    pub fn with_stop(mut self, stop: watch::Receiver<bool>) -> Self {
        self.stop = Some(stop);
        self
    }

    #[cfg(test)]
    pub(crate) fn gate(&self) -> &Gate {
        &self.gate
    }

    fn with_limits(mut self, change: impl FnOnce(&mut Limits)) -> Self {
        change(&mut self.limits);
        self.gate = Gate::new(self.limits);
        self
    }
}

/// The result of serving a connection.
#[derive(Debug)]
pub struct Served {
    /// The traffic of each stream, by number.
    pub streams: Vec<StreamTotals>,
    /// An error if the connection broke; then answers in progress were cut off.
    pub end: io::Result<()>,
}

/// Answers the requests on all streams of `connection` with `service`. Returns when the peer opens no more streams and
/// the last one has ended, or when the connection breaks.
///
/// A stream that breaks does not affect others. The connection limits the number of streams, and the options limit the
/// requests in progress. A stream is broken off if an answer is in progress and the peer reads nothing on any stream of
/// the connection for two minutes, or for 5 s if the answer keeps other requests from being served. A connection
/// without streams ends after a while ([`with_idle_timeout`](ServerOptions::with_idle_timeout)). Dropping the future
/// ends all streams. Must be called within a tokio runtime with a timer.
pub async fn serve_connection<C, S, B>(
    mut connection: C,
    service: S,
    options: &ServerOptions,
) -> Served
where
    C: AcceptStreams,
    S: Service<Request<Incoming>, Response = Response<B>, Error = Infallible> + Clone,
    B: Body + 'static,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
{
    let mut counters = BTreeMap::<_, Arc<Counters>>::new();
    let gate = options.gate.connection(connection.pending(), options.activity.clone());
    let prioritise = connection.prioritise();
    let mut open = true;
    let mut end = Ok(());
    let mut idle = pin!(sleep(options.idle.unwrap_or_default()));
    let mut stop = pin!(stopped(options.stop.clone()));
    let mut stopping = false;
    // All streams share the connection's task, since they wait for the same association anyway. As nothing is spawned,
    // any executor works.
    let turn = Turn::default();
    let mut streams = FuturesUnordered::new();
    while open || !streams.is_empty() {
        tokio::select! {
            // A fixed order makes runs in virtual time reproducible.
            biased;
            () = &mut stop, if !stopping => {
                (stopping, open) = (true, false);
                gate.stop();
            }
            accepted = connection.accept(), if open => match accepted {
                Ok(Some(ByteStream { id, io })) => {
                    // A number may be used again after its stream has ended.
                    let counter = Arc::clone(counters.entry(id).or_default());
                    let stream = gate.stream();
                    let served = Serving { id, counter, stream, prioritise: prioritise.clone() };
                    streams.push(turn.share(served.serve(io, service.clone(), options)));
                }
                Ok(None) => open = false,
                Err(error) => {
                    end = Err(error);
                    break;
                }
            },
            Some(()) = poll_fn(|cx| turn.poll_next(cx, &mut streams)) => {
                if let Some(time) = options.idle.filter(|_| streams.is_empty()) {
                    idle.as_mut().reset(Instant::now() + time);
                }
            }
            () = &mut idle, if streams.is_empty() && options.idle.is_some() => {
                debug!("no stream for too long");
                break;
            }
        }
    }
    drop(streams);
    let streams = counters.into_iter().map(|(id, counter)| counter.totals(id)).collect();
    Served { streams, end }
}

/// Waits until the server should stop.
async fn stopped(stop: Option<watch::Receiver<bool>>) {
    if let Some(mut stop) = stop
        && stop.wait_for(|stop| *stop).await.is_ok()
    {
        return;
    }
    std::future::pending::<()>().await;
}

/// A stream that is being served.
struct Serving {
    id: u16,
    counter: Arc<Counters>,
    stream: Arc<Stream>,
    prioritise: Option<Prioritise>,
}

impl Serving {
    async fn serve<IO, S, B>(self, io: IO, service: S, options: &ServerOptions)
    where
        IO: tokio::io::AsyncRead + TakeBytes + Unpin + Send,
        S: Service<Request<Incoming>, Response = Response<B>, Error = Infallible> + Clone,
        B: Body + 'static,
        B::Error: Into<Box<dyn Error + Send + Sync>>,
    {
        let Self { id, counter, stream, prioritise } = self;
        let counted = Arc::clone(&counter);
        let watched = Arc::clone(&stream);
        let refused = options.refused.clone();
        let service = hyper::service::service_fn(move |mut request: Request<Incoming>| {
            counted.transaction();
            if let Some(prioritise) = &prioritise {
                prioritise(id, Priority::of(request.headers()));
            }
            let (service, stream) = (service.clone(), Arc::clone(&watched));
            let refused = refused.clone();
            async move {
                stream.enter().await;
                if !names_its_host(&request) {
                    if let Some(refused) = refused {
                        let request = (request.method().clone(), access::target(&request));
                        refused(Access::refused(StatusCode::BAD_REQUEST, Some(request)));
                    }
                    let mut response = Response::new(Answer::empty(stream));
                    *response.status_mut() = StatusCode::BAD_REQUEST;
                    response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
                    return Ok(response);
                }
                request.extensions_mut().insert(Patience::of(&stream));
                let response = service.call(request).await?;
                Ok::<_, Infallible>(response.map(|body| Answer::new(body, stream)))
            }
        });
        let io = TokioIo::new(Watched::new(Counted::new(io, counter), Arc::clone(&stream)));
        let mut connection = options.http.serve_connection(io, service);
        let served = loop {
            tokio::select! {
                biased;
                end = stream.told_to_end() => match end {
                    End::Ousted => return debug!(stream = id, "stream was ended: others needed its room"),
                    End::AfterAnswer => std::pin::Pin::new(&mut connection).graceful_shutdown(),
                },
                served = &mut connection => break served,
            }
        };
        let Err(error) = served else { return debug!(stream = id, "stream ended") };
        debug!(stream = id, reason = root_cause(&error), "stream broke");
        if error.is_timeout() && stream.has_part_of_a_head() {
            let mut io = connection.into_parts().io.into_inner();
            let refuse = poll_fn(|cx| {
                io.refuse(cx, StatusCode::REQUEST_TIMEOUT);
                Poll::Ready(())
            });
            refuse.await;
        }
        if let (Some(refused), Some(status)) = (&options.refused, refusal(&error, &stream)) {
            refused(Access::refused(status, None));
        }
    }
}

/// The status with which a request was refused, if that is why the stream broke.
fn refusal(error: &hyper::Error, stream: &Stream) -> Option<StatusCode> {
    let parsed = || match (error.is_parse_too_large(), error.is_parse()) {
        (true, _) => Some(StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE),
        (false, true) => Some(StatusCode::BAD_REQUEST),
        (false, false) => None,
    };
    stream.refused().or_else(parsed)
}
