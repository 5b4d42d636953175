//! Peers and third parties that do everything wrong.
//!
//! A [`Draft`] is a packet to be modified. [`Mutator`]s modify the packets of one end of a live
//! association, any number of them in sequence ([`mutate`]). [`Target`] is one endpoint whose peer
//! is made by hand: it counts the traffic in and out, and its memory can be measured.

mod draft;
mod mutators;
mod target;

pub use draft::{Draft, RawPiece};
pub use mutators::{
    AckAhead, AckDivision, CutShort, ForgedTag, GapLies, Mutator, Replay, ShuffledChunks, Split,
    Strange, WindowLies, mutate,
};
pub use target::{Sent, Target, Work};
