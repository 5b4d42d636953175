use std::future::poll_fn;
use std::io::IoSliceMut;
use std::net::SocketAddr;
use std::sync::Arc;

use anabranch_impair::file::Direction;

use super::*;
use crate::runtime::{
    Batch, Datagrams, NetworkErrorKind, PacketSocket, TokioRuntime, TransmitError,
};

fn runtime(file: &str) -> Arc<ImpairedRuntime> {
    let inner = Arc::new(TokioRuntime::current().unwrap());
    Arc::new(ImpairedRuntime::new(inner, file.parse().unwrap(), 1))
}

fn bind(runtime: &dyn Runtime, last: u8) -> Box<dyn PacketSocket> {
    runtime.bind(&Binding::udp(([127, 0, 0, last], 0).into())).unwrap()
}

async fn send(
    socket: &dyn PacketSocket,
    destination: SocketAddr,
    contents: &[u8],
    segment_size: usize,
) -> Result<usize, TransmitError> {
    let (source, ecn, may_fragment) = (None, None, false);
    poll_fn(|cx| socket.poll_writable(cx)).await.unwrap();
    socket.try_send(&Datagrams { source, destination, ecn, segment_size, may_fragment, contents })
}

/// Receives `count` datagrams.
async fn receive(socket: &dyn PacketSocket, count: usize) -> Vec<Vec<u8>> {
    let mut received = Vec::new();
    while received.len() < count {
        let mut buffers = vec![vec![0; 2000]; 2];
        let mut batches = [Batch::default(); 2];
        let filled = poll_fn(|cx| {
            let mut slices: Vec<_> = buffers.iter_mut().map(|b| IoSliceMut::new(b)).collect();
            socket.poll_receive(cx, &mut slices, &mut batches)
        });
        let limit = std::time::Duration::from_secs(30);
        let filled = tokio::time::timeout(limit, filled).await.expect("hangs").unwrap();
        for (batch, buffer) in batches.iter().zip(&buffers).take(filled) {
            received.extend(buffer[..batch.len].chunks(batch.segment_size).map(<[u8]>::to_vec));
        }
    }
    received
}

#[tokio::test]
async fn what_the_file_says_is_lost_and_the_rest_arrives_in_order() {
    let plain = TokioRuntime::current().unwrap();
    let sender = runtime(
        "[[path]]\nname = \"x\"\nlose_packets = [2, 3]\ndelay_ms = 5\ndirection = \"send\"",
    );
    let (from, to) = (bind(&*sender, 1), bind(&plain, 2));
    let contents: Vec<u8> = (0..10).flat_map(|n| [n; 100]).collect();
    let begun = plain.now();
    assert_eq!(send(&*from, to.local_address(), &contents, 100).await.unwrap(), 1000);
    // No other task drives the links.
    let (arrived, ()) = tokio::join!(receive(&*to, 8), async {
        let mut buffer = [0; 10];
        let mut batches = [Batch::default()];
        let nothing =
            poll_fn(|cx| from.poll_receive(cx, &mut [IoSliceMut::new(&mut buffer)], &mut batches));
        let patience = std::time::Duration::from_secs(2);
        assert!(tokio::time::timeout(patience, nothing).await.is_err());
    });
    assert!(plain.now() >= begun + std::time::Duration::from_millis(5));
    let expected: Vec<_> = [0, 3, 4, 5, 6, 7, 8, 9].iter().map(|n| vec![*n; 100]).collect();
    assert_eq!(arrived, expected);
    let links = sender.links();
    assert_eq!(links.len(), 1);
    assert_eq!((links[0].name.as_deref(), links[0].direction), (Some("x"), Direction::Send));
    let statistics = &links[0].statistics;
    assert_eq!((statistics.offered, statistics.lost_model, statistics.delivered), (10, 2, 8));
    // IP and UDP headers are included.
    assert_eq!(statistics.offered_bytes, 1280);
    drop(from);
    assert_eq!(sender.links(), []);
}

