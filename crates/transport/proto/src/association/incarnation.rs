//! Changes of an association's paths, and state of one incarnation of the peer, which a restart
//! replaces.

use super::{Association, Control};
use crate::association::state::State;
use crate::path::{Path, Phase};
use crate::per_path::PathId;
use crate::time::Instant;

impl Association {
    /// Keeps only these paths; at least one must remain. References to a removed path move to the
    /// path in use, which is another one if it was removed, too.
    pub(super) fn retain_paths(&mut self, mut keep: impl FnMut(&Path) -> bool) {
        let active = self.paths.active();
        let stays = (self.paths.iter().filter(|path| keep(path)))
            .min_by_key(|path| (path.silent, path.id != active, !path.is_active()));
        let Some(in_use) = stays.map(|path| path.id) else { return };
        self.paths.activate(in_use);
        for id in self.paths.ids_now() {
            if !keep(&self.paths[id]) {
                self.remove_path(id, in_use);
            }
        }
    }

    fn remove_path(&mut self, gone: PathId, in_use: PathId) {
        if self.paths.primary() == gone {
            let phase = match self.paths.phase() {
                Phase::Alternate => Phase::Primary,
                other => other,
            };
            self.paths.choose(phase, in_use);
        }
        if self.acknowledger.path == gone {
            self.acknowledger.path = in_use;
        }
        if let State::CookieWait { t1: repeat, .. }
        | State::CookieEchoed { t1: repeat, .. }
        | State::ShutdownSent { t2: repeat }
        | State::ShutdownAckSent { t2: repeat } = &mut self.state
            && repeat.path == gone
        {
            repeat.path = in_use;
        }
        // A HEARTBEAT ACK is valid only on the path of its HEARTBEAT.
        self.outbox.chunks.retain_mut(|(path, control)| {
            let was = std::mem::replace(path, if *path == gone { in_use } else { *path });
            was != gone || !matches!(control, Control::HeartbeatAck(_) | Control::Init)
        });
        self.sender.remove_path(gone, in_use, &mut self.paths);
        self.paths.remove(gone);
        self.identity.changed = true;
    }

