//! Tests which queue the kernel puts each packet into.

use std::io::IoSliceMut;
use std::net::{SocketAddr, UdpSocket};
use std::task::Poll;

use anabranch_proto::TagMark;

use crate::runtime::{Apart, Batch, Binding, Division, PacketSocket, Runtime, Shard, TokioRuntime};
use crate::shards::shard_of;

const INIT: u8 = 1;
const COOKIE_ECHO: u8 = 10;
const ADDRESSES: [&str; 2] = ["127.0.0.1", "::1"];

/// Queues of a socket: for associations, and for packets without an association.
const QUEUES: [Option<Apart>; 3] = [None, Some(Apart::Inits), Some(Apart::Rest)];

/// An SCTP packet with these ports and this tag, whose first chunk has this type.
fn packet(ports: (u16, u16), tag: u32, kind: u8) -> Vec<u8> {
    let (from, to) = (ports.0.to_be_bytes(), ports.1.to_be_bytes());
    [&from[..], &to, &tag.to_be_bytes(), &[0; 4], &[kind, 0, 0, 4]].concat()
}

/// The packets in a queue.
async fn take(socket: &dyn PacketSocket, queue: Option<Apart>) -> Vec<Vec<u8>> {
    let mut packets = Vec::new();
    let mut buffer = vec![0; 65_535];
    let mut batches = [Batch::default()];
    let mut look = |cx: &mut std::task::Context<'_>| {
        let mut buffers = [IoSliceMut::new(&mut buffer)];
        let taken = match queue {
            None => socket.poll_receive(cx, &mut buffers, &mut batches),
            Some(apart) => socket.poll_receive_apart(apart, cx, &mut buffers, &mut batches),
        };
        taken.map(|count| {
            assert_eq!(count.unwrap(), 1);
            let Batch { segment_size, len, .. } = batches[0];
            buffer[..len].chunks(segment_size).map(<[u8]>::to_vec).collect::<Vec<_>>()
        })
    };
    // The packet has been delivered; the reactor notices it when it runs.
    let mut turns = 0;
    while turns < 3 {
        match std::future::poll_fn(|cx| Poll::Ready(look(cx))).await {
            Poll::Ready(more) => packets.extend(more),
            Poll::Pending => {
                turns += 1;
                tokio::task::yield_now().await;
            }
        }
    }
    packets
}

/// Packets of all kinds, and the queue of each.
fn samples(mark: &TagMark) -> Vec<(Vec<u8>, Option<Apart>)> {
    let mut samples = Vec::new();
    for number in 0..100_u32 {
        let ports = (1000 + number as u16, 5000);
        let tag = mark.mark(number.wrapping_mul(0x9e37_79b9), ports.0, ports.1);
        for kind in [0, 3, 6, COOKIE_ECHO, 14] {
            samples.push((packet(ports, tag, kind), None));
            samples.push((packet(ports, tag ^ 1, kind), Some(Apart::Rest)));
        }
        // A tag that belongs to other ports.
        let other = (ports.0, 5001);
        let queue = (!mark.recognises(tag, other.0, other.1)).then_some(Apart::Rest);
        samples.push((packet(other, tag, 0), queue));
        samples.push((packet(ports, 0, INIT), Some(Apart::Inits)));
        samples.push((packet(ports, tag, INIT), Some(Apart::Inits)));
    }
    for length in 1..16 {
        samples.push((packet((1, 2), mark.mark(7, 1, 2), 0)[..length].to_vec(), Some(Apart::Rest)));
    }
    samples
}

#[tokio::test]
async fn each_packet_is_in_its_queue() {
    let runtime = TokioRuntime::current().unwrap();
    let mark = TagMark::from_seed(&[3; 32]);
    for ip in ADDRESSES {
        let address = SocketAddr::new(ip.parse().unwrap(), 0);
        let to = runtime.bind(&Binding::udp(address)).unwrap();
        let from = UdpSocket::bind(address).unwrap();
        assert!(to.keep_apart(&mark));
        for samples in samples(&mark).chunks(100) {
            for (sample, _) in samples {
                from.send_to(sample, to.local_address()).unwrap();
            }
            for queue in QUEUES {
                let expected = samples.iter().filter(|(_, own)| *own == queue);
                let expected: Vec<Vec<u8>> = expected.map(|(sample, _)| sample.clone()).collect();
                assert_eq!(take(&*to, queue).await, expected, "{queue:?}");
            }
        }
        // Another process still cannot bind the address.
        let second = runtime.bind(&Binding::udp(to.local_address())).unwrap_err();
        assert_eq!(second.kind(), std::io::ErrorKind::AddrInUse);
    }
}

