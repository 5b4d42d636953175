//! Carries out calls.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use anabranch_c::layout;
use anabranch_channel::call::{BIND, BIND_LESS, BIND_MORE, Operation, Request};
use anabranch_channel::record::Header;
use anabranch_sockets::{AssocId, Error, Socket, Style};
use bytes::Bytes;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::sync::oneshot;
use tokio::task::spawn_blocking;
use tokio::time::timeout;

use crate::engine::Shared;
use crate::open::Open;
use crate::outbox::Writing;
use crate::{tcp, transfer};

/// Options at the level of SCTP that change the ancillary data of messages: SCTP_EVENTS, SCTP_RECVRCVINFO,
/// SCTP_EVENT, and our SCTP_USE_EXT_RCVINFO.
const STAMPING: [i32; 4] = [11, 32, 127, 0x4103];

/// Bytes of data in a record that fills a channel.
const FILLING: usize = 64 << 10;

/// The most records that fill a channel.
const MOST_FILLING: usize = 128;

/// How long a connection may stay without its call. Any user of the host may connect, and must not hold our
/// descriptors; the library sends its call at once.
const CALL_TIME: Duration = Duration::from_secs(10);

/// What a call returns: a value with data and a descriptor, or an error number.
pub(crate) struct Answer {
    result: Result<i32, i32>,
    pub(crate) data: Vec<u8>,
    pub(crate) descriptor: Option<OwnedFd>,
}

impl From<Result<i32, i32>> for Answer {
    fn from(result: Result<i32, i32>) -> Self {
        Self { result, data: Vec::new(), descriptor: None }
    }
}

impl From<i32> for Answer {
    fn from(value: i32) -> Self {
        Ok(value).into()
    }
}

/// Reads a call from its connection and answers it.
pub(crate) async fn serve(shared: Arc<Shared>, connection: OwnedFd) {
    let Ok(connection) = transfer::watch(connection, Interest::READABLE) else { return };
    let connection = Arc::new(connection);
    let reading = connection.async_io(Interest::READABLE, |connection| transfer::call(connection));
    let Ok(Ok((call, descriptor))) = timeout(CALL_TIME, reading).await else { return };
    let Some((request, data)) = Request::decode(&call) else { return };
    // Any user of the host may connect to an abstract name. Only programs of this engine know the secret.
    if !shared.place.admits(&request.secret) {
        return;
    }
    if tcp::is_about(&request) {
        let result = tcp::carry_out(&shared, &request, data, descriptor).await;
        let (result, data) = match result {
            Ok((value, data)) => (Ok(value), data),
            Err(errno) => (Err(errno), Vec::new()),
        };
        transfer::answer(connection.get_ref(), result, &data, None);
        return;
    }
    let answer = match carry_out(&shared, &request, data, descriptor, &connection).await {
        Ok(answer) => answer,
        Err(errno) => Err(errno).into(),
    };
    transfer::answer(connection.get_ref(), answer.result, &answer.data, answer.descriptor.as_ref());
}

async fn carry_out(
    shared: &Arc<Shared>,
    request: &Request,
    data: &[u8],
    descriptor: Option<OwnedFd>,
    connection: &Arc<AsyncFd<OwnedFd>>,
) -> Result<Answer, i32> {
    let [first, second, third] = request.arguments;
    if request.operation == Operation::Socket {
        let descriptor = new_socket(shared, [first, second, third], Writing::Headers)?;
        return Ok(Answer { descriptor: Some(descriptor), ..Answer::from(0) });
    }
    let open = shared.find(request.handle).ok_or(libc::ENETDOWN)?;
    let socket = &open.socket;
    match request.operation {
        Operation::Bind => bind(socket, first, &layout::addresses(data)?),
        Operation::Listen => listen(&open, first).await,
        Operation::Connect => connect(shared, &open, data, descriptor, connection).await,
        Operation::SetOption => {
            layout::set_option(socket, first, second, data)?;
            if let Some(descriptor) = descriptor.filter(|_| stamps(first, second)) {
                open.restamp(&descriptor);
            }
            Ok(0.into())
        }
        Operation::GetOption => option(&open, (first, second), data, third),
        Operation::Name => Ok(with_data(0, layout::address(socket.name()))),
        Operation::PeerName => {
            let name = socket.peer_name().map_err(layout::number)?;
            Ok(with_data(0, layout::address(name)))
        }
        Operation::PeerAddresses => {
            list(&socket.peer_addresses(AssocId(first)).map_err(layout::number)?)
        }
        Operation::LocalAddresses => {
            list(&socket.local_addresses(AssocId(first)).map_err(layout::number)?)
        }
        Operation::PeelOff => peel_off(shared, &open, first, descriptor),
        Operation::Recall => {
            let descriptor = descriptor.ok_or(libc::EINVAL)?;
            let count = usize::try_from(second).map_err(|_| libc::EINVAL)?;
            if open.advance(&descriptor, first.cast_unsigned(), count) {
                Ok(0.into())
            } else {
                Err(libc::EAGAIN)
            }
        }
        Operation::TakeError => Ok(open.take_error().map_or(0, layout::number).into()),
        Operation::EndAgain => {
            open.end();
            Ok(0.into())
        }
        Operation::MayReceive => Ok(i32::from(open.may_receive()).into()),
        Operation::ShutDown => open.start_shut_down(first).map(Answer::from),
        Operation::Listens => Ok(i32::from(socket.is_listening()).into()),
        _ => Err(libc::EINVAL),
    }
}

