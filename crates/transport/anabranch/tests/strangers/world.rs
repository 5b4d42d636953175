//! An endpoint of the library on a network without a system: packets and time are counted.
//!
//! The driver's task is polled by hand, each packet that it receives costs it time of a virtual
//! clock, and the socket queues packets without an association separately, as the kernel does.

use std::collections::VecDeque;
use std::future::Future;
use std::io::{self, IoSliceMut};
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, SystemTime};

use anabranch::runtime::{
    Apart, Batch, Binding, Datagrams, Instant, LocalAddress, PacketSocket, Runtime, TagMark, Timer,
    TransmitError,
};

pub(crate) const SERVER: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 1));
pub(crate) const UDP_PORT: u16 = 9899;

/// Driver time for a packet, and for a turn of its task.
const PACKET: Duration = Duration::from_micros(8);
const TURN: Duration = Duration::from_micros(2);

/// Packets in a queue of the socket.
const ROOM: usize = 500;

/// The clock, the socket and the timer.
#[derive(Debug)]
pub(crate) struct Machine {
    pub(crate) now: Instant,
    mark: Option<TagMark>,
    /// Packets that wait for the driver: of associations, INITs, the rest.
    queues: [VecDeque<(SocketAddr, Vec<u8>)>; 3],
    pub(crate) sent: Vec<(SocketAddr, Vec<u8>)>,
    deadline: Option<Instant>,
}

#[derive(Clone, Debug)]
pub(crate) struct Shared(Arc<Mutex<Machine>>);

impl Shared {
    pub(crate) fn lock(&self) -> MutexGuard<'_, Machine> {
        self.0.lock().unwrap()
    }
}

impl Machine {
    /// A packet arrives. Returns whether there was room for it.
    fn arrive(&mut self, from: SocketAddr, packet: &[u8]) -> bool {
        let word = |at: usize| u32::from_be_bytes(std::array::from_fn(|byte| packet[at + byte]));
        let (ports, tag) = (word(0), word(4));
        let queue = match &self.mark {
            None => 0,
            Some(_) if packet[12] == 1 => 1,
            Some(mark) if mark.recognises(tag, (ports >> 16) as u16, ports as u16) => 0,
            Some(_) => 2,
        };
        let room = self.queues[queue].len() < ROOM;
        if room {
            self.queues[queue].push_back((from, packet.to_vec()));
        }
        room
    }

    fn take(
        &mut self,
        queue: usize,
        buffers: &mut [IoSliceMut<'_>],
        batches: &mut [Batch],
    ) -> Poll<io::Result<usize>> {
        let mut count = 0;
        for (buffer, batch) in buffers.iter_mut().zip(batches) {
            let Some((source, packet)) = self.queues[queue].pop_front() else { break };
            buffer[..packet.len()].copy_from_slice(&packet);
            *batch = Batch { source, segment_size: packet.len(), len: packet.len(), ..*batch };
            self.now += PACKET;
            count += 1;
        }
        if count == 0 { Poll::Pending } else { Poll::Ready(Ok(count)) }
    }
}

#[derive(Debug)]
struct Socket(Shared);

impl PacketSocket for Socket {
    fn local_address(&self) -> SocketAddr {
        (SERVER, UDP_PORT).into()
    }

