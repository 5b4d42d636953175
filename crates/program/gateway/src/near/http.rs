//! The HTTP proxy: requests in absolute form, CONNECT, and the page and file of the proxy itself.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HOST, HeaderValue};
use http::uri::{PathAndQuery, Scheme};
use http::{Method, Request, Response, StatusCode, Uri, Version};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full};
use hyper::body::{Body as _, Incoming};
use hyper::client::conn::http1::{self, SendRequest};
use hyper::server::conn::http1 as server;
use hyper::service::service_fn;
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpStream;

use super::body::{self, Bodies, Carried, Passed, Report};
use super::tunnel::{Refused, Tunnel};
use super::{Near, fields, pac, page};
use crate::access::{Access, Asked};
use crate::protocol::Content;
use crate::status::{Refusal, Status};
use crate::stream::Stream;
use crate::target::Target;

/// How long the head of a request may take to arrive, and how long a connection may be idle.
const HEAD: Duration = Duration::from_secs(60);

/// Most bytes of a request's head; also what is read ahead of a body.
const LONGEST_HEAD: usize = 64 << 10;

/// The body of an answer.
type Answer = Response<UnsyncBoxBody<Bytes, body::Error>>;

/// A connection that waits for more requests to the same target.
struct Kept {
    target: Target,
    sender: SendRequest<Passed>,
    refused: Refused,
}

/// One connection of a client.
struct Client {
    near: Arc<Near>,
    /// Address of the client.
    from: SocketAddr,
    /// Address to which it connected.
    local: SocketAddr,
    kept: Mutex<Option<Kept>>,
    /// The tunnel of a successful CONNECT.
    tunnel: Mutex<Option<(OnUpgrade, Stream, Target)>>,
}

/// Serves a connection on which the client speaks HTTP.
pub(super) async fn serve(near: Arc<Near>, tcp: TcpStream, from: SocketAddr) {
    let Ok(local) = tcp.local_addr() else { return };
    let client =
        Arc::new(Client { near, from, local, kept: Mutex::default(), tunnel: Mutex::default() });
    let service = {
        let client = Arc::clone(&client);
        service_fn(move |request| {
            let client = Arc::clone(&client);
            async move { Ok::<_, Infallible>(client.answer(request).await) }
        })
    };
    let connection = server_builder().serve_connection(TokioIo::new(tcp), service).with_upgrades();
    if let Err(error) = connection.await {
        tracing::debug!(client = %from, %error, "a connection to the proxy ended");
    }
    let tunnel = lock(&client.tunnel).take();
    if let Some((upgrade, stream, target)) = tunnel
        && let Ok(upgraded) = upgrade.await
        && let Ok(parts) = upgraded.downcast::<TokioIo<TcpStream>>()
    {
        let tcp = parts.io.into_inner();
        client.near.tunnel(tcp, parts.read_buf, stream, (Asked::Connect, from), target).await;
    }
}

/// How requests of clients are read.
pub(crate) fn server_builder() -> server::Builder {
    let mut http = server::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(HEAD).max_buf_size(LONGEST_HEAD);
    http.preserve_header_case(true);
    http
}

