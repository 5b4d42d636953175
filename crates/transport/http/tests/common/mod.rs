//! A server on the loopback interface, and a client's end.
#![allow(dead_code)]

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anabranch::{Association, AssociationConfig, ConnectOptions, Endpoint};
use anabranch_http::{ServerOptions, serve_connection};
use bytes::Bytes;
use http::{Method, Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::Incoming;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

pub(crate) const V4: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

/// Bytes of `/big`.
pub(crate) const BIG: usize = 64 << 20;

/// Ends a test that hangs.
pub(crate) async fn soon<T>(test: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(60), test).await.expect("hangs")
}

/// The requests.
#[derive(Debug, Default)]
struct Seen {
    paths: BTreeMap<String, usize>,
    /// Requests at work now, and the most that ever were.
    together: (usize, usize),
}

/// A server with `/small`, `/slow` and `/big`.
pub(crate) struct Server {
    endpoint: Endpoint,
    client: Endpoint,
    seen: Arc<Mutex<Seen>>,
}

impl Server {
    pub(crate) async fn new(options: ServerOptions) -> Self {
        Self::with(options, AssociationConfig::default()).await
    }

    pub(crate) async fn with(options: ServerOptions, config: AssociationConfig) -> Self {
        let bind = || Endpoint::builder().local_addresses([V4]).bind().unwrap();
        let (endpoint, client) = (bind(), bind());
        let listener = endpoint.listen(80, config).unwrap();
        let seen = Arc::<Mutex<Seen>>::default();
        let told = Arc::clone(&seen);
        tokio::spawn(async move {
            while let Some(far) = listener.accept().await {
                let (options, told) = (options.clone(), Arc::clone(&told));
                tokio::spawn(async move {
                    let service = hyper::service::service_fn(move |request: Request<Incoming>| {
                        serve(request, Arc::clone(&told))
                    });
                    let served = serve_connection(far.clone(), service, &options).await;
                    if served.end.is_ok() {
                        let _ = far.close().await;
                    }
                });
            }
        });
        Self { endpoint, client, seen }
    }

    pub(crate) async fn connect(&self, config: AssociationConfig) -> Association {
        let mut options = ConnectOptions::from(config);
        options.remote_udp_port = self.endpoint.udp_port();
        self.client.connect(SocketAddr::new(V4, 80), options).await.unwrap()
    }

    /// How often a path was asked for.
    pub(crate) fn served(&self, path: &str) -> usize {
        self.seen.lock().unwrap().paths.get(path).copied().unwrap_or(0)
    }

    /// The most requests that were at work together.
    pub(crate) fn most_together(&self) -> usize {
        self.seen.lock().unwrap().together.1
    }
}

async fn serve(
    request: Request<Incoming>,
    seen: Arc<Mutex<Seen>>,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let path = request.uri().path().to_owned();
    {
        let mut seen = seen.lock().unwrap();
        *seen.paths.entry(path.clone()).or_default() += 1;
        seen.together.0 += 1;
        seen.together.1 = seen.together.1.max(seen.together.0);
    }
    if path == "/slow" {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    seen.lock().unwrap().together.0 -= 1;
    let body = if path == "/big" { Bytes::from(vec![b'x'; BIG]) } else { Bytes::from("small") };
    let mut response = Response::new(Full::new(body));
    if request.method() != Method::GET {
        *response.status_mut() = StatusCode::METHOD_NOT_ALLOWED;
    }
    Ok(response)
}

/// The body of an answer.
pub(crate) async fn get(near: &Association, path: &str) -> String {
    let (mut send, mut recv) = near.open_stream().await.unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
    send.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    recv.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
    answer.split_once("\r\n\r\n").unwrap().1.to_owned()
}
