//! Times and sizes as people write them, points in time for code that reads no clock, and text files with a limited
//! size.
//!
//! The protocol engine, the simulator's TCP, and their drivers use the same type for time. All quantities with units
//! are parsed in the same way: `90 ms`, `64 KiB`.
#![forbid(unsafe_code)]

mod exact;
mod instant;
mod kind;
mod lines;
mod quantity;
mod text;

pub use exact::{parse_size, parse_time, write_size, write_time};
pub use instant::{Instant, nanos};
pub use kind::Kind;
pub use lines::next_line;
pub use quantity::{Quantity, duration, write};
pub use text::{MOST_TEXT, read_text, read_text_from};
