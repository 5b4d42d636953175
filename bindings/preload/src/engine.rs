//! Calls to the engine. Each opens a connection, sends one request, and waits for its answer.

use std::ffi::CStr;
use std::mem::offset_of;
use std::sync::OnceLock;

use anabranch_channel::call::{ANSWER, Answer, Operation, Request};
use anabranch_channel::name::{self, Place, SECRET, SOCKET};
use libc::{c_char, c_int, sockaddr_un, socklen_t};

use crate::next;
use crate::records::{self, Taken};

/// The engine of this process.
#[derive(Debug)]
struct Engine {
    secret: [u8; SECRET],
    address: sockaddr_un,
    len: socklen_t,
}

/// Set once when the library is loaded. Programs may overwrite their environment later.
static ENGINE: OnceLock<Engine> = OnceLock::new();

/// Finds the engine in the environment.
pub(crate) fn find() {
    // SAFETY: the name ends with a null byte. No other thread exists that could change the environment.
    let value = unsafe { libc::getenv(c"ANABRANCH_RUN".as_ptr()) };
    if value.is_null() {
        return;
    }
    // SAFETY: not null; values of the environment end with a null byte.
    let value = unsafe { CStr::from_ptr(value) }.to_bytes();
    let Some(place) = name::parse_variable(value) else { return };
    // SAFETY: all zero bytes are a valid value.
    let mut address: sockaddr_un = unsafe { std::mem::zeroed() };
    address.sun_family = libc::AF_UNIX as libc::sa_family_t;
    // Abstract names begin with a null byte; paths end with one.
    let (secret, pieces, end) = match place {
        Place::Abstract { secret, name } => (secret, [&b"\0"[..], name, b""], 0),
        Place::Directory(path) => ([0; SECRET], [path, &b"/"[..], SOCKET.as_bytes()], 1),
    };
    let path = address.sun_path.iter_mut().zip(pieces.iter().copied().flatten());
    let length = path.map(|(to, from)| *to = c_char::from_ne_bytes([*from])).count();
    let len = (offset_of!(sockaddr_un, sun_path) + length + end) as socklen_t;
    let _ = ENGINE.set(Engine { secret, address, len });
}

/// Whether the environment names an engine.
pub(crate) fn is_found() -> bool {
    ENGINE.get().is_some()
}

/// What a call needs besides its operation.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Call<'a> {
    pub(crate) handle: u64,
    pub(crate) arguments: [c_int; 3],
    pub(crate) data: &'a [u8],
    /// The descriptor that the engine gets.
    pub(crate) attached: Option<c_int>,
    /// How long to wait for the answer, as SO_RCVTIMEO; not at all by default.
    pub(crate) limit: Option<libc::timeval>,
    /// A signal ends the wait.
    pub(crate) interruptible: bool,
    /// What the engine gets when the wait ends before there is an answer: [`Operation::StillConnecting`].
    pub(crate) left_behind: Option<c_int>,
    /// The descriptor in the answer is closed by `exec`.
    pub(crate) close_on_exec: bool,
}

/// How often a call is sent, at most.
const ATTEMPTS: usize = 2;

/// The answer to a call.
#[derive(Debug)]
pub(crate) struct Answered {
    pub(crate) value: c_int,
    /// Bytes of data that were stored.
    pub(crate) length: usize,
    pub(crate) descriptor: Option<c_int>,
}

/// Makes a call. Stores the data of the answer in `room`.
///
/// # Errors
/// ENETDOWN: the engine does not answer. Otherwise the error of the call.
pub(crate) fn call(
    operation: Operation,
    call: Call<'_>,
    room: &mut [u8],
) -> Result<Answered, c_int> {
    let engine = ENGINE.get().ok_or(libc::ENETDOWN)?;
    let connection = asked(engine, operation, &call)?;
    let result = answer(engine, connection, call, room);
    // SAFETY: the descriptor is this function's own.
    unsafe { libc::close(connection) };
    result
}

fn connect(engine: &Engine) -> Result<c_int, c_int> {
    // SAFETY: the call has no preconditions.
    let connection =
        unsafe { next::socket(libc::AF_UNIX, libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC, 0) };
    if connection < 0 {
        return Err(next::errno());
    }
    loop {
        let address = (&raw const engine.address).cast();
        // SAFETY: the address has as many bytes as `len` says.
        if unsafe { next::connect(connection, address, engine.len) } == 0 {
            return Ok(connection);
        }
        // A signal while the engine is busy. It may also arrive after the connection was made.
        match next::errno() {
            libc::EISCONN => return Ok(connection),
            libc::EINTR => {}
            _ => break,
        }
    }
    // SAFETY: the descriptor is this function's own.
    unsafe { libc::close(connection) };
    Err(libc::ENETDOWN)
}

