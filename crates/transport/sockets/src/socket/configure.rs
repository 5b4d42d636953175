//! Options of future and of established associations (RFC 6458 section 8).

use std::collections::BTreeSet;

use anabranch::{AssociationConfig, Reliability};

use super::options::{Options, Own};
use super::{Peer, Socket, State, Style, Target};
use crate::assoc_id::AssocId;
use crate::error::Error;
use crate::message::SendInfo;
use crate::notification::{Event, EventKind};

impl Socket {
    /// Changes the configuration of one association, of future ones, of the present ones, or of all (RFC 6458
    /// section 7.1). One-to-one sockets ignore `id`.
    ///
    /// # Errors
    /// [`Error::Invalid`]: the configuration would not be valid, or the association does not exist.
    /// [`Error::NotSupported`]: the option cannot change once a handshake has begun, and one has begun.
    pub fn configure(
        &self,
        id: AssocId,
        change: impl Fn(&mut AssociationConfig),
    ) -> Result<(), Error> {
        self.change_config(id, false, change)
    }

    /// As [`configure`](Self::configure). A hint is never refused: associations take what they still can.
    pub(super) fn change_config(
        &self,
        id: AssocId,
        is_hint: bool,
        change: impl Fn(&mut AssociationConfig),
    ) -> Result<(), Error> {
        let one_to_one = self.style == Style::OneToOne;
        let id = if one_to_one { AssocId::ALL } else { id };
        self.with(|state| {
            let mut config = state.options.config.clone();
            change(&mut config);
            let future = matches!(id, AssocId::FUTURE | AssocId::ALL);
            let fixed = !future || (one_to_one && !state.peers.is_empty());
            if fixed && !is_hint && state.options.config.adjusted(&config) != config {
                return Err(Error::NotSupported);
            }
            if future {
                config.validate().map_err(|_| Error::Invalid)?;
            }
            let peers: Vec<&Peer> = match id {
                AssocId::FUTURE => Vec::new(),
                AssocId::CURRENT | AssocId::ALL => state.peers.values().collect(),
                id => vec![state.peer(self.style, id)?.1],
            };
            // Associations in setup are changed when they are established. None changes what the handshake has settled.
            for association in peers.into_iter().filter_map(|peer| peer.association.as_ref()) {
                association.reconfigure(&change).map_err(|_| Error::Invalid)?;
            }
            if future {
                // As in a kernel, a listening socket takes options of the handshake for associations to come.
                if let Some(accepting) = &state.accepting {
                    let offered = state.options.offered(config.clone());
                    accepting.listener.reconfigure(offered).map_err(|_| Error::Invalid)?;
                }
                state.options.config = config;
            }
            Ok(())
        })
    }

    /// SCTP_EVENT: enables or disables a notification type (RFC 6458 section 6.2.2). `id` is as for
    /// [`configure`](Self::configure). [`EventKind::SenderDry`] is reported immediately for associations that have
    /// nothing left to send (section 6.1.9).
    ///
    /// # Errors
    /// [`Error::Invalid`]: the association does not exist.
    pub fn subscribe(&self, id: AssocId, kind: EventKind, on: bool) -> Result<(), Error> {
        self.with(|state| {
            let before = state.subscribed(kind);
            state.change_own(self.style, id, |own| {
                if on {
                    own.events.insert(kind)
                } else {
                    own.events.remove(&kind)
                };
            })?;
            if kind != EventKind::SenderDry {
                return Ok(());
            }
            let is_dry = |id: &&AssocId| {
                let peer = state.peers.get(id)?;
                let association = peer.association.as_ref()?;
                Some(association.tell_when_dry(on) && peer.has_room() && !association.is_closed())
            };
            let after = state.subscribed(kind);
            let dry: Vec<AssocId> = (before.symmetric_difference(&after))
                .filter(|id| is_dry(id) == Some(true))
                .copied()
                .collect();
            dry.into_iter().for_each(|id| state.report(id, Event::SenderDry));
            Ok(())
        })
    }

    /// Whether a notification type is enabled for an association, or if that is gone, for future ones.
    pub fn is_subscribed(&self, id: AssocId, kind: EventKind) -> bool {
        self.look(|state| state.own(id).events.contains(&kind))
    }

    /// Reads the options of the socket.
    pub fn options<T>(&self, read: impl FnOnce(&Options) -> T) -> T {
        self.look(|state| read(&state.options))
    }

    /// Changes options of the socket that take effect immediately.
    pub fn change_options(&self, change: impl FnOnce(&mut Options)) {
        self.with(|state| change(&mut state.options));
    }

