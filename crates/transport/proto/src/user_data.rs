//! The chunk that carries user data: DATA, or I-DATA if the two sides agreed on interleaving (RFC 8260).

use anabranch_wire::{Data, DataFlags, IData, NoRoom, PacketWriter, Ppid, Ssn, Tsn};

/// A chunk with user data. Which kind it is depends on the association.
#[derive(Clone, Copy, Debug)]
pub(crate) struct UserData<'a> {
    pub(crate) flags: DataFlags,
    pub(crate) tsn: Tsn,
    pub(crate) stream: u16,
    /// The message's SSN, or its message identifier.
    pub(crate) sequence: u32,
    /// The position in the message, from 0; 0 in DATA.
    pub(crate) fsn: u32,
    /// In I-DATA it is known from the first chunk of a message only, and else 0.
    pub(crate) ppid: Ppid,
    pub(crate) payload: &'a [u8],
}

impl UserData<'_> {
    /// Appends the chunk to a packet.
    ///
    /// # Errors
    /// It does not fit.
    // req: rfc8260 2 "is REQUIRED to support the coexistence of associations"
    // req: rfc8260 2.2.1 "I-DATA chunks MUST be used for all user messages and"
    // req: rfc8260 2.2.1 "user messages and DATA chunks MUST NOT be used"
    // req: rfc8260 2.2.1 "user messages and I-DATA chunks MUST NOT be used"
    // req: rfc8260 2.2.1 "has not been negotiated for an association, DATA chunks MUST be used"
    #[inline]
    pub(crate) fn write(
        &self,
        packet: &mut PacketWriter<'_>,
        interleaves: bool,
    ) -> Result<(), NoRoom> {
        let Self { flags, tsn, stream, payload, .. } = *self;
        if interleaves {
            let mid = self.sequence;
            let ppid_or_fsn = if flags.begin() { self.ppid.0 } else { self.fsn };
            return packet.i_data(&IData { flags, tsn, stream, mid, ppid_or_fsn, payload });
        }
        let ssn = Ssn(self.sequence as u16);
        packet.data(&Data { flags, tsn, stream, ssn, ppid: self.ppid, payload })
    }
}

impl<'a> From<Data<'a>> for UserData<'a> {
    #[inline]
    fn from(data: Data<'a>) -> Self {
        let Data { flags, tsn, stream, ssn, ppid, payload } = data;
        Self { flags, tsn, stream, sequence: ssn.0.into(), fsn: 0, ppid, payload }
    }
}

impl<'a> From<IData<'a>> for UserData<'a> {
    #[inline]
    fn from(data: IData<'a>) -> Self {
        let IData { flags, tsn, stream, mid, ppid_or_fsn, payload } = data;
        let (ppid, fsn) = if flags.begin() { (ppid_or_fsn, 0) } else { (0, ppid_or_fsn) };
        Self { flags, tsn, stream, sequence: mid, fsn, ppid: Ppid(ppid), payload }
    }
}

#[cfg(test)]
mod tests {
    use anabranch_wire::{Chunk, Header, Packet};

    use super::*;

    #[test]
    fn both_kinds_are_read_as_they_were_written() {
        let begin = DataFlags(DataFlags::BEGIN);
        let first = UserData {
            flags: begin,
            tsn: Tsn(7),
            stream: 3,
            sequence: 70_000,
            fsn: 0,
            ppid: Ppid(9),
            payload: b"abc",
        };
        let second = UserData { flags: DataFlags(0), fsn: 5, ppid: Ppid(0), ..first };
        for (chunk, interleaves) in [(first, true), (second, true), (first, false)] {
            let mut bytes = Vec::new();
            let header = Header { source_port: 1, destination_port: 2, verification_tag: 3 };
            let mut packet = PacketWriter::new(&mut bytes, header, 100);
            chunk.write(&mut packet, interleaves).unwrap();
            packet.finish();
            let packet = Packet::parse(&bytes).unwrap();
            let read = match packet.chunks().next().unwrap().unwrap().decode().unwrap() {
                Chunk::Data(data) => UserData::from(data),
                Chunk::IData(data) => UserData::from(data),
                other => unreachable!("{other}"),
            };
            let expected = match interleaves {
                true => chunk,
                // An SSN has 16 bits.
                false => UserData { sequence: 70_000 - 65_536, ..chunk },
            };
            assert_eq!(format!("{read:?}"), format!("{expected:?}"));
        }
    }
}
