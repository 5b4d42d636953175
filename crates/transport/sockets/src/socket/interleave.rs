//! Interleaving of messages, and schedulers (RFC 8260 section 4.3, RFC 6458 section 8.1.20).

use anabranch::Features;

use super::options::ACROSS_STREAMS;
use super::{Socket, Style};
use crate::assoc_id::AssocId;
use crate::error::Error;
use crate::option::InterleavingSupported;

impl Socket {
    /// SCTP_FRAGMENT_INTERLEAVE (RFC 6458 section 8.1.20). From level 1 on, the parts of a message alternate with the
    /// messages of other associations; at level 0 these wait for its end. Level 2 says that the program can also handle
    /// messages of one association between the parts of another one; below it they wait for its end, and interleaving is
    /// not offered to peers.
    ///
    /// # Errors
    /// [`Error::NotSupported`]: there is no such level.
    pub fn set_fragment_interleave(&self, level: i32) -> Result<(), Error> {
        let level = u8::try_from(level).ok().filter(|level| *level <= ACROSS_STREAMS);
        let level = level.ok_or(Error::NotSupported)?;
        self.with(|state| state.options.interleave = level);
        // A listener learns what it offers from now on, and associations how to deliver.
        self.change_config(AssocId::ALL, true, |config| {
            config.receiving.fragment_interleave = level >= ACROSS_STREAMS;
        })
    }

    /// SCTP_INTERLEAVING_SUPPORTED of future associations: whether to offer interleaving to their peers (RFC 8260 section
    /// 4.3.1).
    ///
    /// # Errors
    /// [`Error::NotPermitted`]: the level of SCTP_FRAGMENT_INTERLEAVE is below 2. [`Error::Invalid`]: `id` stands for
    /// present associations. Otherwise as [`set_option`](Self::set_option).
    pub fn set_interleaving(&self, id: AssocId, on: bool) -> Result<(), Error> {
        let present = matches!(id, AssocId::CURRENT | AssocId::ALL);
        if present && self.style == Style::OneToMany {
            return Err(Error::Invalid);
        }
        if on && self.options(|options| options.interleave < ACROSS_STREAMS) {
            return Err(Error::NotPermitted);
        }
        self.set_option(id, &InterleavingSupported(on))
    }

    /// SCTP_INTERLEAVING_SUPPORTED: for an established association, whether both sides negotiated interleaving; otherwise
    /// whether this side will offer it.
    ///
    /// # Errors
    /// As [`option`](Self::option).
    pub fn interleaving(&self, id: AssocId) -> Result<bool, Error> {
        let InterleavingSupported(wanted) = self.option(AssocId::FUTURE)?;
        Ok(self.agreed(id, Features::INTERLEAVING).unwrap_or(wanted))
    }

    /// SCTP_STREAM_SCHEDULER_VALUE (RFC 8260 section 4.3.3): the priority or the weight of an outgoing stream. `id` is as
    /// for [`configure`](Self::configure).
    ///
    /// # Errors
    /// [`Error::Invalid`]: the association or the stream does not exist.
    pub fn set_stream_value(&self, id: AssocId, stream: u16, value: u16) -> Result<(), Error> {
        self.check_stream(id, stream)?;
        self.change_own(id, |own| {
            own.stream_values.insert(stream, value);
        })?;
        let id = if self.style == Style::OneToOne { AssocId::ALL } else { id };
        self.look(|state| {
            let chosen = |known: &AssocId| match id {
                AssocId::FUTURE => false,
                AssocId::CURRENT | AssocId::ALL => true,
                id => id == *known,
            };
            let peers = state.peers.iter().filter(|(known, _)| chosen(known));
            for association in peers.filter_map(|(_, peer)| peer.association.as_ref()) {
                association.set_stream_priority(stream, value);
            }
        });
        Ok(())
    }

    /// SCTP_STREAM_SCHEDULER_VALUE of a stream; 0 if none was set.
    ///
    /// # Errors
    /// As [`set_stream_value`](Self::set_stream_value).
    pub fn stream_value(&self, id: AssocId, stream: u16) -> Result<u16, Error> {
        self.check_stream(id, stream)?;
        Ok(self.own(id)?.stream_values.get(&stream).copied().unwrap_or(0))
    }

    /// Refuses streams that the association does not have, or that future ones do not ask for.
    fn check_stream(&self, id: AssocId, stream: u16) -> Result<(), Error> {
        let asked = self.options(|options| options.config.sending.outbound_streams);
        let agreed = self.with_association(id, |known| known.outbound_streams());
        if stream < agreed.unwrap_or(asked) { Ok(()) } else { Err(Error::Invalid) }
    }
}
