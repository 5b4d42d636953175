//! Counters and gauges that a driver may read at any time.

#[cfg(feature = "serde")]
pub(crate) mod seconds;
mod totals;

use std::net::IpAddr;
use std::time::Duration;

pub use totals::PathTotals;

use crate::event::{AssociationState, PathState};
use crate::features::Features;
use crate::per_path::PathId;

/// A snapshot of an association.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct Statistics {
    /// State of the association.
    pub state: AssociationState,
    /// The primary path.
    pub primary: PathId,
    /// The path that new data takes.
    pub active: PathId,
    /// Bytes that wait to be sent for the first time.
    pub send_queue_bytes: usize,
    /// Bytes sent and not acknowledged.
    pub outstanding_bytes: usize,
    /// Chunks sent and not acknowledged.
    pub outstanding_chunks: usize,
    /// Data stored for retransmission.
    pub retransmission_queue: RetransmissionQueue,
    /// How long full buffers held new data back.
    pub blocking: Blocking,
    /// How long messages waited to share a packet.
    pub bundling: HeldBack,
    /// Whether both sides agreed on NR-SACKs.
    pub nr_sack: bool,
    /// Extensions to RFC 9260 that both sides support and want.
    pub features: Features,
    /// The peer's receive window as this side sees it, in bytes.
    pub peer_rwnd: u32,
    /// Receive buffer in use, in bytes.
    pub receive_buffer_used: usize,
    /// Totals.
    pub counters: Counters,
    /// One entry a path, in the order of their identifiers.
    pub paths: Vec<PathStatistics>,
}

impl Statistics {
    /// A path, if it is still there.
    pub fn path(&self, id: PathId) -> Option<&PathStatistics> {
        self.paths.iter().find(|path| path.id == id)
    }

    /// Packets that were not needed because chunks shared one, over the paths that there are. Each
    /// saves the common header of SCTP and those below it, 40 bytes with IPv4 over UDP.
    pub fn packets_saved(&self) -> u64 {
        let saved =
            |path: &PathStatistics| path.data_chunks_sent.saturating_sub(path.data_packets_sent);
        self.paths.iter().map(saved).sum()
    }
}

/// The retransmission queue: user data that was sent and is kept for a retransmission.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct RetransmissionQueue {
    /// Bytes in it.
    pub bytes: usize,
    /// Most bytes that were ever in it.
    pub peak_bytes: usize,
    /// Its mean in bytes, over the time with something in it, until it changed last.
    pub mean_bytes: f64,
    /// The share of that which the peer had acknowledged by gap ack blocks, 0 to 1: the memory that
    /// NR-SACKs free. Weighted by bytes and time, so that it measures memory; `utilization` is
    /// weighted by time only.
    pub acknowledged_share: f64,
    /// The time with something in it, until it changed last.
    #[cfg_attr(feature = "serde", serde(rename = "time_seconds", with = "seconds"))]
    pub time: Duration,
    /// RtxQ_Util (nat 3.4.2): the mean over that time of the share of the queue that is necessary,
    /// 0 to 1. Data that the peer has acknowledged by gap ack blocks counts as not necessary, which
    /// is true for a receiver that does not renege; `None` while the queue was never used.
    pub utilization: Option<f64>,
    /// The part of `time` in loss recovery (nat 3.4.3): from an acknowledgement with gap ack blocks
    /// to one without that moves the cumulative TSN. If the network reorders, as several concurrent
    /// paths do, this also counts time without loss recovery.
    #[cfg_attr(feature = "serde", serde(rename = "recovery_time_seconds", with = "seconds"))]
    pub recovery_time: Duration,
    /// RtxQ_Util_L (nat 3.4.3): `utilization` over `recovery_time`; `None` without any.
    pub recovery_utilization: Option<f64>,
}

