//! Errors of a client on one stream do not affect anything else.

mod common;

use std::time::Duration;

use anabranch::{Association, AssociationConfig, RecvStream, SendStream};
use anabranch_http::ServerOptions;
use common::{BIG, Server, get, soon};
use hyper_util::rt::TokioTimer;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// Sends this on a new stream.
async fn ask(near: &Association, request: &[u8]) -> (SendStream, RecvStream) {
    let (mut send, recv) = near.open_stream().await.unwrap();
    send.write_all(request).await.unwrap();
    (send, recv)
}

/// Reads until the server ends the stream.
async fn answer(recv: &mut RecvStream) -> String {
    let mut bytes = Vec::new();
    let _broken = recv.read_to_end(&mut bytes).await;
    String::from_utf8_lossy(&bytes).into_owned()
}

#[tokio::test]
async fn requests_that_hide_another_one_are_refused() {
    soon(async {
        let server = Server::new(ServerOptions::default()).await;
        let near = server.connect(AssociationConfig::default()).await;
        for shape in [
            // Two lengths; readers differ in which one they use.
            "POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 4\r\ncontent-length: 40\r\n\r\nabcd",
            "POST / HTTP/1.1\r\nhost: x\r\ncontent-length: +4\r\n\r\nabcd",
            "POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 4, 40\r\n\r\nabcd",
            "POST / HTTP/1.1\r\nhost: x\r\ntransfer-encoding: xchunked\r\n\r\n0\r\n\r\n",
            "POST / HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked, identity\r\n\r\n0\r\n\r\n",
            // Fields that some take for others.
            "GET / HTTP/1.1\r\nhost : x\r\n\r\n",
            "GET / HTTP/1.1\r\nhost: x\r\n content-length: 40\r\n\r\n",
            "GET / HTTP/1.1\r\nhost: x\r\nx\0y: 1\r\n\r\n",
            // A host that other programs read differently, or none.
            "GET / HTTP/1.1\r\nhost: x\r\nhost: y\r\n\r\n",
            "GET / HTTP/1.1\r\n\r\n",
            // No request at all.
            "GET /\r\n\r\n",
            "\x16\x03\x01\x02\0\x01\0\x01\r\n\r\n",
        ] {
            let hidden = "GET /hidden HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n";
            let (_send, mut recv) = ask(&near, format!("{shape}{hidden}").as_bytes()).await;
            let answer = answer(&mut recv).await;
            assert!(!answer.contains(" 200 "), "{shape:?}: {answer}");
            assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 400"), "{shape:?}: {answer}");
        }
        assert_eq!(server.served("/hidden"), 0);
        assert_eq!(get(&near, "/small").await, "small");
    })
    .await;
}

#[tokio::test]
async fn a_chunked_body_with_a_length_hides_nothing() {
    soon(async {
        let server = Server::new(ServerOptions::default()).await;
        let near = server.connect(AssociationConfig::default()).await;
        // By its length the body goes on to the end; by its coding it ends before 'GET'.
        let hidden = "GET /hidden HTTP/1.1\r\nhost: x\r\n\r\n";
        let request = format!(
            "POST /post HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\ncontent-length: {}\r\n\
             connection: close\r\n\r\n0\r\n\r\n{hidden}",
            hidden.len() + 5
        );
        let (_send, mut recv) = ask(&near, request.as_bytes()).await;
        answer(&mut recv).await;
        assert_eq!(server.served("/hidden"), 0, "the stream ends with what was ambiguous");
    })
    .await;
}

#[tokio::test]
async fn heads_without_end_and_fields_without_number_fail_alone() {
    soon(async {
        let server = Server::new(ServerOptions::default()).await;
        let near = server.connect(AssociationConfig::default()).await;
        let many = format!("GET / HTTP/1.1\r\nhost: x\r\n{}\r\n", "a: b\r\n".repeat(300));
        let (_send, mut recv) = ask(&near, many.as_bytes()).await;
        let refused = answer(&mut recv).await;
        assert!(refused.starts_with("HTTP/1.1 431"), "{refused}");
        let long = format!("GET / HTTP/1.1\r\nx: {}", "a".repeat(60_000));
        let (_send, mut recv) = ask(&near, long.as_bytes()).await;
        assert!(!answer(&mut recv).await.contains(" 200 "));
        assert_eq!(get(&near, "/small").await, "small");
    })
    .await;
}

#[tokio::test]
async fn bodies_that_stop_and_streams_that_break_fail_alone() {
    soon(async {
        let server = Server::new(ServerOptions::default()).await;
        let near = server.connect(AssociationConfig::default()).await;
        let body = b"POST /small HTTP/1.1\r\nhost: x\r\ncontent-length: 1000\r\n\r\nten bytes.";
        let (_held, mut recv) = ask(&near, body).await;
        // It needs no body to be refused, and the stream cannot go on.
        let mut first = [0; 12];
        recv.read_exact(&mut first).await.unwrap();
        assert_eq!(&first, b"HTTP/1.1 405");
        // One request abandoned within its head, and one within its answer.
        let (send, _recv) = ask(&near, b"GET /hidden HTTP/1.1\r\nhost: x\r\n").await;
        drop(send);
        let (_send, mut recv) = ask(&near, b"GET /big HTTP/1.1\r\nhost: x\r\n\r\n").await;
        recv.read_exact(&mut [0; 1000]).await.unwrap();
        drop(recv);
        for _ in 0..10 {
            assert_eq!(get(&near, "/small").await, "small");
        }
        assert_eq!(server.served("/hidden"), 0);
    })
    .await;
}

