//! Conversion of nodes to and from bytes.

mod changes;
mod decode;
mod encode;
mod numbers;

pub(crate) use decode::chunks;
pub(crate) use encode::{Sources, chunk};
pub(crate) use numbers::{Identities, Identity};
