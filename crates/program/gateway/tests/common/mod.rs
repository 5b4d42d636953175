//! A pair of both sides on this host, and a server that is reached through it.

#![allow(dead_code, reason = "each test file uses a part of it")]

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anabranch::{AssociationConfig, ConnectOptions, Endpoint};
use anabranch_gateway::{
    Access, Account, Accounts, Allowances, Far, FarOptions, Link, Log, Near, NearOptions, Rule,
    Rules, Status,
};
use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt as _, Full};
use hyper::body::{Frame, Incoming};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

/// Makes a test fail that would hang.
pub(crate) const HANGS: Duration = Duration::from_secs(60);

/// The SCTP port of the far side.
const PORT: u16 = 9080;

/// The only user of the far side.
const USER: &str = "somebody";

/// Bytes of a file; the same for the same length.
pub(crate) fn content(length: usize) -> Bytes {
    (0..length).map(|at| (at * 7 + at / 251) as u8).collect()
}

/// A server for HTTP. Its paths: `/N` has N bytes (with ranges), `/chunked/N` without their length, `/echo` returns
/// the body, `/fields` the request's fields, `/silent` nothing, `/endless` no end.
pub(crate) async fn site() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((tcp, _)) = listener.accept().await {
            let service = hyper::service::service_fn(answer);
            let http = hyper::server::conn::http1::Builder::new();
            tokio::spawn(http.serve_connection(TokioIo::new(tcp), service));
        }
    });
    address
}

type Body = BoxBody<Bytes, Infallible>;

fn full(bytes: impl Into<Bytes>) -> Body {
    Full::from(bytes.into()).boxed()
}

async fn answer(request: Request<Incoming>) -> Result<Response<Body>, std::io::Error> {
    let path = request.uri().path().trim_start_matches('/').to_owned();
    let ok = |body| Ok(Response::new(body));
    match &path[..] {
        "echo" => {
            let body = request.into_body().collect().await.map_err(std::io::Error::other)?;
            ok(full(body.to_bytes()))
        }
        "fields" => {
            let (parts, _) = request.into_parts();
            ok(full(format!("{} {}\n{:?}", parts.method, parts.uri, parts.headers)))
        }
        "silent" => std::future::pending().await,
        "endless" => {
            let (sender, body) = channel();
            tokio::spawn(async move { while sender.send(content(10_000)).await.is_ok() {} });
            ok(body)
        }
        _ => {
            let (chunked, length) = match path.strip_prefix("chunked/") {
                Some(length) => (true, length.parse()),
                None => (false, path.parse::<usize>()),
            };
            let Ok(length) = length else {
                let missing = Response::builder().status(StatusCode::NOT_FOUND);
                return Ok(missing.body(full("nothing here")).unwrap());
            };
            if chunked {
                let (sender, body) = channel();
                sender.send(content(length)).await.map_err(std::io::Error::other)?;
                return ok(body);
            }
            match request.headers().get("range") {
                Some(range) if range == "bytes=10-19" => {
                    let part = Response::builder().status(StatusCode::PARTIAL_CONTENT);
                    Ok(part.body(full(content(length).slice(10..20))).unwrap())
                }
                _ => ok(full(content(length))),
            }
        }
    }
}

/// A body of what is sent to it.
fn channel() -> (mpsc::Sender<Bytes>, Body) {
    let (sender, receiver) = mpsc::channel(1);
    (sender, Received(receiver).boxed())
}

struct Received(mpsc::Receiver<Bytes>);

impl hyper::body::Body for Received {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: std::pin::Pin<&mut Self>,
        cx: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.0.poll_recv(cx).map(|bytes| bytes.map(|bytes| Ok(Frame::data(bytes))))
    }
}

/// Rules that allow these targets, too.
pub(crate) fn allowing(rules: &[&str]) -> Rules {
    let allow = rules.iter().map(|rule| rule.parse::<Rule>().unwrap()).collect();
    Rules { allow, ..Rules::default() }
}

/// Both sides of a gateway.
pub(crate) struct Pair {
    /// The address of the proxy.
    pub(crate) proxy: SocketAddr,
    far: Option<(Endpoint, JoinHandle<()>)>,
    udp_port: u16,
    options: FarOptions,
    accounts: Accounts,
    near: Arc<Near>,
    serving: JoinHandle<()>,
    accesses: mpsc::UnboundedReceiver<Access>,
    far_log: (mpsc::UnboundedSender<Access>, mpsc::UnboundedReceiver<Access>),
}

impl Drop for Pair {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

fn logger(sender: mpsc::UnboundedSender<Access>) -> Log {
    Arc::new(move |access| {
        // The test may have ended.
        let _ = sender.send(access);
    })
}

fn config(streams: u16) -> AssociationConfig {
    let mut config = AssociationConfig::default();
    config.sending.outbound_streams = streams;
    config.receiving.inbound_streams = streams;
    config
}

fn far(
    udp_port: u16,
    options: &FarOptions,
    account: &Arc<Account>,
    log: Log,
) -> (Endpoint, JoinHandle<()>) {
    let endpoint = Endpoint::builder()
        .local_addresses([[127, 0, 0, 1].into()])
        .udp_port(udp_port)
        .bind()
        .unwrap();
    let listener = endpoint.listen(PORT, config(u16::MAX)).unwrap();
    let (far, account) = (Far::new(options.clone(), log), Arc::clone(account));
    let serving = tokio::spawn(async move {
        while let Some(association) = listener.accept().await {
            let (far, account) = (far.clone(), Arc::clone(&account));
            tokio::spawn(async move { far.serve(&association, &account).await });
        }
    });
    (endpoint, serving)
}

impl Pair {
    /// A pair whose far side may connect to this host.
    pub(crate) async fn start() -> Self {
        Self::with(&["127.0.0.0/8", "::1"], 100, NearOptions::default()).await
    }

