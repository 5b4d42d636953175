//! One run.

mod actions;
mod byte_streams;
mod judge;
mod rude;
mod setup;
mod stranger;
mod users;

use std::collections::VecDeque;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;
use std::time::Duration;

use anabranch_proto::byte_mode::{BYTES, MARK, SIGNAL};
use anabranch_proto::{AssociationId, CloseReason, Event, Instant, Notification};
use anabranch_testnet::Network;

use self::actions::Action;
use self::byte_streams::ByteUser;
use crate::Report;
use crate::options::{Draw, Options, Reader, Traffic};
use crate::oracle::Oracle;
use crate::sealed::SealedPaths;

/// SCTP ports of node 0 and node 1.
const PORTS: [u16; 2] = [5000, 7];

/// Address of a third host, which the nodes may not know.
fn elsewhere(like: IpAddr) -> IpAddr {
    match like {
        IpAddr::V4(_) => Ipv4Addr::new(10, 200, 0, 9).into(),
        IpAddr::V6(_) => Ipv6Addr::new(0x2001, 0xdb8, 200, 0, 0, 0, 0, 9).into(),
    }
}

/// Virtual time within which everything must have ended after the network is healthy.
const PATIENCE: Duration = Duration::from_secs(20_000);

/// Virtual time without events of endpoints after which no seal causes one.
const SILENCE: Duration = Duration::from_secs(60);

/// Virtual time after which a sealed server has forgotten a silent client.
const GUEST_LIFE: Duration = Duration::from_secs(20 * 60);

/// Maximum number of steps in a run; the longest of 3,000 runs needs 190,800.
const STEPS: u64 = 2_000_000;

/// One end of an association, as its node's user sees it.
#[derive(Debug)]
struct End {
    id: AssociationId,
    /// Whether its node started it.
    own: bool,
    up: bool,
    streams: u16,
    closed: Option<(CloseReason, Instant)>,
    shut: Option<Instant>,
    reading: bool,
    /// Whether a send was refused for lack of room, and no event has reported room since.
    waits: bool,
}

#[derive(Debug)]
struct User {
    ends: Vec<End>,
    draw: Draw,
    traffic: Traffic,
    reader: Reader,
    next_send: Option<Instant>,
    next_read: Option<Instant>,
    /// Data that was read and whose buffer space was not returned yet: association and charge.
    kept: Vec<(AssociationId, u32)>,
    messages: u32,
    bytes: usize,
}

struct Run {
    options: Options,
    net: Network,
    /// Addresses of both nodes as their endpoints see them, one for each path.
    addresses: [Vec<IpAddr>; 2],
    sealed: Option<SealedPaths>,
    oracle: Oracle,
    users: [User; 2],
    byte_users: Option<[ByteUser; 2]>,
    report: Report,
    actions: VecDeque<(Instant, Action)>,
    rebooted: bool,
    aborted: bool,
    healthy: Option<Instant>,
    stranger: Draw,
    steps: u64,
}

/// Executes a run with `options`. `print` prints every packet and event.
///
/// # Panics
/// Panics if a check is violated.
pub fn run(options: Options, print: bool) -> Report {
    let mut run = Run::new(options, print);
    run.faults();
    run.recover();
    run.end();
    run.sum_up()
}

impl Run {
    fn listen(&mut self, node: usize) {
        let config = Arc::new(self.options.configs[node].clone());
        let endpoint = &mut self.net.node_mut(node).endpoint;
        endpoint.listen(PORTS[node], config).expect("a valid configuration");
    }

    /// Executes the first phase.
    fn faults(&mut self) {
        let end = self.net.now() + self.options.faults;
        self.advance(end, |_| false);
    }

