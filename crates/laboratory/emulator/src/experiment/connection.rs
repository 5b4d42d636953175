//! A transfer over a TCP connection between kernels.

use std::collections::HashMap;
use std::ffi::OsString;
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::net::{IpAddr, Ipv4Addr, SocketAddrV4, TcpListener, TcpStream};
use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use anabranch_lab::metrics::Metrics;
use anabranch_lab::observed::Observed;
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{
    AddressFamily, Backlog, SockFlag, SockType, SockaddrIn, bind, connect, getsockopt, listen,
    setsockopt, socket, sockopt,
};

use super::arrivals::Arrivals;
use super::ground::Ground;
use super::place::Place;
use super::{Course, counters};

/// Size of the timestamps option in each segment in bytes (RFC 7323 appendix A).
const TIMESTAMPS: u32 = 12;
/// Interval for checking whether the run is over.
const LOOK: Duration = Duration::from_millis(50);
/// Bytes written to or read from the kernel in one call.
const PIECE: usize = 1 << 20;

/// A transfer that has begun.
pub(super) struct Begun {
    index: usize,
    course: Course,
    arrivals: Arrivals,
    sender: JoinHandle<io::Result<HashMap<String, u64>>>,
    receiver: JoinHandle<io::Result<()>>,
}

/// One end of the transfer.
struct End {
    course: Course,
    arrivals: Arrivals,
    /// Set when the receiver has finished.
    done: Arc<AtomicBool>,
    local: Ipv4Addr,
    remote: Ipv4Addr,
    port: u16,
    bytes: u64,
    start: Duration,
}

pub(super) fn begin(ground: &Ground, course: &Course, index: usize) -> Result<Begun, String> {
    let failed = |error: io::Error| format!("TCP: {error}");
    let Place { transfer, start, from, to, local, remote, port } =
        Place::of(ground, course, index)?;
    let (IpAddr::V4(local), IpAddr::V4(remote)) = (local, remote) else {
        return Err("the primary path has no IPv4 addresses".into());
    };
    let arrivals = Arrivals::of(transfer.bytes());
    let done = Arc::new(AtomicBool::new(false));
    let end = |local, remote| End {
        course: course.clone(),
        arrivals: arrivals.clone(),
        done: Arc::clone(&done),
        local,
        remote,
        port,
        bytes: transfer.bytes(),
        start,
    };
    let (ready, wait) = channel();
    let (sending, receiving) = (end(local, remote), end(remote, local));
    let receiver = to.begin(move || receiving.receive(&ready)).map_err(failed)?;
    let sender = from.begin(move || sending.send(&wait)).map_err(failed)?;
    Ok(Begun { index, course: course.clone(), arrivals, sender, receiver })
}

impl Begun {
    /// Waits for its end.
    pub(super) fn end(self, metrics: &mut Metrics) -> Result<(usize, Observed), String> {
        let panicked = |_| "the transfer panicked".to_owned();
        let received = self.receiver.join().map_err(panicked)?;
        let sent = self.sender.join().map_err(panicked)?;
        let failed = |what: &str, error: &io::Error| format!("TCP, {what}: {error}");
        received.map_err(|error| failed("the receiver", &error))?;
        let counters = sent.map_err(|error| failed("the sender", &error))?;
        // The counters of several transfers cannot be told apart.
        if self.course.setup.transfers.len() == 1 {
            counters::of_sender(&counters, metrics);
        }
        Ok((self.index, self.arrivals.seen(self.course.now())))
    }
}

/// Whether to repeat a call.
fn again(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted)
}

/// Whether the error is a way in which the connection of a transfer may end.
fn is_end(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::ConnectionReset
            | ErrorKind::BrokenPipe
            | ErrorKind::ConnectionRefused
            | ErrorKind::HostUnreachable
            | ErrorKind::NotConnected
            | ErrorKind::ConnectionAborted
    )
}

impl End {
    fn socket(&self) -> io::Result<OwnedFd> {
        let flags = SockFlag::SOCK_NONBLOCK | SockFlag::SOCK_CLOEXEC;
        let fd = socket(AddressFamily::Inet, SockType::Stream, flags, None)?;
        let tcp = &self.course.setup.tcp;
        if tcp.is_given("segment") {
            // The kernel's segment size includes the timestamps, if they are used.
            let stamped = std::fs::read_to_string("/proc/sys/net/ipv4/tcp_timestamps")?;
            let options = if stamped.trim() == "0" { 0 } else { TIMESTAMPS };
            setsockopt(&fd, sockopt::TcpMaxSeg, &(u32::from(tcp.config.mss) + options))?;
        }
        if let Some(congestion) = tcp.congestion_of_kernels() {
            // The setting of the namespace would take only what the whole machine allows.
            setsockopt(&fd, sockopt::TcpCongestion, &OsString::from(congestion))?;
        }
        if tcp.is_given("send_buffer") {
            setsockopt(&fd, sockopt::SndBuf, &(tcp.config.send_buffer as usize))?;
        }
        if tcp.is_given("receive_buffer") {
            setsockopt(&fd, sockopt::RcvBuf, &(tcp.config.receive_buffer as usize))?;
        }
        setsockopt(&fd, sockopt::ReuseAddr, &true)?;
        Ok(fd)
    }

