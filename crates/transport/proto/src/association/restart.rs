//! Handles INIT and COOKIE ECHO for an existing association: collisions, repetitions and restarts (RFC
//! 9260 section 5.2).

use std::net::IpAddr;

use anabranch_wire::{Cause, Tsn};

use super::Watch;
use super::peer::{Peer, new_addresses_cause};
use super::state::State;
use super::{Association, Control};
use crate::authentication::KeyVector;
use crate::config::Routes;
use crate::cookie::CookieContents;
use crate::event::Notification;
use crate::marks::mark;
use crate::per_path::PathId;
use crate::receive::Receiver;
use crate::time::Instant;
use crate::tsn;

impl Association {
    /// Handles a COOKIE ECHO with an authentic cookie for this association (section 5.2.4). Returns
    /// whether the chunks after it should be read.
    pub(crate) fn on_cookie_echo(
        &mut self,
        now: Instant,
        cookie: &CookieContents,
        arrived: (IpAddr, IpAddr, u16),
    ) -> bool {
        let local_matches = cookie.local_tag == self.identity.local_tag;
        let peer_matches = cookie.peer_tag == self.identity.peer_tag;
        let ties_match = (cookie.local_tie_tag, cookie.peer_tie_tag) == self.identity.tie_tags;
        let path = self.path_of(arrived.0, arrived.1).unwrap_or(self.paths.active());
        match (local_matches, peer_matches) {
            // An ABORT has answered this INIT since, so it must not get the association. The ABORT was
            // lost or is in flight. Send another one, so that the peer does not wait for an answer.
            (_, false) if cookie.peer_tag == self.identity.refused_tag => {
                mark!(CookieIgnored);
                let added = self.new_addresses(&cookie.addresses, arrived.1);
                let (tag, causes) = (cookie.peer_tag, new_addresses_cause(&added));
                let refusal = Control::Refuse { tag, tag_reflected: false, causes };
                self.queue(self.reply_path(path), refusal);
                false
            }
            // Action B: both sides started at about the same time.
            (true, false) if self.is_under_way() => {
                mark!(CookieCollision);
                self.adopt(now, cookie, path);
                true
            }
            // This side is established: the INIT arrived while its handshake with the peer's
            // previous incarnation was in progress, and was answered with the same tag. The peer has
            // lost its state since then, or before, if a later cookie arrived first.
            (true, false) if cookie.created >= self.identity.cookie_made => {
                mark!(CookieCollisionLate);
                self.restart(now, cookie, arrived)
            }
            // Action A: the peer restarted.
            (false, false) if ties_match => {
                mark!(CookieRestart);
                self.restart(now, cookie, arrived)
            }
            // req: rfc9260 5.2.4 "SHOULD enter the ESTABLISHED state if it"
            // req: rfc9260 5.2.4 "SHOULD stop any T1-cookie timer that is"
            // Action D: a repetition, or the handshake's last step.
            (true, true) => {
                if self.is_under_way() {
                    mark!(CookieFirst);
                    self.adopt(now, cookie, path);
                } else {
                    mark!(CookieRepeated);
                    self.queue(self.reply_path(path), Control::CookieAck);
                }
                true
            }
            // Action C, and everything that is not in the table.
            // req: rfc9260 5.2.4 "cookie SHOULD be silently"
            // req: rfc9260 5.2.4 "SHOULD NOT change states and SHOULD leave"
            (true, false) | (false, _) => {
                mark!(CookieIgnored);
                false
            }
        }
    }

    /// Whether this side's own handshake is in progress.
    fn is_under_way(&self) -> bool {
        matches!(self.state, State::CookieWait { .. } | State::CookieEchoed { .. })
    }

    /// Adopts the peer's values from a cookie while this side's own handshake is in progress.
    fn adopt(&mut self, now: Instant, cookie: &CookieContents, path: PathId) {
        self.identity.cookie_made = cookie.created;
        self.identity.peer_tag = cookie.peer_tag;
        self.sender.open_window(cookie.peer_rwnd);
        self.agree_on_streams(cookie.outbound_streams);
        self.receiver = Receiver::new(
            tsn::first(cookie.peer_initial_tsn),
            cookie.inbound_streams,
            &self.config.receiving,
            self.config.mtu.max,
        );
        self.agree_on(cookie.features, cookie.vectors.clone());
        self.learn_addresses(now, &cookie.addresses, path);
        self.paths.begin_with(path);
        self.paths[path].proven = true;
        // The peer received the INIT ACK there (section 5.4). An address that had refused this side's INIT is not verified
        // by the user's word.
        if (cookie.local, cookie.remote) == (self.paths[path].local, self.paths[path].remote) {
            self.paths[path].activate();
        }
        self.heed_age(now, cookie, path);
        self.establish(now);
        self.queue(self.reply_path(path), Control::CookieAck);
    }

