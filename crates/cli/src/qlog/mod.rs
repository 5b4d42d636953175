//! Logs of events, read: what is in them, as text, as a page, and for qvis.

pub(crate) mod page;
pub(crate) mod qvis;
pub(crate) mod read;
pub(crate) mod story;
