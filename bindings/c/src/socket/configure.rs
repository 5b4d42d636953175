//! Options of associations: of those to come, and of those that are up (RFC 6458 section 8).

use std::collections::BTreeSet;
use std::time::Duration;

use anabranch::AssociationConfig;

use super::options::Own;
use super::{Peer, Socket, State, Style, Target, notify};
use crate::abi::{Sndinfo, event};
use crate::error::Error;

/// Numbers of RFC 6458 section 7.1 that stand for several associations.
pub(crate) const FUTURE_ASSOC: i32 = 0;
pub(crate) const CURRENT_ASSOC: i32 = 1;
pub(crate) const ALL_ASSOC: i32 = 2;

impl Socket {
    /// Changes options of associations. `id` says of which: that one, those to come, those that
    /// are up, or all; with a one-to-one socket it has no meaning. What cannot change once a
    /// handshake has begun is refused where one has, and at sockets that listen.
    pub(crate) fn configure(
        &self,
        id: i32,
        change: impl Fn(&mut AssociationConfig),
    ) -> Result<(), Error> {
        let one_to_one = self.style == Style::OneToOne;
        let id = if one_to_one { ALL_ASSOC } else { id };
        self.with(|state| {
            let mut config = state.options.config.clone();
            change(&mut config);
            let future = matches!(id, FUTURE_ASSOC | ALL_ASSOC);
            let fixed = !future || state.listening || (one_to_one && !state.peers.is_empty());
            if fixed && state.options.config.adjusted(&config) != config {
                return Err(Error::NotSupported);
            }
            if future {
                config.validate().map_err(|_| Error::Invalid)?;
            }
            let peers: Vec<&Peer> = match id {
                FUTURE_ASSOC => Vec::new(),
                CURRENT_ASSOC | ALL_ASSOC => state.peers.values().collect(),
                id => vec![state.peer(self.style, id)?.1],
            };
            // Those that are being set up follow when they are up.
            for association in peers.into_iter().filter_map(|peer| peer.association.as_ref()) {
                association.reconfigure(&change).map_err(|_| Error::Invalid)?;
            }
            if future {
                state.options.config = config;
            }
            Ok(())
        })
    }

    /// Tells of events of a type from now on, or no more. That nothing is left to be sent is told at
    /// once of the associations of which it is so (RFC 6458 section 6.1.9).
    pub(crate) fn subscribe(&self, id: i32, kind: u16, on: bool) -> Result<(), Error> {
        self.with(|state| {
            let before = state.subscribed(kind);
            state.change_own(self.style, id, |own| {
                if on {
                    own.events.insert(kind)
                } else {
                    own.events.remove(&kind)
                };
            })?;
            if kind != event::SENDER_DRY {
                return Ok(());
            }
            let is_dry = |id: &&i32| {
                let peer = state.peers.get(id)?;
                let association = peer.association.as_ref()?;
                Some(association.tell_when_dry(on) && peer.has_room() && !association.is_closed())
            };
            let after = state.subscribed(kind);
            let dry: Vec<i32> = (before.symmetric_difference(&after))
                .filter(|id| is_dry(id) == Some(true))
                .copied()
                .collect();
            dry.into_iter().for_each(|id| state.tell(id, notify::dry(id)));
            Ok(())
        })
    }

    /// Changes the settings of each association; `id` is as for [`configure`](Self::configure).
    pub(crate) fn change_own(&self, id: i32, change: impl Fn(&mut Own)) -> Result<(), Error> {
        self.with(|state| state.change_own(self.style, id, change))
    }

    /// What an association has for itself, or those to come have.
    pub(crate) fn own(&self, id: i32) -> Result<Own, Error> {
        self.with(|state| {
            let id = match (self.style, id) {
                (Style::OneToOne, _) => state.only().map_or(FUTURE_ASSOC, |(id, _)| id),
                (_, FUTURE_ASSOC..=ALL_ASSOC) => FUTURE_ASSOC,
                (_, id) => state.peer(self.style, id)?.0,
            };
            Ok(state.own(id).clone())
        })
    }

    /// SCTP_DEFAULT_SNDINFO and the time to live of the association that a message goes to.
    pub(crate) fn defaults(&self, target: &Target) -> (Sndinfo, Option<Duration>) {
        self.with(|state| {
            let id = match self.style {
                Style::OneToOne => state.only().map(|(id, _)| id),
                Style::OneToMany if target.id != 0 => Some(target.id),
                Style::OneToMany => state.peer_of(&target.remotes),
            };
            let own = state.own(id.unwrap_or(FUTURE_ASSOC));
            (own.default_send, own.default_lifetime)
        })
    }

    /// Binds to an interface, before an endpoint has been opened (SO_BINDTODEVICE).
    pub(crate) fn choose_interface(&self, name: Option<String>) -> Result<(), Error> {
        self.with(|state| {
            if state.endpoint.is_some() {
                return Err(Error::NotSupported);
            }
            state.options.interface = name;
            Ok(())
        })
    }

    /// Gives all packets a type of service, before an endpoint has been opened (IP_TOS). The bits of
    /// ECN are not the user's.
    pub(crate) fn choose_traffic_class(&self, class: u8) -> Result<(), Error> {
        let class = class & !3;
        self.with(|state| {
            if state.endpoint.is_some() && state.options.traffic_class != class {
                return Err(Error::NotSupported);
            }
            state.options.traffic_class = class;
            Ok(())
        })
    }

    /// Options of an association, or of those to come.
    pub(crate) fn configuration(&self, id: i32) -> Result<AssociationConfig, Error> {
        if self.style == Style::OneToOne || (FUTURE_ASSOC..=ALL_ASSOC).contains(&id) {
            return Ok(self.with(|state| state.options.config.clone()));
        }
        let live = |association: &anabranch::Association| {
            (!association.is_closed()).then(|| association.config())
        };
        self.with_association(id, live)?.ok_or(Error::NotConnected)
    }
}

impl State {
    /// What an association has for itself, or without one those to come have.
    pub(crate) fn own(&self, id: i32) -> &Own {
        let own = self.peers.get(&id).and_then(|peer| peer.own.as_ref());
        own.unwrap_or(&self.options.own)
    }

    /// The associations of which events of a type are told.
    fn subscribed(&self, kind: u16) -> BTreeSet<i32> {
        let wants = |id: &i32| self.own(*id).events.contains(&kind);
        self.peers.keys().copied().filter(wants).collect()
    }

    fn change_own(
        &mut self,
        style: Style,
        id: i32,
        change: impl Fn(&mut Own),
    ) -> Result<(), Error> {
        let usual = self.options.own.clone();
        let id = if style == Style::OneToOne { ALL_ASSOC } else { id };
        if !(FUTURE_ASSOC..=ALL_ASSOC).contains(&id) {
            let (_, peer) = self.peer(style, id)?;
            change(peer.own.get_or_insert(usual));
            return Ok(());
        }
        for peer in self.peers.values_mut() {
            let own = peer.own.get_or_insert_with(|| usual.clone());
            if id != FUTURE_ASSOC {
                change(own);
            }
        }
        if id != CURRENT_ASSOC {
            change(&mut self.options.own);
        }
        Ok(())
    }
}
