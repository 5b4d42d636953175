//! The document of the status page.

use anabranch::{PathState, PathStatistics, PathTotals};
use serde::Serialize;

use super::Page;
use crate::near::Near;
use crate::near::link::number;
use crate::traffic::HostTraffic;
use crate::udp::counters::UdpStatistics;
use crate::uplinks::UplinkState;

/// Everything that the page shows. Its counters only grow, so the difference of two documents gives rates.
#[derive(Debug, Serialize)]
pub(super) struct View {
    schema: &'static str,
    /// Since the gateway was started.
    pub(super) seconds: f64,
    /// There is an association with the far side.
    pub(super) connected: bool,
    /// Why there is none.
    error: Option<String>,
    pub(super) uplinks: Vec<UplinkView>,
    aggregation: Aggregation,
    open: u64,
    hosts: Vec<HostTraffic>,
    /// Datagrams, which are not part of `open` and `hosts`.
    udp: UdpStatistics,
}

/// An uplink, or without sealed paths a path.
#[derive(Debug, Serialize)]
pub(super) struct UplinkView {
    #[serde(flatten)]
    pub(super) uplink: UplinkState,
    /// It can be switched.
    switch: bool,
    /// `off` by its switch, at its `limit`, `waiting` as a backup, `down`, or the state of its path.
    pub(super) state: &'static str,
    pub(super) srtt_seconds: Option<f64>,
    /// Estimated share of packets that the path loses towards the far side, 0 to 1.
    pub(super) loss: Option<f64>,
    pub(super) bytes_sent: u64,
    pub(super) bytes_received: u64,
    pub(super) lost_packets: u64,
    timeouts: u64,
}

/// What using several uplinks has added.
#[derive(Debug, Serialize)]
struct Aggregation {
    /// Bytes over all uplinks.
    bytes: u64,
    /// Bytes that did not go over the uplink that carried most.
    added_bytes: u64,
}

impl Aggregation {
    fn of(uplinks: &[UplinkView]) -> Self {
        let each = uplinks.iter().map(|uplink| uplink.bytes_sent + uplink.bytes_received);
        let bytes = each.clone().sum();
        Self { bytes, added_bytes: bytes - each.max().unwrap_or(0) }
    }
}

fn word(state: PathState) -> &'static str {
    match state {
        PathState::Active => "active",
        PathState::PotentiallyFailed => "potentially-failed",
        PathState::Inactive => "inactive",
        PathState::Unconfirmed => "unconfirmed",
        // The engine may get further states.
        #[allow(unreachable_patterns, reason = "the enumeration may grow")]
        _ => "unknown",
    }
}

impl UplinkView {
    fn new(uplink: UplinkState, path: Option<&PathStatistics>, totals: PathTotals) -> Self {
        let state = match path {
            _ if !uplink.on => "off",
            _ if uplink.limit.is_some_and(|limit| limit.is_exceeded()) => "limit",
            _ if !uplink.used => "waiting",
            Some(path) if path.verified || path.state == PathState::Active => word(path.state),
            _ => "down",
        };
        let path = path.filter(|_| !["off", "limit", "waiting", "down"].contains(&state));
        Self {
            uplink,
            switch: true,
            state,
            srtt_seconds: path.and_then(|path| path.srtt).map(|srtt| srtt.as_secs_f64()),
            loss: path.and_then(|path| path.loss),
            bytes_sent: totals.bytes_sent,
            bytes_received: totals.bytes_received,
            lost_packets: totals.lost_packets,
            timeouts: totals.timeouts,
        }
    }
}

impl View {
    pub(super) fn new(page: &Page, near: &Near) -> Self {
        let carried = near.link.carried();
        let association = near.link.association();
        let paths = association.as_ref().map(|association| association.statistics().paths);
        let paths = paths.unwrap_or_default();
        let mut uplinks: Vec<_> = page
            .uplinks
            .states()
            .into_iter()
            .map(|uplink| {
                let path = paths.iter().find(|path| number(path) == uplink.number);
                let totals = carried.of(uplink.number);
                UplinkView::new(uplink, path, totals)
            })
            .collect();
        if uplinks.is_empty() {
            // Without the seal: the paths themselves, which have no switch.
            uplinks = paths
                .iter()
                .map(|path| {
                    let name = format!("{} to {}", path.local, path.remote);
                    let state = UplinkState::new(number(path), name);
                    let totals = carried.of(state.number);
                    UplinkView { switch: false, ..UplinkView::new(state, Some(path), totals) }
                })
                .collect();
        }
        Self {
            schema: "gateway-status",
            seconds: page.began.elapsed().as_secs_f64(),
            connected: association.is_some(),
            error: near.link.error(),
            aggregation: Aggregation::of(&uplinks),
            uplinks,
            open: near.traffic.totals().0,
            hosts: near.traffic.hosts(),
            udp: near.udp(),
        }
    }
}

/// The document in JSON.
pub(super) fn json(page: &Page, near: &Near) -> String {
    // The document consists of text and numbers only.
    serde_json::to_string(&View::new(page, near)).unwrap_or_default()
}
