//! Sending.

use std::net::SocketAddr;
use std::sync::Arc;

use anabranch::{AssociationConfig, OutgoingMessage, Reliability};
use bytes::Bytes;

use super::{Peer, Socket, State, Style};
use crate::assoc_id::AssocId;
use crate::error::Error;
use crate::message::{SendFlags, SendInfo};
use crate::status::fragmentation_point;

/// The destination of a message.
#[derive(Clone, Debug, Default)]
pub(crate) struct Target {
    /// Addresses of the peer. Sending sets up an association if there is none.
    pub(crate) remotes: Vec<SocketAddr>,
    /// The association, if it is not selected by address.
    pub(crate) id: AssocId,
    /// If sending sets up an association, replaces the socket's configuration.
    pub(crate) config: Option<AssociationConfig>,
}

/// A message and its send parameters.
#[derive(Clone, Debug)]
pub(crate) struct Outgoing {
    /// Without the association id, which is in the target.
    pub(crate) info: SendInfo,
    pub(crate) reliability: Reliability,
    pub(crate) data: Bytes,
}

impl Outgoing {
    fn has(&self, flag: SendFlags) -> bool {
        self.info.flags.contains(flag)
    }

    fn message(&self) -> OutgoingMessage {
        self.info.message(self.data.clone(), self.reliability)
    }
}

impl Socket {
    /// Sends a message, or ends an association with SCTP_EOF or SCTP_ABORT. Returns its length.
    pub(crate) fn send(
        self: &Arc<Self>,
        target: &Target,
        outgoing: &Outgoing,
        dont_wait: bool,
    ) -> Result<usize, Error> {
        outgoing.info.check(outgoing.data.len())?;
        if outgoing.has(SendFlags::SEND_ALL) {
            return self.send_to_all(outgoing, dont_wait);
        }
        let nonblocking = self.is_nonblocking(dont_wait);
        let limit = self.look(|state| state.options.send_timeout);
        let mut chosen = None;
        self.wait(nonblocking, limit, |state| {
            let id = match chosen {
                Some(id) => id,
                None => match self.choose(state, target) {
                    Ok(id) => *chosen.insert(id),
                    Err(error) => return Some(Err(error)),
                },
            };
            self.try_send(state, id, outgoing)
        })?;
        Ok(outgoing.data.len())
    }

    /// The association that a message is for.
    fn choose(self: &Arc<Self>, state: &mut State, target: &Target) -> Result<AssocId, Error> {
        if self.style == Style::OneToOne {
            if let Some(error) = state.error.take() {
                return Err(error);
            }
            if let Some((id, _)) = state.only() {
                return Ok(id);
            }
            if state.listening {
                return Err(Error::Finished);
            }
            // RFC 6458 section 4.1.8: an address sets up the association.
            if target.remotes.is_empty() {
                return Err(Error::NotConnected);
            }
            return self.begin_connecting(state, target.remotes.clone(), target.config.clone());
        }
        if target.id != AssocId::FUTURE {
            return match state.peers.contains_key(&target.id) {
                true => Ok(target.id),
                false => Err(Error::Invalid),
            };
        }
        if target.remotes.is_empty() {
            return Err(Error::NotConnected);
        }
        match state.peer_of(&target.remotes) {
            Some(id) => Ok(id),
            None => self.begin_connecting(state, target.remotes.clone(), target.config.clone()),
        }
    }