/// How requests go to their targets.
pub(crate) fn client_builder() -> http1::Builder {
    let mut http = http1::Builder::new();
    http.preserve_header_case(true).max_buf_size(LONGEST_HEAD.max(128 << 10));
    http
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Client {
    async fn answer(&self, request: Request<Incoming>) -> Answer {
        if request.method() == Method::CONNECT {
            return self.connect(request).await;
        }
        match request.uri().scheme() {
            Some(scheme) if *scheme == Scheme::HTTP => self.forward(request).await,
            Some(_) => refusal(&Refusal::new(
                Status::Unsupported,
                "a proxy fetches http URLs only: for others, the client must use CONNECT",
            )),
            None => self.own(&request),
        }
    }

    /// What the proxy itself serves.
    fn own(&self, request: &Request<Incoming>) -> Answer {
        if request.uri().path().starts_with(page::PATH)
            && let Some(answer) = page::answer(&self.near, request)
        {
            return answer.map(full);
        }
        if ![Method::GET, Method::HEAD].contains(request.method()) {
            return text(StatusCode::METHOD_NOT_ALLOWED, "this is a proxy\n".to_owned());
        }
        match request.uri().path() {
            pac::PATH => {
                let mut answer = text(StatusCode::OK, pac::script(self.local));
                answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(pac::TYPE));
                answer
            }
            "/" => text(StatusCode::OK, pac::page(self.local)),
            _ => text(StatusCode::NOT_FOUND, pac::page(self.local)),
        }
    }

    async fn connect(&self, mut request: Request<Incoming>) -> Answer {
        let began = Instant::now();
        let target = request.uri().authority().and_then(|to| Target::parse(to.as_str(), None));
        let Some(target) = target else {
            return refusal(&Refusal::new(Status::Malformed, "CONNECT needs HOST:PORT"));
        };
        match self.near.connect(&target).await {
            Ok(stream) => {
                let upgrade = hyper::upgrade::on(&mut request);
                *lock(&self.tunnel) = Some((upgrade, stream, target));
                Response::new(empty())
            }
            Err(refused) => {
                self.near.refused((Asked::Connect, self.from), &target, &refused, began);
                refusal(&refused)
            }
        }
    }

    /// Passes a request on, and its answer back.
    async fn forward(&self, request: Request<Incoming>) -> Answer {
        let began = Instant::now();
        let access = Access {
            asked: Asked::Http,
            client: Some(self.from),
            target: format!("{} {}", request.method(), request.uri()),
            address: None,
            status: Status::Connected,
            code: None,
            bytes_sent: 0,
            bytes_received: 0,
            took: Duration::ZERO,
            error: None,
        };
        let mut report = Report {
            log: Arc::clone(&self.near.log),
            access,
            began,
            sent: Arc::default(),
            received: Arc::default(),
            counted: None,
        };
        let result = match outgoing(request, self.near.body_timeout) {
            Ok((target, request)) => {
                report.sent = request.body().carried();
                let (sent, received) = (Arc::clone(&report.sent), Arc::clone(&report.received));
                report.counted = Some(self.near.count(&target, Bodies { sent, received }));
                self.fetch(target, request).await
            }
            Err(refused) => Err(refused),
        };
        let answer = match result {
            Ok(answer) => answer,
            Err(refused) => {
                let answer = refusal(&refused);
                let stopped = report.sent.stopped.load(Relaxed);
                report.access.code = Some(answer.status().as_u16());
                report.access.status = refused.status;
                report.access.error = Some(refused.to_string());
                return if stopped {
                    with_status(answer, StatusCode::REQUEST_TIMEOUT)
                } else {
                    answer
                };
            }
        };
        report.access.code = Some(answer.status().as_u16());
        let mut answer = answer.map(|body| Passed::of_answer(body, report).boxed_unsync());
        *answer.version_mut() = Version::HTTP_11;
        fields::forward(answer.headers_mut());
        answer
    }

    /// Sends a request on the connection that is kept, or on a new one.
    async fn fetch(
        &self,
        target: Target,
        mut request: Request<Passed>,
    ) -> Result<Response<Incoming>, Refusal> {
        let kept = lock(&self.kept).take().filter(|kept| kept.target == target);
        if let Some(mut kept) = kept
            && kept.sender.ready().await.is_ok()
        {
            // The target may close the connection at the moment when the request is on its way.
            let again = can_repeat(&request).then(|| copy(&request));
            match self.send(&mut kept, request).await {
                Ok(answer) => return Ok(self.keep(kept, answer)),
                Err((refused, unsent)) => match unsent.or(again) {
                    Some(unsent) => request = unsent,
                    None => return Err(refused),
                },
            }
        }
        let again = can_repeat(&request).then(|| copy(&request));
        let mut kept = self.open(target.clone()).await?;
        let refused = match self.send(&mut kept, request).await {
            Ok(answer) => return Ok(self.keep(kept, answer)),
            Err((refused, _)) => refused,
        };
        // The association was lost before the target was reached, or while it answered: the next one may be there soon.
        let Some(again) = again.filter(|_| refused.status == Status::Lost) else {
            return Err(refused);
        };
        let mut kept = self.open(target).await?;
        match self.send(&mut kept, again).await {
            Ok(answer) => Ok(self.keep(kept, answer)),
            Err((refused, _)) => Err(refused),
        }
    }

    fn keep(&self, kept: Kept, answer: Response<Incoming>) -> Response<Incoming> {
        *lock(&self.kept) = Some(kept);
        answer
    }

    /// Opens a connection to a target. Whether the far side reaches it is known with the first answer.
    async fn open(&self, target: Target) -> Result<Kept, Refusal> {
        let tunnel = Tunnel::new(self.near.link.open(Content::Http, &target).await?);
        let refused = tunnel.refused();
        let handshake = client_builder().handshake(TokioIo::new(tunnel)).await;
        let (sender, connection) =
            handshake.map_err(|error| Refusal::new(Status::Failed, error))?;
        // It ends with the sender and the body of its last answer.
        tokio::spawn(connection);
        Ok(Kept { target, sender, refused })
    }

    /// Sends a request, and waits for the head of the answer. A request that has not been sent comes back.
    async fn send(
        &self,
        kept: &mut Kept,
        request: Request<Passed>,
    ) -> Result<Response<Incoming>, (Refusal, Option<Request<Passed>>)> {
        let sent = request.body().carried();
        let answer =
            moving(kept.sender.try_send_request(request), &sent, self.near.answer_timeout).await;
        let target = &kept.target;
        let mut error = match answer {
            Some(Ok(answer)) if fields::has_other_codings(answer.headers()) => {
                let error =
                    format!("{target} answered with a transfer coding that is not supported");
                return Err((Refusal::new(Status::Failed, error), None));
            }
            Some(Ok(answer)) => return Ok(answer),
            Some(Err(error)) => error,
            None => {
                let error =
                    format!("{target} has not answered within {:?}", self.near.answer_timeout);
                return Err((Refusal::new(Status::TimedOut, error), None));
            }
        };
        let refused = kept.refused.get().cloned();
        if sent.stopped.load(Relaxed) {
            let stopped = Refusal::new(Status::TimedOut, "the body of the request stopped");
            return Err((stopped, None));
        }
        // If the far side has refused the connection, another attempt would lead to the same.
        let unsent = error.take_message().filter(|_| refused.is_none());
        let error = root(error.error());
        let failed =
            || Refusal::new(Status::Failed, format!("{target} did not answer properly: {error}"));
        Err((refused.unwrap_or_else(failed), unsent))
    }
}

