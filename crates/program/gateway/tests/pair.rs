//! Both sides of the gateway with clients and servers of this host.

mod common;

use std::time::Duration;

use anabranch_gateway::{NearOptions, Status};
use bytes::Bytes;
use common::{HANGS, Pair, content, outcome, site};
use http::{Request, StatusCode};
use http_body_util::{BodyExt as _, Full};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;

/// Sends requests on one connection, and returns the statuses and bodies.
async fn fetch(
    pair: &Pair,
    requests: impl IntoIterator<Item = Request<Full<Bytes>>>,
) -> Vec<(StatusCode, Bytes)> {
    let mut http = pair.http().await;
    let mut answers = Vec::new();
    for request in requests {
        http.ready().await.unwrap();
        let answer = timeout(HANGS, http.send_request(request)).await.expect("no answer").unwrap();
        let status = answer.status();
        let body = timeout(HANGS, answer.into_body().collect()).await.expect("no end").unwrap();
        answers.push((status, body.to_bytes()));
    }
    answers
}

fn get(url: &str) -> Request<Full<Bytes>> {
    Request::get(url).body(Full::default()).unwrap()
}

#[tokio::test]
async fn requests_of_all_kinds_on_one_connection() {
    let (mut pair, site) = (Pair::start().await, site().await);
    let url = |path: &str| format!("http://{site}/{path}");
    let large = content(5_000_000);
    let head = Request::head(url("1000")).body(Full::default()).unwrap();
    let range = Request::get(url("100")).header("range", "bytes=10-19");
    let post = Request::post(url("echo")).body(Full::from(large.clone())).unwrap();
    let requests = [
        get(&url("1000")),
        head,
        range.body(Full::default()).unwrap(),
        get(&url("no-such-thing")),
        get(&url("chunked/70000")),
        post,
        get(&url("0")),
        get(&url("3000000")),
    ];
    let answers = fetch(&pair, requests).await;
    let expected = [
        (StatusCode::OK, content(1000)),
        (StatusCode::OK, Bytes::new()),
        (StatusCode::PARTIAL_CONTENT, content(100).slice(10..20)),
        (StatusCode::NOT_FOUND, Bytes::from("nothing here")),
        (StatusCode::OK, content(70_000)),
        (StatusCode::OK, large),
        (StatusCode::OK, Bytes::new()),
        (StatusCode::OK, content(3_000_000)),
    ];
    for (answer, expected) in answers.iter().zip(&expected) {
        assert_eq!(answer.0, expected.0);
        assert!(answer.1 == expected.1, "{} bytes instead of {}", answer.1.len(), expected.1.len());
    }
    let first = pair.access().await;
    assert_eq!(first.target, format!("GET http://{site}/1000"));
    assert_eq!((first.code, first.bytes_received), (Some(200), 1000));
    for _ in 1..5 {
        assert!(pair.access().await.error.is_none());
    }
    assert_eq!(pair.access().await.bytes_sent, 5_000_000);
    // One connection to the server carried all of them.
    let far = pair.far_access().await;
    assert_eq!(outcome(&far), (Status::Connected, false), "{far:?}");
    assert_eq!(far.address, Some(site));
}

#[tokio::test]
async fn the_server_sees_what_a_proxy_must_send() {
    let (pair, site) = (Pair::start().await, site().await);
    let request = Request::get(format!("http://{site}/fields?a=b"))
        .header("host", "elsewhere.example")
        .header("proxy-connection", "keep-alive")
        .header("proxy-authorization", "secret")
        .header("connection", "x-own")
        .header("x-own", "1")
        .header("x-other", "2");
    let answers = fetch(&pair, [request.body(Full::default()).unwrap()]).await;
    let fields = String::from_utf8_lossy(&answers[0].1).into_owned();
    assert!(fields.starts_with("GET /fields?a=b\n"), "{fields}");
    assert!(fields.contains(&format!("\"host\": \"{site}\"")), "{fields}");
    assert!(
        fields.contains("x-other") && fields.contains("\"via\": \"1.1 anabranch\""),
        "{fields}"
    );
    for removed in ["x-own", "proxy-", "connection", "secret", "elsewhere"] {
        assert!(!fields.contains(removed), "{removed}: {fields}");
    }
}

/// A server that answers one request on each connection, and closes it without saying so.
async fn canned(answer: &'static [u8]) -> std::net::SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut tcp, _)) = listener.accept().await {
            let _ = tcp.read(&mut [0; 1000]).await;
            let _ = tcp.write_all(answer).await;
        }
    });
    address
}

