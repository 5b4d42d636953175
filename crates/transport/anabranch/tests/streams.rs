//! Streams as pipes of bytes and of messages.

mod common;

use std::io::ErrorKind;

use anabranch::{AssociationConfig, OutgoingMessage, Ppid, StreamError};
use common::{Pair, V4, loopback, pattern, soon};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

#[tokio::test]
async fn bytes_go_both_ways_on_many_streams() {
    soon(async {
        let pair = Pair::new(&[loopback(1), loopback(2)]).await;
        let far = pair.far.clone();
        let server = tokio::spawn(async move {
            let mut answers = tokio::task::JoinSet::new();
            for _ in 0..40 {
                let (mut send, mut recv) = far.accept_stream().await.unwrap().unwrap();
                answers.spawn(async move {
                    let mut request = Vec::new();
                    recv.read_to_end(&mut request).await.unwrap();
                    request.reverse();
                    send.write_all(&request).await.unwrap();
                    send.shutdown().await.unwrap();
                });
            }
            while let Some(result) = answers.join_next().await {
                result.unwrap();
            }
        });
        let mut clients = tokio::task::JoinSet::new();
        for index in 0..40_u16 {
            let (mut send, mut recv) = pair.near.open_stream().await.unwrap();
            assert_eq!(send.id(), index);
            clients.spawn(async move {
                let mut data = pattern(1 + 5000 * usize::from(index), index.into());
                send.write_all(&data).await.unwrap();
                send.shutdown().await.unwrap();
                let mut answer = Vec::new();
                recv.read_to_end(&mut answer).await.unwrap();
                data.reverse();
                assert!(answer == data);
            });
        }
        while let Some(result) = clients.join_next().await {
            result.unwrap();
        }
        server.await.unwrap();
        // All streams are free again.
        assert_eq!(pair.near.open_stream().await.unwrap().0.id(), 0);
    })
    .await;
}

#[tokio::test]
async fn a_stream_can_be_used_again_after_its_end() {
    soon(async {
        let pair = Pair::new(&[V4]).await;
        for round in 0..3_u8 {
            let (mut send, recv) = pair.near.stream(9).unwrap();
            send.write_all(&[round; 100]).await.unwrap();
            send.shutdown().await.unwrap();
            let (_answer, mut request) = pair.far.accept_stream().await.unwrap().unwrap();
            assert_eq!(request.id(), 9);
            let mut bytes = Vec::new();
            request.read_to_end(&mut bytes).await.unwrap();
            assert_eq!(bytes, [round; 100]);
            assert_eq!(request.read(&mut [0; 10]).await.unwrap(), 0);
            drop(recv);
        }
    })
    .await;
}

#[tokio::test]
async fn streams_that_were_given_up_are_opened_again() {
    soon(async {
        let mut config = AssociationConfig::default();
        config.sending.outbound_streams = 2;
        let pair = Pair::with(&[V4], config, AssociationConfig::default()).await;
        for _ in 0..10 {
            let (mut send, mut recv) = pair.near.open_stream().await.unwrap();
            send.write_all(b"?").await.unwrap();
            send.shutdown().await.unwrap();
            let (mut answer, request) = pair.far.accept_stream().await.unwrap().unwrap();
            request.stop();
            answer.write_all(b"more than the reader wants").await.unwrap();
            recv.read_exact(&mut [0; 4]).await.unwrap();
            drop((send, recv));
            // The end comes after that.
            drop(answer);
        }
    })
    .await;
}

#[tokio::test]
async fn an_unfinished_byte_stream_is_noticed() {
    soon(async {
        let pair = Pair::new(&[V4]).await;
        let (mut send, _recv) = pair.near.open_stream().await.unwrap();
        send.write_all(b"half").await.unwrap();
        drop(send);
        let (_, mut recv) = pair.far.accept_stream().await.unwrap().unwrap();
        let mut bytes = Vec::new();
        let error = recv.read_to_end(&mut bytes).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::UnexpectedEof);
        assert_eq!(bytes, b"half");
    })
    .await;
}

#[tokio::test]
async fn a_stopped_reader_does_not_hold_up_the_others() {
    soon(async {
        let pair = Pair::new(&[V4]).await;
        let (mut bulk, _) = pair.near.open_stream().await.unwrap();
        let writer = tokio::spawn(async move {
            // Three receive windows.
            let error = bulk.write_all(&vec![1; 3 << 20]).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::BrokenPipe);
        });
        let (_, mut recv) = pair.far.accept_stream().await.unwrap().unwrap();
        recv.read_exact(&mut [0; 1000]).await.unwrap();
        drop(recv);
        writer.await.unwrap();
        let (mut send, _) = pair.near.open_stream().await.unwrap();
        send.write_all(b"next").await.unwrap();
        send.shutdown().await.unwrap();
        let (_, mut recv) = pair.far.accept_stream().await.unwrap().unwrap();
        let mut bytes = Vec::new();
        recv.read_to_end(&mut bytes).await.unwrap();
        assert_eq!(bytes, b"next");
    })
    .await;
}