    /// Executes the second phase: the network is healthy, and everything is delivered.
    fn recover(&mut self) {
        let now = self.net.now();
        self.healthy = Some(now);
        self.net.trace.note(now, format_args!("the network is healthy"));
        self.net.lateness = Duration::ZERO;
        self.net.send_errors = anabranch_impair::Probability::ZERO;
        self.net.unreachable = anabranch_impair::Probability::ZERO;
        // Crossed paths that do not exist stay unreachable.
        let delay = Duration::from_millis(10);
        for ((a, b), _) in self.options.links.clone() {
            for (from, to) in [(a, b), (b, a)] {
                self.net.set_link(from, to, anabranch_impair::LinkConfig::new().delay(delay));
                self.net.set_mtu(from, to, None);
                self.net.set_swallows_ecn(from, to, false);
            }
        }
        let gone: Vec<_> =
            (self.options.vanishing.iter()).map(|(node, address, ..)| (*node, *address)).collect();
        self.actions.retain(|(_, action)| !matches!(action, Action::Address(..)));
        gone.into_iter().for_each(|(node, address)| self.address(node, address, true));
        for user in &mut self.users {
            user.reader = Reader::Eager;
            user.next_read = None;
            user.next_send = None;
        }
        for node in 0..2 {
            self.read(node, u32::MAX);
        }
        self.end_byte_streams(false);
        let limit = now + PATIENCE;
        let apart = self.byte_users.is_some() && self.unread_is_little();
        if apart && !self.advance(limit, |run| run.is_delivered() && run.byte_streams_are_done()) {
            judge::lost(format_args!("held up by what is not read: {}", self.what_is_left()));
        }
        self.end_byte_streams(true);
        let done = self.advance(limit, |run| run.is_delivered() && run.byte_streams_are_done());
        if !done {
            judge::lost(format_args!("not everything was delivered: {}", self.what_is_left()));
        }
        self.nobody_waits();
        self.count_byte_streams();
    }

    /// Checks that every refused user has been notified of room after everything was delivered.
    fn nobody_waits(&self) {
        for node in 0..2 {
            for end in self.users[node].ends.iter().filter(|end| end.waits && end.closed.is_none())
            {
                let endpoint = &self.net.node(node).endpoint;
                // A chunk of a message that was given up takes room until the peer has skipped it.
                let outstanding = endpoint.association(end.id).map_or(0, |association| {
                    association.pending_bytes() + association.statistics().outstanding_chunks
                });
                assert!(outstanding > 0, "node {node} waits for room that there is: {:?}", end.id);
            }
        }
    }

    /// Shuts everything down and checks that all timers end.
    fn end(&mut self) {
        let now = self.net.now();
        let which = self.users[0].draw.between(1, 3);
        for node in 0..2 {
            if which & (1 << node) != 0 || self.open(1 - node).is_empty() {
                self.shutdown(node);
            }
        }
        let mut limit = now + Duration::from_secs(1000);
        let one = self.advance(limit, |run| run.all_closed());
        if !one {
            // A user that asked for an end gets one, whatever happens to the peer.
            limit = self.net.now() + PATIENCE;
            let wanted = self.advance(limit, |run| run.all_wanted_closed());
            assert!(wanted, "an end that was asked for: {}", self.what_is_left());
            // One end may not know that the other has ended; it learns that when it shuts down.
            (0..2).for_each(|node| self.shutdown(node));
            limit = self.net.now() + PATIENCE;
            let both = self.advance(limit, |run| run.all_closed());
            assert!(both, "not closed: {}", self.what_is_left());
        }
        self.judge();
        for node in 0..2 {
            let ids: Vec<_> = self.net.node(node).endpoint.associations().collect();
            for id in ids {
                let association = self.net.node(node).endpoint.association(id);
                let used = association.map(|a| a.statistics().receive_buffer_used);
                // An end that was aborted may hold parts of messages.
                let graceful = self.users[node].ends.iter().any(|end| {
                    let shut = matches!(&end.closed, Some((CloseReason::Shutdown, _)));
                    end.id == id && shut
                });
                assert!(!graceful || used == Some(0), "node {node} holds {used:?} at the end");
                self.net.node_mut(node).endpoint.remove(id);
            }
        }
        // A cookie in flight may have created an association that its peer does not know. The peer
        // may not answer packets out of the blue either.
        self.wait_for_silence();
        for node in 0..2 {
            // Without heartbeats the end never learns of that, and may keep searching for its path
            // MTU.
            let endpoint = &mut self.net.node_mut(node).endpoint;
            let ids: Vec<_> = endpoint.associations().collect();
            for id in ids {
                let association = endpoint.association(id);
                if association.is_some_and(|a| a.config().timers.heartbeat_interval.is_none()) {
                    endpoint.remove(id);
                }
            }
        }
        self.wait_for_silence();
        assert_eq!(self.net.next_of_endpoints(), None, "a timer runs forever");
        if let Some(sealed) = &self.sealed {
            // A server forgets a client that is gone.
            sealed.close_client();
            let limit = self.net.now() + GUEST_LIFE;
            while self.step(limit) {}
        }
        assert_eq!(self.net.next(), None, "a timer runs forever");
    }

