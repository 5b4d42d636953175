//! Futures may be dropped at any time.

mod common;

use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use anabranch::{AssociationConfig, OutgoingMessage, Ppid};
use common::{Pair, V4, remotes, soon, towards};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// Polls a future once; `None` if it is dropped unfinished.
fn once<T>(future: impl Future<Output = T>) -> Option<T> {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(result) => Some(result),
        Poll::Pending => None,
    }
}

#[tokio::test]
async fn dropped_receives_lose_nothing() {
    soon(async {
        let pair = Pair::new(&[V4]).await;
        let (_send, mut stream) = pair.far.stream(1).unwrap();
        for count in 0..200 {
            for stream in [0, 1] {
                let message = OutgoingMessage::new(stream, Ppid(count), "x");
                pair.near.send(message).await.unwrap();
            }
        }
        let (mut any, mut own) = (0, 0);
        while any < 200 || own < 200 {
            if let Some(message) = once(pair.far.recv()) {
                assert_eq!(message.unwrap().unwrap().ppid, Ppid(any));
                any += 1;
            }
            if let Some(message) = once(stream.recv()) {
                assert_eq!(message.unwrap().unwrap().ppid, Ppid(own));
                own += 1;
            }
            tokio::task::yield_now().await;
        }
    })
    .await;
}

#[tokio::test]
async fn dropped_sends_send_nothing_and_bar_nobody() {
    soon(async {
        let mut small = AssociationConfig::default();
        small.sending.send_buffer = 8 * 1024;
        small.receiving.receive_buffer = 16 * 1024;
        let pair = Pair::with(&[V4], small.clone(), small).await;
        let mut sent = 0_u32;
        let mut dropped = 0;
        while dropped < 100 {
            match once(pair.near.send(OutgoingMessage::new(0, Ppid(sent), vec![0; 1000]))) {
                Some(result) => {
                    result.unwrap();
                    sent += 1;
                }
                None => dropped += 1,
            }
            tokio::task::yield_now().await;
        }
        let last = pair.near.send(OutgoingMessage::new(0, Ppid(sent), "last"));
        let (last, ()) = tokio::join!(last, async {
            for count in 0..=sent {
                assert_eq!(pair.far.recv().await.unwrap().unwrap().ppid, Ppid(count));
            }
        });
        last.unwrap();
    })
    .await;
}

#[tokio::test]
async fn dropped_connects_and_accepts_leave_nothing_behind() {
    soon(async {
        let pair = Pair::new(&[V4]).await;
        let options = towards(&pair.server, AssociationConfig::default());
        assert!(once(pair.client.connect(remotes(&pair.server), options)).is_none());
        assert!(once(pair.listener.accept()).is_none());
        assert!(once(pair.near.accept_stream()).is_none());
        assert!(once(pair.near.closed()).is_none());
        assert!(once(pair.client.wait_idle()).is_none());
        let (near, far) = loop {
            // The dropped attempt may have got as far as the listener.
            let (near, far) = pair.another().await;
            near.send(OutgoingMessage::new(0, Ppid(42), "x")).await.unwrap();
            match far.recv().await {
                Ok(Some(message)) => {
                    assert_eq!(message.ppid, Ppid(42));
                    break (near, far);
                }
                _ => drop((near, far)),
            }
        };
        near.close().await.unwrap();
        far.closed().await.unwrap();
        // A dropped close continues.
        assert!(once(pair.near.close()).is_none());
        pair.far.closed().await.unwrap();
        pair.client.wait_idle().await;
    })
    .await;
}

/// Polls a future, and drops it when it was pending `polls` times.
async fn dropped_after<T>(polls: usize, future: impl Future<Output = T>) -> Option<T> {
    let (mut future, mut left) = (pin!(future), polls);
    std::future::poll_fn(|cx| match future.as_mut().poll(cx) {
        Poll::Ready(result) => Poll::Ready(Some(result)),
        Poll::Pending if left == 0 => Poll::Ready(None),
        Poll::Pending => {
            left -= 1;
            Poll::Pending
        }
    })
    .await
}

/// Repeats an operation, dropping its future after ever more polls, until it succeeds.
macro_rules! stubbornly {
    ($operation:expr) => {{
        let mut polls = 0;
        loop {
            if let Some(result) = dropped_after(polls, $operation).await {
                break result;
            }
            polls += 1;
            tokio::task::yield_now().await;
        }
    }};
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn operations_dropped_at_every_point_take_place_once() {
    soon(async {
        let mut small = AssociationConfig::default();
        small.sending.send_buffer = 8 * 1024;
        small.receiving.receive_buffer = 16 * 1024;
        let pair = Pair::with(&[V4], small.clone(), small).await;
        let (near, far) = (pair.near.clone(), pair.far.clone());
        let sender = tokio::spawn(async move {
            let mut held = vec![near.stream(0).unwrap()];
            for count in 0..2000 {
                let message = || OutgoingMessage::new(0, Ppid(count), vec![0; 700]);
                stubbornly!(near.send(message())).unwrap();
            }
            for stream in 1..20_u16 {
                let (mut send, mut recv) = stubbornly!(near.open_stream()).unwrap();
                assert_eq!(send.id(), stream);
                let data = common::pattern(30_000, stream.into());
                let mut written = 0;
                while written < data.len() {
                    written += stubbornly!(send.write(&data[written..])).unwrap();
                }
                stubbornly!(send.finish()).unwrap();
                // The stream stays in use for the next round to take another one.
                let answer = stubbornly!(recv.recv()).unwrap().unwrap();
                assert_eq!(answer.ppid, Ppid(u32::from(stream)));
                held.push((send, recv));
            }
        });
        let receiver = tokio::spawn(async move {
            // Its handle keeps the stream of the messages from being opened or accepted.
            let (_send, mut messages) = far.stream(0).unwrap();
            for count in 0..2000 {
                let message = stubbornly!(messages.recv()).unwrap().unwrap();
                assert_eq!(message.ppid, Ppid(count));
            }
            for stream in 1..20_u16 {
                let (send, mut recv) = stubbornly!(far.accept_stream()).unwrap().unwrap();
                assert_eq!(recv.id(), stream);
                let mut data = Vec::new();
                loop {
                    let mut part = [0; 5000];
                    match stubbornly!(recv.read(&mut part)).unwrap() {
                        0 => break,
                        count => data.extend_from_slice(&part[..count]),
                    }
                }
                assert!(data == common::pattern(30_000, stream.into()));
                stubbornly!(send.send(Ppid(stream.into()), "done")).unwrap();
            }
        });
        sender.await.unwrap();
        receiver.await.unwrap();
        stubbornly!(pair.near.close()).unwrap();
        stubbornly!(pair.far.closed()).unwrap();
        stubbornly!(pair.client.wait_idle());
        stubbornly!(pair.client.close());
    })
    .await;
}

#[tokio::test]
async fn associations_of_dropped_accepts_go_to_the_next() {
    soon(async {
        let pair = Pair::new(&[V4]).await;
        for _ in 0..20 {
            let options = towards(&pair.server, AssociationConfig::default());
            let connect = pair.client.connect(remotes(&pair.server), options);
            let (near, far) = tokio::join!(connect, async { stubbornly!(pair.listener.accept()) });
            let (near, far) = (near.unwrap(), far.unwrap());
            near.send(OutgoingMessage::new(0, Ppid(1), "x")).await.unwrap();
            assert!(far.recv().await.unwrap().is_some());
        }
    })
    .await;
}
