//! Bodies that are passed on: of requests, which must not stop, and of answers, which are reported.

use std::future::Future as _;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use tokio::time::{Instant, Sleep, sleep};

use crate::access::{Access, Log};
use crate::status::{Refusal, Status};
use crate::traffic::{Amount, Carries, Connection};

/// A boxed error of a body.
pub(crate) type Error = Box<dyn std::error::Error + Send + Sync>;

/// What is known about a body while others read it.
#[derive(Debug, Default)]
pub(crate) struct Carried {
    pub(crate) bytes: AtomicU64,
    /// The client has sent nothing for too long.
    pub(crate) stopped: AtomicBool,
    /// The body has ended as it should.
    pub(crate) whole: AtomicBool,
}

/// A body that is passed on.
#[derive(Debug)]
pub(crate) struct Passed {
    /// `None` is an empty body.
    body: Option<Incoming>,
    carried: Arc<Carried>,
    patience: Option<Patience>,
    /// Writes the log when this body is dropped.
    _report: Option<Report>,
}

/// How long a body may be silent.
#[derive(Debug)]
struct Patience {
    most: Duration,
    /// Runs while `waits`.
    over: Pin<Box<Sleep>>,
    /// The body is waited for. While its bytes are not taken, it cannot be silent.
    waits: bool,
}

impl Patience {
    /// Whether the body has been silent for too long. Called when it has nothing.
    fn is_over(&mut self, cx: &mut Context<'_>) -> bool {
        if !std::mem::replace(&mut self.waits, true) {
            self.over.as_mut().reset(Instant::now() + self.most);
        }
        self.over.as_mut().poll(cx).is_ready()
    }
}

impl Passed {
    /// The body of a request. It fails if it is silent for longer than `most`.
    pub(crate) fn of_request(body: Incoming, most: Duration) -> Self {
        let patience = Patience { most, over: Box::pin(sleep(most)), waits: false };
        Self { patience: Some(patience), ..Self::new(Some(body), Arc::default()) }
    }

    /// A request without a body.
    pub(crate) fn empty() -> Self {
        Self::new(None, Arc::default())
    }

    /// The body of an answer, which is reported when it has ended.
    pub(crate) fn of_answer(body: Incoming, report: Report) -> Self {
        let carried = Arc::clone(&report.received);
        Self { _report: Some(report), ..Self::new(Some(body), carried) }
    }

    fn new(body: Option<Incoming>, carried: Arc<Carried>) -> Self {
        let this = Self { body, carried, patience: None, _report: None };
        this.carried.whole.store(this.is_end_stream(), Relaxed);
        this
    }

    /// What is known about the body later.
    pub(crate) fn carried(&self) -> Arc<Carried> {
        Arc::clone(&self.carried)
    }
}

impl Body for Passed {
    type Data = Bytes;
    type Error = Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Error>>> {
        let this = &mut *self;
        let Some(body) = &mut this.body else { return Poll::Ready(None) };
        let Poll::Ready(frame) = Pin::new(body).poll_frame(cx) else {
            if this.patience.as_mut().is_some_and(|patience| patience.is_over(cx)) {
                this.carried.stopped.store(true, Relaxed);
                let stopped = Refusal::new(Status::TimedOut, "the body of the request stopped");
                return Poll::Ready(Some(Err(stopped.into())));
            }
            return Poll::Pending;
        };
        if let Some(patience) = &mut this.patience {
            patience.waits = false;
        }
        if let Some(Ok(frame)) = &frame {
            let length = frame.data_ref().map_or(0, Bytes::len);
            this.carried.bytes.fetch_add(length as u64, Relaxed);
        }
        if frame.is_none() || this.is_end_stream() {
            this.carried.whole.store(true, Relaxed);
        }
        Poll::Ready(frame.map(|frame| frame.map_err(Into::into)))
    }

    fn is_end_stream(&self) -> bool {
        self.body.as_ref().is_none_or(Body::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.body.as_ref().map_or_else(|| SizeHint::with_exact(0), Body::size_hint)
    }
}

/// Reports a request when it is dropped.
pub(crate) struct Report {
    pub(crate) log: Log,
    pub(crate) access: Access,
    pub(crate) began: std::time::Instant,
    pub(crate) sent: Arc<Carried>,
    pub(crate) received: Arc<Carried>,
    /// Counts the request as open.
    pub(crate) counted: Option<Connection>,
}

/// The bodies of a request and its answer.
pub(crate) struct Bodies {
    pub(crate) sent: Arc<Carried>,
    pub(crate) received: Arc<Carried>,
}

impl Carries for Bodies {
    fn carried(&self) -> Amount {
        Amount::new(self.sent.bytes.load(Relaxed), self.received.bytes.load(Relaxed))
    }
}

impl std::fmt::Debug for Report {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Report").field("access", &self.access).finish_non_exhaustive()
    }
}

impl Drop for Report {
    fn drop(&mut self) {
        drop(self.counted.take());
        let mut access = self.access.clone();
        access.bytes_sent = self.sent.bytes.load(Relaxed);
        access.bytes_received = self.received.bytes.load(Relaxed);
        access.took = self.began.elapsed();
        let whole = self.received.whole.load(Relaxed);
        if access.error.is_none() && access.status == Status::Connected && !whole {
            access.error = Some("cut off".to_owned());
        }
        (self.log)(access);
    }
}
