//! Receives messages and notifications.

use anabranch_channel::call::Operation;
use anabranch_channel::name::Channel;
use anabranch_channel::record::{HEADER, Header, Kind, flag};
use libc::{c_int, iovec};

use crate::engine::{self, Call};
use crate::{known, records};

/// `MSG_NOTIFICATION` of Linux.
const MSG_NOTIFICATION: c_int = 0x8000;

/// Buffers that a call may have without a large list on the stack.
const FEW: usize = 16;

/// Buffers of any call: IOV_MAX, and the header.
const MOST: usize = 1025;

/// What was received.
#[derive(Debug)]
pub(crate) struct Received {
    /// The header of the record; `None` at the end.
    pub(crate) header: Option<Header>,
    /// Bytes in the caller's buffers.
    pub(crate) length: usize,
    /// MSG_EOR and MSG_NOTIFICATION.
    pub(crate) flags: c_int,
}

/// Receives a message, a part of one, or a notification into the caller's buffers.
///
/// # Errors
/// As `recvmsg`. ENETDOWN: the engine has ended.
///
/// # Safety
/// The pieces are the program's, which the kernel checks.
pub(crate) unsafe fn receive(
    fd: c_int,
    channel: Channel,
    pieces: &[iovec],
    flags: c_int,
) -> Result<Received, c_int> {
    if flags & libc::MSG_ERRQUEUE != 0 {
        return Err(libc::EAGAIN);
    }
    if flags & libc::MSG_OOB != 0 {
        return Err(libc::EOPNOTSUPP);
    }
    let room = pieces.iter().fold(0, |all: usize, piece| all.saturating_add(piece.iov_len));
    let mut may_receive = known::may_receive(fd);
    loop {
        let first = first(fd, channel, flags, &mut may_receive)?;
        match first.kind {
            Kind::Message | Kind::Notification => {}
            Kind::End => return Ok(Received { header: None, length: 0, flags: 0 }),
            Kind::Accepted => return Err(libc::ENOTCONN),
            Kind::Look => {
                records::drop_first(fd);
                engine::take_error(channel.handle)?;
                continue;
            }
            Kind::Send | Kind::Shutdown | Kind::Fill => {
                records::drop_first(fd);
                continue;
            }
        }
        let peeks = flags & libc::MSG_PEEK != 0;
        let stays = peeks || first.length as usize > room;
        // SAFETY: the caller's promise.
        let (header, length) = match unsafe { read(fd, pieces, stays) } {
            // Another thread or process was faster, here and below.
            Err(libc::EAGAIN) => continue,
            read => read?,
        };
        if stays && header.serial != first.serial {
            continue;
        }
        if stays && !peeks && length > 0 {
            match advance(fd, channel, header.serial, length) {
                Err(libc::EAGAIN) => continue,
                advanced => advanced?,
            }
        }
        match header.kind {
            Kind::Look => engine::take_error(channel.handle)?,
            Kind::End => {
                engine::ask(Operation::EndAgain, channel.handle)?;
            }
            Kind::Message | Kind::Notification => {
                // Its association is there, so the engine, which a sandbox may hide, need not be asked.
                if !may_receive && !channel.one_to_many {
                    known::set_may_receive(fd);
                }
                return Ok(received(header, length));
            }
            _ => {}
        }
    }
}

/// The header of the first record, which stays there. Before it waits, it asks the engine whether anything can come:
/// without an association nothing would.
fn first(
    fd: c_int,
    channel: Channel,
    flags: c_int,
    may_receive: &mut bool,
) -> Result<Header, c_int> {
    if *may_receive {
        return records::look(fd, flags);
    }
    match records::look(fd, flags | libc::MSG_DONTWAIT) {
        Err(libc::EAGAIN) if flags & libc::MSG_DONTWAIT == 0 && !records::is_nonblocking(fd) => {}
        first => return first,
    }
    if engine::ask_interruptibly(Operation::MayReceive, channel.handle)? == 0 {
        return Err(libc::ENOTCONN);
    }
    known::set_may_receive(fd);
    *may_receive = true;
    records::look(fd, flags)
}

fn received(header: Header, length: usize) -> Received {
    let kind = if header.kind == Kind::Notification { MSG_NOTIFICATION } else { 0 };
    let ends = header.has(flag::END) && length == header.length as usize;
    let flags = kind | if ends { libc::MSG_EOR } else { 0 };
    Received { header: Some(header), length, flags }
}

/// Reads the first record, without waiting. Returns its header and the number of bytes in the caller's buffers.
///
/// # Safety
/// As [`receive`].
unsafe fn read(fd: c_int, pieces: &[iovec], stays: bool) -> Result<(Header, usize), c_int> {
    let flags = libc::MSG_DONTWAIT | if stays { libc::MSG_PEEK } else { 0 };
    if pieces.len() <= FEW {
        // SAFETY: the caller's promise.
        unsafe { read_into::<{ FEW + 1 }>(fd, pieces, flags) }
    } else {
        // SAFETY: the caller's promise.
        unsafe { read_into::<MOST>(fd, pieces, flags) }
    }
}

/// As [`read`], with room for `N - 1` pieces.
///
/// # Safety
/// As [`receive`].
#[inline(never)]
unsafe fn read_into<const N: usize>(
    fd: c_int,
    pieces: &[iovec],
    flags: c_int,
) -> Result<(Header, usize), c_int> {
    let mut bytes = [0; HEADER];
    let mut all = [records::room(&mut []); N];
    let list = std::iter::once(records::room(&mut bytes)).chain(pieces.iter().copied());
    all.iter_mut().zip(list).for_each(|(to, piece)| *to = piece);
    let used = all.get_mut(..=pieces.len()).ok_or(libc::EMSGSIZE)?;
    // SAFETY: the header is this function's own memory; the caller's promise.
    let taken = unsafe { records::take(fd, used, flags) }?;
    if let Some(descriptor) = taken.descriptor {
        // A message has none: the socket listens, and another thread was faster.
        // SAFETY: the kernel has just given the descriptor to this function.
        unsafe { libc::close(descriptor) };
    }
    let length = taken.length.checked_sub(HEADER).ok_or(libc::EIO)?;
    Ok((Header::decode(&bytes).ok_or(libc::EIO)?, length))
}

/// Tells the engine that the caller has the first bytes of the first message. The engine sends the rest again.
///
/// # Errors
/// EAGAIN: it is not the first message any more.
fn advance(fd: c_int, channel: Channel, serial: u32, length: usize) -> Result<(), c_int> {
    let length = c_int::try_from(length).map_err(|_| libc::EINVAL)?;
    let arguments = [serial.cast_signed(), length, 0];
    let call = Call { handle: channel.handle, arguments, attached: Some(fd), ..Call::default() };
    engine::call(Operation::Recall, call, &mut []).map(|_| ())
}

/// Bytes of the next message or notification; 0 if there is none (FIONREAD).
pub(crate) fn waiting(fd: c_int) -> usize {
    match records::look(fd, libc::MSG_DONTWAIT) {
        Ok(Header { kind: Kind::Message | Kind::Notification, length, .. }) => length as usize,
        _ => 0,
    }
}
