//! Messages over real sockets on the loopback interface.

mod common;

use anabranch::{AssociationConfig, OutgoingMessage, Ppid, SendErrorReason};
use common::{Pair, V4, V6, loopback, pattern, soon};
use futures_util::FutureExt;

/// Sends messages of many sizes in both directions at the same time, and checks what arrives.
async fn exchange(pair: &Pair) {
    let sizes = [1, 2, 63, 1000, 1452, 5000, 65_536, 300_000];
    let send = async |association: &anabranch::Association, seed: u64| {
        for (index, size) in sizes.into_iter().enumerate() {
            let stream = u16::try_from(index % 3).unwrap();
            let data = pattern(size, seed + index as u64);
            let message = OutgoingMessage::new(stream, Ppid(size as u32), data);
            association.send(message).await.unwrap();
        }
    };
    let receive = async |association: &anabranch::Association, seed: u64| {
        let mut per_stream: [Vec<usize>; 3] = Default::default();
        for _ in sizes {
            let message = association.recv().await.unwrap().unwrap();
            assert!(message.is_whole());
            let size = message.payload.len();
            let index = sizes.iter().position(|s| *s == size).unwrap();
            assert_eq!(message.ppid, Ppid(size as u32));
            assert!(message.payload == *pattern(size, seed + index as u64));
            per_stream[usize::from(message.stream)].push(index);
        }
        // Order within each stream.
        assert!(per_stream.iter().all(|indices| indices.is_sorted()));
    };
    tokio::join!(
        send(&pair.near, 1),
        send(&pair.far, 100),
        receive(&pair.near, 100),
        receive(&pair.far, 1),
    );
}

#[tokio::test]
async fn over_ipv4() {
    soon(async { exchange(&Pair::new(&[V4]).await).await }).await;
}

#[tokio::test]
async fn over_ipv6() {
    soon(async { exchange(&Pair::new(&[V6]).await).await }).await;
}

#[tokio::test]
async fn over_two_paths() {
    soon(async {
        let pair = Pair::new(&[loopback(1), loopback(2)]).await;
        exchange(&pair).await;
        let statistics = pair.near.statistics();
        let locals: Vec<_> = statistics.paths.iter().map(|path| path.local).collect();
        assert!(locals.contains(&loopback(1)) && locals.contains(&loopback(2)), "{locals:?}");
    })
    .await;
}

