//! The streams of an association.

mod inbound;
mod senders;

pub(crate) use inbound::{Inbound, Pushed};
pub(crate) use senders::Senders;
