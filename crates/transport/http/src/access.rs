//! An access log: records each request and its result.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant, SystemTime};

use bytes::Buf;
use http::{Method, Request, Response, StatusCode};
use http_body::{Body, Frame, SizeHint};
use hyper::service::Service;

/// A request, and how much of its answer the peer accepted.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Access {
    /// When the request arrived.
    pub at: SystemTime,
    /// Its method.
    pub method: Method,
    /// Path and query as in the request line; the peer may send any text.
    pub target: String,
    /// The status of the answer.
    pub status: StatusCode,
    /// Bytes of the answer's body that were handed to the stream.
    pub bytes: u64,
    /// Whether these are all bytes of the body.
    pub complete: bool,
    /// Time from the request to the last byte of the answer.
    pub took: Duration,
}

impl Access {
    /// A request that was refused before a service saw it. Unknown values are logged as `-`.
    pub(crate) fn refused(status: StatusCode, request: Option<(Method, String)>) -> Self {
        let unknown = || (Method::from_bytes(b"-").unwrap_or_default(), "-".to_owned());
        let (method, target) = request.unwrap_or_else(unknown);
        let (at, took) = (SystemTime::now(), Duration::ZERO);
        Self { at, method, target, status, bytes: 0, complete: true, took }
    }
}

/// Returns path and query as in the request line.
pub(crate) fn target<R>(request: &Request<R>) -> String {
    request.uri().path_and_query().map_or("/", |target| target.as_str()).to_owned()
}

/// A service that reports each request once its answer is complete.
#[derive(Clone)]
pub struct Logged<S> {
    service: S,
    tell: Arc<dyn Fn(Access) + Send + Sync>,
}

impl<S: std::fmt::Debug> std::fmt::Debug for Logged<S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Logged").field("service", &self.service).finish_non_exhaustive()
    }
}

impl<S> Logged<S> {
    /// Calls `tell` for each request to `service`. It is called in the task that writes the answer,
    /// so it must not block.
    pub fn new(service: S, tell: impl Fn(Access) + Send + Sync + 'static) -> Self {
        Self { service, tell: Arc::new(tell) }
    }
}

impl<S, R, B> Service<Request<R>> for Logged<S>
where
    S: Service<Request<R>, Response = Response<B>, Error = Infallible>,
    S::Future: Send + 'static,
    B: Body,
{
    type Response = Response<LoggedBody<B>>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn call(&self, request: Request<R>) -> Self::Future {
        let begun = Instant::now();
        let at = SystemTime::now();
        let method = request.method().clone();
        let target = target(&request);
        let (took, status) = (Duration::ZERO, gone());
        let access = Access { at, method, target, status, bytes: 0, complete: false, took };
        // If the request is dropped before there is an answer, this still logs it.
        let told = Told { begun, access: Some(access), tell: Arc::clone(&self.tell) };
        let answering = self.service.call(request);
        Box::pin(async move {
            let mut told = told;
            let response = answering.await?;
            let status = response.status();
            Ok(response.map(|body| {
                let complete = body.is_end_stream();
                let access = told.access.take().map(|of| Access { status, complete, ..of });
                LoggedBody { body, told: Told { begun, access, tell: Arc::clone(&told.tell) } }
            }))
        })
    }
}

/// 499: the peer closed the stream before there was an answer. Other servers log the same number.
fn gone() -> StatusCode {
    StatusCode::from_u16(499).unwrap_or(StatusCode::REQUEST_TIMEOUT)
}

/// Logs a request when it is dropped.
struct Told {
    begun: Instant,
    access: Option<Access>,
    tell: Arc<dyn Fn(Access) + Send + Sync>,
}

/// A body that counts the bytes taken from it, and logs the request when dropped.
pub struct LoggedBody<B> {
    body: B,
    told: Told,
}

impl<B: std::fmt::Debug> std::fmt::Debug for LoggedBody<B> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LoggedBody").field("body", &self.body).finish_non_exhaustive()
    }
}

impl Drop for Told {
    fn drop(&mut self) {
        if let Some(mut access) = self.access.take() {
            access.took = self.begun.elapsed();
            (self.tell)(access);
        }
    }
}

impl<B: Body + Unpin> Body for LoggedBody<B> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Self::Data>, Self::Error>>> {
        let polled = Pin::new(&mut self.body).poll_frame(cx);
        let over = self.body.is_end_stream();
        if let Some(access) = &mut self.told.access {
            match &polled {
                Poll::Ready(Some(Ok(frame))) => {
                    let data = frame.data_ref().map_or(0, Buf::remaining);
                    access.bytes += data as u64;
                    access.complete = over;
                }
                Poll::Ready(None) => access.complete = true,
                Poll::Ready(Some(Err(_))) | Poll::Pending => {}
            }
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use http_body_util::{BodyExt as _, Full};

    use super::*;

    struct Twelve;

    impl Service<Request<()>> for Twelve {
        type Response = Response<Full<&'static [u8]>>;
        type Error = Infallible;
        type Future = std::future::Ready<Result<Self::Response, Infallible>>;

        fn call(&self, _: Request<()>) -> Self::Future {
            std::future::ready(Ok(Response::new(Full::new(&b"twelve bytes"[..]))))
        }
    }

    #[tokio::test]
    async fn an_access_is_told_when_its_answer_is_over() {
        let told = Arc::new(Mutex::new(Vec::new()));
        let to = Arc::clone(&told);
        let service = Logged::new(Twelve, move |access| to.lock().unwrap().push(access));
        let request = || Request::get("/a?b").body(()).unwrap();

        let whole = service.call(request()).await.unwrap();
        assert!(told.lock().unwrap().is_empty(), "the answer is not over");
        assert_eq!(whole.into_body().collect().await.unwrap().to_bytes(), "twelve bytes");
        let access = told.lock().unwrap().pop().unwrap();
        assert_eq!((access.bytes, access.complete), (12, true));
        assert_eq!((access.target.as_str(), access.status), ("/a?b", StatusCode::OK));

        drop(service.call(request()));
        let access = told.lock().unwrap().pop().unwrap();
        assert_eq!((access.status.as_u16(), access.complete), (499, false), "before an answer");

        drop(service.call(request()).await.unwrap());
        let access = told.lock().unwrap().pop().unwrap();
        assert_eq!((access.bytes, access.complete), (0, false), "the peer has gone away");
    }
}
