//! Calls and their answers. A call is one record on a connection of its own: a header, then addresses or the value of
//! an option in C's layout. So is its answer.

use crate::bytes::{get, put};
use crate::name::SECRET;

/// Bytes of the header of a call.
pub const REQUEST: usize = 64;

/// Bytes of the header of an answer.
pub const ANSWER: usize = 32;

/// Maximum number of bytes after a header: 1,024 addresses of 28 bytes.
pub const MOST_DATA: usize = 1024 * 28;

const REQUEST_MAGIC: u64 = 0x8b1f_61b9_a4d2_0002;
const ANSWER_MAGIC: u64 = 0x8b1f_61b9_a4d2_0003;

/// A call: what it asks for, and which arguments it uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// `socket`: domain, type, protocol. The answer has the descriptor. The only call without a handle.
    Socket,
    /// `bind`, or `sctp_bindx`: [`BIND`], [`BIND_MORE`] or [`BIND_LESS`]. Data: addresses.
    Bind,
    /// `listen`: backlog.
    Listen,
    /// `connect`, `sctp_connectx`: 1 if the caller must not wait; then the call has the descriptor. Data: addresses.
    /// The answer's value is the association.
    Connect,
    /// `setsockopt`: level, name. Data: the value. The call has the descriptor, because records that wait may change.
    SetOption,
    /// `getsockopt`: level, name, room. Data: what the caller gave. The answer's data is the value.
    GetOption,
    /// `getsockname`. The answer's data is an address.
    Name,
    /// `getpeername`. The answer's data is an address.
    PeerName,
    /// `sctp_getpaddrs`: association. The answer's value is a number of addresses, which are its data.
    PeerAddresses,
    /// `sctp_getladdrs`: as [`PeerAddresses`](Self::PeerAddresses).
    LocalAddresses,
    /// `sctp_peeloff`: association. The call has the descriptor, and so has the answer.
    PeelOff,
    /// Takes back the records that wait in the channel, and sends them again without the first bytes of the first:
    /// serial number of the first record, number of bytes. The call has the descriptor. The answer is EAGAIN if the
    /// first record has another serial number.
    Recall,
    /// Takes the error of the socket. The answer's value is its number, or 0.
    TakeError,
    /// Puts the end into the channel again: a reader took it that should have left it there.
    EndAgain,
    /// Whether the socket listens. The answer's value is 1 or 0.
    Listens,
    /// Whether something may arrive: there is an association, or a one-to-many socket listens. The answer's value is 1
    /// or 0.
    MayReceive,
    /// `shutdown`: how. Messages in the channel are sent first; the answer does not wait for that.
    ShutDown,
    /// Follows [`Connect`](Self::Connect) on the same connection: the caller ceases to wait. It has the descriptor,
    /// which cannot be written to until the association is set up. The answer is that of `Connect`, or EINTR.
    StillConnecting,
    /// Whether to connect a TCP socket to the [gate](crate::tcp): no handle. Data: the peer's address. The answer's
    /// value is 1, or 0 if the kernel shall connect it to the peer.
    TcpConnect,
    /// A TCP socket connects to the gate: no handle; the halves of its SO_COOKIE. Data: its own address, the peer's
    /// address. The call has the descriptor.
    TcpBegin,
    /// A TCP socket listens: no handle; 1 if it is for IPv6 only. Data: its address.
    TcpListen,
    /// The names of a TCP socket that is connected to the engine: no handle. Data: the kernel's names, its own and the
    /// peer's. The answer's data are the true ones.
    TcpNames,
    /// Takes the error of a TCP socket whose `connect` has failed: no handle; the halves of its SO_COOKIE. The answer's
    /// value is its number, or 0.
    TcpError,
}

const OPERATIONS: [Operation; 23] = [
    Operation::Socket,
    Operation::Bind,
    Operation::Listen,
    Operation::Connect,
    Operation::SetOption,
    Operation::GetOption,
    Operation::Name,
    Operation::PeerName,
    Operation::PeerAddresses,
    Operation::LocalAddresses,
    Operation::PeelOff,
    Operation::Recall,
    Operation::TakeError,
    Operation::EndAgain,
    Operation::Listens,
    Operation::MayReceive,
    Operation::ShutDown,
    Operation::StillConnecting,
    Operation::TcpConnect,
    Operation::TcpBegin,
    Operation::TcpListen,
    Operation::TcpNames,
    Operation::TcpError,
];

/// For [`Operation::Bind`]: bind to the addresses.
pub const BIND: i32 = 0;
/// For [`Operation::Bind`]: add the addresses.
pub const BIND_MORE: i32 = 1;
/// For [`Operation::Bind`]: remove the addresses.
pub const BIND_LESS: i32 = 2;

