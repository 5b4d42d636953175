//! The records between a program under `anabranch run` and the engine of its SCTP sockets.
//!
//! | module | what it has |
//! |---|---|
//! | [`record`] | messages, notifications and accepted associations on the channel of a socket |
//! | [`call`] | calls and their answers, each on a connection of its own |
//! | [`linux`] | ancillary data, and calls that Linux makes by options |
//! | [`name`] | the names of channels, and the environment variable by which programs find the engine |
//! | [`tcp`] | where TCP programs are led to |
//!
//! Both ends run on one host, so numbers are in native byte order. Records and names of channels are encoded and
//! decoded without allocation, locks or I/O: the library in the program does so in signal handlers and after `fork`.
//! Decoders take bytes from anybody: the other end may be a different version, or not of this program at all.
#![forbid(unsafe_code)]

mod bytes;
pub mod call;
pub mod linux;
pub mod name;
pub mod record;
pub mod tcp;
