//! Stores runs on disk: for each point a file with its first runs, written completely or not at all, and until
//! all runs of the point are finished a second file, to which each result is appended.
//!
//! A program that is killed loses only what it had not finished. Everything in the files is a [`Record`].

use std::fs::{self, File, TryLockError};
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::Deserialize;

use super::Observer;
use super::plan::{Runs, ranges};
use super::record::{BEGIN, MOST_RUNS, Record};
use super::seeds::fingerprint;
use crate::metrics::Metrics;
use crate::scenario::{Point, Scenario};

/// Largest file that is read: 100,000 runs with every metric are smaller.
const MOST_BYTES: u64 = 1 << 30;

/// The file that a program locks while it uses a store.
const LOCK: &str = "lock";

/// Results cannot be stored or read.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// A disk error.
    #[error("results cannot be kept in {path}: {error}; what was kept before is not lost", path = path.display())]
    Disk {
        /// The file or directory.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// A file has changed since it was written.
    #[error("the results in {path} are damaged and not used: {reason}", path = path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// The error in it.
        reason: String,
    },
    /// Another program has locked it.
    #[error(
        "another program is using the results in {path}: wait for its end, or use another directory and merge both \
         with 'anabranch lab merge'",
        path = path.display()
    )]
    InUse {
        /// The directory.
        path: PathBuf,
    },
    /// Results of the same runs differ, or are of different code.
    #[error("{0}")]
    Contradiction(String),
}

/// A directory with results. Only one program can use it at a time.
#[derive(Clone, Debug)]
pub struct Store {
    directory: PathBuf,
    build: String,
    /// Locked until the last copy is dropped. `None` on file systems without locks.
    _lock: Option<Arc<File>>,
}

/// In a file of any version, the program that wrote it.
#[derive(Deserialize)]
struct Made {
    build: String,
}

/// The runs of a point that are on disk.
#[derive(Debug, Default)]
pub struct Loaded {
    /// The runs.
    pub runs: Runs,
    /// Files that are not used, or not completely, because they are damaged.
    pub damaged: Vec<StoreError>,
    /// Whether results were appended since the point's file was written.
    pub(super) has_parts: bool,
}

impl Store {
    /// Results in a directory, made by the code that `build` identifies. The directory is created.
    ///
    /// # Errors
    /// Fails if the directory cannot be created, or another program uses it.
    pub fn open(directory: &Path, build: &str) -> Result<Self, StoreError> {
        let disk = |path: &Path, error| StoreError::Disk { path: path.to_owned(), error };
        fs::create_dir_all(directory).map_err(|error| disk(directory, error))?;
        let path = directory.join(LOCK);
        let lock = fs::OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .open(&path)
            .map_err(|error| disk(&path, error))?;
        let lock = match lock.try_lock() {
            Ok(()) => Some(Arc::new(lock)),
            Err(TryLockError::WouldBlock) => {
                return Err(StoreError::InUse { path: directory.to_owned() });
            }
            // A file system may have no locks.
            Err(TryLockError::Error(_)) => None,
        };
        Ok(Self { directory: directory.to_owned(), build: build.to_owned(), _lock: lock })
    }

    /// What identifies the code that makes results.
    pub fn build(&self) -> &str {
        &self.build
    }

    fn path(&self, scenario: &Scenario, point: &Point) -> PathBuf {
        path(&self.directory, &scenario.id, &point.key)
    }

    /// The directory.
    pub(super) fn directory(&self) -> &Path {
        &self.directory
    }

    /// The runs of all points. Damaged files are not used, and the observer is warned. What a program that was killed
    /// had appended is put in order.
    ///
    /// # Errors
    /// Fails if a file cannot be read or written.
    pub fn load_all(
        &self,
        scenario: &Scenario,
        observer: &dyn Observer,
    ) -> Result<Vec<Runs>, StoreError> {
        let mut points = Vec::with_capacity(scenario.points.len());
        for point in &scenario.points {
            let loaded = self.load(scenario, point)?;
            for damage in &loaded.damaged {
                observer.warn(&format!("{damage}; these runs are carried out again"));
            }
            if loaded.has_parts && !loaded.runs.is_empty() {
                let like = Record::new(&self.build, scenario, point, 0, &[]);
                write(&self.path(scenario, point), &like, &loaded.runs)?;
            }
            points.push(loaded.runs);
        }
        Ok(points)
    }

