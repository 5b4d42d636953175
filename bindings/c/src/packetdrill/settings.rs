//! Settings of packetdrill and its scripts: the flags of the interface, and sysctl lines.

use std::net::{IpAddr, Ipv4Addr};

use anabranch::config::{AssociationConfig, MtuConfig};

/// packetdrill's own address for IPv4.
const LOCAL: Ipv4Addr = Ipv4Addr::new(192, 168, 0, 1);

/// The flags of the interface that have a meaning here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Settings {
    pub(super) local: IpAddr,
    /// Maximum size of an IP packet, in bytes.
    pub(super) mtu: u16,
}

impl Settings {
    /// Reads comma-separated `name=value` pairs. Ignores unknown ones, which are not for us.
    pub(super) fn parse(flags: &str) -> Self {
        let mut settings = Self { local: LOCAL.into(), mtu: 1500 };
        for (name, value) in flags.split(',').filter_map(|pair| pair.split_once('=')) {
            match name.trim() {
                "local_ip" => {
                    let address = value.split('/').next().and_then(|ip| ip.trim().parse().ok());
                    settings.local = address.unwrap_or(settings.local);
                }
                "mtu" => settings.mtu = value.trim().parse().unwrap_or(settings.mtu),
                _ => {}
            }
        }
        settings
    }

    /// RFC 9260 to the letter, without probes that no script expects.
    pub(super) fn association(&self) -> AssociationConfig {
        let mut config = AssociationConfig::rfc9260();
        config.mtu = MtuConfig::fixed(self.mtu.clamp(576, 65_532));
        config
    }
}

/// Applies lines `name=value`, with or without `net.inet.sctp.` before the name. Ignores settings that
/// do not exist here: a script that needs one fails.
pub(super) fn apply(config: &mut AssociationConfig, text: &str) {
    let mut lines: Vec<_> = text.lines().filter_map(|line| line.split_once('=')).collect();
    // Changes of addresses need authentication, and roaming needs both.
    lines.sort_by_key(|(name, _)| match name.trim().rsplit('.').next() {
        Some("auth_enable") => 0,
        Some("asconf_enable") => 1,
        _ => 2,
    });
    for (name, value) in lines {
        let Ok(value) = value.trim().trim_matches('"').parse::<u32>() else { continue };
        let name = name.trim();
        let before = config.clone();
        let known = config.set_sysctl(name.rsplit('.').next().unwrap_or(name), value);
        // Lines come in any order: an RTO bound may contradict the others until the next line.
        if known.is_err() || (config.validate().is_err() && !name.contains("rto_")) {
            *config = before;
        }
    }
    config.timers.rto_max = config.timers.rto_max.max(config.timers.rto_min);
    config.timers.rto_initial =
        config.timers.rto_initial.clamp(config.timers.rto_min, config.timers.rto_max);
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use anabranch::config::BurstControl;

    use super::*;

    #[test]
    fn flags_are_read() {
        let flags = "local_ip=192.168.0.7,remote_ip=192.0.2.1/24,gateway_ip=192.168.0.2,mtu=1400,x";
        let settings = Settings::parse(flags);
        assert_eq!(settings, Settings { local: [192, 168, 0, 7].into(), mtu: 1400 });
        assert_eq!(Settings::parse("").local, IpAddr::from(LOCAL));
        assert!(Settings::parse("mtu=1").association().validate().is_ok());
    }

    #[test]
    fn sysctl_lines_end_in_a_valid_configuration_whatever_they_say() {
        let mut config = AssociationConfig::rfc9260();
        apply(&mut config, "net.inet.sctp.rto_initial=100\nrto_min=100\nmaxburst=0\nnonsense\n");
        assert_eq!(config.timers.rto_min, Duration::from_millis(100));
        assert_eq!(config.timers.rto_initial, Duration::from_millis(100));
        assert_eq!(config.congestion.burst, BurstControl::Unlimited);
        apply(&mut config, "rto_min=90000\ndelayed_sack_time=9999\ninitial_cwnd=0\nrto_min=0\n");
        assert_eq!(config.acknowledging.sack_delay, Duration::from_millis(200));
        apply(&mut config, "auto_asconf=1\nasconf_enable=1\nauth_enable=1\n");
        assert!(config.authentication.authentication && config.addresses.roam);
        apply(&mut config, "net.inet.sctp.nrsack_enable=1\n");
        assert!(config.acknowledging.nr_sack);
    }
}
