//! Sets up an association (RFC 9260 section 5.1). The stateless part of the answering side is in
//! `endpoint`.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use anabranch_wire::{Cause, Init, Parameter, Tsn, parameter_kind};

use super::peer::{Peer, Refusal, init_value};
use super::progress::{Account, Progress};
use super::rebinding::Ports;
use super::shutdown::Ending;
use super::state::{Echo, Repeat, State};
use super::timestamp::Timestamps;
use super::{Association, Authentication, Control, Identity, News, Outbox, Surroundings, Watch};
use crate::authentication::KeyVectors;
use crate::config::AssociationConfig;
use crate::cookie::CookieContents;
use crate::event::{CloseReason, Notification};
use crate::features::Features;
use crate::marks::mark;
use crate::path::{Path, Paths, Phase};
use crate::per_path::{MAX_PATHS, PathId};
use crate::policy::{self, InitiationOrder};
use crate::receive::Receiver;
use crate::rng::Rng;
use crate::sender::Sender;
use crate::stats::AssociationCounters;
use crate::tag_mark;
use crate::time::Instant;
use crate::tsn;

/// Number of Stale Cookie errors after which the handshake is given up.
const MAX_STALE: u32 = 4;
/// Length of an ABORT whose cause has no value.
const ABORT_LEN: usize = 8;

/// The paths to `remotes`: first the best pair of addresses for each, so that the low numbers are the paths in
/// use, then the other pairs.
pub(super) fn paths_to(
    now: Instant,
    remotes: &[IpAddr],
    first: Option<(IpAddr, IpAddr)>,
    udp_port: u16,
    config: &AssociationConfig,
    surroundings: &Surroundings,
) -> Vec<Path> {
    let setup = config.of_path(surroundings.headers);
    let new = |local, remote| Path::new(now, local, remote, udp_port, &setup);
    let reaches =
        |local: &IpAddr, remote: &IpAddr| surroundings.common.routes.reaches(*local, *remote);
    let mut paths: Vec<Path> =
        first.map(|(local, remote)| new(local, remote)).into_iter().collect();
    let has = |paths: &[Path], local: IpAddr, remote: IpAddr| {
        paths.iter().any(|path| path.local == local && path.remote == remote)
    };
    for remote in remotes {
        if paths.iter().any(|path| path.remote == *remote) {
            continue;
        }
        let best = (surroundings.locals.iter())
            .filter(|local| reaches(local, remote))
            .map(|local| new(*local, *remote))
            .enumerate()
            .min_by_key(|(order, path)| {
                let used = paths.iter().filter(|other| other.local == path.local).count();
                (u32::MAX - policy::nearness(path), used, *order)
            });
        paths.extend(best.map(|(_, path)| path));
    }
    for remote in remotes {
        for local in surroundings.locals.iter() {
            // req: rfc9260 5.1.2 "MUST use all the addresses belonging to"
            if reaches(local, remote) && !has(&paths, *local, *remote) {
                paths.push(new(*local, *remote));
            }
        }
    }
    paths.truncate(MAX_PATHS);
    paths.shrink_to_fit();
    paths
}

/// The parameters for starting an association from this side.
#[derive(Debug)]
pub(crate) struct Initiation {
    pub(crate) local_port: u16,
    pub(crate) remote_port: u16,
    pub(crate) remotes: Vec<IpAddr>,
    pub(crate) udp_port: u16,
    pub(crate) config: Arc<AssociationConfig>,
}

