//! Messages that several calls send (SCTP_EXPLICIT_EOR, RFC 6458 section 8.1.26).
//!
//! An association takes whole messages, because it announces and schedules them by their lengths. So the parts wait here for
//! the last one.

use std::collections::BTreeMap;

use bytes::{BufMut as _, Bytes, BytesMut};

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
            let data = Bytes::new();
            Record { first: Outgoing { data, ..part.clone() }, data: BytesMut::new() }
        });
        record.data.put_slice(&part.data);
    }

    /// The whole message that this part ends, if it has earlier parts. Unless the association takes it, it must be
    /// [put back](Self::put_back).
    pub(super) fn take(&mut self, part: &Outgoing) -> Option<Outgoing> {
        let Record { first, mut data } = self.0.remove(&part.info.stream)?;
        data.put_slice(&part.data);
        let mut info = first.info;
        // These belong to the call, not to the message.
        info.flags |= part.info.flags.ending();
        Some(Outgoing { info, data: data.freeze(), reliability: first.reliability })
    }

    /// Keeps the earlier parts of a message that the association did not take.
    pub(super) fn put_back(&mut self, whole: Outgoing, part: &Outgoing) {
        let Outgoing { mut info, data, reliability } = whole;
        info.flags -= info.flags.ending();
        let first = Outgoing { info, data: Bytes::new(), reliability };
        // Nobody else holds the bytes, so they are not copied.
        let mut data = BytesMut::from(data);
        data.truncate(data.len() - part.data.len());
        self.0.insert(part.info.stream, Record { first, data });
    }
}
