//! One endpoint divided into several tasks.
#![cfg(target_os = "linux")]

mod common;

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::pin::Pin;
use std::sync::Arc;
use std::time::SystemTime;

use anabranch::runtime::{
    AddressWatch, Binding, Instant, LocalAddress, PacketSocket, Runtime, Timer, TokioRuntime,
};
use anabranch::{
    Association, AssociationConfig, BindError, Encapsulation, Endpoint, Events, Listener,
    Notification, OutgoingMessage, Ppid,
};
use common::{PORT, V4, V6, endpoint, loopback, pattern, remotes, soon, towards};

/// A server with `shards` shards.
fn sharded(addresses: &[IpAddr], shards: usize) -> Endpoint {
    let builder = Endpoint::builder().local_addresses(addresses.iter().copied());
    builder.shards(shards).bind().unwrap()
}

/// Returns every message of every association.
fn echo_all(listener: Listener) -> tokio::task::JoinHandle<()> {
    tokio::spawn(async move {
        while let Some(association) = listener.accept().await {
            tokio::spawn(async move {
                while let Ok(Some(message)) = association.recv().await {
                    let (stream, ppid) = (message.stream, message.ppid);
                    let back = OutgoingMessage::new(stream, ppid, message.payload.into_bytes());
                    if association.send(back).await.is_err() {
                        return;
                    }
                }
            });
        }
    })
}

async fn exchange(association: &Association, seed: u64) {
    let data = pattern(10_000, seed);
    association.send(OutgoingMessage::new(0, Ppid(9), data.clone())).await.unwrap();
    let message = association.recv().await.unwrap().unwrap();
    assert!(message.ppid == Ppid(9) && message.payload == *data);
}

/// How many associations of an endpoint each shard has.
fn by_shard(endpoint: &Endpoint) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for association in endpoint.snapshot().associations {
        let shard = association.id.split_once('/').unwrap().0.to_owned();
        *counts.entry(shard).or_default() += 1;
    }
    counts
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn hundreds_of_associations_over_all_shards() {
    const CLIENTS: usize = 4;
    const EACH: usize = 75;
    soon(async {
        for (shards, address) in [(2, V4), (4, V6)] {
            let server = sharded(&[address], shards);
            let echoing = echo_all(server.listen(PORT, AssociationConfig::default()).unwrap());
            // Some clients are divided as well.
            let clients: Vec<_> = (0..CLIENTS).map(|n| sharded(&[address], 1 + n % 3)).collect();
            let mut tasks = tokio::task::JoinSet::new();
            for number in 0..CLIENTS * EACH {
                let client = clients[number % CLIENTS].clone();
                // Endpoints that share one address must not take the same port: to the server they
                // are one peer, and the later association is a restart of the earlier one.
                let mut options = towards(&server, AssociationConfig::default());
                options.local_port = Some(20_000 + number as u16);
                let remotes = remotes(&server);
                tasks.spawn(async move {
                    let association = client.connect(remotes, options).await.unwrap();
                    exchange(&association, number as u64).await;
                    association
                });
            }
            let associations = tasks.join_all().await;
            assert_eq!(server.statistics().associations, CLIENTS * EACH);
            let counts = by_shard(&server);
            assert!(counts.len() == shards && counts.values().all(|&count| count > 15));
            for (number, association) in associations.iter().enumerate() {
                exchange(association, number as u64).await;
            }
            for association in &associations[..20] {
                association.close().await.unwrap();
            }
            server.close().await;
            echoing.await.unwrap();
            for association in &associations[20..] {
                assert!(association.recv().await.unwrap().is_none(), "shut down gracefully");
            }
            assert_eq!(server.statistics().associations, 0);
            // The port is free again, for an endpoint of another kind.
            let port = server.udp_port();
            Endpoint::builder().local_addresses([address]).udp_port(port).bind().unwrap();
        }
    })
    .await;
}

#[tokio::test]
async fn a_port_belongs_to_one_listener_and_an_address_to_one_endpoint() {
    soon(async {
        let server = sharded(&[V4], 3);
        let listener = server.listen(PORT, AssociationConfig::default()).unwrap();
        assert!(server.listen(PORT, AssociationConfig::default()).is_err());
        drop(listener);
        let listener = server.listen(PORT, AssociationConfig::default()).unwrap();
        let again = || {
            let builder = Endpoint::builder().local_addresses([V4]).udp_port(server.udp_port());
            [builder.clone().bind(), builder.shards(3).bind()]
        };
        for second in again() {
            assert!(matches!(second.unwrap_err(), BindError::Socket { .. }));
        }
        let (closed, accepted) = tokio::join!(server.close(), listener.accept());
        let ((), None) = (closed, accepted) else { panic!("nobody connected") };
        assert!(server.listen(PORT + 1, AssociationConfig::default()).is_err());
    })
    .await;
}

#[tokio::test]
async fn what_cannot_be_divided_says_so() {
    let refused = [
        Endpoint::builder().shards(0),
        Endpoint::builder().shards(65),
        Endpoint::builder().shards(2).encapsulation(Encapsulation::Ip),
        Endpoint::builder().shards(2).socket(UdpSocket::bind("127.0.0.1:0").unwrap()),
    ];
    for builder in refused {
        let error = builder.bind().unwrap_err();
        assert!(error.to_string().starts_with("an endpoint cannot have "), "{error}");
    }
}

