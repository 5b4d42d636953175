//! How often an endpoint's task runs because the application reads, and for what it waits.

mod common;

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::{Duration, SystemTime};

use anabranch::runtime::{
    AddressWatch, Binding, Instant, LocalAddress, PacketSocket, Runtime, Timer, TokioRuntime,
};
use anabranch::{Association, AssociationConfig, Endpoint, OutgoingMessage, Ppid};
use anabranch_wire::{Header, PacketWriter, kind};
use common::{PORT, V4, remotes, soon, towards};

/// Counts the polls of all tasks, and the timers that are set to a time that has passed.
#[derive(Debug)]
struct Counting {
    inner: Arc<TokioRuntime>,
    polls: Arc<AtomicUsize>,
    timers: Arc<Timers>,
}

/// How often a timer was set, and how often to a time that had passed.
#[derive(Debug, Default)]
struct Timers {
    set: AtomicUsize,
    late: AtomicUsize,
}

#[derive(Debug)]
struct Watched {
    timer: Box<dyn Timer>,
    clock: Arc<TokioRuntime>,
    timers: Arc<Timers>,
}

impl Timer for Watched {
    fn reset(&mut self, deadline: Instant) {
        self.timers.set.fetch_add(1, Ordering::Relaxed);
        if deadline <= self.clock.now() {
            self.timers.late.fetch_add(1, Ordering::Relaxed);
        }
        self.timer.reset(deadline);
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.timer.poll(cx)
    }
}

struct Counted {
    task: Pin<Box<dyn Future<Output = ()> + Send>>,
    polls: Arc<AtomicUsize>,
}

impl Future for Counted {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        self.polls.fetch_add(1, Ordering::Relaxed);
        self.task.as_mut().poll(cx)
    }
}

impl Runtime for Counting {
    fn now(&self) -> Instant {
        self.inner.now()
    }

    fn wall_clock(&self) -> SystemTime {
        self.inner.wall_clock()
    }

    fn timer(self: Arc<Self>) -> Box<dyn Timer> {
        let (clock, timers) = (self.inner.clone(), self.timers.clone());
        Box::new(Watched { timer: self.inner.clone().timer(), clock, timers })
    }

    fn spawn(&self, task: Pin<Box<dyn Future<Output = ()> + Send>>) {
        self.inner.spawn(Box::pin(Counted { task, polls: self.polls.clone() }));
    }

    fn bind(&self, binding: &Binding) -> io::Result<Box<dyn PacketSocket>> {
        self.inner.bind(binding)
    }

    fn local_addresses(&self) -> io::Result<Vec<LocalAddress>> {
        self.inner.local_addresses()
    }

    fn watch_addresses(&self) -> Option<Box<dyn AddressWatch>> {
        None
    }
}

/// A server whose polls are counted, and both ends of an association with it. `buffer` is the receive buffer of the
/// server.
struct Counts {
    server: Endpoint,
    _client: Endpoint,
    near: Association,
    far: Association,
    polls: Arc<AtomicUsize>,
    timers: Arc<Timers>,
}

async fn counts(buffer: usize) -> Counts {
    busy_counts(buffer, Duration::ZERO).await
}

/// The same with a server that polls busily.
async fn busy_counts(buffer: usize, busy_poll: Duration) -> Counts {
    let (polls, timers) = (Arc::default(), Arc::default());
    let inner = Arc::new(TokioRuntime::current().unwrap());
    let runtime =
        Arc::new(Counting { inner, polls: Arc::clone(&polls), timers: Arc::clone(&timers) });
    let builder = Endpoint::builder().local_addresses([V4]).runtime(runtime);
    let server = builder.busy_poll(busy_poll).bind().unwrap();
    let client = common::endpoint(&[V4]);
    let mut config = AssociationConfig::default();
    config.receiving.receive_buffer = buffer;
    let listener = server.listen(PORT, config).unwrap();
    let options = towards(&server, AssociationConfig::default());
    let near = client.connect(remotes(&server), options).await.unwrap();
    let far = listener.accept().await.unwrap();
    Counts { server, _client: client, near, far, polls, timers }
}

/// Reading frees some of the receive buffer each time, which nobody needs to know while most of it is free.
#[tokio::test]
async fn reading_small_messages_does_not_wake_the_endpoint() {
    soon(async {
        let pair = counts(1 << 20).await;
        const COUNT: usize = 200;
        for _ in 0..COUNT {
            pair.near.send(OutgoingMessage::new(0, Ppid(0), vec![7; 64])).await.unwrap();
        }
        // All have arrived when all are acknowledged.
        while pair.near.statistics().outstanding_chunks > 0 {
            tokio::task::yield_now().await;
        }
        let before = pair.polls.load(Ordering::Relaxed);
        for _ in 0..COUNT {
            assert_eq!(pair.far.recv().await.unwrap().unwrap().payload.len(), 64);
            // The endpoint's task would run now.
            tokio::task::yield_now().await;
        }
        let polls = pair.polls.load(Ordering::Relaxed) - before;
        // Timers and the peer may wake it, too.
        assert!(polls < COUNT / 10, "{polls} polls");
    })
    .await;
}