    pub(crate) async fn with(allow: &[&str], streams: u16, options: NearOptions) -> Self {
        Self::with_far(
            FarOptions { rules: allowing(allow), ..FarOptions::default() },
            streams,
            options,
        )
        .await
    }

    pub(crate) async fn with_far(
        far_options: FarOptions,
        streams: u16,
        options: NearOptions,
    ) -> Self {
        let (far_log, accounts) = (mpsc::unbounded_channel(), Accounts::default());
        let (endpoint, serving) =
            far(0, &far_options, &accounts.of(USER), logger(far_log.0.clone()));
        let udp_port = endpoint.udp_port();
        let near = Endpoint::builder().local_addresses([[127, 0, 0, 1].into()]).bind().unwrap();
        let connect = Box::new(move || {
            let mut options = ConnectOptions::from(config(streams));
            options.remote_udp_port = udp_port;
            let near = near.clone();
            Box::pin(async move {
                let connected = near.connect(([127, 0, 0, 1], PORT), options).await;
                connected.map_err(|error| error.to_string())
            }) as std::pin::Pin<Box<dyn Future<Output = _> + Send>>
        });
        let link = Link::new(connect, |_| {});
        let (sender, accesses) = mpsc::unbounded_channel();
        let near = Near::new(link, &options, logger(sender));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let proxy = listener.local_addr().unwrap();
        let (far, options) = (Some((endpoint, serving)), far_options);
        let serving = tokio::spawn({
            let near = Arc::clone(&near);
            async move { near.serve(listener).await }
        });
        Self { proxy, far, udp_port, options, accounts, near, serving, accesses, far_log }
    }

    /// The near side.
    pub(crate) fn near(&self) -> &Arc<Near> {
        &self.near
    }

    /// Changes what the user of the far side may have.
    pub(crate) fn allow(&self, allowance: &str) {
        let others = allowance.parse().unwrap();
        self.accounts.allow(Allowances { others, ..Allowances::default() });
    }

    /// Ends the far side, and waits until its sockets are closed.
    pub(crate) async fn stop_far(&mut self) {
        if let Some((endpoint, serving)) = self.far.take() {
            serving.abort();
            endpoint.close().await;
        }
    }

    /// Starts the far side again.
    pub(crate) fn start_far(&mut self) {
        self.far = Some(far(
            self.udp_port,
            &self.options,
            &self.accounts.of(USER),
            logger(self.far_log.0.clone()),
        ));
    }

    /// The next line of the near side's log.
    pub(crate) async fn access(&mut self) -> Access {
        let next = tokio::time::timeout(HANGS, self.accesses.recv()).await;
        next.expect("nothing is logged").unwrap()
    }

    /// The next line of the far side's log.
    pub(crate) async fn far_access(&mut self) -> Access {
        let next = tokio::time::timeout(HANGS, self.far_log.1.recv()).await;
        next.expect("nothing is logged").unwrap()
    }

    /// A connection to the proxy.
    pub(crate) async fn client(&self) -> TcpStream {
        TcpStream::connect(self.proxy).await.unwrap()
    }

    /// A connection to the proxy on which requests can be sent.
    pub(crate) async fn http(&self) -> hyper::client::conn::http1::SendRequest<Full<Bytes>> {
        let io = TokioIo::new(self.client().await);
        let (sender, connection) = hyper::client::conn::http1::handshake(io).await.unwrap();
        tokio::spawn(connection);
        sender
    }

    /// Sends these bytes, and returns all that comes back until the connection ends.
    pub(crate) async fn raw(&self, bytes: impl AsRef<[u8]>) -> String {
        let mut tcp = self.client().await;
        tcp.write_all(bytes.as_ref()).await.unwrap();
        let mut answer = Vec::new();
        // A reset is an end, too.
        let _ = tokio::time::timeout(HANGS, tcp.read_to_end(&mut answer)).await.expect("no end");
        String::from_utf8_lossy(&answer).into_owned()
    }

    /// Asks for a target by SOCKS5. Returns the connection, and the status of the reply.
    pub(crate) async fn socks5(&self, address: &[u8], port: u16) -> (TcpStream, u8) {
        let mut tcp = self.client().await;
        tcp.write_all(&[5, 1, 0]).await.unwrap();
        let mut method = [0; 2];
        tcp.read_exact(&mut method).await.unwrap();
        assert_eq!(method, [5, 0]);
        let request = [&[5, 1, 0], address, &port.to_be_bytes()].concat();
        tcp.write_all(&request).await.unwrap();
        let mut reply = [0; 10];
        tcp.read_exact(&mut reply).await.unwrap();
        assert_eq!((reply[0], reply[3]), (5, 1));
        (tcp, reply[1])
    }
}

/// The status of a log line, and whether it has an error.
pub(crate) fn outcome(access: &Access) -> (Status, bool) {
    (access.status, access.error.is_some())
}
