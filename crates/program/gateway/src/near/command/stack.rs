//! Carries the packets of the command's namespace: connections, datagrams and questions about names.

use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use tokio::io::unix::AsyncFd;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::{interval, sleep, sleep_until};

use super::dns;
use super::names::Names;
use super::network::RESOLVER;
use super::packet::{Header, Protocol, udp, unreachable};
use super::translation::{Ends, Port, Translation, Verdict};
use crate::access::Asked;
use crate::near::Near;
use crate::near::udp::{Answer, Flow};
use crate::relay::prepare;
use crate::status::Status;
use crate::stream::Stream;
use crate::target::{Host, Target};
use crate::udp::recent::Recent;

/// Most sockets of the command that send datagrams at the same time. The one that was silent for longest yields.
const FLOWS: usize = 1024;

/// Most datagrams of one socket that wait for the association.
const QUEUE: usize = 64;

/// How long a socket of the command may be silent: longer than the far side waits.
const IDLE: Duration = Duration::from_secs(180);

/// How long a connection that the far side has established may wait for the command.
const ACCEPT: Duration = Duration::from_secs(30);

/// Interval for forgetting what has ended.
const TIDY: Duration = Duration::from_secs(5);

/// Pause after a connection could not be accepted.
const PAUSE: Duration = Duration::from_millis(100);

/// Most packets that are read before others get a turn.
const BATCH: usize = 64;

/// The port of DNS.
const DNS: u16 = 53;

/// A connection to a target that waits for the command's half.
struct Waiting {
    stream: Stream,
    target: Target,
    since: Instant,
}

/// The network of one command.
pub(super) struct Stack {
    device: AsyncFd<File>,
    near: Arc<Near>,
    translation: Mutex<Translation>,
    names: Mutex<Names>,
    waiting: Mutex<std::collections::HashMap<Port, Waiting>>,
    sockets: Mutex<Recent<SocketAddr, mpsc::Sender<(SocketAddr, Bytes)>>>,
    tasks: Mutex<JoinSet<()>>,
}

