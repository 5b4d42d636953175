//! Files from one person to another over an SCTP association.
//!
//! An [`Offer`] is what the sender has: files and directories. A [`Receiver`] fetches all of it into a directory. Files
//! that were received in part go on where they were, also in another process, and every file is verified by its
//! SHA-256. The caller brings endpoints and associations. docs/send.md describes the protocol.
#![forbid(unsafe_code)]

mod digest;
mod list;
mod name;
mod offer;
mod part;
mod protocol;
mod receiver;

pub use digest::Digest;
pub use list::{Entry, List};
pub use name::{BadName, local_path};
pub use offer::{CannotOffer, Offer, Outcome};
pub use receiver::{Event, Events, Failed, Received, Receiver};
