//! Records on the channel of a socket: a header of [`HEADER`] bytes, then the data of a message.
//!
//! The channel keeps the boundaries of records (SOCK_SEQPACKET). The header has a fixed length, so that one system
//! call reads or writes it and the caller's buffers.

use crate::bytes::{get, put};

/// Bytes of a header.
pub const HEADER: usize = 256;

/// Bytes of the longest address: a `struct sockaddr_in6` has 28.
pub const MOST_NAME: usize = 32;

/// Bytes of the most ancillary data: all types of RFC 6458 that a message may have, with their headers.
pub const MOST_CONTROL: usize = 160;

/// Begins every record. A program's data cannot begin with it by chance.
const MAGIC: u64 = 0x8b1f_61b9_a4d2_0001;

const KIND: usize = 8;
const FLAGS: usize = 9;
const NAME_LENGTH: usize = 10;
const CONTROL_LENGTH: usize = 12;
const SERIAL: usize = 16;
const LENGTH: usize = 20;
const VALUE: usize = 24;
const ABOUT: usize = 28;
const NAME: usize = 64;
const CONTROL: usize = 96;

/// What a record is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// To the engine: a message to send. The name is the peer's address, if the caller gave one; the control data are
    /// the caller's.
    Send,
    /// To the engine: end sending. `value` is the argument of `shutdown`.
    Shutdown,
    /// To the engine: ignored. Keeps the channel full while an association is set up. The name is the handle, which
    /// nobody else knows.
    Fill,
    /// To the program: a message, or a part of one.
    Message,
    /// To the program: a notification in C's layout.
    Notification,
    /// To the program: an association to accept, with its descriptor. The name is the peer's address.
    Accepted,
    /// To the program: there is an error to ask for.
    Look,
    /// To the program: nothing more comes. The library leaves this record in the channel.
    End,
}

const KINDS: [(u8, Kind); 8] = [
    (1, Kind::Send),
    (2, Kind::Shutdown),
    (3, Kind::Fill),
    (16, Kind::Message),
    (17, Kind::Notification),
    (18, Kind::Accepted),
    (19, Kind::Look),
    (20, Kind::End),
];

/// Bits of [`Header::flags`].
pub mod flag {
    /// The message or notification ends with this record (MSG_EOR). A message from the program ends with it anyway,
    /// unless SCTP_EXPLICIT_EOR is on.
    pub const END: u8 = 1;
    /// The sender waits for an answer on the descriptor in this record.
    pub const ANSWER: u8 = 1 << 1;
    /// With [`ANSWER`]: the sender must not wait for room (O_NONBLOCK).
    pub const DONT_WAIT: u8 = 1 << 2;
}

/// What the engine knows about a message besides its ancillary data. It needs this to make the ancillary data again
/// when options change while the record waits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct About {
    /// Stream identifier.
    pub stream: u16,
    /// Stream sequence number.
    pub ssn: u16,
    /// Payload protocol identifier, in the host's byte order.
    pub ppid: u32,
    /// TSN of the first chunk.
    pub tsn: u32,
    /// Cumulative TSN when the message was taken.
    pub cumulative_tsn: u32,
    /// SCTP_CONTEXT.
    pub context: u32,
    /// The message was sent unordered.
    pub unordered: bool,
}

/// The header of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// What the record is.
    pub kind: Kind,
    /// Bits of [`flag`].
    pub flags: u8,
    /// A number of the engine's records on this channel, which wraps; 0 in records to the engine.
    pub serial: u32,
    /// Bytes of data after the header.
    pub length: u32,
    /// An association, or what the kind says.
    pub value: i32,
    /// About a message to the program.
    pub about: About,
    name: ([u8; MOST_NAME], u16),
    control: ([u8; MOST_CONTROL], u16),
}

impl Header {
    /// A header without name and ancillary data.
    #[must_use]
    pub const fn new(kind: Kind) -> Self {
        const NONE: About = About {
            stream: 0,
            ssn: 0,
            ppid: 0,
            tsn: 0,
            cumulative_tsn: 0,
            context: 0,
            unordered: false,
        };
        Self {
            kind,
            flags: 0,
            serial: 0,
            length: 0,
            value: 0,
            about: NONE,
            name: ([0; MOST_NAME], 0),
            control: ([0; MOST_CONTROL], 0),
        }
    }

