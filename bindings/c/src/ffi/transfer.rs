//! What the calls that send have in common, and those that receive.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use libc::{c_int, iovec, sockaddr, socklen_t, ssize_t};

use super::{buffers, length, options};
use crate::abi::{Extrcvinfo, Initmsg, Nxtinfo, Prinfo, Rcvinfo, Sndinfo, Sndrcvinfo, event, flag};
use crate::address::{self, Place};
use crate::errno::Errno;
use crate::socket::options::Own;
use crate::socket::{Outgoing, Received, Receiving, Socket, Taken, Target};
use crate::world::find;

/// A message to send: as its socket's options say, until the call says otherwise.
pub(super) struct Sending {
    pub(super) socket: Arc<Socket>,
    pub(super) outgoing: Outgoing,
    target: Target,
    /// The call sets the lifetime of the message.
    timed: bool,
}

impl Sending {
    /// A message to these addresses, as the options of the association there say.
    pub(super) fn new(socket: Arc<Socket>, data: Bytes, remotes: Vec<SocketAddr>) -> Self {
        let target = Target { remotes, ..Target::default() };
        let (info, lifetime) = socket.defaults(&target);
        let outgoing = Outgoing {
            stream: info.sid,
            flags: info.flags,
            ppid: info.ppid,
            context: info.context,
            lifetime,
            data,
        };
        Self { socket, outgoing, target, timed: false }
    }

    /// What SCTP_SNDINFO says.
    pub(super) fn sndinfo(&mut self, info: Sndinfo) -> Result<(), Errno> {
        check_policy(info.flags)?;
        self.outgoing.stream = info.sid;
        self.outgoing.flags = info.flags;
        self.outgoing.ppid = info.ppid;
        self.outgoing.context = info.context;
        if info.assoc_id != 0 {
            self.target.id = info.assoc_id;
            if !self.timed {
                self.outgoing.lifetime = self.socket.defaults(&self.target).1;
            }
        }
        Ok(())
    }

    /// What SCTP_SNDRCV says; its time to live is in milliseconds, and 0 is for ever.
    pub(super) fn sndrcv(&mut self, info: &Sndrcvinfo) -> Result<(), Errno> {
        let Sndrcvinfo { stream, flags, ppid, context, assoc_id, .. } = *info;
        self.sndinfo(Sndinfo { sid: stream, flags, ppid, context, assoc_id })?;
        self.outgoing.lifetime = lifetime(info.timetolive);
        self.timed = true;
        Ok(())
    }

    /// What SCTP_PRINFO says. Without partial reliability (RFC 3758) only a time to live has a
    /// meaning: what was not sent until then is not sent any more.
    pub(super) fn prinfo(&mut self, info: Prinfo) -> Result<(), Errno> {
        check_policy(info.policy)?;
        let timed = info.policy & flag::PR_MASK == flag::PR_TTL;
        self.outgoing.lifetime = lifetime(info.value).filter(|_| timed);
        self.timed = true;
        Ok(())
    }

    /// What SCTP_INIT says, of an association that this message sets up and of no other one.
    pub(super) fn init(&mut self, init: &Initmsg) -> Result<(), Errno> {
        self.target.config = Some(options::init(&self.socket, init)?);
        Ok(())
    }

    /// Sends it. Returns its length.
    pub(super) fn send(self, flags: c_int) -> Result<ssize_t, Errno> {
        let dont_wait = flags & libc::MSG_DONTWAIT != 0;
        Ok(length(self.socket.send(&self.target, &self.outgoing, dont_wait)?))
    }
}

/// Whether the policy of partial reliability that flags have is one that there is: none, or a time
/// to live. The number of another one is no time.
pub(super) fn check_policy(flags: u16) -> Result<(), Errno> {
    match flags & flag::PR_MASK {
        0 | flag::PR_TTL => Ok(()),
        _ => Err(Errno::EOPNOTSUPP),
    }
}

/// A time to live in milliseconds.
pub(super) fn lifetime(milliseconds: u32) -> Option<Duration> {
    (milliseconds > 0).then(|| Duration::from_millis(milliseconds.into()))
}

/// The address that a message goes to, if one is given.
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
    /// Bytes that the caller's buffers got.
    copied: usize,
}

/// Receives into buffers, and tells whose it is.
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
        // Errors of packets, which no socket has here; a message is not one.
        return Err(Errno::EAGAIN);
    }
    let (peek, dont_wait) = (flags & libc::MSG_PEEK != 0, flags & libc::MSG_DONTWAIT != 0);
    let received = socket.receive(room, Receiving { peek, dont_wait })?;
    // SAFETY: the caller's promise.
    let copied = unsafe { buffers::scatter(&received.data, list, count) }?;
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
            Taken::Notification => flag::MSG_NOTIFICATION,
            Taken::Message { .. } | Taken::End => 0,
        };
        kind | if self.received.end { libc::MSG_EOR } else { 0 }
    }

    /// What the socket is to tell of messages by SCTP_RECVRCVINFO and SCTP_RECVNXTINFO.
    pub(super) fn about(&self) -> (Option<Rcvinfo>, Option<Nxtinfo>) {
        let Taken::Message { info, next } = self.received.taken else { return (None, None) };
        let wanted = self.socket.with(|state| (state.options.rcvinfo, state.options.nxtinfo));
        (wanted.0.then_some(info), next.filter(|_| wanted.1))
    }

    /// SCTP_SNDRCV, if `sctp_data_io_event` is on (RFC 6458 section 6.2.1).
    pub(super) fn sndrcv(&self) -> Option<Sndrcvinfo> {
        let Taken::Message { info, .. } = self.received.taken else { return None };
        let wants = |own: &Own| own.events.contains(&event::DATA_IO);
        let wanted = self.socket.with(|state| wants(state.own(info.assoc_id)));
        wanted.then(|| Sndrcvinfo {
            stream: info.sid,
            ssn: info.ssn,
            flags: info.flags,
            ppid: info.ppid,
            tsn: info.tsn,
            cumtsn: info.cumtsn,
            context: info.context,
            assoc_id: info.assoc_id,
            ..Sndrcvinfo::default()
        })
    }

    /// SCTP_EXTRCV, which is SCTP_SNDRCV and what is known of the next message, if
    /// SCTP_USE_EXT_RCVINFO is on (RFC 6458 section 8.1.22).
    pub(super) fn extended(&self, info: &Sndrcvinfo) -> Option<Extrcvinfo> {
        let Taken::Message { next, .. } = self.received.taken else { return None };
        if !self.socket.with(|state| state.options.extended) {
            return None;
        }
        let mut extended = Extrcvinfo {
            stream: info.stream,
            ssn: info.ssn,
            flags: info.flags,
            ppid: info.ppid,
            context: info.context,
            tsn: info.tsn,
            cumtsn: info.cumtsn,
            assoc_id: info.assoc_id,
            ..Extrcvinfo::default()
        };
        if let Some(next) = next {
            let if_so = |is, shown| if next.flags & is != 0 { shown } else { 0 };
            extended.next_flags = flag::NEXT_MSG_AVAIL
                | if_so(flag::COMPLETE, flag::NEXT_MSG_ISCOMPLETE)
                | if_so(flag::UNORDERED, flag::NEXT_MSG_IS_UNORDERED);
            extended.next_stream = next.sid;
            extended.next_aid = next.assoc_id;
            extended.next_length = next.length;
            extended.next_ppid = next.ppid;
        }
        Some(extended)
    }
}
