//! Streams that are reset and added while an association is up (RFC 6525).

mod common;

use anabranch::{
    AssociationConfig, Notification, OutgoingMessage, Ppid, ReconfigurationError,
    ReconfigurationResult, StreamDirection,
};
use common::{Pair, loopback, soon};

fn config() -> AssociationConfig {
    let mut config = AssociationConfig::default();
    config.sending.outbound_streams = 4;
    config
}

#[tokio::test]
async fn a_stream_is_reset() {
    soon(async {
        let pair = Pair::with(&[loopback(1)], config(), config()).await;
        let mut events = [pair.near.events(), pair.far.events()];
        for text in ["a", "b"] {
            pair.near.send(OutgoingMessage::new(1, Ppid(0), text)).await.unwrap();
        }
        pair.near.reset_streams(StreamDirection::Outgoing, &[1]).unwrap();
        let again = pair.near.reset_streams(StreamDirection::Outgoing, &[1]);
        assert_eq!(again, Err(ReconfigurationError::Outstanding));
        pair.near.send(OutgoingMessage::new(1, Ppid(0), "c")).await.unwrap();
        let mut ssns = Vec::new();
        while ssns.len() < 3 {
            ssns.push(pair.far.recv().await.unwrap().unwrap().sequence);
        }
        assert_eq!(ssns, [0, 1, 0]);
        for (end, outgoing) in events.iter_mut().zip([true, false]) {
            let reset = loop {
                if let Some(Notification::StreamsReset { outgoing, streams, result }) =
                    end.next().await
                {
                    break (outgoing, streams.to_vec(), result);
                }
            };
            assert_eq!(reset, (outgoing, vec![1], ReconfigurationResult::Performed));
        }
    })
    .await;
}

#[tokio::test]
async fn more_streams() {
    soon(async {
        let pair = Pair::with(&[loopback(1)], config(), config()).await;
        let mut events = pair.near.events();
        pair.near.add_streams(2, 2).unwrap();
        let mut added = 0;
        while added < 2 {
            added += usize::from(matches!(
                events.next().await,
                Some(Notification::StreamsAdded { result: ReconfigurationResult::Performed, .. })
            ));
        }
        assert_eq!((pair.near.outbound_streams(), pair.near.inbound_streams()), (6, 6));
        pair.near.send(OutgoingMessage::new(5, Ppid(0), "new")).await.unwrap();
        assert_eq!(pair.far.recv().await.unwrap().unwrap().stream, 5);
        assert_eq!((pair.far.outbound_streams(), pair.far.inbound_streams()), (6, 6));
    })
    .await;
}

/// The default of the peer.
#[tokio::test]
async fn new_tsns_are_denied() {
    soon(async {
        let pair = Pair::with(&[loopback(1)], config(), config()).await;
        let mut events = pair.near.events();
        pair.near.reset_association().unwrap();
        let result = loop {
            if let Some(Notification::AssociationReset { result, .. }) = events.next().await {
                break result;
            }
        };
        assert_eq!(result, ReconfigurationResult::Denied);
    })
    .await;
}