/// The header of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// Shows that the caller was started by the engine.
    pub secret: [u8; SECRET],
    /// The socket.
    pub handle: u64,
    /// What is asked for.
    pub operation: Operation,
    /// Arguments, in the order in which the operation lists them.
    pub arguments: [i32; 3],
    /// Bytes of data after the header.
    pub length: u32,
}

impl Request {
    /// The bytes of the header.
    #[must_use]
    pub fn encode(&self) -> [u8; REQUEST] {
        let mut header = [0; REQUEST];
        let number =
            OPERATIONS.iter().position(|known| *known == self.operation).unwrap_or_default();
        put(&mut header, 0, REQUEST_MAGIC.to_ne_bytes());
        put(&mut header, 8, self.secret);
        put(&mut header, 24, self.handle.to_ne_bytes());
        put(&mut header, 32, (number as u32).to_ne_bytes());
        let [first, second, third] = self.arguments;
        put(&mut header, 36, first.to_ne_bytes());
        put(&mut header, 40, second.to_ne_bytes());
        put(&mut header, 44, third.to_ne_bytes());
        put(&mut header, 48, self.length.to_ne_bytes());
        header
    }

    /// Reads a call and its data; `None` if the bytes are not a call.
    #[must_use]
    pub fn decode(bytes: &[u8]) -> Option<(Self, &[u8])> {
        let (header, data) = bytes.split_at_checked(REQUEST)?;
        if u64::from_ne_bytes(get(header, 0)) != REQUEST_MAGIC {
            return None;
        }
        let number = usize::try_from(u32::from_ne_bytes(get(header, 32))).ok()?;
        let length = u32::from_ne_bytes(get(header, 48));
        let data =
            data.get(..usize::try_from(length).ok()?).filter(|data| data.len() <= MOST_DATA)?;
        let request = Self {
            secret: get(header, 8),
            handle: u64::from_ne_bytes(get(header, 24)),
            operation: *OPERATIONS.get(number)?,
            arguments: [36, 40, 44].map(|at| i32::from_ne_bytes(get(header, at))),
            length,
        };
        Some((request, data))
    }
}

/// The header of an answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Answer {
    /// 0, or the error number of the call.
    pub errno: i32,
    /// What the operation says.
    pub value: i32,
    /// Bytes of data after the header.
    pub length: u32,
}

impl Answer {
    /// The bytes of the header.
    #[must_use]
    pub fn encode(&self) -> [u8; ANSWER] {
        let mut header = [0; ANSWER];
        put(&mut header, 0, ANSWER_MAGIC.to_ne_bytes());
        put(&mut header, 8, self.errno.to_ne_bytes());
        put(&mut header, 12, self.value.to_ne_bytes());
        put(&mut header, 16, self.length.to_ne_bytes());
        header
    }

    /// Reads a header; `None` if the bytes do not begin with one.
    #[must_use]
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let header = bytes.get(..ANSWER)?;
        if u64::from_ne_bytes(get(header, 0)) != ANSWER_MAGIC {
            return None;
        }
        Some(Self {
            errno: i32::from_ne_bytes(get(header, 8)),
            value: i32::from_ne_bytes(get(header, 12)),
            length: u32::from_ne_bytes(get(header, 16)),
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn calls_and_answers_survive_the_way(
            secret in any::<[u8; SECRET]>(),
            handle in any::<u64>(),
            operation in 0..OPERATIONS.len(),
            arguments in any::<[i32; 3]>(),
            numbers in any::<(i32, i32, u32)>(),
            data in vec(any::<u8>(), 0..300),
        ) {
            let operation = OPERATIONS[operation];
            let length = data.len() as u32;
            let request = Request { secret, handle, operation, arguments, length };
            let record = [&request.encode()[..], &data].concat();
            prop_assert_eq!(Request::decode(&record), Some((request, &data[..])));
            // One byte is missing.
            prop_assert_eq!(Request::decode(&record[..record.len() - 1]), None);
            let (errno, value, length) = numbers;
            let answer = Answer { errno, value, length };
            prop_assert_eq!(Answer::decode(&answer.encode()), Some(answer));
            prop_assert_eq!(Answer::decode(&request.encode()), None);
        }

        #[test]
        fn any_bytes_are_decoded_without_a_panic(bytes in vec(any::<u8>(), 0..300), begins in any::<bool>()) {
            let mut bytes = bytes;
            if begins && bytes.len() >= 8 {
                bytes[..8].copy_from_slice(&REQUEST_MAGIC.to_ne_bytes());
            }
            if let Some((request, data)) = Request::decode(&bytes) {
                prop_assert_eq!(data.len(), request.length as usize);
            }
            let _ = Answer::decode(&bytes);
        }
    }
}
