//! Serves all streams of a connection.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::error::Error;
use std::io;
use std::sync::Arc;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use http::{Request, Response};
use http_body::Body;
use hyper::body::Incoming;
use hyper::rt::Timer;
use hyper::server::conn::http1;
use hyper::service::Service;
use hyper_util::rt::TokioIo;
use tracing::debug;

use crate::error::root_cause;
use crate::gate::{Answer, Gate, MOST_REQUESTS, Stream, Watched};
use crate::stream::{AcceptStreams, ByteStream, Counted, Counters, StreamTotals};

/// How HTTP is served on streams.
#[derive(Clone, Debug)]
pub struct ServerOptions {
    http: http1::Builder,
    gate: Gate,
}

impl Default for ServerOptions {
    fn default() -> Self {
        let mut http = http1::Builder::new();
        // Bounds what one slow stream holds of a body beside the transport's send buffer.
        http.max_buf_size(256 << 10);
        Self { http, gate: Gate::new(MOST_REQUESTS) }
    }
}

impl ServerOptions {
    /// Works on so many requests at once, of all connections that are served with clones of these
    /// options; 256 unless told otherwise. A connection has a quarter of them at the most, and a
    /// quarter more is there for connections that have nothing at work; others wait.
    #[must_use]
    pub fn with_requests(mut self, most: usize) -> Self {
        self.gate = Gate::new(most);
        self
    }

    /// Closes streams whose next request has not come within 30 s, by this timer.
    #[must_use]
    pub fn with_timer(mut self, timer: impl Timer + Send + Sync + 'static) -> Self {
        self.http.timer(timer);
        self
    }
}

/// What became of a connection that was served.
#[derive(Debug)]
pub struct Served {
    /// What went over each stream, by number.
    pub streams: Vec<StreamTotals>,
    /// An error if the connection broke; what was being answered is cut off then.
    pub end: io::Result<()>,
}

/// Answers the requests on all streams of `connection` with `service`, until the peer opens no
/// more and the last stream has ended, or until the connection breaks.
///
/// A stream that breaks takes no other with it. The number of streams is bounded by the
/// connection, and the requests at work by the options. A stream breaks when its peer takes nothing
/// of an answer, on no stream of its connection, for two minutes, or for 5 s when other requests
/// wait. Dropping the future ends all streams. To be called within a tokio runtime with a timer.
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
    let gate = options.gate.connection(connection.pending());
    let mut open = true;
    let mut end = Ok(());
    // All streams share the connection's task: they wait for the same association anyhow, and
    // nothing has to be spawned, so that any executor will do.
    let mut streams = FuturesUnordered::new();
    while open || !streams.is_empty() {
        tokio::select! {
            // Not by lot, so that what runs in virtual time repeats itself.
            biased;
            accepted = connection.accept(), if open => match accepted {
                Ok(Some(ByteStream { id, io })) => {
                    // A number comes again when a stream is used anew after its end.
                    let counter = Arc::clone(counters.entry(id).or_default());
                    let stream = gate.stream();
                    streams.push(serve_stream(id, io, service.clone(), options, counter, stream));
                }
                Ok(None) => open = false,
                Err(error) => {
                    end = Err(error);
                    break;
                }
            },
            Some(()) = streams.next() => {}
        }
    }
    drop(streams);
    let streams = counters.into_iter().map(|(id, counter)| counter.totals(id)).collect();
    Served { streams, end }
}

async fn serve_stream<IO, S, B>(
    id: u16,
    io: IO,
    service: S,
    options: &ServerOptions,
    counters: Arc<Counters>,
    stream: Arc<Stream>,
) where
    IO: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin + Send,
    S: Service<Request<Incoming>, Response = Response<B>, Error = Infallible> + Clone,
    B: Body + 'static,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
{
    let counted = Arc::clone(&counters);
    let watched = Arc::clone(&stream);
    let service = hyper::service::service_fn(move |request| {
        counted.transaction();
        let (service, stream) = (service.clone(), Arc::clone(&watched));
        async move {
            stream.enter().await;
            let response = service.call(request).await?;
            Ok::<_, Infallible>(response.map(|body| Answer::new(body, stream)))
        }
    });
    let io = TokioIo::new(Watched::new(Counted::new(io, counters), stream));
    match options.http.serve_connection(io, service).await {
        Ok(()) => debug!(stream = id, "stream ended"),
        Err(error) => debug!(stream = id, reason = root_cause(&error), "stream broke"),
    }
}
