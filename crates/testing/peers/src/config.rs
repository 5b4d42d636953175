//! The configuration of an engine: implementation, role and limits.

use anabranch_proto::config::{Bundling, LossDetection, MetricCache, Reordering, Undo};
use anabranch_proto::congestion::ControllerChoice;
use anabranch_proto::{AssociationConfig, BurstControl, ChunkTypes};

use crate::engine::Engine;
use crate::engines;
use crate::fixed_window::FixedWindow;

/// Limits and timers that all engines share.
#[derive(Clone, Debug)]
pub struct Config {
    /// Largest SCTP packet in bytes, common header included.
    pub packet: usize,
    /// Receive window in bytes.
    pub receive_window: usize,
    /// Maximum number of message bytes that `send` accepts before it refuses.
    pub send_buffer: usize,
    /// Largest message in bytes.
    pub message: usize,
    /// Streams offered in each direction.
    pub streams: u16,
    /// RTO.Min in milliseconds. rtc-sctp has a fixed 1000 and ignores it.
    pub rto_min: u64,
    /// Number of addresses on either side, 1 to 16. Only anabranch supports more than one.
    pub paths: u8,
    /// Whether to interleave messages (RFC 8260) if the other side wants that, too. Only dcsctp heeds it; anabranch
    /// has [`Tuning::Interleaved`].
    pub interleaving: bool,
    /// Options that only anabranch has.
    pub anabranch: Tuning,
}

/// Options that only anabranch has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tuning {
    /// Its own defaults.
    Default,
    /// The defaults without pacing: everything that cwnd allows is sent immediately, as in the other engines.
    Unpaced,
    /// The same with all options that detect and undo losses of thin flows, and all that bundle and cache. No
    /// timestamps, because they add bytes to each packet.
    RecoveryOn,
    /// The same without any of these options.
    RecoveryOff,
    /// The defaults without pacing, with interleaving (RFC 8260).
    Interleaved,
    /// The defaults without pacing and without any extension that the two sides negotiate.
    NoExtensions,
    /// The defaults without pacing, with authentication (RFC 4895, SHA-256) of requests, but not of data.
    AuthenticatedRequests,
    /// The same with authentication of all data.
    AuthenticatedData,
    /// Strictly RFC 9260.
    Rfc9260,
    /// The same with multiple fast retransmit.
    Rfc9260MultipleFastRetransmit,
    /// A congestion window that stays at the receive window whatever is lost, to see the cost of a
    /// window.
    FixedWindow,
}

impl Tuning {
    pub(crate) fn association(self, config: &Config) -> AssociationConfig {
        match self {
            Tuning::Default => AssociationConfig::default(),
            Tuning::Unpaced => {
                let mut options = AssociationConfig::default();
                options.congestion.burst = BurstControl::Unlimited;
                options
            }
            Tuning::RecoveryOn => {
                let mut options = Tuning::Unpaced.association(config);
                let recovery = &mut options.recovery;
                recovery.early_retransmit = true;
                recovery.rto_restart = true;
                recovery.f_rto = true;
                recovery.tail_probe = true;
                recovery.loss_detection = LossDetection::TimeThreshold;
                recovery.reordering = Reordering::Adaptive;
                recovery.undo = Undo::Duplicates;
                options.sending.bundling = Bundling::Prompt;
                options.paths.metric_cache = MetricCache::Informed;
                options
            }
            Tuning::RecoveryOff => {
                let mut options = Tuning::Unpaced.association(config);
                let recovery = &mut options.recovery;
                recovery.f_rto = false;
                recovery.tail_probe = false;
                recovery.loss_detection = LossDetection::PacketThreshold;
                recovery.undo = Undo::Off;
                options
            }
            Tuning::Interleaved => {
                let mut options = Tuning::Unpaced.association(config);
                options.sending.interleaving = true;
                options
            }
            Tuning::NoExtensions => {
                let mut options = Tuning::Unpaced.association(config);
                options.sending.partial_reliability = false;
                options.sending.stream_reconfiguration = false;
                options
            }
            Tuning::AuthenticatedRequests | Tuning::AuthenticatedData => {
                let mut options = Tuning::Unpaced.association(config);
                let data = self == Tuning::AuthenticatedData;
                // DATA, or RE-CONFIG.
                let chunks: &[u8] = if data { &[0] } else { &[130] };
                options.authentication.authentication = true;
                options.authentication.authenticated_chunks = ChunkTypes::of(chunks);
                options
            }
            Tuning::Rfc9260 => AssociationConfig::rfc9260(),
            Tuning::Rfc9260MultipleFastRetransmit => {
                let mut options = AssociationConfig::rfc9260();
                options.recovery.multiple_fast_retransmit = true;
                options
            }
            Tuning::FixedWindow => {
                let mut options = Tuning::Unpaced.association(config);
                options.controller = ControllerChoice::new(FixedWindow(config.receive_window));
                options
            }
        }
    }
}

impl Default for Config {
    /// The settings of the in-memory figures: packets up to 1452 bytes, a window of 1 MiB, an RTO.Min of 1 s.
    fn default() -> Self {
        Config {
            packet: 1452,
            receive_window: 1 << 20,
            send_buffer: 2 << 20,
            message: 1 << 20,
            streams: 1024,
            rto_min: 1000,
            paths: 1,
            interleaving: false,
            anabranch: Tuning::Unpaced,
        }
    }
}

/// The role of an engine in the handshake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Sends INIT.
    Client,
    /// Answers it.
    Server,
}

/// The available engines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// This project.
    Anabranch,
    /// rtc-sctp, of the WebRTC stack `rtc`.
    RtcSctp,
    /// dcsctp, by the authors of the C++ library of that name.
    DcSctp,
    /// sctp-proto, of the WebRTC stack `str0m`.
    SctpProto,
}

impl Kind {
    /// Every engine.
    pub const ALL: [Kind; 4] = [Kind::Anabranch, Kind::RtcSctp, Kind::DcSctp, Kind::SctpProto];

    /// The engine's name.
    pub const fn name(self) -> &'static str {
        match self {
            Kind::Anabranch => "anabranch",
            Kind::RtcSctp => "rtc-sctp",
            Kind::DcSctp => "dcsctp",
            Kind::SctpProto => "sctp-proto",
        }
    }

    /// Creates an association of this engine.
    pub fn build(self, config: &Config, role: Role) -> Box<dyn Engine> {
        match self {
            Kind::Anabranch => Box::new(engines::anabranch::Anabranch::new(config, role)),
            Kind::RtcSctp => Box::new(engines::rtc_sctp::RtcSctp::new(config, role)),
            Kind::DcSctp => Box::new(engines::dcsctp::DcSctp::new(config, role)),
            Kind::SctpProto => Box::new(engines::sctp_proto::SctpProto::new(config, role)),
        }
    }
}
