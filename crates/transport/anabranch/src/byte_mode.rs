//! How messages carry byte streams, as defined in `docs/byte-mode.md`.
//! SCTP streams have no end, and SCTP has no empty messages. So each direction of a byte stream ends with a message of
//! one byte under a separate payload protocol identifier, [`MARK`]: 0 when everything was written, 1 when the writer
//! gave up before. Bytes travel in ordered messages under [`BYTES`]; a reader also accepts messages with any other
//! identifier as bytes. The reader of a stream sends credit, and a request to stop, under [`SIGNAL`]; these messages
//! are internal and `recv` never returns them.
//!
//! Credit keeps an unread byte stream from holding up the others. After a request to stop, writing fails. Peers of
//! version 1 ([`BYTES_1`]) neither send nor receive signals.

pub use anabranch_proto::byte_mode::{BYTES, BYTES_1, MARK, SIGNAL};