/// Sends the request of a call on a connection of its own, which the answer comes on.
fn asked(engine: &Engine, operation: Operation, call: &Call<'_>) -> Result<c_int, c_int> {
    let &Call { handle, arguments, data, .. } = call;
    let length = u32::try_from(data.len()).map_err(|_| libc::EINVAL)?;
    let request = Request { secret: engine.secret, handle, operation, arguments, length }.encode();
    let pieces = [records::piece(&request), records::piece(data)];
    // The engine closes connections that say nothing for a while: a process that was stopped between the two
    // steps makes another one.
    for _ in 0..ATTEMPTS {
        let connection = connect(engine)?;
        // SAFETY: the pieces are this function's own memory, and only read.
        let sent = unsafe { records::send(connection, &pieces, call.attached, libc::MSG_NOSIGNAL) };
        if sent.is_ok() {
            return Ok(connection);
        }
        // SAFETY: the descriptor is this function's own.
        unsafe { libc::close(connection) };
    }
    Err(libc::ENETDOWN)
}

/// Waits for the answer to a call.
fn answer(
    engine: &Engine,
    connection: c_int,
    call: Call<'_>,
    room: &mut [u8],
) -> Result<Answered, c_int> {
    if let Some(limit) = call.limit {
        let (value, len) = ((&raw const limit).cast(), size_of::<libc::timeval>() as socklen_t);
        // SAFETY: the value has this many bytes.
        unsafe { next::setsockopt(connection, libc::SOL_SOCKET, libc::SO_RCVTIMEO, value, len) };
    }
    let mut header = [0; ANSWER];
    let mut pieces = [records::room(&mut header), records::room(room)];
    let mut flags = if call.close_on_exec { libc::MSG_CMSG_CLOEXEC } else { 0 };
    let mut left = None;
    let Taken { length, descriptor } = loop {
        // SAFETY: the pieces are writable memory of this call.
        let taken = unsafe { records::take(connection, &mut pieces, flags) };
        match (taken, left) {
            (Err(errno @ (libc::EINTR | libc::EAGAIN)), None) if call.left_behind.is_some() => {
                left = Some(errno);
                // The engine closes the connection after its answer, which may have come since.
                if leave(engine, connection, call).is_err() {
                    flags |= libc::MSG_DONTWAIT;
                }
            }
            (Err(libc::EINTR), None) if !call.interruptible => {}
            // The engine closed the connection before it read what `leave` sent. The answer follows this error.
            (Err(libc::ECONNRESET), Some(_)) => {}
            // The engine answers at once.
            (Err(libc::EINTR | libc::EAGAIN), Some(_)) if flags & libc::MSG_DONTWAIT == 0 => {}
            (Err(libc::ECONNRESET), None) | (Err(libc::EAGAIN), Some(_)) => {
                return Err(libc::ENETDOWN);
            }
            (taken, _) => break taken?,
        }
    };
    let stored = length.saturating_sub(ANSWER);
    match Answer::decode(header.get(..length.min(ANSWER)).unwrap_or_default()) {
        None => Err(libc::ENETDOWN),
        Some(Answer { errno: 0, value, .. }) => Ok(Answered { value, length: stored, descriptor }),
        Some(Answer { errno: libc::EINTR, .. }) => Err(left.unwrap_or(libc::EINTR)),
        Some(Answer { errno, .. }) => Err(errno),
    }
}

/// Tells the engine that the caller ceases to wait.
fn leave(engine: &Engine, connection: c_int, call: Call<'_>) -> Result<(), c_int> {
    let operation = Operation::StillConnecting;
    let (secret, handle, arguments) = (engine.secret, call.handle, call.arguments);
    let request = Request { secret, handle, operation, arguments, length: 0 }.encode();
    // SAFETY: the pieces are this function's own memory, and only read.
    let sent = unsafe {
        let pieces = [records::piece(&request)];
        records::send(connection, &pieces, call.left_behind, libc::MSG_NOSIGNAL)
    };
    sent.map(drop).map_err(|_| libc::ENETDOWN)
}

/// A call without arguments whose answer is a value.
pub(crate) fn ask(operation: Operation, handle: u64) -> Result<c_int, c_int> {
    Ok(call(operation, Call { handle, ..Call::default() }, &mut [])?.value)
}

/// As [`ask`], before a call that waits: a signal ends both.
pub(crate) fn ask_interruptibly(operation: Operation, handle: u64) -> Result<c_int, c_int> {
    let call = Call { handle, interruptible: true, ..Call::default() };
    Ok(self::call(operation, call, &mut [])?.value)
}

/// The error that waits on a socket, or `Ok` if there is none.
pub(crate) fn take_error(handle: u64) -> Result<(), c_int> {
    match ask(Operation::TakeError, handle)? {
        0 => Ok(()),
        errno => Err(errno),
    }
}
