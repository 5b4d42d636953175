//! Options of associations.

use std::time::Duration;

use anabranch_proto::config::{IdleCwnd, InitialCwnd};
use anabranch_proto::{
    AssociationConfig, BurstControl, Coupling, DormantBehaviour, HeartbeatRetry, InitiationOrder,
    LossDetection, MultipathMode, PathChoice, ProtocolUnreachable, RetransmissionPolicy,
    RetransmissionPrecedence, Revision, SchedulerKind,
};

use super::Draw;

/// Options of one end: every policy and profile that the engine has.
pub(super) fn association(d: &mut Draw) -> AssociationConfig {
    let mut config = match d.between(0, 5) {
        0 => AssociationConfig::rfc2960(),
        1 => AssociationConfig::rfc4960(),
        2 => AssociationConfig::rfc9260(),
        _ => AssociationConfig::default(),
    };
    if d.one_in(2) {
        config.timers.rto_min = d.millis(1, 2000);
        config.timers.rto_max = config.timers.rto_min + d.millis(200, 60_000);
        let room = (config.timers.rto_max - config.timers.rto_min).as_micros() as u64;
        config.timers.rto_initial =
            config.timers.rto_min + Duration::from_micros(d.0.below(room + 1));
    }
    if d.one_in(3) {
        config.timers.heartbeat_interval = d.of(&[
            None,
            Some(Duration::from_millis(10)),
            Some(Duration::from_secs(1)),
            Some(Duration::from_secs(5)),
        ]);
    }
    if d.one_in(2) {
        config.paths.path_max_retrans = d.between(0, 6) as u32;
        config.paths.association_max_retrans = d.between(2, 20) as u32;
        config.paths.max_init_retransmits = d.between(2, 20) as u32;
    }
    if d.one_in(2) {
        config.acknowledging.sack_delay = Duration::from_millis(d.between(0, 500));
        config.acknowledging.sack_frequency = d.of(&[1, 2, 2, 3, 10]);
    }
    if d.one_in(2) {
        config.congestion.burst = d.of(&[
            BurstControl::MaxBurst(1),
            BurstControl::MaxBurst(4),
            BurstControl::MaxBurstCutsCwnd(4),
            BurstControl::MaxBurstCutsCwnd(1),
            BurstControl::Pacing { quantum: 1 },
            BurstControl::Pacing { quantum: 10 },
            BurstControl::Unlimited,
        ]);
    }
    if d.one_in(3) {
        config.congestion.initial_cwnd =
            d.of(&[InitialCwnd::Mtus(1), InitialCwnd::Mtus(100), InitialCwnd::Bytes(4404)]);
        config.congestion.idle_cwnd =
            d.of(&[IdleCwnd::HalvePerRto, IdleCwnd::HalvePerRtoToTwo, IdleCwnd::Keep]);
        config.congestion.min_ssthresh_mtus = d.between(1, 10) as u32;
        config.congestion.slow_start_limit_mtus = d.between(1, 10) as u32;
    }
    if d.one_in(2) {
        config.recovery.loss_detection =
            d.of(&[LossDetection::MissingReports, LossDetection::PacketThreshold]);
        config.recovery.missing_reports = d.of(&[1, 2, 3, 3, 4, 10]);
        config.recovery.multiple_fast_retransmit = d.one_in(2);
    }
    if d.one_in(2) {
        config.paths.retransmission = d.of(&[
            RetransmissionPolicy::AllRtxSame,
            RetransmissionPolicy::AllRtxAlt,
            RetransmissionPolicy::FrSameRtoAlt,
        ]);
        config.paths.dormant =
            d.of(&[DormantBehaviour::LastDest, DormantBehaviour::Primary, DormantBehaviour::Hop]);
        config.paths.hb_max_burst = d.between(1, 4) as u32;
    }
    if d.one_in(2) {
        config.paths.retransmission_precedence = d.of(RetransmissionPrecedence::ALL);
        config.recovery.one_packet_after_timeout = d.one_in(3);
        config.paths.heartbeat_after_rto = d.one_in(2);
        config.paths.heartbeat_retry = d.of(&[HeartbeatRetry::Interval, HeartbeatRetry::AtOnce]);
        config.recovery.credit_retransmissions = d.one_in(2);
        config.paths.change_primary_threshold = d.of(&[None, None, Some(0), Some(1), Some(5)]);
        config.paths.informed_failover = d.one_in(3);
        config.paths.loss_probe_interval = d.millis(10, 10_000);
        config.revision = d.of(&[Revision::Rfc2960, Revision::Rfc4960, Revision::Rfc9260]);
    }
    if d.one_in(3) {
        config.paths.protocol_unreachable =
            d.of(&[ProtocolUnreachable::Aborts, ProtocolUnreachable::AbortsWhenRepeated]);
    }
    config.recovery.timestamps = d.one_in(2);
    config.paths.initiation = d.of(InitiationOrder::ALL);
    config.sending.outbound_streams = d.of(&[1, 2, 10, 64, 1024, 65_535]);
    config.receiving.inbound_streams = d.of(&[1, 2, 10, 1024, 65_535]);
    config.sending.scheduler =
        d.of(&[SchedulerKind::Fifo, SchedulerKind::RoundRobin, SchedulerKind::Priority]);
    config.receiving.receive_buffer = d.scale(1500, 1 << 20) as usize;
    config.sending.send_buffer = d.scale(1, 1 << 20) as usize;
    if d.one_in(4) {
        config.sending.stream_send_buffer = d.scale(1, 1 << 16) as usize;
    }
    if d.one_in(3) {
        config.receiving.partial_delivery_point = d.scale(1, 1 << 18) as usize;
    }
    config.sending.fill_packets = d.one_in(2);
    config.sending.nagle = d.one_in(4);
    if d.one_in(3) {
        config.mtu.discovery = d.one_in(2);
        config.mtu.base = d.of(&[576, 600, 1200, 1280]);
        config.mtu.max = d.of(&[1280, 1400, 1500, 9000]);
    }
    if d.one_in(4) {
        config.mtu.raise_interval = d.millis(100, 60_000);
    }
    if d.one_in(8) {
        config.adaptation_indication = Some(d.0.below(1 << 32) as u32);
    }
    if d.one_in(12) {
        config.timers.autoclose = Some(d.millis(100, 60_000));
    }
    config
}

