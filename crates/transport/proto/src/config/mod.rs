//! Options of endpoints and associations, and the profiles that set all of them.
//!
//! Options of associations are grouped into sections, which the mechanisms declare. All options have
//! names, by which programs, scenarios, scripts and other languages read and set them:
//! [`AssociationConfig::set`], [`AssociationConfig::options`].

mod by_name;
mod endpoint;
mod profiles;
mod sysctl;

pub use anabranch_units as units;

pub use crate::authentication::{
    AuthenticationConfig, ChunkTypes, HmacAlgorithm, KeyError, SharedKeys,
};
use crate::congestion::ControllerChoice;
use crate::encapsulation::Headers;
use crate::features::{Features, features};
use crate::path;
use crate::receive::delayed_ack::Acknowledger;
pub use by_name::{OptionInfo, SetError};
pub use endpoint::{EndpointConfig, IpVersions, OutOfTheBlue, Routes};

pub use crate::congestion::{
    BurstControl, CongestionConfig, CongestionControl, Coupling, IdleCwnd, InitialCwnd, SlowStart,
};
pub use crate::encapsulation::Encapsulation;
pub use crate::named::UnknownName;
pub use crate::options::{ConfigError, Kind};
pub use crate::path::{MtuConfig, RtoFloor, TimerConfig};
pub use crate::policy::{
    AddressConfig, ClassPaths, DataPath, DormantBehaviour, Handover, HeartbeatRetry,
    InitiationOrder, MetricCache, MultipathConfig, MultipathMode, NewPathWindow, PathChoice,
    PathConfig, ProtocolUnreachable, RetransmissionPolicy, RetransmissionPrecedence, SlowPaths,
    Vigilance,
};
pub use crate::receive::{AckConfig, ReceiveConfig};
pub use crate::recovery::{LossDetection, RecoveryConfig, Reordering, Undo};
pub use crate::revision::Revision;
pub use crate::send::{Bundling, Pieces, SchedulerKind, SendConfig};

/// Options of an association. `Default` is for bulk and interactive use over the Internet. The RFCs'
/// own values are [`rfc9260`](Self::rfc9260), [`rfc4960`](Self::rfc4960) and
/// [`rfc2960`](Self::rfc2960).
///
/// Fields have the name of the protocol parameter in RFC 9260 section 16, if there is one. They can
/// be set one by one, in an expression ([`with`](Self::with)), or by name ([`set`](Self::set)).
///
/// ```
/// use anabranch_proto::AssociationConfig;
///
/// let mut config = AssociationConfig::profile("signalling").unwrap();
/// config.set("rto-min", "200ms").unwrap();
/// assert!(config.validate().is_ok());
/// assert!(config.set("rto-min", "soon").is_err());
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct AssociationConfig {
    /// Which RFC applies where they differ in rules without an option.
    pub revision: Revision,
    /// Adaptation Layer Indication to announce (RFC 5061 section 4.2.6).
    pub adaptation_indication: Option<u32>,
    /// Retransmission timer, heartbeats, and the end of idle associations.
    pub timers: TimerConfig,
    /// When a path fails, and where data goes then.
    pub paths: PathConfig,
    /// How much may be in flight, and how it is sent.
    pub congestion: CongestionConfig,
    /// The congestion controllers of its paths; RFC 9260's unless the user supplies others.
    pub controller: ControllerChoice,
    /// Loss detection and recovery.
    pub recovery: RecoveryConfig,
    /// New data on several paths at the same time.
    pub multipath: MultipathConfig,
    /// When and how data is acknowledged.
    pub acknowledging: AckConfig,
    /// Buffers and limits of the receiver.
    pub receiving: ReceiveConfig,
    /// How messages become packets.
    pub sending: SendConfig,
    /// Path MTU discovery.
    pub mtu: MtuConfig,
    /// Addresses that come and go.
    pub addresses: AddressConfig,
    /// Which chunks are authenticated.
    pub authentication: AuthenticationConfig,
    /// The secrets for that. Both sides need the same. They can change while an association is up
    /// ([`Association::reconfigure`](crate::Association::reconfigure)): first both sides add a new one, then they activate
    /// it, and then they delete the old one.
    pub keys: SharedKeys,
}

impl AssociationConfig {
    /// Returns these options after `change`, for use in expressions.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// use anabranch_proto::config::{AssociationConfig, SchedulerKind};
    ///
    /// let config = AssociationConfig::rfc9260().with(|config| {
    ///     config.timers.rto_min = Duration::from_millis(200);
    ///     config.sending.scheduler = SchedulerKind::RoundRobin;
    /// });
    /// assert!(config.validate().is_ok());
    /// ```
    #[must_use]
    pub fn with(mut self, change: impl FnOnce(&mut Self)) -> Self {
        change(&mut self);
        self
    }

    /// Returns these options with concurrent multipath transfer, and the options that go with it:
    /// retransmissions use the path with the largest slow-start threshold (RTX-SSTHRESH), chunks that
    /// wait for one path do not hold up the others, and with CMT-PF a path is potentially failed at
    /// its first timeout; CMT does not use that state.
    #[must_use]
    pub fn with_multipath(mut self, mode: MultipathMode) -> Self {
        self.multipath.mode = mode;
        if mode == MultipathMode::Off {
            return self;
        }
        self.paths.retransmission = RetransmissionPolicy::RtxSsthresh;
        self.paths.retransmission_precedence = RetransmissionPrecedence::SamePath;
        self.recovery.one_packet_after_timeout = false;
        let is_pf = mode == MultipathMode::CmtPf;
        self.paths.potentially_failed_max_retrans = is_pf.then_some(0);
        self
    }

