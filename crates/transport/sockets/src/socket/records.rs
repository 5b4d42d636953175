//! Messages that several calls send (SCTP_EXPLICIT_EOR, RFC 6458 section 8.1.26).
//!
//! An association takes whole messages, because it announces and schedules them by their lengths. So the parts wait here for
//! the last one.

use std::collections::BTreeMap;

use bytes::{BufMut as _, BytesMut};

use super::send::Outgoing;

/// The beginnings of messages of an association, at most one for each stream.
#[derive(Debug, Default)]
pub(super) struct Records(BTreeMap<u16, Record>);

/// The beginning of a message.
#[derive(Debug)]
struct Record {
    /// Its first part, which says how to send it.
    first: Outgoing,
    /// All parts.
    data: BytesMut,
}

impl Records {
    /// Bytes of the beginning of a message on this stream.
    pub(super) fn length(&self, stream: u16) -> usize {
        self.0.get(&stream).map_or(0, |record| record.data.len())
    }

    /// Keeps a part that is not the last one.
    pub(super) fn keep(&mut self, part: &Outgoing) {
        let record = self.0.entry(part.info.stream).or_insert_with(|| {
            let data = bytes::Bytes::new();
            Record { first: Outgoing { data, ..part.clone() }, data: BytesMut::new() }
        });
        record.data.put_slice(&part.data);
    }

    /// The whole message that this part ends, if it has earlier parts. They are kept: the association may have no room.
    pub(super) fn ended_by(&self, part: &Outgoing) -> Option<Outgoing> {
        let Record { first, data } = self.0.get(&part.info.stream)?;
        let mut whole = data.clone();
        whole.put_slice(&part.data);
        let mut info = first.info;
        // These belong to the call, not to the message.
        info.flags |= part.info.flags.ending();
        Some(Outgoing { info, data: whole.freeze(), reliability: first.reliability })
    }

    /// The message on this stream was sent.
    pub(super) fn remove(&mut self, stream: u16) {
        self.0.remove(&stream);
    }
}