/// Waits for an answer as long as the body of the request moves, and for `patience` after that.
async fn moving<T>(
    answer: impl Future<Output = T>,
    sent: &Carried,
    patience: Duration,
) -> Option<T> {
    let mut answer = std::pin::pin!(answer);
    loop {
        let before = sent.bytes.load(Relaxed);
        match tokio::time::timeout(patience, &mut answer).await {
            Ok(answer) => return Some(answer),
            Err(_) if sent.bytes.load(Relaxed) == before => return None,
            Err(_) => {}
        }
    }
}

/// The request as it is sent to its target.
pub(crate) fn outgoing(
    request: Request<Incoming>,
    body_timeout: Duration,
) -> Result<(Target, Request<Passed>), Refusal> {
    let malformed = |error: &str| Refusal::new(Status::Malformed, error);
    if fields::has_other_codings(request.headers()) {
        let error = "a transfer coding besides 'chunked' is not supported";
        return Err(Refusal::new(Status::Unsupported, error));
    }
    let authority = request.uri().authority().map(|to| to.as_str().to_owned());
    let target = authority.as_deref().and_then(|to| Target::parse(to, Some(80)));
    let (Some(target), Some(authority)) = (target, authority) else {
        return Err(malformed("the URL names no valid host"));
    };
    let (mut parts, body) = request.into_parts();
    // That of `http://host#fragment` is empty, and only `as_str` makes it '/'.
    let path = parts.uri.path_and_query().and_then(|path| path.as_str().parse().ok());
    parts.uri = Uri::from(path.unwrap_or_else(|| PathAndQuery::from_static("/")));
    parts.version = Version::HTTP_11;
    fields::forward(&mut parts.headers);
    // The URL decides, not the field that came with it (RFC 9112 section 3.2.2).
    let host = HeaderValue::try_from(authority).map_err(|_| malformed("the host is invalid"))?;
    parts.headers.insert(HOST, host);
    let body =
        if body.is_end_stream() { Passed::empty() } else { Passed::of_request(body, body_timeout) };
    Ok((target, Request::from_parts(parts, body)))
}

/// Whether a request may be sent twice (RFC 9110 section 9.2.2).
fn can_repeat(request: &Request<Passed>) -> bool {
    request.method().is_idempotent() && request.body().is_end_stream()
}

/// A copy of a request without a body.
fn copy(request: &Request<Passed>) -> Request<Passed> {
    let mut copy = Request::new(Passed::empty());
    *copy.method_mut() = request.method().clone();
    *copy.uri_mut() = request.uri().clone();
    *copy.headers_mut() = request.headers().clone();
    *copy.extensions_mut() = request.extensions().clone();
    copy
}

/// The innermost cause of an error.
fn root(error: &hyper::Error) -> String {
    let mut cause: &dyn std::error::Error = error;
    while let Some(next) = cause.source() {
        cause = next;
    }
    cause.to_string()
}

fn empty() -> UnsyncBoxBody<Bytes, body::Error> {
    Full::default().map_err(|never: Infallible| match never {}).boxed_unsync()
}

fn full(body: Bytes) -> UnsyncBoxBody<Bytes, body::Error> {
    Full::from(body).map_err(|never: Infallible| match never {}).boxed_unsync()
}

fn text(status: StatusCode, text: String) -> Answer {
    let mut answer = Response::new(full(text.into()));
    *answer.status_mut() = status;
    let plain = HeaderValue::from_static("text/plain; charset=utf-8");
    answer.headers_mut().insert(CONTENT_TYPE, plain);
    answer
}

fn with_status(mut answer: Answer, status: StatusCode) -> Answer {
    *answer.status_mut() = status;
    answer
}

/// The answer to a request that cannot be fulfilled, with the reason for programs (RFC 9209) and for people.
fn refusal(refusal: &Refusal) -> Answer {
    let mut answer = text(refusal.status.http(), format!("anabranch gateway: {refusal}\n"));
    let reason = format!("anabranch; error={}", refusal.status.proxy_status());
    if let Ok(reason) = HeaderValue::try_from(reason) {
        answer.headers_mut().insert("proxy-status", reason);
    }
    answer
}