#[tokio::test]
async fn what_is_underway_when_a_socket_is_dropped_arrives() {
    let limit = std::time::Duration::from_secs(30);
    let plain = TokioRuntime::current().unwrap();
    let sender = runtime("[[path]]\ndelay_ms = 50\ndirection = \"send\"");
    let (from, to) = (bind(&*sender, 1), bind(&plain, 2));
    let begun = plain.now();
    assert_eq!(send(&*from, to.local_address(), b"the last", 8).await.unwrap(), 8);
    drop(from);
    sender.drained(limit).await;
    assert!(plain.now() >= begun + std::time::Duration::from_millis(50));
    assert_eq!(sender.links(), []);
    assert_eq!(receive(&*to, 1).await, [b"the last"]);
    // The call waits at most until the limit, and not at all if there are no packets.
    let hours = runtime("[[path]]\ndelay_ms = 3600000\ndirection = \"send\"");
    hours.drained(limit).await;
    let from = bind(&*hours, 1);
    assert_eq!(send(&*from, to.local_address(), b"never", 5).await.unwrap(), 5);
    hours.drained(std::time::Duration::from_millis(20)).await;
    assert_eq!(hours.links()[0].statistics.delivered, 0);
}

#[tokio::test]
async fn what_is_sent_after_the_last_look_leaves_in_time() {
    let plain = TokioRuntime::current().unwrap();
    let sender = runtime("[[path]]\ndelay_ms = 5\ndirection = \"send\"");
    let (from, to) = (bind(&*sender, 1), bind(&plain, 2));
    let destination = to.local_address();
    let mut sent = false;
    // The task behaves as the driver does: it waits for arrivals, and polls again only when it is
    // woken.
    let driver = tokio::spawn(poll_fn(move |cx| {
        let mut buffer = [0; 10];
        let mut slices = [IoSliceMut::new(&mut buffer)];
        let looked = from.poll_receive(cx, &mut slices, &mut [Batch::default()]);
        if !std::mem::replace(&mut sent, true) {
            let (source, ecn, may_fragment) = (None, None, false);
            let contents: &[u8] = b"late";
            let datagrams =
                Datagrams { source, destination, ecn, segment_size: 4, may_fragment, contents };
            assert_eq!(from.try_send(&datagrams).unwrap(), 4);
        }
        looked.map(drop)
    }));
    assert_eq!(receive(&*to, 1).await, [b"late"]);
    driver.abort();
}

#[tokio::test]
async fn received_packets_go_through_their_links_too() {
    let plain = TokioRuntime::current().unwrap();
    let receiver = runtime(
        "[[path]]\nremote = \"127.0.0.1\"\ndirection = \"receive\"\nduplicate_percent = 100",
    );
    let (impaired, other) = (bind(&plain, 1), bind(&plain, 3));
    let to = bind(&*receiver, 2);
    send(&*impaired, to.local_address(), &[1; 200], 100).await.unwrap();
    assert_eq!(receive(&*to, 4).await, vec![vec![1; 100]; 4]);
    send(&*other, to.local_address(), &[2; 200], 100).await.unwrap();
    assert_eq!(receive(&*to, 2).await, vec![vec![2; 100]; 2]);
    // Packets that match no entry are sent unchanged.
    send(&*to, impaired.local_address(), &[3; 50], 50).await.unwrap();
    assert_eq!(receive(&*impaired, 1).await, [[3; 50]]);
    assert_eq!(receiver.links().len(), 1);
}

#[tokio::test]
async fn packets_above_the_mtu_are_refused_with_it() {
    let plain = TokioRuntime::current().unwrap();
    let sender = runtime("[[path]]\nmtu_bytes = 1000");
    let (from, to) = (bind(&*sender, 1), bind(&plain, 2));
    let refused = send(&*from, to.local_address(), &[0; 973], 973).await;
    assert!(matches!(refused, Err(TransmitError::TooBig)));
    let error = from.next_error().unwrap();
    assert_eq!(error.kind, NetworkErrorKind::LocalMtu(1000));
    assert!(from.next_error().is_none());
    assert_eq!(send(&*from, to.local_address(), &[0; 972], 972).await.unwrap(), 972);
    // A datagram that IP may fragment fits any link.
    let (source, ecn, may_fragment) = (None, None, true);
    let (destination, segment_size, contents) = (to.local_address(), 1500, &[7; 1500][..]);
    let large = Datagrams { source, destination, ecn, segment_size, may_fragment, contents };
    assert_eq!(from.try_send(&large).unwrap(), 1500);
    assert_eq!(receive(&*to, 2).await[1].len(), 1500);
}