    /// Changes per-association settings, such as SCTP_CONTEXT. `id` is as for [`configure`](Self::configure).
    ///
    /// # Errors
    /// [`Error::Invalid`]: the association does not exist.
    pub fn change_own(&self, id: AssocId, change: impl Fn(&mut Own)) -> Result<(), Error> {
        self.with(|state| state.change_own(self.style, id, change))
    }

    /// The settings of an association, or of future ones.
    ///
    /// # Errors
    /// [`Error::Invalid`]: the association does not exist.
    pub fn own(&self, id: AssocId) -> Result<Own, Error> {
        self.with(|state| {
            let id = match (self.style, id) {
                (Style::OneToOne, _) => state.only().map_or(AssocId::FUTURE, |(id, _)| id),
                (_, id) if id.is_special() => AssocId::FUTURE,
                (_, id) => state.peer(self.style, id)?.0,
            };
            Ok(state.own(id).clone())
        })
    }

    /// SCTP_DEFAULT_SNDINFO and SCTP_DEFAULT_PRINFO of the association that a message is for.
    pub(super) fn defaults(&self, target: &Target) -> (SendInfo, Reliability) {
        let id = self.meant(target);
        self.with(|state| {
            let own = state.own(id);
            (own.default_send, own.default_reliability)
        })
    }

    /// The association that a message is for, or [`AssocId::FUTURE`] if there is none yet.
    pub(super) fn meant(&self, target: &Target) -> AssocId {
        let id = self.with(|state| match self.style {
            Style::OneToOne => state.only().map(|(id, _)| id),
            Style::OneToMany if target.id != AssocId::FUTURE => Some(target.id),
            Style::OneToMany => state.peer_of(&target.remotes),
        });
        id.unwrap_or(AssocId::FUTURE)
    }

    /// SO_BINDTODEVICE: uses only this interface.
    ///
    /// # Errors
    /// [`Error::NotSupported`]: the socket has an endpoint already, because it has listened, connected or sent.
    pub fn choose_interface(&self, name: Option<String>) -> Result<(), Error> {
        self.with(|state| {
            if state.endpoint.is_some() {
                return Err(Error::NotSupported);
            }
            state.options.interface = name;
            Ok(())
        })
    }

    /// IP_TOS and IPV6_TCLASS: the type of service or traffic class of all packets. Ignores the two ECN bits.
    ///
    /// # Errors
    /// As [`choose_interface`](Self::choose_interface).
    pub fn choose_traffic_class(&self, class: u8) -> Result<(), Error> {
        let class = class & !3;
        self.with(|state| {
            if state.endpoint.is_some() && state.options.traffic_class != class {
                return Err(Error::NotSupported);
            }
            state.options.traffic_class = class;
            Ok(())
        })
    }

    /// The configuration of an association, or of future ones.
    ///
    /// # Errors
    /// [`Error::Invalid`]: the association does not exist. [`Error::NotConnected`]: it is not established.
    pub fn configuration(&self, id: AssocId) -> Result<AssociationConfig, Error> {
        if self.style == Style::OneToOne || id.is_special() {
            return Ok(self.with(|state| state.options.config.clone()));
        }
        let live = |association: &anabranch::Association| {
            (!association.is_closed()).then(|| association.config())
        };
        self.with_association(id, live)?.ok_or(Error::NotConnected)
    }
}

impl State {
    /// The settings of an association, or if there is none, of future ones.
    pub(super) fn own(&self, id: AssocId) -> &Own {
        let own = self.peers.get(&id).and_then(|peer| peer.own.as_ref());
        own.unwrap_or(&self.options.own)
    }

    /// The associations for which a notification type is enabled.
    fn subscribed(&self, kind: EventKind) -> BTreeSet<AssocId> {
        let wants = |id: &AssocId| self.own(*id).events.contains(&kind);
        self.peers.keys().copied().filter(wants).collect()
    }

    fn change_own(
        &mut self,
        style: Style,
        id: AssocId,
        change: impl Fn(&mut Own),
    ) -> Result<(), Error> {
        let usual = self.options.own.clone();
        let id = if style == Style::OneToOne { AssocId::ALL } else { id };
        if !id.is_special() {
            let (_, peer) = self.peer(style, id)?;
            change(peer.own.get_or_insert(usual));
            return Ok(());
        }
        for peer in self.peers.values_mut() {
            let own = peer.own.get_or_insert_with(|| usual.clone());
            if id != AssocId::FUTURE {
                change(own);
            }
        }
        if id != AssocId::CURRENT {
            change(&mut self.options.own);
        }
        Ok(())
    }
}
