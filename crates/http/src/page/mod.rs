//! Loads a web page: the index, and then what it embeds, over the streams of a connection.
//!
//! What a user sees of it depends on when the parts of the objects come, not only on when the last
//! byte does: so all arrivals are noted ([`PageLoad`]), and what is said of a page follows from them.

mod embedded;
#[cfg(feature = "http3")]
mod http3;
mod links;
mod load;
mod measures;
mod notes;
pub(crate) mod reference;

#[cfg(feature = "http3")]
pub use http3::load_page_http3;
pub use links::{is_listing, links};
pub use load::{PageRequest, load_page};
pub use measures::{ObjectLoad, PageLoad};

/// What the server learns about the client.
const AGENT: &str = concat!("anabranch/", env!("CARGO_PKG_VERSION"));
