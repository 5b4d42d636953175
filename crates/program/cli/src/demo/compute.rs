//! Computes how the page loads under given conditions, over one transport.

use std::time::Duration;

use anabranch_web::{
    Carriage, GilbertElliott, LinkConfig, Load, LoadError, Loaded, Loss, Probability, QueueLimit,
    QuicCongestion,
};

/// The last link, the page, and the seed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Conditions {
    /// Rate of both directions in bits per second.
    pub(crate) rate: u64,
    /// Round-trip time without serialization delays.
    pub(crate) rtt: Duration,
    /// Packets lost in each direction, 0 to 1.
    pub(crate) loss: f64,
    /// Mean number of packets lost in a row.
    pub(crate) burst: u32,
    /// Number of pictures of the page.
    pub(crate) pictures: u16,
    /// Number of streams of an association.
    pub(crate) streams: u16,
    /// Seed for losses and all other random choices.
    pub(crate) seed: u64,
}

/// A way to carry the page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    Sctp,
    Tcp(u16),
    Http3,
}

impl Way {
    pub(crate) const ALL: [Self; 4] = [Self::Sctp, Self::Tcp(1), Self::Tcp(6), Self::Http3];

    /// Its name in links and documents.
    pub(crate) fn key(self) -> String {
        match self {
            Self::Sctp => "sctp".to_owned(),
            Self::Tcp(connections) => format!("tcp{connections}"),
            Self::Http3 => "http3".to_owned(),
        }
    }

    pub(crate) fn from_key(key: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|way| way.key() == key)
    }

    /// Its name for people, within a sentence.
    pub(crate) fn name(self, streams: u16) -> String {
        match self {
            Self::Sctp if streams == 1 => "SCTP, one stream".to_owned(),
            Self::Sctp => format!("SCTP, {streams} streams"),
            Self::Tcp(1) => "one TCP connection".to_owned(),
            Self::Tcp(connections) => format!("{connections} TCP connections"),
            Self::Http3 => "HTTP/3".to_owned(),
        }
    }
}

impl Conditions {
    /// Loads the page under these conditions, in one way. TCP's requests are pipelined. The timeout of its
    /// handshake is a second, as for SCTP and as in RFC 6298, and both use 3 s for data after a repeated
    /// handshake. QUIC has the defaults of quinn.
    pub(crate) fn load(&self, way: Way) -> Result<Loaded, LoadError> {
        let carriage = match way {
            Way::Sctp => Carriage::Sctp { streams: self.streams },
            Way::Tcp(connections) => Carriage::Tcp { connections, pipelined: true },
            Way::Http3 => Carriage::Http3 { congestion: QuicCongestion::default() },
        };
        let mut load = Load::new(super::site(self.pictures), carriage);
        let link = LinkConfig::new()
            .rate(self.rate)
            .delay(self.rtt / 2)
            .queue(QueueLimit::Packets(50))
            .loss(self.losses()?);
        load.sctp_server.timers.rto_slow_handshake = Some(Duration::from_secs(3));
        load.sctp_client.timers.rto_slow_handshake = Some(Duration::from_secs(3));
        (load.up, load.down, load.seed) = (link.clone(), link, self.seed);
        load.run()
    }

    fn losses(&self) -> Result<Loss, LoadError> {
        let loss = Probability::fraction(self.loss)?;
        Ok(match self.burst {
            0 | 1 => Loss::Uniform(loss),
            burst => Loss::GilbertElliott(GilbertElliott {
                // The share of time in the bad state equals the loss rate.
                good_to_bad: Probability::fraction(
                    (self.loss / (f64::from(burst) * (1.0 - self.loss).max(1e-9))).min(1.0),
                )?,
                bad_to_good: Probability::fraction(1.0 / f64::from(burst))?,
                loss_good: Probability::ZERO,
                loss_bad: Probability::ONE,
            }),
        })
    }
}