#[tokio::test]
async fn a_cut_link_carries_nothing() {
    let plain = TokioRuntime::current().unwrap();
    let sender = runtime("[[path]]\nlocal = \"127.0.0.1\"\ncut_at_s = 0");
    let (cut, whole) = (bind(&*sender, 1), bind(&*sender, 3));
    let to = bind(&plain, 2);
    assert_eq!(send(&*cut, to.local_address(), &[1; 10], 10).await.unwrap(), 10);
    assert_eq!(send(&*whole, to.local_address(), &[2; 10], 10).await.unwrap(), 10);
    assert_eq!(receive(&*to, 1).await, [[2; 10]]);
    assert_eq!(sender.links()[0].statistics.lost_down, 1);
}

/// The data in flight needs longer to cross the slow link than a dropped association may lack
/// progress.
#[tokio::test]
async fn links_go_down_and_up_by_name() {
    let plain = TokioRuntime::current().unwrap();
    let sender = runtime(
        "[[path]]\nname = \"x\"\nremote = \"127.0.0.2\"\n[[path]]\nname = \"y\"\ndelay_ms = 0",
    );
    assert!(!sender.set_up("z", false), "no entry has this name");
    let (from, x, y) = (bind(&*sender, 1), bind(&plain, 2), bind(&plain, 3));
    let send_to_both = async |socket: &dyn PacketSocket, number: u8| {
        for to in [&x, &y] {
            assert_eq!(send(socket, to.local_address(), &[number], 1).await.unwrap(), 1);
        }
    };
    send_to_both(&*from, 1).await;
    assert!(sender.set_up("x", false));
    send_to_both(&*from, 2).await;
    // Also for sockets that are bound later.
    let later = bind(&*sender, 1);
    send_to_both(&*later, 3).await;
    assert!(sender.set_up("x", true));
    send_to_both(&*from, 4).await;
    send_to_both(&*later, 5).await;
    assert_eq!(receive(&*x, 3).await, [[1], [4], [5]]);
    assert_eq!(receive(&*y, 5).await, [[1], [2], [3], [4], [5]]);
}

#[tokio::test]
async fn what_a_dropped_association_has_sent_arrives_over_a_slow_link() {
    use crate::{AssociationConfig, ConnectOptions, Endpoint, OutgoingMessage, Ppid};
    use std::time::Duration;
    let local = std::net::IpAddr::from([127, 0, 0, 1]);
    let server = Endpoint::builder().local_addresses([local]).bind().unwrap();
    let listener = server.listen(7, AssociationConfig::default()).unwrap();
    let slow = runtime("[[path]]\nrate_mbit = 2\ndirection = \"send\"");
    let client = Endpoint::builder().runtime(slow).local_addresses([local]).bind().unwrap();
    let mut options = ConnectOptions::from(AssociationConfig::default());
    options.remote_udp_port = server.udp_port();
    options.linger = Duration::from_millis(200);
    let near = client.connect(SocketAddr::new(local, 7), options).await.unwrap();
    let far = listener.accept().await.unwrap();
    // More data than the link carries in a second.
    for _ in 0..30 {
        near.send(OutgoingMessage::new(0, Ppid(0), vec![7; 10_000])).await.unwrap();
    }
    drop(near);
    let mut received = 0;
    while let Some(message) = far.recv().await.unwrap() {
        received += message.payload.len();
    }
    assert_eq!(received, 300_000);
    far.closed().await.unwrap();
}
