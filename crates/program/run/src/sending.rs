//! Messages from the program.

use std::net::Shutdown;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use anabranch_c::layout;
use anabranch_channel::record::{Header, Kind, flag};
use anabranch_sockets::{Error, Sending};
use bytes::Bytes;
use rustix::net::{RecvFlags, recv};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use crate::open::Open;
use crate::transfer::{self, Incoming};

impl Open {
    /// Sends a message, or ends sending. Answers if the program waits for an answer; otherwise the next call of the
    /// program returns the error.
    pub(crate) async fn carry_out(&self, incoming: Incoming) {
        let Incoming { header, data, descriptor } = incoming;
        // A record without a header was written without the library.
        let header = header.unwrap_or_else(|| Header::new(Kind::Send));
        let answer = descriptor.filter(|_| header.has(flag::ANSWER));
        let result = match header.kind {
            Kind::Send => match &answer {
                Some(answer) => match self.send_unless_cancelled(&header, data, answer).await {
                    Some(result) => result,
                    None => return,
                },
                None => self.send(&header, data).await,
            },
            Kind::Shutdown => self.shut_down(header.value),
            _ => return,
        };
        match (answer, result) {
            (Some(answer), result) => transfer::answer(answer, result, &[], None),
            // After the end the program learns from its descriptor.
            (None, Err(errno)) if errno != layout::number(Error::Finished) => {
                self.fail(Error::System(errno));
            }
            (None, _) => {}
        }
    }

    /// Sends a message; `None` if the program stops waiting for the answer before there is room.
    async fn send_unless_cancelled(
        &self,
        header: &Header,
        data: Bytes,
        answer: &OwnedFd,
    ) -> Option<Result<i32, i32>> {
        let Ok(watched) = transfer::watch(answer.as_fd(), Interest::READABLE) else {
            return Some(Err(libc::EIO));
        };
        tokio::select! {
            biased;
            // First: a program that has stopped waiting may send the message again.
            () = hung_up(&watched) => None,
            result = self.send(header, data) => Some(result),
        }
    }

    pub(crate) async fn send(&self, header: &Header, data: Bytes) -> Result<i32, i32> {
        let remotes = match header.name() {
            [] => Vec::new(),
            name => layout::addresses(name)?,
        };
        let has_address = !remotes.is_empty();
        let mut sending = Sending::new(self.socket.clone(), data, remotes);
        layout::prepare(&mut sending, header.control())?;
        if header.has(flag::END) {
            sending.end_record();
        }
        let dont_wait = header.has(flag::DONT_WAIT);
        if has_address {
            // This may set up an association, and so wait for a UDP port.
            let once = sending.clone();
            let result = tokio::task::spawn_blocking(move || once.send(true)).await;
            match result.unwrap_or(Err(Error::Io)) {
                Err(Error::WouldBlock) if !dont_wait => {}
                result => return self.outcome(result),
            }
        }
        let once = || sending.clone().send(true);
        let result = if dont_wait { once() } else { self.socket.when_ready(once).await };
        self.outcome(result)
    }

    fn outcome(&self, result: Result<usize, Error>) -> Result<i32, i32> {
        match result {
            Ok(length) => Ok(i32::try_from(length).unwrap_or(i32::MAX)),
            // The reason for which the association ended comes first, once.
            Err(Error::Finished) => {
                Err(layout::number(self.take_error().unwrap_or(Error::Finished)))
            }
            Err(error) => Err(layout::number(error)),
        }
    }

    pub(crate) fn shut_down(&self, how: i32) -> Result<i32, i32> {
        let how = match how {
            libc::SHUT_RD => Shutdown::Read,
            libc::SHUT_WR => Shutdown::Write,
            libc::SHUT_RDWR => Shutdown::Both,
            _ => return Err(libc::EINVAL),
        };
        self.socket.shut_down(how).map_err(layout::number)?;
        if how != Shutdown::Read {
            self.finish();
        }
        Ok(0)
    }
}

/// Waits until the other end of a connection is closed, or says more than it should.
pub(crate) async fn hung_up<T: AsFd + AsRawFd>(connection: &AsyncFd<T>) {
    // An error is an end as well.
    let flags = RecvFlags::PEEK | RecvFlags::DONTWAIT;
    let read = |end: &T| Ok(recv(end, &mut [0; 1], flags)?);
    let _ = connection.async_io(Interest::READABLE, read).await;
}
