//! Time as an argument: the engine reads no clock.

pub use anabranch_units::Instant;
pub(crate) use anabranch_units::nanos;