fn is_blocked(sender: &Association) -> bool {
    let statistics = sender.statistics();
    statistics.outstanding_chunks == 0 && statistics.peer_rwnd < 1000
}

/// An INIT, and DATA that belongs to no association.
fn strangers() -> [Vec<u8>; 2] {
    let init = [0, 0, 0, 7, 0, 1, 0, 0, 0, 10, 0, 10, 0, 0, 0, 9];
    [(kind::INIT, 0, 0, &init[..]), (kind::DATA, 5, 3, &[1; 20])].map(
        |(kind, tag, flags, value)| {
            let header = Header { source_port: 9, destination_port: PORT, verification_tag: tag };
            let mut bytes = Vec::new();
            let mut writer = PacketWriter::new(&mut bytes, header, 1400);
            writer.raw(kind, flags, value).unwrap();
            writer.finish();
            bytes
        },
    )
}

/// It stays awake after each packet, and not for longer than it should.
#[tokio::test]
async fn an_endpoint_polls_busily_for_a_while() {
    soon(async {
        const AWAKE: Duration = Duration::from_millis(50);
        let quiet = async |pair: &Counts| {
            let mut before = usize::MAX;
            while before != pair.polls.load(Ordering::Relaxed) {
                before = pair.polls.load(Ordering::Relaxed);
                tokio::time::sleep(2 * AWAKE).await;
            }
            before
        };
        for (busy_poll, least) in [(AWAKE, 100), (Duration::ZERO, 0)] {
            let pair = busy_counts(1 << 20, busy_poll).await;
            let before = quiet(&pair).await;
            pair.near.send(OutgoingMessage::new(0, Ppid(0), vec![7; 64])).await.unwrap();
            assert_eq!(pair.far.recv().await.unwrap().unwrap().payload.len(), 64);
            let before_strangers = quiet(&pair).await;
            let polls = before_strangers - before;
            assert!(polls >= least && (least > 0 || polls < 50), "{polls} polls");
            // Strangers get answers, but do not keep it awake: an INIT, and DATA out of the blue.
            let stranger = tokio::net::UdpSocket::bind((V4, 0)).await.unwrap();
            for packet in strangers() {
                stranger.send_to(&packet, (V4, pair.server.udp_port())).await.unwrap();
                assert!(stranger.recv(&mut [0; 2000]).await.unwrap() > 0);
            }
            let polls = quiet(&pair).await - before_strangers;
            assert!((1..50).contains(&polls), "{polls} polls for strangers");
        }
    })
    .await;
}

/// A window that was closed is reported when it opens, without a probe by the sender.
#[tokio::test]
async fn a_window_that_opens_is_reported() {
    soon(async {
        let pair = counts(64 * 1024).await;
        const COUNT: usize = 500;
        let send = async {
            for _ in 0..COUNT {
                pair.near.send(OutgoingMessage::new(0, Ppid(0), vec![7; 1000])).await.unwrap();
            }
        };
        let receive = async {
            for round in 0..COUNT {
                // Now and then there is no room for another message, and nothing on the way that would be acknowledged.
                while round % 100 == 0 && !is_blocked(&pair.near) {
                    tokio::task::yield_now().await;
                }
                assert_eq!(pair.far.recv().await.unwrap().unwrap().payload.len(), 1000);
            }
        };
        tokio::join!(send, receive);
        let counters = pair.near.statistics().counters;
        assert_eq!((counters.zero_window_probes, counters.timeouts), (0, 0));
    })
    .await;
}

/// At high rates a pause of pacing is over when the packets before it have been sent. A timer would wait for most of a
/// millisecond.
#[tokio::test]
async fn a_time_that_has_passed_is_not_waited_for() {
    soon(async {
        let pair = counts(1 << 20).await;
        const COUNT: usize = 5000;
        let send = async {
            for _ in 0..COUNT {
                pair.far.send(OutgoingMessage::new(0, Ppid(0), vec![7; 16_000])).await.unwrap();
            }
        };
        let receive = async {
            for _ in 0..COUNT {
                assert_eq!(pair.near.recv().await.unwrap().unwrap().payload.len(), 16_000);
            }
        };
        tokio::join!(send, receive);
        let [set, late] = [&pair.timers.set, &pair.timers.late].map(|n| n.load(Ordering::Relaxed));
        // One may pass while the timer is set.
        assert!(set > 0 && late <= 2 + set / 20, "{late} of {set} times");
    })
    .await;
}
