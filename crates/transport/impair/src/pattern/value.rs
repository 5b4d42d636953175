//! Kinds of patterns and the meanings of their values.

use std::time::Duration;

use anabranch_units::{Kind as Unit, Quantity, parse_time, write_time};

use super::Basis;

/// The effect of a pattern on packets. A value is a number; 0 always means that the link's
/// configuration applies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// 1: the packet is lost.
    Loss,
    /// Index of the list of bits to flip, from 1.
    Corrupt,
    /// Number of additional copies.
    Duplicate,
    /// The time on the wire in nanoseconds, plus 1.
    Delay,
    /// The rate of the transmitter in bits per second, plus 1; 1 stops it.
    Rate,
    /// Number of later packets that pass first.
    Displace,
    /// Triggered actions instead of values.
    Trigger,
}

/// Maximum delay, a day, like [`MAX_SPAN`](crate::MAX_SPAN).
const MAX_DELAY: u64 = 86_400_000_000_000;
/// Maximum rate, as in [`MAX_RATE`](crate::MAX_RATE).
const MAX_RATE: u64 = crate::MAX_RATE;
/// Maximum number of copies of a packet.
const MAX_COPIES: u64 = 100;
/// Maximum displacement of a packet.
const MAX_DISPLACEMENT: u64 = 100_000;
/// Maximum number of bits flipped in one packet, and of different lists of bits.
const MAX_BITS: usize = 64;
const MAX_LISTS: usize = 65_536;
/// Maximum bit number in an IP packet.
const MAX_BIT: i64 = 8 * 65_535;

impl Kind {
    /// All kinds.
    pub const ALL: [Self; 7] = [
        Self::Loss,
        Self::Corrupt,
        Self::Duplicate,
        Self::Delay,
        Self::Rate,
        Self::Displace,
        Self::Trigger,
    ];

    /// Its name in files.
    pub fn name(self) -> &'static str {
        match self {
            Self::Loss => "loss",
            Self::Corrupt => "corrupt",
            Self::Duplicate => "duplicate",
            Self::Delay => "delay",
            Self::Rate => "rate",
            Self::Displace => "displace",
            Self::Trigger => "trigger",
        }
    }

    /// The kind with a name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }

    /// Whether a number is a valid value of this kind.
    pub(crate) fn check(self, value: u64, basis: Basis, lists: usize) -> Result<(), String> {
        let most = match self {
            Self::Loss => 1,
            Self::Corrupt => lists as u64,
            Self::Duplicate => MAX_COPIES,
            Self::Delay => MAX_DELAY + 1,
            Self::Rate => MAX_RATE + 1,
            Self::Displace => MAX_DISPLACEMENT,
            Self::Trigger => 0,
        };
        if value > most {
            return Err(format!("{value} is not a value of a {} pattern", self.name()));
        }
        if self == Self::Rate && value == 1 && basis == Basis::Packet {
            return Err("a packet with a rate of 0 would never leave: give a rate per ms".into());
        }
        Ok(())
    }

    /// Reads one value. Adds new lists of bits to `bits`.
    pub(crate) fn read(self, word: &str, bits: &mut Vec<Vec<i64>>) -> Result<u64, String> {
        if word == "." {
            return Ok(0);
        }
        let wrong = |means: &str| {
            Err(format!("'{word}' is not a value of a {} pattern: {means}", self.name()))
        };
        let whole = |most: u64| word.parse::<u64>().ok().filter(|number| *number <= most);
        match self {
            Self::Loss if word == "x" => Ok(1),
            Self::Loss => wrong("it has . for a packet that passes and x for one that is lost"),
            Self::Duplicate => whole(MAX_COPIES)
                .map_or_else(|| wrong("it has numbers of further copies, up to 100"), Ok),
            Self::Displace => whole(MAX_DISPLACEMENT)
                .map_or_else(|| wrong("it has numbers of packets that pass, up to 100000"), Ok),
            Self::Delay => match parse_time(word).map(nanos) {
                Some(nanos) if nanos <= MAX_DELAY => Ok(nanos + 1),
                _ => wrong("it has times up to a day, as in 20ms"),
            },
            Self::Rate if word == "0" => Ok(1),
            Self::Rate => match Quantity::expect(word, Unit::Rate, 0.0, MAX_RATE as f64) {
                Ok(rate) => Ok(rate as u64 + 1),
                Err(_) => wrong("it has rates, as in 5Mb/s, or 0"),
            },
            Self::Corrupt => {
                let Some(list) = read_bits(word) else {
                    return wrong(
                        "it has bits from 0 (the first of a packet), or from -1 (its last), with + \
                         between them, up to 64",
                    );
                };
                let index = bits.iter().position(|known| *known == list).unwrap_or_else(|| {
                    bits.push(list);
                    bits.len() - 1
                });
                if bits.len() > MAX_LISTS {
                    return Err("the pattern has more than 65536 different lists of bits".into());
                }
                Ok(index as u64 + 1)
            }
            Self::Trigger => wrong("it has lines with a number or time and what is set off"),
        }
    }

    /// Writes a value in the form that [`read`](Self::read) parses.
    pub(crate) fn write(self, value: u64, bits: &[Vec<i64>]) -> String {
        match (self, value) {
            (_, 0) => ".".into(),
            (Self::Loss, _) => "x".into(),
            (Self::Delay, nanos) => write_time(Duration::from_nanos(nanos - 1)).replace(' ', ""),
            (Self::Rate, 1) => "0".into(),
            (Self::Rate, rate) => write_rate(rate - 1),
            (Self::Corrupt, index) => {
                let list = usize::try_from(index - 1).ok().and_then(|index| bits.get(index));
                let words: Vec<_> = list.into_iter().flatten().map(ToString::to_string).collect();
                words.join("+")
            }
            (Self::Duplicate | Self::Displace | Self::Trigger, number) => number.to_string(),
        }
    }
}

