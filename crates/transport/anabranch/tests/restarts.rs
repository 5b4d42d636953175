//! A peer that loses its state and returns from the same ports.

mod common;

use std::net::SocketAddr;
use std::time::Duration;

use anabranch::{
    Association, AssociationConfig, AssociationError, ConnectOptions, Endpoint, Listener,
    Notification, OutgoingMessage, Ppid, RecvError,
};
use common::{PORT, V4, remotes, soon, towards};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::runtime::Runtime;

/// A listening server, and what its clients need to start again.
struct Scene {
    server: Endpoint,
    listener: Listener,
    remotes: Vec<SocketAddr>,
    options: ConnectOptions,
}

/// A client in a separate runtime, which can be stopped without notifying the peer.
struct Client {
    runtime: Option<Runtime>,
    endpoint: Endpoint,
    near: Association,
}

impl Scene {
    fn new() -> Self {
        let server = common::endpoint(&[V4]);
        let listener = server.listen(PORT, AssociationConfig::default()).unwrap();
        let remotes = remotes(&server);
        let mut options = towards(&server, AssociationConfig::default());
        options.local_port = Some(6000);
        Self { server, listener, remotes, options }
    }

    async fn client(&self, udp_port: u16, config: AssociationConfig) -> Client {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        let (remotes, mut options) = (self.remotes.clone(), self.options.clone());
        options.config = config;
        let connecting = async move {
            let builder = Endpoint::builder().local_addresses([V4]).udp_port(udp_port);
            let endpoint = builder.bind().unwrap();
            let near = endpoint.connect(remotes, options).await.unwrap();
            (endpoint, near)
        };
        let (endpoint, near) = runtime.spawn(connecting).await.unwrap();
        Client { runtime: Some(runtime), endpoint, near }
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        self.runtime.take().into_iter().for_each(Runtime::shutdown_background);
    }
}

impl Client {
    /// Stops silently. Returns the UDP port, which is then free.
    async fn vanish(mut self) -> u16 {
        let port = self.endpoint.udp_port();
        self.runtime.take().into_iter().for_each(Runtime::shutdown_background);
        // Its sockets are closed when its task is gone.
        self.near.closed().await.unwrap_err();
        port
    }
}

