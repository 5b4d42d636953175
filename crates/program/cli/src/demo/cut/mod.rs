//! The second page: a file over two paths, with buttons that cut either path.

mod compute;
mod events;
mod headless;
mod reply;
mod summary;

pub(crate) use compute::PathSettings;
pub(crate) use events::PATHS;
pub(crate) use headless::cut_report;
pub(crate) use reply::reply;