    /// The header of a record that fills the channel with this handle.
    #[must_use]
    pub fn filling(handle: u64) -> Self {
        let mut header = Self::new(Kind::Fill);
        let fits = header.set_name(&handle.to_ne_bytes());
        debug_assert!(fits, "eight bytes");
        header
    }

    /// Whether it is the header of a record that fills the channel with this handle.
    #[must_use]
    pub fn is_filling(&self, handle: u64) -> bool {
        self.kind == Kind::Fill && self.name() == handle.to_ne_bytes()
    }

    /// Whether a bit of [`flag`] is set.
    #[must_use]
    pub const fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }

    /// An address in C's layout; empty for none.
    #[must_use]
    pub fn name(&self) -> &[u8] {
        self.name.0.get(..self.name.1.into()).unwrap_or_default()
    }

    /// Ancillary data in C's layout, each item with its header.
    #[must_use]
    pub fn control(&self) -> &[u8] {
        self.control.0.get(..self.control.1.into()).unwrap_or_default()
    }

    /// Sets the address. Returns `false` and changes nothing if it is longer than [`MOST_NAME`].
    #[must_use]
    pub fn set_name(&mut self, name: &[u8]) -> bool {
        set(&mut self.name, name)
    }

    /// Sets the ancillary data. Returns `false` and changes nothing if they are longer than [`MOST_CONTROL`].
    #[must_use]
    pub fn set_control(&mut self, control: &[u8]) -> bool {
        set(&mut self.control, control)
    }

    /// The bytes of the header.
    #[must_use]
    pub fn encode(&self) -> [u8; HEADER] {
        let mut header = [0; HEADER];
        let number =
            KINDS.iter().find(|(_, kind)| *kind == self.kind).map_or(0, |(number, _)| *number);
        put(&mut header, 0, MAGIC.to_ne_bytes());
        put(&mut header, KIND, [number]);
        put(&mut header, FLAGS, [self.flags]);
        put(&mut header, NAME_LENGTH, self.name.1.to_ne_bytes());
        put(&mut header, CONTROL_LENGTH, self.control.1.to_ne_bytes());
        put(&mut header, SERIAL, self.serial.to_ne_bytes());
        put(&mut header, LENGTH, self.length.to_ne_bytes());
        put(&mut header, VALUE, self.value.to_ne_bytes());
        let About { stream, ssn, ppid, tsn, cumulative_tsn, context, unordered } = self.about;
        put(&mut header, ABOUT, stream.to_ne_bytes());
        put(&mut header, ABOUT + 2, ssn.to_ne_bytes());
        put(&mut header, ABOUT + 4, ppid.to_ne_bytes());
        put(&mut header, ABOUT + 8, tsn.to_ne_bytes());
        put(&mut header, ABOUT + 12, cumulative_tsn.to_ne_bytes());
        put(&mut header, ABOUT + 16, context.to_ne_bytes());
        put(&mut header, ABOUT + 20, [unordered.into()]);
        put(&mut header, NAME, self.name.0);
        put(&mut header, CONTROL, self.control.0);
        header
    }

    /// Reads a header; `None` if the bytes do not begin with one. Such a record was written without the library,
    /// and all of it is data.
    #[must_use]
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let header = bytes.get(..HEADER)?;
        if u64::from_ne_bytes(get(header, 0)) != MAGIC {
            return None;
        }
        let number = get::<1>(header, KIND)[0];
        let kind = KINDS.iter().find(|(known, _)| *known == number)?.1;
        let name = (get(header, NAME), u16::from_ne_bytes(get(header, NAME_LENGTH)));
        let control = (get(header, CONTROL), u16::from_ne_bytes(get(header, CONTROL_LENGTH)));
        if usize::from(name.1) > MOST_NAME || usize::from(control.1) > MOST_CONTROL {
            return None;
        }
        Some(Self {
            kind,
            flags: get::<1>(header, FLAGS)[0],
            serial: u32::from_ne_bytes(get(header, SERIAL)),
            length: u32::from_ne_bytes(get(header, LENGTH)),
            value: i32::from_ne_bytes(get(header, VALUE)),
            about: About {
                stream: u16::from_ne_bytes(get(header, ABOUT)),
                ssn: u16::from_ne_bytes(get(header, ABOUT + 2)),
                ppid: u32::from_ne_bytes(get(header, ABOUT + 4)),
                tsn: u32::from_ne_bytes(get(header, ABOUT + 8)),
                cumulative_tsn: u32::from_ne_bytes(get(header, ABOUT + 12)),
                context: u32::from_ne_bytes(get(header, ABOUT + 16)),
                unordered: get::<1>(header, ABOUT + 20)[0] != 0,
            },
            name,
            control,
        })
    }
}

