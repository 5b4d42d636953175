//! The task that runs an endpoint. No other code uses the sockets.
//!
//! It passes datagrams between the sockets and the engine, runs the engine's timer, and distributes its events. It uses
//! the engine under the lock, and the sockets without it.

mod apart;
mod busy_poll;
mod siblings;

use std::future::Future;
use std::io::IoSliceMut;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use anabranch_proto::{IcmpMessage, Instant, Received, TagMark, Transmit};
use bytes::{Bytes, BytesMut};

use crate::buffers::BufferPool;
use crate::capture::Capture;
use crate::runtime::{AddressWatch, Batch, NetworkError, NetworkErrorKind, Timer};
use crate::shared::{Guard, Handed, Shared};
use crate::sockets::{OpenedSocket, Problem, SocketSet};
use crate::strangers::Strangers;

use self::busy_poll::BusyPoll;
pub(crate) use siblings::Siblings;

/// Maximum number of batches received with one call.
const BATCHES: usize = 8;

/// Maximum bytes taken from the engine before the lock is released to send them.
const MOST_TAKEN: usize = 512 * 1024;

/// Maximum rounds before the task yields to others.
const ROUNDS: usize = 8;

/// Number of consecutive receive errors after which the sockets are not read until the next event.
const MOST_ERRORS: u32 = 64;

/// If reading the host's addresses failed, they are read again after this time.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// If a socket was reported writable but blocked, it is tried again after this time.
const RETRY: Duration = Duration::from_millis(1);

/// Timers of usual runtimes are not finer than this.
const TIMER_UNIT: Duration = Duration::from_millis(1);

/// The result of polling all sockets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Arrivals {
    /// Everything was received, and the task will be woken for more.
    None,
    /// There was an error; there may be more data.
    Some,
    /// A task was waiting for the data, or there is probably more of it.
    Many,
}

/// The endpoint's task.
#[derive(Debug)]
pub(crate) struct Driver {
    shared: Arc<Shared>,
    span: tracing::Span,
    sockets: SocketSet,
    siblings: Siblings,
    capture: Option<Capture>,
    pool: BufferPool,
    receive_buffers: [BytesMut; BATCHES],
    batches: [Batch; BATCHES],
    /// Packets for this shard that one call received.
    arrived: Vec<(Received, Bytes)>,
    /// Receive errors since the last success.
    receive_errors: u32,
    /// The last poll woke other tasks, whose packets are sent before the next one.
    others_first: bool,
    /// If this task yields, the tasks that an arrival woke run next.
    takes_turns: bool,
    strangers: Strangers,
    busy_poll: BusyPoll,
    /// The mark of all verification tags of the endpoint.
    mark: TagMark,
    timer: Box<dyn Timer>,
    address_watch: Option<Box<dyn AddressWatch>>,
    /// When the host's addresses are read again even without a notification of a change.
    look_at_addresses: Option<Instant>,
    /// Sockets for more addresses, taken from the shared state.
    opened: Vec<OpenedSocket>,
    /// The deadline that the timer is set to.
    armed: Option<Instant>,
    /// Transmits taken from the engine, and their bytes in sequence.
    taken: Vec<Transmit>,
    bytes: Vec<u8>,
}

impl Driver {
    pub(crate) fn new(
        shared: Arc<Shared>,
        sockets: SocketSet,
        siblings: Siblings,
        mark: TagMark,
        capture: Option<Capture>,
        busy_poll: Duration,
    ) -> Self {
        let mut pool = BufferPool::default();
        let receive_buffers = std::array::from_fn(|_| pool.take());
        let timer = shared.runtime.clone().timer();
        let address_watch = shared.runtime.watch_addresses();
        // The addresses may have changed between the first reading, which chose the sockets, and the watch.
        let look_at_addresses = address_watch.is_some().then(|| shared.runtime.now());
        let takes_turns = shared.runtime.takes_turns();
        let in_turn = if takes_turns { siblings.count() } else { 1 };
        let strangers = Strangers::new(shared.runtime.now(), in_turn);
        let span = tracing::debug_span!("endpoint", udp_port = sockets.udp_port());
        Self {
            shared,
            span,
            sockets,
            siblings,
            capture,
            pool,
            receive_buffers,
            batches: [Batch::default(); BATCHES],
            arrived: Vec::with_capacity(BATCHES),
            receive_errors: 0,
            others_first: false,
            takes_turns,
            strangers,
            busy_poll: BusyPoll::new(busy_poll),
            mark,
            timer,
            address_watch,
            look_at_addresses,
            opened: Vec::new(),
            armed: None,
            taken: Vec::new(),
            bytes: Vec::new(),
        }
    }