#[tokio::test]
async fn a_client_that_takes_nothing_gets_other_answers_all_the_same() {
    soon(async {
        let server = Server::new(ServerOptions::default()).await;
        let near = server.connect(AssociationConfig::default()).await;
        let mut unread = Vec::new();
        for _ in 0..3 {
            let (send, mut recv) = ask(&near, b"GET /big HTTP/1.1\r\nhost: x\r\n\r\n").await;
            recv.read_exact(&mut [0; 12]).await.unwrap();
            unread.push((send, recv));
        }
        for _ in 0..20 {
            assert_eq!(get(&near, "/small").await, "small");
        }
        // Much more than the window goes past them.
        let (mut send, mut recv) = ask(&near, b"GET /big HTTP/1.1\r\nhost: x\r\n\r\n").await;
        recv.read_exact(&mut vec![0; 4 << 20]).await.unwrap();
        send.shutdown().await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn a_thousand_streams_with_half_a_request_bar_nobody() {
    soon(async {
        let server = Server::new(ServerOptions::default()).await;
        let near = server.connect(AssociationConfig::default()).await;
        let mut half = Vec::new();
        for _ in 0..1000 {
            half.push(ask(&near, b"GET /small HTTP/1.1\r\nhost: x\r\n").await);
        }
        assert_eq!(get(&near, "/small").await, "small");
        // All of them are answered once they are complete.
        for (send, recv) in &mut half {
            send.write_all(b"connection: close\r\n\r\n").await.unwrap();
            assert!(answer(recv).await.ends_with("small"));
        }
    })
    .await;
}

#[tokio::test]
async fn a_cancelled_download_stops() {
    soon(async {
        let server = Server::new(ServerOptions::default()).await;
        let near = server.connect(AssociationConfig::default()).await;
        let (_send, mut recv) = ask(&near, b"GET /big HTTP/1.1\r\nhost: x\r\n\r\n").await;
        recv.read_exact(&mut vec![0; 1_000_000]).await.unwrap();
        let arrived = || near.statistics().counters.message_bytes_received;
        let before = arrived();
        drop(recv);
        let mut last = before;
        loop {
            tokio::time::sleep(Duration::from_millis(300)).await;
            if last == arrived() {
                break;
            }
            last = arrived();
        }
        assert!(last < 4 << 20 && last < BIG as u64 / 2, "{last} bytes in all");
        assert_eq!(get(&near, "/small").await, "small");
    })
    .await;
}

#[tokio::test]
async fn connections_and_streams_that_ask_nothing_come_to_an_end() {
    soon(async {
        let brief = Duration::from_millis(200);
        let options = ServerOptions::default()
            .with_timer(TokioTimer::new())
            .with_header_timeout(brief)
            .with_idle_timeout(Some(brief));
        let server = Server::new(options).await;
        // Nothing was ever asked; something was asked and answered; half of something was asked.
        let silent = server.connect(AssociationConfig::default()).await;
        let done = server.connect(AssociationConfig::default()).await;
        assert_eq!(get(&done, "/small").await, "small");
        let slow = server.connect(AssociationConfig::default()).await;
        let (_send, mut recv) = ask(&slow, b"GET /small HTTP/1.1\r\nhos").await;
        assert!(!answer(&mut recv).await.contains(" 200 "));
        for near in [silent, done, slow] {
            near.closed().await.unwrap();
        }
    })
    .await;
}

#[tokio::test]
async fn requests_find_a_stream_each_in_their_turn_if_there_are_few() {
    soon(async {
        let mut few = AssociationConfig::default();
        few.receiving.inbound_streams = 3;
        let server = Server::with(ServerOptions::default(), few).await;
        let near = server.connect(AssociationConfig::default()).await;
        assert_eq!(near.outbound_streams().min(near.inbound_streams()), 3);
        let asking = (0..12).map(|_| get(&near, "/small"));
        let answers = futures_util::future::join_all(asking).await;
        assert!(answers.iter().all(|answer| answer == "small"));
    })
    .await;
}

#[tokio::test]
async fn requests_can_be_answered_one_by_one() {
    soon(async {
        for one_by_one in [true, false] {
            let options = ServerOptions::default().with_one_by_one(one_by_one);
            let server = Server::new(options).await;
            let near = server.connect(AssociationConfig::default()).await;
            let asking = (0..8).map(|_| get(&near, "/slow"));
            futures_util::future::join_all(asking).await;
            let together = server.most_together();
            assert_eq!(together == 1, one_by_one, "{together} at a time");
        }
    })
    .await;
}
