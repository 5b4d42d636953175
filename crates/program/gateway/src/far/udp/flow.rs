//! One flow: its sockets, the targets it has sent to, and who may answer.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use tokio::net::UdpSocket;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};

use super::Udp;
use crate::access::{Access, Asked};
use crate::accounts::{Account, Direction};
use crate::dial::status_of;
use crate::status::{Refusal, Status};
use crate::target::{Host, Target};
use crate::udp::counters::{OpenFlow, count};
use crate::udp::message::{Message, What};
use crate::udp::recent::Recent;
use crate::udp::{MOST_PAYLOAD, Outlet, send_now};
use crate::urgency::Urgency;

/// Most targets that a flow remembers, and most addresses that may answer.
const TARGETS: usize = 256;

/// Most targets of a flow that are resolved at the same time.
const LOOKUPS: usize = 16;

/// Most datagrams that wait for the address of their target.
const WAITING: usize = 8;

/// How long a flow uses the addresses of a target, or the reason why there are none.
const FRESH: Duration = Duration::from_secs(60);

/// Most datagrams that are received before others get a turn.
const BATCH: usize = 16;

/// What is known about a target.
enum Known {
    /// Its name is being resolved and the rules are asked. These datagrams wait.
    Wanted(Vec<Bytes>),
    /// Where it is, and until when this holds.
    At(Vec<SocketAddr>, Instant),
    /// Datagrams to it are dropped until then.
    Refused(Instant),
}

/// A flow of one near side.
pub(super) struct Flow {
    udp: Arc<Udp>,
    account: Arc<Account>,
    number: u32,
    outlet: Outlet,
    /// For IPv4 and IPv6.
    sockets: [Option<UdpSocket>; 2],
    targets: Recent<Target, Known>,
    lookups: JoinSet<(Target, Result<Vec<SocketAddr>, Refusal>)>,
    /// Who may answer, with the name that near gave.
    peers: Recent<SocketAddr, Option<String>>,
    urgency: Urgency,
    summary: Summary,
    _open: OpenFlow,
}

/// What the log says about a flow.
struct Summary {
    began: Instant,
    target: Option<Target>,
    address: Option<SocketAddr>,
    refusal: Option<Refusal>,
    sent: u64,
    received: u64,
}

impl Flow {
    pub(super) fn new(udp: &Arc<Udp>, account: &Arc<Account>, number: u32, outlet: Outlet) -> Self {
        let began = Instant::now();
        let summary =
            Summary { began, target: None, address: None, refusal: None, sent: 0, received: 0 };
        Self {
            number,
            outlet,
            sockets: [None, None],
            targets: Recent::new(TARGETS),
            lookups: JoinSet::new(),
            peers: Recent::new(TARGETS),
            urgency: Urgency::new(began.into_std()),
            summary,
            _open: udp.counters.flow(),
            udp: Arc::clone(udp),
            account: Arc::clone(account),
        }
    }

    /// Carries datagrams until the flow is idle, or near ends it by closing the queue.
    pub(super) async fn run(
        mut self,
        mut queue: mpsc::Receiver<(Target, Bytes)>,
        client: Option<SocketAddr>,
    ) {
        let mut deadline = Instant::now() + self.udp.idle;
        let mut closed = false;
        // The last datagrams may wait for the addresses of their targets.
        while !closed || !self.lookups.is_empty() {
            tokio::select! {
                datagram = queue.recv(), if !closed => match datagram {
                    Some((to, payload)) => {
                        // Only near keeps a flow alive (RFC 4787 section 4.3).
                        deadline = Instant::now() + self.udp.idle;
                        self.send(to, payload);
                    }
                    None => closed = true,
                },
                Some(found) = self.lookups.join_next() => {
                    if let Ok((target, found)) = found {
                        self.found(&target, found);
                    }
                }
                () = readable(self.sockets[0].as_ref()) => self.receive(0),
                () = readable(self.sockets[1].as_ref()) => self.receive(1),
                () = sleep_until(deadline) => break,
            }
        }
        self.log(client);
    }

    /// Sends a datagram, or keeps it until the address of its target is known.
    fn send(&mut self, to: Target, payload: Bytes) {
        self.summary.target.get_or_insert_with(|| to.clone());
        let now = Instant::now();
        match self.targets.get(&to) {
            Some(Known::At(addresses, until)) if *until > now => {
                let addresses = addresses.clone();
                self.send_to(&to, &addresses, &payload);
            }
            Some(Known::Wanted(waiting)) if waiting.len() < WAITING => waiting.push(payload),
            Some(Known::Wanted(_)) => count(&self.udp.counters.dropped),
            Some(Known::Refused(until)) if *until > now => count(&self.udp.counters.dropped),
            Some(Known::At(..) | Known::Refused(_)) | None => self.look_up(to, payload),
        }
    }

    fn look_up(&mut self, to: Target, payload: Bytes) {
        if self.lookups.len() >= LOOKUPS {
            return count(&self.udp.counters.dropped);
        }
        let dialler = Arc::clone(&self.udp.dialler);
        let target = to.clone();
        self.lookups.spawn(async move {
            let found = dialler.addresses(&target).await;
            (target, found)
        });
        self.targets.insert(to, Known::Wanted(vec![payload]));
    }