#[tokio::test]
async fn without_local_addresses_all_of_the_host_are_used() {
    soon(async {
        let server = common::endpoint(&[]);
        let client = common::endpoint(&[]);
        let listener = server.listen(common::PORT, AssociationConfig::default()).unwrap();
        for remote in [V4, V6] {
            let options = common::towards(&server, AssociationConfig::default());
            let near = client.connect((remote, common::PORT), options).await.unwrap();
            let far = listener.accept().await.unwrap();
            near.send(OutgoingMessage::new(0, Ppid(0), "hello")).await.unwrap();
            assert!(far.recv().await.unwrap().unwrap().payload == b"hello"[..]);
            near.close().await.unwrap();
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_the_multi_thread_runtime() {
    soon(async { exchange(&Pair::new(&[V4]).await).await }).await;
}

#[tokio::test]
async fn messages_come_back_when_they_cannot_be_sent() {
    soon(async {
        let mut config = AssociationConfig::default();
        config.sending.outbound_streams = 4;
        config.sending.max_message_size = 100;
        let pair = Pair::with(&[V4], config, AssociationConfig::default()).await;
        let refused = async |stream, data: &'static [u8]| {
            let error = pair.near.send(OutgoingMessage::new(stream, Ppid(7), data)).await;
            let error = error.unwrap_err();
            assert_eq!((&error.message.data[..], error.message.ppid), (data, Ppid(7)));
            error.reason
        };
        assert_eq!(refused(0, b"").await, SendErrorReason::Empty);
        assert_eq!(refused(4, b"x").await, SendErrorReason::NoSuchStream(4));
        assert_eq!(refused(0, &[0; 101]).await, SendErrorReason::TooLong);
    })
    .await;
}

#[tokio::test]
async fn a_message_larger_than_the_window_comes_in_parts() {
    soon(async {
        let mut small = AssociationConfig::default();
        small.receiving.receive_buffer = 64 * 1024;
        let pair = Pair::with(&[V4], AssociationConfig::default(), small).await;
        let data = pattern(512 * 1024, 5);
        let (sent, received) =
            tokio::join!(pair.near.send(OutgoingMessage::new(3, Ppid(1), data.clone())), async {
                let (mut received, mut parts) = (Vec::new(), 0);
                loop {
                    let part = pair.far.recv().await.unwrap().unwrap();
                    assert_eq!((part.stream, part.begin), (3, parts == 0));
                    part.payload.pieces().for_each(|piece| received.extend_from_slice(piece));
                    parts += 1;
                    if part.end {
                        break (received, parts);
                    }
                }
            });
        sent.unwrap();
        assert!(received.0 == data && received.1 > 1, "{} parts", received.1);
    })
    .await;
}

#[tokio::test]
async fn a_stalled_reader_holds_up_its_own_association_only() {
    soon(async {
        let pair = Pair::new(&[V4]).await;
        let (other_near, other_far) = pair.another().await;
        // The far end does not read: the sender fills all buffers and stops.
        let mut sent = 0;
        let refused = loop {
            let message = OutgoingMessage::new(0, Ppid(0), vec![0; 16 * 1024]);
            match pair.near.try_send(message) {
                Ok(()) => sent += 1,
                Err(error) => {
                    // Data in flight may still make room once.
                    let statistics = pair.near.statistics();
                    if statistics.peer_rwnd < 16 * 1024 {
                        break error;
                    }
                    tokio::task::yield_now().await;
                }
            }
        };
        assert_eq!(refused.reason, SendErrorReason::Blocked);
        assert_eq!(refused.message.data.len(), 16 * 1024);
        for round in 0..100 {
            other_near.send(OutgoingMessage::new(0, Ppid(round), "ping")).await.unwrap();
            assert_eq!(other_far.recv().await.unwrap().unwrap().ppid, Ppid(round));
        }
        // Once it reads, everything arrives, in parts where the window was smaller.
        let mut received = 0;
        while received < sent * 16 * 1024 {
            received += pair.far.recv().await.unwrap().unwrap().payload.len();
        }
        assert_eq!(received, sent * 16 * 1024);
        pair.near.send(refused.message).await.unwrap();
        assert!(pair.far.recv().await.unwrap().is_some());
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn sixty_four_tasks_hammer_one_endpoint() {
    soon(async {
        let mut small = AssociationConfig::default();
        small.sending.send_buffer = 32 * 1024;
        let pair = Pair::with(&[V4], small.clone(), small).await;
        let mut tasks = tokio::task::JoinSet::new();
        for stream in 0..64_u16 {
            let near = pair.near.clone();
            tasks.spawn(async move {
                for count in 0..200_u32 {
                    let data = pattern(1 + (count as usize * 37) % 3000, u64::from(count));
                    near.send(OutgoingMessage::new(stream, Ppid(count), data)).await.unwrap();
                }
            });
        }
        let far = pair.far.clone();
        let reader = tokio::spawn(async move {
            let mut next = [0_u32; 64];
            for _ in 0..64 * 200 {
                let message = far.recv().await.unwrap().unwrap();
                let next = &mut next[usize::from(message.stream)];
                assert_eq!(message.ppid, Ppid(*next));
                let expected = pattern(1 + (*next as usize * 37) % 3000, u64::from(*next));
                assert!(message.payload == *expected);
                *next += 1;
            }
        });
        while let Some(result) = tasks.join_next().await {
            result.unwrap();
        }
        reader.await.unwrap();
        pair.near.close().await.unwrap();
    })
    .await;
}

/// The memory of small messages is returned in steps while the reader reads on, and all of it when it waits.
#[tokio::test]
async fn memory_of_small_messages_is_returned_together() {
    const COUNT: usize = 100;
    soon(async {
        let pair = Pair::new(&[V4]).await;
        for by_stream in [false, true] {
            for _ in 0..COUNT {
                pair.near.send(OutgoingMessage::new(0, Ppid(7), pattern(500, 1))).await.unwrap();
            }
            let in_transit = || {
                let statistics = pair.near.statistics();
                statistics.send_queue_bytes + statistics.outstanding_bytes
            };
            while in_transit() > 0 {
                tokio::task::yield_now().await;
            }
            let used = || pair.far.statistics().receive_buffer_used;
            let full = used();
            let mut stream = by_stream.then(|| pair.far.stream(0).unwrap().1);
            let mut read = async || match &mut stream {
                Some(stream) => stream.recv().await.unwrap().unwrap(),
                None => pair.far.recv().await.unwrap().unwrap(),
            };
            let mut unread = full;
            for count in 1..=COUNT {
                let message = read().await;
                assert_eq!(message.payload.len(), 500);
                unread -= message.charge() as usize;
                let late = used() - unread;
                assert!(late < 32 << 10, "{late} bytes after {count} messages");
                assert!(count != 10 || used() == full, "each message returns its memory");
            }
            assert!(read().now_or_never().is_none());
            assert_eq!(used(), 0);
        }
    })
    .await;
}