    /// All runs of a point, except those of another build or another setup.
    ///
    /// # Errors
    /// Fails if a file exists but cannot be read.
    pub fn load(&self, scenario: &Scenario, point: &Point) -> Result<Loaded, StoreError> {
        let path = self.path(scenario, point);
        let like = Record::new(&self.build, scenario, point, 0, &[]);
        let mut loaded = Loaded::default();
        match self.first_runs(&path, &like) {
            Ok(runs) => loaded.runs.extend(runs.into_iter().enumerate()),
            Err(damage @ StoreError::Damaged { .. }) => loaded.damaged.push(damage),
            Err(error) => return Err(error),
        }
        let parts = parts(&path);
        let Some(text) = contents(&parts).map_err(|error| disk(&parts, error))? else {
            return Ok(loaded);
        };
        loaded.has_parts = true;
        let (records, wrong) = records(&text);
        let wrong = wrong.into_iter().chain(
            records
                .iter()
                .filter(|record| record.is_like(&like))
                .filter_map(|record| add(&mut loaded.runs, record).err()),
        );
        let damaged = |reason| StoreError::Damaged { path: parts.clone(), reason };
        loaded.damaged.extend(wrong.collect::<Vec<_>>().into_iter().map(damaged));
        Ok(loaded)
    }

    /// The runs in the file of a point; none if there is no file, or one of another setup.
    fn first_runs(&self, path: &Path, like: &Record) -> Result<Vec<Metrics>, StoreError> {
        let Some(text) = contents(path).map_err(|error| disk(path, error))? else {
            return Ok(Vec::new());
        };
        let damaged = |reason| StoreError::Damaged { path: path.to_owned(), reason };
        if text.len() as u64 > MOST_BYTES {
            return Err(damaged(format!("the file is longer than {MOST_BYTES} bytes")));
        }
        // Earlier programs stored no checksum.
        let of_another = !text.starts_with(BEGIN)
            && serde_json::from_str::<Made>(&text).is_ok_and(|made| made.build != self.build);
        if of_another {
            return Ok(Vec::new());
        }
        let record = Record::read(&text).map_err(damaged)?;
        match record.is_like(like) && record.first == 0 {
            true => record.metrics().map_err(damaged),
            false => Ok(Vec::new()),
        }
    }

    /// Adds the results of a unit, so that they are not lost if the program is killed.
    ///
    /// # Errors
    /// Fails if they cannot be written. What was there before is kept.
    pub fn append(&self, scenario: &Scenario, record: &Record) -> Result<(), StoreError> {
        let path = parts(&path(&self.directory, &scenario.id, &record.point));
        append(&path, record).map_err(|error| disk(&path, error))
    }

    /// Stores runs of a point together with those that are there already.
    ///
    /// # Errors
    /// Fails if a file cannot be written (a full disk, for instance), or contradicts these runs. The previous files
    /// are kept.
    pub fn keep(&self, scenario: &Scenario, point: &Point, runs: &Runs) -> Result<(), StoreError> {
        let mut all = self.load(scenario, point)?.runs;
        for (number, run) in runs {
            if all.insert(*number, run.clone()).is_some_and(|there| there != *run) {
                return Err(StoreError::Contradiction(format!(
                    "run {number} of {} at {} has another result than the one in {}: the same run must give the same \
                     result, so delete one of them and find out why",
                    scenario.id,
                    point.key,
                    self.directory.display()
                )));
            }
        }
        let like = Record::new(&self.build, scenario, point, 0, &[]);
        write(&self.path(scenario, point), &like, &all)
    }
}

fn disk(path: &Path, error: io::Error) -> StoreError {
    StoreError::Disk { path: path.to_owned(), error }
}

/// The file of a point.
pub(super) fn path(directory: &Path, scenario: &str, point: &str) -> PathBuf {
    let name = format!("{:016x}.json", fingerprint(point.bytes()));
    let plain = |c: char| c.is_ascii_alphanumeric() || ".-_/".contains(c);
    let scenario: String = scenario.chars().map(|c| if plain(c) { c } else { '_' }).collect();
    directory.join(scenario.replace("..", "__").trim_start_matches('/')).join(name)
}

/// The file next to it to which results are appended.
pub(super) fn parts(path: &Path) -> PathBuf {
    path.with_extension("parts")
}

/// Adds the runs of a record. Fails if one of them is there with another result, and changes nothing then.
pub(super) fn add(runs: &mut Runs, record: &Record) -> Result<(), String> {
    let new = record.metrics()?;
    for (number, run) in (record.first..).zip(&new) {
        if runs.get(&number).is_some_and(|there| there != run) {
            return Err(format!("run {number} has two results, which differ"));
        }
    }
    runs.extend((record.first..).zip(new));
    Ok(())
}

