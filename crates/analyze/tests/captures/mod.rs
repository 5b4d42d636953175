//! Generated captures for tests: every link type and tunnel, every kind of file, and the behaviour of TCP and SCTP in
//! them.

pub(crate) mod cases;
pub(crate) mod files;
pub(crate) mod packets;