    fn poll_writable(&self, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn try_send(&self, datagrams: &Datagrams<'_>) -> Result<usize, TransmitError> {
        let packets = datagrams.contents.chunks(datagrams.segment_size);
        let packets = packets.map(|packet| (datagrams.destination, packet.to_vec()));
        self.0.lock().sent.extend(packets);
        Ok(datagrams.contents.len())
    }

    fn max_segments(&self) -> usize {
        16
    }

    fn poll_receive(
        &self,
        _cx: &mut Context<'_>,
        buffers: &mut [IoSliceMut<'_>],
        batches: &mut [Batch],
    ) -> Poll<io::Result<usize>> {
        self.0.lock().take(0, buffers, batches)
    }

    fn keep_apart(&self, mark: &TagMark) -> bool {
        self.0.lock().mark = Some(*mark);
        true
    }

    fn poll_receive_apart(
        &self,
        apart: Apart,
        _cx: &mut Context<'_>,
        buffers: &mut [IoSliceMut<'_>],
        batches: &mut [Batch],
    ) -> Poll<io::Result<usize>> {
        let queue = if apart == Apart::Inits { 1 } else { 2 };
        self.0.lock().take(queue, buffers, batches)
    }
}

#[derive(Debug)]
struct Alarm(Shared, Option<Instant>);

impl Timer for Alarm {
    fn reset(&mut self, deadline: Instant) {
        self.1 = Some(deadline);
        self.0.lock().deadline = Some(deadline);
    }

    fn poll(&mut self, _cx: &mut Context<'_>) -> Poll<()> {
        let now = self.0.lock().now;
        if self.1.is_some_and(|deadline| deadline <= now) { Poll::Ready(()) } else { Poll::Pending }
    }
}

type Task = Pin<Box<dyn Future<Output = ()> + Send>>;

struct Virtual(Shared, Mutex<Vec<Task>>);

impl std::fmt::Debug for Virtual {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Virtual").finish_non_exhaustive()
    }
}

impl Runtime for Virtual {
    fn now(&self) -> Instant {
        self.0.lock().now
    }

    fn wall_clock(&self) -> SystemTime {
        SystemTime::UNIX_EPOCH
    }

    fn timer(self: Arc<Self>) -> Box<dyn Timer> {
        Box::new(Alarm(self.0.clone(), None))
    }

    fn spawn(&self, task: Task) {
        self.1.lock().unwrap().push(task);
    }

    fn bind(&self, _binding: &Binding) -> io::Result<Box<dyn PacketSocket>> {
        Ok(Box::new(Socket(self.0.clone())))
    }

    fn local_addresses(&self) -> io::Result<Vec<LocalAddress>> {
        Ok(vec![LocalAddress { ip: SERVER, interface: "virtual".into(), index: 1 }])
    }
}

struct Flag(AtomicBool);

impl Wake for Flag {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// A flood: a number of packets a second from a moment on, until another flood.
pub(crate) struct Flood {
    pub(crate) from: Instant,
    pub(crate) until: Instant,
    pub(crate) rate: u64,
    pub(crate) packet: crate::Packet,
}

/// The machine with an endpoint.
pub(crate) struct World {
    pub(crate) machine: Shared,
    _endpoint: anabranch::Endpoint,
    pub(crate) listener: anabranch::Listener,
    /// The accepted associations.
    pub(crate) associations: Vec<anabranch::Association>,
    task: Task,
    flag: Arc<Flag>,
    pub(crate) flood: Option<Flood>,
    /// Packets of the flood that came, and how many of them found no room.
    pub(crate) flooded: u64,
    pub(crate) refused: u64,
    /// Turns of the driver's task.
    pub(crate) turns: u64,
}

impl World {
    pub(crate) fn new() -> Self {
        let now = Instant::ZERO + Duration::from_secs(1);
        let queues = std::array::from_fn(|_| VecDeque::new());
        let machine = Machine { now, mark: None, queues, sent: Vec::new(), deadline: None };
        let machine = Shared(Arc::new(Mutex::new(machine)));
        let runtime = Arc::new(Virtual(machine.clone(), Mutex::new(Vec::new())));
        let builder = anabranch::Endpoint::builder().local_addresses([SERVER]);
        let endpoint =
            builder.udp_port(UDP_PORT).seed([5; 32]).runtime(runtime.clone()).bind().unwrap();
        let config = anabranch::AssociationConfig::default();
        let listener = endpoint.listen(crate::PORT, config).unwrap();
        let associations = Vec::new();
        let task = runtime.1.lock().unwrap().pop().unwrap();
        let flag = Arc::new(Flag(AtomicBool::new(true)));
        let (flood, flooded, refused, turns) = (None, 0, 0, 0);
        Self {
            machine,
            _endpoint: endpoint,
            listener,
            associations,
            task,
            flag,
            flood,
            flooded,
            refused,
            turns,
        }
    }

    pub(crate) fn now(&self) -> Instant {
        self.machine.lock().now
    }

    /// A packet arrives and wakes the driver. Returns whether there was room for it.
    pub(crate) fn arrive(&self, from: SocketAddr, packet: &[u8]) -> bool {
        self.flag.0.store(true, Ordering::Relaxed);
        self.machine.lock().arrive(from, packet)
    }

    /// Delivers the packets of the flood that are due. Returns when the next one comes.
    fn deliver(&mut self) -> Option<Instant> {
        let now = self.now();
        let flood = self.flood.take()?;
        let nth = |n: u64| flood.from + Duration::from_nanos(n * 1_000_000_000 / flood.rate);
        while nth(self.flooded) <= now && nth(self.flooded) < flood.until {
            let from = SocketAddr::from(([172, 16, 0, 1], 1024 + (self.flooded % 50_000) as u16));
            let room = self.arrive(from, &(flood.packet)(self.flooded));
            self.refused += u64::from(!room);
            self.flooded += 1;
        }
        let next = nth(self.flooded);
        let more = next < flood.until;
        self.flood = Some(flood);
        more.then_some(next)
    }

    /// One step: runs the driver's task if it was woken, else advances the time until something is
    /// due. Returns false if `until` has come.
    pub(crate) fn step(&mut self, until: Instant) -> bool {
        let next = self.deliver();
        let due = {
            let machine = self.machine.lock();
            if machine.now >= until {
                return false;
            }
            machine.deadline.is_some_and(|deadline| deadline <= machine.now)
        };
        if due {
            self.machine.lock().deadline = None;
            self.flag.0.store(true, Ordering::Relaxed);
        }
        if self.flag.0.swap(false, Ordering::Relaxed) {
            self.turns += 1;
            let waker = Waker::from(self.flag.clone());
            assert!(self.task.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
            self.machine.lock().now += TURN;
            let mut accept = std::pin::pin!(self.listener.accept());
            let mut cx = Context::from_waker(Waker::noop());
            if let Poll::Ready(association) = accept.as_mut().poll(&mut cx) {
                self.associations.extend(association);
            }
        } else {
            let mut machine = self.machine.lock();
            machine.now = [next, machine.deadline].into_iter().flatten().fold(until, Instant::min);
        }
        true
    }

    /// Continues for this time, with nothing but the flood.
    pub(crate) fn run(&mut self, time: Duration) {
        let until = self.now() + time;
        while self.step(until) {}
    }
}
