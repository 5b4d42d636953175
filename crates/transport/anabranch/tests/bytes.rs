//! Byte streams that are not read, and that are given up.

mod common;

use std::io::ErrorKind;
use std::time::Duration;

use anabranch::config::{Pieces, SchedulerKind};
use anabranch::{Association, AssociationConfig, SendStream, StreamPriority};
use bytes::Bytes;
use common::{Pair, V4, pattern, soon};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// Writes without end. Returns the error that ended it.
async fn write_on(mut send: SendStream) -> ErrorKind {
    let piece = pattern(50_000, 1);
    loop {
        if let Err(error) = send.write_all(&piece).await {
            return error.kind();
        }
    }
}

/// Waits until nothing more arrives at an association. Returns the number of bytes that arrived.
async fn settled(association: &Association) -> u64 {
    let arrived = || association.statistics().counters.message_bytes_received;
    let mut before = arrived();
    loop {
        tokio::time::sleep(Duration::from_millis(200)).await;
        let now = arrived();
        if now == before {
            return now;
        }
        before = now;
    }
}

#[tokio::test]
async fn bytes_are_written_as_they_lie_in_memory() {
    soon(async {
        let pair = Pair::new(&[V4]).await;
        let (mut send, _) = pair.near.open_stream().await.unwrap();
        let whole = Bytes::from(pattern(3_000_000, 4));
        let expected = whole.clone();
        let writer = tokio::spawn(async move {
            // Alternates between both ways of writing, and writing nothing.
            send.write_bytes(whole.slice(..1_000_001)).await.unwrap();
            send.write_all(&whole[1_000_001..1_000_005]).await.unwrap();
            send.write_bytes(Bytes::new()).await.unwrap();
            send.write_bytes(whole.slice(1_000_005..)).await.unwrap();
            send.shutdown().await.unwrap();
            send.write_bytes("late").await.unwrap_err().kind()
        });
        let (_answer, mut recv) = pair.far.accept_stream().await.unwrap().unwrap();
        let mut read = Vec::new();
        recv.read_to_end(&mut read).await.unwrap();
        assert!(read == expected, "{} bytes", read.len());
        assert_eq!(writer.await.unwrap(), ErrorKind::BrokenPipe);
    })
    .await;
}

#[tokio::test]
async fn what_is_not_read_holds_up_no_other_stream() {
    soon(async {
        let pair = Pair::new(&[V4]).await;
        let mut unread = Vec::new();
        for _ in 0..3 {
            let (send, _) = pair.near.open_stream().await.unwrap();
            tokio::spawn(write_on(send));
            let (answer, mut recv) = pair.far.accept_stream().await.unwrap().unwrap();
            // Enough that its writer has all the credit that it can have.
            recv.read_exact(&mut vec![0; 1_000_000]).await.unwrap();
            unread.push((answer, recv));
        }
        settled(&pair.far).await;
        let (mut send, _) = pair.near.open_stream().await.unwrap();
        send.write_all(b"five!").await.unwrap();
        let (_answer, mut recv) = pair.far.accept_stream().await.unwrap().unwrap();
        let mut five = [0; 5];
        recv.read_exact(&mut five).await.unwrap();
        assert_eq!(&five, b"five!");
        // Much more than the receive window goes past them, too.
        let writer = tokio::spawn(async move {
            send.write_all(&vec![7; 4 << 20]).await.unwrap();
            send.shutdown().await.unwrap();
        });
        let mut rest = Vec::new();
        recv.read_to_end(&mut rest).await.unwrap();
        assert_eq!(rest.len(), 4 << 20);
        writer.await.unwrap();
        // Waiting senders continue when they are read.
        for (_, recv) in &mut unread {
            recv.read_exact(&mut vec![0; 2_000_000]).await.unwrap();
        }
    })
    .await;
}

/// HTTP/1.1 clients keep streams open after they have read the answer: if each of them held memory, the window would
/// eventually close for all others.
#[tokio::test]
async fn what_was_read_takes_nothing_of_the_window() {
    use tokio::io::AsyncBufReadExt;
    soon(async {
        let pair = Pair::new(&[V4]).await;
        let mut idle = Vec::new();
        for buffered in [false, true] {
            let (mut send, other) = pair.near.open_stream().await.unwrap();
            send.write_all(&pattern(5000, 1)).await.unwrap();
            let (answer, mut recv) = pair.far.accept_stream().await.unwrap().unwrap();
            let mut left = 5000;
            while left > 0 {
                let count = match buffered {
                    true => recv.fill_buf().await.unwrap().len(),
                    false => recv.read(&mut [0; 700]).await.unwrap(),
                };
                if buffered {
                    recv.consume(count);
                }
                left -= count;
            }
            assert_eq!(pair.far.statistics().receive_buffer_used, 0, "buffered: {buffered}");
            idle.push((send, other, answer, recv));
        }
    })
    .await;
}

#[tokio::test]
async fn a_writer_whose_reader_is_dropped_is_told_and_stops() {
    soon(async {
        let pair = Pair::new(&[V4]).await;
        for explicit in [false, true] {
            let (mut ask, mut recv) = pair.near.open_stream().await.unwrap();
            ask.write_all(b"all of it, please").await.unwrap();
            let (send, mut request) = pair.far.accept_stream().await.unwrap().unwrap();
            request.read_exact(&mut [0; 17]).await.unwrap();
            let writer = tokio::spawn(write_on(send));
            recv.read_exact(&mut vec![0; 1_000_000]).await.unwrap();
            if explicit {
                recv.stop();
            } else {
                drop(recv);
            }
            assert_eq!(writer.await.unwrap(), ErrorKind::BrokenPipe);
            // The number is free again once the peer has said that this was all.
            drop((ask, request));
            settled(&pair.near).await;
            assert_eq!(pair.near.open_stream().await.unwrap().0.id(), 0);
        }
    })
    .await;
}

