//! What has been used of a limit in the current period.

use std::collections::BTreeMap;
use std::io::{self, Write as _};
use std::path::Path;
use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use crate::limit::{Limit, LimitState};

/// No file of usages is longer.
const MOST_BYTES: u64 = 4 << 20;

/// What an uplink or a user has carried.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Usage {
    /// When the period began, in seconds since 1970.
    began: u64,
    bytes: u64,
}

impl Usage {
    /// Continues what was saved. The clock may have jumped meanwhile: a period that begins in the future begins now,
    /// with what it has carried, so it never lasts longer than its length from now.
    pub(crate) fn resume(saved: Option<Self>, now: u64) -> Self {
        let saved = saved.unwrap_or(Self { began: now, bytes: 0 });
        Self { began: saved.began.min(now), ..saved }
    }

    /// Adds bytes. `now` must not jump while the program runs.
    pub(crate) fn add(&mut self, limit: Limit, now: u64, bytes: u64) {
        let periods = now.saturating_sub(self.began) / limit.period.max(1);
        if periods > 0 {
            // Periods follow each other without gaps.
            self.began += periods * limit.period;
            self.bytes = 0;
        }
        self.bytes = self.bytes.saturating_add(bytes);
    }

    pub(crate) fn is_exceeded(&self, limit: Limit) -> bool {
        self.bytes >= limit.bytes
    }

    /// Seconds until the period ends.
    fn remaining(&self, limit: Limit, now: u64) -> u64 {
        (self.began + limit.period).saturating_sub(now)
    }

    pub(crate) fn state(&self, limit: Limit, now: u64) -> LimitState {
        LimitState {
            bytes: limit.bytes,
            used_bytes: self.bytes,
            period_seconds: limit.period,
            remaining_seconds: self.remaining(limit, now),
        }
    }
}

/// The time of the day at the start, which goes on without jumps.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    start: u64,
    began: Instant,
}

impl Default for Clock {
    fn default() -> Self {
        let start = SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default().as_secs();
        Self { start, began: Instant::now() }
    }
}

impl Clock {
    /// Seconds since 1970.
    pub(crate) fn now(&self) -> u64 {
        self.start.saturating_add(self.began.elapsed().as_secs())
    }

    /// Time since the start.
    pub(crate) fn elapsed(&self) -> Duration {
        self.began.elapsed()
    }
}

/// The usages in a file, by name of the uplink or user. A file that is missing is empty.
///
/// # Errors
/// The file cannot be read, or is something else.
pub(crate) fn load(file: &Path) -> io::Result<BTreeMap<String, Usage>> {
    let text = match anabranch_units::read_text(file, MOST_BYTES) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(BTreeMap::new()),
        Err(error) => return Err(error),
    };
    serde_json::from_str(&text).map_err(|error| {
        io::Error::other(format!("it is damaged ({error}): delete it, which forgets what was used"))
    })
}

/// Replaces the file: it has the old content or the new one, also after a power failure.
///
/// # Errors
/// The system refuses, for instance because the disk is full.
pub(crate) fn save(file: &Path, usages: &BTreeMap<String, Usage>) -> io::Result<()> {
    let mut name = file.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}.new", std::process::id()));
    let unfinished = file.with_file_name(name);
    let write = || {
        let mut new = std::fs::File::create(&unfinished)?;
        new.write_all(serde_json::to_string(usages)?.as_bytes())?;
        new.write_all(b"\n")?;
        new.sync_all()?;
        std::fs::rename(&unfinished, file)
    };
    write().inspect_err(|_| {
        // It may not exist.
        let _ = std::fs::remove_file(&unfinished);
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Limit = Limit { bytes: 100, period: 60 };

    #[test]
    fn periods_follow_each_other() {
        let mut usage = Usage::resume(None, 1000);
        usage.add(LIMIT, 1030, 99);
        assert!(!usage.is_exceeded(LIMIT));
        usage.add(LIMIT, 1059, 1);
        assert!(usage.is_exceeded(LIMIT));
        assert_eq!(usage.remaining(LIMIT, 1059), 1);
        usage.add(LIMIT, 1185, 7);
        assert_eq!((usage.bytes, usage.remaining(LIMIT, 1185)), (7, 55));
    }

    #[test]
    fn a_clock_that_jumps_back_gives_nothing_and_takes_one_period_at_most() {
        let mut usage = Usage::resume(None, 1_000_000);
        usage.add(LIMIT, 1_000_000, 100);
        let mut again = Usage::resume(Some(usage), 5000);
        again.add(LIMIT, 5000, 0);
        assert!(again.is_exceeded(LIMIT), "what was used stays used");
        assert_eq!(again.remaining(LIMIT, 5000), 60);
    }

    #[test]
    fn usages_are_kept_in_a_file() {
        let folder = std::env::temp_dir().join(format!("anabranch-usage-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let file = folder.join("near.usage");
        assert!(load(&file).unwrap().is_empty());
        let usages = BTreeMap::from([("wwan0".to_owned(), Usage { began: 5, bytes: 6 })]);
        save(&file, &usages).unwrap();
        assert_eq!(load(&file).unwrap(), usages);
        save(&file, &usages).unwrap();
        assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 1, "nothing else is left");
        std::fs::write(&file, "x").unwrap();
        assert!(load(&file).unwrap_err().to_string().contains("delete it"));
        assert!(save(&folder.join("missing/near.usage"), &usages).is_err());
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
