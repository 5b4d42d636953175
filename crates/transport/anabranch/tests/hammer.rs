//! Many tasks that use one endpoint concurrently, on a runtime with several threads.

mod common;

use anabranch::{Association, AssociationConfig, OutgoingMessage, Ppid};
use common::{PORT, V4, endpoint, pattern, remotes, soon, towards};

/// Tasks that connect, send, receive and end.
const TASKS: u16 = 64;

/// Associations of each of them, one after another.
const ROUNDS: u16 = 4;

/// Messages of each association in either direction.
const MESSAGES: u16 = 20;

/// Returns every message; it ignores an abort by the peer.
async fn echo(association: Association) {
    while let Ok(Some(message)) = association.recv().await {
        let (stream, ppid) = (message.stream, message.ppid);
        let back = OutgoingMessage::new(stream, ppid, message.payload.into_bytes());
        if association.send(back).await.is_err() {
            break;
        }
    }
}

/// Sends from one clone of the handle while another one receives, and compares what comes back.
async fn exchange(association: &Association, seed: u64) {
    let size = |index: u16| 1 + usize::from(index) * 700;
    let sender = association.clone();
    let send = async move {
        for index in 0..MESSAGES {
            let data = pattern(size(index), seed + u64::from(index));
            let message = OutgoingMessage::new(index % 7, Ppid(u32::from(index)), data);
            sender.send(message).await.unwrap();
        }
    };
    let receive = async {
        let mut next = [0; 7];
        for _ in 0..MESSAGES {
            let message = association.recv().await.unwrap().unwrap();
            let index = u16::try_from(message.ppid.0).unwrap();
            assert!(message.payload == *pattern(size(index), seed + u64::from(index)));
            // In their order on each stream.
            let turn = &mut next[usize::from(message.stream)];
            assert_eq!(index, message.stream + 7 * *turn);
            *turn += 1;
        }
    };
    tokio::join!(send, receive);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn sixty_four_tasks_share_one_endpoint() {
    soon(async {
        let (server, client) = (endpoint(&[V4]), endpoint(&[V4]));
        let listener = server.listen(PORT, AssociationConfig::default()).unwrap();
        let accepting = tokio::spawn(async move {
            let mut all = tokio::task::JoinSet::new();
            for _ in 0..TASKS * ROUNDS {
                all.spawn(echo(listener.accept().await.unwrap()));
            }
            all.join_all().await;
        });
        let mut tasks = tokio::task::JoinSet::new();
        for task in 0..TASKS {
            let (client, remotes) = (client.clone(), remotes(&server));
            let options = towards(&server, AssociationConfig::default());
            tasks.spawn(async move {
                for round in 0..ROUNDS {
                    let near = client.connect(remotes.clone(), options.clone()).await.unwrap();
                    exchange(&near, u64::from(task * ROUNDS + round) << 16).await;
                    // Every way to end an association.
                    match (task + round) % 3 {
                        0 => near.close().await.unwrap(),
                        1 => near.abort(b"enough"),
                        _ => drop(near),
                    }
                    assert!(client.statistics().datagrams_sent > 0);
                }
            });
        }
        tasks.join_all().await;
        accepting.await.unwrap();
        client.close().await;
        server.close().await;
        assert_eq!((client.statistics().associations, server.statistics().associations), (0, 0));
    })
    .await;
}