    /// Creates lanes for new paths.
    pub(super) fn add_lanes(&mut self, now: Instant) {
        let setup = self.config.of_path(self.surroundings.headers);
        self.sender.add_lanes(now, &self.paths, &setup);
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;
    use std::sync::Arc;
    use std::time::Duration;

    use super::*;
    use crate::config::{AssociationConfig, EndpointConfig, MultipathMode, Routes};
    use crate::endpoint::{ConnectRequest, Endpoint, Received};
    use crate::event::{AssociationId, Event, Notification, PathState};
    use crate::message::OutgoingMessage;
    use crate::path::HeartbeatInfo;

    const GONE: PathId = PathId(1);

    /// Two endpoints with three links between them.
    struct Links {
        now: Instant,
        ends: [Endpoint; 2],
        id: AssociationId,
        /// Links that are cut.
        cut: [bool; 3],
        events: Vec<Event>,
        received: usize,
    }

    fn address(link: u8, end: u8) -> IpAddr {
        IpAddr::from([10, 0, link, end])
    }

    impl Links {
        fn connected(config: AssociationConfig) -> Self {
            let mut ends = [0, 1].map(|end| {
                let pairs = (0..3).map(|link| (address(link, end), address(link, 1 - end)));
                let routes = Routes::Pairs(pairs.collect());
                let config = EndpointConfig { routes, ..EndpointConfig::default() };
                let mut endpoint = Endpoint::new(config, [end + 1; 32]);
                let locals = [0, 1, 2].map(|link| address(link, end));
                endpoint.set_local_addresses(Instant::ZERO, &locals);
                endpoint
            });
            let config = Arc::new(config);
            ends[1].listen(7, Arc::clone(&config)).unwrap();
            let mut request = ConnectRequest::new((0..3).map(|link| address(link, 1)).collect(), 7);
            request.config = config;
            let id = ends[0].connect(Instant::ZERO, request).unwrap();
            let cut = [false; 3];
            let now = Instant::ZERO;
            let mut links = Self { now, ends, id, cut, events: Vec::new(), received: 0 };
            links.run(Duration::from_secs(20));
            assert!(
                links
                    .events
                    .iter()
                    .any(|event| matches!(event, Event::Notification(Notification::Up { .. })))
            );
            links
        }

        fn exchange(&mut self) {
            let mut silent = false;
            while !silent {
                silent = true;
                for from in [0, 1] {
                    let mut buffer = Vec::new();
                    let sent = self.ends[from].poll_transmit(self.now, 8, &mut buffer);
                    let Some(sent) = sent else { continue };
                    silent = false;
                    let cut = (0..3).any(|link| {
                        let ends = [address(link, 0), address(link, 1)];
                        self.cut[usize::from(link)] && ends.contains(&sent.local)
                    });
                    if !cut {
                        let received = Received {
                            local: sent.remote,
                            remote: sent.local,
                            remote_udp_port: 9899,
                            ecn: None,
                            segment_size: sent.segment_size,
                        };
                        self.ends[1 - from].handle_batch(self.now, &received, buffer.into());
                    }
                }
            }
            self.events.extend(std::iter::from_fn(|| self.ends[0].poll_event()).map(|(_, e)| e));
            while let Some((id, _)) = self.ends[1].poll_event() {
                let Some(mut end) = self.ends[1].association_mut(self.now, id) else { continue };
                while let Some(message) = end.receive() {
                    self.received += message.payload.len();
                    end.release(message.charge);
                }
            }
        }

        fn run(&mut self, time: Duration) {
            let end = self.now + time;
            self.exchange();
            while let Some(next) = self.ends.iter().filter_map(Endpoint::next_deadline).min() {
                if next > end {
                    break;
                }
                self.now = self.now.max(next);
                self.ends.iter_mut().for_each(|end| end.handle_timeout(self.now));
                self.exchange();
            }
            self.now = end;
            self.exchange();
        }

        fn association(&self) -> &Association {
            self.ends[0].association(self.id).unwrap()
        }

        fn check(&mut self) {
            self.exchange();
            let now = self.now;
            self.ends[0].check_invariants(now).unwrap();
        }
    }

    /// All statistics of a path, except those that depend on time.
    fn figures(association: &Association, id: PathId) -> String {
        let path = *association.statistics().path(id).unwrap();
        format!("{path:?} {:?}", association.sender.t3(id))
    }

    #[test]
    fn a_path_in_the_middle_goes_while_data_is_outstanding_on_all() {
        let config = AssociationConfig::default().with_multipath(MultipathMode::CmtPf);
        let mut links = Links::connected(config);
        let (id, now) = (links.id, links.now);
        links.cut = [true; 3];
        for _ in 0..20 {
            let message = OutgoingMessage::new(0, anabranch_wire::Ppid(0), vec![7; 3_000]);
            links.ends[0].association_mut(links.now, id).unwrap().send(now, message).unwrap();
        }
        links.exchange();
        let before = links.association().statistics();
        assert!(before.paths.iter().all(|path| path.flight > 0), "{before:?}");
        let others = [PathId(0), PathId(2)];
        let kept = others.map(|id| figures(links.association(), id));

        links.ends[0].association_mut(links.now, id).unwrap().retain_paths(|path| path.id != GONE);
        let after = links.association().statistics();
        assert_eq!(after.paths.iter().map(|path| path.id).collect::<Vec<_>>(), others);
        assert_eq!(others.map(|id| figures(links.association(), id)), kept);
        assert!(after.path(GONE).is_none());
        assert_eq!(after.outstanding_chunks, before.outstanding_chunks);
        assert!(after.counters.useless_retransmitted_chunks > 0, "{after:?}");
        assert_eq!(links.association().sender.t3(PathId(2)).map(|t3| t3 > now), Some(true));

        links.check();
        // Answers to a heartbeat of the removed path do not affect other paths.
        let info = HeartbeatInfo { path: GONE, probe: 0, nonce: 1 };
        links.ends[0].association_mut(links.now, id).unwrap().on_heartbeat_ack(now, info);

        // The peer is not notified, and would send a heartbeat on the removed path.
        links.cut = [false, true, false];
        links.run(Duration::from_secs(30));
        links.check();
        assert_eq!(links.received, 60_000);
        let after = links.association().statistics();
        assert_eq!(after.outstanding_chunks, 0);
        let timeouts: u64 = after.paths.iter().map(|path| path.timeouts).sum();
        assert_eq!((timeouts, after.counters.timeouts), (1, 1), "{after:?}");

        // A path added later has a name that no path had before; the third path keeps its name.
        let new = {
            let mut association = links.ends[0].association_mut(links.now, id).unwrap();
            let setup = association.config.of_path(association.surroundings.headers);
            let path = Path::new(now, address(1, 0), address(1, 1), 9899, &setup);
            let new = association.paths.push(path);
            association.add_lanes(now);
            new
        };
        assert_eq!(new, Some(PathId(3)));
        links.check();
        links.events.clear();
        links.cut[2] = true;
        links.run(Duration::from_secs(300));
        let failed: Vec<(PathId, IpAddr)> = (links.events.iter())
            .filter_map(|event| match event {
                Event::Notification(Notification::PathChanged {
                    path,
                    remote,
                    state: PathState::Inactive,
                    ..
                }) => Some((*path, *remote)),
                _ => None,
            })
            .collect();
        assert_eq!(failed, [(PathId(2), address(2, 1))]);
    }

    #[test]
    fn the_primary_path_and_the_one_in_use_go() {
        let mut links = Links::connected(AssociationConfig::default());
        let id = links.id;
        let now = links.now;
        let mut association = links.ends[0].association_mut(links.now, id).unwrap();
        assert_eq!(
            (association.paths.active(), association.paths.primary()),
            (PathId(0), PathId(0))
        );
        association.send(now, OutgoingMessage::new(0, anabranch_wire::Ppid(0), "m")).unwrap();
        drop(association);
        links.cut = [true; 3];
        links.exchange();
        links.ends[0]
            .association_mut(links.now, id)
            .unwrap()
            .retain_paths(|path| path.id == PathId(2));
        links.check();
        let statistics = links.association().statistics();
        assert_eq!((statistics.active, statistics.primary), (PathId(2), PathId(2)));
        links.cut = [false; 3];
        links.run(Duration::from_secs(1));
        links.check();
        assert_eq!(links.received, 1);
    }
}