/// The records in a text, one a line, and what is wrong with the first line that is not used. A last line without an
/// end was being written when the program was killed: that is no error.
pub(super) fn records(text: &str) -> (Vec<Record>, Option<String>) {
    if text.len() as u64 > MOST_BYTES {
        return (Vec::new(), Some(format!("the file is longer than {MOST_BYTES} bytes")));
    }
    let (mut records, mut wrong) = (Vec::new(), None);
    for (index, line) in text.split_inclusive('\n').enumerate() {
        let Some(line) = line.strip_suffix('\n') else { break };
        match Record::read(line.trim_end()) {
            Ok(record) => records.push(record),
            Err(reason) => wrong = wrong.or(Some(format!("line {}: {reason}", index + 1))),
        }
    }
    (records, wrong)
}

/// The text of a file, or enough of it to show that it is too long; `None` if there is none. A device or a pipe may
/// never end.
pub(super) fn contents(path: &Path) -> io::Result<Option<String>> {
    let is_file = match fs::metadata(path) {
        Ok(metadata) => metadata.is_file(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    if !is_file {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "this is not a file"));
    }
    let mut bytes = Vec::new();
    File::open(path)?.take(MOST_BYTES + 1).read_to_end(&mut bytes)?;
    // Bytes that are not UTF-8 are damaged, which the checksum shows.
    Ok(Some(
        String::from_utf8(bytes)
            .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned()),
    ))
}

fn append(path: &Path, record: &Record) -> io::Result<()> {
    let line = record.line()? + "\n";
    if let Some(directory) = path.parent() {
        fs::create_dir_all(directory)?;
    }
    let mut file = fs::OpenOptions::new().create(true).append(true).open(path)?;
    // All at once: several threads append.
    file.write_all(line.as_bytes())
}

/// Writes the runs of a point: the first ones without a gap to its file, and the others to that of the parts.
pub(super) fn write(path: &Path, like: &Record, runs: &Runs) -> Result<(), StoreError> {
    let numbers: Vec<usize> = runs.keys().copied().collect();
    let parts = parts(path);
    let mut lines = String::new();
    for range in ranges(&numbers, MOST_RUNS) {
        let record = like.with(range.start, runs.range(range.clone()).map(|(_, run)| run));
        let line = record.line().map_err(|error| disk(path, error.into()))?;
        match range.start {
            0 => replace(path, &line).map_err(|error| disk(path, error))?,
            _ => lines = lines + &line + "\n",
        }
    }
    let written = match lines.is_empty() {
        false => replace(&parts, &lines),
        true => match fs::remove_file(&parts) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            other => other,
        },
    };
    written.map_err(|error| disk(&parts, error))
}

