//! A log of what SCTP associations do and decide, in the form of qlog.
//!
//! An [`Observer`] gets the events of an engine and makes [`Entry`]s of them: packets by their chunks, and
//! changes of windows, timers and states. A [`LogFile`] takes the entries and writes them in a separate
//! thread; a [`Writer`] is for callers that may block, such as simulators. `docs/qlog.md` describes the file.
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