    /// Passes a message to an association; `None` if there is no room.
    fn try_send(
        &self,
        state: &mut State,
        id: AssocId,
        outgoing: &Outgoing,
    ) -> Option<Result<(), Error>> {
        let (whole, explicit) = (state.options.whole(), state.options.explicit_end);
        let Some(peer) = state.peers.get_mut(&id) else {
            let lost =
                if self.style == Style::OneToOne { Error::NotConnected } else { Error::Invalid };
            return Some(Err(state.error.take().unwrap_or(lost)));
        };
        if let Some(Err(error)) = peer.end {
            peer.end = Some(Ok(()));
            return Some(Err(error));
        }
        if peer.finished || peer.end.is_some() {
            return Some(Err(Error::Finished));
        }
        if outgoing.has(SendFlags::ABORT) {
            peer.finished = true;
            match &peer.association {
                Some(association) => association.abort(&outgoing.data),
                None => self.give_up(state, id),
            }
            return Some(Ok(()));
        }
        let fits = whole.map_or(usize::MAX, |raw| peer.fits(raw));
        if explicit && outgoing.info.flags.ending().is_empty() {
            return Some(peer.keep(outgoing, fits));
        }
        let joined = peer.records.take(outgoing);
        let message = joined.as_ref().unwrap_or(outgoing);
        let offered = match message.data.len() {
            0 => Some(Ok(())),
            length if length > fits => Some(Err(Error::TooLong)),
            _ => self.offer(id, peer, message.message()),
        };
        if !matches!(offered, Some(Ok(()))) {
            if let Some(joined) = joined {
                peer.records.put_back(joined, outgoing);
            }
            return offered;
        }
        if outgoing.has(SendFlags::EOF) {
            peer.finished = true;
            self.start_finishing(peer);
        }
        Some(Ok(()))
    }

    /// Ends an association during setup, as if setup had failed.
    fn give_up(&self, state: &mut State, id: AssocId) {
        let link = state.peers.get(&id).map(|peer| peer.link.clone());
        state.failed(self.style, id, Error::Aborted);
        if let Some(link) = link {
            link.taken.notify_one();
        }
    }

    /// SCTP_SENDALL: a copy to every association. A blocking call waits for associations without room. If it
    /// may not wait any longer but sent other copies, notifications report theirs as failed.
    fn send_to_all(&self, outgoing: &Outgoing, dont_wait: bool) -> Result<usize, Error> {
        if self.style == Style::OneToOne {
            return Err(Error::Invalid);
        }
        let (mut left, limit): (Vec<AssocId>, _) =
            self.look(|state| (state.peers.keys().copied().collect(), state.options.send_timeout));
        let all = left.len();
        let waited = self.wait(self.is_nonblocking(dont_wait), limit, |state| {
            // Notifications report what happens to each copy.
            left.retain(|id| self.try_send(state, *id, outgoing).is_none());
            left.is_empty().then_some(Ok(()))
        });
        if left.len() == all {
            waited?;
        }
        self.with(|state| {
            for id in left {
                state.send_failed(id, &outgoing.message(), false);
            }
        });
        Ok(outgoing.data.len())
    }
}

impl Peer {
    /// Keeps a part of a message that later calls go on with. `fits`: bytes of the longest message.
    fn keep(&mut self, part: &Outgoing, fits: usize) -> Result<(), Error> {
        let stream = part.info.stream;
        if let Some(association) = &self.association {
            let most = fits.min(association.config().sending.max_message_size);
            if stream >= association.outbound_streams() {
                return Err(Error::Invalid);
            }
            if self.records.length(stream) + part.data.len() > most {
                return Err(Error::TooLong);
            }
        }
        self.records.keep(part);
        Ok(())
    }

    /// Bytes of the longest message that currently fits into one packet.
    fn fits(&self, raw: bool) -> usize {
        let Some(known) = self.statistics() else { return usize::MAX };
        let path = known.path(known.active);
        path.map_or(usize::MAX, |path| fragmentation_point(path, raw) as usize)
    }
}

impl State {
    /// The association with a peer that has one of these addresses.
    pub(super) fn peer_of(&self, remotes: &[SocketAddr]) -> Option<AssocId> {
        let is_one = |peer: &Peer| {
            let port = peer.remote.port();
            let has = |ip| {
                peer.remote.ip() == ip
                    || peer
                        .statistics()
                        .is_some_and(|known| known.paths.iter().any(|path| path.remote == ip))
            };
            remotes.iter().any(|remote| remote.port() == port && has(remote.ip()))
        };
        self.peers.iter().find(|(_, peer)| is_one(peer)).map(|(id, _)| *id)
    }
}
