//! Generated captures for tests: every link type and tunnel, every file type, and the behaviours of TCP and SCTP.

pub(crate) mod cases;
pub(crate) mod files;
pub(crate) mod packets;
