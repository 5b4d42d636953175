//! Converts an engine's events to log entries.

use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;
use std::sync::LazyLock;

use anabranch_proto::{
    Association, AssociationId, AssociationState, Counter, Decision, Event, InQlog, Instant, Log,
    LoggedPacket, Notification, Number, PathId, PathState, PathStatistics, Statistics,
};

use crate::chunks::ChunkNote;
use crate::entry::{Entry, Metrics, What};

/// Accepts entries.
pub trait Sink: fmt::Debug + Send {
    /// Accepts an event.
    fn put(&mut self, entry: Entry);
}

/// Creates entries from an engine's events, for [`Endpoint::set_log`](anabranch_proto::Endpoint::set_log).
#[derive(Debug)]
pub struct Observer<S> {
    sink: S,
    shard: Option<usize>,
    known: BTreeMap<AssociationId, Known>,
}

/// The logged values of an association.
#[derive(Debug)]
struct Known {
    state: AssociationState,
    active: (PathId, PathId),
    peer_rwnd: Option<u32>,
    paths: Vec<KnownPath>,
}

#[derive(Debug)]
struct KnownPath {
    id: PathId,
    ends: (IpAddr, IpAddr),
    state: PathState,
    /// The last logged value of each of [`LOGGED`].
    metrics: Box<[Option<Number>]>,
}

/// Numbers of a path that are logged when they change, with their names in qlog.
static LOGGED: LazyLock<Vec<(&'static str, &'static Counter<PathStatistics>)>> =
    LazyLock::new(|| PathStatistics::counters().filter_map(|row| Some((row.qlog?, row))).collect());

impl KnownPath {
    fn new(path: &PathStatistics) -> Self {
        let ends = (path.local, path.remote);
        let metrics = vec![None; LOGGED.len()].into();
        Self { id: path.id, ends, state: path.state, metrics }
    }

    /// Returns the numbers that have changed, and stores their new values.
    fn update(&mut self, path: &PathStatistics) -> Metrics {
        let mut changed = Vec::new();
        for (known, (name, row)) in self.metrics.iter_mut().zip(&*LOGGED) {
            let now = (row.get)(path);
            if now != *known {
                *known = now;
                changed.extend(now.map(|value| (*name, value)));
            }
        }
        changed.into()
    }
}

impl<S: Sink> Observer<S> {
    /// An observer of one engine. A number identifies the engine if several share one log.
    pub fn new(sink: S, shard: Option<usize>) -> Self {
        Self { sink, shard, known: BTreeMap::new() }
    }

    fn put(&mut self, time: Instant, association: AssociationId, what: What) {
        self.sink.put(Entry { time, shard: self.shard, association, what });
    }

    /// Logs the start of an association.
    fn begin(&mut self, now: Instant, id: AssociationId, association: &Association) {
        let statistics = association.statistics();
        let (state, active) = (statistics.state, (statistics.active, statistics.primary));
        let started = What::Started {
            incoming: association.is_incoming(),
            local_port: association.local_port(),
            remote_port: association.remote_port(),
        };
        self.put(now, id, started);
        self.put(now, id, What::State { old: None, new: state });
        let (path, primary) = (active.0.number(), active.1.number());
        self.put(now, id, What::ActivePath { path, primary });
        self.known.insert(id, Known { state, active, peer_rwnd: None, paths: Vec::new() });
    }

    /// Logs changes of the association as a whole.
    fn compare(&mut self, now: Instant, id: AssociationId, association: &Association) {
        let Some(mut known) = self.known.remove(&id) else { return };
        let statistics = association.statistics();
        if statistics.state != known.state {
            let old = Some(std::mem::replace(&mut known.state, statistics.state));
            self.put(now, id, What::State { old, new: statistics.state });
        }
        self.compare_paths(now, id, &mut known, &statistics);
        let active = (statistics.active, statistics.primary);
        if active != known.active {
            known.active = active;
            let (path, primary) = (active.0.number(), active.1.number());
            self.put(now, id, What::ActivePath { path, primary });
        }
        // The peer's window is unknown during the handshake.
        let told = association.is_established() || known.peer_rwnd.is_some();
        if told && known.peer_rwnd != Some(statistics.peer_rwnd) {
            known.peer_rwnd = Some(statistics.peer_rwnd);
            self.put(now, id, What::PeerWindow(statistics.peer_rwnd));
        }
        self.known.insert(id, known);
    }

    fn compare_paths(
        &mut self,
        now: Instant,
        id: AssociationId,
        known: &mut Known,
        statistics: &Statistics,
    ) {
        for path in &statistics.paths {
            let ends = (path.local, path.remote);
            let place = known.paths.iter().position(|known| known.id == path.id);
            let old = place.and_then(|place| known.paths.get(place)).map(|known| known.state);
            if old != Some(path.state) {
                let (path, new) = (path.id.number(), Some(path.state));
                self.put(now, id, What::Path { path, ends, old, new });
            }
            let place = place.unwrap_or_else(|| {
                known.paths.push(KnownPath::new(path));
                known.paths.len() - 1
            });
            let Some(before) = known.paths.get_mut(place) else { continue };
            before.state = path.state;
            let metrics = before.update(path);
            if !metrics.is_empty() {
                self.put(now, id, What::Metrics { path: path.id.number(), metrics });
            }
        }
        if known.paths.len() > statistics.paths.len() {
            known.paths.retain(|path| {
                let stays = statistics.path(path.id).is_some();
                if !stays {
                    let (number, old) = (path.id.number(), Some(path.state));
                    let gone = What::Path { path: number, ends: path.ends, old, new: None };
                    self.put(now, id, gone);
                }
                stays
            });
        }
    }

    fn close(
        &mut self,
        now: Instant,
        id: AssociationId,
        association: &Association,
        reason: String,
    ) {
        if self.known.remove(&id).is_some() {
            let statistics = Box::new(association.statistics());
            self.put(now, id, What::Closed { reason, statistics });
        }
    }
}

impl<S: Sink> Log for Observer<S> {
    fn packet(&mut self, now: Instant, id: AssociationId, packet: &LoggedPacket<'_>) {
        let chunks = ChunkNote::of_packet(packet.bytes);
        let path = packet.path.map(PathId::number);
        let (sent, length) = (packet.sent, packet.bytes.len());
        self.put(now, id, What::Packet { sent, path, length, chunks });
    }

    fn changed(
        &mut self,
        now: Instant,
        id: AssociationId,
        association: &Association,
        decisions: &[Decision],
    ) {
        if !self.known.contains_key(&id) && !association.is_closed() {
            self.begin(now, id, association);
        }
        for decision in decisions {
            self.put(now, id, What::Decision(*decision));
        }
        self.compare(now, id, association);
    }

    fn event(&mut self, now: Instant, id: AssociationId, association: &Association, event: &Event) {
        let Event::Notification(notification) = event else { return };
        match (notification, notification.kind().qlog) {
            (Notification::Closed(reason), _) => {
                self.close(now, id, association, reason.to_string());
            }
            (_, InQlog::Event(name)) => {
                let details = notification.details().into();
                self.put(now, id, What::Notification { name, details });
            }
            // For other events, the state comparison logs more.
            _ => {}
        }
    }

    fn removed(&mut self, now: Instant, id: AssociationId, association: &Association) {
        self.close(now, id, association, "removed".to_owned());
    }
}