async fn until_restarted(far: &Association, mut events: anabranch::Events) -> u64 {
    let mut failed = 0;
    loop {
        match events.next().await {
            Some(Notification::Restarted { .. }) => return failed,
            Some(Notification::SendFailed { .. }) => failed += 1,
            Some(_) => {}
            None => panic!("the association ended: {:?}", far.closed().await),
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn streams_end_and_new_ones_begin_with_what_is_new() {
    soon(async {
        let scene = Scene::new();
        let first = scene.client(0, AssociationConfig::default()).await;
        let far = scene.listener.accept().await.unwrap();
        // A stream being read, with the rest of its answer waiting, and half a request that was not
        // accepted yet.
        let (mut out, mut back) = first.near.open_stream().await.unwrap();
        out.write_all(b"GET /one").await.unwrap();
        let (mut answer, mut request) = far.accept_stream().await.unwrap().unwrap();
        let mut read = [0; 8];
        request.read_exact(&mut read).await.unwrap();
        answer.write_all(b"half of the answer").await.unwrap();
        back.read_exact(&mut read).await.unwrap();
        let (mut other, _back) = first.near.open_stream().await.unwrap();
        other.write_all(b"GET /half").await.unwrap();
        // Wait for the acknowledgement: then the server has it.
        while first.near.statistics().outstanding_chunks > 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let events = far.events();
        // Waiting on the old stream while the peer restarts.
        let waiting = tokio::spawn(async move {
            let read = request.read(&mut [0; 10]).await;
            (read, request)
        });
        let port = first.vanish().await;
        let mut few = AssociationConfig::default();
        few.sending.outbound_streams = 3;
        few.receiving.inbound_streams = 2;
        let second = scene.client(port, few).await;
        until_restarted(&far, events).await;
        let (read, mut request) = waiting.await.unwrap();
        assert_eq!(read.unwrap_err().kind(), std::io::ErrorKind::ConnectionReset);
        let restarted = RecvError::Association(AssociationError::Restarted);
        assert_eq!(request.recv().await.unwrap_err(), restarted);
        let written = answer.write_all(b"the other half").await.unwrap_err();
        assert_eq!(written.kind(), std::io::ErrorKind::ConnectionReset);
        assert!(answer.finish().await.is_err());
        assert_eq!((far.outbound_streams(), far.inbound_streams()), (2, 3));
        // Both numbers are used again, while the old handles still exist and when they go.
        for name in ["GET /new-0", "GET /new-1"] {
            let (mut out, mut back) = second.near.open_stream().await.unwrap();
            out.write_all(name.as_bytes()).await.unwrap();
            out.shutdown().await.unwrap();
            let (mut answer, mut request) = far.accept_stream().await.unwrap().unwrap();
            let mut asked = String::new();
            request.read_to_string(&mut asked).await.unwrap();
            assert_eq!(asked, name);
            answer.write_all(b"all of it").await.unwrap();
            answer.shutdown().await.unwrap();
            let mut got = String::new();
            back.read_to_string(&mut got).await.unwrap();
            assert_eq!(got, "all of it");
        }
        drop((answer, request));
        let (_in_use, _too) = second.near.open_stream().await.unwrap();
        drop(scene.server);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dropped_stream_of_the_time_before_takes_nothing_from_the_new_one() {
    soon(async {
        let scene = Scene::new();
        let first = scene.client(0, AssociationConfig::default()).await;
        let far = scene.listener.accept().await.unwrap();
        let (mut out, _) = first.near.stream(0).unwrap();
        out.write_all(b"old").await.unwrap();
        let (mut answer, mut request) = far.accept_stream().await.unwrap().unwrap();
        request.read_exact(&mut [0; 3]).await.unwrap();
        answer.write_all(b"begun").await.unwrap();
        let events = far.events();
        let port = first.vanish().await;
        let second = scene.client(port, AssociationConfig::default()).await;
        until_restarted(&far, events).await;
        let (new_answer, mut new_request) = far.stream(0).unwrap();
        // The new peer does not get a mark of the abandoned answer, and its own data is not stopped.
        drop((answer, request));
        assert!(far.stream(0).is_err(), "it is still the new handle's");
        let (mut out, mut back) = second.near.stream(0).unwrap();
        out.write_all(b"new").await.unwrap();
        let mut read = [0; 3];
        new_request.read_exact(&mut read).await.unwrap();
        assert_eq!(&read, b"new");
        new_answer.send(Ppid(9), "answer").await.unwrap();
        assert_eq!(back.recv().await.unwrap().unwrap().ppid, Ppid(9));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn messages_come_back_and_senders_wake() {
    soon(async {
        let mut config = AssociationConfig::default();
        config.sending.send_buffer = 20_000;
        let server = common::endpoint(&[V4]);
        let listener = server.listen(PORT, config).unwrap();
        let remotes = remotes(&server);
        let mut options = towards(&server, AssociationConfig::default());
        options.local_port = Some(6000);
        let scene = Scene { server, listener, remotes, options };
        let mut closed = AssociationConfig::default();
        closed.receiving.receive_buffer = 4000;
        let first = scene.client(0, closed).await;
        let far = scene.listener.accept().await.unwrap();
        let events = far.events();
        let mut taken = 0;
        // The other end does not read; first the window and then the buffer is full.
        loop {
            let message = OutgoingMessage::new(0, Ppid(0), vec![1; 1000]);
            match tokio::time::timeout(Duration::from_millis(300), far.send(message)).await {
                Ok(sent) => sent.unwrap(),
                Err(_) => break,
            }
            taken += 1;
        }
        assert!(taken > 10);
        let sender = far.clone();
        let waiting = tokio::spawn(async move {
            sender.send(OutgoingMessage::new(0, Ppid(7), "waits for room")).await
        });
        let stream = far.stream(1).unwrap();
        let port = first.vanish().await;
        let second = scene.client(port, AssociationConfig::default()).await;
        let failed = until_restarted(&far, events).await;
        assert!(failed > 5, "{failed} of {taken}");
        waiting.await.unwrap().unwrap();
        assert!(stream.0.send(Ppid(0), "old").await.is_err());
        // The waiting message is the first that the new incarnation gets.
        assert_eq!(second.near.recv().await.unwrap().unwrap().ppid, Ppid(7));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn close_ends_and_tells_when_the_peer_restarts_meanwhile() {
    soon(async {
        let scene = Scene::new();
        let mut closed = AssociationConfig::default();
        closed.receiving.receive_buffer = 4000;
        let first = scene.client(0, closed).await;
        let far = scene.listener.accept().await.unwrap();
        for _ in 0..20 {
            far.send(OutgoingMessage::new(0, Ppid(0), vec![1; 1000])).await.unwrap();
        }
        let closing = tokio::spawn({
            let far = far.clone();
            async move { far.close().await }
        });
        tokio::time::sleep(Duration::from_millis(100)).await;
        let port = first.vanish().await;
        let second = scene.client(port, AssociationConfig::default()).await;
        let error = closing.await.unwrap().unwrap_err();
        assert_eq!(error.error, AssociationError::Restarted);
        assert!(error.undelivered > 0);
        second.near.closed().await.unwrap();
    })
    .await;
}
