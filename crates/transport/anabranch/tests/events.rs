//! The notifications of an association besides its data.

mod common;

use std::time::Duration;

use anabranch::{AssociationConfig, Notification, OutgoingMessage, PathState, Ppid, Reliability};
use common::{PORT, Pair, V4, loopback, remotes, soon, towards};
use futures_util::StreamExt;

#[tokio::test]
async fn paths_are_told_when_they_are_confirmed() {
    soon(async {
        let pair = Pair::new(&[loopback(1), loopback(2)]).await;
        // The client's user passed the peer's addresses; the server must probe its peer's.
        let mut events = pair.far.events();
        let up = events.next().await;
        assert!(matches!(up, Some(Notification::Up { incoming: true, .. })), "{up:?}");
        let up = pair.near.events().next().await;
        let Some(Notification::Up { incoming: false, outbound_streams, .. }) = up else {
            panic!("{up:?}");
        };
        assert_eq!(outbound_streams, pair.near.outbound_streams());
        let mut confirmed = Vec::new();
        while confirmed.is_empty() {
            if let Some(Notification::PathChanged { path, local, remote, state }) =
                events.next().await
            {
                assert_eq!(state, PathState::Active);
                assert_eq!(pair.far.statistics().path(path).unwrap().remote, remote);
                confirmed.push((local, remote));
            }
        }
        pair.near.close().await.unwrap();
        assert_eq!(confirmed[0].1, loopback(2));
        let rest: Vec<_> = events.collect().await;
        assert!(matches!(rest.last(), Some(Notification::Closed(_))), "{rest:?}");
    })
    .await;
}

#[tokio::test]
async fn a_message_that_was_given_up_comes_back() {
    soon(async {
        let mut small = AssociationConfig::default();
        small.receiving.receive_buffer = 4096;
        let pair = Pair::with(&[V4], AssociationConfig::default(), small).await;
        let mut events = pair.near.events();
        // The peer does not read: the window closes before the last message is sent.
        for _ in 0..20 {
            pair.near.send(OutgoingMessage::new(0, Ppid(0), vec![0; 1000])).await.unwrap();
        }
        let mut message = OutgoingMessage::new(0, Ppid(7), "too late");
        message.reliability = Reliability::Lifetime(Duration::from_millis(1));
        message.context = 99;
        pair.near.send(message).await.unwrap();
        let given_up = async {
            loop {
                match events.next().await {
                    Some(Notification::SendFailed { message, sent }) => break (message, sent),
                    Some(_) => {}
                    None => panic!("the message was not given up"),
                }
            }
        };
        // The earlier ones must be removed before it is checked.
        let reading = async {
            for _ in 0..20 {
                let received = pair.far.recv().await.unwrap().unwrap();
                assert_eq!(received.ppid, Ppid(0));
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        };
        let ((message, sent), ()) = tokio::join!(given_up, reading);
        assert_eq!((message.context, &message.data[..], sent), (99, &b"too late"[..], false));
    })
    .await;
}

#[tokio::test]
async fn the_end_tells_what_may_not_have_arrived() {
    soon(async {
        let pair = Pair::new(&[V4]).await;
        let mut events = pair.near.events();
        for _ in 0..100 {
            pair.near.send(OutgoingMessage::new(0, Ppid(0), vec![0; 20_000])).await.unwrap();
            if pair.near.statistics().peer_rwnd < 500_000 {
                break;
            }
        }
        pair.far.abort(b"");
        let error = pair.near.closed().await.unwrap_err();
        let mut told = 0;
        while let Some(notification) = events.next().await {
            told += u64::from(matches!(notification, Notification::SendFailed { .. }));
        }
        assert_eq!(error.undelivered, told);
    })
    .await;
}

#[tokio::test]
async fn a_late_reader_gets_all_messages_that_come_back() {
    soon(async {
        let mut small = AssociationConfig::default();
        small.receiving.receive_buffer = 4096;
        let pair = Pair::with(&[V4], AssociationConfig::default(), small).await;
        let mut events = pair.near.events();
        let mut sent = 0;
        for _ in 0..1000 {
            sent += u64::from(
                pair.near.try_send(OutgoingMessage::new(0, Ppid(0), vec![0; 100])).is_ok(),
            );
        }
        pair.far.abort(b"");
        let error = pair.near.closed().await.unwrap_err();
        assert!(error.undelivered > sent - 100, "the peer's buffer holds few of {sent}");
        let (mut told, mut missed) = (0, 0);
        while let Some(notification) = events.next().await {
            told += u64::from(matches!(notification, Notification::SendFailed { .. }));
            missed += u64::from(matches!(notification, Notification::Missed(_)));
        }
        assert_eq!((told, missed), (error.undelivered, 0));
    })
    .await;
}

#[tokio::test]
async fn a_restarted_peer_is_noticed() {
    soon(async {
        let server = common::endpoint(&[V4]);
        let listener = server.listen(PORT, AssociationConfig::default()).unwrap();
        // The same UDP and SCTP ports as before, but nothing remembered.
        let mut options = towards(&server, AssociationConfig::default());
        options.local_port = Some(6000);
        let first = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        let (remotes, first_options) = (remotes(&server), options.clone());
        let (port, near) = first
            .spawn({
                let remotes = remotes.clone();
                async move {
                    let client = common::endpoint(&[V4]);
                    let near = client.connect(remotes, first_options).await.unwrap();
                    (client.udp_port(), near)
                }
            })
            .await
            .unwrap();
        let far = listener.accept().await.unwrap();
        let mut events = far.events();
        first.shutdown_background();
        // Its sockets are closed when its task is gone.
        near.closed().await.unwrap_err();
        let client = anabranch::Endpoint::builder().local_addresses([V4]).udp_port(port).bind();
        let again = client.unwrap().connect(remotes, options).await.unwrap();
        while !matches!(events.next().await, Some(Notification::Restarted { .. })) {}
        again.send(OutgoingMessage::new(0, Ppid(5), "still here")).await.unwrap();
        assert_eq!(far.recv().await.unwrap().unwrap().ppid, Ppid(5));
    })
    .await;
}

#[tokio::test]
async fn the_end_of_what_there_is_to_send_is_told() {
    soon(async {
        let pair = Pair::new(&[V4]).await;
        let mut events = pair.near.events();
        let before = pair.far.cumulative_tsn().unwrap();
        assert!(pair.near.tell_when_dry(true), "nothing was sent yet");
        pair.near.send(OutgoingMessage::new(3, Ppid(0), vec![0; 10_000])).await.unwrap();
        pair.near.send(OutgoingMessage::new(3, Ppid(0), "last")).await.unwrap();
        while !matches!(events.next().await.unwrap(), Notification::SenderDry) {}
        assert_eq!(pair.near.statistics().outstanding_bytes, 0);
        let first = pair.far.recv().await.unwrap().unwrap();
        let last = pair.far.recv().await.unwrap().unwrap();
        assert_eq!((first.sequence, last.sequence), (0, 1));
        assert_eq!(first.tsn, before.wrapping_add(1));
        assert_eq!(Some(last.tsn), pair.far.cumulative_tsn());
        assert!(last.tsn.wrapping_sub(first.tsn) >= 2, "the first one had several chunks");
        pair.near.close().await.unwrap();
        assert!(pair.near.tell_when_dry(true));
        assert_eq!(pair.near.cumulative_tsn(), None);
    })
    .await;
}
