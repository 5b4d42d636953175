//! Invariants of the sender that hold after every event; for tests and simulators.

use super::Sender;
use super::lane::Exception;
use crate::path::Paths;
use crate::per_path::PathId;

/// The data that may be sent on a path before a batch is sent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Window {
    path: PathId,
    flight: usize,
    cwnd: usize,
    /// The number of packets that may be sent regardless of cwnd: the first retransmission after a loss,
    /// and a tail probe.
    exceptions: usize,
}

impl Sender {
    /// The windows of all paths.
    pub(crate) fn windows(&self) -> Vec<Window> {
        let window = |lane: &super::Lane| Window {
            path: lane.path,
            flight: self.outstanding.flight(lane.path),
            cwnd: lane.congestion.cwnd(),
            exceptions: usize::from(lane.retransmit_at_once)
                + usize::from(lane.exception == Exception::Probe),
        };
        self.lanes.iter().map(window).collect()
    }

    /// Panics if a batch exceeded the windows: no byte may be sent above cwnd, except for the one packet
    /// that RFC 9260 section 6.1 permits, and the exceptions.
    pub(crate) fn assert_within_windows(&self, before: &[Window], paths: &Paths) {
        for window in before {
            let (Some(lane), Some(path)) = (self.lanes.get(window.path), paths.get(window.path))
            else {
                continue;
            };
            let flight = self.outstanding.flight(window.path);
            let exceptions = window.exceptions * path.packet_size();
            let cwnd = window.cwnd.max(lane.congestion.cwnd());
            let most = window.flight.max(cwnd + path.packet_size()) + exceptions;
            assert!(
                flight <= most,
                "path {}: {flight} bytes in flight after a batch, {window:?} before",
                window.path
            );
        }
    }

    /// Checks the sender after an event was handled and all output was taken. `may_send`: the state of the
    /// association permits data.
    ///
    /// # Errors
    /// A description of the violated invariant.
    pub(crate) fn check_invariants(&self, may_send: bool, paths: &Paths) -> Result<(), String> {
        self.outstanding.check_invariants()?;
        self.queue.check_invariants(self.outstanding.len(), self.outstanding.held())?;
        if self.lanes.len() != paths.len() {
            return Err(format!("{} lanes for {} paths", self.lanes.len(), paths.len()));
        }
        if self.partial.as_ref().is_some_and(|partial| !partial.reports.is_empty()) {
            return Err("the user was not told of messages that were given up".into());
        }
        let (mut timers, mut paced) = (0, false);
        for (lane, path) in self.lanes.iter().zip(paths.iter()) {
            let id = path.id;
            if lane.path != id {
                return Err(format!("lane of path {} belongs to path {id}", lane.path));
            }
            if lane.congestion.cwnd() < path.pmdcs() {
                return Err(format!("path {id}: cwnd is below one PMDCS"));
            }
            let watched = self.forward_tsn_path().is_some() && lane.t3.is_some();
            if self.outstanding.in_flight(id) != lane.t3.is_some() && !watched {
                return Err(format!(
                    "path {id}: {} bytes in flight, T3-rtx {:?}",
                    self.outstanding.flight(id),
                    lane.t3
                ));
            }
            timers += usize::from(lane.t3.is_some());
            paced |= lane.paced_until.is_some() || self.copies_deadline(id).is_some();
        }
        // Lost chunks may wait for pacing, and everything for the first path of another network to be verified.
        let moves = !paths.iter().any(|path| path.may_carry());
        if !self.outstanding.is_empty() && timers == 0 && !paced && !moves {
            return Err(format!(
                "{} chunks outstanding, {} of them lost, and no timer runs",
                self.outstanding.len(),
                self.outstanding.lost_chunks()
            ));
        }
        let waits = may_send && !self.queue.is_empty() && timers == 0;
        // A class may wait for an answer to a heartbeat.
        let asks = self.config.paths.class_bound && self.config.paths.class_paths.is_awaited(paths);
        if waits && self.window.deadline().is_none() && !paced && !moves && !asks {
            return Err("data waits to be sent, and no timer runs".into());
        }
        Ok(())
    }
}
