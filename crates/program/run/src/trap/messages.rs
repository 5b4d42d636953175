//! Calls that send and receive.

use anabranch_c::layout;
use anabranch_channel::linux::items_within;
use anabranch_channel::record::{Header, Kind, flag};
use bytes::Bytes;
use rustix::io::ioctl_fionread;
use rustix::net::sockopt::{Timeout, socket_send_buffer_size};

use super::calls::{Returns, Trapped, limit, within};
use super::memory::{self, Piece};
use super::process;
use crate::open::Open;
use crate::outbox::Record;

/// `MSG_NOTIFICATION` of Linux.
const MSG_NOTIFICATION: i32 = 0x8000;

impl Trapped {
    pub(super) async fn send_to(&self) -> Result<Returns, i32> {
        let [_, data, length, flags, to, to_length] = self.arguments;
        let name = match to {
            0 => Vec::new(),
            _ => self.memory.address(to, to_length as u32)?,
        };
        self.send(&name, &[], &[(data, length)], flags as i32).await
    }

    pub(super) async fn send_message(&self) -> Result<Returns, i32> {
        let [_, message, flags, ..] = self.arguments;
        let message = self.memory.message(message)?;
        let name = match message.name {
            (0, _) | (_, 0) => Vec::new(),
            (at, length) => self.memory.address(at, length as u32)?,
        };
        let control = self.memory.control(message.control)?;
        self.send(&name, &control, &message.pieces, flags as i32).await
    }

    async fn send(
        &self,
        name: &[u8],
        control: &[u8],
        pieces: &[Piece],
        flags: i32,
    ) -> Result<Returns, i32> {
        let mut header = Header::new(Kind::Send);
        if !header.set_name(name) || !header.set_control(control) {
            return Err(libc::EINVAL);
        }
        if flags & libc::MSG_EOR != 0 {
            header.flags |= flag::END;
        }
        let program = self.program()?;
        // As for a program that writes by itself.
        let room = socket_send_buffer_size(&program).unwrap_or(0);
        if memory::length(pieces) > room as u64 {
            return Err(libc::EMSGSIZE);
        }
        if flags & libc::MSG_DONTWAIT != 0 || process::is_nonblocking(&program) {
            header.flags |= flag::DONT_WAIT;
        }
        let limit = limit(&program, Timeout::Send);
        drop(program);
        let data = Bytes::from(self.memory.gather(pieces)?);
        let sent = within(limit, self.open.send_in_turn(&header, data)).await;
        sent.ok_or(libc::EAGAIN)?.map(|length| Returns::Value(length.into()))
    }

    pub(super) async fn receive_from(&self) -> Result<Returns, i32> {
        let [_, data, length, flags, from, from_length] = self.arguments;
        let pieces = [(data, length)];
        self.receive(&pieces, flags as i32, |header, _| {
            let name = header.map_or(&[][..], |header| header.name());
            self.memory.give_address(name, from, from_length)
        })
        .await
    }

    pub(super) async fn receive_message(&self) -> Result<Returns, i32> {
        let [_, message, flags, ..] = self.arguments;
        let message = self.memory.message(message)?;
        self.receive(&message.pieces, flags as i32, |header, mut flags| {
            let (name, control) =
                header.map_or((&[][..], &[][..]), |header| (header.name(), header.control()));
            let (at, room) = message.control;
            let room = if at == 0 { 0 } else { usize::try_from(room).unwrap_or(usize::MAX) };
            let fits = items_within(control, room);
            if fits < control.len() {
                flags |= libc::MSG_CTRUNC;
            }
            self.memory.tell(&message, name, control.get(..fits).unwrap_or_default(), flags)
        })
        .await
    }

    /// Receives a message, a part of one, or a notification. `tell` stores what is known about it.
    async fn receive(
        &self,
        pieces: &[Piece],
        flags: i32,
        tell: impl Fn(Option<&Header>, i32) -> Result<(), i32>,
    ) -> Result<Returns, i32> {
        if flags & libc::MSG_ERRQUEUE != 0 {
            return Err(libc::EAGAIN);
        }
        if flags & libc::MSG_OOB != 0 {
            return Err(libc::EOPNOTSUPP);
        }
        let room = usize::try_from(memory::length(pieces)).unwrap_or(usize::MAX);
        let peek = flags & libc::MSG_PEEK != 0;
        loop {
            let stirred = self.open.stirred.notified();
            tokio::pin!(stirred);
            stirred.as_mut().enable();
            let program = self.program()?;
            if let Some(record) = self.open.take(&program, room, peek) {
                let delivered = self.deliver(pieces, &record, &tell);
                if delivered.is_err() && !peek {
                    self.put_back(&program, record);
                }
                return delivered;
            }
            if let Some(error) = self.open.take_error() {
                return Err(layout::number(error));
            }
            if self.open.has_ended() {
                tell(None, 0)?;
                return Ok(Returns::Value(0));
            }
            if flags & libc::MSG_DONTWAIT != 0 || process::is_nonblocking(&program) {
                return Err(libc::EAGAIN);
            }
            if !self.open.may_receive() {
                return Err(libc::ENOTCONN);
            }
            let limit = limit(&program, Timeout::Recv);
            drop(program);
            within(limit, stirred).await.ok_or(libc::EAGAIN)?;
        }
    }

    /// Stores a message in the program's memory, and answers the call. Fails if it has ended meanwhile.
    fn deliver(
        &self,
        pieces: &[Piece],
        record: &Record,
        tell: impl Fn(Option<&Header>, i32) -> Result<(), i32>,
    ) -> Result<Returns, i32> {
        let Record { header, data, .. } = record;
        let data = data.concat();
        let kind = if header.kind == Kind::Notification { MSG_NOTIFICATION } else { 0 };
        let end = if header.has(flag::END) { libc::MSG_EOR } else { 0 };
        self.memory.scatter(pieces, &data)?;
        tell(Some(header), kind | end)?;
        let length = i64::try_from(data.len()).map_err(|_| libc::EINVAL)?;
        let replied = self.trap.reply(self.id, anabranch_notify::Reply::Value(length));
        replied.map(|()| Returns::Nothing).map_err(|_| libc::EINTR)
    }
}

impl Open {
    /// Sends a message after those that the program has written into the channel.
    async fn send_in_turn(&self, header: &Header, data: Bytes) -> Result<i32, i32> {
        let dont_wait = header.has(flag::DONT_WAIT);
        loop {
            let stirred = self.stirred.notified();
            tokio::pin!(stirred);
            stirred.as_mut().enable();
            let turn = match self.turn.try_lock() {
                Err(_) if dont_wait => return Err(libc::EAGAIN),
                Err(_) => self.turn.lock().await,
                Ok(turn) => turn,
            };
            // The other direction notices if the channel has ended.
            let is_empty = self.is_finished() || ioctl_fionread(self.end.get_ref()) == Ok(0);
            if is_empty && !self.is_connecting() {
                return self.send(header, data).await;
            }
            drop(turn);
            if dont_wait {
                return Err(libc::EAGAIN);
            }
            stirred.await;
        }
    }
}
