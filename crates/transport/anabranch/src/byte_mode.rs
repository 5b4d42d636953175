//! How messages carry byte streams, as defined in `docs/byte-mode.md`.
//!
//! SCTP streams have neither an end nor empty messages, so a direction of a byte stream ends with a
//! message of one byte under a separate payload protocol identifier, [`MARK`]: 0 when all was
//! written, 1 when the writer gave up before. Bytes travel in ordered messages under [`BYTES`]; a
//! reader takes messages of any other identifier as bytes, too. The reader of a stream sends its
//! credit, and a request to stop, under [`SIGNAL`]; these messages are internal and never returned by
//! `recv`.
//!
//! So an unread byte stream does not hold up others, and writing fails on one whose reader is gone.
//! Peers of version 1 ([`BYTES_1`]) neither send nor receive signals.

pub use anabranch_proto::byte_mode::{BYTES, BYTES_1, MARK, SIGNAL};
