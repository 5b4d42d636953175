//! Options that several commands share.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use anabranch::config::units;
use anabranch::{AssociationConfig, Encapsulation, Endpoint, SharedKeys};
use clap::{Args, ValueEnum};
use serde::Serialize;

use crate::failure::Failure;
use crate::policies::PolicyOptions;

/// The transport of the streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Transport {
    /// SCTP in UDP datagrams (RFC 6951): needs no privileges
    SctpUdp,
    /// SCTP as IP protocol 132, like other SCTP stacks: needs root or CAP_NET_RAW
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
    /// The encapsulation of SCTP packets; `None` for TCP.
    pub(crate) fn encapsulation(self) -> Option<Encapsulation> {
        match self {
            Self::SctpUdp => Some(Encapsulation::Udp),
            Self::Sctp => Some(Encapsulation::Ip),
            Self::Tcp => None,
        }
    }

    /// The UDP port that carries an endpoint's packets, if they are in UDP.
    pub(crate) fn udp_port(self, endpoint: &Endpoint) -> Option<u16> {
        (self == Self::SctpUdp).then(|| endpoint.udp_port())
    }
}

/// SCTP options, for any encapsulation.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "SCTP")]
pub(crate) struct SctpOptions {
    /// Set of protocol parameters: default, rfc9260, rfc4960, rfc2960, bulk, signalling or web
    #[arg(long, value_name = "NAME")]
    pub(crate) profile: Option<String>,
    /// Bytes that the buffers of all associations may use together, for instance 64M; beyond that,
    /// windows are closed and new associations refused. One association is allowed for each 16 KiB, at
    /// most 65,536 [default: 1G]
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub(crate) memory_limit: Option<usize>,
    /// Divide the endpoint into N tasks and threads, for N cores; an association belongs to one of them
    /// by its SCTP ports, or a sealed one of a server by its client (Linux, over UDP) [default: 1]
    #[arg(long, value_name = "N")]
    pub(crate) shards: Option<usize>,
    /// For this time after each packet, ask the sockets again and again instead of sleeping: round trips are
    /// shorter, and a core is busy as long as packets come and go (Unix) [default: never]
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub(crate) busy_poll: Option<Duration>,
    /// Send and receive over this network interface only, regardless of routes; this makes its link-local
    /// IPv6 addresses usable (Linux)
    #[arg(long, value_name = "NAME")]
    pub(crate) interface: Option<String>,
    /// Impair packets as this TOML file says: rate, queue, delay, loss, cuts; 'local' is this side's
    /// address, and times count from the start
    #[arg(long, value_name = "FILE")]
    pub(crate) impair: Option<PathBuf>,
    /// Unix socket for 'anabranch inspect', for this user only [default: one in XDG_RUNTIME_DIR, or
    /// /run/anabranch for root, or /tmp/anabranch-UID]
    #[arg(long, value_name = "PATH")]
    pub(crate) control: Option<PathBuf>,
    /// Serve metrics for Prometheus at http://ADDR:PORT/metrics
    #[arg(long, value_name = "ADDR:PORT", value_parser = crate::address::socket)]
    pub(crate) metrics: Option<SocketAddr>,
    /// Also answer requests for metrics that use this host name; addresses, localhost and the host's own
    /// name are always answered
    #[arg(long, value_name = "NAME", requires = "metrics", hide_short_help = true)]
    pub(crate) metrics_host: Vec<String>,
    /// Also report metrics of each association and path, under separate names
    #[arg(long, requires = "metrics", hide_short_help = true)]
    pub(crate) metrics_associations: bool,
    /// Write all packets to this file, for Wireshark
    #[arg(long, value_name = "FILE.pcapng")]
    pub(crate) capture: Option<PathBuf>,
    /// Write what associations do and decide to this file: windows, round trips, losses and their causes,
    /// packets, states; 'anabranch qlog' reads it
    #[arg(long, value_name = "FILE")]
    pub(crate) qlog: Option<PathBuf>,
    /// Authenticate chunks with the secret in this file, as key ID from 0 to 65535 (RFC 4895); the other side needs
    /// the same. Sets --authentication and --require-authentication on, and --authenticated-chunks says which. A newline
    /// at its end does not count
    #[arg(long, value_name = "ID=FILE", value_parser = AuthKey::parse, hide_short_help = true)]
    pub(crate) auth_key: Option<AuthKey>,
    // Keep this last: options after it would be listed under its heading.
    #[command(flatten)]
    pub(crate) policies: PolicyOptions,
}

