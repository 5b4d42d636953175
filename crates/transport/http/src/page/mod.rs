//! Loads a web page over the streams of a connection: the index, and then the embedded objects.
//!
//! What the user sees depends on when the parts of the objects arrive, not only on when the last
//! byte does. So all arrivals are recorded ([`PageLoad`]), and all measures are derived from them.

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

/// The value of User-Agent.
const AGENT: &str = concat!("anabranch/", env!("CARGO_PKG_VERSION"));
