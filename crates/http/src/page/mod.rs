//! Loads a web page: the index, and then what it embeds, over the streams of a connection.
//!
//! What a user sees of it depends on when the parts of the objects come, not only on when the last
//! byte does: so all arrivals are noted ([`PageLoad`]), and what is said of a page follows from them.

mod embedded;
mod load;
mod measures;
mod pipeline;
mod reference;

pub use load::{PageRequest, load_page};
pub use measures::{ObjectLoad, PageLoad};
