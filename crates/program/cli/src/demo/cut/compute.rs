//! Computes the download of a file over two paths, in one way.

use std::time::Duration;

use anabranch_web::{
    AssociationConfig, Carrier, Download, Downloaded, LinkConfig, LoadError, Loss, Probability,
    QueueLimit, QuicCongestion, tcp_of_today,
};

use anabranch::config::{MtuConfig, MultipathMode};

use super::events::{Events, PATHS};
use crate::demo::link::Link;

/// Queues take packets for this time, and at least [`LEAST_QUEUE`].
const QUEUE: Duration = Duration::from_millis(100);

/// Shortest queue in packets.
const LEAST_QUEUE: u64 = 20;

/// Bits of a packet of 1,500 bytes.
const PACKET_BITS: u64 = 12_000;

/// A run is computed for at least this time after the last event.
const AFTERWARDS: Duration = Duration::from_secs(60);

/// Lengths of intervals in milliseconds.
const INTERVALS: [u64; 6] = [50, 100, 200, 500, 1000, 2000];

/// A path between the hosts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct PathSettings {
    /// Rate of both directions in bits per second.
    pub(crate) rate: u64,
    /// Round-trip time without serialization delays.
    pub(crate) rtt: Duration,
}

impl PathSettings {
    /// Reads the rate in Mb/s and the round-trip time in milliseconds that these settings of a page have.
    pub(crate) fn read(page: &Link<'_>, rate: &str, rtt: &str) -> Result<Self, String> {
        Ok(Self {
            rate: (page.number(rate, 0.1, 100.0)? * 1e6) as u64,
            rtt: Duration::from_secs_f64(page.number(rtt, 0.0, 2000.0)? / 1e3),
        })
    }

    /// One direction of the path.
    pub(crate) fn link(&self) -> LinkConfig {
        let millis = QUEUE.as_millis() as u64;
        let queue = (self.rate * millis / 1000 / PACKET_BITS).max(LEAST_QUEUE);
        let queue = QueueLimit::Packets(usize::try_from(queue).unwrap_or(usize::MAX));
        LinkConfig::new().rate(self.rate).delay(self.rtt / 2).queue(queue)
    }
}

/// The file, the paths, the cuts, and the seed.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct CutConditions {
    /// Length of the file in bytes.
    pub(crate) bytes: usize,
    pub(crate) paths: [PathSettings; PATHS],
    /// Packets lost on both paths in each direction, 0 to 1.
    pub(crate) loss: f64,
    /// Seed for losses and all other random choices.
    pub(crate) seed: u64,
    pub(crate) events: Events,
}

/// A way to carry the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Carried {
    /// An association with default options: data uses the first path until it fails.
    Sctp,
    /// An association that uses both paths at the same time.
    Multipath,
    /// An association with the options of RFC 9260.
    Rfc9260,
    Tcp,
    Http3,
}

impl Carried {
    pub(crate) const ALL: [Self; 5] =
        [Self::Sctp, Self::Multipath, Self::Rfc9260, Self::Tcp, Self::Http3];

    /// Its name in links and documents.
    pub(crate) fn key(self) -> &'static str {
        match self {
            Self::Sctp => "sctp",
            Self::Multipath => "sctp-both",
            Self::Rfc9260 => "sctp-rfc9260",
            Self::Tcp => "tcp",
            Self::Http3 => "http3",
        }
    }

    pub(crate) fn from_key(key: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|way| way.key() == key)
    }

    /// Its name for people, within a sentence.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Sctp => "SCTP",
            Self::Multipath => "SCTP on both paths at once",
            Self::Rfc9260 => "SCTP by the letter of RFC 9260",
            Self::Tcp => "one TCP connection",
            Self::Http3 => "HTTP/3 (QUIC)",
        }
    }

    /// Its transport. All send IP packets of at most 1,500 bytes.
    fn carrier(self) -> Carrier {
        let sctp = |mut config: AssociationConfig| {
            config.mtu = MtuConfig::fixed(1500);
            Carrier::Sctp(Box::new(config))
        };
        match self {
            Self::Sctp => sctp(AssociationConfig::default()),
            Self::Multipath => {
                sctp(AssociationConfig::default().with_multipath(MultipathMode::CmtPf))
            }
            Self::Rfc9260 => sctp(AssociationConfig::rfc9260()),
            Self::Tcp => Carrier::Tcp(Box::new(tcp_of_today())),
            Self::Http3 => Carrier::Http3(QuicCongestion::default()),
        }
    }
}

impl CutConditions {
    /// Downloads the file under these conditions, in one way.
    pub(crate) fn download(&self, way: Carried) -> Result<Downloaded, LoadError> {
        let mut paths = Vec::new();
        for (number, path) in self.paths.iter().enumerate() {
            let loss = Loss::Uniform(Probability::fraction(self.loss)?);
            let link = self.events.cut(number, path.link().loss(loss));
            paths.push([link.clone(), link]);
        }
        let download = Download {
            bytes: self.bytes,
            carrier: way.carrier(),
            paths,
            seed: self.seed,
            limit: self.limit(),
            interval: self.interval(),
        };
        download.run()
    }

    /// Time that a link of this rate needs for the file.
    fn needed(&self, rate: u64) -> Duration {
        Duration::from_secs_f64(self.bytes as f64 * 8.0 / rate.max(1) as f64)
    }

    /// Virtual time after which a download is given up: enough for three times the file on the slower path after the
    /// last event.
    pub(crate) fn limit(&self) -> Duration {
        let slowest = self.paths.iter().map(|path| path.rate).min().unwrap_or_default();
        self.events.last().unwrap_or_default() + 3 * self.needed(slowest) + AFTERWARDS
    }

    /// Length of the intervals in which bytes are counted: a hundredth of the time that the first path needs, as a
    /// round number. It does not depend on events, so that the counts before an event are the same without it.
    pub(crate) fn interval(&self) -> Duration {
        let [first, _] = self.paths;
        let wanted = self.needed(first.rate).as_millis() as u64 / 100;
        let fits = |interval: &u64| *interval >= wanted;
        let [.., longest] = INTERVALS;
        Duration::from_millis(INTERVALS.into_iter().find(fits).unwrap_or(longest))
    }
}
