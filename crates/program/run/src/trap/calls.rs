//! Answers a call.

use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use anabranch_c::layout;
use anabranch_channel::call::BIND;
use anabranch_channel::record::{Header, Kind};
use anabranch_notify::{Call, Reply};
use anabranch_sockets::{AssocId, Style};
use rustix::net::sockopt::{Timeout, socket_timeout};
use tokio::time::timeout;

use super::Trap;
use super::memory::Memory;
use super::process::{self, Process};
use crate::answer;
use crate::open::Open;
use crate::outbox::Record;
use crate::transfer::{self, Incoming};

/// A call on a socket of this engine.
#[derive(Debug)]
pub(super) struct Trapped {
    pub(super) trap: Arc<Trap>,
    /// The notification.
    pub(super) id: u64,
    pub(super) call: Call,
    pub(super) fd: i32,
    pub(super) arguments: [u64; 6],
    pub(super) process: Process,
    pub(super) memory: Memory,
    pub(super) open: Arc<Open>,
}

/// What a call that has not failed returns.
#[derive(Debug)]
pub(super) enum Returns {
    Value(i64),
    /// The kernel carries it out on the channel.
    Continue,
    /// It was answered, or has ended.
    Nothing,
}

impl From<()> for Returns {
    fn from((): ()) -> Self {
        Self::Value(0)
    }
}

impl Trapped {
    pub(super) async fn answer(self) {
        let reply = match self.carry_out().await {
            Ok(Returns::Value(value)) => Reply::Value(value),
            Ok(Returns::Continue) => Reply::Continue,
            Ok(Returns::Nothing) => return,
            Err(errno) => Reply::Error(errno),
        };
        // If the call has ended, nobody needs the answer.
        let _ = self.trap.reply(self.id, reply);
    }

    async fn carry_out(&self) -> Result<Returns, i32> {
        let [_, second, third, fourth, ..] = self.arguments;
        let socket = &self.open.socket;
        match self.call {
            Call::Bind => {
                let name = self.memory.address(second, third as u32)?;
                answer::bind(socket, BIND, &layout::addresses(&name)?)?;
                Ok(().into())
            }
            Call::Listen => answer::listen(&self.open, second as i32).await.map(|_| ().into()),
            Call::Connect => {
                let name = self.memory.address(second, third as u32)?;
                self.connect(layout::addresses(&name)?, |_| Ok(())).await.map(|_| ().into())
            }
            Call::Accept => self.accept(0).await,
            Call::Accept4 => self.accept(fourth as i32).await,
            Call::Shutdown if socket.style() == Style::OneToMany => Err(libc::EOPNOTSUPP),
            Call::Shutdown => self.open.start_shut_down(second as i32).map(|_| ().into()),
            Call::GetSockName => self.give_name(socket.name()),
            Call::GetPeerName => self.give_name(socket.peer_name().map_err(layout::number)?),
            Call::GetSockOpt => self.option().await,
            Call::SetSockOpt => self.set_option().await,
            Call::SendTo => self.send_to().await,
            Call::SendMsg => self.send_message().await,
            Call::ReceiveFrom => self.receive_from().await,
            Call::ReceiveMsg => self.receive_message().await,
            Call::SendManyMsg | Call::ReceiveManyMsg => {
                self.trap.complain_once(
                    "the program uses sendmmsg or recvmmsg on an SCTP socket, which --trap does not support",
                );
                Err(libc::EOPNOTSUPP)
            }
            Call::Socket => Ok(Returns::Continue),
        }
    }

    /// A copy of the descriptor, which must not be kept while the call waits: it would hide the program's last `close`.
    ///
    /// # Errors
    /// EBADF: another thread has closed it.
    pub(super) fn program(&self) -> Result<OwnedFd, i32> {
        let program = self.process.descriptor(self.fd).map_err(|_| libc::EBADF)?;
        let channel = process::channel(&program).ok_or(libc::EBADF)?;
        // With the number of the socket it is the right one, whatever became of the process.
        if channel.handle == self.open.handle { Ok(program) } else { Err(libc::EBADF) }
    }

