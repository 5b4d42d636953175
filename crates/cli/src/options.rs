//! Options that several commands share.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use anabranch::{Encapsulation, Endpoint};
use clap::{Args, ValueEnum};
use serde::Serialize;

use crate::failure::Failure;
use crate::policies::PolicyOptions;

/// What carries the bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Transport {
    /// SCTP in UDP datagrams (RFC 6951): needs no privileges
    SctpUdp,
    /// SCTP as IP protocol 132, as other SCTP stacks have it: needs root or CAP_NET_RAW
    Sctp,
    /// The system's TCP, one connection for each stream
    Tcp,
}

impl fmt::Display for Transport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::SctpUdp => "sctp-udp",
            Self::Sctp => "sctp",
            Self::Tcp => "tcp",
        })
    }
}

impl Transport {
    /// What carries SCTP packets; `None` for TCP.
    pub(crate) fn encapsulation(self) -> Option<Encapsulation> {
        match self {
            Self::SctpUdp => Some(Encapsulation::Udp),
            Self::Sctp => Some(Encapsulation::Ip),
            Self::Tcp => None,
        }
    }

    /// The UDP port that carries an endpoint's packets, if one does.
    pub(crate) fn udp_port(self, endpoint: &Endpoint) -> Option<u16> {
        (self == Self::SctpUdp).then(|| endpoint.udp_port())
    }
}

/// Options of SCTP, whatever carries it.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "SCTP")]
pub(crate) struct SctpOptions {
    /// Set of protocol parameters: default, rfc9260, rfc4960 or rfc2960
    #[arg(long, value_name = "NAME")]
    pub(crate) profile: Option<String>,
    /// Path.Max.Retrans: errors in a row after which a path is inactive (0 fails over at the
    /// first timeout) [default: 5]
    #[arg(long, value_name = "N")]
    pub(crate) pmr: Option<u32>,
    /// RTO.Min, for instance 200ms or 1s; in the default profile what the RTO has above the smoothed
    /// round-trip time at least [default: of the profile, 300ms in the default one]
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub(crate) rto_min: Option<Duration>,
    /// RTO.Initial [default: of the profile]
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub(crate) rto_initial: Option<Duration>,
    /// RTO.Max [default: of the profile]
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub(crate) rto_max: Option<Duration>,
    /// HB.interval: time between heartbeats on a path without data [default: 30s]
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub(crate) heartbeat_interval: Option<Duration>,
    /// Send buffer of an association, for instance 4M [default: of the profile]
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub(crate) send_buffer: Option<usize>,
    /// Receive buffer of an association; what it has room for is what the peer may have on its
    /// way [default: of the profile]
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub(crate) receive_buffer: Option<usize>,
    /// Bytes that the buffers of all associations may take together, for instance 64M; beyond,
    /// windows are closed and new associations refused [default: 1G]
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub(crate) memory_limit: Option<usize>,
    /// Divide the endpoint over so many tasks, for as many cores; an association belongs to one of
    /// them by its SCTP ports (Linux, over UDP) [default: 1]
    #[arg(long, value_name = "N")]
    pub(crate) shards: Option<usize>,
    /// Send and receive over this network interface only, whatever the routes are; its link-local
    /// IPv6 addresses can be used then (Linux)
    #[arg(long, value_name = "NAME")]
    pub(crate) interface: Option<String>,
    /// Spoil packets on purpose as this TOML file says: rate, queue, delay, loss, cuts; 'local' is
    /// this side's address and times count from the start
    #[arg(long, value_name = "FILE")]
    pub(crate) impair: Option<PathBuf>,
    /// Unix socket that 'anabranch inspect' asks, for this user only [default: one in
    /// XDG_RUNTIME_DIR, or /run/anabranch for root, or /tmp/anabranch-UID]
    #[arg(long, value_name = "PATH")]
    pub(crate) control: Option<PathBuf>,
    /// Write all packets to this file, for Wireshark
    #[arg(long, value_name = "FILE.pcapng")]
    pub(crate) capture: Option<PathBuf>,
    // Last, as what comes behind would stand under its heading.
    #[command(flatten)]
    pub(crate) policies: PolicyOptions,
}