#[tokio::test]
async fn what_was_queued_for_a_reader_that_is_gone_does_not_come() {
    soon(async {
        let pair = Pair::new(&[V4]).await;
        let (mut ask, mut recv) = pair.near.open_stream().await.unwrap();
        ask.write_all(b"?").await.unwrap();
        let (send, _request) = pair.far.accept_stream().await.unwrap().unwrap();
        let writer = tokio::spawn(write_on(send));
        recv.read_exact(&mut [0; 100]).await.unwrap();
        let before = pair.near.statistics().counters.message_bytes_received;
        drop(recv);
        assert_eq!(writer.await.unwrap(), ErrorKind::BrokenPipe);
        let more = settled(&pair.near).await - before;
        assert!(more <= 256 << 10, "{more} bytes came after that");
    })
    .await;
}

#[tokio::test]
async fn a_stream_that_nobody_wants_from_the_start_is_free_again() {
    soon(async {
        let pair = Pair::new(&[V4]).await;
        // Each side knows that the other one understands.
        let (mut send, mut recv) = pair.near.open_stream().await.unwrap();
        send.write_all(b"x").await.unwrap();
        send.shutdown().await.unwrap();
        let (mut answer, request) = pair.far.accept_stream().await.unwrap().unwrap();
        answer.write_all(b"y").await.unwrap();
        answer.shutdown().await.unwrap();
        recv.read_to_end(&mut Vec::new()).await.unwrap();
        drop((send, recv, answer, request));
        let (send, recv) = pair.near.stream(5).unwrap();
        recv.stop();
        drop(send);
        // The peer has never seen this stream, and still ends it.
        settled(&pair.far).await;
        settled(&pair.near).await;
        // Its next message is read as usual.
        let (mut send, _recv) = pair.far.stream(5).unwrap();
        send.write_all(b"again").await.unwrap();
        send.shutdown().await.unwrap();
        let (_, mut recv) = pair.near.accept_stream().await.unwrap().unwrap();
        let mut text = String::new();
        recv.read_to_string(&mut text).await.unwrap();
        assert_eq!((recv.id(), text.as_str()), (5, "again"));
    })
    .await;
}

#[tokio::test]
async fn an_answer_that_does_not_begin_is_missing() {
    soon(async {
        let pair = Pair::new(&[V4]).await;
        let (mut ask, mut recv) = pair.near.open_stream().await.unwrap();
        ask.write_all(b"?").await.unwrap();
        let (mut answer, _request) = pair.far.accept_stream().await.unwrap().unwrap();
        answer.begin_bytes();
        drop(answer);
        let error = recv.read_to_end(&mut Vec::new()).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::UnexpectedEof);
    })
    .await;
}

#[tokio::test]
async fn a_number_serves_one_byte_stream_after_the_other() {
    soon(async {
        let pair = Pair::new(&[V4]).await;
        for round in 0..50_usize {
            let length = (round * 7919) % 300_000;
            let (mut send, mut recv) = pair.near.stream(3).unwrap();
            send.write_all(b"go").await.unwrap();
            send.shutdown().await.unwrap();
            let (mut answer, mut request) = pair.far.accept_stream().await.unwrap().unwrap();
            request.read_to_end(&mut Vec::new()).await.unwrap();
            let data = pattern(length, round as u64);
            let sent = data.clone();
            let writer = tokio::spawn(async move {
                // The reader may have gone already.
                let _ = answer.write_all(&sent).await;
                let _ = answer.shutdown().await;
            });
            if round % 3 == 0 && length > 0 {
                recv.read_exact(&mut vec![0; length.min(1000)]).await.unwrap();
                drop(recv);
            } else {
                let mut all = Vec::new();
                recv.read_to_end(&mut all).await.unwrap();
                assert!(all == data, "round {round}");
                drop(recv);
            }
            writer.await.unwrap();
            drop((send, request));
            while pair.near.stream(3).is_err() {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        }
    })
    .await;
}

#[tokio::test]
async fn byte_streams_work_under_every_scheduler_and_size_of_pieces() {
    soon(async {
        for (scheduler, pieces) in [
            (SchedulerKind::Fifo, Pieces::Auto),
            (SchedulerKind::RoundRobin, Pieces::Auto),
            (SchedulerKind::RoundRobin, Pieces::Long),
            (SchedulerKind::Priority, Pieces::Packet),
        ] {
            let mut config = AssociationConfig::default();
            config.sending.scheduler = scheduler;
            config.sending.pieces = pieces;
            let pair = Pair::with(&[V4], config.clone(), config).await;
            let mut tasks = tokio::task::JoinSet::new();
            for index in 0..8_u16 {
                let (mut send, _) = pair.near.open_stream().await.unwrap();
                let urgency = index % 3;
                send.set_priority(StreamPriority { urgency, incremental: index % 2 == 0 });
                tasks.spawn(async move {
                    let data = pattern(200_000 + usize::from(index), index.into());
                    send.write_all(&data).await.unwrap();
                    send.shutdown().await.unwrap();
                });
            }
            for _ in 0..8 {
                let (_, mut recv) = pair.far.accept_stream().await.unwrap().unwrap();
                tasks.spawn(async move {
                    let mut data = Vec::new();
                    recv.read_to_end(&mut data).await.unwrap();
                    let index = recv.id();
                    assert!(data == pattern(200_000 + usize::from(index), index.into()));
                });
            }
            while let Some(done) = tasks.join_next().await {
                done.unwrap();
            }
        }
    })
    .await;
}
