//! `perf`: how fast messages go.
//!
//! The client tells the server in its first message what it wants to measure ([`protocol`]); a
//! peer that speaks no perf (one that echoes, discards or sends by itself) is measured from one
//! side. Both sides count with the same [`meter`] and tell with the same [`report`].

pub(crate) mod chart;
pub(crate) mod client;
mod cpu;
pub(crate) mod latency;
mod lines;
mod meter;
mod protocol;
mod report;
pub(crate) mod server;
mod traffic;

pub(crate) use latency::time;
#[cfg(unix)]
pub(crate) use lines::short;
pub(crate) use protocol::{Limit, MOST_SIZE, Mode, Plan};
