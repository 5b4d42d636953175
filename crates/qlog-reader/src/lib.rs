//! Logs of events, read: what is in them, as a page, and for qvis.
//!
//! A [`Reader`] gives the events of a log. [`Stories`] keeps what they say of each association, and [`html`] draws it. A
//! [`Converter`] makes a file for qvis. Nothing here depends on the engine. `docs/qlog.md` describes the log.
#![forbid(unsafe_code)]

mod page;
mod qvis;
mod read;
mod story;

pub use page::{html, left_out};
pub use qvis::Converter;
pub use read::{Chunk, CommonFields, Data, Ended, Event, Header, Reader, Trace, VantagePoint};
pub use story::{PathStory, Series, Stories, Story};