    /// Runs until there are no more events, or the time is up. Seals keep their paths open, so with them it is silent when
    /// the endpoints are.
    fn wait_for_silence(&mut self) {
        let limit = self.net.now() + PATIENCE;
        let mut since: Option<Instant> = None;
        while self.step(limit) {
            if self.sealed.is_none() {
                continue;
            }
            let now = self.net.now();
            since = match self.net.next_of_endpoints() {
                Some(_) => None,
                None => since.or(Some(now)),
            };
            if since.is_some_and(|since| now >= since + SILENCE) {
                break;
            }
        }
    }

    /// Advances to the next event, but not beyond `limit`.
    fn step(&mut self, limit: Instant) -> bool {
        self.steps += 1;
        assert!(self.steps < STEPS, "a run without end, at {:?}", self.net.now());
        self.net.step(limit)
    }

    /// Runs until `done`. Returns false if it was not done by `limit`.
    fn advance(&mut self, limit: Instant, mut done: impl FnMut(&Self) -> bool) -> bool {
        loop {
            self.net.settle();
            self.events();
            self.users_turn();
            if done(self) {
                return true;
            }
            let user = |user: &User| [user.next_send, user.next_read].into_iter().flatten().min();
            let wakes = self.users.iter().filter_map(user);
            let wakes = wakes.chain(self.byte_users.iter().flatten().filter_map(|user| user.next));
            let action = self.actions.front().map(|(at, _)| *at);
            let wake = wakes.chain(action).min().unwrap_or(limit).min(limit);
            let more = self.step(wake);
            if !more && wake >= limit {
                self.events();
                return done(self);
            }
        }
    }

    /// Performs the actions of the users and the script that are due.
    fn users_turn(&mut self) {
        let now = self.net.now();
        while self.actions.front().is_some_and(|(at, _)| *at <= now) {
            if let Some((_, action)) = self.actions.pop_front() {
                self.act(action);
            }
        }
        for node in 0..2 {
            let user = &mut self.users[node];
            if user.next_read.is_some_and(|at| at <= now)
                && let Reader::Slow { count, every } = user.reader
            {
                user.next_read = Some(now + every);
                self.give_back(node);
                self.read(node, count);
            }
            if self.users[node].next_send.is_some_and(|at| at <= now) {
                self.users[node].next_send = Some(now + self.users[node].traffic.pause);
                self.send(node);
            }
        }
        self.byte_turns();
        self.net.settle();
        self.events();
    }

    fn open(&self, node: usize) -> Vec<AssociationId> {
        let open = self.users[node].ends.iter().filter(|end| end.closed.is_none());
        open.map(|end| end.id).collect()
    }

    fn events(&mut self) {
        for node in 0..2 {
            while let Some((id, event)) = self.net.node_mut(node).events.pop_front() {
                self.event(node, id, event);
            }
        }
    }

