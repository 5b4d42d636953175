//! Takes messages out of a plain channel.

use std::os::fd::OwnedFd;

use anabranch_channel::record::{Header, Kind, flag};
use bytes::Bytes;
use rustix::io::ioctl_fionread;

use crate::lock::lock;
use crate::open::Open;
use crate::outbox::Record;
use crate::transfer::{self, Incoming};

impl Open {
    /// Takes the first message or notification, or as much of it as there is room for: the rest stays. With `peek` all
    /// of it stays. `None` if there is none.
    pub(super) fn take(&self, program: &OwnedFd, room: usize, peek: bool) -> Option<Record> {
        loop {
            let mut outbox = lock(&self.outbox);
            outbox.settle(ioctl_fionread(program).unwrap_or(0));
            let first = outbox.first().copied();
            match first {
                None if !outbox.ended => return None,
                Some(header) if !peek && header.length as usize <= room => {
                    // A reader of the descriptor itself may be faster.
                    let Ok(Some(Incoming { data, .. })) = transfer::next_plain(program, |_| false)
                    else {
                        continue;
                    };
                    outbox.take_first();
                    return Some(Record { data: vec![data], ..Record::new(header) });
                }
                _ => {}
            }
            drop(outbox);
            return self.recall(program, |waiting| {
                let first = waiting.front_mut().filter(|record| is_data(&record.header))?;
                let taken = cut(first, room);
                if !peek {
                    first.skip(room);
                    if first.data.is_empty() {
                        waiting.pop_front();
                    }
                }
                Some(taken)
            });
        }
    }

    /// Puts a record back that was taken.
    pub(super) fn put_back(&self, program: &OwnedFd, record: Record) {
        self.recall(program, |waiting| waiting.push_front(record));
    }

    /// Whether nothing comes any more, and nothing is left.
    pub(super) fn has_ended(&self) -> bool {
        let outbox = lock(&self.outbox);
        outbox.ended && !outbox.waiting.iter().any(|record| is_data(&record.header))
    }
}

fn is_data(header: &Header) -> bool {
    matches!(header.kind, Kind::Message | Kind::Notification)
}

/// The first bytes of a record.
fn cut(record: &Record, room: usize) -> Record {
    let mut data: Vec<u8> = record.data.concat();
    let mut header = record.header;
    if data.len() > room {
        data.truncate(room);
        header.flags &= !flag::END;
    }
    Record { data: vec![Bytes::from(data)], ..Record::new(header) }
}
