//! Connects TCP sockets of programs to the engine.
//!
//! A program's `connect` leads to a listening socket whose queue of connections is full, so the kernel answers no SYN
//! and keeps the program's socket connecting. When the engine knows the outcome, it connects a socket with the same address to the program's: both
//! have sent a SYN, and TCP makes one connection of that (RFC 9293 section 3.5, simultaneous open). So the program's
//! descriptor never changes, whatever waits for it, and nobody else can come in.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use anabranch_channel::tcp;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::sockopt;
use rustix::rand::{GetRandomFlags, getrandom};
use socket2::{Domain, SockRef, Socket, Type};
use tokio::net::{TcpSocket, TcpStream};

/// Bytes that the kernel may keep for each direction of a program's connection, so that a program feels how fast its
/// peer is.
const BUFFER: usize = 256 << 10;

/// How long a program may be silent before the kernel is asked whether its socket still exists. The kernel forgets one
/// that was closed while the peer still sends.
const IDLE: Duration = Duration::from_secs(60);

/// How long a program may take to read what was received before an error.
const DRAINING: Duration = Duration::from_secs(60);

/// How often to look whether it has.
const PAUSE: Duration = Duration::from_millis(20);

/// The sockets that programs connect to.
#[derive(Debug)]
pub(super) struct Gate {
    pub(super) known: tcp::Gate,
    /// The sockets that listen, and those that fill their queues.
    _open: Vec<Socket>,
}

impl Gate {
    pub(super) fn open(required: bool) -> io::Result<Self> {
        let own = own_address()?;
        // Loopback may have one address only.
        let (at, sockets) = silent(own.into()).or_else(|_| silent(Ipv4Addr::LOCALHOST.into()))?;
        let IpAddr::V4(ip) = at.ip() else { return Err(io::ErrorKind::InvalidData.into()) };
        let mut open = Vec::from(sockets);
        // Only sockets that use IPv6 alone need this one.
        let port6 = silent(Ipv6Addr::LOCALHOST.into()).ok().map(|(at, sockets)| {
            open.extend(sockets);
            at.port()
        });
        let known = tcp::Gate { ip, port: at.port(), port6, required };
        Ok(Self { known, _open: open })
    }

    /// Completes the `connect` of a program's socket, which has this address.
    pub(super) async fn admit(&self, program: SocketAddr) -> io::Result<TcpStream> {
        let only_ipv6 = program.is_ipv6();
        let own = self.known.address(only_ipv6, only_ipv6);
        let own = own.ok_or(io::ErrorKind::AddrNotAvailable)?;
        let socket = socket(program.ip())?;
        socket.set_reuseport(true)?;
        socket.bind(own)?;
        let stream = socket.connect(program).await?;
        prepare(&stream)?;
        Ok(stream)
    }

    /// A socket for a connection to a program that listens on this address. Its own address is known before.
    pub(super) fn visitor(&self, program: IpAddr) -> io::Result<TcpSocket> {
        let socket = socket(program)?;
        // It may have the port of a connection that has ended.
        socket.set_reuseaddr(true)?;
        socket.bind(match program {
            IpAddr::V4(_) => (self.known.ip, 0).into(),
            IpAddr::V6(_) => (program, 0).into(),
        })?;
        Ok(socket)
    }
}

/// An address that no other program is likely to use.
fn own_address() -> io::Result<Ipv4Addr> {
    let mut random = [0; 3];
    getrandom(&mut random, GetRandomFlags::empty())?;
    let [second, third, fourth] = random.map(|byte| byte % 254 + 1);
    Ok(Ipv4Addr::new(127, second, third, fourth))
}

/// A socket that listens and answers nothing, its address, and the connection that fills its queue.
fn silent(ip: IpAddr) -> io::Result<(SocketAddr, [Socket; 2])> {
    let domain = if ip.is_ipv4() { Domain::IPV4 } else { Domain::IPV6 };
    let listener = Socket::new(domain, Type::STREAM, None)?;
    if ip.is_ipv6() {
        listener.set_only_v6(true)?;
    }
    // The sockets that let programs in have the same address.
    listener.set_reuse_port(true)?;
    listener.bind(&SocketAddr::new(ip, 0).into())?;
    // The queue takes one connection more than this number.
    listener.listen(0)?;
    let at = listener.local_addr()?;
    let filling = Socket::new(domain, Type::STREAM, None)?;
    filling.connect(&at)?;
    let at = at.as_socket().ok_or(io::ErrorKind::InvalidData)?;
    Ok((at, [listener, filling]))
}

fn socket(program: IpAddr) -> io::Result<TcpSocket> {
    let socket = if program.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    socket.set_recv_buffer_size(BUFFER as u32)?;
    socket.set_send_buffer_size(BUFFER as u32)?;
    Ok(socket)
}

/// Options of the engine's end of a program's connection.
pub(super) fn prepare(stream: &TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    // If the engine is killed, the program gets an error instead of an end that looks regular.
    set_abrupt(stream, true)?;
    // Urgent data stay where they are among the others.
    sockopt::set_socket_oobinline(stream, true)?;
    // What the program has no room for stays in the association, where an abort does not discard it.
    SockRef::from(stream).set_tcp_notsent_lowat(1)?;
    sockopt::set_socket_keepalive(stream, true)?;
    sockopt::set_tcp_keepidle(stream, IDLE)?;
    Ok(())
}

/// Waits until the program's queue has all that was written, but not for a program that does not read for a minute.
pub(super) async fn drained(stream: &TcpStream) {
    for _ in 0..DRAINING.as_millis() / PAUSE.as_millis() {
        // Writable means that nothing is left to send: see `prepare`.
        let mut entries = [PollFd::new(stream, PollFlags::OUT)];
        let polled = poll(&mut entries, Some(&Timespec::default()));
        if !polled.is_ok_and(|ready| ready == 0) {
            return;
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// Whether closing the engine's end of a connection is an error for the program: ECONNRESET.
pub(super) fn set_abrupt(stream: &TcpStream, abrupt: bool) -> io::Result<()> {
    Ok(sockopt::set_socket_linger(stream, abrupt.then_some(Duration::ZERO))?)
}