/// A rate in the largest unit that gives a whole number.
pub(crate) fn write_rate(rate: u64) -> String {
    for (unit, size) in [("Gb/s", 1_000_000_000), ("Mb/s", 1_000_000), ("kb/s", 1000)] {
        if rate >= size && rate.is_multiple_of(size) {
            return format!("{}{unit}", rate / size);
        }
    }
    format!("{rate}b/s")
}

fn read_bits(word: &str) -> Option<Vec<i64>> {
    let list: Option<Vec<i64>> = word.split('+').map(|part| part.parse().ok()).collect();
    let valid = |list: &Vec<i64>| {
        list.len() <= MAX_BITS && list.iter().all(|bit| (-MAX_BIT..MAX_BIT).contains(bit))
    };
    list.filter(valid)
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_read_as_they_are_written() {
        let mut bits = Vec::new();
        for (kind, words) in [
            (Kind::Loss, &["x", "."][..]),
            (Kind::Corrupt, &["12", "12+-1", ".", "12"]),
            (Kind::Duplicate, &["1", "100"]),
            (Kind::Delay, &["20ms", "1500us", "0ns", "7ns", "2h"]),
            (Kind::Rate, &["0", "5Mb/s", "1500kb/s", "17b/s", "2Gb/s"]),
            (Kind::Displace, &["3", "99999"]),
        ] {
            for word in words {
                let value = kind.read(word, &mut bits).unwrap();
                assert_eq!(kind.check(value, Basis::Millisecond, bits.len()), Ok(()));
                let written = kind.write(value, &bits);
                assert_eq!(kind.read(&written, &mut bits), Ok(value), "{word} {written}");
            }
        }
        assert_eq!(bits, [vec![12], vec![12, -1]]);
    }

    #[test]
    fn what_another_kind_has_is_refused() {
        let mut bits = Vec::new();
        for (kind, word) in [
            (Kind::Loss, "20ms"),
            (Kind::Delay, "x"),
            (Kind::Delay, "20"),
            (Kind::Delay, "25h"),
            (Kind::Rate, "5"),
            (Kind::Corrupt, "1+"),
            (Kind::Corrupt, "524280"),
            (Kind::Duplicate, "101"),
            (Kind::Displace, "-1"),
            (Kind::Trigger, "1"),
        ] {
            let reason = kind.read(word, &mut bits).unwrap_err();
            assert!(reason.contains(kind.name()) && reason.contains(word), "{reason}");
        }
    }
}