/// Sockets on one address, and the address.
fn bind_shards(
    runtime: &TokioRuntime,
    ip: &str,
    division: Division,
    count: usize,
) -> (SocketAddr, Vec<Box<dyn PacketSocket>>) {
    let mut address = SocketAddr::new(ip.parse().unwrap(), 0);
    let mut shards = Vec::new();
    for index in 0..count {
        let shard = Some(Shard { division, index, count, joins: index > 0 });
        let binding = Binding { shard, ..Binding::udp(address) };
        let socket = runtime.bind(&binding).unwrap();
        address = socket.local_address();
        shards.push(socket);
    }
    (address, shards)
}

#[tokio::test]
async fn each_packet_is_in_its_queue_of_its_shard() {
    let runtime = TokioRuntime::current().unwrap();
    let mark = TagMark::from_seed(&[4; 32]);
    let count = 3;
    for ip in ADDRESSES {
        let (address, shards) = bind_shards(&runtime, ip, Division::Ports, count);
        assert!(shards.iter().all(|shard| shard.keep_apart(&mark)));
        let from = UdpSocket::bind(SocketAddr::new(ip.parse().unwrap(), 0)).unwrap();
        let samples = samples(&mark);
        for (sample, _) in &samples {
            from.send_to(sample, address).unwrap();
        }
        for (index, shard) in shards.iter().enumerate() {
            for queue in QUEUES {
                let own = |sample: &[u8]| {
                    let port = |at: usize| u16::from_be_bytes([sample[at], sample[at + 1]]);
                    // Packets that are too short may go to any shard.
                    let own = sample.len() >= 16;
                    index == if own { shard_of(port(0), port(2), count) } else { 0 }
                };
                let expected = samples.iter().filter(|(s, q)| *q == queue && own(s));
                let expected: Vec<Vec<u8>> = expected.map(|(sample, _)| sample.clone()).collect();
                assert_eq!(take(&**shard, queue).await, expected, "{index} {queue:?}");
            }
        }
    }
}

#[cfg(feature = "seal")]
#[tokio::test]
async fn each_sealed_datagram_is_in_the_queue_of_its_shard() {
    let runtime = TokioRuntime::current().unwrap();
    for ip in ADDRESSES {
        for count in [2, 3, 64] {
            let (address, shards) = bind_shards(&runtime, ip, Division::Lanes, count);
            let from = UdpSocket::bind(SocketAddr::new(ip.parse().unwrap(), 0)).unwrap();
            let mut samples = Vec::new();
            for lane in 0..=255 {
                // A record and a hello, and parts of them.
                let record = [lane, 1, 2, 3, 0, 0, 0, 0, 77, 1, 2, 3, 4];
                let hello = [0, 0, 0, 0, 0x81, 1, 0, 0, lane, 1, 2, 3, 4];
                samples.extend([record.to_vec(), hello.to_vec()]);
                samples.extend((1..13).step_by(3).map(|length| record[..length].to_vec()));
                samples.extend((1..13).step_by(3).map(|length| hello[..length].to_vec()));
            }
            for part in samples.chunks(100) {
                part.iter().for_each(|sample| _ = from.send_to(sample, address).unwrap());
                for (index, shard) in shards.iter().enumerate() {
                    let own = |sample: &&Vec<u8>| anabranch_seal::shard_of(sample, count) == index;
                    let expected: Vec<_> = part.iter().filter(own).cloned().collect();
                    assert_eq!(take(&**shard, None).await, expected, "{index} of {count}");
                }
            }
        }
    }
}

#[tokio::test]
async fn a_flood_fills_its_own_queue_only() {
    let runtime = TokioRuntime::current().unwrap();
    let mark = TagMark::from_seed(&[3; 32]);
    for ip in ADDRESSES {
        let address = SocketAddr::new(ip.parse().unwrap(), 0);
        let to = runtime.bind(&Binding::udp(address)).unwrap();
        let from = UdpSocket::bind(address).unwrap();
        assert!(to.keep_apart(&mark));
        let tag = mark.mark(99, 1, 2);
        let (own, init) = (packet((1, 2), tag, 0), packet((1, 2), 0, INIT));
        for number in 0..20_000_u32 {
            from.send_to(&packet((1, 2), tag ^ 1 ^ number << 8, 0), to.local_address()).unwrap();
            if number % 1000 == 0 {
                from.send_to(&own, to.local_address()).unwrap();
                from.send_to(&init, to.local_address()).unwrap();
            }
        }
        assert_eq!(take(&*to, Some(Apart::Inits)).await, vec![init; 20]);
        let taken = take(&*to, None).await;
        assert_eq!(taken.iter().filter(|packet| **packet == own).count(), 20);
        // One in 256 packets has the mark by chance, which is 78 here; five standard deviations are
        // 44.
        assert!(taken.len() < 20 + 122, "{}", taken.len());
        // There is room for one or two thousand, whatever the system's limits are.
        assert!(take(&*to, Some(Apart::Rest)).await.len() < 5000);
    }
}
