//! A short-lived cache of small files, for frequent requests.
//!
//! A file with the same size and times as before has the same content. So a request for a cached file only checks the
//! metadata, and neither opens nor reads the file.

use std::collections::HashMap;
use std::fs::{File, Metadata};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use bytes::Bytes;

use super::at_once;

/// Maximum length of a cached file. Reading a longer one takes more time than opening it.
const LONGEST: u64 = 64 << 10;

/// Maximum bytes of all cached files.
const MOST: usize = 8 << 20;

/// Approximate memory of an entry in addition to its content.
const ENTRY: usize = 256;

/// A file is cached only if its last change is older than this: within the same tick of the file system's clock, it
/// may change again without a new time. Most clocks have ticks of milliseconds.
const SETTLED: Duration = Duration::from_millis(100);

/// The same for clocks with ticks of hundredths of a second, or of one or two seconds.
const SETTLED_SLOWLY: Duration = Duration::from_millis(2500);

/// Lifetime of an entry. It is limited because writes through a memory mapping change the times late, or never.
const LIFE: Duration = Duration::from_secs(5);

/// The content of files, by their identity.
#[derive(Debug, Default)]
pub(super) struct Recent(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    files: HashMap<Identity, Kept>,
    /// The total length of all cached files.
    bytes: usize,
}

/// A state of a file: device, inode, length, mtime and ctime.
type Identity = (u64, u64, u64, [(i64, i64); 2]);

#[derive(Debug)]
struct Kept {
    content: Bytes,
    since: Instant,
}

impl Kept {
    fn cost(&self) -> usize {
        ENTRY + self.content.len()
    }
}

impl Recent {
    /// Returns the content of the file with this metadata, if it is cached.
    pub(super) fn find(&self, metadata: &Metadata) -> Option<Bytes> {
        let identity = identity(metadata)?;
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let kept = state.files.get(&identity)?;
        if kept.since.elapsed() < LIFE {
            return Some(kept.content.clone());
        }
        let old = state.files.remove(&identity)?;
        state.bytes -= old.cost();
        None
    }

    /// Reads a file with this metadata, and caches its content, if it has not changed for a while and reading does
    /// not block. `None` means: read the file in the usual way.
    pub(super) fn read(&self, file: &File, metadata: &Metadata) -> Option<Bytes> {
        let len = metadata.len();
        let identity = identity(metadata)?;
        if len == 0 || len > LONGEST || !is_settled(&identity) {
            return None;
        }
        let content = at_once::read(file, 0, usize::try_from(len).ok()?).ok()?;
        if content.len() as u64 != len {
            return None;
        }
        self.keep(identity, content.clone());
        Some(content)
    }

    fn keep(&self, identity: Identity, content: Bytes) {
        let kept = Kept { content, since: Instant::now() };
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if state.bytes + kept.cost() > MOST {
            // The cache is full: drop everything. Files in demand are soon cached again.
            *state = State::default();
        }
        state.bytes += kept.cost();
        if let Some(old) = state.files.insert(identity, kept) {
            state.bytes -= old.cost();
        }
    }
}

#[cfg(unix)]
fn identity(metadata: &Metadata) -> Option<Identity> {
    use std::os::unix::fs::MetadataExt as _;
    let times =
        [(metadata.mtime(), metadata.mtime_nsec()), (metadata.ctime(), metadata.ctime_nsec())];
    Some((metadata.dev(), metadata.ino(), metadata.len(), times))
}

/// Not available on other systems.
#[cfg(not(unix))]
fn identity(_: &Metadata) -> Option<Identity> {
    None
}

