//! What a user may have, as a file names it: `connections=200 rate=20Mb/s limit=50GB/30d`.

use std::fmt;
use std::str::FromStr;

use anabranch_units::{Kind, Quantity};

use crate::limit::Limit;

/// The lowest rate, in bits per second. A connection carries a packet at a time.
const LEAST_RATE: f64 = 8_000.0;

/// The highest rate, in bits per second.
const MOST_RATE: f64 = 1e12;

/// The bounds of a user. What is `None` has no bound.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Allowance {
    /// Connections and flows of UDP at the same time.
    pub connections: Option<u32>,
    /// Bits per second in each direction.
    pub rate: Option<u64>,
    /// Bytes in a period, both directions together.
    pub limit: Option<Limit>,
}

/// Why a text is no allowance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoAllowance(String);

impl fmt::Display for NoAllowance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for NoAllowance {}

impl Allowance {
    /// This, with the bounds of another one where it has none.
    pub(super) fn or(self, other: Self) -> Self {
        Self {
            connections: self.connections.or(other.connections),
            rate: self.rate.or(other.rate),
            limit: self.limit.or(other.limit),
        }
    }
}

impl FromStr for Allowance {
    type Err = NoAllowance;

    fn from_str(text: &str) -> Result<Self, NoAllowance> {
        let mut allowance = Self::default();
        for word in text.split_whitespace() {
            let wrong = |error: &str| NoAllowance(format!("'{word}' {error}"));
            let set_before = match word.split_once('=') {
                Some(("connections", number)) => {
                    let number = number.parse().map_err(|_| wrong("is not like connections=200"));
                    allowance.connections.replace(number?).is_some()
                }
                Some(("rate", rate)) => {
                    let rate = Quantity::expect(rate, Kind::Rate, LEAST_RATE, MOST_RATE);
                    let rate = rate.map_err(|error| NoAllowance(format!("rate {error}")))?;
                    allowance.rate.replace(rate as u64).is_some()
                }
                Some(("limit", limit)) => {
                    let limit = limit.parse::<Limit>();
                    let limit = limit.map_err(|error| NoAllowance(error.to_string()))?;
                    allowance.limit.replace(limit).is_some()
                }
                _ => {
                    return Err(wrong("is none of connections=N, rate=RATE and limit=SIZE/PERIOD"));
                }
            };
            if set_before {
                return Err(wrong("is there twice"));
            }
        }
        Ok(allowance)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn allowances_have_words() {
        let all: Allowance = "connections=200  rate=20Mb/s\tlimit=50GB/30d".parse().unwrap();
        let limit = "50GB/30d".parse().ok();
        assert_eq!(all, Allowance { connections: Some(200), rate: Some(20_000_000), limit });
        assert_eq!("".parse(), Ok(Allowance::default()));
        let some: Allowance = "rate=1Mb/s".parse().unwrap();
        assert_eq!(some.or(all), Allowance { rate: Some(1_000_000), ..all });
        for (text, part) in [
            ("connections=x", "connections=200"),
            ("connections=-1", "connections=200"),
            ("rate=20", "rate is \"20\""),
            ("rate=1b/s", "outside 8 kb/s"),
            ("limit=5GB", "limit=2GB/d"),
            ("speed=1Mb/s", "connections=N, rate=RATE and limit=SIZE/PERIOD"),
            ("rate", "is none of"),
            ("rate=1Mb/s rate=2Mb/s", "'rate=2Mb/s' is there twice"),
        ] {
            let error = text.parse::<Allowance>().unwrap_err().to_string();
            assert!(error.contains(part), "{text}: {error}");
        }
    }
}
