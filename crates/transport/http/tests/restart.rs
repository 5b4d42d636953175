//! A client that loses its state and starts again from the same ports gets none of the data that
//! its previous incarnation had requested.

use std::convert::Infallible;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use anabranch::{Association, AssociationConfig, ConnectOptions, Endpoint};
use anabranch_http::{ServerOptions, serve_connection};
use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use hyper::body::Incoming;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

const V4: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

async fn client(remote: SocketAddr, udp: u16, own: u16) -> (Endpoint, Association) {
    let endpoint = Endpoint::builder().local_addresses([V4]).udp_port(own).bind().unwrap();
    let mut options = ConnectOptions::from(AssociationConfig::default());
    options.remote_udp_port = udp;
    options.local_port = Some(6000);
    let near = endpoint.connect(remote, options).await.unwrap();
    (endpoint, near)
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_of_the_time_before_are_over() {
    let server = Endpoint::builder().local_addresses([V4]).bind().unwrap();
    let listener = server.listen(80, AssociationConfig::default()).unwrap();
    let (remote, udp) = (SocketAddr::new(V4, 80), server.udp_port());
    let serving = tokio::spawn(async move {
        let far = listener.accept().await.unwrap();
        let service = hyper::service::service_fn(|request: Request<Incoming>| async move {
            let body = match request.uri().path() {
                "/big" => Bytes::from(vec![b'x'; 50_000_000]),
                path => Bytes::from(format!("this is {path}")),
            };
            Ok::<_, Infallible>(Response::new(Full::new(body)))
        });
        serve_connection(far, service, &ServerOptions::default()).await
    });
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let (endpoint, first) = runtime.spawn(client(remote, udp, 0)).await.unwrap();
    let own = endpoint.udp_port();
    // A long answer that is only read at the beginning, and half a request.
    let (mut out, mut back) = first.open_stream().await.unwrap();
    out.write_all(b"GET /big HTTP/1.1\r\nHost: x\r\n\r\n").await.unwrap();
    back.read_exact(&mut [0; 1000]).await.unwrap();
    let (mut half, _half_back) = first.open_stream().await.unwrap();
    half.write_all(b"GET /evil HTTP/1.1\r\n").await.unwrap();
    tokio::time::sleep(Duration::from_millis(50)).await;
    runtime.shutdown_background();
    first.closed().await.unwrap_err();

    let (_endpoint, second) = client(remote, udp, own).await;
    // The streams have the same numbers as those before.
    for name in ["/one", "/two"] {
        let (mut out, mut back) = second.open_stream().await.unwrap();
        let request = format!("GET {name} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
        out.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        back.read_to_string(&mut answer).await.unwrap();
        assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{name}: {answer}");
        assert!(answer.ends_with(&format!("\r\n\r\nthis is {name}")), "{name}: {answer}");
    }
    second.close().await.unwrap();
    let served = serving.await.unwrap();
    served.end.unwrap();
    assert_eq!(served.streams.iter().map(|stream| stream.id).collect::<Vec<_>>(), [0, 1]);
}