/// Whether the last change is old enough. A time in the future is not.
fn is_settled((.., times): &Identity) -> bool {
    let whole = |nanoseconds: i64| nanoseconds % 10_000_000 == 0;
    let coarse = times.iter().any(|(_, nanoseconds)| whole(*nanoseconds));
    let least = if coarse { SETTLED_SLOWLY } else { SETTLED };
    let since_epoch = |(seconds, nanoseconds): &(i64, i64)| {
        let seconds = Duration::from_secs(u64::try_from(*seconds).unwrap_or(0));
        seconds + Duration::from_nanos(u64::try_from(*nanoseconds).unwrap_or(0))
    };
    let changed = times.iter().map(since_epoch).max().unwrap_or_default();
    (SystemTime::UNIX_EPOCH + changed).elapsed().is_ok_and(|ago| ago >= least)
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    /// A file that was changed `ago` before now.
    fn written(file: &File, content: &str, ago: Duration) -> Metadata {
        use std::os::unix::fs::FileExt as _;
        file.set_len(0).unwrap();
        file.write_all_at(content.as_bytes(), 0).unwrap();
        file.set_modified(SystemTime::now() - ago).unwrap();
        file.metadata().unwrap()
    }

    /// As `read`, but ignores the ctime, which is recent and which no program can set.
    fn keep(recent: &Recent, file: &File, metadata: &Metadata) {
        let content = at_once::read(file, 0, 1 << 20).unwrap();
        recent.keep(identity(metadata).unwrap(), content);
    }

    #[test]
    fn what_has_changed_is_not_what_was_kept() {
        let file = tempfile::tempfile().unwrap();
        let long = Duration::from_secs(100);
        let before = written(&file, "before", long);
        let recent = Recent::default();
        assert_eq!(recent.find(&before), None);
        // It has just been changed, though only its times.
        assert_eq!(recent.read(&file, &before), None);
        keep(&recent, &file, &before);
        assert_eq!(recent.find(&before).unwrap(), "before");
        // It has the same length and the same modification time as before.
        std::thread::sleep(Duration::from_millis(20));
        let after = written(&file, "behind", long);
        assert_eq!(recent.find(&after), None);
    }

    #[test]
    fn what_is_kept_is_bounded() {
        for len in [64 << 10, 1] {
            let recent = Recent::default();
            let content = Bytes::from(vec![0; len]);
            for inode in 0..100_000 {
                recent.keep((0, inode, 0, [(0, 0); 2]), content.clone());
                let state = recent.0.lock().unwrap();
                assert!(state.bytes <= MOST);
                assert_eq!(state.bytes, state.files.len() * (ENTRY + len));
            }
            // Caching the same file again uses no more memory.
            let before = recent.0.lock().unwrap().bytes;
            recent.keep((0, 99_999, 0, [(0, 0); 2]), content);
            assert_eq!(recent.0.lock().unwrap().bytes, before);
        }
    }

    #[test]
    fn what_is_old_is_read_anew() {
        let file = tempfile::tempfile().unwrap();
        let metadata = written(&file, "content", Duration::from_secs(100));
        let recent = Recent::default();
        keep(&recent, &file, &metadata);
        let identity = identity(&metadata).unwrap();
        let old = Instant::now().checked_sub(LIFE);
        // If the system has just started, it cannot represent this time.
        let Some(old) = old else { return };
        recent.0.lock().unwrap().files.get_mut(&identity).unwrap().since = old;
        assert_eq!(recent.find(&metadata), None);
        assert_eq!(recent.0.lock().unwrap().bytes, 0);
    }

    #[test]
    fn files_settle() {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
        let ago = |milliseconds: u64, nanoseconds: i64| {
            let then = now - Duration::from_millis(milliseconds);
            (
                then.as_secs() as i64,
                if nanoseconds < 0 { then.subsec_nanos().into() } else { nanoseconds },
            )
        };
        let settled = |times| is_settled(&(0, 0, 0, times));
        let long = ago(100_000, 123_456_789);
        assert!(settled([long, long]));
        assert!(settled([long, ago(2000, 123_456_789)]));
        assert!(
            !settled([long, ago(1000, 0)]),
            "it may be any time of that second or the one before"
        );
        assert!(settled([long, ago(4000, 0)]));
        assert!(!settled([long, ago(0, -1)]));
        assert!(!settled([ago(0, -1), long]));
        let future = (now.as_secs() as i64 + 1000, 123_456_789);
        assert!(!settled([future, long]));
    }
}
