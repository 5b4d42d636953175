//! TCP sockets under `anabranch run --tcp`: `connect` leads them to the engine, which carries the bytes over SCTP or
//! TCP. They stay the kernel's sockets, so all else is the kernel's, but for the names and errors that it cannot know.

use std::ffi::{CStr, c_void};
use std::net::{IpAddr, SocketAddr};
use std::sync::OnceLock;

use anabranch_channel::call::Operation;
use anabranch_channel::tcp::{self, Gate};
use libc::{c_int, sockaddr, socklen_t};

use crate::arguments::{address, give_address};
use crate::engine::{self, Call};
use crate::{next, records};

/// Bytes of the longest address that is of interest: a `struct sockaddr_in6` has 28.
const LONGEST: usize = 28;

/// Set once when the library is loaded.
static GATE: OnceLock<Gate> = OnceLock::new();

/// Finds out whether the engine carries TCP connections.
pub(crate) fn find() {
    // SAFETY: the name ends with a null byte. No other thread exists that could change the environment.
    let value = unsafe { libc::getenv(c"ANABRANCH_TCP".as_ptr()) };
    if value.is_null() || !engine::is_found() {
        return;
    }
    // SAFETY: not null; values of the environment end with a null byte.
    let value = unsafe { CStr::from_ptr(value) }.to_bytes();
    if let Some(gate) = Gate::parse(value) {
        let _ = GATE.set(gate);
    }
}

/// Whether the engine carries TCP connections.
pub(crate) fn is_on() -> bool {
    GATE.get().is_some()
}

/// The address of a socket of the internet, in C's layout.
#[derive(Clone, Copy, Debug)]
struct Name {
    bytes: [u8; LONGEST],
    length: usize,
}

impl Name {
    /// The kernel's name of a socket; `None` if it has none, or is no socket of the internet.
    fn own(fd: c_int) -> Option<Self> {
        // SAFETY: the address has room for as many bytes as the length says.
        Self::ask(|to, len| unsafe { next::getsockname(fd, to, len) })
    }

    /// As [`own`](Self::own), of its peer.
    fn peer(fd: c_int) -> Option<Self> {
        // SAFETY: the address has room for as many bytes as the length says.
        Self::ask(|to, len| unsafe { next::getpeername(fd, to, len) })
    }

    fn ask(call: impl Fn(*mut sockaddr, *mut socklen_t) -> c_int) -> Option<Self> {
        let errno = next::errno();
        let mut bytes = [0; LONGEST];
        let mut len = LONGEST as socklen_t;
        let result = call(bytes.as_mut_ptr().cast(), &raw mut len);
        next::set_errno(errno);
        let name = Self { bytes, length: len as usize };
        let length = match name.family() {
            libc::AF_INET => size_of::<libc::sockaddr_in>(),
            libc::AF_INET6 => LONGEST,
            _ => return None,
        };
        (result == 0 && name.length == length).then_some(name)
    }

    fn of(address: SocketAddr) -> Self {
        let mut bytes = [0; LONGEST];
        let mut put = |at: usize, from: &[u8]| {
            if let Some(to) = bytes.get_mut(at..at + from.len()) {
                to.copy_from_slice(from);
            }
        };
        put(2, &address.port().to_be_bytes());
        let length = match address.ip() {
            IpAddr::V4(v4) => {
                put(0, &(libc::AF_INET as libc::sa_family_t).to_ne_bytes());
                put(4, &v4.octets());
                size_of::<libc::sockaddr_in>()
            }
            IpAddr::V6(v6) => {
                put(0, &(libc::AF_INET6 as libc::sa_family_t).to_ne_bytes());
                put(8, &v6.octets());
                LONGEST
            }
        };
        Self { bytes, length }
    }

    fn as_slice(&self) -> &[u8] {
        self.bytes.get(..self.length).unwrap_or_default()
    }

    fn field<const N: usize>(&self, at: usize) -> [u8; N] {
        self.bytes.get(at..).and_then(<[u8]>::first_chunk).copied().unwrap_or([0; N])
    }

    fn family(&self) -> c_int {
        c_int::from(libc::sa_family_t::from_ne_bytes(self.field(0)))
    }

    fn is_ipv6(&self) -> bool {
        self.family() == libc::AF_INET6
    }

    fn port(&self) -> u16 {
        u16::from_be_bytes(self.field(2))
    }

