//! Profiles, which set all options: the recommendations of the RFCs, and those of two decades of practice.

use super::{AssociationConfig, BurstControl, HeartbeatRetry, InitialCwnd, ProtocolUnreachable};
use crate::congestion::{CongestionControl, ControllerChoice, IdleCwnd};
use crate::path::RtoFloor;
use crate::policy::{RetransmissionPolicy, SlowPaths};
use crate::recovery::{LossDetection, Undo};
use crate::revision::Revision;
use crate::send::{Bundling, SchedulerKind};
use std::time::Duration;

/// The profiles, by their names.
type Profile = (&'static str, fn() -> AssociationConfig);

impl AssociationConfig {
    /// The profiles by name: first [`Default`], then those of the RFCs, then small variations of the first for
    /// particular purposes.
    pub const PROFILES: &'static [Profile] = &[
        ("default", Self::default),
        ("rfc9260", Self::rfc9260),
        ("rfc4960", Self::rfc4960),
        ("rfc2960", Self::rfc2960),
        ("bulk", Self::bulk),
        ("signalling", Self::signalling),
        ("web", Self::web),
    ];

    /// [`Default`] for few large transfers, with CUBIC. Buffers fill a path of 1 Gb/s over 60 ms from the start, and grow
    /// for one of 500 ms. Small messages share packets, which may delay the second of two by up to a round trip.
    pub fn bulk() -> Self {
        let mut config = Self::default();
        // exempt: rfc9260 7.2 "MUST NOT be more aggressive than the following" this grows as CUBIC does (RFC 9438), and so does the TCP next to it; `rfc9260` keeps to the letter
        config.congestion.congestion_control = CongestionControl::Usual;
        config.sending.send_buffer = 64 << 20;
        config.sending.send_buffer_start = Some(8 << 20);
        config.receiving.receive_buffer = 64 << 20;
        config.receiving.receive_buffer_start = Some(8 << 20);
        config.sending.bundling = Bundling::Prompt;
        config
    }

    /// [`Default`] for a few small, urgent messages at a time. They do not wait to share a packet; acknowledgements are
    /// delayed by at most 20 ms, so the peer detects losses early; and idle paths are probed every five seconds.
    pub fn signalling() -> Self {
        let mut config = Self::default();
        config.sending.bundling = Bundling::None;
        config.sending.fill_packets = false;
        config.acknowledging.sack_delay = Duration::from_millis(20);
        config.timers.heartbeat_interval = Some(Duration::from_secs(5));
        config
    }

    /// [`Default`] for the objects of web pages on separate streams, with CUBIC. Streams alternate, and the small ends of
    /// messages share packets.
    pub fn web() -> Self {
        let mut config = Self::default();
        config.congestion.congestion_control = CongestionControl::Usual;
        config.sending.scheduler = SchedulerKind::RoundRobin;
        config.sending.bundling = Bundling::Prompt;
        config
    }

    /// Exactly RFC 9260, with the values of its section 16.
    // req: rfc9260 16 "The following protocol parameters are RECOMMENDED"
    pub fn rfc9260() -> Self {
        Self {
            revision: Revision::Rfc9260,
            adaptation_indication: None,
            controller: ControllerChoice::default(),
            timers: Default::default(),
            paths: Default::default(),
            congestion: Default::default(),
            recovery: Default::default(),
            multipath: Default::default(),
            acknowledging: Default::default(),
            receiving: Default::default(),
            sending: Default::default(),
            mtu: Default::default(),
            addresses: super::AddressConfig::default(),
            authentication: Default::default(),
            keys: Default::default(),
        }
    }

    /// RFC 4960 with RTO.Initial of 3 s. Choices that the RFC leaves open are those of the multihoming studies with
    /// which results are compared (caro 2.6.1, 3.3.7).
    pub fn rfc4960() -> Self {
        let mut config = Self { revision: Revision::Rfc4960, ..Self::rfc9260() };
        config.recovery.one_packet_after_timeout = true;
        config.recovery.credit_retransmissions = true;
        config.paths.heartbeat_retry = HeartbeatRetry::AtOnce;
        config.timers.rto_initial = Duration::from_secs(3);
        config.congestion.initial_cwnd = InitialCwnd::Bytes(4380);
        config.congestion.burst = BurstControl::MaxBurstCutsCwnd(4);
        config
    }

    /// RFC 2960: four missing reports, initial cwnd and minimum ssthresh of two MTU, and all retransmissions on an
    /// alternate path. The RFC has no Max.Burst; here it limits bursts, as in the study's simulator, but does not
    /// change cwnd.
    pub fn rfc2960() -> Self {
        let mut config = Self { revision: Revision::Rfc2960, ..Self::rfc4960() };
        config.congestion.initial_cwnd = InitialCwnd::Mtus(2);
        config.congestion.min_ssthresh_mtus = 2;
        config.congestion.idle_cwnd = IdleCwnd::HalvePerRtoToTwo;
        config.congestion.burst = BurstControl::MaxBurst(4);
        config.recovery.missing_reports = 4;
        config.paths.retransmission = RetransmissionPolicy::AllRtxAlt;
        config
    }

    /// Returns the profile of this name, if there is one: `default`, `bulk`, `signalling`, `web`, `rfc9260`, `rfc4960`
    /// or `rfc2960`.
    pub fn profile(name: &str) -> Option<Self> {
        let (_, profile) = Self::PROFILES.iter().find(|(known, _)| *known == name)?;
        Some(profile())
    }
}