    fn give_name(&self, name: SocketAddr) -> Result<Returns, i32> {
        let [_, to, length, ..] = self.arguments;
        if to == 0 || length == 0 {
            return Err(libc::EFAULT);
        }
        self.memory.give_address(&layout::address(name), to, length)?;
        Ok(().into())
    }

    /// Sets up an association. Calls `begun` with its number as soon as it is known, and returns it.
    ///
    /// # Errors
    /// EINPROGRESS: the program does not want to wait, or SO_SNDTIMEO has expired. Otherwise as `connect`.
    pub(super) async fn connect(
        &self,
        remotes: Vec<SocketAddr>,
        begun: impl FnOnce(AssocId) -> Result<(), i32>,
    ) -> Result<AssocId, i32> {
        let program = self.program()?;
        let limit = limit(&program, Timeout::Send);
        let waits = !process::is_nonblocking(&program);
        let descriptor = (!waits).then_some(program);
        let (id, outcome) =
            answer::start_connect(&self.trap.shared, &self.open, remotes, descriptor).await?;
        begun(id)?;
        if !waits {
            return Err(libc::EINPROGRESS);
        }
        match within(limit, outcome).await.ok_or(libc::EINPROGRESS)? {
            Ok(Ok(())) => Ok(id),
            Ok(Err(error)) => Err(layout::number(error)),
            Err(_) => Err(libc::EIO),
        }
    }

    async fn accept(&self, flags: i32) -> Result<Returns, i32> {
        if self.open.socket.style() == Style::OneToMany {
            return Err(libc::EOPNOTSUPP);
        }
        if flags & !(libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC) != 0 {
            return Err(libc::EINVAL);
        }
        loop {
            let stirred = self.open.stirred.notified();
            tokio::pin!(stirred);
            stirred.as_mut().enable();
            let program = self.program()?;
            if let Some(returns) = self.accept_now(&program, flags)? {
                return Ok(returns);
            }
            if let Some(error) = self.open.take_error() {
                return Err(layout::number(error));
            }
            if !self.open.socket.is_listening() {
                return Err(libc::EINVAL);
            }
            if process::is_nonblocking(&program) {
                return Err(libc::EAGAIN);
            }
            let limit = limit(&program, Timeout::Recv);
            drop(program);
            within(limit, stirred).await.ok_or(libc::EAGAIN)?;
        }
    }

    /// Accepts an association that waits; `None` if there is none.
    fn accept_now(&self, program: &OwnedFd, flags: i32) -> Result<Option<Returns>, i32> {
        let Ok(Some(Incoming { header: Some(header), descriptor: Some(accepted), .. })) =
            transfer::next(program)
        else {
            return Ok(None);
        };
        let given = self.give_accepted(&header, &accepted, flags);
        if given.is_err() {
            self.put_back(program, Record { descriptor: Some(accepted), ..Record::new(header) });
        }
        given.map(|()| Some(Returns::Nothing))
    }

    fn give_accepted(&self, header: &Header, accepted: &OwnedFd, flags: i32) -> Result<(), i32> {
        let [_, to, length, ..] = self.arguments;
        if header.kind != Kind::Accepted {
            return Err(libc::EINVAL);
        }
        self.memory.give_address(header.name(), to, length)?;
        self.trap.give(self.id, accepted, flags)
    }

    pub(super) fn put_back(&self, program: &OwnedFd, record: Record) {
        self.open.put_back(program, record);
        self.open.stirred.notify_waiters();
    }
}

/// SO_RCVTIMEO or SO_SNDTIMEO, which the kernel keeps.
pub(super) fn limit(program: &OwnedFd, which: Timeout) -> Option<Duration> {
    socket_timeout(program, which).ok().flatten()
}

/// Waits, no longer than a limit; `None` after that.
pub(super) async fn within<T>(
    limit: Option<Duration>,
    waits: impl Future<Output = T>,
) -> Option<T> {
    match limit {
        None => Some(waits.await),
        Some(limit) => timeout(limit, waits).await.ok(),
    }
}
