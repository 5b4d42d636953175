//! Reads event logs: their contents, as an HTML page, and for qvis.
//!
//! A [`Reader`] yields the events of a log. [`Stories`] collects them by association, and [`html`] draws the result. A
//! [`Converter`] creates a file for qvis. Nothing here depends on the engine. `docs/qlog.md` describes the log.
#![forbid(unsafe_code)]

mod page;
mod qvis;
mod read;
mod story;

pub use page::{html, left_out};
pub use qvis::Converter;
pub use read::{Chunk, CommonFields, Data, Ended, Event, Header, Reader, Trace, VantagePoint};
pub use story::{PathStory, Series, Stories, Story};
