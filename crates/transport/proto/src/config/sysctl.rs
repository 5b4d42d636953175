//! Options by the names of FreeBSD's kernel under `net.inet.sctp`, for scripts written for it.

use super::AssociationConfig;
use super::by_name::SetError;

/// The kernel's name, ours, and the conversion of the kernel's number into a value of ours.
type Row = (&'static str, &'static str, fn(u32) -> String);

const NAMES: &[Row] = &[
    ("rto_min", "rto_min", milliseconds),
    ("rto_max", "rto_max", milliseconds),
    ("rto_initial", "rto_initial", milliseconds),
    ("delayed_sack_time", "sack_delay", milliseconds),
    ("sack_freq", "sack_frequency", count),
    ("heartbeat_interval", "heartbeat_interval", milliseconds),
    ("initial_cwnd", "initial_cwnd", |mtus| format!("{mtus} mtus")),
    ("maxburst", "burst", burst),
    ("init_rtx_max", "max_init_retransmits", count),
    ("assoc_rtx_max", "association_max_retrans", count),
    ("path_rtx_max", "path_max_retrans", count),
    ("nrsack_enable", "nr_sack", switch),
    ("pr_enable", "partial_reliability", switch),
    // Linux's name; FreeBSD has none.
    ("intl_enable", "interleaving", switch),
    ("ecn_enable", "ecn", switch),
    ("reconfig_enable", "stream_reconfiguration", switch),
    ("auth_enable", "authentication", switch),
    ("asconf_enable", "address_reconfiguration", switch),
    ("auto_asconf", "roam", switch),
];

fn milliseconds(number: u32) -> String {
    format!("{number} ms")
}

fn count(number: u32) -> String {
    number.to_string()
}

fn switch(number: u32) -> String {
    if number == 0 { "off" } else { "on" }.to_owned()
}

fn burst(packets: u32) -> String {
    match packets {
        0 => "unlimited".to_owned(),
        packets => format!("max-burst {packets}"),
    }
}

impl AssociationConfig {
    /// Sets the option that FreeBSD calls `net.inet.sctp.` and this name, in the kernel's unit.
    ///
    /// # Errors
    /// As [`set`](Self::set).
    pub fn set_sysctl(&mut self, name: &str, number: u32) -> Result<(), SetError> {
        match NAMES.iter().find(|(kernel, ..)| *kernel == name) {
            Some((_, option, value)) => self.set(option, &value(number)),
            None => Err(SetError::Unknown(name.to_owned())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_stands_for_an_option_that_takes_its_values() {
        for (name, option, _) in NAMES {
            let mut config = AssociationConfig::rfc9260();
            config.set_sysctl(name, 7).unwrap_or_else(|error| panic!("{name}: {error}"));
            let before = AssociationConfig::rfc9260().get(option);
            assert_ne!(config.get(option), before, "{name}");
        }
        let mut config = AssociationConfig::rfc9260();
        config.set_sysctl("maxburst", 0).unwrap();
        assert_eq!(config.get("burst").as_deref(), Some("unlimited"));
        let unknown = config.set_sysctl("blackhole", 1).unwrap_err();
        assert_eq!(unknown.to_string(), "there is no option 'blackhole'");
    }
}