    /// Handles a restart of the peer, which lost its state and set up the association again; `false` if
    /// it is refused because this side is about to end the association.
    fn restart(
        &mut self,
        now: Instant,
        cookie: &CookieContents,
        arrived: (IpAddr, IpAddr, u16),
    ) -> bool {
        // req: rfc9260 5.2.4 "it MUST NOT set up a new"
        if let State::ShutdownAckSent { .. } = self.state {
            mark!(CookieWhileShuttingDown);
            let mut cause = Vec::new();
            Cause::CookieReceivedWhileShuttingDown.encode(&mut cause);
            let path = self.path_of(arrived.0, arrived.1).unwrap_or(self.paths.active());
            let path = self.reply_path(path);
            self.queue(path, Control::ShutdownAck);
            self.queue(path, Control::Error(cause));
            return false;
        }
        // req: rfc9260 5.2.4 "Any SCTP DATA chunks MAY be retained"
        self.end_reconfiguration();
        self.end_readdressing();
        self.fail_everything();
        self.sender.restart_streams();
        self.identity.cookie_made = cookie.created;
        self.identity.local_tag = cookie.local_tag;
        // req: rfc9260 5.2.4 "MUST update its peer's Verification Tag"
        self.identity.peer_tag = cookie.peer_tag;
        self.agree_on(cookie.features, cookie.vectors.clone());
        self.agree_on_streams(cookie.outbound_streams);
        // An address that the new incarnation does not list may not be the peer's: the host there must
        // not learn the tag.
        let named = |remote: IpAddr| {
            remote == cookie.remote || remote == arrived.1 || cookie.addresses.contains(&remote)
        };
        self.retain_paths(|path| named(path.remote));
        self.identity.changed = true;
        self.ports.challenge_waits = false;
        // Data that was received before can still be read.
        let announced = self.config.receiving.first_receive_buffer();
        self.receiver.restart(
            tsn::first(cookie.peer_initial_tsn),
            cookie.inbound_streams,
            announced,
        );
        self.acknowledger = self.config.acknowledger();
        self.outbox.chunks.clear();
        self.identity.tie_tags = (self.rng.tag(), self.rng.tag());
        let path = self.restart_paths(now, cookie, arrived);
        let setup = self.config.of_path(self.surroundings.headers);
        let first = Tsn(cookie.local_initial_tsn);
        self.sender.restart(now, first, cookie.peer_rwnd, &self.paths, &setup);
        self.renew_reconfiguration();
        self.renew_readdressing();
        self.ending.guard = None;
        self.identity.restarts = self.identity.restarts.wrapping_add(1);
        self.watch = Watch::default();
        self.news.notify(Notification::Restarted {
            outbound_streams: self.outbound_streams(),
            inbound_streams: self.inbound_streams(),
            features: self.features,
        });
        self.heed_age(now, cookie, path);
        self.establish(now);
        self.queue(self.reply_path(path), Control::CookieAck);
        if self.ending.wanted {
            // After the restart the state is ESTABLISHED, but the user still wants a shutdown.
            mark!(ShutdownAfterRestart);
            self.user_shutdown(now);
        }
        true
    }

    /// Resets the remaining paths. Returns the path on which the restart arrived.
    fn restart_paths(
        &mut self,
        now: Instant,
        cookie: &CookieContents,
        arrived: (IpAddr, IpAddr, u16),
    ) -> PathId {
        let path = self.path_of(arrived.0, arrived.1).unwrap_or(self.paths.active());
        let headers = self.surroundings.headers;
        self.paths.begin_with(path);
        self.acknowledger.path = path;
        for id in self.paths.ids_now() {
            let path_state = &mut self.paths[id];
            path_state.restart(now, &self.config.of_path(headers));
            // A confirmation by the old incarnation proves nothing about the new one.
            let confirmed = path_state.local == cookie.local && path_state.remote == cookie.remote;
            if confirmed {
                path_state.activate();
                path_state.proven = true;
                self.paths.begin_with(id);
            }
        }
        let active = self.paths.active();
        if !self.paths[active].is_active() {
            self.paths[path].activate();
            self.paths[path].proven = true;
        }
        // The restart came from the same port as the INIT, or on another path.
        let active = &mut self.paths[active];
        active.remote_udp_port =
            if active.remote == arrived.1 { arrived.2 } else { cookie.remote_udp_port };
        path
    }

