//! Streams that are reset and added (RFC 6525 section 6.3).

use anabranch::{Association, Features, Notification, StreamDirection};

use super::Socket;
use crate::assoc_id::AssocId;
use crate::error::Error;
use crate::notification::Event;
use crate::option::ReconfigSupported;

impl Socket {
    /// SCTP_RECONFIG_SUPPORTED: for an established association, whether both sides negotiated stream reconfiguration;
    /// otherwise whether this side will offer it.
    ///
    /// # Errors
    /// As [`option`](Self::option).
    pub fn stream_reconfiguration(&self, id: AssocId) -> Result<bool, Error> {
        let ReconfigSupported(wanted) = self.option(AssocId::FUTURE)?;
        Ok(self.agreed(id, Features::STREAM_RECONFIGURATION).unwrap_or(wanted))
    }

    /// SCTP_RESET_STREAMS: resets streams; none means all.
    ///
    /// # Errors
    /// [`Error::NoSuchOption`]: the peer does not support it. [`Error::AlreadyConnecting`]: an earlier request has not
    /// ended. [`Error::Invalid`]: there is no such stream or association. [`Error::NotConnected`]: it has ended.
    pub fn reset_streams(
        &self,
        id: AssocId,
        direction: StreamDirection,
        streams: &[u16],
    ) -> Result<(), Error> {
        self.with_association(id, |association| association.reset_streams(direction, streams))?
            .map_err(Error::of_reconfiguration)
    }

    /// SCTP_RESET_ASSOC: resets all TSNs.
    ///
    /// # Errors
    /// As [`reset_streams`](Self::reset_streams).
    pub fn reset_association(&self, id: AssocId) -> Result<(), Error> {
        self.with_association(id, Association::reset_association)?
            .map_err(Error::of_reconfiguration)
    }

    /// SCTP_ADD_STREAMS: adds streams of this side, and asks the peer to add some.
    ///
    /// # Errors
    /// As [`reset_streams`](Self::reset_streams). [`Error::Invalid`]: there would be too many.
    pub fn add_streams(&self, id: AssocId, outgoing: u16, incoming: u16) -> Result<(), Error> {
        self.with_association(id, |association| association.add_streams(outgoing, incoming))?
            .map_err(Error::of_reconfiguration)
    }
}

/// The event of a program for the end of a request.
pub(super) fn event(notification: &Notification) -> Option<Event> {
    Some(match notification {
        Notification::StreamsReset { outgoing, streams, result } => {
            let (outgoing, streams, result) = (*outgoing, streams.clone(), *result);
            Event::StreamReset { outgoing, streams, result }
        }
        Notification::AssociationReset { local_tsn, remote_tsn, result } => {
            let (local_tsn, remote_tsn, result) = (*local_tsn, *remote_tsn, *result);
            Event::AssocReset { local_tsn, remote_tsn, result }
        }
        Notification::StreamsAdded { outbound_streams, inbound_streams, result } => {
            let (outbound_streams, inbound_streams) = (*outbound_streams, *inbound_streams);
            Event::StreamChange { outbound_streams, inbound_streams, result: *result }
        }
        _ => return None,
    })
}
