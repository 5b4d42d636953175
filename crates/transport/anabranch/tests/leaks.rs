//! Closed endpoints leak nothing. The test is alone in its process and counts descriptors and memory.

mod common;

use anabranch::{AssociationConfig, OutgoingMessage, Ppid};
use common::{PORT, V4, endpoint, remotes, soon, towards};

/// After this many pairs of endpoints, the process has allocated all the memory that it reuses.
const WARM_UP: usize = 50;

/// Pairs of endpoints: a thousand endpoints in all.
const PAIRS: usize = 500;

/// Memory by which the process may grow, in bytes: a hundredth of the buffers of this many
/// endpoints.
const GROWTH: usize = 8 << 20;

/// Two endpoints, an association and a message; everything is dropped in one way or another.
async fn come_and_go(number: usize) {
    let (server, client) = (endpoint(&[V4]), endpoint(&[V4]));
    let listener = server.listen(PORT, AssociationConfig::default()).unwrap();
    let options = towards(&server, AssociationConfig::default());
    let near = client.connect(remotes(&server), options).await.unwrap();
    let far = listener.accept().await.unwrap();
    let mut events = near.events();
    near.send(OutgoingMessage::new(0, Ppid(0), vec![0; 5000])).await.unwrap();
    far.recv().await.unwrap().unwrap();
    match number % 4 {
        0 => {
            near.close().await.unwrap();
            client.close().await;
            server.close().await;
        }
        1 => drop(near),
        2 => near.abort(b"enough"),
        // Unread data, a stream, a waiting task and an association that was not accepted.
        _ => {
            let (mut stream, _) = near.open_stream().await.unwrap();
            far.send(OutgoingMessage::new(0, Ppid(0), "unread")).await.unwrap();
            tokio::io::AsyncWriteExt::write_all(&mut stream, b"unread").await.unwrap();
            let waiting = tokio::spawn(async move { while events.next().await.is_some() {} });
            let options = towards(&server, AssociationConfig::default());
            drop(client.connect(remotes(&server), options).await.unwrap());
            drop((near, far, stream));
            waiting.await.unwrap();
        }
    }
}

async fn until_no_task_is_left() {
    // Their tasks see that they are not needed.
    while tokio::runtime::Handle::current().metrics().num_alive_tasks() > 0 {
        tokio::task::yield_now().await;
    }
}

#[cfg(target_os = "linux")]
fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

/// Bytes of memory in use.
#[cfg(target_os = "linux")]
fn memory() -> usize {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap();
    let pages: usize = text.split_whitespace().nth(1).unwrap().parse().unwrap();
    pages * 4096
}

#[cfg(not(target_os = "linux"))]
fn descriptors() -> usize {
    0
}

#[cfg(not(target_os = "linux"))]
fn memory() -> usize {
    0
}

#[tokio::test]
async fn a_thousand_endpoints_come_and_go() {
    soon(async {
        for number in 0..WARM_UP {
            come_and_go(number).await;
        }
        until_no_task_is_left().await;
        let before = (descriptors(), memory());
        for number in 0..PAIRS {
            come_and_go(number).await;
        }
        until_no_task_is_left().await;
        assert_eq!(descriptors(), before.0);
        let grown = memory().saturating_sub(before.1);
        assert!(grown < GROWTH, "{grown} bytes are not given back");
    })
    .await;
}