impl Association {
    #[allow(clippy::too_many_arguments)]
    fn fresh(
        now: Instant,
        ports: (u16, u16),
        tags: (u32, u32),
        initial_tsn: Tsn,
        (peer_initial_tsn, inbound_streams): (u32, u16),
        paths: Vec<Path>,
        config: Arc<AssociationConfig>,
        surroundings: Surroundings,
        mut rng: Rng,
    ) -> Self {
        // req: rfc9260 5.1 "MUST set its internal Cumulative TSN Ack"
        let mut sender = Sender::new(Arc::clone(&config), initial_tsn);
        let paths = Paths::new(paths);
        sender.add_lanes(now, &paths, &config.of_path(surroundings.headers));
        Self {
            identity: Identity {
                local_port: ports.0,
                remote_port: ports.1,
                local_tag: tags.0,
                peer_tag: tags.1,
                tie_tags: (rng.tag(), rng.tag()),
                cookie_made: Instant::ZERO,
                refused_tag: 0,
                incoming: false,
                changed: true,
                restarts: 0,
            },
            state: State::Closed,
            features: Features::NONE,
            paths,
            watch: Watch::default(),
            sender,
            receiver: Receiver::new(
                tsn::first(peer_initial_tsn),
                inbound_streams,
                &config.receiving,
                config.mtu.max,
            ),
            acknowledger: config.acknowledger(),
            timestamps: Timestamps::default(),
            authentication: None,
            reconfiguration: None,
            readdressing: None,
            outbox: Outbox::default(),
            news: News::new(),
            ending: Ending::default(),
            progress: Progress::new(now),
            account: Account::default(),
            ports: Ports::default(),
            rng,
            counts: AssociationCounters::default(),
            config,
            surroundings,
        }
    }

    /// Starts an association: the first INIT is queued. `None` if no local address reaches any
    /// of the remote ones.
    pub(crate) fn initiate(
        now: Instant,
        initiation: Initiation,
        surroundings: Surroundings,
        mut rng: Rng,
    ) -> Option<Self> {
        let Initiation { local_port, remote_port, remotes, udp_port, config } = initiation;
        let mut paths = paths_to(now, &remotes, None, udp_port, &config, &surroundings);
        if paths.is_empty() {
            return None;
        }
        // RFC 9260 section 5.4, rule 1: the user vouches for these addresses.
        for path in &mut paths {
            path.activate();
        }
        // req: rfc9260 3.3.2 "The value of 0 MUST NOT be used"
        // req: rfc9260 5.3.1 "A new Verification Tag value MUST be"
        // req: rfc9260 5 "MUST complete an initialization process in order"
        let tag = tag_mark::draw(surroundings.common.tag_mark, &mut rng, remote_port, local_port);
        let initial_tsn = Tsn(surroundings.initial_tsn.unwrap_or(rng.next_u32()));
        let ports = (local_port, remote_port);
        let mut association = Self::fresh(
            now,
            ports,
            (tag, 0),
            initial_tsn,
            (0, 0),
            paths,
            config,
            surroundings,
            rng,
        );
        if association.config.features().has(Features::AUTHENTICATION) {
            let state = Authentication::new(&association.config, &mut association.rng);
            association.authentication = Some(Box::new(state));
        }
        association.enter_cookie_wait(now, None, 0);
        Some(association)
    }

    fn enter_cookie_wait(&mut self, now: Instant, preserve: Option<u32>, stale: u32) {
        let t1 = Repeat::new(now, self.config.timers.rto_initial, self.paths.active());
        self.state = State::CookieWait { t1, preserve, stale };
        self.queue_inits();
    }

    /// Queues INIT for the next candidate address, or for all (caro 6.3.2).
    fn queue_inits(&mut self) {
        match self.config.paths.initiation {
            InitiationOrder::Sequential => self.queue(self.paths.active(), Control::Init),
            InitiationOrder::Parallel => {
                mark!(ParallelInit);
                let mut asked: Vec<IpAddr> = Vec::new();
                for id in self.paths.ids_now() {
                    let remote = self.paths[id].remote;
                    if !asked.contains(&remote) {
                        asked.push(remote);
                        self.queue(id, Control::Init);
                    }
                }
            }
        }
    }

    /// Handles a refusal by a candidate address. Tries the others, which may belong to other hosts; `false` if
    /// none is left.
    pub(super) fn drop_candidate(&mut self, now: Instant, path: PathId) -> bool {
        let State::CookieWait { t1, .. } = &mut self.state else { return false };
        let refused = self.paths[path].remote;
        if self.paths.iter().all(|path| path.remote == refused) {
            return false;
        }
        mark!(CandidateDropped);
        // The next address to try, if the INIT was sent to this one.
        let turn = t1.path;
        let was_turn = self.paths[turn].remote == refused;
        let next = match was_turn {
            true => self.paths.in_turn_after(turn).find(|path| self.paths[*path].remote != refused),
            false => Some(turn),
        };
        let Some(next) = next else { return false };
        self.paths.activate(next);
        self.retain_paths(|path| path.remote != refused);
        self.outbox.chunks.clear();
        // After a collision of INIT chunks, the host there may have begun a handshake itself and given it up as
        // well. If its cookie still arrives, that is not a restart.
        self.identity.cookie_made = now;
        if let State::CookieWait { t1, .. } = &mut self.state {
            t1.path = next;
            if was_turn && self.config.paths.initiation == InitiationOrder::Sequential {
                t1.deadline = now + t1.interval;
                self.queue_inits();
            }
        }
        true
    }