fn with_data(value: i32, data: Vec<u8>) -> Answer {
    Answer { data, ..Answer::from(value) }
}

fn list(addresses: &[SocketAddr]) -> Result<Answer, i32> {
    let count = i32::try_from(addresses.len()).map_err(|_| libc::ENOBUFS)?;
    Ok(with_data(count, addresses.iter().flat_map(|each| layout::address(*each)).collect()))
}

/// A new socket. Returns the descriptor for the program.
///
/// # Errors
/// As `socket`.
pub(crate) fn new_socket(
    shared: &Arc<Shared>,
    [domain, kind, protocol]: [i32; 3],
    writing: Writing,
) -> Result<OwnedFd, i32> {
    let (style, family, _) = layout::socket_arguments(domain, kind, protocol)?;
    let socket = shared.socket(style, family).map_err(layout::number)?;
    shared.open(socket, VecDeque::new(), writing).map_err(number)
}

pub(crate) fn bind(socket: &Socket, how: i32, addresses: &[SocketAddr]) -> Result<Answer, i32> {
    let result = match how {
        BIND => socket.bind(addresses),
        BIND_MORE => socket.bind_more(addresses),
        BIND_LESS => socket.bind_less(addresses),
        _ => Err(Error::Invalid),
    };
    Ok(result.map(|()| 0).map_err(layout::number).into())
}

pub(crate) async fn listen(open: &Arc<Open>, backlog: i32) -> Result<Answer, i32> {
    // As in a kernel, a negative number means the maximum.
    let backlog = usize::try_from(backlog).unwrap_or(usize::MAX);
    let socket = open.socket.clone();
    let result = spawn_blocking(move || socket.listen(backlog)).await.unwrap_or(Err(Error::Io));
    result.map_err(layout::number)?;
    open.listens();
    Ok(0.into())
}

pub(crate) fn option(
    open: &Open,
    (level, name): (i32, i32),
    given: &[u8],
    room: i32,
) -> Result<Answer, i32> {
    let room = usize::try_from(room).map_err(|_| libc::EINVAL)?;
    if (level, name) == (libc::SOL_SOCKET, libc::SO_ERROR) {
        let errno = open.take_error().map_or(0, layout::number);
        let mut value = errno.to_ne_bytes().to_vec();
        value.truncate(room);
        return Ok(with_data(0, value));
    }
    Ok(with_data(0, layout::option(&open.socket, level, name, given, room)?))
}

pub(crate) fn stamps(level: i32, name: i32) -> bool {
    level == libc::IPPROTO_SCTP && STAMPING.contains(&name)
}

/// Sets up an association. Waits for it, unless the caller must not wait or goes away.
async fn connect(
    shared: &Arc<Shared>,
    open: &Arc<Open>,
    data: &[u8],
    descriptor: Option<OwnedFd>,
    connection: &Arc<AsyncFd<OwnedFd>>,
) -> Result<Answer, i32> {
    let waits = descriptor.is_none();
    let (id, outcome) = start_connect(shared, open, layout::addresses(data)?, descriptor).await?;
    if !waits {
        return Ok(id.0.into());
    }
    tokio::select! {
        biased;
        result = outcome => match result {
            Ok(Ok(())) => Ok(id.0.into()),
            Ok(Err(error)) => Err(layout::number(error)),
            Err(_) => Err(libc::EIO),
        },
        // The setup continues, as after a signal in a kernel.
        left = leaves(connection) => {
            if let Some(descriptor) = left.filter(|_| open.socket.style() == Style::OneToOne) {
                open.set_connecting(true);
                fill(&descriptor, open.handle);
            }
            Err(libc::EINTR)
        }
    }
}

