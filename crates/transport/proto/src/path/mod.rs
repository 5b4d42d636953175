//! A path: a pair of a local and a remote IP address, and its state.

pub(crate) mod address;
mod choice;
mod config;
pub(crate) mod heartbeat;
mod heartbeat_back_off;
mod loss;
mod mtu;
mod rebinding;
mod reserved;
mod rto;
mod table;

use std::net::IpAddr;

pub(crate) use choice::{Failover, Phase};
pub use config::{MtuConfig, RtoFloor, TimerConfig};
pub(crate) use heartbeat::{Heartbeat, HeartbeatInfo};
pub(crate) use loss::LossEstimator;
pub(crate) use mtu::MtuSearch;
pub(crate) use rebinding::{Rebinding, Refused, Stage};
pub(crate) use reserved::Reservation;
use reserved::Reserved;
pub(crate) use rto::RttEstimator;
pub(crate) use table::{Paths, low_bits};

use crate::congestion::{CongestionConfig, ControllerChoice};
use crate::encapsulation::Headers;
use crate::event::PathState;
use crate::per_path::{OfPath, PathId};
use crate::revision::Revision;
use crate::stats::{PathCounters, PathStatistics};
use crate::time::Instant;

/// Length of the SCTP common header.
pub(crate) const COMMON_HEADER: usize = 12;

/// A path.
#[derive(Debug)]
pub(crate) struct Path {
    /// Identifier, assigned by the table of paths.
    pub(crate) id: PathId,
    pub(crate) local: IpAddr,
    pub(crate) remote: IpAddr,
    /// UDP port of the peer on this path (RFC 6951 section 5.4); 0 without encapsulation.
    // req: rfc6951 5.1 "supporting UDP encapsulation MUST maintain a remote UDP"
    pub(crate) remote_udp_port: u16,
    /// Another port from which packets of the path arrived.
    pub(crate) rebinding: Option<Box<Rebinding>>,
    /// Bytes of an IP packet that precede the SCTP packet.
    overhead: u16,
    /// Room in every packet with data that must be left for other chunks.
    reserved: Reserved,
    pub(crate) state: PathState,
    /// The path has been active, because the peer has answered on it or the user vouched for it. Before that it carries
    /// only heartbeats, even when it is inactive (RFC 9260 section 5.4).
    verified: bool,
    /// Number of consecutive errors.
    pub(crate) error_count: u32,
    pub(crate) rtt: RttEstimator,
    pub(crate) loss: LossEstimator,
    pub(crate) mtu: MtuSearch,
    pub(crate) heartbeat: Heartbeat,
    /// The path may carry new data together with others.
    pub(crate) concurrent: bool,
    /// When the last packet was sent whose acknowledgement gives an RTT measurement.
    pub(crate) last_probe: Instant,
    /// The path's local address cannot be used.
    pub(crate) detached: bool,
    /// The peer does not know the path's local address yet, or is asked to forget it: the path carries only ASCONF.
    pub(crate) silent: bool,
    /// The path's interface came back, and the path has not answered since.
    pub(crate) regained: bool,
    /// A send error of the path is reported again only after this time.
    pub(crate) next_send_error: Instant,
    /// The peer itself has answered on the path.
    pub(crate) proven: bool,
    /// Before the path was verified, the last packet from it was an ABORT of a host that does not know the association.
    pub(crate) disowned: bool,
    /// Set when ICMP reports that nothing listens on the peer's UDP port.
    pub(crate) refused: Option<Refused>,
    pub(crate) stats: PathCounters,
}

impl OfPath for Path {
    #[inline]
    fn id(&self) -> PathId {
        self.id
    }
}

/// The options that a new path needs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Setup<'a> {
    pub(crate) headers: Headers,
    pub(crate) revision: Revision,
    pub(crate) timers: &'a TimerConfig,
    pub(crate) congestion: &'a CongestionConfig,
    pub(crate) controller: &'a ControllerChoice,
    pub(crate) coupled: bool,
    pub(crate) mtu: &'a MtuConfig,
}