    /// Waits until a socket is ready. Returns false if the run is over first.
    fn ready(&self, socket: &impl std::os::fd::AsFd, flags: PollFlags) -> io::Result<bool> {
        loop {
            let mut waited = [PollFd::new(socket.as_fd(), flags)];
            let timeout = PollTimeout::try_from(LOOK).unwrap_or(PollTimeout::ZERO);
            match poll(&mut waited, timeout) {
                Ok(0) | Err(Errno::EINTR) if self.course.is_over() => return Ok(false),
                Ok(0) | Err(Errno::EINTR) => {}
                Ok(_) => return Ok(true),
                Err(error) => return Err(error.into()),
            }
        }
    }

    fn receive(&self, ready: &Sender<()>) -> io::Result<()> {
        let taken = self.take(ready);
        self.done.store(true, Ordering::Relaxed);
        match taken {
            Err(error) if is_end(&error) => Ok(()),
            taken => taken,
        }
    }

    fn take(&self, ready: &Sender<()>) -> io::Result<()> {
        let fd = self.socket()?;
        let port = SocketAddrV4::new(self.local, self.port);
        bind(std::os::fd::AsRawFd::as_raw_fd(&fd), &SockaddrIn::from(port))?;
        listen(&fd, Backlog::new(4)?)?;
        let listener = TcpListener::from(fd);
        // Sending fails only if the sender has ended.
        let _ = ready.send(());
        if !self.ready(&listener, PollFlags::POLLIN)? {
            return Ok(());
        }
        let (mut stream, _) = listener.accept()?;
        stream.set_nonblocking(false)?;
        stream.set_read_timeout(Some(LOOK))?;
        let mut room = vec![0; PIECE];
        while !self.course.is_over() {
            match stream.read(&mut room) {
                Ok(0) => break,
                Ok(bytes) => {
                    let now = self.course.now();
                    if self.arrivals.arrived(now, bytes) {
                        self.arrivals.completed(now);
                        break;
                    }
                }
                Err(error) if again(&error) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn send(&self, wait: &Receiver<()>) -> io::Result<HashMap<String, u64>> {
        match self.give(wait) {
            Err(error) if !is_end(&error) && error.kind() != ErrorKind::TimedOut => {
                return Err(error);
            }
            _ => {}
        }
        while !self.done.load(Ordering::Relaxed) && !self.course.is_over() {
            std::thread::sleep(Duration::from_millis(2));
        }
        counters::here()
    }

    fn give(&self, wait: &Receiver<()>) -> io::Result<()> {
        if wait.recv().is_err() {
            // The receiver reports the reason.
            return Ok(());
        }
        std::thread::sleep(self.start.saturating_sub(self.course.now()));
        let fd = self.socket()?;
        let raw = std::os::fd::AsRawFd::as_raw_fd(&fd);
        bind(raw, &SockaddrIn::from(SocketAddrV4::new(self.local, 0)))?;
        self.arrivals.started(self.course.now());
        match connect(raw, &SockaddrIn::from(SocketAddrV4::new(self.remote, self.port))) {
            Ok(()) | Err(Errno::EINPROGRESS) => {}
            Err(error) => return Err(error.into()),
        }
        let mut stream = TcpStream::from(fd);
        if !self.ready(&stream.as_fd(), PollFlags::POLLOUT)? {
            return Ok(());
        }
        let code = getsockopt(&stream, sockopt::SocketError)?;
        if code != 0 {
            return Err(io::Error::from_raw_os_error(code));
        }
        self.arrivals.connected(self.course.now());
        stream.set_nonblocking(false)?;
        stream.set_write_timeout(Some(LOOK))?;
        let block = vec![0; PIECE.min(usize::try_from(self.bytes).unwrap_or(PIECE))];
        let mut left = self.bytes;
        while left > 0 && !self.course.is_over() {
            let most = usize::try_from(left).unwrap_or(PIECE).min(block.len());
            match stream.write(block.get(..most).unwrap_or_default()) {
                Ok(bytes) => left -= bytes as u64,
                Err(error) if again(&error) => {}
                Err(error) => return Err(error),
            }
        }
        // The last piece leaves immediately too, as in the simulator.
        stream.set_nodelay(true)?;
        // Do not close the stream early: the FIN would be one more packet, whose acknowledgement
        // reveals losses before it.
        while !self.done.load(Ordering::Relaxed) && !self.course.is_over() {
            std::thread::sleep(Duration::from_millis(2));
        }
        Ok(())
    }
}
