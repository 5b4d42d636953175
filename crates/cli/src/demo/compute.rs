//! What is computed: the page under some conditions, in one way.

use std::time::Duration;

use anabranch_web::{
    Carriage, GilbertElliott, LinkConfig, Load, LoadError, Loaded, Loss, Probability, QueueLimit,
    QuicCongestion,
};

/// The last hop, the page, and chance.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Conditions {
    /// Rate of both directions in bits a second.
    pub(crate) rate: u64,
    /// Round-trip time, without what packets take to be sent.
    pub(crate) rtt: Duration,
    /// Packets lost in each direction, 0 to 1.
    pub(crate) loss: f64,
    /// Packets lost in a row, on average.
    pub(crate) burst: u32,
    /// Pictures of the page.
    pub(crate) pictures: u16,
    /// Streams of an association.
    pub(crate) streams: u16,
    /// Of losses, and of all else that is drawn.
    pub(crate) seed: u64,
}

/// A way in which the page is carried.
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
    /// The page of these conditions, carried in one way. TCP's requests are pipelined; its
    /// handshake's timeout is a second, as SCTP's and as RFC 6298 has it, and both take 3 s for data after a
    /// handshake that was repeated. QUIC is as quinn has it.
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
                // So that the share of the bad state is that of the losses.
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
