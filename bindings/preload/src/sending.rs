//! Sends messages.

use anabranch_channel::call::{ANSWER, Answer, Operation};
use anabranch_channel::name::Channel;
use anabranch_channel::record::{HEADER, Header, Kind, flag};
use libc::{c_int, iovec};

use crate::engine::{self, Call};
use crate::records::{self, Taken};
use crate::{known, next};

/// Buffers that a call may have without a large list on the stack.
const FEW: usize = 16;

/// Buffers of any call: IOV_MAX, and the header.
const MOST: usize = 1025;

/// Flags of `sinfo_flags` that do not end an association or choose another path: SCTP_UNORDERED and
/// SCTP_SACK_IMMEDIATELY.
const HARMLESS: u16 = 1 | 1 << 3;

/// Types of ancillary data.
const SNDRCV: c_int = 1;
const SNDINFO: c_int = 2;

/// A message, besides its data.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Message<'a> {
    /// The peer's address; empty for none.
    pub(crate) name: &'a [u8],
    /// Ancillary data as in `sendmsg`.
    pub(crate) control: &'a [u8],
    /// MSG_DONTWAIT, MSG_NOSIGNAL and MSG_EOR count.
    pub(crate) flags: c_int,
}

/// Sends a message. Returns its length.
///
/// # Errors
/// As `sendmsg`. Raises SIGPIPE with EPIPE unless MSG_NOSIGNAL is set.
///
/// # Safety
/// The pieces are the program's, which the kernel checks.
pub(crate) unsafe fn send(
    fd: c_int,
    channel: Channel,
    pieces: &[iovec],
    message: Message<'_>,
) -> Result<usize, c_int> {
    let mut header = Header::new(Kind::Send);
    if !header.set_name(message.name) || !header.set_control(message.control) {
        return Err(libc::EINVAL);
    }
    if message.flags & libc::MSG_EOR != 0 {
        header.flags |= flag::END;
    }
    let length = pieces.iter().fold(0, |all: usize, piece| all.saturating_add(piece.iov_len));
    header.length = u32::try_from(length).map_err(|_| libc::EMSGSIZE)?;
    let stream = plain_stream(&message).filter(|_| !channel.one_to_many && length > 0);
    let result = match stream {
        Some(stream) if known::has_sent(fd, stream) => {
            // SAFETY: the caller's promise.
            unsafe { write(fd, &header, pieces, None, message.flags) }
        }
        // SAFETY: the caller's promise.
        stream => unsafe { answered(fd, header, pieces, message.flags) }.inspect(|()| {
            stream.into_iter().for_each(|stream| known::set_sent(fd, stream));
        }),
    };
    match result {
        Err(libc::EPIPE) => Err(broken(channel, message.flags)),
        result => result.map(|()| length),
    }
}

/// Ends sending, or does nothing with SHUT_RD. Does not wait, as in a kernel, also if the channel is full.
pub(crate) fn shut_down(fd: c_int, channel: Channel, how: c_int) -> Result<(), c_int> {
    let call = Call { handle: channel.handle, arguments: [how, 0, 0], ..Call::default() };
    match engine::call(Operation::ShutDown, call, &mut []) {
        // A sandbox allows no more sockets.
        Err(libc::EPERM | libc::EACCES | libc::ENOSYS) => shut_down_in_turn(fd, how),
        answered => answered.map(drop),
    }
}

/// As [`shut_down`], by a record that waits for room in the channel.
fn shut_down_in_turn(fd: c_int, how: c_int) -> Result<(), c_int> {
    let mut header = Header::new(Kind::Shutdown);
    header.value = how;
    // SAFETY: there are no pieces.
    match unsafe { answered(fd, header, &[], libc::MSG_NOSIGNAL) } {
        // It has been shut down already.
        Err(libc::EPIPE) => Ok(()),
        result => result,
    }
}

