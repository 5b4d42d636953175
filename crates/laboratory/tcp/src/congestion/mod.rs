//! Congestion control: how the window changes.

mod reno;

pub(crate) use reno::{Growth, Reno};