    /// The value of the INIT chunk, the same for each repetition.
    pub(super) fn init_chunk_value(&self) -> Vec<u8> {
        let remotes: Vec<IpAddr> = self.remotes().collect();
        let preserve = match &self.state {
            State::CookieWait { preserve, .. } => *preserve,
            _ => None,
        };
        init_value(
            self.identity.local_tag,
            self.sender.initial_tsn(),
            (self.config.sending.outbound_streams, self.config.receiving.inbound_streams),
            &self.config,
            &self.surroundings,
            &remotes,
            |value| {
                if let Some(vector) = self.own_vector() {
                    vector.write(value);
                }
                if let Some(millis) = preserve {
                    Parameter::CookiePreservative(millis).encode(value);
                }
            },
        )
    }

    /// Handles an INIT ACK.
    pub(super) fn on_init_ack(&mut self, now: Instant, init: &Init<'_>, path: PathId) {
        // req: rfc9260 5.2.3 "the endpoint SHOULD discard the INIT ACK"
        // req: rfc9260 3.3.3 "it SHOULD be discarded silently"
        // req: rfc9260 3.3.3 "the receiver SHOULD process the INIT ACK chunk"
        let State::CookieWait { t1, stale, .. } = self.state else { return };
        let source = self.paths[path].remote;
        if self.refuses_init_ack(init, path) {
            return;
        }
        let read = Peer::read(init, source);
        let mut peer = match read.and_then(|peer| peer.refusal(&self.config).map_or(Ok(peer), Err))
        {
            Ok(peer) => peer,
            Err(Refusal { cause, why }) => {
                self.identity.peer_tag = init.initiate_tag;
                self.abort_with(path, cause, CloseReason::HandshakeFailed(why));
                return;
            }
        };
        let given: Vec<IpAddr> = self.remotes().collect();
        peer.vouch(&given);
        // req: rfc9260 3.3.3 "MUST be prepared to receive an INIT ACK"
        let Some(cookie) = peer.cookie.take() else {
            self.identity.peer_tag = peer.tag;
            let mut cause = Vec::new();
            let missing = parameter_kind::STATE_COOKIE.to_be_bytes();
            let list = anabranch_wire::U16List::new(&missing);
            Cause::MissingMandatoryParameter(list).encode(&mut cause);
            self.abort_with(path, cause, CloseReason::HandshakeFailed("no State Cookie"));
            return;
        };
        self.identity.peer_tag = peer.tag;
        self.sender.open_window(peer.rwnd);
        // req: rfc9260 5.1.1 "the endpoint MUST use MIS outbound streams"
        // req: rfc9260 5.1.1 "outbound stream identifier range for either endpoint MUST"
        let outbound = self.config.sending.outbound_streams.min(peer.inbound_streams);
        self.agree_on_streams(outbound);
        let inbound = self.config.receiving.inbound_streams.min(peer.outbound_streams);
        self.receiver = Receiver::new(
            tsn::first(peer.initial_tsn),
            inbound,
            &self.config.receiving,
            self.config.mtu.max,
        );
        let features = peer.agree(&self.config);
        let vectors = self.own_vector().cloned().zip(peer.offer.vector());
        self.agree_on(features, vectors.map(|(own, peer)| KeyVectors { own, peer }));
        self.learn_addresses(now, &peer.addresses, path);
        self.news.adaptation = peer.adaptation;
        // The peer answered here, with this side's tag, so continue on this path, even if the user did
        // not pass this address.
        self.paths[path].activate();
        self.paths.begin_with(path);
        if t1.count > 0 {
            self.start_slowly(path);
        }
        let rto = self.paths[path].rtt.rto();
        self.outbox.chunks.clear();
        // req: rfc9260 5.1.4 "MUST immediately send a COOKIE ECHO chunk"
        // req: rfc9260 5.1.4 "MUST also start the T1-cookie timer"
        self.queue(path, Control::CookieEcho);
        self.state = State::CookieEchoed {
            t1: Repeat::expecting(now, rto, self.config.timers.rto_initial, path),
            echo: Box::new(Echo {
                cookie,
                unrecognized: peer.unrecognized_cause(),
                sent_at: now,
                stale,
            }),
        };
    }

