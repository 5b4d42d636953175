//! `perf`: measures throughput and latency of messages.
//!
//! In its first message, the client tells the server what to measure ([`protocol`]). A peer that
//! does not speak this protocol, because it only echoes, discards or sends, is measured from one
//! side. Both sides count with the same [`meter`] and use the same [`report`].

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
