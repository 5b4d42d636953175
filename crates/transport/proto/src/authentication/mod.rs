//! Authentication of chunks (RFC 4895): the parts that need no association.
//!
//! Each side announces which chunks it accepts only if they are authenticated, and the other side sends these after an
//! AUTH chunk, whose MAC covers the rest of the packet. The key of the MAC is derived from what both sides said in the
//! handshake and, if they have one, a secret that they share. `association/authentication.rs` applies it.

mod algorithm;
mod chunk_types;
mod config;
mod shared_keys;
mod vector;

pub use algorithm::HmacAlgorithm;
pub(crate) use algorithm::Mac;
pub use chunk_types::ChunkTypes;
pub use config::AuthenticationConfig;
pub use shared_keys::{KeyError, SharedKeys};
pub(crate) use vector::{KeyVector, KeyVectors, Offer};