    /// Answers an INIT ACK with invalid values with an ABORT. Returns whether it was invalid.
    fn refuses_init_ack(&mut self, init: &Init<'_>, path: PathId) -> bool {
        let refuse = |tag, tag_reflected| {
            let mut causes = Vec::new();
            Cause::InvalidMandatoryParameter.encode(&mut causes);
            Control::Refuse { tag, tag_reflected, causes }
        };
        // req: rfc9260 3.3.3 "chunk with the Initiate Tag set to 0"
        if init.initiate_tag == 0 {
            self.outbox.chunks.clear();
            // The tag of the packet with the INIT ACK, which was this side's.
            // req: rfc9260 3.3.3 "send an ABORT chunk with the T bit"
            self.queue(path, refuse(self.identity.local_tag, true));
            self.close(CloseReason::HandshakeFailed("the peer chose verification tag 0"));
            return true;
        }
        // req: rfc9260 3.3.3 "smaller than 1500 MUST discard the packet"
        // req: rfc9260 3.3.3 "packet in response containing an ABORT"
        // req: rfc9260 3.3.3 "MUST NOT change the state of any existing"
        if init.a_rwnd < 1500 {
            self.answer(path, refuse(init.initiate_tag, false), ABORT_LEN);
            return true;
        }
        false
    }

    /// Sets the peer's addresses: those that it lists, and the source address of its packet, on
    /// `path`.
    pub(super) fn learn_addresses(&mut self, now: Instant, listed: &[IpAddr], path: PathId) {
        let (local, source) = (self.paths[path].local, self.paths[path].remote);
        let udp_port = self.paths[path].remote_udp_port;
        // req: rfc9260 3.3.3 "MUST use the source address associated with"
        // req: rfc9260 5.1.2 "MUST take the source IP address from"
        // req: rfc9260 5.1.2 "MUST derive and record all the transport"
        let mut remotes = vec![source];
        remotes.extend(listed.iter().copied().filter(|address| *address != source));
        let wanted = paths_to(
            now,
            &remotes,
            Some((local, source)),
            udp_port,
            &self.config,
            &self.surroundings,
        );
        for new in wanted {
            let known = |path: &Path| path.local == new.local && path.remote == new.remote;
            if !self.paths.iter().any(known) {
                self.paths.push(new);
            }
        }
        // Addresses that the user passed and the peer does not have may belong to another host.
        // req: rfc9260 5.1.2 "The receiver SHOULD use only these transport"
        self.retain_paths(|path| remotes.contains(&path.remote));
        self.paths.shrink_to_fit();
        self.keep_in_mind(listed);
        self.add_lanes(now);
        self.identity.changed = true;
    }

    /// Sets the number of streams that the peer accepts. Messages for other streams are returned.
    // req: rfc9260 6.5 "Every DATA chunk MUST carry a valid stream"
    pub(super) fn agree_on_streams(&mut self, outbound: u16) {
        for message in self.sender.agree_on_streams(outbound) {
            mark!(StreamRefused);
            self.fail_queued(message);
        }
    }

    /// Enables the features that both sides support and want. The notification that the association is up names them.
    // req: rfc3758 3.3.2 "SHOULD record the fact that the peer does not support"
    // req: rfc3758 3.3.3 "the local endpoint SHOULD inform its upper layer of"
    // req: rfc3758 3.3.3 "SHOULD note that the FORWARD TSN chunk is not supported"
    // req: rfc3758 3.3.3 "MUST NOT transmit a FORWARD TSN chunk at any time"
    // exempt: rfc3758 3.3.3 "the endpoint MUST just mark the association as" a peer that does not know the parameter does not send it either, so nothing was agreed on
    pub(super) fn agree_on(&mut self, features: Features, vectors: Option<KeyVectors>) {
        self.features = features;
        self.agree_on_keys(vectors);
        self.timestamps = Timestamps::new(features.has(Features::TIMESTAMPS));
        let may_skip = features.has(Features::PARTIAL_RELIABILITY);
        self.sender.allow_skipping(may_skip);
        self.receiver.allow_skipping(may_skip);
        self.sender.set_ecn(features.has(Features::ECN));
        let interleaving = features.has(Features::INTERLEAVING);
        self.sender.set_interleaving(interleaving);
        self.receiver.set_interleaving(interleaving);
    }