/// The stream of a message that may be sent without an answer: nothing but the stream can be wrong with it.
fn plain_stream(message: &Message<'_>) -> Option<u16> {
    if !message.name.is_empty() {
        return None;
    }
    if message.control.is_empty() {
        return Some(0);
    }
    let field = |at: usize| message.control.get(at..)?.first_chunk().copied();
    const LEVEL: usize = size_of::<usize>();
    const DATA: usize = 2 * size_of::<usize>();
    let kind = c_int::from_ne_bytes(message.control.get(LEVEL + 4..)?.first_chunk().copied()?);
    let level = c_int::from_ne_bytes(message.control.get(LEVEL..)?.first_chunk().copied()?);
    // In SCTP_SNDRCV the stream sequence number is between stream and flags.
    let flags = match (level, kind) {
        (libc::IPPROTO_SCTP, SNDRCV) => DATA + 4,
        (libc::IPPROTO_SCTP, SNDINFO) => DATA + 2,
        _ => return None,
    };
    let length = usize::from_ne_bytes(message.control.first_chunk().copied()?);
    let alone = length.next_multiple_of(size_of::<usize>()) >= message.control.len();
    let harmless = u16::from_ne_bytes(field(flags)?) & !HARMLESS == 0;
    (alone && harmless).then_some(u16::from_ne_bytes(field(DATA)?))
}

/// The error of a message that cannot be sent because the association has ended: first the reason, once.
fn broken(channel: Channel, flags: c_int) -> c_int {
    match engine::take_error(channel.handle) {
        Err(errno) if errno != libc::ENETDOWN => return errno,
        _ => {}
    }
    if flags & libc::MSG_NOSIGNAL == 0 {
        // As in a kernel, which sends it to the thread.
        // SAFETY: the call has no preconditions.
        unsafe { libc::raise(libc::SIGPIPE) };
    }
    libc::EPIPE
}

/// Sends a record and waits for its answer.
///
/// # Safety
/// As [`send`].
unsafe fn answered(
    fd: c_int,
    mut header: Header,
    pieces: &[iovec],
    flags: c_int,
) -> Result<(), c_int> {
    let dont_wait = flags & libc::MSG_DONTWAIT != 0 || records::is_nonblocking(fd);
    header.flags |= flag::ANSWER | if dont_wait { flag::DONT_WAIT } else { 0 };
    let mut ends = [-1; 2];
    let kind = libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC;
    // SAFETY: there is room for two descriptors.
    if unsafe { libc::socketpair(libc::AF_UNIX, kind, 0, ends.as_mut_ptr()) } != 0 {
        return Err(next::errno());
    }
    let [own, other] = ends;
    // SAFETY: the caller's promise.
    let sent = unsafe { write(fd, &header, pieces, Some(other), flags) };
    // SAFETY: the descriptor is this function's own. The engine has its copy.
    unsafe { libc::close(other) };
    let result = sent.and_then(|()| wait(fd, own));
    // SAFETY: the descriptor is this function's own.
    unsafe { libc::close(own) };
    result
}

/// Waits for the answer to a record, as long as SO_SNDTIMEO allows. A signal ends the wait as in a kernel.
fn wait(fd: c_int, own: c_int) -> Result<(), c_int> {
    if let Some(limit) = records::send_limit(fd) {
        let (value, len) = ((&raw const limit).cast(), size_of::<libc::timeval>() as _);
        // SAFETY: the value has this many bytes.
        unsafe { next::setsockopt(own, libc::SOL_SOCKET, libc::SO_RCVTIMEO, value, len) };
    }
    let mut ended = None;
    loop {
        let mut bytes = [0; ANSWER];
        // SAFETY: the piece is this function's own memory.
        let taken = unsafe { records::take(own, &mut [records::room(&mut bytes)], 0) };
        match taken {
            Ok(Taken { length, .. }) => {
                return match Answer::decode(bytes.get(..length).unwrap_or_default()) {
                    Some(Answer { errno: 0, .. }) => Ok(()),
                    Some(Answer { errno, .. }) => Err(errno),
                    // The engine has dropped the record as it was asked to, or has ended.
                    None => Err(ended.unwrap_or(libc::ENETDOWN)),
                };
            }
            // Ask the engine to drop the record, and wait until it has, or has sent the message after all. It does
            // either at once. So a message that was sent is never reported as interrupted.
            Err(errno @ (libc::EINTR | libc::EAGAIN)) => {
                if ended.is_none() {
                    // SAFETY: the call has no preconditions.
                    unsafe { next::shutdown(own, libc::SHUT_WR) };
                }
                ended.get_or_insert(errno);
            }
            Err(errno) => return Err(errno),
        }
    }
}