impl SctpOptions {
    /// The options that were given, by their names.
    pub(crate) fn given(&self) -> impl Iterator<Item = &'static str> {
        [
            ("--profile", self.profile.is_some()),
            ("--pmr", self.pmr.is_some()),
            ("--rto-min", self.rto_min.is_some()),
            ("--rto-initial", self.rto_initial.is_some()),
            ("--rto-max", self.rto_max.is_some()),
            ("--heartbeat-interval", self.heartbeat_interval.is_some()),
            ("--send-buffer", self.send_buffer.is_some()),
            ("--receive-buffer", self.receive_buffer.is_some()),
            ("--memory-limit", self.memory_limit.is_some()),
            ("--shards", self.shards.is_some()),
            ("--interface", self.interface.is_some()),
            ("--impair", self.impair.is_some()),
            ("--control", self.control.is_some()),
            ("--capture", self.capture.is_some()),
        ]
        .into_iter()
        .filter_map(|(name, given)| given.then_some(name))
        .chain(self.policies.given())
    }
}

/// Refuses options that mean nothing to a transport.
pub(crate) fn refuse<'a>(
    mut options: impl Iterator<Item = &'a str>,
    transport: Transport,
) -> Result<(), Failure> {
    match options.next() {
        Some(option) => Err(Failure::usage(format!("{option} means nothing to {transport}"))),
        None => Ok(()),
    }
}

/// A time with its unit: `200ms`, `1.5s`, `2m`.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    let unit_at = text.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(text.len());
    let (number, unit) = text.split_at(unit_at);
    let seconds = match unit {
        "us" => 1e-6,
        "ms" => 1e-3,
        "s" => 1.0,
        "m" => 60.0,
        "h" => 3600.0,
        _ => return Err("a time has a unit: us, ms, s, m or h, as in 200ms".to_owned()),
    };
    let number: f64 = number.parse().map_err(|_| format!("'{number}' is no number"))?;
    Duration::try_from_secs_f64(number * seconds)
        .map_err(|_| "a time is not below zero and not endless".to_owned())
}

/// A number of bytes: `1000`, `16k` (thousands), `16Ki` (1,024s), `4M`, `1.5Gi`.
pub(crate) fn size(text: &str) -> Result<usize, String> {
    let unit_at = text.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(text.len());
    let (number, unit) = text.split_at(unit_at);
    let factor = match unit {
        "" => 1.0,
        "k" => 1e3,
        "M" => 1e6,
        "G" => 1e9,
        "Ki" => 1024.0,
        "Mi" => 1_048_576.0,
        "Gi" => 1_073_741_824.0,
        _ => return Err("the units of a size are k, M, G, Ki, Mi and Gi, as in 16Ki".to_owned()),
    };
    let number: f64 = number.parse().map_err(|_| format!("'{number}' is no number"))?;
    let bytes = number * factor;
    if bytes.fract() != 0.0 || !(0.0..=9e15).contains(&bytes) {
        return Err("a size is a whole number of bytes".to_owned());
    }
    usize::try_from(bytes as u64).map_err(|_| "this size is too large".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_units() {
        assert_eq!(duration("200ms"), Ok(Duration::from_millis(200)));
        assert_eq!(duration("1.5s"), Ok(Duration::from_millis(1500)));
        assert_eq!(duration("2m"), Ok(Duration::from_secs(120)));
        for wrong in ["200", "ms", "-1s", "1e30h", "1 parsec", "", "NaNs", "infs"] {
            assert!(duration(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn sizes_may_have_units() {
        assert_eq!(size("1000"), Ok(1000));
        assert_eq!(size("16k"), Ok(16_000));
        assert_eq!(size("1.5Ki"), Ok(1536));
        assert_eq!(size("2Gi"), Ok(2 << 30));
        for wrong in ["", "-1", "1.5", "1K", "1kB", "1e30", "inf", "NaN", "ten"] {
            assert!(size(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn options_without_meaning_are_named() {
        let mut options = SctpOptions::default();
        assert_eq!(refuse(options.given(), Transport::Tcp), Ok(()));
        options.pmr = Some(0);
        let failure = refuse(options.given(), Transport::Tcp).unwrap_err();
        assert_eq!(failure, Failure::Usage("--pmr means nothing to tcp".to_owned()));
    }
}
