//! Readers that give up, or stall.

use std::time::Duration;

use anabranch::runtime::{Instant, Timer};
use anabranch::{Association, ConnectOptions, OutgoingMessage, Ppid, RecvStream, SendStream};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::hosts::{PATIENCE, PORT, endpoint, serve};
use crate::network::{Host, Network};
use crate::timers::VirtualTimer;
use crate::{AssociationConfig, LinkConfig, QueueLimit, Site, World};

/// Calls a function with an association to a server that has a document of `len` bytes, with default
/// options, over 20 Mb/s with a round trip of 50 ms. Gives up after 300 s.
fn with_server<F: Future>(
    len: usize,
    act: impl FnOnce(World, Association) -> F,
) -> Option<F::Output> {
    let site = Site::uniform(0, 0, len);
    let link = LinkConfig::new()
        .rate(20_000_000)
        .delay(Duration::from_millis(25))
        .queue(QueueLimit::Packets(50));
    let world = World::new(Network::new(&[[link.clone(), link]], 1).unwrap());
    let main = async {
        let client = endpoint(&world, Host::Client, 1).unwrap();
        let server = endpoint(&world, Host::Server, 1).unwrap();
        let listener = server.listen(PORT, AssociationConfig::default()).unwrap();
        let spawner = world.clone();
        world.spawn(Box::pin(async move {
            while let Some(association) = listener.accept().await {
                serve(&spawner, &site, association, PATIENCE);
            }
        }));
        let options = ConnectOptions::from(AssociationConfig::default());
        let association = client.connect((Host::Server.address(), PORT), options).await.unwrap();
        act(world.clone(), association).await
    };
    world.run(main, Duration::from_secs(300)).unwrap()
}

async fn ask(association: &Association) -> (SendStream, RecvStream) {
    let (mut send, recv) = association.open_stream().await.unwrap();
    let request = format!("GET {} HTTP/1.1\r\nhost: x\r\n\r\n", Site::INDEX);
    send.write_all(request.as_bytes()).await.unwrap();
    (send, recv)
}

async fn read(recv: &mut RecvStream, mut count: usize) {
    let mut buffer = vec![0; 16 << 10];
    while count > 0 {
        let most = buffer.len().min(count);
        count -= recv.read(&mut buffer[..most]).await.unwrap();
    }
}

async fn sleep(world: &World, time: Duration) {
    let mut timer = VirtualTimer::new(world.clone());
    let until = (world.now() + time).as_nanos();
    timer.reset(Instant::from_nanos(u64::try_from(until).unwrap()));
    std::future::poll_fn(|cx| timer.poll(cx)).await;
}

#[test]
fn a_download_that_is_given_up_stops() {
    let more = with_server(100_000_000, |world, association| async move {
        let (send, mut recv) = ask(&association).await;
        read(&mut recv, 1_000_000).await;
        let sent = || world.state().network.link(Host::Server).offered_bytes;
        let before = sent();
        drop((send, recv));
        sleep(&world, Duration::from_secs(1)).await;
        let more = sent() - before;
        // And nothing later, while another request on the association is answered.
        let (_send, mut other) = ask(&association).await;
        read(&mut other, 1000).await;
        more
    });
    assert!(more.unwrap() < 256_000, "{more:?}");
}

#[test]
fn a_reader_that_stands_still_holds_up_no_other() {
    let took = with_server(3_000_000, |world, association| async move {
        let (_stuck, _unread) = ask(&association).await;
        // Others come and go for a minute.
        let mut longest = Duration::ZERO;
        while world.now() < Duration::from_secs(60) {
            let begun = world.now();
            let (_send, mut recv) = ask(&association).await;
            read(&mut recv, 3_000_000).await;
            longest = longest.max(world.now() - begun);
        }
        longest
    });
    // 1.2 s of the link each, and the cost of the short queue; without credit for each stream, it would
    // be forever.
    assert!(took.unwrap() < Duration::from_secs(5), "{took:?}");
}

/// Closing twice must not halve the waiting time.
#[test]
fn a_reader_that_is_slow_gets_all_whatever_was_dropped_and_closed() {
    let link = LinkConfig::new().rate(20_000_000).delay(Duration::from_millis(25));
    let world = World::new(Network::new(&[[link.clone(), link]], 1).unwrap());
    let main = async {
        let client = endpoint(&world, Host::Client, 1).unwrap();
        let server = endpoint(&world, Host::Server, 1).unwrap();
        let listener = server.listen(PORT, AssociationConfig::default()).unwrap();
        let options = ConnectOptions::from(AssociationConfig::default());
        let near = client.connect((Host::Server.address(), PORT), options).await.unwrap();
        let far = listener.accept().await.unwrap();
        let mut sent = 0;
        for _ in 0..20 {
            let message = || OutgoingMessage::new(0, Ppid(0), vec![7; 10_000]);
            while near.try_send(message()).is_ok() {
                sent += 10_000;
            }
            sleep(&world, Duration::from_millis(200)).await;
        }
        drop(near);
        let reader = async {
            let mut got = 0;
            while let Some(message) = far.recv().await.unwrap() {
                got += message.payload.len();
                // Both ends buffer a megabyte: this takes half a minute.
                sleep(&world, Duration::from_millis(150)).await;
            }
            got
        };
        let closing = async {
            sleep(&world, Duration::from_millis(1)).await;
            client.close().await;
        };
        let (got, ()) = tokio::join!(reader, closing);
        (got, sent)
    };
    let (got, sent) = world.run(main, Duration::from_secs(300)).unwrap().unwrap();
    assert!(sent > 1_500_000);
    assert_eq!(got, sent);
}