    fn ip(&self) -> IpAddr {
        if self.is_ipv6() { self.field::<16>(8).into() } else { self.field::<4>(4).into() }
    }
}

/// An option of a socket that is a number.
fn option(fd: c_int, level: c_int, name: c_int) -> Option<c_int> {
    let errno = next::errno();
    let (mut value, mut len) = (0, size_of::<c_int>() as socklen_t);
    let (room, length) = ((&raw mut value).cast::<c_void>(), &raw mut len);
    // SAFETY: the value has room for as many bytes as the length says.
    let result = unsafe { next::getsockopt(fd, level, name, room, length) };
    next::set_errno(errno);
    (result == 0).then_some(value)
}

fn is_tcp(fd: c_int) -> bool {
    option(fd, libc::SOL_SOCKET, libc::SO_PROTOCOL) == Some(libc::IPPROTO_TCP)
}

/// Whether a TCP socket is neither connected nor connecting.
fn is_unconnected(fd: c_int) -> bool {
    // The first byte of TCP_INFO is the state; this one is called CLOSE.
    const CLOSE: c_int = 7;
    option(fd, libc::IPPROTO_TCP, libc::TCP_INFO)
        .is_some_and(|start| start.to_ne_bytes()[0] == CLOSE as u8)
}

/// The number that the kernel gives to a socket, once.
fn cookie(fd: c_int) -> [c_int; 2] {
    let (mut value, mut len) = (0u64, size_of::<u64>() as socklen_t);
    let (room, length) = ((&raw mut value).cast::<c_void>(), &raw mut len);
    // SAFETY: the value has room for as many bytes as the length says.
    unsafe { next::getsockopt(fd, libc::SOL_SOCKET, libc::SO_COOKIE, room, length) };
    tcp::halves(value)
}

/// Whether the program has chosen an interface or a routing mark, which loopback does not have.
fn is_tied(fd: c_int) -> bool {
    let mut name = [0u8; libc::IFNAMSIZ];
    let mut len = name.len() as socklen_t;
    let (room, length) = (name.as_mut_ptr().cast::<c_void>(), &raw mut len);
    // SAFETY: the name has room for as many bytes as the length says.
    let result =
        unsafe { next::getsockopt(fd, libc::SOL_SOCKET, libc::SO_BINDTODEVICE, room, length) };
    (result == 0 && len > 0) || option(fd, libc::SOL_SOCKET, libc::SO_MARK).unwrap_or(0) != 0
}

/// Connects a TCP socket to the engine. `None`: the kernel shall connect it.
///
/// # Errors
/// As `connect`.
///
/// # Safety
/// `to` points to `len` bytes.
pub(crate) unsafe fn connect(
    fd: c_int,
    to: *const sockaddr,
    len: socklen_t,
) -> Option<Result<c_int, c_int>> {
    let gate = GATE.get()?;
    // SAFETY: the caller's promise.
    let remote = unsafe { address(to, len) }.ok()?;
    let own = Name::own(fd).filter(|_| is_tcp(fd))?;
    // A port shows that `connect` was called before, or `bind`.
    if own.port() != 0 {
        let unconnected = is_unconnected(fd);
        if let Some(errno) = Some(fd).filter(|_| unconnected).and_then(reason) {
            return Some(Err(errno));
        }
        if !unconnected || !gate.required {
            // SAFETY: the caller's promise.
            return Some(completed(fd, unsafe { next::connect(fd, to, len) }));
        }
    }
    if is_tied(fd) && !gate.required {
        return None;
    }
    let call = Call { data: remote, ..Call::default() };
    match engine::call(Operation::TcpConnect, call, &mut []) {
        Ok(answered) if answered.value != 0 => {}
        Err(errno) if gate.required => return Some(Err(errno)),
        _ => return None,
    }
    let only_ipv6 = own.is_ipv6() && option(fd, libc::IPPROTO_IPV6, libc::IPV6_V6ONLY) == Some(1);
    let gate_address = Name::of(gate.address(own.is_ipv6(), only_ipv6)?);
    let nonblocking = records::is_nonblocking(fd);
    match begin(fd, &gate_address, remote, nonblocking) {
        Ok(()) if nonblocking => Some(Err(libc::EINPROGRESS)),
        Ok(()) => Some(completed(fd, wait(fd, own.is_ipv6()))),
        Err(errno) => gate.required.then_some(Err(errno)),
    }
}

