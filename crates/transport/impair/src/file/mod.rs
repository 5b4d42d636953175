//! Impairments of several paths in a TOML file that any program can read.
//!
//! ```toml
//! seed = 7                      # optional
//!
//! [[path]]                      # a lossy radio link, both directions
//! name = "radio"
//! local = "10.0.0.1"            # absent: any local address
//! remote = "10.0.1.1"           # absent: any remote address
//! rate_mbit = 2.5
//! queue_packets = 50
//! delay_ms = 40
//! jitter_ms = 5
//! keep_order = true
//! loss_percent = 1
//! loss_burst_packets = 4
//! cut_at_s = 10
//! repair_at_s = 12.5
//!
//! [[path]]                      # everything else, only what we send
//! direction = "send"
//! delay_ms = 5
//! ```
//!
//! The first entry that matches a path and direction applies; if there is none, the path is not impaired. A file is
//! rejected if an entry can never apply because an earlier one matches everything that it matches.
//!
//! | Key | Value |
//! |---|---|
//! | `name` | free text for reports |
//! | `local`, `remote` | IP address; absent matches all |
//! | `direction` | `"send"` (local to remote) or `"receive"`; absent is both |
//! | `rate_kbit`, `rate_mbit` | one of them; 1 bit/s to 1 Tbit/s |
//! | `queue_packets`, `queue_bytes` | one of them, with a rate; absent is 1000 packets |
//! | `overhead_bytes` | headers added to every packet for rate, queue and MTU; at most 1000 |
//! | `mtu_bytes`, `mtu_blackhole` | 68 to 65535, and whether larger packets vanish unreported |
//! | `delay_ms`, `jitter_ms` | at most an hour each |
//! | `keep_order` | with jitter: no packet overtakes another |
//! | `loss_percent` | independent losses; with `loss_burst_packets` in bursts of that mean length |
//! | `gilbert_elliott` | `{ good_to_bad_percent, bad_to_good_percent, loss_good_percent, loss_bad_percent }`; the last two default to 0 and 100 |
//! | `lose_packets` | positions of the packets lost, the first being 1 |
//! | `loss_pattern`, `loss_pattern_repeat` | a `.` for each packet that passes, an `x` for each lost |
//! | `duplicate_percent`, `corrupt_percent` | packets that arrive twice, or with one bit flipped |
//! | `reorder_percent`, `reorder_delay_ms` | packets held back, and for how long |
//! | `cut_at_s`, `repair_at_s` | when the link goes down and comes back; without repair forever |
//! | `discipline` | `"drop-tail"`, `"red"` or `"codel"`, with a rate |
//! | `red` | `{ min = "5 packets", max = "15 packets", max_drop = "10 %", weight = "0.2 %", gentle = true, ecn = false }`; the first two are needed |
//! | `codel` | `{ target = "5 ms", interval = "100 ms", ecn = false }` |
//! | `pattern` | name of a file with patterns ([`pattern`](crate::pattern)), on top of all this |
//! | `cuts` | several of these: `[{ cut_at_s = 1, repair_at_s = 2 }, { cut_at_s = 9 }]` |
//!
//! `rate`, `queue`, `overhead`, `mtu`, `delay`, `jitter`, `loss`, `duplicate`, `reorder`, `reorder_delay`, `corrupt`,
//! `cut_at` and `repair_at` are the keys without a unit in their names; the unit is in their values:
//! `rate = "2.5 Mb/s"`, `queue = "50 packets"` or `"64 KiB"`, `delay = "40 ms"`, `loss = "1 %"`.
//!
//! Percentages may have fractions. Times of cuts count from the start of the driver's clock.

mod discipline;
mod quantities;
mod schema;

use std::net::IpAddr;
use std::str::FromStr;

use crate::{ConfigError, Link, LinkConfig, Packet, Rng};

/// A file as read: paths with their impairments, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImpairmentFile {
    /// Seed of all links, if the file has one.
    pub seed: Option<u64>,
    /// The entries, at least one.
    pub paths: Vec<PathEntry>,
}

