//! Peers and strangers that do everything wrong.
//!
//! A [`Draft`] is a packet to be spoiled. [`Mutator`]s spoil what one end of a live association
//! sends, any number of them one behind the other ([`mutate`]). [`Target`] is one endpoint whose
//! peer is made by hand: it counts what goes in and out, and its memory can be measured.

mod draft;
mod mutators;
mod target;

pub use draft::{Draft, RawPiece};
pub use mutators::{
    AckAhead, AckDivision, CutShort, ForgedTag, GapLies, Mutator, Replay, ShuffledChunks, Split,
    Strange, WindowLies, mutate,
};
pub use target::{Sent, Target, Work};