/// Ends all tasks when it is dropped: they hold the stack, and it holds them.
struct Ending<'a>(&'a Stack);

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        lock(&self.0.tasks).abort_all();
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Stack {
    pub(super) fn new(
        device: AsyncFd<File>,
        near: Arc<Near>,
        translation: Translation,
    ) -> Arc<Self> {
        Arc::new(Self {
            device,
            near,
            translation: Mutex::new(translation),
            names: Mutex::default(),
            waiting: Mutex::default(),
            sockets: Mutex::new(Recent::new(FLOWS)),
            tasks: Mutex::default(),
        })
    }

    /// Carries packets until the device fails, which it does not while the namespace exists. Dropping the future ends
    /// all connections.
    pub(super) async fn run(self: &Arc<Self>, listeners: Vec<TcpListener>) -> io::Result<()> {
        let mut tidy = interval(TIDY);
        let mut listeners = listeners.into_iter();
        let (first, second) = (listeners.next(), listeners.next());
        let mut buffer = vec![0; usize::from(u16::MAX) + 40];
        let _ending = Ending(self);
        loop {
            tokio::select! {
                read = self.read(&mut buffer) => read?,
                accepted = accept(first.as_ref()) => self.accepted(accepted),
                accepted = accept(second.as_ref()) => self.accepted(accepted),
                _ = tidy.tick() => self.tidy(),
            }
        }
    }

    fn spawn(self: &Arc<Self>, task: impl Future<Output = ()> + Send + 'static) {
        lock(&self.tasks).spawn(task);
    }

    fn tidy(&self) {
        let now = Instant::now();
        lock(&self.translation).expire(now);
        lock(&self.waiting).retain(|_, waiting| now.duration_since(waiting.since) < ACCEPT);
        let mut tasks = lock(&self.tasks);
        while tasks.try_join_next().is_some() {}
    }

    /// Reads some packets. Cancel-safe.
    async fn read(self: &Arc<Self>, buffer: &mut [u8]) -> io::Result<()> {
        let mut ready = self.device.readable().await?;
        for _ in 0..BATCH {
            match ready.try_io(|device| device.get_ref().read(buffer)) {
                Ok(Ok(length)) => self.packet(&mut buffer[..length]),
                Ok(Err(error)) if error.kind() == io::ErrorKind::Interrupted => {}
                Ok(Err(error)) => return Err(error),
                Err(_) => return Ok(()),
            }
        }
        Ok(())
    }

    /// Writes a packet. As on any network, what finds no room is lost.
    fn write(&self, packet: &[u8]) {
        if let Err(error) = self.device.get_ref().write(packet) {
            tracing::debug!(%error, "a packet for the command is lost");
        }
    }

    fn packet(self: &Arc<Self>, packet: &mut [u8]) {
        let Some(header) = Header::parse(packet) else { return };
        let is_question = header.to == SocketAddr::from((RESOLVER, DNS));
        match header.protocol {
            Protocol::Tcp if header.to.ip() == RESOLVER => {
                if let Some(reset) =
                    unreachable(packet, Status::Refused).filter(|_| header.is_syn(packet))
                {
                    self.write(&reset);
                }
            }
            Protocol::Tcp => {
                let verdict = lock(&self.translation).packet(packet, &header);
                match verdict {
                    Verdict::Back => self.write(packet),
                    Verdict::Wanted(ends) => {
                        let stack = Arc::clone(self);
                        self.spawn(async move { stack.connect(ends).await });
                    }
                    Verdict::Drop => {}
                }
            }
            Protocol::Udp if is_question => {
                let answer = dns::answer(header.payload(packet), &mut lock(&self.names));
                if let Some(packet) = answer.and_then(|answer| udp(header.to, header.from, &answer))
                {
                    self.write(&packet);
                }
            }
            Protocol::Udp => {
                let payload = Bytes::copy_from_slice(header.payload(packet));
                self.datagram(header.from, header.to, payload);
            }
        }
    }

    /// What an address of the command stands for.
    fn target(&self, to: SocketAddr) -> Option<Target> {
        let host = lock(&self.names).host(to.ip())?;
        Target::new(host, to.port())
    }

    /// Asks the far side for a connection, and passes the first packet on when it is there.
    async fn connect(self: Arc<Self>, ends: Ends) {
        let began = Instant::now();
        let connected = match self.target(ends.1) {
            Some(target) => match self.near.connect(&target).await {
                Ok(stream) => Ok((stream, target)),
                Err(refusal) => {
                    self.near.refused((Asked::Command, ends.0), &target, &refusal, began);
                    Err(refusal.status)
                }
            },
            None => Err(Status::UnknownHost),
        };
        match connected {
            Ok((stream, target)) => {
                let connected = lock(&self.translation).connected(ends);
                if let Some((port, packet)) = connected {
                    let waiting = Waiting { stream, target, since: Instant::now() };
                    lock(&self.waiting).insert(port, waiting);
                    self.write(&packet);
                }
            }
            Err(status) => {
                let packet = lock(&self.translation).refused(ends, status);
                if let Some(packet) = packet {
                    self.write(&packet);
                }
            }
        }
    }

    /// Carries bytes of a connection that our socket has accepted.
    fn accepted(self: &Arc<Self>, accepted: io::Result<(TcpStream, SocketAddr)>) {
        let (tcp, from) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => return tracing::warn!(%error, "a connection of the command is lost"),
        };
        let port = (from.is_ipv6(), from.port());
        let Some(Waiting { stream, target, .. }) = lock(&self.waiting).remove(&port) else {
            return;
        };
        prepare(&tcp);
        let stack = Arc::clone(self);
        self.spawn(async move {
            let asked = (Asked::Command, from);
            stack.near.tunnel(tcp, Bytes::new(), stream, asked, target).await;
            lock(&stack.translation).ended(port, Instant::now());
        });
    }

    /// Passes a datagram to the flow of its socket, which begins if it is new.
    fn datagram(self: &Arc<Self>, from: SocketAddr, to: SocketAddr, payload: Bytes) {
        let mut sockets = lock(&self.sockets);
        let mut datagram = (to, payload);
        if let Some(socket) = sockets.get(&from) {
            match socket.try_send(datagram) {
                Ok(()) => return,
                Err(mpsc::error::TrySendError::Full(_)) => {
                    return self.near.link.flows().drop_one();
                }
                // It was silent.
                Err(mpsc::error::TrySendError::Closed(back)) => datagram = back,
            }
        }
        let (sender, queue) = mpsc::channel(QUEUE);
        // There is room.
        let _ = sender.try_send(datagram);
        sockets.insert(from, sender);
        drop(sockets);
        let flow = self.near.link.flows().begin();
        let stack = Arc::clone(self);
        self.spawn(async move { stack.flow(from, flow, queue).await });
    }

    /// Carries the datagrams of one socket until it is silent or yields to others.
    async fn flow(
        &self,
        socket: SocketAddr,
        mut flow: Flow,
        mut queue: mpsc::Receiver<(SocketAddr, Bytes)>,
    ) {
        let mut deadline = tokio::time::Instant::now() + IDLE;
        loop {
            tokio::select! {
                datagram = queue.recv() => {
                    let Some((to, payload)) = datagram else { return };
                    deadline = tokio::time::Instant::now() + IDLE;
                    match self.target(to) {
                        Some(target) => flow.send(target, payload),
                        None => self.near.link.flows().drop_one(),
                    }
                }
                answer = flow.recv() => {
                    if let Some(packet) = self.answer(socket, answer) {
                        self.write(&packet);
                    }
                }
                () = sleep_until(deadline) => return,
            }
        }
    }

    /// The packet for a socket with what the far side says to it.
    fn answer(&self, socket: SocketAddr, answer: Answer) -> Option<Vec<u8>> {
        match answer {
            Answer::Datagram { from, name, payload } => {
                let from = match name {
                    Some(name) => self.address(&Host::Name(name), from.port(), socket)?,
                    None => from,
                };
                udp(from, socket, &payload)
            }
            Answer::Refused(target, status) => {
                let to = self.address(&target.host, target.port, socket)?;
                unreachable(&udp(socket, to, &[])?, status)
            }
        }
    }

    /// The address that a socket knows for a host.
    fn address(&self, host: &Host, port: u16, socket: SocketAddr) -> Option<SocketAddr> {
        let ip = match host {
            Host::Address(ip) => *ip,
            Host::Name(name) => lock(&self.names).known(name, socket.is_ipv6())?,
        };
        Some(SocketAddr::new(ip, port))
    }
}

/// Waits for a connection; for ever without a socket.
async fn accept(listener: Option<&TcpListener>) -> io::Result<(TcpStream, SocketAddr)> {
    match listener {
        Some(listener) => match listener.accept().await {
            Err(error) => {
                // The system may be out of descriptors.
                sleep(PAUSE).await;
                Err(error)
            }
            accepted => accepted,
        },
        None => std::future::pending().await,
    }
}