/// One `[[path]]` of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathEntry {
    /// Free text for reports.
    pub name: Option<String>,
    /// Local address that it applies to; `None` is any.
    pub local: Option<IpAddr>,
    /// Remote address that it applies to; `None` is any.
    pub remote: Option<IpAddr>,
    /// Direction that it applies to; `None` is both.
    pub direction: Option<Direction>,
    /// The configuration of the link in each direction; validated.
    pub config: LinkConfig,
}

/// A direction, seen from the host on which the driver runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Direction {
    /// From the local to the remote address.
    Send,
    /// From the remote to the local address.
    Receive,
}

/// Why a file was rejected.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {reason}")]
pub struct FileError {
    /// Line of the text, from 1.
    pub line: usize,
    /// The error.
    pub reason: String,
}

impl FromStr for ImpairmentFile {
    type Err = FileError;

    /// Parses the text of a file.
    fn from_str(text: &str) -> Result<Self, FileError> {
        schema::read(text, &mut |_| {
            Err("a pattern stands in a file of its own, which is not opened here".into())
        })
    }
}

impl ImpairmentFile {
    /// Parses the text of a file. `load` returns the contents of a pattern file that the text names, or an error.
    ///
    /// # Errors
    /// Returns the line of the error; for patterns, the line of the key that names them.
    pub fn read(
        text: &str,
        load: &mut dyn FnMut(&str) -> Result<Vec<u8>, String>,
    ) -> Result<Self, FileError> {
        schema::read(text, load)
    }

    /// Finds the entry for packets in `direction` on the path between `local` and `remote`; `None` if they are not
    /// impaired.
    pub fn find(&self, local: IpAddr, remote: IpAddr, direction: Direction) -> Option<&PathEntry> {
        self.paths.iter().find(|entry| entry.matches(local, remote, direction))
    }

    /// Creates a link for packets in `direction` on the path between `local` and `remote`; `None` if they are not
    /// impaired.
    ///
    /// Its seed depends on the path, the direction and the file's seed (or `default_seed` if the file has none), but
    /// not on the order in which links are created.
    ///
    /// # Errors
    /// Never fails for a file that was read. A file that was built or changed by a program can fail as in
    /// [`LinkConfig::validate`].
    pub fn link<T: Packet>(
        &self,
        local: IpAddr,
        remote: IpAddr,
        direction: Direction,
        default_seed: u64,
    ) -> Result<Option<Link<T>>, ConfigError> {
        let Some(entry) = self.find(local, remote, direction) else {
            return Ok(None);
        };
        let seed = self.seed.unwrap_or(default_seed);
        let seed = path_seed(seed, local, remote, direction);
        Link::new(entry.config.clone(), seed).map(Some)
    }
}

impl PathEntry {
    /// Whether the entry is for packets in `direction` on the path between `local` and `remote`.
    pub fn matches(&self, local: IpAddr, remote: IpAddr, direction: Direction) -> bool {
        allows(self.local, Some(local))
            && allows(self.remote, Some(remote))
            && allows(self.direction, Some(direction))
    }

    /// Whether this entry matches everything that `other` matches.
    fn covers(&self, other: &Self) -> bool {
        allows(self.local, other.local)
            && allows(self.remote, other.remote)
            && allows(self.direction, other.direction)
    }
}

/// Whether a criterion matches everything that `asked` matches; `None` matches everything.
fn allows<V: PartialEq>(criterion: Option<V>, asked: Option<V>) -> bool {
    criterion.is_none() || criterion == asked
}

/// A seed for one direction of one path.
fn path_seed(seed: u64, local: IpAddr, remote: IpAddr, direction: Direction) -> u64 {
    let direction = match direction {
        Direction::Send => 0,
        Direction::Receive => 1,
    };
    let words = [bits(local), bits(remote)]
        .into_iter()
        .flat_map(|address| [(address >> 64) as u64, address as u64])
        .chain([direction]);
    words.fold(seed, |seed, word| Rng::stream(seed, word).next_u64())
}

fn bits(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(v4) => v4.to_ipv6_mapped().to_bits(),
        IpAddr::V6(v6) => v6.to_bits(),
    }
}

#[cfg(test)]
mod tests;