    /// Runs `act` on the engine, then empties its queues and sends until nothing is left. Returns whether
    /// that woke a task.
    fn drain(&mut self, now: Instant, act: impl FnOnce(&mut Guard<'_>)) -> bool {
        let shared = self.shared.clone();
        let mut guard = shared.lock();
        act(&mut guard);
        let mut woke = false;
        loop {
            let more = self.take(&mut guard, now);
            guard.statistics = self.sockets.statistics;
            woke |= guard.wakes_somebody();
            drop(guard);
            for opened in self.opened.drain(..) {
                self.sockets.add(opened);
                self.look_at_addresses = Some(now);
            }
            self.send_taken(now);
            if !more {
                return woke;
            }
            guard = shared.lock();
        }
    }

    /// Collects transmits and events of the engine. Returns whether there may be more.
    fn take(&mut self, guard: &mut Guard<'_>, now: Instant) -> bool {
        self.opened.append(&mut guard.opened);
        let segments = self.sockets.max_segments();
        self.taken.append(&mut guard.unsent.transmits);
        self.bytes.append(&mut guard.unsent.bytes);
        loop {
            while self.bytes.len() < MOST_TAKEN {
                match guard.engine.poll_transmit(now, segments, &mut self.bytes) {
                    Some(transmit) => self.taken.push(transmit),
                    None => break,
                }
            }
            // Handling an event may change the engine, so that a packet must be sent.
            if !guard.handle_events(now) {
                return self.bytes.len() >= MOST_TAKEN;
            }
            if self.bytes.len() >= MOST_TAKEN {
                return true;
            }
        }
    }

    fn send_taken(&mut self, now: Instant) {
        let mut taken = std::mem::take(&mut self.taken);
        let mut bytes = std::mem::take(&mut self.bytes);
        let mut rest = &bytes[..];
        for transmit in &taken {
            let Some((contents, after)) = rest.split_at_checked(transmit.len) else {
                break;
            };
            rest = after;
            if transmit.out_of_the_blue && !self.sockets.may_answer(now, transmit.local) {
                continue;
            }
            self.busy_poll.sent(transmit);
            tracing::trace!(
                name: "transport:datagrams_sent",
                local = %transmit.local,
                remote = %transmit.remote,
                len = transmit.len,
                segment_size = transmit.segment_size,
            );
            if let Some(capture) = &self.capture {
                let from = SocketAddr::new(transmit.local, self.sockets.udp_port());
                let to = SocketAddr::new(transmit.remote, transmit.remote_udp_port);
                let (ecn, size) = (transmit.ecn, transmit.segment_size);
                capture.datagrams(now, from, to, ecn, size, contents);
            }
            self.sockets.find_outlet(&*self.shared.runtime, now, transmit);
            self.sockets.send(transmit, contents);
        }
        taken.clear();
        bytes.clear();
        (self.taken, self.bytes) = (taken, bytes);
    }

    /// Passes address changes to the engine, if the host reports any.
    fn follow_addresses(&mut self, cx: &mut Context<'_>, now: Instant) {
        let changed = |watch: &mut Box<dyn AddressWatch>| watch.poll_changed(cx).is_ready();
        let told = self.address_watch.as_mut().is_some_and(changed);
        if !told && self.look_at_addresses.is_none_or(|at| now < at) {
            return;
        }
        let runtime = self.shared.runtime.clone();
        let changes = match self.sockets.look_at_addresses(&*runtime) {
            Ok(changes) => changes,
            Err(error) => {
                tracing::debug!(%error, "cannot tell which local addresses there are");
                self.look_at_addresses = Some(now + LOOK_AGAIN);
                return;
            }
        };
        self.look_at_addresses = changes.again.then(|| now + LOOK_AGAIN);
        if changes.lost.is_empty() && changes.gained.is_empty() {
            return;
        }
        tracing::debug!(name: "connectivity:addresses_changed", ?changes);
        let addresses = self.sockets.addresses().to_vec();
        let general = self.sockets.general_addresses();
        self.drain(now, |guard| {
            guard.engine.set_local_addresses(now, &general);
            guard.addresses = addresses;
            for (ips, usable) in [(changes.lost, false), (changes.gained, true)] {
                for ip in ips {
                    guard.engine.handle_local_address(now, ip, usable);
                }
            }
        });
    }

    /// Passes send errors to the engine. Returns whether there were any.
    fn report_problems(&mut self, now: Instant) -> bool {
        let problems = self.sockets.take_problems();
        let any = !problems.is_empty();
        for problem in problems {
            // This happens before this shard's own lock is taken.
            let problem = match problem {
                Problem::Network { local, error } => {
                    match self.siblings.sort_report(local, error) {
                        Some(error) => Problem::Network { local, error },
                        None => continue,
                    }
                }
                other => other,
            };
            self.drain(now, |guard| match problem {
                Problem::SendFailed { local, remote, quoted } => {
                    guard.engine.handle_send_error(now, local, remote, &quoted);
                }
                Problem::TooBig { local, remote, mtu, quoted } => {
                    guard.engine.handle_message_too_big(now, local, remote, mtu, &quoted);
                }
                Problem::Network { local, error } => {
                    report(guard, now, local, &error);
                }
            });
        }
        any
    }

    /// Receives everything from each socket, up to one full call.
    fn receive(&mut self, cx: &mut Context<'_>, now: Instant) -> Arrivals {
        let mut arrivals = Arrivals::None;
        for index in 0..self.sockets.len() {
            for round in 1..=ROUNDS {
                let mut buffers: [IoSliceMut<'_>; BATCHES] =
                    self.receive_buffers.each_mut().map(|buffer| IoSliceMut::new(buffer));
                let Some((socket, bound)) = self.sockets.get(index) else {
                    break;
                };
                if self.busy_poll.is_awake(now) {
                    socket.look_again();
                }
                let count = match socket.poll_receive(cx, &mut buffers, &mut self.batches) {
                    Poll::Pending => break,
                    Poll::Ready(Ok(count)) => count,
                    Poll::Ready(Err(error)) => {
                        // The error is that of an earlier send; it does not affect receiving.
                        tracing::debug!(name: "transport:receive_error", local = %bound, %error);
                        self.sockets.collect_errors(index);
                        // A socket that always fails must not keep the task busy.
                        self.receive_errors += 1;
                        if self.receive_errors < MOST_ERRORS {
                            arrivals = arrivals.max(Arrivals::Some);
                        }
                        break;
                    }
                };
                self.receive_errors = 0;
                self.busy_poll.received();
                let woke = self.take_batches(now, bound, count, Handed::Packets);
                // With several threads, yielding would only wake another thread to run this task.
                let make_way = woke && self.takes_turns;
                if make_way || count == BATCHES || round == ROUNDS {
                    arrivals = Arrivals::Many;
                    break;
                }
            }
        }
        arrivals
    }

    /// Passes the batches of one call to the engine, and only then sends its answers: an acknowledgement costs as much
    /// as a batch, and one is enough for several. Returns whether a task was waiting for the data.
    fn take_batches(
        &mut self,
        now: Instant,
        bound: IpAddr,
        count: usize,
        handed: fn(Received, Bytes) -> Handed,
    ) -> bool {
        let mut arrived = std::mem::take(&mut self.arrived);
        for slot in 0..count {
            if let Some((received, bytes)) = self.take_batch(now, bound, slot) {
                self.siblings.sort(received, bytes, handed, &mut arrived);
            }
        }
        // Apply earlier calls of the application first: if it aborted an association, the answer to a packet for that
        // association must not overtake the ABORT.
        if self.shared.lock().driver_is_wanted() {
            self.drain(now, |_| {});
        }
        let woke = self.drain(now, |guard| {
            for (received, bytes) in arrived.drain(..) {
                guard.engine.handle_batch(now, &received, bytes);
            }
        });
        self.arrived = arrived;
        woke
    }

    /// Takes one received batch out of its buffer.
    fn take_batch(
        &mut self,
        now: Instant,
        bound: IpAddr,
        slot: usize,
    ) -> Option<(Received, Bytes)> {
        let (batch, buffer) =
            (self.batches.get(slot).copied()?, self.receive_buffers.get_mut(slot)?);
        let local = if bound.is_unspecified() { batch.destination.unwrap_or(bound) } else { bound };
        let remote = batch.source.ip();
        // req: rfc9260 8.4 "is to or from a non-unicast address"
        if batch.len == 0 || local.is_multicast() || local.is_unspecified() {
            return None;
        }
        let segment_size = if batch.segment_size == 0 { batch.len } else { batch.segment_size };
        tracing::trace!(
            name: "transport:datagrams_received",
            %local,
            %remote,
            len = batch.len,
            segment_size,
        );
        self.sockets.statistics.batches_received += 1;
        self.sockets.statistics.datagrams_received += batch.len.div_ceil(segment_size) as u64;
        let bytes = self.pool.detach(buffer, batch.len);
        if let Some(capture) = &self.capture {
            let to = SocketAddr::new(local, self.sockets.udp_port());
            capture.datagrams(now, batch.source, to, batch.ecn, segment_size, &bytes);
        }
        let remote_udp_port = batch.source.port();
        let received = Received { local, remote, remote_udp_port, ecn: batch.ecn, segment_size };
        Some((received, bytes))
    }

    /// Ends the task, or has it wait for what comes next. Returns nothing if something is due already.
    fn wait(
        &mut self,
        cx: &mut Context<'_>,
        now: Instant,
        retry: bool,
        strangers_wait: bool,
    ) -> Option<Poll<()>> {
        let guard = self.shared.lock();
        if guard.is_finished() {
            return Some(Poll::Ready(()));
        }
        let mut deadline = guard.next_deadline();
        drop(guard);
        let retry = retry.then(|| now + RETRY);
        for soon in [retry, self.look_at_addresses].into_iter().flatten() {
            deadline = Some(deadline.map_or(soon, |deadline| deadline.min(soon)));
        }
        if let Some(capture) = &self.capture {
            capture.flush();
        }
        if strangers_wait {
            self.shared.runtime.make_way(cx);
            return Some(Poll::Pending);
        }
        if !self.arm(cx, now, deadline) {
            return None;
        }
        if self.busy_poll.stays_awake(now) {
            // Other tasks run first.
            cx.waker().wake_by_ref();
        }
        Some(Poll::Pending)
    }

    /// Sets the timer. Returns false if its time has already come.
    fn arm(&mut self, cx: &mut Context<'_>, now: Instant, deadline: Option<Instant>) -> bool {
        let Some(deadline) = deadline else {
            return true;
        };
        // A deadline of pacing may have passed while packets were sent. The timer, whose unit is a millisecond, would be
        // late by most of one.
        let is_near = deadline.saturating_since(now) < TIMER_UNIT;
        if deadline <= now || is_near && deadline <= self.shared.runtime.now() {
            return false;
        }
        // Setting the timer costs more than a check after an early expiry, so the timer is only ever moved to an
        // earlier time.
        if self.armed.is_none_or(|armed| deadline < armed) {
            self.timer.reset(deadline);
            self.armed = Some(deadline);
        }
        while self.timer.poll(cx).is_ready() {
            if deadline <= self.shared.runtime.now() {
                self.armed = None;
                return false;
            }
            self.timer.reset(deadline);
            self.armed = Some(deadline);
        }
        true
    }
}

/// Passes packets that other shards have received to the engine.
fn take_handed(guard: &mut Guard<'_>, now: Instant, handed: impl IntoIterator<Item = Handed>) {
    for handed in handed {
        match handed {
            Handed::Packets(received, bytes) | Handed::Strangers(received, bytes) => {
                guard.engine.handle_batch(now, &received, bytes);
            }
            Handed::Report(local, error) => report(guard, now, local, &error),
        }
    }
}

/// Passes an ICMP message to the engine.
fn report(guard: &mut Guard<'_>, now: Instant, local: IpAddr, error: &NetworkError) {
    let remote = error.destination.ip();
    match error.kind {
        NetworkErrorKind::Icmp(kind) => {
            tracing::debug!(name: "transport:icmp_received", %local, %remote, ?kind);
            let message = IcmpMessage { local, remote, kind, quoted: &error.quoted };
            guard.engine.handle_icmp(now, &message);
        }
        NetworkErrorKind::PathAnswers => {
            tracing::debug!(name: "connectivity:path_answers", %local, %remote);
            guard.engine.handle_path_answer(now, local, remote);
        }
        NetworkErrorKind::PeerGone => guard.engine.handle_peer_gone(now, remote),
        NetworkErrorKind::LocalMtu(_) | NetworkErrorKind::Other => {}
    }
}

impl Future for Driver {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = self.get_mut();
        let span = this.span.clone();
        let _entered = span.enter();
        for round in 0..ROUNDS {
            let now = this.shared.runtime.now();
            let packets = this.sockets.packets();
            let sockets = this.sockets.len();
            // This task was most likely woken by an arrival. The tasks that it wakes run before any other work here,
            // and their packets are sent before the next poll.
            let mut arrivals = Arrivals::None;
            let look_now = !std::mem::take(&mut this.others_first);
            if look_now {
                arrivals = this.receive(cx, now);
                this.others_first = arrivals == Arrivals::Many;
                if this.others_first {
                    break;
                }
            }
            let waker = cx.waker();
            let mut strangers = (0, false);
            this.drain(now, |guard| {
                guard.driver_looks(waker);
                guard.end_lingering(now);
                if guard.engine.next_deadline().is_some_and(|deadline| deadline <= now) {
                    guard.engine.handle_timeout(now);
                }
                let handed = guard.handed.take_packets();
                take_handed(guard, now, handed);
                let listening = !guard.listeners.is_empty();
                strangers = (guard.engine.unsolicited_packets(), listening);
            });
            this.guard_associations(now, strangers.0, strangers.1);
            this.follow_addresses(cx, now);
            let retry = this.sockets.flush(cx);
            if !look_now {
                arrivals = this.receive(cx, now);
            }
            let idle = round == 0 && this.sockets.packets() == packets;
            let strangers_wait = this.receive_apart(cx, now, idle);
            let reported = this.sockets.poll_errors(cx);
            let problems = this.report_problems(now);
            if arrivals == Arrivals::Many {
                this.others_first = true;
                break;
            }
            // A new socket has not been looked at yet.
            let opened = this.sockets.len() > sockets;
            if arrivals == Arrivals::Some || problems || reported || opened {
                continue;
            }
            if let Some(waiting) = this.wait(cx, now, retry, strangers_wait) {
                return waiting;
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        // The files are complete and the ports free before the waiting tasks are woken.
        self.capture = None;
        let log = self.shared.lock().engine.take_log();
        drop(log);
        self.sockets.close();
        self.shared.lock().close_all();
    }
}