/// How long full buffers held new data back that a congestion window had room for, until something
/// last happened to the association.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct Blocking {
    /// The send buffer is full of sent data, and the user has more (nat 3.2.2, nrsack 3).
    pub send_buffer: Blocked,
    /// The peer's receive window has no room for the next chunk (nat 4.2.2).
    pub receive_window: Blocked,
}

/// How long a buffer held new data back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct Blocked {
    /// How often.
    pub times: u64,
    /// For how long in sum.
    #[cfg_attr(feature = "serde", serde(rename = "time_seconds", with = "seconds"))]
    pub time: Duration,
    /// The part of it in loss recovery, as [`recovery_time`](RetransmissionQueue::recovery_time)
    /// defines it: p of nrsack 5.2.
    #[cfg_attr(feature = "serde", serde(rename = "in_recovery_seconds", with = "seconds"))]
    pub in_recovery: Duration,
    /// The sum of those periods during which T3-rtx expired, or that began before everything
    /// outstanding at an expiry was acknowledged (nat figure 4.16).
    #[cfg_attr(feature = "serde", serde(rename = "with_timeouts_seconds", with = "seconds"))]
    pub with_timeouts: Duration,
}

/// How long messages that do not fill a packet were held back to share one
/// ([`Bundling`](crate::config::Bundling)).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct HeldBack {
    /// How often.
    pub times: u64,
    /// Total time, each period counted from when the first of them could have been sent.
    #[cfg_attr(feature = "serde", serde(rename = "time_seconds", with = "seconds"))]
    pub time: Duration,
}

/// Totals of an association.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct Counters {
    /// Messages given by the user.
    pub messages_sent: u64,
    /// Messages (not parts) handed to the user.
    pub messages_received: u64,
    /// User bytes handed to the user.
    pub message_bytes_received: u64,
    /// DATA chunks received for the first time.
    pub data_chunks_received: u64,
    /// DATA chunks received again.
    pub duplicate_chunks: u64,
    /// DATA chunks accepted out of sequence, because earlier TSNs were missing.
    pub out_of_sequence_chunks: u64,
    /// DATA chunks dropped for lack of room.
    pub dropped_chunks: u64,
    /// DATA chunks dropped after they had been acknowledged by gap ack blocks (reneging).
    pub reneged_chunks: u64,
    /// Chunks that the peer reported missing after it had acknowledged them in gap blocks, as far as
    /// it was believed.
    pub taken_back_chunks: u64,
    /// SACK and NR-SACK chunks sent.
    pub sacks_sent: u64,
    /// SACK and NR-SACK chunks received.
    pub sacks_received: u64,
    /// NR-SACK chunks among them.
    pub nr_sacks_sent: u64,
    /// NR-SACK chunks among them.
    pub nr_sacks_received: u64,
    /// Gap ack blocks in the SACK and NR-SACK chunks received.
    pub gap_blocks_received: u64,
    /// Chunks sent other than DATA: SACKs among them, but neither padding nor timestamps.
    pub control_chunks_sent: u64,
    /// Chunks received other than DATA, without those that are answered before an association
    /// exists (INIT, COOKIE ECHO).
    pub control_chunks_received: u64,
    /// Chunks retransmitted after enough missing reports, or because time proved them lost.
    pub fast_retransmitted_chunks: u64,
    /// Those of them that needed fewer reports than usual (early retransmit).
    pub early_retransmitted_chunks: u64,
    /// Chunks retransmitted as a tail loss probe.
    pub probe_retransmitted_chunks: u64,
    /// Chunks retransmitted after a timeout.
    pub timeout_retransmitted_chunks: u64,
    /// Chunks retransmitted because they cannot have arrived, without a sign of loss: the path MTU
    /// fell, or they probed a window that was closed.
    pub useless_retransmitted_chunks: u64,
    /// Retransmissions that proved to be needless, because the acknowledgement answers an
    /// earlier transmission: with timestamps, or by duplicates where an option has them read.
    pub spurious_retransmissions: u64,
    /// Recoveries that were taken back because all in them was needless.
    pub undone_recoveries: u64,
    /// Those timeouts that F-RTO found to be spurious.
    pub spurious_timeouts: u64,
    /// Tail loss probes sent, with new data or retransmissions.
    pub tail_probes: u64,
    /// Expiries of T3-rtx.
    pub timeouts: u64,
    /// Times that fast recovery was entered.
    pub fast_recoveries: u64,
    /// Probes of a closed receive window.
    pub zero_window_probes: u64,
    /// Packets discarded, for any reason.
    pub packets_discarded: u64,
    /// Expiries of T1-init and T1-cookie after which a chunk of the handshake was sent again.
    pub handshake_retransmissions: u64,
}