/// Writes a file completely or not at all.
fn replace(path: &Path, text: &str) -> io::Result<()> {
    let directory = path.parent().unwrap_or(Path::new("."));
    fs::create_dir_all(directory)?;
    let mut temporary = tempfile::NamedTempFile::new_in(directory)?;
    temporary.write_all(text.as_bytes())?;
    temporary.flush()?;
    temporary.as_file().sync_all()?;
    temporary.persist(path).map_err(|error| error.error)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runner::record::{checked, sealed};
    use crate::scenario::tests::{read, text};

    #[test]
    fn what_was_kept_is_read_again() {
        let scenario = read(&text(), &[]).unwrap();
        let point = &scenario.points[1];
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(dir.path(), "build").unwrap();
        assert!(store.load(&scenario, point).unwrap().runs.is_empty());
        let runs = [
            Metrics::default().with("transfer_time_s", 0.1 + 0.2),
            Metrics::default().with("timeouts", 1e-300),
        ];
        store.keep(&scenario, point, &numbered(runs)).unwrap();
        let again = store.load(&scenario, point).unwrap().runs;
        assert_eq!(again[&0].get("transfer_time_s"), Some(0.1 + 0.2));
        assert_eq!((again[&1].get("timeouts"), again[&1].get("complete")), (Some(1e-300), None));
    }

    fn numbered(runs: impl IntoIterator<Item = Metrics>) -> Runs {
        runs.into_iter().enumerate().collect()
    }

    /// The runs on disk, or what is wrong with them.
    fn loaded(store: &Store, scenario: &Scenario) -> Result<Runs, StoreError> {
        let mut loaded = store.load(scenario, &scenario.points[0])?;
        loaded.damaged.pop().map_or(Ok(loaded.runs), Err)
    }

    /// A store with the results of two runs, and the file that they are in.
    fn kept(directory: &Path, scenario: &Scenario) -> (Store, PathBuf) {
        let point = &scenario.points[0];
        let store = Store::open(directory, "build").unwrap();
        let runs = [1.25, 2.5].map(|time| Metrics::default().with("transfer_time_s", time));
        store.keep(scenario, point, &numbered(runs)).unwrap();
        let path = store.path(scenario, point);
        (store, path)
    }

    #[test]
    fn no_byte_of_a_file_can_change_unnoticed() {
        let scenario = read(&text(), &[]).unwrap();
        let dir = tempfile::tempdir().unwrap();
        let (store, path) = kept(dir.path(), &scenario);
        let whole = fs::read(&path).unwrap();
        let load = || loaded(&store, &scenario);
        assert_eq!(load().unwrap().len(), 2);
        for at in 0..whole.len() {
            for to in [whole[at] ^ 1, b'9', 0xff] {
                let mut bytes = whole.clone();
                bytes[at] = to;
                fs::write(&path, &bytes).unwrap();
                let error = load().err().map(|error| error.to_string());
                let named = error.is_some_and(|error| {
                    error.contains(&path.display().to_string()) && error.contains("damaged")
                });
                assert!(named || to == whole[at], "byte {at} is {to}");
            }
        }
        for length in 0..whole.len() {
            fs::write(&path, &whole[..length]).unwrap();
            assert!(matches!(load(), Err(StoreError::Damaged { .. })), "{length} bytes");
        }
    }

    #[test]
    fn sizes_are_compared_with_what_is_there() {
        let scenario = read(&text(), &[]).unwrap();
        let dir = tempfile::tempdir().unwrap();
        let (store, path) = kept(dir.path(), &scenario);
        let document = checked(&fs::read_to_string(&path).unwrap()).unwrap();
        let load = |from: &str, to: &str| {
            assert!(document.contains(from), "{document}");
            fs::write(&path, sealed(&document.replace(from, to))).unwrap();
            loaded(&store, &scenario).map_err(|error| error.to_string())
        };
        for runs in ["1", "3", "1000000000000", "18446744073709551615"] {
            let error = load("\"runs\":2", &format!("\"runs\":{runs}")).unwrap_err();
            assert!(error.contains("runs"), "{error}");
        }
        let error = load("[1.25,2.5]", "[1.25]").unwrap_err();
        assert!(error.ends_with("transfer_time_s has 1 values, and there are 2 runs"), "{error}");
        let none = "\"runs\":100001,\"metrics\":{}";
        let error =
            load("\"runs\":2,\"metrics\":{\"transfer_time_s\":[1.25,2.5]}", none).unwrap_err();
        assert!(error.ends_with("100001 runs, and a point has 100000 at most"), "{error}");
    }

    #[test]
    fn what_an_earlier_program_kept_is_not_damaged() {
        let scenario = read(&text(), &[]).unwrap();
        let dir = tempfile::tempdir().unwrap();
        let (store, path) = kept(dir.path(), &scenario);
        let document = checked(&fs::read_to_string(&path).unwrap()).unwrap();
        fs::write(&path, document.replace("\"build\":\"build\"", "\"build\":\"old\"")).unwrap();
        assert!(loaded(&store, &scenario).unwrap().is_empty());
        // This program writes no file without a checksum.
        fs::write(&path, document).unwrap();
        assert!(matches!(loaded(&store, &scenario), Err(StoreError::Damaged { .. })));
    }

    #[cfg(unix)]
    #[test]
    fn devices_are_not_read() {
        let scenario = read(&text(), &[]).unwrap();
        let dir = tempfile::tempdir().unwrap();
        let (store, path) = kept(dir.path(), &scenario);
        fs::remove_file(&path).unwrap();
        std::os::unix::fs::symlink("/dev/zero", &path).unwrap();
        let error = loaded(&store, &scenario).unwrap_err();
        assert!(error.to_string().contains("this is not a file"), "{error}");
    }

    #[test]
    fn a_disk_that_takes_nothing_is_named() {
        let scenario = read(&text(), &[]).unwrap();
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(&dir.path().join("kept"), "build").unwrap();
        // There is a file in place of the scenario's directory.
        fs::write(dir.path().join("kept/test"), "").unwrap();
        let runs = numbered([Metrics::default()]);
        let error = store.keep(&scenario, &scenario.points[0], &runs).unwrap_err();
        assert!(error.to_string().contains("what was kept before is not lost"), "{error}");
        fs::write(dir.path().join("file"), "").unwrap();
        assert!(Store::open(&dir.path().join("file"), "build").is_err());
    }

    fn part(scenario: &Scenario, first: usize, times: &[f64]) -> Record {
        let runs: Vec<_> =
            times.iter().map(|time| Metrics::default().with("transfer_time_s", *time)).collect();
        Record::new("build", scenario, &scenario.points[0], first, &runs)
    }

    #[test]
    fn what_was_appended_survives_and_is_put_into_the_file() {
        let scenario = read(&text(), &[]).unwrap();
        let dir = tempfile::tempdir().unwrap();
        let (store, path) = kept(dir.path(), &scenario);
        store.append(&scenario, &part(&scenario, 5, &[5.0, 6.0])).unwrap();
        store.append(&scenario, &part(&scenario, 3, &[3.0])).unwrap();
        let parts = parts(&path);
        let whole = fs::read_to_string(&parts).unwrap();
        // A program that is killed leaves any part of the last line.
        let last = whole[..whole.len() - 1].rfind('\n').unwrap() + 1;
        for end in last..whole.len() {
            fs::write(&parts, &whole[..end]).unwrap();
            assert!(loaded(&store, &scenario).unwrap().keys().eq(&[0, 1, 5, 6]), "{end}");
        }
        fs::write(&parts, &whole).unwrap();
        let runs = loaded(&store, &scenario).unwrap();
        assert!(runs.keys().eq(&[0, 1, 3, 5, 6]));
        store.keep(&scenario, &scenario.points[0], &Runs::new()).unwrap();
        assert_eq!(loaded(&store, &scenario).unwrap(), runs);
        // The rest comes: there is one file, as if all had been carried out in order.
        let rest = [(2, 2.0), (4, 4.0)].map(|(n, time)| (n, part(&scenario, n, &[time])));
        let rest = rest.map(|(n, record)| (n, record.metrics().unwrap().remove(0)));
        store.keep(&scenario, &scenario.points[0], &Runs::from(rest)).unwrap();
        assert!(!parts.exists());
        let in_order = part(&scenario, 0, &[1.25, 2.5, 2.0, 3.0, 4.0, 5.0, 6.0]).line().unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), in_order);
    }

    #[test]
    fn a_result_that_contradicts_another_one_is_not_kept() {
        let scenario = read(&text(), &[]).unwrap();
        let dir = tempfile::tempdir().unwrap();
        let (store, path) = kept(dir.path(), &scenario);
        let before = fs::read(&path).unwrap();
        let runs = numbered([1.25, 9.0].map(|t| Metrics::default().with("transfer_time_s", t)));
        let error = store.keep(&scenario, &scenario.points[0], &runs).unwrap_err();
        assert!(matches!(error, StoreError::Contradiction(_)), "{error}");
        assert!(error.to_string().starts_with("run 1 of test/1 at loss=1 %, policy=Same has"));
        assert_eq!(fs::read(&path).unwrap(), before);
        store.append(&scenario, &part(&scenario, 1, &[9.0])).unwrap();
        let loaded = store.load(&scenario, &scenario.points[0]).unwrap();
        assert_eq!((loaded.runs.len(), loaded.damaged.len()), (2, 1));
    }

    #[test]
    fn only_one_program_uses_a_store() {
        let dir = tempfile::tempdir().unwrap();
        let first = Store::open(dir.path(), "build").unwrap();
        let error = Store::open(dir.path(), "build").unwrap_err();
        assert!(error.to_string().contains("another program is using the results in"), "{error}");
        drop(first);
        Store::open(dir.path(), "build").unwrap();
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_full_disk_loses_nothing_that_was_kept() {
        let scenario = read(&text(), &[]).unwrap();
        let dir = tempfile::tempdir().unwrap();
        let (store, path) = kept(dir.path(), &scenario);
        std::os::unix::fs::symlink("/dev/full", parts(&path)).unwrap();
        let error = store.append(&scenario, &part(&scenario, 2, &[3.0])).unwrap_err().to_string();
        assert!(error.contains("what was kept before is not lost"), "{error}");
        fs::remove_file(parts(&path)).unwrap();
        assert_eq!(loaded(&store, &scenario).unwrap().len(), 2);
    }
}