/// Potentially failed paths, off in most runs. They have draws of their own, so that seeds from
/// before there were any stand for what they did.
pub(super) fn potentially_failed(d: &mut Draw, configs: &mut [AssociationConfig; 2]) {
    if !d.one_in(4) {
        return;
    }
    for config in configs {
        config.paths.potentially_failed_max_retrans =
            d.of(&[None, Some(0), Some(0), Some(1), Some(3)]);
        let least = config.paths.potentially_failed_max_retrans.unwrap_or(0);
        config.paths.change_primary_threshold =
            config.paths.change_primary_threshold.map(|cpt| cpt.max(least));
        if d.one_in(3) {
            config.paths.dormant = DormantBehaviour::FewestErrors;
        }
    }
}

/// NR-SACKs in half of the runs, with few ends that do not want them; and receivers that renege in
/// a third.
pub(super) fn acknowledgements(d: &mut Draw, configs: &mut [AssociationConfig; 2]) {
    if d.one_in(2) {
        for config in configs.iter_mut() {
            config.acknowledging.nr_sack = !d.one_in(5);
        }
    }
    if d.one_in(3) {
        for config in configs {
            config.receiving.never_renege = d.one_in(4);
        }
    }
}

/// Receive windows below the size of a packet, in an eighth of the runs.
pub(super) fn small_windows(d: &mut Draw, configs: &mut [AssociationConfig; 2]) {
    if !d.one_in(8) {
        return;
    }
    for config in configs {
        config.mtu.discovery = true;
        config.mtu.base = 1280;
        config.mtu.max = 9000;
        config.receiving.receive_buffer = d.scale(1500, 9000) as usize;
    }
}

/// Concurrent multipath transfer in a third of the runs, at either end or both, with all that it can be
/// combined with.
pub(super) fn multipath(d: &mut Draw, configs: &mut [AssociationConfig; 2]) {
    if !d.one_in(3) {
        return;
    }
    for config in configs {
        let mode = d.of(&[MultipathMode::Off, MultipathMode::Cmt, MultipathMode::Cmt]);
        if mode != MultipathMode::Off {
            concurrent(d, config, mode);
        }
    }
}

/// Concurrent multipath transfer at both ends.
pub(super) fn all_paths(d: &mut Draw, configs: &mut [AssociationConfig; 2]) {
    for config in configs {
        concurrent(d, config, MultipathMode::Cmt);
    }
}

fn concurrent(d: &mut Draw, config: &mut AssociationConfig, mode: MultipathMode) {
    // What a path that may have failed means was drawn before.
    *config = config.clone().with_multipath(mode);
    config.paths.retransmission = d.of(RetransmissionPolicy::ALL);
    config.paths.retransmission_precedence = d.of(RetransmissionPrecedence::ALL);
    config.recovery.one_packet_after_timeout = d.one_in(8);
    let multipath = &mut config.multipath;
    multipath.path_choice = d.of(PathChoice::ALL);
    multipath.coupling = d.of(Coupling::ALL);
    multipath.buffer_split = d.one_in(2);
    multipath.delayed_acks = !d.one_in(3);
    multipath.recovered_cwnd_mtus = d.of(&[1, 2, 2, 10]);
}