#[tokio::test]
async fn foreign_messages_are_bytes_too() {
    soon(async {
        let pair = Pair::new(&[V4]).await;
        for data in ["all ", "the ", "same"] {
            pair.near.send(OutgoingMessage::new(5, Ppid(60), data)).await.unwrap();
        }
        pair.near.close().await.unwrap();
        let (_send, mut recv) = pair.far.accept_stream().await.unwrap().unwrap();
        let mut text = String::new();
        recv.read_to_string(&mut text).await.unwrap();
        assert_eq!(text, "all the same");
    })
    .await;
}

#[tokio::test]
async fn messages_of_a_stream_go_to_its_handle() {
    soon(async {
        let pair = Pair::new(&[V4]).await;
        let (_send, mut recv) = pair.far.stream(1).unwrap();
        assert_eq!(pair.far.stream(1).unwrap_err(), StreamError::InUse(1));
        for (stream, ppid) in [(1, 10), (2, 20), (1, 11), (1, 12)] {
            pair.near.send(OutgoingMessage::new(stream, Ppid(ppid), "x")).await.unwrap();
        }
        assert_eq!(recv.recv().await.unwrap().unwrap().ppid, Ppid(10));
        assert_eq!(pair.far.recv().await.unwrap().unwrap().ppid, Ppid(20));
        assert_eq!(recv.recv().await.unwrap().unwrap().ppid, Ppid(11));
        // Messages that the handle leaves go back to the association.
        drop(recv);
        assert_eq!(pair.far.recv().await.unwrap().unwrap().ppid, Ppid(12));
    })
    .await;
}

#[tokio::test]
async fn both_sides_open_streams_from_their_own_end() {
    soon(async {
        let pair = Pair::new(&[V4]).await;
        let near = pair.near.open_stream().await.unwrap();
        let far = pair.far.open_stream().await.unwrap();
        let last = pair.near.outbound_streams().min(pair.near.inbound_streams()) - 1;
        assert_eq!((near.0.id(), far.0.id()), (0, last));
        let beyond = pair.near.outbound_streams().max(pair.near.inbound_streams());
        if beyond < u16::MAX {
            assert!(matches!(
                pair.near.stream(beyond),
                Err(StreamError::NoSuchStream { count, .. }) if count == beyond
            ));
        }
    })
    .await;
}

#[tokio::test]
async fn bytes_that_the_end_of_the_association_cuts_off_are_not_whole() {
    soon(async {
        let pair = Pair::new(&[loopback(1)]).await;
        let (mut send, _) = pair.near.open_stream().await.unwrap();
        send.write_all(b"the first half").await.unwrap();
        let reading = async {
            let (_send, mut recv) = pair.far.accept_stream().await.unwrap().unwrap();
            let mut bytes = Vec::new();
            (recv.read_to_end(&mut bytes).await, bytes)
        };
        let ((ended, bytes), closed) = tokio::join!(reading, pair.near.close());
        closed.unwrap();
        assert_eq!(bytes, b"the first half");
        assert_eq!(ended.unwrap_err().kind(), std::io::ErrorKind::UnexpectedEof);
        drop(send);
    })
    .await;
}

/// A sender that waits after bytes without credit has not asked the engine for anything.
#[tokio::test]
async fn who_waits_behind_a_writer_without_credit_has_its_turn_when_that_is_gone() {
    soon(async {
        let pair = Pair::new(&[loopback(1)]).await;
        let (mut send, recv) = pair.near.open_stream().await.unwrap();
        let stream = send.id();
        // The peer does not read, so the credit is used up.
        let writing = async { while send.write_all(&[1; 10_000]).await.is_ok() {} };
        let stalled = tokio::time::timeout(std::time::Duration::from_millis(300), writing).await;
        assert!(stalled.is_err());
        let near = pair.near.clone();
        let waiting = tokio::spawn(async move {
            near.send(OutgoingMessage::new(stream, Ppid(0), "behind")).await
        });
        tokio::task::yield_now().await;
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        drop((send, recv));
        waiting.await.unwrap().unwrap();
    })
    .await;
}