    /// Sends what waited for the address of a target.
    fn found(&mut self, target: &Target, found: Result<Vec<SocketAddr>, Refusal>) {
        // Others may have displaced it.
        let Some(Known::Wanted(waiting)) = self.targets.remove(target) else { return };
        let until = Instant::now() + FRESH;
        match found {
            Ok(addresses) => {
                for payload in waiting {
                    self.send_to(target, &addresses, &payload);
                }
                self.targets.insert(target.clone(), Known::At(addresses, until));
            }
            Err(refusal) => {
                for _ in waiting {
                    count(&self.udp.counters.dropped);
                }
                self.refuse(target, refusal);
                self.targets.insert(target.clone(), Known::Refused(until));
            }
        }
    }

    /// Tells near why a datagram was dropped.
    fn refuse(&mut self, target: &Target, refusal: Refusal) {
        let what = What::Refused(target.clone(), refusal.status);
        self.outlet.send(&Message { flow: self.number, what }, &mut self.urgency);
        self.summary.refusal.get_or_insert(refusal);
    }

    /// Sends to the first address that has a route.
    fn send_to(&mut self, target: &Target, addresses: &[SocketAddr], payload: &[u8]) {
        if !self.account.takes(Direction::ToTarget, payload.len(), self.urgency.is_large()) {
            return count(&self.udp.counters.dropped);
        }
        let mut failure = io::Error::from(io::ErrorKind::AddrNotAvailable);
        for address in addresses {
            match self.try_send(*address, payload) {
                Ok(()) => {
                    let name = match &target.host {
                        Host::Name(name) => Some(name.clone()),
                        Host::Address(_) => None,
                    };
                    self.peers.insert(*address, name);
                    self.summary.address.get_or_insert(*address);
                    self.summary.sent += payload.len() as u64;
                    return count(&self.udp.counters.sent);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    return count(&self.udp.counters.dropped);
                }
                Err(error) => failure = error,
            }
        }
        count(&self.udp.counters.dropped);
        let status = status_of(&failure);
        if matches!(status, Status::NetworkUnreachable | Status::HostUnreachable) {
            let text = format!("cannot send to {target}: {failure}");
            self.refuse(target, Refusal::new(status, text));
        }
    }

    fn try_send(&mut self, to: SocketAddr, payload: &[u8]) -> io::Result<()> {
        let socket = &mut self.sockets[usize::from(to.is_ipv6())];
        let socket = match socket {
            Some(socket) => socket,
            None => socket.insert(bind(to.is_ipv6())?),
        };
        send_now(socket, payload, to)
    }

    /// Passes on what has arrived.
    fn receive(&mut self, which: usize) {
        let udp = Arc::clone(&self.udp);
        for _ in 0..BATCH {
            let Some(socket) = &self.sockets[which] else { return };
            let (from, payload) = {
                let mut buffer = udp.buffer.lock().unwrap_or_else(PoisonError::into_inner);
                match socket.try_recv_from(&mut buffer) {
                    Ok((length, from)) => (from, Bytes::copy_from_slice(&buffer[..length])),
                    // Nothing more, or the report of an error about an earlier datagram.
                    Err(_) => return,
                }
            };
            match self.name_of(from) {
                Some(name) if payload.len() <= MOST_PAYLOAD && self.takes_answer(&payload) => {
                    self.summary.received += payload.len() as u64;
                    let what = What::Answer { from, name, payload };
                    self.outlet.send(&Message { flow: self.number, what }, &mut self.urgency);
                    count(&udp.counters.received);
                }
                _ => count(&udp.counters.dropped),
            }
        }
    }

    fn takes_answer(&self, payload: &[u8]) -> bool {
        self.account.takes(Direction::FromTarget, payload.len(), self.urgency.is_large())
    }

    /// The name by which near knows who sends; `None` if it may not send to this flow.
    fn name_of(&mut self, from: SocketAddr) -> Option<Option<String>> {
        if let Some(name) = self.peers.get(&from) {
            return Some(name.clone());
        }
        self.peers.keys().any(|known| known.ip() == from.ip()).then_some(None)
    }

    fn log(self, client: Option<SocketAddr>) {
        let Summary { began, target, address, refusal, sent, received } = self.summary;
        let status = match (&address, &refusal) {
            (None, Some(refusal)) => refusal.status,
            _ => Status::Connected,
        };
        (self.udp.log)(Access {
            asked: Asked::Udp,
            client,
            target: target.map(|target| target.to_string()).unwrap_or_default(),
            address,
            status,
            code: None,
            bytes_sent: sent,
            bytes_received: received,
            took: began.elapsed(),
            error: refusal.map(|refusal| refusal.to_string()),
        });
    }
}

/// Waits until a datagram has arrived; for ever without a socket.
async fn readable(socket: Option<&UdpSocket>) {
    let is_ready = match socket {
        Some(socket) => socket.readable().await.is_ok(),
        None => false,
    };
    if !is_ready {
        std::future::pending::<()>().await;
    }
}

/// A socket with any address and port.
fn bind(v6: bool) -> io::Result<UdpSocket> {
    let socket = match v6 {
        true => std::net::UdpSocket::bind((Ipv6Addr::UNSPECIFIED, 0)),
        false => std::net::UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)),
    }?;
    socket.set_nonblocking(true)?;
    UdpSocket::from_std(socket)
}
