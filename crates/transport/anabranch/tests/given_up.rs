//! Messages that are given up (RFC 7496).

mod common;

use std::time::Duration;

use anabranch::{
    Association, AssociationConfig, GivenUpBy, GivenUpMessages, OutgoingMessage, Ppid, Reliability,
    SendErrorReason,
};
use common::{Pair, loopback, soon};
use futures_util::FutureExt as _;

fn message(stream: u16, reliability: Reliability) -> OutgoingMessage {
    OutgoingMessage::new(stream, Ppid(0), vec![0; 1000]).with_reliability(reliability)
}

/// A pair whose server reads nothing, and whose client has no room left in its send buffer.
async fn full() -> Pair {
    let (mut near, mut far) = (AssociationConfig::default(), AssociationConfig::default());
    near.sending.send_buffer = 20_000;
    far.receiving.receive_buffer = 5_000;
    let pair = Pair::with(&[loopback(1)], near, far).await;
    let fill = || while pair.near.try_send(message(0, Reliability::Priority(5))).is_ok() {};
    let queued = |near: &Association| near.statistics().send_queue_bytes;
    // Until the peer's window is used up, too.
    let mut before = 0;
    fill();
    while queued(&pair.near) != before {
        before = queued(&pair.near);
        tokio::time::sleep(Duration::from_millis(100)).await;
        fill();
    }
    pair
}

#[tokio::test]
async fn a_more_important_message_does_not_wait_for_its_turn() {
    soon(async {
        let pair = full().await;
        let waits = pair.near.send(message(1, Reliability::Full));
        tokio::pin!(waits);
        assert!(waits.as_mut().now_or_never().is_none());
        let more = || message(0, Reliability::Priority(1));
        pair.near.try_send(more()).unwrap();
        let on_its_stream = pair.near.try_send(message(1, Reliability::Priority(1))).unwrap_err();
        assert_eq!(on_its_stream.reason, SendErrorReason::Blocked, "the other one comes first");
        let equal = pair.near.try_send(message(0, Reliability::Priority(5))).unwrap_err();
        assert_eq!(equal.reason, SendErrorReason::Blocked);
        let given_up = pair.near.given_up(GivenUpBy::Priority, Some(0));
        assert!(given_up.unsent > 0 && given_up.sent == 0);
    })
    .await;
}

#[tokio::test]
async fn the_counts_stay_after_the_end() {
    soon(async {
        let pair = full().await;
        pair.near.try_send(message(3, Reliability::Priority(1))).unwrap();
        let given_up = pair.near.given_up(GivenUpBy::Priority, None);
        pair.near.abort(b"enough");
        pair.near.closed().await.unwrap_err();
        let count = |by, stream| pair.near.given_up(by, stream);
        assert_eq!(count(GivenUpBy::Priority, None), given_up);
        assert_eq!(count(GivenUpBy::Priority, Some(0)), given_up);
        assert_eq!(count(GivenUpBy::Priority, Some(3)), GivenUpMessages::default());
        assert_eq!(count(GivenUpBy::Lifetime, None), GivenUpMessages::default());
    })
    .await;
}
