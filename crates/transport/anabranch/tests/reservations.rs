//! Memory that is kept because of a peer is counted and bounded.

mod common;

use anabranch::{
    Association, AssociationConfig, AssociationError, CloseReason, EndpointConfig, OutgoingMessage,
    Ppid,
};
use anabranch_proto::byte_mode::{SIGNAL, Signal};
use common::{PORT, Pair, V4, endpoint, remotes, soon, towards};

/// Bytes of the server's memory in the tests.
const LIMIT: usize = 4 << 20;

/// Bytes of a server's memory that rows for 1,000 streams fill.
const SMALL_LIMIT: usize = 192 << 10;

/// A pair whose server has only this much memory.
async fn pair(memory_limit: usize) -> Pair {
    let mut config = EndpointConfig::default();
    config.memory_limit = memory_limit;
    let server =
        anabranch::Endpoint::builder().local_addresses([V4]).config(config).bind().unwrap();
    let client = endpoint(&[V4]);
    let mut many = AssociationConfig::default();
    many.sending.outbound_streams = u16::MAX;
    many.receiving.inbound_streams = u16::MAX;
    let listener = server.listen(PORT, many.clone()).unwrap();
    let near = client.connect(remotes(&server), towards(&server, many)).await.unwrap();
    let far = listener.accept().await.unwrap();
    Pair { server, listener, client, near, far }
}

#[tokio::test]
async fn what_is_reserved_is_counted_and_refused_beyond_the_limit() {
    soon(async {
        let pair = pair(LIMIT).await;
        let used = || pair.server.statistics().memory_used;
        let before = used();
        let mut reserved = pair.far.reserve(1 << 20).unwrap();
        assert!(used() >= before + (1 << 20));
        assert!(reserved.grow(1 << 20));
        assert_eq!(reserved.bytes(), 2 << 20);
        assert!(!reserved.grow(LIMIT), "there is not so much");
        assert!(pair.far.reserve(LIMIT).is_none());
        assert_eq!(reserved.bytes(), 2 << 20, "what there was stays");
        drop(reserved);
        assert_eq!(used(), before);
        // After the end nothing is counted.
        let reserved = pair.far.reserve(1 << 20).unwrap();
        pair.near.abort(b"");
        pair.far.closed().await.unwrap_err();
        assert_eq!(used(), 0);
        assert!(pair.far.reserve(LIMIT).is_some());
        drop(reserved);
        assert_eq!(used(), 0);
    })
    .await;
}

/// The peer uses all streams.
async fn name_streams(association: &Association) {
    for stream in 0..u16::MAX {
        let signal = Signal::Credit(1 << 20).message(stream);
        assert_eq!(signal.ppid, SIGNAL);
        if association.send(signal).await.is_err() {
            return;
        }
    }
}

#[tokio::test]
async fn rows_for_streams_are_counted_and_a_peer_that_fills_the_memory_is_disconnected() {
    soon(async {
        let pair = pair(SMALL_LIMIT).await;
        let mut config = AssociationConfig::default();
        config.sending.outbound_streams = u16::MAX;
        let options = towards(&pair.server, config);
        let other = pair.client.connect(remotes(&pair.server), options).await.unwrap();
        let other_far = pair.listener.accept().await.unwrap();
        let (named, error) = tokio::join!(name_streams(&pair.near), pair.far.closed());
        let () = named;
        let error = error.unwrap_err().error;
        assert_eq!(error, AssociationError::Closed(CloseReason::GaveWay));
        // An association that holds little is not affected.
        other.send(OutgoingMessage::new(0, Ppid(0), "still here")).await.unwrap();
        assert!(other_far.recv().await.unwrap().is_some());
        assert!(pair.server.statistics().memory_used < SMALL_LIMIT / 4);
    })
    .await;
}