fn to_gate(fd: c_int, gate: &Name) -> c_int {
    // SAFETY: the address has as many bytes as the length says.
    unsafe { next::connect(fd, gate.bytes.as_ptr().cast(), gate.length as socklen_t) }
}

/// Waits for a connecting socket as the kernel does, with its limits and signals: by another `connect`, for which the
/// address does not matter. The family is the wrong one, so that a socket that has failed meanwhile does not connect.
fn wait(fd: c_int, ipv6: bool) -> c_int {
    let mut address = [0; LONGEST];
    let wrong = if ipv6 { libc::AF_INET } else { libc::AF_INET6 } as libc::sa_family_t;
    address.iter_mut().zip(wrong.to_ne_bytes()).for_each(|(to, from)| *to = from);
    // SAFETY: the address has as many bytes as the length says.
    unsafe { next::connect(fd, address.as_ptr().cast(), LONGEST as socklen_t) }
}

/// Begins to connect to the gate, without waiting, and tells the engine.
fn begin(fd: c_int, gate: &Name, remote: &[u8], nonblocking: bool) -> Result<(), c_int> {
    if !nonblocking {
        set_nonblocking(fd, true);
    }
    let result = to_gate(fd, gate);
    let errno = next::errno();
    if !nonblocking {
        set_nonblocking(fd, false);
    }
    if result == 0 || errno != libc::EINPROGRESS {
        return Err(errno);
    }
    let own = Name::own(fd).ok_or(libc::EBADF)?;
    let mut names = [0; 2 * LONGEST];
    let length = own.length + remote.len();
    for (to, from) in names.iter_mut().zip(own.as_slice().iter().chain(remote)) {
        *to = *from;
    }
    let data = names.get(..length).ok_or(libc::EINVAL)?;
    let [low, high] = cookie(fd);
    let call = Call { arguments: [low, high, 0], data, attached: Some(fd), ..Call::default() };
    engine::call(Operation::TcpBegin, call, &mut []).map(drop).inspect_err(|_| disconnect(fd))
}

/// Sets or clears O_NONBLOCK.
fn set_nonblocking(fd: c_int, on: bool) {
    // SAFETY: the command has no argument.
    let flags = unsafe { next::fcntl(fd, libc::F_GETFL, std::ptr::null_mut()) };
    let flags = if on { flags | libc::O_NONBLOCK } else { flags & !libc::O_NONBLOCK };
    let argument = std::ptr::without_provenance_mut(flags.cast_unsigned() as usize);
    // SAFETY: the argument of this command is a number.
    unsafe { next::fcntl(fd, libc::F_SETFL, argument) };
}

/// Makes a connecting socket as it was before.
fn disconnect(fd: c_int) {
    let nowhere = [0u8; size_of::<libc::sockaddr_in>()];
    // SAFETY: the address has as many bytes as the length says; its family is AF_UNSPEC.
    unsafe { next::connect(fd, nowhere.as_ptr().cast(), nowhere.len() as socklen_t) };
    let _ = option(fd, libc::SOL_SOCKET, libc::SO_ERROR);
}

/// The result of `connect`, with the reason why the engine could not connect.
fn completed(fd: c_int, result: c_int) -> Result<c_int, c_int> {
    match (result, next::errno()) {
        (0, _) => Ok(0),
        (_, errno @ (libc::ECONNRESET | libc::ECONNABORTED)) => Err(reason(fd).unwrap_or(errno)),
        // Nobody has connected the socket: this is the answer of `wait`.
        (_, libc::EAFNOSUPPORT) => Err(reason(fd).unwrap_or(libc::ECONNABORTED)),
        (_, errno) => Err(errno),
    }
}

/// The error with which the engine's `connect` has failed.
fn reason(fd: c_int) -> Option<c_int> {
    let [low, high] = cookie(fd);
    let call = Call { arguments: [low, high, 0], ..Call::default() };
    let answered = engine::call(Operation::TcpError, call, &mut []).ok()?;
    (answered.value != 0).then_some(answered.value)
}

/// After `getsockopt`: replaces the kernel's SO_ERROR by that of the engine's `connect`.
///
/// # Safety
/// The kernel has stored the option.
pub(crate) unsafe fn correct_error(fd: c_int, level: c_int, name: c_int, value: *mut c_void) {
    if !is_on() || (level, name) != (libc::SOL_SOCKET, libc::SO_ERROR) {
        return;
    }
    let value = value.cast::<c_int>();
    // SAFETY: the caller's promise. The kernel stores as many bytes as there is room, and most programs have room.
    if unsafe { value.read_unaligned() } == libc::ECONNRESET
        && let Some(errno) = reason(fd)
    {
        // SAFETY: as above.
        unsafe { value.write_unaligned(errno) };
    }
}

