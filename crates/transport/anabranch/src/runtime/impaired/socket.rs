//! A socket whose sent and received packets pass through links.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::future::poll_fn;
use std::io::{self, IoSliceMut};
use std::net::{IpAddr, SocketAddr};
use std::ops::Deref;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use anabranch_impair::file::{Direction, ImpairmentFile};
use anabranch_impair::pattern::Facts;
use anabranch_impair::{Link, Packet, Rng, SendOutcome};
use anabranch_proto::{Ecn, Encapsulation, Instant};
use bytes::Bytes;

use super::LinkReport;
use crate::runtime::{
    Batch, Datagrams, NetworkError, NetworkErrorKind, PacketSocket, Runtime, Timer, TransmitError,
};

/// Maximum number of datagrams in one link, and of those waiting to be read; further ones are lost.
const MOST_HELD: usize = 1 << 18;

/// Maximum number of address pairs with their own links: a flood from forged addresses must not fill
/// the memory. Unimpaired packets share one link.
const MOST_PATHS: usize = 4096;

/// Buffers that the inner socket fills at a time, and their size: the largest GRO batch.
const BUFFERS: usize = 4;
const BUFFER_SIZE: usize = 65_535;

/// How long a dropped socket continues to send the contents of its links.
const LONGEST_DRAIN: Duration = Duration::from_secs(10);

/// Times that the inner socket is polled before yielding to other tasks.
const ROUNDS: usize = 64;

/// A packet in a link, or waiting for one of the two ends.
#[derive(Clone, Debug)]
struct Datagram {
    /// The local address: the source of sent datagrams, the destination of received ones, if known.
    here: Option<IpAddr>,
    there: SocketAddr,
    ecn: Option<Ecn>,
    may_fragment: bool,
    /// Length of the IP packet; if it may be fragmented, at most the link's MTU.
    size: usize,
    bytes: Bytes,
}

impl Packet for Datagram {
    const HAS_FACTS: bool = true;

    /// The facts of the SCTP packet; its addresses need not match again, because the entry was chosen
    /// by them.
    fn facts(&self) -> Option<Facts> {
        Some(Facts::of_sctp(&self.bytes))
    }

    fn flip(&mut self, bit: i64) -> bool {
        self.bytes.flip(bit)
    }

    fn size(&self) -> usize {
        self.size
    }

    fn corrupt(&mut self, rng: &mut Rng) -> bool {
        self.bytes.corrupt(rng)
    }

    fn mark(&mut self) -> bool {
        Ecn::mark(&mut self.ecn)
    }

    fn duplicate(&self) -> Option<Self> {
        Some(self.clone())
    }
}

/// The links of one socket, by local and remote address.
#[derive(Debug)]
pub(super) struct Links {
    file: Arc<ImpairmentFile>,
    seed: u64,
    encapsulation: Encapsulation,
    /// Names of entries whose links are down.
    down: BTreeSet<String>,
    paths: BTreeMap<(IpAddr, IpAddr), Path>,
    /// Packets that have left the links and wait for the inner socket.
    unsent: usize,
}

#[derive(Debug)]
struct Path {
    send: Option<Link<Datagram>>,
    receive: Option<Link<Datagram>>,
}

impl Path {
    fn link(&mut self, direction: Direction) -> Option<&mut Link<Datagram>> {
        match direction {
            Direction::Send => self.send.as_mut(),
            Direction::Receive => self.receive.as_mut(),
        }
    }

    fn links(&self) -> impl Iterator<Item = (Direction, &Link<Datagram>)> {
        let both = [(Direction::Send, &self.send), (Direction::Receive, &self.receive)];
        both.into_iter().filter_map(|(direction, link)| Some((direction, link.as_ref()?)))
    }
}

/// The outcome of offering a datagram to the links.
enum Offered {
    /// A link accepted or dropped it.
    Taken,
    /// No link applies to it.
    Free(Datagram),
    /// It is larger than the link's MTU, which is given.
    TooBig(usize),
}

impl Links {
    pub(super) fn new(
        file: Arc<ImpairmentFile>,
        seed: u64,
        encapsulation: Encapsulation,
        down: BTreeSet<String>,
    ) -> Self {
        Self { file, seed, encapsulation, down, paths: BTreeMap::new(), unsent: 0 }
    }

    /// Takes the links of the entries with this name up or down.
    pub(super) fn set_up(&mut self, now: u64, name: &str, up: bool) {
        match up {
            true => self.down.remove(name),
            false => self.down.insert(name.to_owned()),
        };
        for (&(local, remote), path) in &mut self.paths {
            for direction in [Direction::Send, Direction::Receive] {
                let entry = self.file.find(local, remote, direction);
                let is_named = entry.is_some_and(|entry| entry.name.as_deref() == Some(name));
                if let Some(link) = path.link(direction).filter(|_| is_named) {
                    link.set_up(now, up);
                }
            }
        }
    }

