//! Time as an argument: the engine never reads a clock.

pub use anabranch_units::Instant;
pub(crate) use anabranch_units::nanos;
