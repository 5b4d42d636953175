//! A socket of a program: one task that moves records between its channel and its SCTP socket.

use std::collections::VecDeque;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anabranch_c::layout;
use anabranch_channel::record::{About, Header, Kind, flag};
use anabranch_sockets::{Error, Received, Receiving, Socket, Style, Taken};
use rustix::net::sockopt::set_socket_send_buffer_size;
use rustix::net::{Shutdown, shutdown};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::sync::Notify;

use crate::engine::Shared;
use crate::lock::lock;
use crate::outbox::{Outbox, Record, Writing};
use crate::recall::stamp;
use crate::transfer::{self, Incoming};

/// Maximum bytes of a message in one record; longer messages are delivered in parts. A channel holds about 208 KiB.
const PART: usize = 128 << 10;

/// Bytes of the buffer for associations to accept. Each has a descriptor that nobody uses yet, and Linux bounds those.
const ACCEPT_BUFFER: usize = 4096;

/// How long to wait when the user has too many descriptors on their way to programs.
const PATIENCE: Duration = Duration::from_millis(20);

/// How often to look whether a program has read what is left in a channel that has ended.
const LEFT: Duration = Duration::from_millis(100);

/// A socket of a program.
#[derive(Debug)]
pub(crate) struct Open {
    pub(crate) handle: u64,
    pub(crate) socket: Arc<Socket>,
    /// The engine's end of the channel.
    pub(crate) end: AsyncFd<OwnedFd>,
    pub(crate) writing: Writing,
    pub(crate) outbox: Mutex<Outbox>,
    /// Records were put into the outbox, or this side does not send any more.
    pub(crate) moved: Notify,
    /// Records were moved in either direction, or there is an error, or the end: tasks that wait for the channel look
    /// again.
    pub(crate) stirred: Notify,
    /// Held while a message is moved to the socket, so that messages stay in their order.
    pub(crate) turn: tokio::sync::Mutex<()>,
    /// `connecting` has become false.
    settled: Notify,
    /// A `connect` for which nobody waits is under way: the channel is full, and stays so.
    connecting: AtomicBool,
    /// This side does not send any more: writing to the program's descriptor fails.
    finished: AtomicBool,
    /// The program has called `shutdown` with this argument: nothing comes after what is in the channel.
    ending: Mutex<Option<i32>>,
    /// What the next call returns, or SO_ERROR.
    error: Mutex<Option<Error>>,
}

/// What comes next from the socket.
enum Next {
    Received(Received),
    Accepted(Arc<Socket>, std::net::SocketAddr),
    Failed(Error),
}

impl Open {
    /// Must be called within the tokio runtime of the host.
    ///
    /// # Errors
    /// The runtime cannot watch the descriptor.
    pub(crate) fn new(
        handle: u64,
        socket: Arc<Socket>,
        end: OwnedFd,
        outbox: Outbox,
    ) -> io::Result<Self> {
        Ok(Self {
            handle,
            socket,
            end: transfer::watch(end, Interest::READABLE | Interest::WRITABLE)?,
            writing: outbox.writing,
            outbox: Mutex::new(outbox),
            moved: Notify::new(),
            stirred: Notify::new(),
            turn: tokio::sync::Mutex::new(()),
            settled: Notify::new(),
            connecting: AtomicBool::new(false),
            finished: AtomicBool::new(false),
            ending: Mutex::default(),
            error: Mutex::default(),
        })
    }

    /// Moves records until all descriptors of the program's end are closed. Then closes the socket.
    pub(crate) async fn run(self: Arc<Self>, shared: Arc<Shared>) {
        tokio::select! {
            () = self.to_socket() => {}
            () = self.to_program(&shared) => {}
        }
        self.socket.let_go();
        shared.forget(self.handle);
        self.stirred.notify_waiters();
    }

    /// Stores an error for the next call, and makes the descriptor readable.
    pub(crate) fn fail(&self, error: Error) {
        *lock(&self.error) = Some(error);
        self.stirred.notify_waiters();
        self.push(Record::new(Header::new(Kind::Look)));
    }

