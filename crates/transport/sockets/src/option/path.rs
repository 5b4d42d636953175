//! Path options. The engine has one value for all paths of an association.

use std::time::Duration;

use anabranch_proto::AssociationConfig;

use super::{AssociationOption, Setting};

/// SCTP_PEER_ADDR_PARAMS (RFC 6458 section 8.1.12).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PathParameters {
    /// The interval between heartbeats on an idle path.
    pub heartbeats: Setting<Duration>,
    /// Retransmissions in a row after which a path fails.
    pub max_retrans: Option<u32>,
    /// The path MTU.
    pub mtu: PathMtu,
    /// Maximum delay of an acknowledgement; `Off` means no delay.
    pub sack_delay: Setting<Duration>,
}

/// How to determine the path MTU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum PathMtu {
    /// Unchanged.
    #[default]
    Keep,
    /// By probing.
    Discover,
    /// Not probed: bytes of an IP packet; `None` keeps the current value.
    Fixed(Option<u16>),
}

impl AssociationOption for PathParameters {
    fn apply(&self, config: &mut AssociationConfig) {
        self.heartbeats.apply(&mut config.timers.heartbeat_interval);
        if let Some(errors) = self.max_retrans {
            config.paths.path_max_retrans = errors;
        }
        match self.mtu {
            PathMtu::Keep => {}
            PathMtu::Discover => config.mtu.discovery = true,
            PathMtu::Fixed(mtu) => {
                config.mtu.discovery = false;
                if let Some(mtu) = mtu {
                    (config.mtu.base, config.mtu.max) = (mtu, mtu);
                }
            }
        }
        match self.sack_delay {
            Setting::Keep | Setting::On(None) => {}
            Setting::Off => config.acknowledging.sack_delay = Duration::ZERO,
            Setting::On(Some(delay)) => config.acknowledging.sack_delay = delay,
        }
    }

    fn of(config: &AssociationConfig) -> Self {
        let delay = config.acknowledging.sack_delay;
        let discovers = config.mtu.discovery;
        Self {
            heartbeats: Setting::of(config.timers.heartbeat_interval),
            max_retrans: Some(config.paths.path_max_retrans),
            mtu: if discovers { PathMtu::Discover } else { PathMtu::Fixed(Some(config.mtu.base)) },
            sack_delay: Setting::of((!delay.is_zero()).then_some(delay)),
        }
    }
}

/// SCTP_PEER_ADDR_THLDS (RFC 7829 section 7.2): retransmissions in a row that change the state of a path.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PathThresholds {
    /// The path fails.
    pub max_retrans: Option<u32>,
    /// The path becomes potentially failed. Off: it never does.
    pub potentially_failed: Setting<u32>,
    /// Another path becomes the primary path. Off: none does. At least `potentially_failed`.
    pub change_primary: Setting<u32>,
}

impl AssociationOption for PathThresholds {
    fn apply(&self, config: &mut AssociationConfig) {
        if let Some(errors) = self.max_retrans {
            config.paths.path_max_retrans = errors;
        }
        self.potentially_failed.apply(&mut config.paths.potentially_failed_max_retrans);
        self.change_primary.apply(&mut config.paths.change_primary_threshold);
    }

    fn of(config: &AssociationConfig) -> Self {
        Self {
            max_retrans: Some(config.paths.path_max_retrans),
            potentially_failed: Setting::of(config.paths.potentially_failed_max_retrans),
            change_primary: Setting::of(config.paths.change_primary_threshold),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_of_paths_come_back_as_they_were_set() {
        let time = Duration::from_millis(123);
        let all = [
            PathParameters {
                heartbeats: Setting::On(Some(time)),
                max_retrans: Some(2),
                mtu: PathMtu::Fixed(Some(1300)),
                sack_delay: Setting::On(Some(time)),
            },
            PathParameters {
                heartbeats: Setting::Off,
                max_retrans: Some(3),
                mtu: PathMtu::Discover,
                sack_delay: Setting::Off,
            },
        ];
        for parameters in all {
            let mut config = AssociationConfig::rfc9260();
            parameters.apply(&mut config);
            config.validate().unwrap();
            assert_eq!(PathParameters::of(&config), parameters);
            // Defaults change nothing. Switching on what is on changes nothing, either.
            let mut same = config.clone();
            PathParameters::default().apply(&mut same);
            assert_eq!(same, config);
        }
        let thresholds = PathThresholds {
            max_retrans: Some(5),
            potentially_failed: Setting::On(Some(1)),
            change_primary: Setting::On(Some(2)),
        };
        let mut config = AssociationConfig::rfc9260();
        thresholds.apply(&mut config);
        config.validate().unwrap();
        assert_eq!(PathThresholds::of(&config), thresholds);
    }

    #[test]
    fn switching_on_keeps_the_value() {
        let mut config = AssociationConfig::rfc9260();
        let before = config.clone();
        let (heartbeats, sack_delay) = (Setting::On(None), Setting::On(None));
        PathParameters { heartbeats, sack_delay, ..PathParameters::default() }.apply(&mut config);
        assert_eq!(config, before);
    }
}
