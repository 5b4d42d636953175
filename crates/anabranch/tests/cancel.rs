//! Futures may be dropped at any time.

mod common;

use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use anabranch::{AssociationConfig, OutgoingMessage, Ppid};
use common::{Pair, V4, remotes, soon, towards};

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
        small.send_buffer = 8 * 1024;
        small.receive_buffer = 16 * 1024;
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
        // A dropped close goes on.
        assert!(once(pair.near.close()).is_none());
        pair.far.closed().await.unwrap();
        pair.client.wait_idle().await;
    })
    .await;
}