/// Begins to set up an association. The program's descriptor is that of a caller who does not wait: it cannot be written
/// to before the end of the setup. Returns the association, and what becomes of it.
///
/// # Errors
/// As `connect`.
pub(crate) async fn start_connect(
    shared: &Arc<Shared>,
    open: &Arc<Open>,
    remotes: Vec<SocketAddr>,
    descriptor: Option<OwnedFd>,
) -> Result<(AssocId, oneshot::Receiver<Result<(), Error>>), i32> {
    let waits = descriptor.is_none();
    // Only the call that begins the setup makes the descriptor unwritable, and writable again.
    let fills = open.socket.style() == Style::OneToOne && open.socket.ids().is_empty();
    let descriptor = descriptor.filter(|_| fills);
    if let Some(descriptor) = &descriptor {
        open.set_connecting(true);
        fill(descriptor, open.handle);
    }
    let socket = open.socket.clone();
    let started = spawn_blocking(move || socket.start_connect(remotes)).await;
    let id = started.unwrap_or(Err(Error::Io)).map_err(|error| {
        if descriptor.is_some() {
            open.set_connecting(false);
        }
        layout::number(error)
    })?;
    // As long as the engine has it, the program cannot close it.
    drop(descriptor);
    let (done, outcome) = oneshot::channel();
    let (connecting, mut done) = (open.clone(), waits.then_some(done));
    shared.host.spawn(async move {
        let result = connecting.socket.connected(id).await;
        let untold = match done.take() {
            Some(done) => done.send(result).err(),
            None => Some(result),
        };
        // First the error, so that a program that is woken finds it.
        if let Some(Err(error)) = untold {
            connecting.fail(error);
        }
        connecting.set_connecting(false);
    });
    Ok((id, outcome))
}

/// Waits until the caller of `connect` ceases to wait. Returns the descriptor, unless the caller has gone away.
async fn leaves(connection: &AsyncFd<OwnedFd>) -> Option<OwnedFd> {
    let call = connection.async_io(Interest::READABLE, |connection| transfer::call(connection));
    let (call, descriptor) = call.await.ok()?;
    let (request, _) = Request::decode(&call)?;
    descriptor.filter(|_| request.operation == Operation::StillConnecting)
}

/// Fills a channel until the program's end is not writable.
fn fill(program: &OwnedFd, handle: u64) {
    let header = Header::filling(handle).encode();
    let data = [Bytes::from_static(&[0; FILLING])];
    for _ in 0..MOST_FILLING {
        let mut entries = [PollFd::new(program, PollFlags::OUT)];
        let polled = poll(&mut entries, Some(&Timespec::default()));
        let is_writable = polled.is_ok() && entries[0].revents().contains(PollFlags::OUT);
        if !is_writable || transfer::write(program, &header, &data, None).is_err() {
            return;
        }
    }
}

/// Moves an association to a socket of its own, with the records of it that wait.
pub(crate) fn peel_off(
    shared: &Arc<Shared>,
    open: &Open,
    id: i32,
    descriptor: Option<OwnedFd>,
) -> Result<Answer, i32> {
    let program = descriptor.ok_or(libc::EINVAL)?;
    let peeled = open.recall(&program, |waiting| {
        let peeled = open.socket.peel_off(AssocId(id)).map_err(layout::number)?;
        let (own, rest): (VecDeque<_>, VecDeque<_>) =
            waiting.drain(..).partition(|record| record.header.value == id);
        *waiting = rest;
        Ok::<_, i32>((peeled, own))
    });
    let (socket, own) = peeled?;
    let descriptor = shared.open(socket, own, open.writing).map_err(number)?;
    Ok(Answer { descriptor: Some(descriptor), ..Answer::from(0) })
}

fn number(error: std::io::Error) -> i32 {
    error.raw_os_error().unwrap_or(libc::EIO)
}
