//! What SCTP associations do and decide, as a log of events in the form of qlog.
//!
//! An [`Observer`] hears from an engine what happens and makes [`Entry`]s of it: packets by their chunks, and
//! of windows, timers and states what has changed. A [`LogFile`] takes the entries and writes them in a
//! thread of its own; a [`Writer`] is for those who have time, as simulators do. `docs/qlog.md` says what the
//! file has in it.
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