/// After `listen`: lets the engine listen as well.
///
/// # Errors
/// SCTP is required, and the engine cannot listen.
pub(crate) fn listens(fd: c_int) -> Result<(), c_int> {
    let Some(gate) = GATE.get() else { return Ok(()) };
    let Some(own) = Name::own(fd).filter(|_| is_tcp(fd)) else { return Ok(()) };
    let only_ipv6 = option(fd, libc::IPPROTO_IPV6, libc::IPV6_V6ONLY).unwrap_or(0);
    let call = Call { arguments: [only_ipv6, 0, 0], data: own.as_slice(), ..Call::default() };
    match engine::call(Operation::TcpListen, call, &mut []) {
        Err(errno) if gate.required => Err(errno),
        _ => Ok(()),
    }
}

/// Which name of a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Which {
    Own,
    Peer,
}

/// The true names of a socket that is connected to the engine, one after the other; `None` if it is not.
fn names(fd: c_int, gate: &Gate) -> Option<[u8; 2 * LONGEST]> {
    let (own, peer) = (Name::own(fd)?, Name::peer(fd)?);
    if !gate.may_be_peer(peer.ip(), own.ip()) {
        return None;
    }
    let mut given = [0; 2 * LONGEST];
    let both = own.as_slice().iter().chain(peer.as_slice());
    given.iter_mut().zip(both).for_each(|(to, from)| *to = *from);
    let data = given.get(..own.length + peer.length)?;
    let arguments = [c_int::from(own.is_ipv6()), 0, 0];
    let mut found = [0; 2 * LONGEST];
    let call = Call { arguments, data, ..Call::default() };
    let errno = next::errno();
    let answered = engine::call(Operation::TcpNames, call, &mut found);
    next::set_errno(errno);
    answered.ok().map(|_| found)
}

/// After a call that stored a name of a socket: stores the true one. `room` is the caller's room.
///
/// # Safety
/// `to` is null or points to `room` bytes, and `len` is null or valid.
pub(crate) unsafe fn correct_name(
    fd: c_int,
    which: Which,
    to: *mut sockaddr,
    len: *mut socklen_t,
    room: socklen_t,
) {
    let Some(gate) = GATE.get() else { return };
    if to.is_null() || len.is_null() {
        return;
    }
    // Only the engine's sockets have names on loopback that are not the true ones.
    if which == Which::Own
        && !Name::own(fd).is_some_and(|own| own.ip().to_canonical().is_loopback())
    {
        return;
    }
    let Some(found) = names(fd, gate) else { return };
    let first = Name { bytes: found.first_chunk().copied().unwrap_or([0; LONGEST]), length: 0 };
    let length = if first.is_ipv6() { LONGEST } else { size_of::<libc::sockaddr_in>() };
    let at = if which == Which::Own { 0 } else { length };
    let name = found.get(at..at + length).unwrap_or_default();
    // SAFETY: the caller's promise.
    unsafe {
        len.write_unaligned(room);
        give_address(name, to, len);
    }
}

/// The room for an address that a caller has; 0 if it wants none.
///
/// # Safety
/// `len` is null or valid.
pub(crate) unsafe fn room(len: *mut socklen_t) -> socklen_t {
    // SAFETY: not null, and the caller's promise.
    if !is_on() || len.is_null() { 0 } else { unsafe { len.read_unaligned() } }
}

/// Whether an accepted connection must be closed, because SCTP is required and does not carry it.
pub(crate) fn is_unwanted(fd: c_int) -> bool {
    let Some(gate) = GATE.get().filter(|gate| gate.required) else { return false };
    let Some(peer) = Name::peer(fd).filter(|_| is_tcp(fd)) else { return false };
    if names(fd, gate).is_some() {
        return false;
    }
    // SCTP is not required for all hosts.
    let call = Call { data: peer.as_slice(), ..Call::default() };
    let errno = next::errno();
    let answered = engine::call(Operation::TcpConnect, call, &mut []);
    next::set_errno(errno);
    !answered.is_ok_and(|answered| answered.value == 0)
}
