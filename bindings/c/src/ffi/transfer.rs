//! Code shared by all calls that send, and by all that receive.

use std::net::SocketAddr;
use std::sync::Arc;

use anabranch_sockets::{
    EventKind, Received, Receiving, SendFlags, Sending, Socket, Taken, policy,
};
use libc::{c_int, iovec, sockaddr, socklen_t, ssize_t};

use super::{buffers, length};
use crate::abi::{Extrcvinfo, Nxtinfo, Prinfo, Rcvinfo, Sndrcvinfo, flag};
use crate::address::{self, Place};
use crate::errno::Errno;
use crate::world::find;
use crate::{notifications, values};

/// Applies SCTP_SNDRCV to a message.
pub(super) fn set_sndrcv(sending: &mut Sending, info: &Sndrcvinfo) -> Result<(), Errno> {
    let flags = SendFlags::from_bits_retain(info.flags);
    sending.reliability(policy::of_sndrcv(flags, info.timetolive)?);
    Ok(sending.info(info.into())?)
}

/// Applies SCTP_PRINFO to a message.
pub(super) fn set_prinfo(sending: &mut Sending, info: Prinfo) -> Result<(), Errno> {
    let policy = SendFlags::from_bits_retain(info.policy);
    sending.reliability(policy::reliability(policy, info.value)?);
    Ok(())
}

/// Sends a message, or a part of one. Returns its length.
pub(super) fn send(mut sending: Sending, flags: c_int) -> Result<ssize_t, Errno> {
    if flags & libc::MSG_EOR != 0 {
        sending.end_record();
    }
    Ok(length(sending.send(flags & libc::MSG_DONTWAIT != 0)?))
}

/// The destination address of a message, if there is one.
///
/// # Safety
/// `to` is null or points to `len` readable bytes.
pub(super) unsafe fn remotes(
    to: *const sockaddr,
    len: socklen_t,
) -> Result<Vec<SocketAddr>, Errno> {
    if to.is_null() {
        return Ok(Vec::new());
    }
    // SAFETY: the caller's promise.
    Ok(vec![unsafe { address::read(to, len) }?])
}

/// A message, or a part of one, that was received.
pub(super) struct Incoming {
    socket: Arc<Socket>,
    received: Received,
    /// Bytes copied to the caller's buffers.
    copied: usize,
}

/// Receives into buffers, and stores the sender's address.
///
/// # Safety
/// As [`buffers::scatter`] and [`Place::new`].
pub(super) unsafe fn receive(
    fd: c_int,
    (list, count): (*const iovec, usize),
    flags: c_int,
    from: *mut sockaddr,
    fromlen: *mut socklen_t,
) -> Result<Incoming, Errno> {
    let socket = find(fd)?;
    // SAFETY: the caller's promise.
    let name = unsafe { Place::new(from, fromlen) }?;
    // SAFETY: the caller's promise.
    let room = unsafe { buffers::room(list, count) }?;
    if flags & libc::MSG_ERRQUEUE != 0 {
        // The queue of packet errors is always empty here; do not return a message instead.
        return Err(Errno::EAGAIN);
    }
    let (peek, dont_wait) = (flags & libc::MSG_PEEK != 0, flags & libc::MSG_DONTWAIT != 0);
    let how = Receiving { peek, dont_wait };
    let received = socket.receive_bytes(room, how, notifications::length)?;
    let encoded;
    let pieces = match &received.taken {
        Taken::Message { data, .. } => &data[..],
        Taken::Notification { notification, part } => {
            encoded = notifications::encode(notification, part.clone());
            &encoded
        }
        Taken::End => &[],
    };
    // SAFETY: the caller's promise.
    let copied = unsafe { buffers::scatter(pieces, list, count) }?;
    match received.from {
        Some(peer) => name.write(socket.show(peer)),
        None => name.write_none(),
    }
    Ok(Incoming { socket, received, copied })
}

impl Incoming {
    /// What the call returns.
    pub(super) fn length(&self) -> ssize_t {
        length(self.copied)
    }

    /// MSG_EOR and MSG_NOTIFICATION.
    pub(super) fn flags(&self) -> c_int {
        let kind = match self.received.taken {
            Taken::Notification { .. } => flag::MSG_NOTIFICATION,
            Taken::Message { .. } | Taken::End => 0,
        };
        kind | if self.received.end { libc::MSG_EOR } else { 0 }
    }

    /// SCTP_RCVINFO if SCTP_RECVRCVINFO is on, and SCTP_NXTINFO if SCTP_RECVNXTINFO is on.
    pub(super) fn about(&self) -> (Option<Rcvinfo>, Option<Nxtinfo>) {
        let Taken::Message { info, next, .. } = self.received.taken else { return (None, None) };
        let wanted = self.socket.options(|options| (options.receive_info, options.next_info));
        (wanted.0.then_some(info.into()), next.filter(|_| wanted.1).map(Nxtinfo::from))
    }

    /// SCTP_SNDRCV, if `sctp_data_io_event` is on (RFC 6458 section 6.2.1).
    pub(super) fn sndrcv(&self) -> Option<Sndrcvinfo> {
        let Taken::Message { info, .. } = self.received.taken else { return None };
        self.socket.is_subscribed(info.id, EventKind::DataIo).then(|| info.into())
    }

    /// SCTP_EXTRCV, which is SCTP_SNDRCV with information about the next message, if SCTP_USE_EXT_RCVINFO
    /// is on (RFC 6458 section 8.1.22).
    pub(super) fn extended(&self) -> Option<Extrcvinfo> {
        let Taken::Message { info, next, .. } = self.received.taken else { return None };
        self.socket.options(|options| options.extended).then(|| values::extended(info, next))
    }
}
