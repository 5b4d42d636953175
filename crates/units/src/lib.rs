//! Times and sizes as people write them, points in time for what reads no clock, and text files of a bounded length.
//!
//! The protocol engine, the TCP of simulations, and all that drives them count time in the same way,
//! and whoever reads a quantity reads it with its unit in the same way: `90 ms`, `64 KiB`.
#![forbid(unsafe_code)]

mod exact;
mod instant;
mod kind;
mod quantity;
mod text;

pub use exact::{parse_size, parse_time, write_size, write_time};
pub use instant::{Instant, nanos};
pub use kind::Kind;
pub use quantity::{Quantity, duration, write};
pub use text::{MOST_TEXT, read_text, read_text_from};