/// An echo server; it returns each byte, and ends when its client has ended.
async fn echo(address: &str) -> std::net::SocketAddr {
    let listener = TcpListener::bind(address).await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut tcp, _)) = listener.accept().await {
            tokio::spawn(async move {
                let (mut from, mut to) = tcp.split();
                let _ = tokio::io::copy(&mut from, &mut to).await;
            });
        }
    });
    address
}

/// Sends bytes and the end, and reads to the end.
async fn exchange(tcp: TcpStream, bytes: Bytes) -> Vec<u8> {
    let (mut from, mut to) = tcp.into_split();
    let writing = tokio::spawn(async move {
        to.write_all(&bytes).await.unwrap();
        to.shutdown().await.unwrap();
        to
    });
    let mut answer = Vec::new();
    timeout(HANGS, from.read_to_end(&mut answer)).await.expect("no end").unwrap();
    writing.await.unwrap();
    answer
}

#[tokio::test]
async fn tunnels_of_connect_and_socks5_end_in_each_direction() {
    let mut pair = Pair::start().await;
    let (v4, v6) = (echo("127.0.0.1:0").await, echo("[::1]:0").await);
    let large = content(3_000_000);
    let mut addresses = vec![
        ([&[1][..], &[127, 0, 0, 1]].concat(), v4.port()),
        ([&[3, 9][..], b"localhost"].concat(), v4.port()),
        ([&[3, 9][..], b"127.0.0.1"].concat(), v4.port()),
    ];
    let mut loopback = vec![4; 1];
    loopback.extend(std::net::Ipv6Addr::LOCALHOST.octets());
    addresses.push((loopback, v6.port()));
    for (address, port) in addresses {
        let (tcp, status) = pair.socks5(&address, port).await;
        assert_eq!(status, 0, "{address:?}");
        assert!(exchange(tcp, large.clone()).await == large);
        assert_eq!(outcome(&pair.access().await), (Status::Connected, false));
    }
    let mut tcp = pair.client().await;
    // The first bytes for the target may come with the request.
    tcp.write_all(format!("CONNECT {v4} HTTP/1.1\r\nhost: {v4}\r\n\r\nearly ").as_bytes())
        .await
        .unwrap();
    let mut head = vec![0; b"HTTP/1.1 200 OK\r\n".len()];
    tcp.read_exact(&mut head).await.unwrap();
    assert_eq!(head, b"HTTP/1.1 200 OK\r\n");
    let answer = exchange(tcp, "late".into()).await;
    assert!(answer.ends_with(b"\r\n\r\nearly late"), "{}", String::from_utf8_lossy(&answer));
    let access = pair.access().await;
    assert_eq!((access.bytes_sent, access.bytes_received), (10, 10));
}

#[tokio::test]
async fn failures_have_the_status_of_each_protocol() {
    let mut pair = Pair::start().await;
    let closed = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let v4 = |ip: [u8; 4]| [&[1][..], &ip].concat();
    assert_eq!(pair.socks5(&v4([127, 0, 0, 1]), closed.port()).await.1, 5);
    assert_eq!(pair.access().await.status, Status::Refused);
    assert_eq!(pair.socks5(&v4([10, 0, 0, 1]), 80).await.1, 2);
    assert_eq!(pair.access().await.status, Status::Forbidden);
    assert_eq!(pair.socks5(&[&[3, 15][..], b"unknown.invalid"].concat(), 80).await.1, 4);
    assert_eq!(pair.access().await.status, Status::UnknownHost);
    assert_eq!(pair.socks5(&v4([127, 0, 0, 1]), 0).await.1, 1, "no port");
    for (target, code, reason) in [
        (closed.to_string(), 502, "connection_refused"),
        ("10.0.0.1:80".to_owned(), 403, "destination_ip_prohibited"),
        ("169.254.169.254:80".to_owned(), 403, "destination_ip_prohibited"),
        ("unknown.invalid:80".to_owned(), 502, "dns_error"),
    ] {
        let close = "connection: close\r\n\r\n";
        let get = pair.raw(format!("GET http://{target}/ HTTP/1.1\r\nhost: x\r\n{close}")).await;
        let connect = pair.raw(format!("CONNECT {target} HTTP/1.1\r\nhost: x\r\n{close}")).await;
        for answer in [get, connect] {
            assert!(answer.starts_with(&format!("HTTP/1.1 {code} ")), "{target}: {answer}");
            assert!(
                answer.contains(&format!("proxy-status: anabranch; error={reason}\r\n")),
                "{answer}"
            );
        }
    }
}

