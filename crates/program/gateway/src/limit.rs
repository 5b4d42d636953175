//! Limits of bytes in a period, as command lines and files name them: `2GB/d`.

use std::fmt;
use std::str::FromStr;

use anabranch_units::{parse_size, write_size};
use serde::Serialize;

const HOUR: u64 = 3600;
const DAY: u64 = 24 * HOUR;

/// The periods of limits, in seconds.
const PERIODS: [(&str, u64); 4] = [("h", HOUR), ("d", DAY), ("w", 7 * DAY), ("30d", 30 * DAY)];

/// How many bytes may be carried, both directions together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Limit {
    /// Bytes in each period.
    pub bytes: u64,
    /// Length of a period in seconds.
    pub period: u64,
}

/// Why a text is no limit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoLimit(String);

impl fmt::Display for NoLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for NoLimit {}

impl FromStr for Limit {
    type Err = NoLimit;

    fn from_str(text: &str) -> Result<Self, NoLimit> {
        let wrong = |what: &str| NoLimit(format!("limit={text}: {what}"));
        let (size, period) =
            text.split_once('/').ok_or_else(|| wrong("a period is missing, as in limit=2GB/d"))?;
        let bytes = parse_size(size).filter(|bytes| *bytes > 0);
        let bytes = bytes.ok_or_else(|| wrong("the size must be like 500MB or 2GB"))?;
        let period = PERIODS.into_iter().find(|(name, _)| *name == period);
        let (_, period) = period.ok_or_else(|| wrong("the period must be h, d, w or 30d"))?;
        Ok(Self { bytes, period })
    }
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let period = PERIODS.into_iter().find(|(_, seconds)| *seconds == self.period);
        let size = write_size(self.bytes).replace(' ', "");
        write!(f, "{size}/{}", period.map_or("?", |(name, _)| name))
    }
}

/// A limit and what was used of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct LimitState {
    /// Bytes allowed in a period.
    pub bytes: u64,
    /// Bytes used in the current period.
    pub used_bytes: u64,
    /// Length of a period.
    pub period_seconds: u64,
    /// Time until the next period.
    pub remaining_seconds: u64,
}

impl LimitState {
    /// Nothing may be used until the next period.
    pub fn is_exceeded(&self) -> bool {
        self.used_bytes >= self.bytes
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn mistakes_say_what_to_do() {
        for (text, part) in [
            ("2GB", "limit=2GB/d"),
            ("2GB/y", "h, d, w or 30d"),
            ("many/d", "500MB"),
            ("0B/d", "500MB"),
        ] {
            let error = text.parse::<Limit>().unwrap_err().to_string();
            assert!(error.contains(part) && !error.ends_with('.'), "{text}: {error}");
        }
    }

    proptest! {
        #[test]
        fn limits_survive(bytes in 1..=u64::MAX, period in 0..PERIODS.len()) {
            let limit = Limit { bytes, period: PERIODS[period].1 };
            prop_assert_eq!(limit.to_string().parse(), Ok(limit));
        }
    }
}