/// The kernel distributes packets over the sockets without checking their ports.
#[derive(Debug)]
struct Blind(Arc<TokioRuntime>);

impl Runtime for Blind {
    fn now(&self) -> Instant {
        self.0.now()
    }

    fn wall_clock(&self) -> SystemTime {
        self.0.wall_clock()
    }

    fn timer(self: Arc<Self>) -> Box<dyn Timer> {
        self.0.clone().timer()
    }

    fn spawn(&self, task: Pin<Box<dyn Future<Output = ()> + Send>>) {
        self.0.spawn(task);
    }

    fn bind(&self, binding: &Binding) -> io::Result<Box<dyn PacketSocket>> {
        use nix::sys::socket::{
            AddressFamily, SockFlag, SockType, SockaddrStorage, bind, setsockopt, socket, sockopt,
        };
        use std::os::fd::AsRawFd;
        let flags = SockFlag::SOCK_CLOEXEC;
        let socket = socket(AddressFamily::Inet, SockType::Datagram, flags, None)?;
        setsockopt(&socket, sockopt::ReusePort, &true)?;
        bind(socket.as_raw_fd(), &SockaddrStorage::from(binding.address))?;
        self.0.adopt(binding.encapsulation, UdpSocket::from(socket))
    }

    fn local_addresses(&self) -> io::Result<Vec<LocalAddress>> {
        self.0.local_addresses()
    }

    fn watch_addresses(&self) -> Option<Box<dyn AddressWatch>> {
        self.0.watch_addresses()
    }
}

fn blind(addresses: &[IpAddr], shards: usize, port: u16) -> Endpoint {
    let runtime = Arc::new(Blind(Arc::new(TokioRuntime::current().unwrap())));
    let builder = Endpoint::builder().local_addresses(addresses.iter().copied()).udp_port(port);
    builder.shards(shards).runtime(runtime).bind().unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn packets_that_reach_another_shard_are_handed_over() {
    soon(async {
        let addresses = [loopback(1), loopback(2)];
        let server = blind(&addresses, 4, 0);
        let echoing = echo_all(server.listen(PORT, AssociationConfig::default()).unwrap());
        // To the kernel each client is another flow, with associations of all shards.
        let mut associations = Vec::new();
        for client in 0..4 {
            let client =
                if client % 2 == 0 { endpoint(&addresses) } else { blind(&addresses, 2, 0) };
            for _ in 0..10 {
                let options = towards(&server, AssociationConfig::default());
                associations.push(client.connect(remotes(&server), options).await.unwrap());
            }
        }
        for association in &associations {
            exchange(association, 1).await;
        }
        assert_eq!(by_shard(&server).values().sum::<usize>(), 40);
        // The peer continues between other addresses: other flows, the same association.
        for association in &associations {
            let other = async {
                while association.set_primary(loopback(2)).is_err() {
                    tokio::time::sleep(std::time::Duration::from_millis(10)).await;
                }
            };
            other.await;
            exchange(association, 2).await;
        }
        assert_eq!(server.statistics().associations, 40);
        server.close().await;
        echoing.await.unwrap();
    })
    .await;
}

#[test]
fn a_peer_that_restarts_is_found_in_its_shard() {
    let runtime = || tokio::runtime::Runtime::new().unwrap();
    let server_runtime = runtime();
    server_runtime.block_on(soon(async {
        let server = sharded(&[V4], 4);
        let listener = server.listen(PORT, AssociationConfig::default()).unwrap();
        let to: Vec<SocketAddr> = remotes(&server);
        let mut udp_port = 0;
        let mut accepted: Option<(Association, Events)> = None;
        for life in 0..3 {
            // A process that ends silently.
            let client_runtime = runtime();
            let mut options = towards(&server, AssociationConfig::default());
            options.local_port = Some(7000);
            let to = to.clone();
            let client = client_runtime.spawn(async move {
                let builder = Endpoint::builder().local_addresses([V4]).udp_port(udp_port);
                let client = builder.bind().unwrap();
                let association = client.connect(to, options).await.unwrap();
                let message = OutgoingMessage::new(0, Ppid(life), vec![7; 1000]);
                association.send(message).await.unwrap();
                let udp_port = client.udp_port();
                (client, association, udp_port)
            });
            let (client, association, port) = client.await.unwrap();
            udp_port = port;
            let (far, events) = match accepted.take() {
                None => {
                    let far = listener.accept().await.unwrap();
                    let events = far.events();
                    (far, events)
                }
                Some(known) => known,
            };
            let message = far.recv().await.unwrap().unwrap();
            assert_eq!(message.ppid, Ppid(life));
            assert_eq!(server.statistics().associations, 1);
            accepted = Some((far, events));
            tokio::task::spawn_blocking(move || {
                // Sockets close first, so nothing more is sent.
                drop(client_runtime);
                drop((client, association));
            })
            .await
            .unwrap();
        }
        let (_far, mut events) = accepted.unwrap();
        let mut restarts = 0;
        while restarts < 2 {
            let event = events.next().await.unwrap();
            restarts += usize::from(matches!(event, Notification::Restarted { .. }));
        }
    }));
}
