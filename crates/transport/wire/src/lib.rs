//! Converts SCTP packets, chunks, parameters and error causes to and from bytes.
//!
//! Decoding borrows: a [`Packet`] is a view of the received bytes, its [chunks](Packet::chunks) are
//! views of the packet, and nothing is allocated. Encoding appends to a `Vec<u8>` through a
//! [`PacketWriter`]. The crate keeps no state, does not know associations, and sends no answers. The
//! caller decides how to handle an unknown chunk or a malformed parameter; errors carry the data for
//! that decision.
//!
//! ```
//! use anabranch_wire::{Chunk, Header, Packet, PacketWriter, Tsn};
//!
//! let header = Header { source_port: 5001, destination_port: 9899, verification_tag: 0x1a2b_3c4d };
//! let mut bytes = Vec::new();
//! let mut writer = PacketWriter::new(&mut bytes, header, 1452);
//! writer.sack(Tsn(17), 65536, &[], &[])?;
//! writer.finish_without_checksum();
//!
//! let packet = Packet::parse(&bytes)?;
//! for chunk in packet.chunks() {
//!     if let Chunk::Sack(sack) = chunk?.decode()? {
//!         assert_eq!(sack.cumulative_tsn_ack, Tsn(17));
//!     }
//! }
//! assert_eq!(packet.to_string(), "5001 > 9899 tag 0x1a2b3c4d: SACK cum 17 rwnd 65536");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! With `default-features = false` the crate is `no_std` (with `alloc`) and has no dependencies; the
//! default feature `checksum` needs `std` and adds the CRC32c.
#![forbid(unsafe_code)]
#![cfg_attr(not(test), no_std)]

extern crate alloc;

mod cause;
#[cfg(feature = "checksum")]
mod checksum;
pub mod chunk;
mod error;
mod list;
mod packet;
mod parameter;
mod ppid;
mod reader;
mod serial;
mod text;
mod tlv;
mod writer;

pub use cause::{Cause, Causes, cause_code};
#[cfg(feature = "checksum")]
pub use checksum::crc32c;
pub use chunk::*;
pub use error::{ChunkError, PacketError, ParameterError};
pub use list::{Element, GapBlock, GapBlocks, List, ListIter, TsnList, U16List};
pub use packet::{Chunks, HEADER_LEN, Header, Packet};
pub use parameter::{Parameter, ParameterIter, Parameters, RawParameter, kind as parameter_kind};
pub use ppid::Ppid;
pub use serial::{Ssn, StreamId, Tsn};
pub use writer::{NoRoom, PacketWriter};

// The README's example must compile, too.
#[cfg(all(doctest, feature = "checksum"))]
#[doc = include_str!("../README.md")]
struct Readme;
