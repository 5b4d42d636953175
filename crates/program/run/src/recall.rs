//! Takes records back from the program's queue, changes them, and sends them again.
//!
//! The kernel cuts a record if the reader's buffer is short, and nobody but a reader can change what is queued. So the
//! library passes the program's own descriptor to the engine, which reads the queue itself.

use std::collections::VecDeque;
use std::os::fd::OwnedFd;

use anabranch_c::layout;
use anabranch_channel::record::{About, Header, Kind, MOST_CONTROL};
use anabranch_sockets::{AssocId, ReceiveInfo, Socket};
use rustix::io::ioctl_fionread;

use crate::lock::lock;
use crate::open::Open;
use crate::outbox::{Outbox, Record, Writing};
use crate::transfer::{self, Incoming};

impl Open {
    /// Moves the records in the channel back to the outbox, runs `change` on all that wait, and sends them again.
    pub(crate) fn recall<T>(
        &self,
        program: &OwnedFd,
        change: impl FnOnce(&mut VecDeque<Record>) -> T,
    ) -> T {
        let result = {
            let mut outbox = lock(&self.outbox);
            let mut back = take_back(&mut outbox, program);
            back.append(&mut outbox.waiting);
            outbox.waiting = back;
            change(&mut outbox.waiting)
        };
        self.moved.notify_one();
        result
    }

    /// Drops the first bytes of a message that the program has copied. Returns whether the message is the first one.
    pub(crate) fn advance(&self, program: &OwnedFd, serial: u32, bytes: usize) -> bool {
        self.recall(program, |waiting| match waiting.front_mut() {
            Some(first) if first.header.serial == serial => {
                first.skip(bytes);
                true
            }
            _ => false,
        })
    }

    /// Replaces the ancillary data of waiting messages after the options for it have changed.
    pub(crate) fn restamp(&self, program: &OwnedFd) {
        self.recall(program, |waiting| {
            for record in waiting.iter_mut().filter(|record| record.header.kind == Kind::Message) {
                stamp(&self.socket, &mut record.header);
            }
        });
    }
}

/// Takes all records out of a channel.
fn take_back(outbox: &mut Outbox, program: &OwnedFd) -> VecDeque<Record> {
    let mut back = VecDeque::new();
    let plain = outbox.writing == Writing::Plain;
    if plain {
        outbox.settle(ioctl_fionread(program).unwrap_or(0));
    }
    let is_data = plain && outbox.first().is_some();
    while let Ok(Some(incoming)) = transfer::next_plain(program, |_| !is_data) {
        let Incoming { header, data, descriptor } = incoming;
        let known = if is_data && !data.is_empty() { outbox.take_first() } else { None };
        // Only this engine writes into the queue. Nothing at all is its end.
        let Some(header) = header.or(known) else { break };
        back.push_back(Record { header, data: vec![data], descriptor });
    }
    back
}

/// Sets the ancillary data that the socket's options want.
pub(crate) fn stamp(socket: &Socket, header: &mut Header) {
    let About { stream, ssn, ppid, tsn, cumulative_tsn, context, unordered } = header.about;
    let (ppid, id) = (ppid.into(), AssocId(header.value));
    let info = ReceiveInfo { stream, ssn, unordered, ppid, tsn, cumulative_tsn, context, id };
    let fits = header.set_control(&layout::ancillary(socket, info, MOST_CONTROL));
    debug_assert!(fits, "at most the room that was given");
}