impl Default for AssociationConfig {
    /// RFC 9260 with two decades of practice: pacing instead of Max.Burst; an initial window of ten
    /// packets; loss detection by time and by probes (RACK-TLP) with undo of spurious losses; immediate probes of
    /// failed paths; packets filled with fragments; buffers that grow with what the paths carry; partial reliability;
    /// stream reconfiguration; no trust in ICMP that contradicts packets of the peer; failover at the first timeout,
    /// which comes after 300 ms and a round trip; and immediate checks when something looks wrong
    /// ([`Vigilance`](super::Vigilance)).
    fn default() -> Self {
        let mut config = Self::rfc9260();
        // With a minimum RTO of 300 ms above the SRTT, a path that is cut costs 0.3 s and a round trip, and an
        // acknowledgement that a peer delays by 200 ms does not look like a loss (docs/cuts.md has the measurements).
        // exempt: rfc9260 16 "The following protocol parameters are RECOMMENDED" these defaults have an RTO.Min of 300 ms, counted above the smoothed round-trip time; `rfc9260` keeps to the letter
        config.timers.rto_min = Duration::from_millis(300);
        config.timers.rto_floor = RtoFloor::AboveSrtt;
        // If the round trip exceeds RTO.Initial, the handshake is sent twice and gives no measurement. Without this
        // option the first data would be sent twice as well, and the window would shrink.
        config.timers.rto_slow_handshake = Some(Duration::from_secs(3));
        // req: rfc7829 6 "The following protocol parameter is RECOMMENDED"
        // req: rfc7829 3.2 "The RECOMMENDED value of PFMR is 0"
        config.paths.potentially_failed_max_retrans = Some(0);
        config.paths.vigilance = Some(Duration::from_secs(2));
        config.congestion.burst = BurstControl::Pacing { quantum: 16 };
        // exempt: rfc9260 7.2 "MUST NOT be more aggressive than the following" these defaults begin with ten packets as TCP does (RFC 6928); `rfc9260` keeps to the letter
        config.congestion.initial_cwnd = InitialCwnd::Mtus(10);
        config.congestion.slow_start_limit_mtus = 8;
        // exempt: rfc9260 7.2.1 "adjustment, the ssthresh of the transport address SHOULD" with an initial window of ten packets that would end slow start on every path that was quiet before it was used; these defaults follow RFC 7661, `rfc9260` keeps to the letter
        config.congestion.idle_cwnd = IdleCwnd::WindowValidation;
        // exempt: rfc9260 7.2.3 "SCTP SHOULD perform slow start by" the further timeouts of one outage leave ssthresh alone in these defaults, as RFC 5681 section 3.1 has it; `rfc9260` keeps to the letter
        config.congestion.hold_ssthresh = true;
        // RFC 6356 section 2: a second path must not cost anything.
        config.multipath.slow_paths = SlowPaths::InTime;
        // In every row of docs/timeliness.md, RACK-TLP detected losses of thin flows earlier than missing reports and
        // the timer did, and it does not mistake reordering for loss.
        // exempt: rfc9260 7.2.4 "SHOULD wait for two further miss indications" these defaults judge by time as well (RFC 8985); `rfc9260` keeps to the letter
        config.recovery.loss_detection = LossDetection::TimeThreshold;
        config.recovery.tail_probe = true;
        config.recovery.undo = Undo::Duplicates;
        config.recovery.f_rto = true;
        config.recovery.multiple_fast_retransmit = true;
        config.paths.heartbeat_retry = HeartbeatRetry::AtOnce;
        // exempt: rfc9260 10 "MUST treat this message as an abort with" these defaults wait for a second one, because hosts send it for packets that found the raw socket of their SCTP full; `rfc9260` keeps to the letter
        config.paths.protocol_unreachable = ProtocolUnreachable::AbortsWhenRepeated;
        // Enough for 1 Gb/s over 100 ms. As the kernel's TCP does it, an association that needs less has less.
        config.receiving.receive_buffer = 16 << 20;
        config.receiving.receive_buffer_start = Some(1 << 20);
        config.sending.send_buffer = 16 << 20;
        config.sending.send_buffer_start = Some(1 << 20);
        config.sending.fill_packets = true;
        config.sending.partial_reliability = true;
        config.sending.stream_reconfiguration = true;
        config
    }
}