    /// The error that the next call returns.
    pub(crate) fn take_error(&self) -> Option<Error> {
        lock(&self.error).take().or_else(|| self.socket.take_error())
    }

    /// A non-blocking `connect` begins: the caller fills the channel, which nobody empties until it has ended.
    pub(crate) fn set_connecting(&self, connecting: bool) {
        self.connecting.store(connecting, Ordering::SeqCst);
        self.settled.notify_waiters();
        self.stirred.notify_waiters();
    }

    /// Whether a `connect` for which nobody waits is under way.
    pub(crate) fn is_connecting(&self) -> bool {
        self.connecting.load(Ordering::SeqCst)
    }

    /// Whether this side does not send any more.
    pub(crate) fn is_finished(&self) -> bool {
        self.finished.load(Ordering::SeqCst)
    }

    /// Whether something may arrive: there is an association, or a one-to-many socket listens.
    pub(crate) fn may_receive(&self) -> bool {
        let listens = self.socket.style() == Style::OneToMany && self.socket.is_listening();
        listens || !self.socket.ids().is_empty()
    }

    /// Makes writing to the program's descriptor fail with EPIPE.
    pub(crate) fn finish(&self) {
        self.finished.store(true, Ordering::SeqCst);
        let _ = shutdown(self.end.get_ref(), Shutdown::Read);
        self.moved.notify_one();
        self.stirred.notify_waiters();
    }

    /// `shutdown`: sends what is in the channel first, and does not wait for that. Calls that wait for room in the
    /// channel fail with EPIPE, as in a kernel.
    pub(crate) fn start_shut_down(&self, how: i32) -> Result<i32, i32> {
        if how == libc::SHUT_RD || self.socket.ids().is_empty() {
            return self.shut_down(how);
        }
        *lock(&self.ending) = Some(how);
        // What is in the channel can still be read.
        let _ = shutdown(self.end.get_ref(), Shutdown::Read);
        Ok(0)
    }

    /// Ends the channel: the program's calls fail. What it has sent is delivered.
    pub(crate) fn stop(&self) {
        let _ = shutdown(self.end.get_ref(), Shutdown::Both);
    }

    /// The socket listens: few associations need to be in the channel.
    pub(crate) fn listens(&self) {
        if self.socket.style() == Style::OneToOne {
            let _ = set_socket_send_buffer_size(self.end.get_ref(), ACCEPT_BUFFER);
        }
        self.moved.notify_one();
    }

    /// Tells the program that nothing more comes.
    pub(crate) fn end(&self) {
        self.push(Record::new(Header::new(Kind::End)));
    }

    fn push(&self, record: Record) {
        self.put(record);
        self.moved.notify_one();
    }

    /// As [`push`](Self::push), for the task that empties the outbox.
    fn put(&self, record: Record) {
        lock(&self.outbox).waiting.push_back(record);
    }

    /// Moves messages from the program to the socket. Returns when the program has closed its end.
    async fn to_socket(&self) {
        loop {
            self.until_connected().await;
            let Ok(mut ready) = self.end.readable().await else { return };
            if self.connecting.load(Ordering::SeqCst) {
                continue;
            }
            if self.finished.load(Ordering::SeqCst) {
                // The end of this direction hides the end of the channel, which the other direction notices.
                drop(ready);
                self.discard();
                return std::future::pending().await;
            }
            let _turn = self.turn.lock().await;
            match ready.try_io(|end| self.next_from(end.get_ref())) {
                Ok(Ok(Some(incoming))) if incoming.is_nothing() => {
                    // The end of this direction looks as an empty record does.
                    let ending = *lock(&self.ending);
                    if let Some(Err(errno)) = ending.map(|how| self.shut_down(how)) {
                        self.fail(Error::System(errno));
                        self.finish();
                    }
                }
                Ok(Ok(Some(incoming))) => {
                    self.carry_out(incoming).await;
                    self.stirred.notify_waiters();
                }
                // This side has ended both directions, so the channel looks closed.
                Ok(Ok(None)) if self.is_finished() => {}
                Ok(Ok(None) | Err(_)) => return,
                Err(_would_block) => {}
            }
        }
    }

