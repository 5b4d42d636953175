//! The third page: a gateway over two links, with real packets, and buttons that cut a link.

mod download;
mod pair;
mod session;

pub(super) use session::{Sessions, is_from_page};
