//! The socket that an endpoint with sealed paths has: its addresses are virtual, and what it sends and receives goes
//! through the seal.

use std::collections::VecDeque;
use std::io::{self, IoSliceMut};
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use anabranch_seal::{OVERHEAD, Route, SealError, Sealed};
use bytes::Bytes;

use super::OnAdmitted;
use super::core::Core;
use crate::SCTP_UDP_PORT;
use crate::runtime::{
    Batch, Datagrams, Encapsulation, Instant, NetworkError, NetworkErrorKind, PacketSocket,
    Runtime, Timer, TransmitError,
};

/// Maximum bytes of one send call: the maximum of a UDP length field minus headers.
const MOST_BYTES: usize = 65_535 - 40 - 8;

/// Times that the real sockets are polled before yielding to other tasks.
const ROUNDS: usize = 64;

/// Errors that wait to be read.
const MOST_ERRORS: usize = 16;

/// The socket of an endpoint with sealed paths.
#[derive(Debug)]
pub(super) struct SealedSocket {
    core: Arc<Mutex<Core>>,
    runtime: Arc<dyn Runtime>,
    on_admitted: Option<OnAdmitted>,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    timer: Box<dyn Timer>,
    /// Sealed datagrams of one call.
    sealed: Vec<u8>,
    errors: VecDeque<NetworkError>,
    /// The real socket that is polled first.
    turn: usize,
}

impl SealedSocket {
    pub(super) fn new(
        core: Arc<Mutex<Core>>,
        runtime: Arc<dyn Runtime>,
        on_admitted: Option<OnAdmitted>,
    ) -> Self {
        let state = State {
            timer: runtime.clone().timer(),
            sealed: Vec::new(),
            errors: VecDeque::new(),
            turn: 0,
        };
        Self { core, runtime, on_admitted, state: Mutex::new(state) }
    }

