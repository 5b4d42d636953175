//! Reads and writes records on channels and on the connections of calls. Nothing here waits.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use anabranch_channel::call::{Answer, MOST_DATA, REQUEST};
use anabranch_channel::record::{HEADER, Header};
use bytes::{Buf, Bytes};
use rustix::cmsg_space;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recv, recvmsg, sendmsg,
};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// Registers a descriptor with the runtime.
#[expect(
    deprecated,
    reason = "its successor is unsafe code, to promise what the owners of descriptors of the \
              standard library do anyway: they keep them open and never exchange them"
)]
pub(crate) fn watch<T: AsRawFd>(owner: T, interest: Interest) -> io::Result<AsyncFd<T>> {
    AsyncFd::with_interest(owner, interest)
}

/// A record that was read.
#[derive(Debug)]
pub(crate) struct Incoming {
    /// `None`: the program wrote it without the library, so all of it is data.
    pub(crate) header: Option<Header>,
    pub(crate) data: Bytes,
    pub(crate) descriptor: Option<OwnedFd>,
}

impl Incoming {
    /// An empty record, or the end of one direction.
    pub(crate) fn is_nothing(&self) -> bool {
        self.header.is_none() && self.data.is_empty()
    }
}

/// Reads a record of a channel; `None` if all descriptors of the other end are closed.
///
/// # Errors
/// `WouldBlock`: there is none.
pub(crate) fn next(end: impl AsFd) -> io::Result<Option<Incoming>> {
    next_plain(end, |_| true)
}

/// Reads a record; `None` if all descriptors of the other end are closed.
fn whole(end: impl AsFd) -> io::Result<Option<(Vec<u8>, Option<OwnedFd>)>> {
    // The length first, because records may be as long as the channel's buffer.
    let length =
        recv(&end, &mut [0; 1], RecvFlags::PEEK | RecvFlags::TRUNC | RecvFlags::DONTWAIT)?.1;
    if length == 0 && has_hung_up(&end) {
        return Ok(None);
    }
    read(end, length).map(Some)
}

/// As [`next`], of a program that writes without headers: only what `is_header` accepts is one.
pub(crate) fn next_plain(
    end: impl AsFd,
    is_header: impl Fn(&Header) -> bool,
) -> io::Result<Option<Incoming>> {
    let Some((bytes, descriptor)) = whole(end)? else { return Ok(None) };
    let mut data = Bytes::from(bytes);
    let header = Header::decode(&data).filter(is_header);
    if header.is_some() {
        data.advance(HEADER);
    }
    Ok(Some(Incoming { header, data, descriptor }))
}

/// Reads a call: its record, and the descriptor in it.
pub(crate) fn call(connection: impl AsFd) -> io::Result<(Vec<u8>, Option<OwnedFd>)> {
    read(connection, REQUEST + MOST_DATA)
}

fn read(end: impl AsFd, length: usize) -> io::Result<(Vec<u8>, Option<OwnedFd>)> {
    let mut bytes = vec![0; length];
    let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let flags = RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC;
    let read = recvmsg(end, &mut [IoSliceMut::new(&mut bytes)], &mut control, flags)?;
    bytes.truncate(read.bytes);
    let descriptor = control.drain().find_map(|item| match item {
        RecvAncillaryMessage::ScmRights(mut descriptors) => descriptors.next(),
        _ => None,
    });
    Ok((bytes, descriptor))
}

/// Writes a record: a header and pieces of data.
///
/// # Errors
/// `WouldBlock`: there is no room.
pub(crate) fn write(
    end: impl AsFd,
    header: &[u8],
    data: &[Bytes],
    descriptor: Option<&OwnedFd>,
) -> io::Result<()> {
    let descriptors = descriptor.map(AsFd::as_fd);
    let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !descriptors.as_slice().is_empty() {
        control.push(SendAncillaryMessage::ScmRights(descriptors.as_slice()));
    }
    let pieces: Vec<IoSlice<'_>> = std::iter::once(header)
        .chain(data.iter().map(|piece| &piece[..]))
        .map(IoSlice::new)
        .collect();
    sendmsg(end, &pieces, &mut control, SendFlags::DONTWAIT | SendFlags::NOSIGNAL)?;
    Ok(())
}

/// Writes an answer. The caller may have gone: then nobody needs it.
pub(crate) fn answer(
    connection: impl AsFd,
    result: Result<i32, i32>,
    data: &[u8],
    descriptor: Option<&OwnedFd>,
) {
    let length = u32::try_from(data.len()).unwrap_or(0);
    let answer = match result {
        Ok(value) => Answer { errno: 0, value, length },
        Err(errno) => Answer { errno, value: 0, length },
    };
    let data = [Bytes::copy_from_slice(data)];
    let _ = write(connection, &answer.encode(), &data, descriptor);
}

/// Whether all descriptors of the other end are closed.
fn has_hung_up(end: impl AsFd) -> bool {
    let mut entries = [PollFd::new(&end, PollFlags::empty())];
    let polled = poll(&mut entries, Some(&Timespec::default()));
    polled.is_ok() && entries[0].revents().intersects(PollFlags::HUP | PollFlags::ERR)
}

#[cfg(test)]
mod tests {
    use anabranch_channel::record::Kind;
    use rustix::net::{AddressFamily, SocketFlags, SocketType, send, socketpair};

    use super::*;

    fn pair() -> (OwnedFd, OwnedFd) {
        let flags = SocketFlags::CLOEXEC;
        socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None).unwrap()
    }

    /// A peer chooses what an echo server writes.
    #[test]
    fn data_that_look_like_a_header_are_data() {
        let (program, own) = pair();
        let mut shutdown = Header::new(Kind::Shutdown);
        shutdown.value = 2;
        for header in [shutdown, Header::filling(8), Header::filling(7)] {
            send(&program, &header.encode(), SendFlags::empty()).unwrap();
            let read = next_plain(&own, |header| header.is_filling(7)).unwrap().unwrap();
            let filling = header.is_filling(7);
            assert_eq!((read.header.is_some(), read.data.is_empty()), (filling, filling));
        }
    }

    #[test]
    fn records_arrive_with_their_descriptors() {
        let (one, other) = pair();
        let mut header = Header::new(Kind::Accepted);
        header.serial = 7;
        let data = [Bytes::from_static(b"ab"), Bytes::from_static(b"c")];
        write(&one, &header.encode(), &data, Some(&pair().0)).unwrap();
        send(&one, b"written without the library", SendFlags::empty()).unwrap();
        // Nothing at all is no end.
        send(&one, b"", SendFlags::empty()).unwrap();
        let first = next(&other).unwrap().unwrap();
        assert_eq!((first.header, &first.data[..]), (Some(header), &b"abc"[..]));
        assert!(first.descriptor.is_some());
        let second = next(&other).unwrap().unwrap();
        assert_eq!((second.header, &second.data[..]), (None, &b"written without the library"[..]));
        assert!(next(&other).unwrap().unwrap().data.is_empty());
        assert_eq!(next(&other).unwrap_err().kind(), io::ErrorKind::WouldBlock);
        drop(one);
        assert!(next(&other).unwrap().is_none());
    }
}