    /// The component that decides when a new association acknowledges.
    pub(crate) fn acknowledger(&self) -> Acknowledger {
        Acknowledger::new(
            &self.acknowledging,
            self.multipath.is_on() && self.multipath.delayed_acks,
        )
    }

    /// The parameters of a new path.
    pub(crate) fn of_path(&self, headers: impl Into<Headers>) -> path::Setup<'_> {
        path::Setup {
            headers: headers.into(),
            revision: self.revision,
            timers: &self.timers,
            congestion: &self.congestion,
            controller: &self.controller,
            coupled: self.is_coupled(),
            mtu: &self.mtu,
        }
    }

    /// The options of concurrent multipath transfer, if it is enabled.
    pub fn concurrent(&self) -> Option<MultipathConfig> {
        self.multipath.is_on().then_some(self.multipath)
    }

    /// Whether the latency of paths decides where data goes, so that paths without data are measured.
    pub(crate) fn needs_latencies(&self) -> bool {
        let class = self.paths.class_paths == ClassPaths::LowestLatency;
        self.paths.data_path == DataPath::LowestLatency
            || self.paths.copies_up_to.is_some()
            || (class && self.paths.class_from.is_some())
    }

    /// Whether losses are detected for each path separately, because data on several paths overtakes other data.
    pub(crate) fn judges_by_path(&self) -> bool {
        self.multipath.is_on() || self.needs_latencies() || self.paths.class_from.is_some()
    }

    /// Whether a coupling changes how the windows of the paths grow.
    fn is_coupled(&self) -> bool {
        self.multipath.is_on() && self.multipath.coupling != Coupling::Uncoupled
    }

    /// The congestion control that these options choose; never [`CongestionControl::Usual`].
    pub fn congestion_control(&self) -> CongestionControl {
        self.congestion.congestion_control.meant(self.is_coupled())
    }

    /// Checks every option against its bounds, and those that depend on each other.
    ///
    /// # Errors
    /// The first option that is out of range.
    pub fn validate(&self) -> Result<(), ConfigError> {
        self.validate_rows()?;
        let check = |ok: bool, option: &'static str, expected: &str| {
            if ok { Ok(()) } else { Err(ConfigError::new(option, expected)) }
        };
        let timers = &self.timers;
        check(timers.rto_min <= timers.rto_max, "rto_min", "must not exceed rto_max")?;
        check(
            (timers.rto_min..=timers.rto_max).contains(&timers.rto_initial),
            "rto_initial",
            "must lie between rto_min and rto_max",
        )?;
        // req: rfc7829 5 "the PSMR MUST be set greater than or equal to the PFMR value"
        // req: rfc7829 5 "MUST reject any other values of PSMR"
        let paths = &self.paths;
        check(
            paths.change_primary_threshold >= paths.potentially_failed_max_retrans
                || paths.change_primary_threshold.is_none(),
            "change_primary_threshold",
            "must not be below potentially_failed_max_retrans",
        )?;
        check(
            match self.congestion_control() {
                CongestionControl::Rfc9260 => true,
                CongestionControl::Cubic => self.multipath.coupling == Coupling::Lia,
                _ => false,
            } || !self.is_coupled(),
            "congestion_control",
            "must be rfc9260, or cubic with lia, where a coupling changes how its windows grow",
        )?;
        check(
            !self.congestion.congestion_control.is_bbr()
                || self.congestion.slow_start == SlowStart::Usual,
            "slow_start",
            "must be usual with the congestion controls bbr and bbr-lossy, which have a start of their own",
        )?;
        let authentication = &self.authentication;
        check(
            authentication.authentication || !authentication.require_authentication,
            "require_authentication",
            "must be off without authentication",
        )?;
        let addresses = &self.addresses;
        check(
            authentication.authentication || !addresses.address_reconfiguration,
            "address_reconfiguration",
            "must be off without authentication",
        )?;
        check(
            addresses.address_reconfiguration || !addresses.roam,
            "roam",
            "must be off without address_reconfiguration",
        )?;
        check(self.mtu.max >= self.mtu.base, "mtu_max", "must not be below mtu_base")
    }

    /// The chunks that this side accepts only if they are authenticated: with address reconfiguration also ASCONF and
    /// ASCONF-ACK.
    // req: rfc5061 4.2.7 "extension MUST list the ASCONF,the ASCONF-ACK, and the AUTH chunks in"
    pub(crate) fn authenticated_chunks(&self) -> ChunkTypes {
        let mut chunks = self.authentication.authenticated_chunks;
        if self.features().has(Features::ADDRESS_RECONFIGURATION) {
            chunks.insert(anabranch_wire::kind::ASCONF);
            chunks.insert(anabranch_wire::kind::ASCONF_ACK);
        }
        chunks
    }
}

/// Reads the column `wanted by` of the table of features.
macro_rules! wanted {
    ($($(#[$doc:meta])* $feature:ident = $bit:literal, $name:literal,
        wanted by $section:ident.$option:ident { $($row:tt)* })*) => {
        impl AssociationConfig {
            /// The features that these options request.
            // req: rfc5061 4.2.7 "The sender MUST support both the sending and"
            pub(crate) fn features(&self) -> Features {
                let all = [$((Features::$feature, self.$section.$option),)*];
                let wanted = all.into_iter().filter(|(_, is_wanted)| *is_wanted);
                wanted.fold(Features::NONE, |set, (feature, _)| set | feature).consistent()
            }
        }
    };
}

features!(wanted);

#[cfg(test)]
mod tests;