/// One path.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct PathStatistics {
    /// Its name, which it keeps and no other path of the association ever has.
    #[cfg_attr(feature = "serde", serde(default))]
    pub id: PathId,
    /// Local address.
    pub local: IpAddr,
    /// Remote address.
    pub remote: IpAddr,
    /// Remote UDP port, 0 without UDP encapsulation.
    pub remote_udp_port: u16,
    /// State.
    pub state: PathState,
    /// The peer has answered on it, or the association was set up on it.
    pub verified: bool,
    /// It is not verified because some host answered that there is no such association: a
    /// translator (NAT) on the way shows the peer another address than the one it was given.
    pub disowned: bool,
    /// Smoothed round-trip time; `None` before the first measurement.
    #[cfg_attr(feature = "serde", serde(rename = "srtt_seconds", with = "seconds::option"))]
    pub srtt: Option<Duration>,
    /// Its variation.
    #[cfg_attr(feature = "serde", serde(rename = "rttvar_seconds", with = "seconds"))]
    pub rttvar: Duration,
    /// Retransmission timeout.
    #[cfg_attr(feature = "serde", serde(rename = "rto_seconds", with = "seconds"))]
    pub rto: Duration,
    /// Congestion window in bytes.
    pub cwnd: usize,
    /// Slow-start threshold in bytes.
    pub ssthresh: usize,
    /// Bytes in flight, chunk headers included.
    pub flight: usize,
    /// Path MTU in bytes of IP packet.
    // req: rfc8899 3 "the PL is RECOMMENDED to provide a primitive"
    // req: rfc8899 4.4 "sent, a PL SHOULD provide applications with a"
    pub mtu: u16,
    /// Errors in a row.
    pub error_count: u32,
    /// Estimated share of packets that the path loses in the forward direction, 0 to 1; `None`
    /// while too little is known.
    pub loss: Option<f64>,
    /// Packets sent.
    pub packets_sent: u64,
    /// Bytes sent, SCTP headers included.
    pub bytes_sent: u64,
    /// Packets received.
    pub packets_received: u64,
    /// Bytes received, SCTP headers included.
    pub bytes_received: u64,
    /// Packets sent that carried DATA chunks.
    pub data_packets_sent: u64,
    /// DATA chunks sent, retransmissions included.
    pub data_chunks_sent: u64,
    /// User bytes sent, retransmissions included.
    pub data_bytes_sent: u64,
    /// User bytes received, duplicates included.
    pub data_bytes_received: u64,
    /// DATA chunks retransmitted on this path.
    pub retransmitted_chunks: u64,
    /// Expiries of T3-rtx.
    pub timeouts: u64,
    /// Most expiries in a row without an acknowledgement of data that the path carried.
    pub longest_timeout_run: u16,
    /// How often a second expiry in a row came, a third, a fourth and a fifth (nat table 4.1); up to
    /// 65,535.
    pub timeout_runs: [u16; 4],
    /// Heartbeats sent.
    pub heartbeats_sent: u64,
    /// Heartbeats acknowledged.
    pub heartbeats_acked: u64,
    /// Packets with an ECN congestion mark received.
    pub ecn_ce_received: u64,
}
