//! Checks at the end of a run, and its totals.

use std::fmt;

use anabranch_proto::{AddressChange, AssociationId, CloseReason};
use anabranch_wire::cause_code;

use super::{End, Run};
use crate::Report;
use crate::options::Whim;

/// Fails for a lost message. All checks that find one call this function, so that it is one failure: with fewer faults
/// another check may find it first.
pub(super) fn lost(what: fmt::Arguments<'_>) -> ! {
    panic!("{what}")
}

impl Run {
    /// The checks at the end of a run.
    pub(super) fn judge(&mut self) {
        self.events();
        let healthy = self.healthy.expect("the second phase has begun");
        let slow = self.options.configs.iter().map(|c| c.timers.rto_max).max().unwrap_or_default();
        for node in 0..2 {
            for end in &self.users[node].ends {
                let Some((reason, at)) = &end.closed else { continue };
                match reason {
                    CloseReason::Shutdown => {
                        self.report.graceful += 1;
                        self.nothing_lost(node, end.id);
                        let failed = self.oracle.failed_after_sending(node, end.id);
                        assert!(failed == 0 || self.rebooted, "graceful, but {failed} given up");
                    }
                    CloseReason::Unreachable | CloseReason::ConnectTimeout => {
                        self.report.unreachable += 1;
                        let late = *at > healthy + slow * 3;
                        assert!(
                            !late
                                || self.rebooted
                                || self.peer_gave_up(node)
                                || self.is_left_with_another_host(reason),
                            "node {node} gave up a healthy peer: {reason} at {at:?}"
                        );
                        self.nothing_lost(node, end.id);
                    }
                    CloseReason::LocalAbort | CloseReason::PeerAbort { .. } => {
                        let excused = self.aborted
                            || self.rebooted
                            || self.any_other_reason(node)
                            || self.peer_is_done(node)
                            || self.came_from_a_removed_address(reason)
                            || end.shut.is_some_and(|_| !end.up);
                        assert!(excused, "node {node}: {reason} without a cause");
                        self.nothing_lost(node, end.id);
                    }
                    CloseReason::ShutdownTimeout => {
                        let begun = end.shut.is_none_or(|shut| shut <= healthy + slow);
                        // A peer that is gone may not answer.
                        let excused = begun || self.rebooted || self.peer_gave_up(node);
                        assert!(excused, "node {node}: a shutdown took too long");
                        self.nothing_lost(node, end.id);
                    }
                    CloseReason::HandshakeFailed(_) => {}
                    other => panic!("node {node} closed: {other}"),
                }
            }
        }
    }

    /// Whether an end was closed for a reason that explains an abort by the peer, or was never established. A cookie
    /// still in flight then creates an association that is unknown to its other end.
    pub(super) fn any_other_reason(&self, node: usize) -> bool {
        let mut ends = self.users.iter().flat_map(|user| &user.ends);
        self.users[node].ends.len() > 1
            || ends.any(|end| {
                end.closed.as_ref().is_some_and(|(reason, _)| {
                    !matches!(reason, CloseReason::Shutdown | CloseReason::PeerAbort { .. })
                })
            })
            || self.users[1 - node].ends.is_empty()
    }

    /// Whether a host that lost its state began again from an address that it had removed: the peer takes that for an
    /// attack (RFC 9260 section 5.2.2).
    fn came_from_a_removed_address(&self, reason: &CloseReason) -> bool {
        let removes = |whim: &Whim| matches!(whim, Whim::Address(AddressChange::Removed, _));
        let code = Some(cause_code::RESTART_WITH_NEW_ADDRESSES);
        matches!(reason, CloseReason::PeerAbort { code: of, .. } if *of == code)
            && self.options.whims.iter().any(|(_, _, whim)| removes(whim))
    }

    /// Whether a node's user aborted a handshake that the node had started. Its COOKIE ECHO may arrive late, at an
    /// association that both ends have meanwhile set up through the other node's handshake.
    pub(super) fn gave_up_early(&self, node: usize) -> bool {
        let early = |end: &End| !end.up && matches!(end.closed, Some((CloseReason::LocalAbort, _)));
        self.users[node].ends.iter().any(early)
    }

    /// Whether the other node ended gracefully. It treats late packets as out of the blue, and its ABORT may overtake
    /// the SHUTDOWN COMPLETE.
    fn peer_is_done(&self, node: usize) -> bool {
        let done = |end: &End| matches!(end.closed, Some((CloseReason::Shutdown, _)));
        self.users[1 - node].ends.iter().any(done)
    }

    /// Whether the other node ended without a graceful shutdown, or never had the association.
    fn peer_gave_up(&self, node: usize) -> bool {
        let peers = &self.users[1 - node].ends;
        let gave_up = |reason: &CloseReason| !matches!(reason, CloseReason::Shutdown);
        peers.is_empty()
            || peers
                .iter()
                .any(|end| end.closed.as_ref().is_some_and(|(reason, _)| gave_up(reason)))
    }

    /// Whether the peer may have refused the second of two associations, because it would share an address with the
    /// first, and then only the host that is not there was left to be asked.
    fn is_left_with_another_host(&self, reason: &CloseReason) -> bool {
        let options = &self.options;
        matches!(reason, CloseReason::ConnectTimeout)
            && options.twice
            && options.other_host.is_some()
    }

    /// Checks that every message of an association was delivered or returned.
    pub(super) fn nothing_lost(&self, node: usize, id: AssociationId) {
        // Data that the peer acknowledged and its user has not read could be lost, but the users of this swarm read
        // everything.
        let pending: Vec<u32> = self.oracle.pending(node, id).collect();
        if let Some(first) = pending.first() {
            let first = self.oracle.describe(*first);
            lost(format_args!("node {node}: {} lost, the first {first:?}", pending.len()));
        }
    }

    pub(super) fn what_is_left(&self) -> String {
        let mut text = String::new();
        for node in 0..2 {
            for end in &self.users[node].ends {
                let pending: Vec<u32> = self.oracle.pending(node, end.id).collect();
                text += &format!(
                    "\nnode {node} {} closed {:?}, pending {:?} {:?}\n{:#?}",
                    end.id,
                    end.closed,
                    pending.len(),
                    pending.first().map(|id| self.oracle.describe(*id)),
                    self.net.node(node).endpoint.association(end.id).map(|a| a.statistics())
                );
            }
        }
        text + &self.where_byte_streams_are()
    }

    pub(super) fn sum_up(mut self) -> Report {
        self.report.hash = self.net.trace.hash();
        self.report.packets = self.net.trace.packets();
        self.report.seconds = self.net.now().as_nanos() / 1_000_000_000;
        self.report.too_big = self.net.too_big();
        self.report.refused = self.net.refused;
        for (_, _, stats) in self.net.link_stats() {
            self.report.lost += stats.lost_model;
            self.report.cut += stats.lost_down;
            self.report.queue += stats.queue_drops;
            self.report.duplicated += stats.duplicated;
            self.report.reordered += stats.reordered;
            self.report.corrupted += stats.corrupted;
        }
        if let Some(sealed) = &self.sealed {
            let (totals, moves) = sealed.totals();
            self.report.sealed = totals.datagrams;
            self.report.hellos = totals.hellos;
            self.report.welcomes = totals.welcomes;
            self.report.cookies = totals.cookies;
            self.report.astray = totals.astray;
            self.report.moves = moves;
        }
        self.report.delivered = self.oracle.delivered;
        self.report.bytes = self.oracle.delivered_bytes;
        self.report.in_parts = self.oracle.in_parts;
        self.report.failed = self.oracle.failed;
        self.report
    }
}
