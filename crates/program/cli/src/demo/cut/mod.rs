//! The second page: a file over two paths, with buttons that cut either path.

mod compute;
mod events;
mod headless;
mod reply;
mod summary;

pub(crate) use headless::cut_report;
pub(crate) use reply::reply;