/// Sends a record.
///
/// # Safety
/// As [`send`].
unsafe fn write(
    fd: c_int,
    header: &Header,
    pieces: &[iovec],
    attached: Option<c_int>,
    flags: c_int,
) -> Result<(), c_int> {
    let flags = (flags & libc::MSG_DONTWAIT) | libc::MSG_NOSIGNAL;
    let header = header.encode();
    if pieces.len() <= FEW {
        // SAFETY: the caller's promise.
        unsafe { write_from::<{ FEW + 1 }>(fd, &header, pieces, attached, flags) }
    } else {
        // SAFETY: the caller's promise.
        unsafe { write_from::<MOST>(fd, &header, pieces, attached, flags) }
    }
}

/// As [`write`], with room for `N - 1` pieces.
///
/// # Safety
/// As [`send`].
#[inline(never)]
unsafe fn write_from<const N: usize>(
    fd: c_int,
    header: &[u8; HEADER],
    pieces: &[iovec],
    attached: Option<c_int>,
    flags: c_int,
) -> Result<(), c_int> {
    let mut all = [records::piece(&[]); N];
    let list = std::iter::once(records::piece(header)).chain(pieces.iter().copied());
    all.iter_mut().zip(list).for_each(|(to, piece)| *to = piece);
    let used = all.get(..=pieces.len()).ok_or(libc::EMSGSIZE)?;
    // SAFETY: the header lives until the call returns; the caller's promise.
    match unsafe { records::send(fd, used, attached, flags) } {
        // The engine has ended without reading everything.
        Err(libc::ECONNRESET) => Err(libc::EPIPE),
        sent => sent.map(|_| ()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn control(kind: c_int, stream: u16, flags: u16, padding: usize) -> Vec<u8> {
        let ssn: &[u8] = if kind == SNDRCV { &[9; 2] } else { &[] };
        let mut data = [&stream.to_ne_bytes()[..], ssn, &flags.to_ne_bytes()].concat();
        data.resize(if kind == SNDRCV { 32 } else { 16 }, 0);
        let length = (2 * size_of::<usize>() + data.len()).to_ne_bytes();
        let head = [&length[..], &libc::IPPROTO_SCTP.to_ne_bytes(), &kind.to_ne_bytes()].concat();
        [head, data, vec![0; padding]].concat()
    }

    fn stream(name: &[u8], control: &[u8]) -> Option<u16> {
        plain_stream(&Message { name, control, flags: 0 })
    }

    #[test]
    fn only_the_stream_of_a_plain_message_can_be_wrong() {
        assert_eq!(stream(&[], &[]), Some(0));
        assert_eq!(stream(&[2, 0], &[]), None);
        for kind in [SNDRCV, SNDINFO] {
            assert_eq!(stream(&[], &control(kind, 7, 0, 0)), Some(7));
            assert_eq!(stream(&[], &control(kind, 7, HARMLESS, 0)), Some(7));
            // SCTP_EOF and SCTP_ABORT end the association.
            assert_eq!(stream(&[], &control(kind, 7, 1 << 9, 0)), None);
            assert_eq!(stream(&[], &control(kind, 7, 4, 0)), None);
            // There may be another item.
            assert_eq!(stream(&[], &control(kind, 7, 0, 16)), None);
            for cut in 0..20 {
                assert_eq!(stream(&[], &control(kind, 7, 0, 0)[..cut]), (cut == 0).then_some(0));
            }
        }
        assert_eq!(stream(&[], &control(5, 7, 0, 0)), None);
    }
}