impl SctpOptions {
    /// The names of the options that were given.
    pub(crate) fn given(&self) -> impl Iterator<Item = &str> {
        [
            ("--profile", self.profile.is_some()),
            ("--memory-limit", self.memory_limit.is_some()),
            ("--shards", self.shards.is_some()),
            ("--busy-poll", self.busy_poll.is_some()),
            ("--interface", self.interface.is_some()),
            ("--impair", self.impair.is_some()),
            ("--control", self.control.is_some()),
            ("--metrics", self.metrics.is_some()),
            ("--capture", self.capture.is_some()),
            ("--qlog", self.qlog.is_some()),
            ("--auth-key", self.auth_key.is_some()),
        ]
        .into_iter()
        .filter_map(|(name, given)| given.then_some(name))
        .chain(self.policies.given())
    }
}

/// A file with a secret for authentication, and the secret's identifier.
#[derive(Clone, Debug)]
pub(crate) struct AuthKey {
    id: u16,
    file: PathBuf,
}

impl AuthKey {
    fn parse(text: &str) -> Result<Self, String> {
        let (id, file) = text.split_once('=').ok_or("it must be ID=FILE")?;
        let id = id.parse().map_err(|_| "ID must be a number from 0 to 65535")?;
        Ok(Self { id, file: file.into() })
    }

    /// Has the association authenticate chunks with this secret only.
    pub(crate) fn apply(&self, config: &mut AssociationConfig) -> Result<(), Failure> {
        let file = self.file.display();
        let secret = std::fs::read(&self.file)
            .map_err(|error| Failure::failed(format!("--auth-key: {file}: {error}")))?;
        let secret = secret.strip_suffix(b"\n").unwrap_or(&secret);
        if secret.is_empty() {
            return Err(Failure::failed(format!("--auth-key: {file} is empty")));
        }
        config.keys = SharedKeys::new(self.id, secret);
        config.authentication.authentication = true;
        config.authentication.require_authentication = true;
        Ok(())
    }
}

/// Rejects options that do not apply to a transport.
pub(crate) fn refuse<'a>(
    mut options: impl Iterator<Item = &'a str>,
    transport: impl fmt::Display,
) -> Result<(), Failure> {
    match options.next() {
        Some(option) => Err(Failure::usage(format!("{option} means nothing to {transport}"))),
        None => Ok(()),
    }
}

/// Parses a time with its unit: `200ms`, `1.5s`, `2 min`.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    units::parse_time(text)
        .ok_or_else(|| "a time has a unit: ns, us, ms, s, min or h, as in 200ms".to_owned())
}

/// Parses a number of bytes: `1000`, `16k` (thousands), `16Ki` (1,024s), `4 MB`, `1.5GiB`.
pub(crate) fn size(text: &str) -> Result<usize, String> {
    units::parse_size(text).and_then(|bytes| usize::try_from(bytes).ok()).ok_or_else(|| {
        "a size is a whole number of bytes, or has a unit: kB, MB, GB, KiB, MiB or GiB, as in 64KiB"
            .to_owned()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_without_meaning_are_named() {
        let mut options = SctpOptions::default();
        assert_eq!(refuse(options.given(), Transport::Tcp), Ok(()));
        options.control = Some("x".into());
        let failure = refuse(options.given(), Transport::Tcp).unwrap_err();
        assert_eq!(failure, Failure::Usage("--control means nothing to tcp".to_owned()));
    }
}
