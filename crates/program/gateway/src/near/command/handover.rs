//! Passes descriptors from one process to another over a Unix socket.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};

/// Most descriptors in a message: a device and two listening sockets.
const MOST: usize = 3;

/// Most bytes of a message.
const LONGEST: usize = 1024;

/// Sends a message, at most 1,024 bytes and not empty, with descriptors.
pub(super) fn send(to: &UnixStream, message: &[u8], fds: &[BorrowedFd<'_>]) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    if !fds.is_empty() && !ancillary.push(SendAncillaryMessage::ScmRights(fds)) {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let message = &message[..message.len().min(LONGEST)];
    let sent = sendmsg(to, &[io::IoSlice::new(message)], &mut ancillary, SendFlags::NOSIGNAL)?;
    // Nothing else is in the socket, so it is all or nothing.
    if sent == message.len() { Ok(()) } else { Err(io::ErrorKind::WriteZero.into()) }
}

/// Receives a message, empty at the end, with its descriptors. Waits for it, so the socket must block.
pub(super) fn receive(from: &UnixStream) -> io::Result<(Vec<u8>, Vec<OwnedFd>)> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let mut buffer = vec![0; LONGEST];
    let received = loop {
        let mut into = [io::IoSliceMut::new(&mut buffer)];
        match recvmsg(from, &mut into, &mut ancillary, RecvFlags::CMSG_CLOEXEC) {
            Err(rustix::io::Errno::INTR) => {}
            received => break received?,
        }
    };
    buffer.truncate(received.bytes);
    let mut fds = Vec::new();
    for message in ancillary.drain() {
        if let RecvAncillaryMessage::ScmRights(passed) = message {
            fds.extend(passed);
        }
    }
    Ok((buffer, fds))
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::os::fd::AsFd as _;

    use super::*;

    #[test]
    fn descriptors_arrive() {
        let (one, other) = UnixStream::pair().unwrap();
        let (mut left, right) = UnixStream::pair().unwrap();
        send(&one, b"here", &[right.as_fd()]).unwrap();
        let (message, fds) = receive(&other).unwrap();
        assert_eq!((&message[..], fds.len()), (&b"here"[..], 1));
        left.write_all(b"x").unwrap();
        let mut byte = [0];
        UnixStream::from(fds.into_iter().next().unwrap()).read_exact(&mut byte).unwrap();
        drop(one);
        assert!(receive(&other).unwrap().0.is_empty());
    }
}