    /// The next record of the program. What a program writes by itself has no header, whatever it begins with.
    fn next_from(&self, end: &OwnedFd) -> io::Result<Option<Incoming>> {
        match self.writing {
            Writing::Headers => transfer::next(end),
            Writing::Plain => transfer::next_plain(end, |header| header.is_filling(self.handle)),
        }
    }

    /// Empties a channel from which nothing more is taken. What fills it would hide from the program that writing fails.
    fn discard(&self) {
        while let Ok(Some(incoming)) = self.next_from(self.end.get_ref()) {
            // The end of this direction looks as an empty record does.
            if incoming.is_nothing() {
                return;
            }
            self.refuse(incoming);
        }
    }

    /// Answers a message that came too late, if the program waits for an answer: first with the reason for which the
    /// association has ended.
    fn refuse(&self, incoming: Incoming) {
        let Incoming { header: Some(header), descriptor: Some(answer), .. } = incoming else {
            return;
        };
        if header.has(flag::ANSWER) {
            let reason = if header.kind == Kind::Send { self.take_error() } else { None };
            let errno = layout::number(reason.unwrap_or(Error::Finished));
            transfer::answer(answer, Err(errno), &[], None);
        }
    }

    async fn until_connected(&self) {
        loop {
            let settled = self.settled.notified();
            if !self.connecting.load(Ordering::SeqCst) {
                return;
            }
            settled.await;
        }
    }

    /// Moves messages from the socket to the program. Returns when the program has closed its end, if the other
    /// direction has been shut down.
    async fn to_program(&self, shared: &Arc<Shared>) {
        let mut ended = false;
        loop {
            self.flush().await;
            let finished = self.finished.load(Ordering::SeqCst);
            let next = tokio::select! {
                () = self.moved.notified() => continue,
                closed = self.closes(), if finished => if closed { return } else { continue },
                next = self.next(), if !ended => next,
            };
            match next {
                Next::Received(Received { taken: Taken::End, .. }) => {
                    ended = true;
                    self.end();
                    self.finish();
                }
                Next::Received(received) => self.put(record_of(&self.socket, received)),
                Next::Accepted(socket, remote) => {
                    let mut header = Header::new(Kind::Accepted);
                    let name = layout::address(self.socket.show(remote));
                    // Without a channel, the association is shut down.
                    if let (true, Ok(descriptor)) =
                        (header.set_name(&name), shared.open(socket, VecDeque::new(), self.writing))
                    {
                        self.put(Record { descriptor: Some(descriptor), ..Record::new(header) });
                    }
                }
                Next::Failed(Error::Closed) => ended = true,
                Next::Failed(error) => self.fail(error),
            }
        }
    }

    /// Waits for an event on the channel. Returns whether the program has closed its end.
    async fn closes(&self) -> bool {
        let Ok(mut ready) = self.end.writable().await else { return true };
        let closed = ready.ready().is_write_closed();
        // The channel is still writable, but nothing waits to be written.
        ready.clear_ready();
        if closed && !self.is_read() {
            // The runtime reports a closed channel again and again.
            tokio::time::sleep(LEFT).await;
            return false;
        }
        closed
    }

    /// If this side has ended both directions, the channel looks closed. The program needs it only to read what is left.
    /// The rest of a message that the program does not want is kept until the program ends.
    fn is_read(&self) -> bool {
        let outbox = lock(&self.outbox);
        !outbox.ended || outbox.waiting.is_empty() && anabranch_notify::is_read(self.end.get_ref())
    }

    /// Waits until the channel has taken all records.
    async fn flush(&self) {
        let is_empty = || lock(&self.outbox).waiting.is_empty();
        if is_empty() {
            return;
        }
        self.write_all().await;
        self.stirred.notify_waiters();
    }

    async fn write_all(&self) {
        // Without asking whether it is writable, which `closes` may have cleared.
        if lock(&self.outbox).send(self.end.get_ref()).is_ok() {
            return;
        }
        while let Ok(mut ready) = self.end.writable().await {
            match ready.try_io(|end| lock(&self.outbox).send(end.get_ref())) {
                Ok(Ok(())) => return,
                Ok(Err(error)) if error.raw_os_error() == Some(libc::ETOOMANYREFS) => {
                    tokio::time::sleep(PATIENCE).await;
                }
                // The program has closed its end, which the other direction notices.
                Ok(Err(_)) => lock(&self.outbox).waiting.clear(),
                Err(_would_block) => {}
            }
        }
    }

