//! Captures that are made for tests: every link type and tunnel, every kind of file, and what TCP and SCTP do in them.

pub(crate) mod cases;
pub(crate) mod files;
pub(crate) mod packets;
