//! Records that wait for the program, in their order.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, OwnedFd};

use anabranch_channel::record::{Header, Kind};
use bytes::Bytes;
use rustix::net::sockopt::socket_send_buffer_size;
use rustix::net::{Shutdown, shutdown};

use crate::transfer;

/// A record for the program.
#[derive(Debug)]
pub(crate) struct Record {
    pub(crate) header: Header,
    pub(crate) data: Vec<Bytes>,
    pub(crate) descriptor: Option<OwnedFd>,
}

impl Record {
    pub(crate) fn new(header: Header) -> Self {
        Self { header, data: Vec::new(), descriptor: None }
    }

    /// Removes bytes at the start of the data.
    pub(crate) fn skip(&mut self, mut bytes: usize) {
        for piece in &mut self.data {
            let cut = bytes.min(piece.len());
            bytes -= cut;
            *piece = piece.slice(cut..);
        }
        self.data.retain(|piece| !piece.is_empty());
    }
}

/// How messages are written into a channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Writing {
    /// Each with its header, for the library.
    Headers,
    /// The data alone, for programs that read by themselves (`--trap`). The headers stay here.
    Plain,
}

/// Bytes of the kernel's memory that a record in a channel takes at least.
const LEAST: usize = 512;

/// Records that are not in the channel yet.
#[derive(Debug)]
pub(crate) struct Outbox {
    pub(crate) waiting: VecDeque<Record>,
    pub(crate) writing: Writing,
    /// The headers of records in a plain channel, and of some that were read. Their lengths are not 0.
    headers: VecDeque<Header>,
    /// A plain channel has ended: nothing comes after what is in it.
    pub(crate) ended: bool,
    /// The serial number of the latest record that was put into the channel.
    serial: u32,
}

impl Outbox {
    /// An outbox with records that are already there.
    pub(crate) fn new(waiting: VecDeque<Record>, writing: Writing) -> Self {
        Self { waiting, writing, headers: VecDeque::new(), ended: false, serial: 0 }
    }

    /// Puts records into the channel while there is room. What was taken back after the end of a plain channel stays.
    ///
    /// # Errors
    /// `WouldBlock`: there is no room for the next one.
    pub(crate) fn send(&mut self, end: impl AsFd) -> io::Result<()> {
        if self.ended {
            return Ok(());
        }
        while let Some(record) = self.waiting.front_mut() {
            let length = record.data.iter().map(Bytes::len).sum::<usize>();
            record.header.length = u32::try_from(length).unwrap_or(u32::MAX);
            record.header.serial = self.serial.wrapping_add(1);
            let header = record.header;
            match (self.writing, header.kind) {
                // An error makes no plain channel readable: calls ask for it.
                (Writing::Plain, Kind::Look) => {}
                (Writing::Plain, Kind::End) => {
                    shutdown(&end, Shutdown::Write)?;
                    self.ended = true;
                }
                (Writing::Plain, Kind::Message | Kind::Notification) => {
                    if length > 0 {
                        transfer::write(&end, &[], &record.data, None)?;
                        self.keep(header, &end);
                    }
                }
                _ => {
                    let descriptor = record.descriptor.as_ref();
                    transfer::write(&end, &header.encode(), &record.data, descriptor)?;
                }
            }
            self.serial = header.serial;
            self.waiting.pop_front();
        }
        Ok(())
    }

    /// Keeps the header of a record in a plain channel, and no more headers than the channel can have records.
    fn keep(&mut self, header: Header, end: impl AsFd) {
        self.headers.push_back(header);
        let room = socket_send_buffer_size(end).unwrap_or(0);
        let excess = self.headers.len().saturating_sub(room / LEAST + 1);
        self.headers.drain(..excess);
    }

    /// Forgets the headers of records that the program has read: `unread` bytes are left in the channel.
    pub(crate) fn settle(&mut self, unread: u64) {
        let mut left: u64 = self.headers.iter().map(|header| u64::from(header.length)).sum();
        while left > unread
            && let Some(header) = self.headers.pop_front()
        {
            left -= u64::from(header.length);
        }
    }

    /// The header of the first record in a plain channel, after [`settle`](Self::settle).
    pub(crate) fn first(&self) -> Option<&Header> {
        self.headers.front()
    }

    /// Takes that header.
    pub(crate) fn take_first(&mut self) -> Option<Header> {
        self.headers.pop_front()
    }
}

#[cfg(test)]
mod tests {
    use rustix::net::{AddressFamily, RecvFlags, SocketFlags, SocketType, recv, socketpair};

    use super::*;

    /// The headers are those of the records that the program has not read.
    #[test]
    fn headers_of_a_plain_channel_follow_the_reader() {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let (own, program) =
            socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None).unwrap();
        let record = |value: i32, data: &'static [u8]| {
            let mut header = Header::new(Kind::Message);
            header.value = value;
            Record { data: vec![Bytes::from_static(data)], ..Record::new(header) }
        };
        let mut waiting =
            VecDeque::from([record(1, b"one"), record(2, b"two"), record(3, b"three")]);
        waiting.extend([Record::new(Header::new(Kind::Look)), Record::new(Header::new(Kind::End))]);
        let mut outbox = Outbox::new(waiting, Writing::Plain);
        outbox.send(&own).unwrap();
        let mut room = [0; 100];
        let mut read = || recv(&program, &mut room, RecvFlags::empty()).unwrap().1;
        let unread = || rustix::io::ioctl_fionread(&program).unwrap();
        let first = |outbox: &mut Outbox| {
            outbox.settle(unread());
            outbox.first().map(|header| header.value)
        };
        assert_eq!(first(&mut outbox), Some(1));
        assert_eq!((read(), first(&mut outbox)), (3, Some(2)));
        assert_eq!((read(), read(), first(&mut outbox)), (3, 5, None));
        // The end.
        assert_eq!((read(), outbox.ended), (0, true));
    }
}