    /// Waits for a message, a notification, an association or an error. Nothing is lost if it is dropped.
    async fn next(&self) -> Next {
        let how = Receiving { peek: false, dont_wait: true };
        let next = self.socket.when_ready(|| {
            if self.socket.style() == Style::OneToOne && self.socket.is_listening() {
                return self.socket.accept(true).map(|(socket, from)| Next::Accepted(socket, from));
            }
            match self.socket.receive_bytes(PART, how, layout::notification_length) {
                // There may be an association later.
                Err(Error::NotConnected) => Err(Error::WouldBlock),
                result => result.map(Next::Received),
            }
        });
        next.await.unwrap_or_else(Next::Failed)
    }
}

/// The record of a message or a notification.
fn record_of(socket: &Socket, received: Received) -> Record {
    let end = received.end;
    let (mut header, data) = match received.taken {
        Taken::Message { info, data, .. } => {
            let about = About {
                stream: info.stream,
                ssn: info.ssn,
                ppid: info.ppid.0,
                tsn: info.tsn,
                cumulative_tsn: info.cumulative_tsn,
                context: info.context,
                unordered: info.unordered,
            };
            let mut header = Header::new(Kind::Message);
            (header.value, header.about) = (info.id.0, about);
            stamp(socket, &mut header);
            (header, data)
        }
        Taken::Notification { notification, .. } => {
            let mut header = Header::new(Kind::Notification);
            header.value = notification.id.0;
            (header, layout::notification(&notification))
        }
        Taken::End => (Header::new(Kind::End), Vec::new()),
    };
    header.flags = if end { flag::END } else { 0 };
    if let Some(from) = received.from {
        let fits = header.set_name(&layout::address(socket.show(from)));
        debug_assert!(fits, "the room is for the longest address");
    }
    Record { header, data, descriptor: None }
}

#[cfg(test)]
mod tests {
    use anabranch_channel::call::{ANSWER, Answer};
    use anabranch_sockets::Family;
    use bytes::Bytes;
    use rustix::net::{AddressFamily, RecvFlags, SocketFlags, SocketType, recv, socketpair};

    use super::*;
    use crate::engine::{Engine, Settings};

    fn pair() -> (OwnedFd, OwnedFd) {
        let flags = SocketFlags::CLOEXEC;
        socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None).unwrap()
    }

    /// The answers to two messages that were in the channel when the peer aborted the association.
    fn late(shared: &Shared) -> Vec<i32> {
        let socket = shared.socket(Style::OneToOne, Family::Ipv4).unwrap();
        let (own, program) = pair();
        let outbox = Outbox::new(VecDeque::new(), Writing::Headers);
        let open = Open::new(7, socket, own, outbox).unwrap();
        let mut header = Header::new(Kind::Send);
        header.flags = flag::ANSWER;
        let send = |_| {
            let (caller, other) = pair();
            let data = [Bytes::from_static(b"late")];
            transfer::write(&program, &header.encode(), &data, Some(&other)).unwrap();
            caller
        };
        let callers: Vec<_> = (0..2).map(send).collect();
        *lock(&open.error) = Some(Error::Reset);
        open.finish();
        open.discard();
        let answer = |caller| {
            let mut bytes = [0; ANSWER];
            let (_, length) = recv(caller, &mut bytes, RecvFlags::empty()).unwrap();
            Answer::decode(&bytes[..length]).map_or(0, |answer| answer.errno)
        };
        callers.iter().map(answer).collect()
    }

    #[test]
    fn messages_that_come_too_late_are_answered() {
        let engine = Engine::start(Settings::default()).unwrap();
        let (done, answers) = std::sync::mpsc::channel();
        let shared = engine.shared.clone();
        engine.shared.host.spawn(async move { done.send(late(&shared)).unwrap() });
        assert_eq!(answers.recv().unwrap(), [libc::ECONNRESET, libc::EPIPE]);
    }
}
