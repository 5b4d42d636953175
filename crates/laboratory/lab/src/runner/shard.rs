//! One of several equal parts of the work.

use std::fmt;
use std::str::FromStr;

/// Most shards.
const MOST: usize = 1_000_000;

/// The part of one of several programs that do not know of each other. By default, all of the work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shard {
    /// From 0.
    index: usize,
    /// At least 1.
    of: usize,
}

impl Default for Shard {
    fn default() -> Self {
        Self { index: 0, of: 1 }
    }
}

impl Shard {
    /// Whether an item belongs to this shard: every one belongs to exactly one.
    pub fn has(&self, item: usize) -> bool {
        item % self.of == self.index
    }
}

impl FromStr for Shard {
    type Err = String;

    /// Reads `K/N`, with K from 1 to N.
    fn from_str(text: &str) -> Result<Self, String> {
        let read = || {
            let (shard, of) = text.split_once('/')?;
            let (shard, of): (usize, usize) = (shard.parse().ok()?, of.parse().ok()?);
            (of <= MOST && (1..=of).contains(&shard)).then(|| Self { index: shard - 1, of })
        };
        read().ok_or_else(|| {
            format!("a shard is written K/N, with K from 1 to N and N at most {MOST}, as in 2/8")
        })
    }
}

impl fmt::Display for Shard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.index + 1, self.of)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shards_are_numbered_from_one() {
        let shard: Shard = "2/3".parse().unwrap();
        assert_eq!((0..6).filter(|item| shard.has(*item)).collect::<Vec<_>>(), [1, 4]);
        assert_eq!(shard.to_string(), "2/3");
        for wrong in ["", "1", "0/3", "4/3", "1/0", "-1/3", "1/3/5", "1/1000001", "a/b"] {
            assert!(wrong.parse::<Shard>().is_err(), "{wrong}");
        }
    }
}
