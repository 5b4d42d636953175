//! What a user of the far side may have: connections, a rate, bytes in a period.

mod common;

use std::time::{Duration, Instant};

use anabranch_gateway::Status;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use self::common::{HANGS, Pair, content, outcome, site};

/// Reads to the end, whatever it is. Returns the bytes.
async fn all(tcp: &mut TcpStream) -> Vec<u8> {
    let mut bytes = Vec::new();
    // A reset is an end, too.
    let _ = tokio::time::timeout(HANGS, tcp.read_to_end(&mut bytes)).await.expect("no end");
    bytes
}

fn get(site: std::net::SocketAddr, path: &str) -> String {
    format!("GET http://{site}/{path} HTTP/1.1\r\nHost: {site}\r\nConnection: close\r\n\r\n")
}

#[tokio::test]
async fn a_user_has_so_many_connections() {
    let mut pair = Pair::start().await;
    pair.allow("connections=2");
    let site = site().await;
    let mut open = Vec::new();
    for _ in 0..2 {
        let mut tcp = pair.client().await;
        tcp.write_all(get(site, "silent").as_bytes()).await.unwrap();
        open.push(tcp);
        // The place is taken before the request is answered.
        let _target = TcpStream::connect(site).await.unwrap();
    }
    // Both have places when a third is refused.
    let answer = loop {
        let answer = pair.raw(get(site, "10")).await;
        if answer.starts_with("HTTP/1.1 503") {
            break answer;
        }
    };
    assert!(answer.contains("this user may have 2 connections at the same time"), "{answer}");
    assert!(answer.contains("connection_limit_reached"), "{answer}");
    drop(open.pop());
    // A place is free when the far side has noticed.
    loop {
        if pair.raw(get(site, "10")).await.starts_with("HTTP/1.1 200") {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    // Anything is allowed as soon as the bounds are gone.
    pair.allow("");
    assert!(pair.raw(get(site, "10")).await.starts_with("HTTP/1.1 200"));
    while outcome(&pair.far_access().await) != (Status::Busy, true) {}
}

#[tokio::test]
async fn a_rate_holds_in_each_direction() {
    let pair = Pair::start().await;
    pair.allow("rate=8Mb/s");
    let site = site().await;
    // Two downloads of a megabyte take two seconds together, but for what may lag behind.
    let began = Instant::now();
    let (one, other) = tokio::join!(pair.raw(get(site, "1000000")), pair.raw(get(site, "1000000")));
    assert!(one.len() > 1_000_000 && other.len() > 1_000_000);
    assert!(began.elapsed() > Duration::from_millis(1900), "{:?}", began.elapsed());
    let body = content(1_000_000);
    let head = format!(
        "POST http://{site}/echo HTTP/1.1\r\nHost: {site}\r\nContent-Length: 1000000\r\nConnection: close\r\n\r\n"
    );
    let began = Instant::now();
    let answer = pair.raw([head.as_bytes(), &body].concat()).await;
    assert!(answer.len() > 1_000_000);
    // Each direction may be ahead by the slack of the line, 50 ms, and by a piece of 20 ms.
    assert!(began.elapsed() > Duration::from_millis(2000 - 2 * 70), "{:?}", began.elapsed());
}

#[tokio::test]
async fn a_limit_of_bytes_ends_connections_and_refuses_new_ones() {
    let mut pair = Pair::start().await;
    pair.allow("limit=2MB/d");
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let target = tokio::spawn(async move {
        let mut tcp = listener.accept().await.unwrap().0;
        // It is reset in the middle.
        tcp.write_all(&vec![0; 20_000_000]).await.unwrap_err()
    });
    let (mut tcp, status) = pair.socks5(&[1, 127, 0, 0, 1], port).await;
    assert_eq!(status, 0);
    let came = all(&mut tcp).await.len();
    assert!((100_000..2_100_000).contains(&came), "{came}");
    assert_eq!(target.await.unwrap().kind(), std::io::ErrorKind::ConnectionReset);
    let ended = pair.far_access().await;
    assert_eq!(outcome(&ended), (Status::Connected, true));
    assert!(ended.error.unwrap().contains("2MB/d, is used up"));
    let site = site().await;
    let answer = pair.raw(get(site, "10")).await;
    assert!(answer.starts_with("HTTP/1.1 503"), "{answer}");
    assert!(answer.contains("the limit of this user, 2MB/d, is used up for another"), "{answer}");
    pair.allow("limit=3MB/d");
    assert!(pair.raw(get(site, "10")).await.starts_with("HTTP/1.1 200"));
}