impl Path {
    // req: rfc9260 7.3 "MUST maintain separate PMTU estimates for each"
    pub(crate) fn new(
        now: Instant,
        local: IpAddr,
        remote: IpAddr,
        remote_udp_port: u16,
        setup: &Setup<'_>,
    ) -> Self {
        let mtu = MtuSearch::new(setup.mtu, if remote.is_ipv4() { 576 } else { 1280 });
        // req: rfc6951 5.6 "a path, it MUST decrease the Path MTU"
        // req: rfc8899 5 "A PL MUST adjust the MPS indicated by"
        let overhead = setup.headers.overhead(remote);
        Self {
            id: PathId::FIRST,
            local,
            remote,
            remote_udp_port,
            rebinding: None,
            overhead: overhead as u16,
            reserved: Reserved::default(),
            state: PathState::Unconfirmed,
            verified: false,
            error_count: 0,
            rtt: RttEstimator::new(setup.timers),
            loss: LossEstimator::default(),
            mtu,
            heartbeat: Heartbeat::default(),
            concurrent: true,
            last_probe: now,
            detached: false,
            silent: false,
            regained: false,
            next_send_error: now,
            proven: false,
            disowned: false,
            refused: None,
            stats: PathCounters::default(),
        }
    }

    /// Resets the path to its initial state, for a peer that lost its state. Only its addresses, its usability on this
    /// host, and its totals are kept.
    // req: rfc9260 5.2.4 "related to this peer MUST be reset"
    pub(crate) fn restart(&mut self, now: Instant, setup: &Setup<'_>) {
        let Self { id, local, remote, remote_udp_port, detached, regained, .. } = *self;
        let mut stats = std::mem::take(&mut self.stats);
        stats.end_timeout_run();
        let fresh = Self::new(now, local, remote, remote_udp_port, setup);
        *self = Self { id, detached, regained, stats, ..fresh };
    }

    /// Largest SCTP packet, in bytes.
    // req: rfc8899 3 "A PL MUST NOT send a datagram"
    // exempt: rfc8899 3 "A PL MUST NOT send a datagram" what was cut for a larger path MTU keeps its TSN and is sent again in IP fragments
    pub(crate) fn packet_size(&self) -> usize {
        packet_size(self.mtu.current(), usize::from(self.overhead))
    }

    /// Path Maximum DATA Chunk Size (RFC 9260 section 1.3), including the chunk header.
    pub(crate) fn pmdcs(&self) -> usize {
        self.packet_size() - COMMON_HEADER - self.reserved.sum()
    }

    /// Reserves `bytes` for `what` in every packet with data from now on. Returns whether that changes PMDCS.
    pub(crate) fn reserve(&mut self, what: Reservation, bytes: u16) -> bool {
        self.reserved.set(what, bytes)
    }

    /// Bytes of an IP packet that precede the SCTP packet.
    pub(crate) fn overhead(&self) -> usize {
        usize::from(self.overhead)
    }

    /// Whether the path may carry user data, whatever the state of the other paths is.
    pub(crate) fn is_active(&self) -> bool {
        self.state == PathState::Active && !self.silent
    }

    /// Whether the path may carry new data together with others.
    pub(crate) fn is_concurrent(&self) -> bool {
        self.is_active() && self.concurrent
    }

    /// Whether the path is potentially failed (RFC 7829).
    pub(crate) fn is_potentially_failed(&self) -> bool {
        self.state == PathState::PotentiallyFailed
    }

    /// Whether the path is known to lead to the peer, whether or not it is active.
    pub(crate) fn is_verified(&self) -> bool {
        self.verified
    }

    /// Whether the path may carry user data at all.
    #[inline]
    pub(crate) fn may_carry(&self) -> bool {
        self.verified && !self.silent
    }

    /// The factor for the usual time between heartbeats.
    pub(crate) fn heartbeat_back_off(&self, path_max_retrans: u32) -> u32 {
        let failed = !self.verified && self.state == PathState::Inactive;
        heartbeat_back_off::factor(failed, self.error_count, path_max_retrans)
    }

    /// Marks the path as active: it leads to the peer and works.
    pub(crate) fn activate(&mut self) {
        self.state = PathState::Active;
        self.verified = true;
        self.disowned = false;
    }

    /// Records that the path does not lead to the peer, even if the user passed its address.
    pub(crate) fn disown(&mut self) {
        self.verified = false;
        self.disowned = true;
    }

    /// All statistics except those of the sender.
    pub(crate) fn statistics(&self) -> PathStatistics {
        PathStatistics {
            id: self.id,
            local: self.local,
            remote: self.remote,
            remote_udp_port: self.remote_udp_port,
            state: self.state,
            verified: self.verified,
            disowned: self.disowned,
            srtt: self.rtt.srtt(),
            rttvar: self.rtt.rttvar(),
            rto: self.rtt.rto(),
            mtu: self.mtu.current(),
            error_count: self.error_count,
            loss: self.loss.loss(),
            ..self.stats.statistics()
        }
    }
}

/// Maximum size of an SCTP packet in an IP packet of `mtu` bytes, a multiple of 4.
fn packet_size(mtu: u16, overhead: usize) -> usize {
    (usize::from(mtu) - overhead) & !3
}