    /// A new link. The file was validated when it was read, so this cannot fail.
    fn link(
        &self,
        now: u64,
        local: IpAddr,
        remote: IpAddr,
        direction: Direction,
    ) -> Option<Link<Datagram>> {
        let mut link = self.file.link(local, remote, direction, self.seed).ok()??;
        let name = self.file.find(local, remote, direction)?.name.as_deref();
        if name.is_some_and(|name| self.down.contains(name)) {
            link.set_up(now, false);
        }
        Some(link)
    }

    pub(super) fn reports(&self) -> impl Iterator<Item = LinkReport> {
        let file = &self.file;
        self.paths.iter().flat_map(move |(&(local, remote), path)| {
            path.links().map(move |(direction, link)| {
                let entry = file.find(local, remote, direction);
                let name = entry.and_then(|entry| entry.name.clone());
                LinkReport { name, local, remote, direction, statistics: *link.stats() }
            })
        })
    }

    /// Offers a datagram to the link of its path and direction.
    fn offer(
        &mut self,
        now: u64,
        local: IpAddr,
        direction: Direction,
        mut datagram: Datagram,
    ) -> Offered {
        let remote = datagram.there.ip();
        if !self.paths.contains_key(&(local, remote)) && self.paths.len() < MOST_PATHS {
            let link = |direction| self.link(now, local, remote, direction);
            let path = Path { send: link(Direction::Send), receive: link(Direction::Receive) };
            self.paths.insert((local, remote), path);
        }
        let link = self.paths.get_mut(&(local, remote)).and_then(|path| path.link(direction));
        let Some(link) = link else {
            return Offered::Free(datagram);
        };
        datagram.size = datagram.bytes.len() + self.encapsulation.overhead(remote);
        if let (true, Some(mtu)) = (datagram.may_fragment, link.config().mtu) {
            datagram.size = datagram.size.min(mtu.saturating_sub(link.config().overhead));
        }
        if link.in_transit() >= MOST_HELD {
            return Offered::Taken;
        }
        match link.send(now, datagram) {
            SendOutcome::TooBig { mtu } => Offered::TooBig(mtu),
            SendOutcome::Accepted | SendOutcome::Lost(_) | SendOutcome::QueueFull => Offered::Taken,
        }
    }

    /// Moves packets that have reached the end of their link, in this direction, to `arrived`.
    fn collect(&mut self, now: u64, direction: Direction, arrived: &mut VecDeque<Datagram>) {
        for path in self.paths.values_mut() {
            let Some(link) = path.link(direction) else {
                continue;
            };
            while let Some(datagram) = link.poll(now) {
                if arrived.len() < MOST_HELD {
                    arrived.push_back(datagram);
                }
            }
        }
    }

    fn sending(&self) -> impl Iterator<Item = &Link<Datagram>> {
        self.paths.values().filter_map(|path| path.send.as_ref())
    }

    /// Whether a sent packet is still in a link.
    pub(super) fn underway(&self) -> bool {
        self.unsent > 0 || self.sending().any(|link| link.in_transit() > 0)
    }

    /// When the next sent datagram leaves a link.
    fn next_departure(&self) -> Option<u64> {
        self.sending().filter_map(Link::next_deadline).min()
    }

    fn next_deadline(&self) -> Option<u64> {
        let links = self.paths.values().flat_map(Path::links);
        links.filter_map(|(_, link)| link.next_deadline()).min()
    }
}

/// A socket whose packets go through links. When it is dropped, sent packets are still delivered.
#[derive(Debug)]
pub(super) struct ImpairedSocket(Option<Impaired>);

/// The content of the socket; after a drop it lives on until its links are empty.
#[derive(Debug)]
pub(super) struct Impaired {
    inner: Box<dyn PacketSocket>,
    runtime: Arc<dyn Runtime>,
    /// Time 0 of the links.
    origin: Instant,
    links: Arc<Mutex<Links>>,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    timer: Box<dyn Timer>,
    /// The next deadline of the links that a task has been told to wait for, and that task's waker.
    awaited: u64,
    waker: Option<Waker>,
    /// Packets that have left the links, for the inner socket and for the endpoint.
    outbox: VecDeque<Datagram>,
    inbox: VecDeque<Datagram>,
    errors: VecDeque<NetworkError>,
    buffers: Vec<Vec<u8>>,
}

