//! Peers and third parties that violate the protocol.
//!
//! A [`Draft`] is a packet to be modified. [`Mutator`]s modify the packets of one end of a live
//! association; any number of them can be chained ([`mutate`]). [`Target`] is an endpoint with a
//! handcrafted peer. It counts the traffic in and out, and its memory can be measured.

mod draft;
mod mutators;
mod target;

pub use draft::{Draft, RawPiece};
pub use mutators::{
    AckAhead, AckDivision, CutShort, ForgedTag, GapLies, Mutator, Replay, ShuffledChunks, Split,
    Strange, WindowLies, mutate,
};
pub use target::{Sent, Target, Work};