    fn lock(&self) -> (MutexGuard<'_, State>, MutexGuard<'_, Core>) {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        (state, self.core.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn core(&self) -> MutexGuard<'_, Core> {
        self.core.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Seals the first datagrams, as many as fit one call, and sends them.
    fn seal_and_send(&self, datagrams: &Datagrams<'_>) -> Result<usize, TransmitError> {
        let (mut state, mut core) = self.lock();
        let (state, core) = (&mut *state, &mut *core);
        if core.is_blocked() {
            return Err(TransmitError::WouldBlock);
        }
        let size = datagrams.segment_size.max(1);
        let most = (MOST_BYTES / (size + OVERHEAD)).max(1) * size;
        let packets = datagrams.contents.get(..most).unwrap_or(datagrams.contents);
        let remote = datagrams.destination.ip();
        let local = datagrams.source.unwrap_or(Ipv6Addr::UNSPECIFIED.into());
        state.sealed.clear();
        let now = self.runtime.now();
        let sealed = core.engine.seal(now, (local, remote), packets, size, &mut state.sealed);
        let sent = match sealed {
            Ok(Sealed::Queued) => Ok(()),
            Ok(Sealed::Send { route, segment_size }) => {
                let real = route.remote.ip();
                let sent = core.send(
                    route.clone(),
                    segment_size,
                    &state.sealed,
                    datagrams.ecn,
                    datagrams.may_fragment,
                );
                if matches!(sent, Err(TransmitError::TooBig)) {
                    note_too_big(core, state, &route, real, (local, datagrams.destination));
                }
                sent
            }
            Err(SealError::NoPeer | SealError::Down) => {
                Err(TransmitError::Failed(io::ErrorKind::NetworkUnreachable.into()))
            }
            Err(SealError::Unverified | SealError::UsedUp) => Err(TransmitError::Dropped),
        };
        core.send_transmits();
        // A task that only waits for arrivals must also wait for this deadline.
        if core.engine.next_deadline().is_some_and(|deadline| deadline < core.awaited)
            && let Some(waker) = core.waker.take()
        {
            waker.wake();
        }
        sent.map(|()| packets.len())
    }

    /// Receives from the real sockets in turn until something is for the endpoint.
    fn receive(
        &self,
        state: &mut State,
        core: &mut Core,
        cx: &mut Context<'_>,
        buffers: &mut [IoSliceMut<'_>],
        batches: &mut [Batch],
    ) -> Poll<io::Result<usize>> {
        for _ in 0..ROUNDS {
            let now = self.runtime.now();
            if core.engine.next_deadline().is_some_and(|deadline| deadline <= now) {
                core.engine.handle_timeout(now);
            }
            core.send_transmits();
            let _ = core.poll_flush(cx);
            let count = core.sockets.len().max(1);
            let mut received = false;
            for offset in 0..count {
                let index = (state.turn + offset) % count;
                match self.take_in(core, index, cx, buffers, batches) {
                    Poll::Pending => {}
                    Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                    Poll::Ready(Ok((count, any))) => {
                        // Answers of the seal leave before the endpoint looks at the packets.
                        core.send_transmits();
                        received = true;
                        if any {
                            state.turn = index + 1;
                            return Poll::Ready(Ok(count));
                        }
                    }
                }
            }
            if received {
                continue;
            }
            core.waker = Some(cx.waker().clone());
            let deadline = core.engine.next_deadline();
            core.awaited = deadline.unwrap_or(Instant::FAR_FUTURE);
            let Some(deadline) = deadline else { return Poll::Pending };
            state.timer.reset(deadline);
            if state.timer.poll(cx).is_pending() {
                return Poll::Pending;
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    /// Receives from one real socket, and opens what arrived in place. Returns how many buffers were used, and whether
    /// any has something for the endpoint.
    fn take_in(
        &self,
        core: &mut Core,
        index: usize,
        cx: &mut Context<'_>,
        buffers: &mut [IoSliceMut<'_>],
        batches: &mut [Batch],
    ) -> Poll<io::Result<(usize, bool)>> {
        let Some(Some(socket)) = core.sockets.get(index) else { return Poll::Pending };
        let bound = socket.local_address().ip();
        let count = match socket.poll_receive(cx, buffers, batches) {
            Poll::Pending => return Poll::Pending,
            Poll::Ready(Ok(count)) => count,
            Poll::Ready(Err(error)) => {
                // Anybody can forge what the network reports, so paths do not depend on it.
                while socket.next_error().is_some() {}
                return Poll::Ready(Err(error));
            }
        };
        let now = self.runtime.now();
        let mut any = false;
        for (buffer, batch) in buffers.iter_mut().zip(batches.iter_mut()).take(count) {
            let local = batch.destination.filter(|_| core.listens && bound.is_unspecified());
            let route = Route { socket: index, local, remote: unmapped(batch.source) };
            let len = batch.len.min(buffer.len());
            let opened = core.engine.open(now, &route, &mut buffer[..len], batch.segment_size);
            batch.len = 0;
            if let Some(opened) = opened {
                any = true;
                batch.source = SocketAddr::new(opened.remote.into(), SCTP_UDP_PORT);
                batch.destination = Some(opened.local.into());
                (batch.segment_size, batch.len) = (opened.segment_size, opened.len);
            }
        }
        Poll::Ready(Ok((count, any)))
    }
}

impl Drop for SealedSocket {
    /// Closes the real sockets: handles may outlive the endpoint.
    fn drop(&mut self) {
        self.core().close();
    }
}

/// The same address without an IPv6 notation of IPv4, in which other systems report it.
fn unmapped(address: SocketAddr) -> SocketAddr {
    match address {
        SocketAddr::V6(v6) if v6.ip().to_ipv4_mapped().is_some() => {
            SocketAddr::new(address.ip().to_canonical(), address.port())
        }
        _ => address,
    }
}

/// Reports the MTU of the interface that a sealed datagram did not fit, as the engine counts: with the headers of UDP
/// and IPv6, and the seal.
fn note_too_big(
    core: &Core,
    state: &mut State,
    route: &Route,
    real: IpAddr,
    (local, remote): (IpAddr, SocketAddr),
) {
    let Some(Some(socket)) = core.sockets.get(route.socket) else { return };
    while let Some(error) = socket.next_error() {
        if let NetworkErrorKind::LocalMtu(mtu) = error.kind
            && state.errors.len() < MOST_ERRORS
        {
            let counted = Encapsulation::Udp.overhead(Ipv6Addr::UNSPECIFIED.into());
            let more = counted - Encapsulation::Udp.overhead(real);
            let mtu = mtu.saturating_add(u16::try_from(more).unwrap_or(0));
            let kind = NetworkErrorKind::LocalMtu(mtu);
            let (source, quoted) = (Some(local), Bytes::new());
            state.errors.push_back(NetworkError { destination: remote, source, kind, quoted });
        }
    }
}

/// A report about virtual addresses.
fn report(local: Option<Ipv6Addr>, remote: Ipv6Addr, kind: NetworkErrorKind) -> NetworkError {
    let destination = SocketAddr::new(remote.into(), SCTP_UDP_PORT);
    NetworkError { destination, source: local.map(IpAddr::from), kind, quoted: Bytes::new() }
}

impl PacketSocket for SealedSocket {
    fn local_address(&self) -> SocketAddr {
        SocketAddr::new(Ipv6Addr::UNSPECIFIED.into(), self.core().port())
    }

    fn poll_writable(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.core().poll_flush(cx).map(Ok)
    }

    fn try_send(&self, datagrams: &Datagrams<'_>) -> Result<usize, TransmitError> {
        self.seal_and_send(datagrams)
    }

    fn poll_receive(
        &self,
        cx: &mut Context<'_>,
        buffers: &mut [IoSliceMut<'_>],
        batches: &mut [Batch],
    ) -> Poll<io::Result<usize>> {
        let (mut state, mut core) = self.lock();
        let received = self.receive(&mut state, &mut core, cx, buffers, batches);
        let admitted = core.engine.take_admitted();
        drop((state, core));
        if let Some(OnAdmitted(store)) = &self.on_admitted {
            admitted.into_iter().for_each(|key| store(key));
        }
        received
    }

    fn max_segments(&self) -> usize {
        let core = self.core();
        let sockets = core.sockets.iter().flatten();
        sockets.map(|socket| socket.max_segments()).min().unwrap_or(1)
    }

    fn look_again(&self) {
        self.core().sockets.iter().flatten().for_each(|socket| socket.look_again());
    }

    fn refresh(&self) {
        self.core().sockets.iter().flatten().for_each(|socket| socket.refresh());
    }

    fn poll_error(&self, cx: &mut Context<'_>) -> Poll<()> {
        let (state, core) = self.lock();
        for socket in core.sockets.iter().flatten() {
            while socket.poll_error(cx).is_ready() {
                if socket.next_error().is_none() {
                    break;
                }
            }
        }
        let any = !state.errors.is_empty() || core.engine.has_reached() || core.engine.has_gone();
        if any { Poll::Ready(()) } else { Poll::Pending }
    }

    fn next_error(&self) -> Option<NetworkError> {
        let (mut state, mut core) = self.lock();
        while let Some(addresses) = core.engine.poll_gone() {
            state
                .errors
                .extend(addresses.map(|remote| report(None, remote, NetworkErrorKind::PeerGone)));
        }
        state.errors.pop_front().or_else(|| {
            let (local, remote) = core.engine.poll_reached()?;
            Some(report(Some(local), remote, NetworkErrorKind::PathAnswers))
        })
    }
}
