//! How long a message is worth sending: partial reliability (RFC 3758, RFC 7496).

use std::time::Duration;

use crate::options::{Kind, OptionValue};
use crate::time::Instant;

/// How long a message is worth sending.
///
/// Without [`Features::PARTIAL_RELIABILITY`](crate::Features::PARTIAL_RELIABILITY), a message is sent until it arrives
/// once a part of it has been sent; only before that it can be given up. With it, the peer is told to skip what was
/// given up after it was sent. A message in flight is not given up, because it may have arrived: it is given up where
/// it would be retransmitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Reliability {
    /// As the option `reliability` says.
    #[default]
    Usual,
    /// It is sent until it arrives or the association ends.
    Full,
    /// It is given up after this time (RFC 3758 section 4.1).
    Lifetime(Duration),
    /// It is given up where one of its chunks would be retransmitted more often than this (RFC 7496 section 4.1).
    Retransmissions(u16),
    /// It is given up if the send buffer has no room for a more important message; smaller values are more important
    /// (RFC 7496 section 4.2).
    Priority(u32),
}

/// The text forms of the option.
pub(crate) const FORMS: Kind = Kind::Form {
    forms: &["full", "lifetime N ms", "retransmissions N", "priority N"],
    least: 0,
    most: u32::MAX as u64,
};

impl OptionValue for Reliability {
    fn read(text: &str) -> Option<Self> {
        if text == "full" {
            return Some(Self::Full);
        }
        let (word, value) = text.split_once(' ')?;
        match word {
            "lifetime" => anabranch_units::parse_time(value).map(Self::Lifetime),
            "retransmissions" => value.parse().ok().map(Self::Retransmissions),
            "priority" => value.parse().ok().map(Self::Priority),
            _ => None,
        }
    }

    fn write(&self, _kind: &Kind) -> String {
        match self {
            Self::Usual | Self::Full => "full".to_owned(),
            Self::Lifetime(time) => format!("lifetime {}", anabranch_units::write_time(*time)),
            Self::Retransmissions(count) => format!("retransmissions {count}"),
            Self::Priority(value) => format!("priority {value}"),
        }
    }

    fn is_within(&self, kind: &Kind) -> bool {
        match self {
            Self::Lifetime(time) => {
                u64::try_from(time.as_millis()).is_ok_and(|millis| kind.admits(millis))
            }
            Self::Usual | Self::Full | Self::Retransmissions(_) | Self::Priority(_) => true,
        }
    }
}

/// When a given message is given up.
///
/// Every value has 64 bits. A fate is copied several times for every message, and so it is a pair of registers. With
/// values of several sizes it would be copied as bytes in overlapping parts, which is many times slower.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// Never.
    Sure,
    Expires(Instant),
    Retransmissions(u64),
    Priority(u64),
}

impl Fate {
    /// The fate of a message that is given at `now`, where `usual` is the option.
    pub(crate) fn new(now: Instant, reliability: Reliability, usual: Reliability) -> Self {
        match (reliability, usual) {
            (Reliability::Usual, Reliability::Usual) | (Reliability::Full, _) => Self::Sure,
            (Reliability::Usual, usual) => Self::new(now, usual, Reliability::Full),
            (Reliability::Lifetime(time), _) => Self::Expires(now + time),
            (Reliability::Retransmissions(count), _) => Self::Retransmissions(count.into()),
            (Reliability::Priority(value), _) => Self::Priority(value.into()),
        }
    }

    /// When it is given up, if by time.
    pub(crate) fn expires(self) -> Option<Instant> {
        match self {
            Self::Expires(at) => Some(at),
            _ => None,
        }
    }

    /// Whether a chunk that was retransmitted `times` before is given up instead of being retransmitted now.
    // req: rfc3758 3.4 "a particular data chunk SHOULD NOT be transmitted or retransmitted"
    // req: rfc3758 4.1 "MUST treat the message just as if it were a normal"
    // req: rfc7496 3.1 "The sender MUST abandon a user message if the number"
    pub(crate) fn forbids(self, now: Instant, times: u16) -> bool {
        match self {
            Self::Sure | Self::Priority(_) => false,
            Self::Expires(at) => at <= now,
            Self::Retransmissions(most) => u64::from(times) >= most,
        }
    }
}

/// The policies by which messages are given up, in the order of their counters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum GivenUpBy {
    /// [`Reliability::Lifetime`].
    Lifetime,
    /// [`Reliability::Retransmissions`].
    Retransmissions,
    /// [`Reliability::Priority`].
    Priority,
}

/// How many messages were given up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GivenUpMessages {
    /// Before any part was sent.
    pub unsent: u32,
    /// After a part was sent.
    pub sent: u32,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_is_read_as_it_is_written() {
        for text in ["full", "lifetime 50 ms", "retransmissions 3", "priority 7"] {
            let read = <Reliability as OptionValue>::read(text).unwrap();
            assert_eq!(read.write(&FORMS), text);
            assert!(read.is_within(&FORMS));
        }
        for text in ["", "usual", "lifetime", "lifetime 5", "retransmissions -1", "priority x"] {
            assert!(<Reliability as OptionValue>::read(text).is_none(), "{text}");
        }
        let forever = Reliability::Lifetime(Duration::from_millis(1 << 33));
        assert!(!forever.is_within(&FORMS));
    }

    #[test]
    fn the_option_counts_where_a_message_says_nothing() {
        let now = Instant::ZERO + Duration::from_secs(1);
        let fate = |own, usual| Fate::new(now, own, usual);
        let later = Duration::from_millis(50);
        use Reliability::{Full, Lifetime, Priority, Retransmissions, Usual};
        assert_eq!(fate(Usual, Full), Fate::Sure);
        assert_eq!(fate(Usual, Usual), Fate::Sure);
        assert_eq!(fate(Usual, Retransmissions(2)), Fate::Retransmissions(2));
        assert_eq!(fate(Full, Retransmissions(2)), Fate::Sure);
        assert_eq!(fate(Priority(4), Retransmissions(2)), Fate::Priority(4));
        assert_eq!(fate(Lifetime(later), Full), Fate::Expires(now + later));
    }

    #[test]
    fn a_chunk_may_be_retransmitted_as_often_as_the_policy_says() {
        let now = Instant::ZERO + Duration::from_secs(1);
        assert!(Fate::Retransmissions(0).forbids(now, 0));
        assert!(!Fate::Retransmissions(1).forbids(now, 0));
        assert!(Fate::Retransmissions(1).forbids(now, 1));
        assert!(Fate::Expires(now).forbids(now, 0));
        assert!(!Fate::Expires(now + Duration::from_nanos(1)).forbids(now, 9));
        assert!(!Fate::Sure.forbids(now, u16::MAX) && !Fate::Priority(0).forbids(now, 9));
    }
}