#[tokio::test]
async fn malformed_requests_are_refused() {
    let (pair, site) = (Pair::start().await, site().await);
    let line = format!("POST http://{site}/echo HTTP/1.1\r\nhost: {site}\r\n");
    let many: String = (0..200).map(|field| format!("x-{field}: 1\r\n")).collect();
    let long = format!("x: {}\r\n", "y".repeat(200_000));
    for (request, code) in [
        (format!("{line}content-length: 5\r\ncontent-length: 6\r\n\r\nhello"), 400),
        (format!("{line}content-length: 5, 6\r\n\r\nhello"), 400),
        (format!("{line}content-length: +5\r\n\r\nhello"), 400),
        (format!("{line}transfer-encoding: x, chunked\r\n\r\n0\r\n\r\n"), 501),
        (
            format!(
                "{line}transfer-encoding: chunked\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n"
            ),
            501,
        ),
        (format!("{line}transfer-encoding: chunked, x\r\n\r\n0\r\n\r\n"), 400),
        (format!("{line}transfer-encoding : chunked\r\n\r\n0\r\n\r\n"), 400),
        (format!("{line}a: b\r\n c\r\n\r\n"), 400),
        (format!("{line}{many}\r\n"), 431),
        (format!("{line}{long}\r\n"), 431),
        ("GET http://user@x/ HTTP/1.1\r\nhost: x\r\n\r\n".to_owned(), 400),
        ("GET http://x:0/ HTTP/1.1\r\nhost: x\r\n\r\n".to_owned(), 400),
        ("GET ftp://x/ HTTP/1.1\r\nhost: x\r\n\r\n".to_owned(), 501),
        ("CONNECT x HTTP/1.1\r\nhost: x\r\n\r\n".to_owned(), 400),
        ("POST / HTTP/1.1\r\nhost: x\r\n\r\n".to_owned(), 405),
        ("GET /x HTTP/1.1\r\nhost: x\r\n\r\n".to_owned(), 404),
    ] {
        let answer = pair.raw(request.replacen("host:", "connection: close\r\nhost:", 1)).await;
        let line = answer.lines().next().unwrap_or_default();
        assert!(line.starts_with(&format!("HTTP/1.1 {code} ")), "{:.200}: {line}", request);
    }
    // With both framings the one that is chunked holds, and nothing after it is taken for a request.
    let both = format!(
        "{line}content-length: 30\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n\
         GET http://{site}/3 HTTP/1.1\r\nhost: x\r\n\r\n"
    );
    let answer = pair.raw(both).await;
    assert_eq!(answer.matches("HTTP/1.1 ").count(), 1, "{answer}");
    assert!(answer.contains("connection: close\r\n") && answer.ends_with("abc"), "{answer}");
    // A URL with a fragment and no path.
    let get = format!("GET http://{site}#x HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
    assert!(pair.raw(get).await.contains(" 404 "), "the server must see the path '/'");
    // Neither of them: TLS, SOCKS4.
    assert_eq!(pair.raw([22, 3, 1, 0]).await, "");
    assert_eq!(pair.raw([4, 1, 0, 80]).await, "");
    assert_eq!(pair.raw([5, 1, 2]).await.as_bytes(), String::from_utf8_lossy(&[5, 255]).as_bytes());
}

#[tokio::test]
async fn bodies_in_chunks_arrive_whole() {
    let (pair, site) = (Pair::start().await, site().await);
    let post = |fields: &str, body: &str| {
        format!("POST http://{site}/echo HTTP/1.1\r\nhost: x\r\n{fields}\r\n{body}")
    };
    let chunked = "transfer-encoding: chunked\r\n";
    // Extensions and trailers are for this connection only; the next request follows at once.
    let first = post(
        &format!("{chunked}trailer: x-sum\r\n"),
        "3;a=b\r\nabc\r\n00a\r\n0123456789\r\n0\r\nx-sum: 1\r\n\r\n",
    );
    let second = post(&format!("{chunked}connection: close\r\n"), "2\r\nde\r\n0\r\n\r\n");
    let answers = pair.raw(format!("{first}{second}")).await;
    assert_eq!(answers.matches("HTTP/1.1 200 OK\r\n").count(), 2, "{answers}");
    assert!(answers.contains("\r\n\r\nabc0123456789HTTP/1.1"), "{answers}");
    assert!(answers.ends_with("\r\n\r\nde") && !answers.contains("x-sum"), "{answers}");
    // A size that is none, a chunk that is too short, and one that is cut off.
    for body in ["x\r\nabc\r\n", "-1\r\n", "2\r\nabc\r\n0\r\n\r\n", "fffffffffffffffff\r\n"] {
        let answer = pair.raw(post(&format!("{chunked}connection: close\r\n"), body)).await;
        let line = answer.lines().next().unwrap_or_default();
        assert!(!line.contains(" 200 "), "{body:?}: {line}");
    }
    // The server takes an upload whose end never comes for cut off.
    let mut tcp = pair.client().await;
    tcp.write_all(post(chunked, "3\r\nabc\r\n").as_bytes()).await.unwrap();
    tcp.shutdown().await.unwrap();
    let mut answer = String::new();
    timeout(HANGS, tcp.read_to_string(&mut answer)).await.expect("no end").unwrap();
    assert!(!answer.contains(" 200 "), "{answer}");
}

#[tokio::test]
async fn browsers_find_their_configuration() {
    let pair = Pair::start().await;
    let answer = pair.raw("GET /proxy.pac HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").await;
    assert!(answer.contains("content-type: application/x-ns-proxy-autoconfig\r\n"), "{answer}");
    assert!(answer.contains(&format!("PROXY {}", pair.proxy)), "{answer}");
}

#[tokio::test]
async fn a_cancelled_download_ends_at_the_server() {
    let (mut pair, site) = (Pair::start().await, site().await);
    let request = format!("GET http://{site}/endless HTTP/1.1\r\nhost: x\r\n\r\n");
    let connect = format!("CONNECT {site} HTTP/1.1\r\nhost: x\r\n\r\n");
    let direct = "GET /endless HTTP/1.1\r\nhost: x\r\n\r\n";
    for request in [request, format!("{connect}{direct}")] {
        let mut tcp = pair.client().await;
        tcp.write_all(request.as_bytes()).await.unwrap();
        tcp.read_exact(&mut [0; 1_000_000]).await.unwrap();
        drop(tcp);
        // Both sides end it, although the server would never do so.
        assert!(pair.access().await.error.is_some());
        let far = pair.far_access().await;
        assert_eq!(outcome(&far), (Status::Connected, true), "{far:?}");
    }
}

#[tokio::test]
async fn an_answer_that_is_cut_is_not_taken_for_whole() {
    let mut pair = Pair::start().await;
    let site = canned(b"HTTP/1.1 200 OK\r\ncontent-length: 20\r\n\r\nhalf of it").await;
    let answer = pair.raw(format!("GET http://{site}/cut HTTP/1.1\r\nhost: x\r\n\r\n")).await;
    assert!(answer.contains("content-length: 20\r\n"), "{answer}");
    assert_eq!(pair.access().await.error.as_deref(), Some("cut off"));
    // The body of a request, too.
    let mut tcp = pair.client().await;
    let post =
        format!("POST http://{site}/echo HTTP/1.1\r\nhost: x\r\ncontent-length: 9\r\n\r\nabc");
    tcp.write_all(post.as_bytes()).await.unwrap();
    tcp.shutdown().await.unwrap();
    let mut answer = String::new();
    let _ = timeout(HANGS, tcp.read_to_string(&mut answer)).await.expect("no end");
    assert!(!answer.contains(" 200 "), "{answer}");
}

#[tokio::test]
async fn silence_is_answered() {
    let site = site().await;
    let short = Duration::from_millis(300);
    let options =
        NearOptions { answer_timeout: short, body_timeout: short, ..NearOptions::default() };
    let pair = Pair::with(&["*"], 10, options).await;
    let answers = fetch(&pair, [get(&format!("http://{site}/silent"))]).await;
    assert_eq!(answers[0].0, StatusCode::GATEWAY_TIMEOUT);
    let post =
        format!("POST http://{site}/echo HTTP/1.1\r\nhost: x\r\ncontent-length: 9\r\n\r\nabc");
    let answer = pair.raw(post).await;
    assert!(answer.starts_with("HTTP/1.1 408 "), "{answer}");
}

#[tokio::test]
async fn a_reader_that_stops_holds_up_nobody() {
    let (pair, site) = (Pair::start().await, site().await);
    let mut unread = Vec::new();
    for _ in 0..8 {
        let mut tcp = pair.client().await;
        let request = format!("GET http://{site}/endless HTTP/1.1\r\nhost: x\r\n\r\n");
        tcp.write_all(request.as_bytes()).await.unwrap();
        tcp.read_exact(&mut [0; 100]).await.unwrap();
        unread.push(tcp);
    }
    let answers = fetch(&pair, [get(&format!("http://{site}/2000000"))]).await;
    assert!(answers[0].1 == content(2_000_000));
}

#[tokio::test]
async fn streams_are_used_again() {
    let site = site().await;
    // Each stream that leaked would be missing soon.
    let pair = Pair::with(&["127.0.0.0/8"], 3, NearOptions::default()).await;
    for round in 0..10 {
        let url = format!("http://{site}/{}", round * 1000);
        assert_eq!(fetch(&pair, [get(&url)]).await[0].1.len(), round * 1000);
        assert_eq!(fetch(&pair, [get("http://10.0.0.1/")]).await[0].0, StatusCode::FORBIDDEN);
        let mut tcp = pair.client().await;
        let request = format!("GET http://{site}/endless HTTP/1.1\r\nhost: x\r\n\r\n");
        tcp.write_all(request.as_bytes()).await.unwrap();
        tcp.read_exact(&mut [0; 100_000]).await.unwrap();
        let (tunnel, status) = pair.socks5(&[1, 127, 0, 0, 1], site.port()).await;
        assert_eq!(status, 0);
        drop((tcp, tunnel));
        let early = pair.raw([5, 1, 0]);
        // A client that goes away before it has asked for anything.
        let _ = timeout(Duration::from_millis(1), early).await;
    }
}

#[tokio::test]
async fn another_association_follows_a_lost_one() {
    let (mut pair, site) = (Pair::start().await, site().await);
    let url = format!("http://{site}/1000");
    assert_eq!(fetch(&pair, [get(&url)]).await[0].0, StatusCode::OK);
    let (mut tunnel, status) = pair.socks5(&[1, 127, 0, 0, 1], site.port()).await;
    assert_eq!(status, 0);
    pair.stop_far().await;
    let ended = timeout(HANGS, tunnel.read(&mut [0; 10])).await.expect("the tunnel stays open");
    assert!(ended.is_err(), "the end of the association is not the end of the data: {ended:?}");
    pair.start_far();
    assert_eq!(fetch(&pair, [get(&url)]).await[0].0, StatusCode::OK);
}

#[tokio::test]
async fn an_upload_that_is_lost_is_not_taken_for_whole() {
    let mut pair = Pair::start().await;
    let target = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = target.local_addr().unwrap().port();
    let (mut tunnel, status) = pair.socks5(&[1, 127, 0, 0, 1], port).await;
    assert_eq!(status, 0);
    let (mut accepted, _) = target.accept().await.unwrap();
    tunnel.write_all(b"half").await.unwrap();
    let mut half = [0; 4];
    accepted.read_exact(&mut half).await.unwrap();
    pair.stop_far().await;
    let ended = timeout(HANGS, accepted.read(&mut half)).await.expect("the target sees no end");
    assert!(ended.is_err(), "an end instead of a reset: {ended:?}");
}

#[tokio::test]
async fn many_connections_at_once() {
    let (pair, site) = (Pair::start().await, site().await);
    let pair = std::sync::Arc::new(pair);
    // More than there are streams: the others wait.
    let all = (0..150).map(|number| {
        let (pair, url) = (pair.clone(), format!("http://{site}/{}", 100 * number));
        tokio::spawn(async move { fetch(&pair, [get(&url)]).await.remove(0).1.len() })
    });
    for (number, fetched) in all.collect::<Vec<_>>().into_iter().enumerate() {
        assert_eq!(fetched.await.unwrap(), 100 * number);
    }
}

#[tokio::test]
async fn a_connection_that_the_server_has_closed_is_not_used_again() {
    let pair = Pair::start().await;
    let address = canned(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok").await;
    let url = format!("http://{address}/");
    let answers = fetch(&pair, std::iter::repeat_with(|| get(&url)).take(20)).await;
    assert!(answers.iter().all(|answer| answer.1 == "ok"), "{answers:?}");
}
