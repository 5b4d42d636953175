//! Logs what SCTP associations do and decide, in qlog format.
//!
//! An [`Observer`] receives the events of an engine and turns them into [`Entry`]s: packets with their chunks, and
//! changes of windows, timers and states. A [`LogFile`] accepts entries and writes them in a separate thread; a
//! [`Writer`] is for callers that may block, such as simulators. `docs/qlog.md` describes the file.
#![forbid(unsafe_code)]

mod chunks;
mod entry;
mod file;
mod json;
mod observer;
mod writer;

pub use entry::Entry;
pub use file::{EventLog, LogFile};
pub use observer::{Observer, Sink};
pub use writer::{Header, VantagePoint, Writer};
