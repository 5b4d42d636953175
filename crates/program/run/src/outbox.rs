//! Records that wait for the program, in their order.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, OwnedFd};

use anabranch_channel::record::Header;
use bytes::Bytes;

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

/// Records that are not in the channel yet.
#[derive(Debug)]
pub(crate) struct Outbox {
    pub(crate) waiting: VecDeque<Record>,
    /// The serial number of the latest record that was put into the channel.
    serial: u32,
}

impl Outbox {
    /// An outbox with records that are already there.
    pub(crate) fn new(waiting: VecDeque<Record>) -> Self {
        Self { waiting, serial: 0 }
    }

    /// Puts records into the channel while there is room.
    ///
    /// # Errors
    /// `WouldBlock`: there is no room for the next one.
    pub(crate) fn send(&mut self, end: impl AsFd) -> io::Result<()> {
        while let Some(record) = self.waiting.front_mut() {
            let length = record.data.iter().map(Bytes::len).sum::<usize>();
            record.header.length = u32::try_from(length).unwrap_or(u32::MAX);
            record.header.serial = self.serial.wrapping_add(1);
            let header = record.header.encode();
            transfer::write(&end, &header, &record.data, record.descriptor.as_ref())?;
            self.serial = record.header.serial;
            self.waiting.pop_front();
        }
        Ok(())
    }
}
