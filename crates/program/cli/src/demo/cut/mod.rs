//! The second page: a file over two paths, of which buttons cut one or the other.

mod compute;
mod events;
mod headless;
mod reply;
mod summary;

pub(crate) use headless::cut_report;
pub(crate) use reply::reply;