impl ImpairedSocket {
    pub(super) fn new(
        inner: Box<dyn PacketSocket>,
        links: Arc<Mutex<Links>>,
        runtime: Arc<dyn Runtime>,
        origin: Instant,
    ) -> Self {
        let state = State {
            timer: runtime.clone().timer(),
            awaited: u64::MAX,
            waker: None,
            outbox: VecDeque::new(),
            inbox: VecDeque::new(),
            errors: VecDeque::new(),
            buffers: vec![vec![0; BUFFER_SIZE]; BUFFERS],
        };
        Self(Some(Impaired { inner, runtime, origin, links, state: Mutex::new(state) }))
    }
}

impl Deref for ImpairedSocket {
    type Target = Impaired;

    fn deref(&self) -> &Impaired {
        self.0.as_ref().expect("only who drops it takes it")
    }
}

impl Drop for ImpairedSocket {
    fn drop(&mut self) {
        let Some(socket) = self.0.take().filter(|socket| socket.lock().1.underway()) else {
            return;
        };
        let limit = socket.runtime.now() + LONGEST_DRAIN;
        let runtime = Arc::clone(&socket.runtime);
        runtime.spawn(Box::pin(poll_fn(move |cx| socket.drain(cx, limit))));
    }
}

impl Impaired {
    fn lock(&self) -> (MutexGuard<'_, State>, MutexGuard<'_, Links>) {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        (state, self.links.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn now(&self) -> u64 {
        let elapsed = self.runtime.now().saturating_since(self.origin);
        u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX)
    }

    /// The local address of a path.
    fn local(&self, known: Option<IpAddr>) -> IpAddr {
        known.unwrap_or(self.inner.local_address().ip())
    }

    /// Passes packets that have left the links to the inner socket, as many as it accepts.
    fn send_out(&self, state: &mut State, links: &mut Links, now: u64) {
        links.collect(now, Direction::Send, &mut state.outbox);
        while let Some(first) = state.outbox.pop_front() {
            // Send one packet at a time: each leaves its link at its own time.
            let datagrams = Datagrams {
                source: first.here,
                destination: first.there,
                ecn: first.ecn,
                segment_size: first.bytes.len(),
                may_fragment: first.may_fragment,
                contents: &first.bytes,
            };
            // As on a network, other errors are reported later, by the inner socket.
            if let Err(TransmitError::WouldBlock) = self.inner.try_send(&datagrams) {
                state.outbox.push_front(first);
                break;
            }
        }
        links.unsent = state.outbox.len();
    }

    /// Sends the remaining packets. Ready when none are left, or after `limit`.
    fn drain(&self, cx: &mut Context<'_>, limit: Instant) -> Poll<()> {
        for _ in 0..ROUNDS {
            let (mut state, mut links) = self.lock();
            self.send_out(&mut state, &mut links, self.now());
            if !links.underway() || self.runtime.now() >= limit {
                return Poll::Ready(());
            }
            if links.unsent > 0 && self.inner.poll_writable(cx).is_ready() {
                continue;
            }
            let due = links.next_departure().map_or(limit, |at| self.at(at));
            state.timer.reset(due.min(limit));
            if state.timer.poll(cx).is_pending() {
                return Poll::Pending;
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    /// Converts a time of the links to one of the runtime.
    fn at(&self, link_time: u64) -> Instant {
        Instant::from_nanos(link_time.saturating_add(self.origin.as_nanos()))
    }

    /// Passes packets that the inner socket has received to the links. Pending if there are none.
    fn take_in(
        &self,
        state: &mut State,
        links: &mut Links,
        cx: &mut Context<'_>,
        now: u64,
    ) -> Poll<io::Result<()>> {
        let mut batches = [Batch::default(); BUFFERS];
        let mut buffers: Vec<_> =
            state.buffers.iter_mut().map(|buffer| IoSliceMut::new(buffer)).collect();
        let count = match self.inner.poll_receive(cx, &mut buffers, &mut batches) {
            Poll::Ready(Ok(count)) => count,
            Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
            Poll::Pending => return Poll::Pending,
        };
        for (batch, buffer) in batches.iter().zip(&state.buffers).take(count) {
            let contents = buffer.get(..batch.len).unwrap_or_default();
            let size = if batch.segment_size == 0 { batch.len } else { batch.segment_size };
            for bytes in contents.chunks(size.max(1)) {
                let datagram = Datagram {
                    here: batch.destination,
                    there: batch.source,
                    ecn: batch.ecn,
                    may_fragment: false,
                    size: 0,
                    bytes: Bytes::copy_from_slice(bytes),
                };
                let local = self.local(batch.destination);
                match links.offer(now, local, Direction::Receive, datagram) {
                    Offered::Free(datagram) if state.inbox.len() < MOST_HELD => {
                        state.inbox.push_back(datagram);
                    }
                    // The sender is remote; an ICMP message, which is not simulated, would report this
                    // to it.
                    Offered::Free(_) | Offered::Taken | Offered::TooBig(_) => {}
                }
            }
        }
        Poll::Ready(Ok(()))
    }
}

/// Copies datagrams into the caller's buffers, one into each. Returns how many.
fn deliver(
    inbox: &mut VecDeque<Datagram>,
    buffers: &mut [IoSliceMut<'_>],
    batches: &mut [Batch],
) -> usize {
    let mut count = 0;
    for (buffer, batch) in buffers.iter_mut().zip(batches) {
        let Some(datagram) = inbox.pop_front() else {
            break;
        };
        let len = datagram.bytes.len().min(buffer.len());
        for (to, from) in buffer.iter_mut().zip(&datagram.bytes) {
            *to = *from;
        }
        *batch = Batch {
            source: datagram.there,
            destination: datagram.here,
            ecn: datagram.ecn,
            segment_size: len,
            len,
        };
        count += 1;
    }
    count
}

impl PacketSocket for ImpairedSocket {
    fn local_address(&self) -> SocketAddr {
        self.inner.local_address()
    }

    fn poll_writable(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.inner.poll_writable(cx)
    }

    fn try_send(&self, datagrams: &Datagrams<'_>) -> Result<usize, TransmitError> {
        let (mut state, mut links) = self.lock();
        let now = self.now();
        let local = self.local(datagrams.source);
        let mut taken = 0;
        for bytes in datagrams.contents.chunks(datagrams.segment_size.max(1)) {
            let datagram = Datagram {
                here: datagrams.source,
                there: datagrams.destination,
                ecn: datagrams.ecn,
                may_fragment: datagrams.may_fragment,
                size: 0,
                bytes: Bytes::copy_from_slice(bytes),
            };
            match links.offer(now, local, Direction::Send, datagram) {
                Offered::Taken => taken += bytes.len(),
                Offered::Free(_) if taken > 0 => break,
                Offered::Free(_) => return self.inner.try_send(datagrams),
                Offered::TooBig(mtu) => {
                    // All datagrams have the same size, except the last one, which may be smaller.
                    state.errors.push_back(NetworkError {
                        destination: datagrams.destination,
                        source: datagrams.source,
                        kind: NetworkErrorKind::LocalMtu(u16::try_from(mtu).unwrap_or(u16::MAX)),
                        quoted: Bytes::new(),
                    });
                    return Err(TransmitError::TooBig);
                }
            }
        }
        self.send_out(&mut state, &mut links, now);
        // A task that only waits for arrivals must also move sent packets on.
        let due = links.next_deadline().unwrap_or(u64::MAX);
        if due < state.awaited
            && let Some(waker) = state.waker.take()
        {
            waker.wake();
        }
        Ok(taken)
    }

    fn poll_receive(
        &self,
        cx: &mut Context<'_>,
        buffers: &mut [IoSliceMut<'_>],
        batches: &mut [Batch],
    ) -> Poll<io::Result<usize>> {
        let (mut state, mut links) = self.lock();
        let state = &mut *state;
        for _ in 0..ROUNDS {
            let now = self.now();
            self.send_out(state, &mut links, now);
            let received = self.take_in(state, &mut links, cx, now);
            links.collect(now, Direction::Receive, &mut state.inbox);
            let count = deliver(&mut state.inbox, buffers, batches);
            if count > 0 {
                return Poll::Ready(Ok(count));
            }
            match received {
                Poll::Ready(Ok(())) => continue,
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                Poll::Pending => {}
            }
            if !state.outbox.is_empty() && self.inner.poll_writable(cx).is_ready() {
                continue;
            }
            state.waker = Some(cx.waker().clone());
            state.awaited = links.next_deadline().unwrap_or(u64::MAX);
            let Some(deadline) = links.next_deadline() else {
                return Poll::Pending;
            };
            state.timer.reset(self.at(deadline));
            if state.timer.poll(cx).is_pending() {
                return Poll::Pending;
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    fn max_segments(&self) -> usize {
        self.inner.max_segments()
    }

    fn has_neighbours(&self) -> bool {
        self.inner.has_neighbours()
    }

    fn look_again(&self) {
        self.inner.look_again();
    }

    fn refresh(&self) {
        self.inner.refresh();
    }

    fn poll_error(&self, cx: &mut Context<'_>) -> Poll<()> {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.errors.is_empty() { self.inner.poll_error(cx) } else { Poll::Ready(()) }
    }

    fn next_error(&self) -> Option<NetworkError> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.errors.pop_front().or_else(|| self.inner.next_error())
    }
}