/// Stores a value that may be shorter than its place.
fn set<const N: usize>(place: &mut ([u8; N], u16), value: &[u8]) -> bool {
    let (Some(room), Ok(length)) = (place.0.get_mut(..value.len()), u16::try_from(value.len()))
    else {
        return false;
    };
    room.copy_from_slice(value);
    place.1 = length;
    true
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    fn headers() -> impl Strategy<Value = Header> {
        let about = (any::<[u16; 2]>(), any::<[u32; 4]>(), any::<bool>());
        let name = vec(any::<u8>(), 0..=MOST_NAME);
        let control = vec(any::<u8>(), 0..=MOST_CONTROL);
        let numbers = (any::<u8>(), any::<u32>(), any::<u32>(), any::<i32>());
        (0..KINDS.len(), numbers, about, name, control).prop_map(
            |(kind, (flags, serial, length, value), (short, long, unordered), name, control)| {
                let [stream, ssn] = short;
                let [ppid, tsn, cumulative_tsn, context] = long;
                let about = About { stream, ssn, ppid, tsn, cumulative_tsn, context, unordered };
                let new = Header::new(KINDS[kind].1);
                let mut header = Header { flags, serial, length, value, about, ..new };
                assert!(header.set_name(&name) && header.set_control(&control));
                header
            },
        )
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(header in headers(), data in vec(any::<u8>(), 0..100)) {
            let record = [&header.encode()[..], &data].concat();
            prop_assert_eq!(Header::decode(&record), Some(header));
        }

        #[test]
        fn fields_do_not_overlap(header in headers(), at in 0..HEADER, bit in 0..8u32) {
            // A changed bit changes one field, or nothing that is read, or makes the header invalid.
            let mut bytes = header.encode();
            bytes[at] ^= 1 << bit;
            if let Some(changed) = Header::decode(&bytes) {
                let differences = [
                    changed.kind != header.kind,
                    changed.flags != header.flags,
                    changed.serial != header.serial,
                    changed.length != header.length,
                    changed.value != header.value,
                    changed.about != header.about,
                    changed.name != header.name,
                    changed.control != header.control,
                ];
                prop_assert!(differences.iter().filter(|differs| **differs).count() <= 1);
            }
        }

        #[test]
        fn any_bytes_are_decoded_without_a_panic(bytes in vec(any::<u8>(), 0..600), begins in any::<bool>()) {
            let mut bytes = bytes;
            if begins && bytes.len() >= 8 {
                bytes[..8].copy_from_slice(&MAGIC.to_ne_bytes());
            }
            if let Some(header) = Header::decode(&bytes) {
                prop_assert!(header.name().len() <= MOST_NAME && header.control().len() <= MOST_CONTROL);
            }
        }
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let mut header = Header::new(Kind::Send);
        assert!(header.set_name(&[1; MOST_NAME]) && !header.set_name(&[2; MOST_NAME + 1]));
        assert!(
            header.set_control(&[3; MOST_CONTROL]) && !header.set_control(&[4; MOST_CONTROL + 1])
        );
        assert_eq!(
            (header.name(), header.control()),
            (&[1; MOST_NAME][..], &[3; MOST_CONTROL][..])
        );
    }

    #[test]
    fn the_places_of_the_header_fill_it() {
        assert_eq!(NAME + MOST_NAME, CONTROL);
        assert_eq!(CONTROL + MOST_CONTROL, HEADER);
    }
}