    /// Ends this association without an ABORT, because another one turns out to have the same peer, for which
    /// there is only one association.
    pub(crate) fn give_way(&mut self) {
        mark!(SharedPeer);
        self.outbox.chunks.clear();
        self.close(CloseReason::HandshakeFailed("there is an association with this peer"));
    }

    /// Handles a COOKIE ACK.
    pub(super) fn on_cookie_ack(&mut self, now: Instant) {
        // req: rfc9260 5.2.5 "an endpoint SHOULD silently"
        let State::CookieEchoed { t1, echo } = &self.state else { return };
        // The incarnation that answers this side's COOKIE ECHO existed when that was sent, so an older cookie
        // belongs to an earlier incarnation of the peer.
        self.identity.cookie_made = self.identity.cookie_made.max(echo.sent_at);
        // The handshake measures the RTT, unless a packet was repeated (Karn).
        self.paths[t1.path].proven = true;
        let (path, repeated) = (t1.path, t1.count > 0);
        if repeated {
            self.start_slowly(path);
        } else {
            let rtt = now.saturating_since(echo.sent_at);
            self.paths[path].rtt.on_measurement(rtt);
        }
        self.establish(now);
    }

    /// Prepares for a long RTT: a handshake packet that was retransmitted on `path` may have been late, not lost.
    fn start_slowly(&mut self, path: PathId) {
        if let Some(rto) = self.config.timers.rto_slow_handshake {
            self.paths[path].rtt.start_slowly(rto);
        }
    }

    /// Uses the age of the cookie in a COOKIE ECHO that arrived on `path`. The age is a round trip, or more if the
    /// COOKIE ECHO was repeated, so it is not a measurement. But if it exceeds RTO.Initial, the peer probably
    /// repeated it.
    pub(super) fn heed_age(&mut self, now: Instant, cookie: &CookieContents, path: PathId) {
        if now.saturating_since(cookie.created) > self.config.timers.rto_initial {
            self.start_slowly(path);
        }
    }

    /// Enters ESTABLISHED and notifies the user.
    pub(super) fn establish(&mut self, now: Instant) {
        let was_up = self.is_established();
        self.state = State::Established;
        self.watch.error_count = 0;
        self.paths.choose(Phase::Primary, self.paths.primary());
        self.reserve_timestamps(now);
        self.reserve_authentication(now);
        self.progress.last_user_data = now;
        self.outbox
            .chunks
            .retain(|(_, control)| !matches!(control, Control::Init | Control::CookieEcho));
        if !was_up {
            self.news.notify(Notification::Up {
                incoming: self.identity.incoming,
                outbound_streams: self.outbound_streams(),
                inbound_streams: self.inbound_streams(),
                features: self.features,
            });
            if let Some(value) = self.news.adaptation.take() {
                self.news.notify(Notification::AdaptationIndication(value));
            }
        }
        self.sender.begin_burst();
        self.start_supervision(now);
    }

    /// Handles a Stale Cookie error; `staleness` is in microseconds.
    pub(super) fn on_stale_cookie(&mut self, now: Instant, staleness: u32) {
        // req: rfc9260 5.2.6 "if the association is not in the COOKIE-ECHOED"
        // req: rfc9260 5.2.6 "SHOULD first examine if an association is"
        let State::CookieEchoed { echo, .. } = &self.state else { return };
        let (rtt, stale) = (now.saturating_since(echo.sent_at), echo.stale + 1);
        if stale > MAX_STALE {
            self.close(CloseReason::HandshakeFailed("the peer holds every cookie for stale"));
            return;
        }
        // req: rfc9260 5.2.6 "SHOULD add no"
        let extension =
            rtt + Duration::from_micros(u64::from(staleness)).min(Duration::from_secs(1));
        let millis = u32::try_from(extension.as_millis()).unwrap_or(u32::MAX).max(1);
        self.outbox.chunks.clear();
        mark!(StaleCookieRetry);
        self.enter_cookie_wait(now, Some(millis), stale);
    }