    fn event(&mut self, node: usize, id: AssociationId, event: Event) {
        if self.is_rude(node, id, &event) {
            return;
        }
        match event {
            Event::Notification(Notification::Up { incoming, outbound_streams, .. }) => {
                self.up(node, id, incoming, outbound_streams);
            }
            Event::Notification(Notification::Restarted { .. }) => {
                let excused = self.rebooted || self.gave_up_early(1 - node);
                assert!(excused, "a restart that never was");
                self.report.restarts += 1;
                self.oracle.restarted(id, node);
                let streams = self.net.node(node).endpoint.association(id);
                let streams = streams.map_or(1, |association| association.outbound_streams());
                if let Some(end) = self.users[node].end(id) {
                    end.streams = streams;
                }
            }
            Event::Writable => {
                if let Some(end) = self.users[node].end(id) {
                    end.waits = false;
                }
            }
            Event::Readable if self.users[node].reader == Reader::Eager => {
                self.read(node, u32::MAX);
            }
            // The ledgers record the fate of bytes.
            Event::Notification(Notification::SendFailed { message, .. })
                if matches!(message.ppid, BYTES | MARK | SIGNAL) => {}
            Event::Notification(Notification::SendFailed { message, sent }) => {
                let judged = self.oracle.failed(&message, sent);
                judged.unwrap_or_else(|what| panic!("node {node}: {what}"));
            }
            Event::Notification(Notification::PathChanged { .. }) => self.report.path_changes += 1,
            Event::Notification(Notification::Closed(reason)) => self.closed(node, id, reason),
            _ => {}
        }
    }

    fn up(&mut self, node: usize, id: AssociationId, incoming: bool, outbound_streams: u16) {
        if self.users[node].end(id).is_none() {
            assert!(incoming, "an unrequested association");
            self.users[node].ends.push(End::new(id, false));
        }
        self.report.associations += 1;
        let end = self.users[node].end(id).expect("just added");
        assert!(!end.up, "connected twice");
        assert!(end.closed.is_none(), "connected after its end");
        end.up = true;
        end.streams = outbound_streams;
        // The user may still have to read from an end that gave up before it was up.
        end.reading = true;
    }

    fn closed(&mut self, node: usize, id: AssociationId, reason: CloseReason) {
        let now = self.net.now();
        if let CloseReason::ProtocolViolation(what) = &reason {
            panic!("node {node} considers its peer broken: {what}");
        }
        if self.users[node].end(id).is_none() {
            self.users[node].ends.push(End::new(id, false));
        }
        let end = self.users[node].end(id).expect("just added");
        assert!(end.closed.is_none(), "closed twice");
        let failed = !matches!(reason, CloseReason::Shutdown | CloseReason::LocalAbort);
        end.closed = Some((reason, now));
        // Reconnect only for own ends: if the peer's ends counted too, the number of
        // associations would grow without limit.
        if let Some((wait, _)) = self.options.reconnect
            && failed
            && end.own
            && self.healthy.is_none()
        {
            self.schedule(now + wait, Action::Reconnect(node));
        }
        let association = self.net.node(node).endpoint.association(id);
        if let Some(counters) = association.map(|a| a.statistics().counters) {
            self.report.timeouts += counters.timeouts;
            self.report.fast_recoveries += counters.fast_recoveries;
            self.report.window_probes += counters.zero_window_probes;
        }
        if self.users[node].reader != Reader::Stalled {
            self.read(node, u32::MAX);
        }
    }

    /// Whether no action is left and every message is delivered, except at ends that are closed or
    /// whose peer is gone.
    fn is_delivered(&self) -> bool {
        self.actions.is_empty()
            && (0..2).all(|node| {
                self.users[node].ends.iter().all(|end| {
                    let hopeless = end.closed.is_some() || self.peer_is_gone(node);
                    hopeless || self.oracle.pending(node, end.id).next().is_none()
                })
            })
    }

    /// Whether the other node has no open association.
    fn peer_is_gone(&self, node: usize) -> bool {
        self.open(1 - node).is_empty()
    }

    fn all_wanted_closed(&self) -> bool {
        let asked = |end: &&End| end.shut.is_some() && end.up;
        self.users.iter().all(|user| user.ends.iter().filter(asked).all(|end| end.closed.is_some()))
    }

    fn all_closed(&self) -> bool {
        (0..2).all(|node| self.open(node).is_empty())
    }
}

impl User {
    fn end(&mut self, id: AssociationId) -> Option<&mut End> {
        self.ends.iter_mut().find(|end| end.id == id)
    }
}

impl End {
    fn new(id: AssociationId, own: bool) -> Self {
        Self {
            id,
            own,
            up: false,
            streams: 1,
            closed: None,
            shut: None,
            reading: false,
            waits: false,
        }
    }
}