    /// The addresses that an INIT would add to this association. Those of an IP version, or with a path number, that no
    /// local address has would not become paths, and they did not when the association began.
    pub(crate) fn new_addresses(&self, listed: &[IpAddr], source: IpAddr) -> Vec<IpAddr> {
        let same_version = |address: IpAddr| {
            self.surroundings.locals.iter().any(|local| local.is_ipv4() == address.is_ipv4())
        };
        let usable = |address: &IpAddr| match self.surroundings.common.routes {
            Routes::Numbered => self.reaches(*address),
            Routes::Any | Routes::Pairs(_) => same_version(*address),
        };
        let listed = listed.iter().copied().filter(usable);
        listed
            .chain(std::iter::once(source))
            .filter(|address| !self.paths.iter().any(|path| path.remote == *address))
            .collect()
    }

    /// Decides how to answer an INIT for this association.
    pub(crate) fn on_init(&mut self, source: (IpAddr, IpAddr), peer: &Peer) -> InitAnswer {
        let path = self.path_of(source.0, source.1).unwrap_or(self.paths.active());
        let added = self.new_addresses(&peer.addresses, source.1);
        match self.state {
            // The INIT ACK goes to the source of the INIT, which the user must know.
            // req: rfc9260 5.2.1 "the following rules MUST be applied"
            // req: rfc9260 5.2.1 "MUST only be sent to an address passed"
            // req: rfc9260 5.2.1 "MUST only be sent to an address reported"
            State::CookieWait { .. } if added.contains(&source.1) => InitAnswer::Discard,
            // req: rfc9260 5.2.1 "MUST respond with an INIT ACK chunk using"
            // req: rfc9260 5.2.1 "MUST also generate a State Cookie with"
            // req: rfc9260 5.2.1 "MUST NOT change its state, the T1-init timer"
            // req: rfc9260 5.2.1 "T1-init timer MUST be left running"
            State::CookieWait { .. } => InitAnswer::Collision {
                tag: self.identity.local_tag,
                initial_tsn: self.sender.initial_tsn(),
                tie_tags: (0, 0),
                vector: self.own_vector().cloned(),
                remotes: self.remotes().collect(),
            },
            // req: rfc9260 9.2 "it SHOULD discard the"
            State::ShutdownAckSent { .. } => {
                mark!(InitWhileShuttingDown);
                self.queue(self.reply_path(path), Control::ShutdownAck);
                InitAnswer::Discard
            }
            State::Closed => InitAnswer::Discard,
            // A late copy of the INIT that began the association lists addresses that the peer has removed since.
            _ if peer.tag == self.identity.peer_tag && self.readdressing.is_some() => {
                InitAnswer::Discard
            }
            // req: rfc9260 5.2.2 "the endpoint MUST respond"
            // req: rfc9260 5.2.2 "MUST check to see if the unexpected"
            // req: rfc9260 5.2.1 "then the entire INIT chunk MUST be discarded"
            // req: rfc9260 5.2.1 "An ABORT chunk SHOULD be sent in"
            _ if !added.is_empty() => {
                if self.is_under_way() {
                    self.identity.refused_tag = peer.tag;
                }
                InitAnswer::NewAddresses(added)
            }
            // req: rfc9260 5.2.1 "MUST populate its Tie-Tags within both the"
            // req: rfc9260 5.2.1 "COOKIE-ECHOED state, an endpoint MUST respond"
            State::CookieEchoed { .. } => InitAnswer::Collision {
                tag: self.identity.local_tag,
                initial_tsn: self.sender.initial_tsn(),
                tie_tags: self.identity.tie_tags,
                vector: self.own_vector().cloned(),
                remotes: self.remotes().collect(),
            },
            // req: rfc9260 5.2.2 "MUST generate an INIT ACK chunk with"
            // req: rfc9260 5.2.2 "MUST copy its current Tie-Tags to a"
            // req: rfc9260 5.2.2 "the corresponding TCB MUST NOT be changed"
            // req: rfc9260 5.2.2 "the endpoint MUST take no further actions"
            _ => InitAnswer::Restart { tie_tags: self.identity.tie_tags },
        }
    }
}

/// The answer to an INIT for an existing association.
#[derive(Debug)]
pub(crate) enum InitAnswer {
    /// An INIT ACK with the tag and TSN of this side's own INIT (section 5.2.1).
    Collision {
        tag: u32,
        initial_tsn: Tsn,
        tie_tags: (u32, u32),
        /// What this side's own INIT says of authentication.
        vector: Option<KeyVector>,
        /// Addresses that this side's INIT was for; the answer lists the same local addresses.
        remotes: Vec<IpAddr>,
    },
    /// An INIT ACK with a new tag, and the tie-tags in the cookie (section 5.2.2).
    Restart {
        tie_tags: (u32, u32),
    },
    /// An ABORT that lists these addresses.
    NewAddresses(Vec<IpAddr>),
    Discard,
}