    /// Handles the expiry of T1-init or T1-cookie.
    pub(super) fn on_t1(&mut self, now: Instant) {
        let next =
            policy::alternate(&self.paths, self.paths.active()).unwrap_or(self.paths.active());
        let (t1, control) = match &mut self.state {
            State::CookieWait { t1, .. } => (t1, Control::Init),
            State::CookieEchoed { t1, .. } => (t1, Control::CookieEcho),
            _ => return,
        };
        // req: rfc9260 4 "This MUST be repeated up to 'Max.Init.Retransmits'"
        // req: rfc9260 4 "MUST abort the initialization process and report"
        if t1.count >= self.config.paths.max_init_retransmits {
            mark!(InitGivenUp);
            self.close(CloseReason::ConnectTimeout);
            return;
        }
        // req: rfc9260 4 "MUST retransmit the INIT chunk and restart"
        // req: rfc9260 4 "MUST retransmit COOKIE ECHO chunk and restart"
        // req: rfc9260 5.1.4 "MUST retransmit the COOKIE ECHO chunk and"
        // req: rfc9260 5.1.6 "MUST follow the rules defined in Section"
        // req: rfc9260 5.1 "SHOULD use all addresses of the peer similar"
        t1.again(now, self.config.timers.rto_max, next);
        let resent = &mut self.counts.handshake_retransmissions;
        *resent = resent.saturating_add(1);
        self.paths.activate(next);
        self.outbox
            .chunks
            .retain(|(_, queued)| !matches!(queued, Control::Init | Control::CookieEcho));
        match control {
            Control::Init => {
                mark!(InitRetransmitted);
                self.queue_inits();
            }
            other => {
                mark!(CookieEchoRetransmitted);
                self.queue(next, other);
            }
        }
    }

    /// Creates the association that a State Cookie describes (RFC 9260 section 5.1.5).
    pub(crate) fn from_cookie(
        now: Instant,
        cookie: &CookieContents,
        arrived: (IpAddr, IpAddr, u16),
        config: Arc<AssociationConfig>,
        surroundings: Surroundings,
        rng: Rng,
    ) -> Self {
        let (local, source, udp_port) = arrived;
        let confirmed = (cookie.local, cookie.remote);
        // req: rfc9260 3.3.2.1.2 "MUST use the source address associated with"
        let mut remotes = vec![cookie.remote];
        remotes.extend(&cookie.addresses);
        if !remotes.contains(&source) {
            remotes.push(source);
        }
        remotes.dedup();
        let elsewhere = source != cookie.remote;
        let confirmed_port = if elsewhere { cookie.remote_udp_port } else { udp_port };
        let mut paths =
            paths_to(now, &remotes, Some(confirmed), confirmed_port, &config, &surroundings);
        // RFC 9260 section 5.4: the address that the COOKIE ECHO proves is confirmed.
        paths[0].activate();
        paths[0].proven = true;
        for path in paths.iter_mut().filter(|path| elsewhere && path.remote == source) {
            path.remote_udp_port = udp_port;
        }
        let mut association = Self::fresh(
            now,
            (cookie.local_port, cookie.remote_port),
            (cookie.local_tag, cookie.peer_tag),
            Tsn(cookie.local_initial_tsn),
            (cookie.peer_initial_tsn, cookie.inbound_streams),
            paths,
            config,
            surroundings,
            rng,
        );
        association.identity.incoming = true;
        association.sender.open_window(cookie.peer_rwnd);
        association.agree_on(cookie.features, cookie.vectors.clone());
        association.agree_on_streams(cookie.outbound_streams);
        association.news.adaptation = cookie.adaptation_indication;
        let path = association.path_of(local, source).unwrap_or(PathId::FIRST);
        association.heed_age(now, cookie, path);
        association.establish(now);
        let path = association.reply_path(path);
        association.queue(path, Control::CookieAck);
        association
    }
}
