//! Stores finished points on disk, one file each, written completely or not at all.
//!
//! A file is one JSON object. Its first field is a checksum of the rest, so that damaged data is never used.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::seeds::fingerprint;
use crate::metrics::{self, METRICS, Metrics};
use crate::scenario::{Point, Scenario, sha256};

/// Largest file that is read: 100,000 runs with every metric are smaller.
const MOST_BYTES: u64 = 1 << 30;

/// Most runs of a point.
const MOST_RUNS: usize = 100_000;

/// How every file begins, before the checksum.
const BEGIN: &str = "{\"checksum\":\"";

/// Hexadecimal digits of a checksum.
const DIGITS: usize = 64;

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
}

/// A directory with results.
#[derive(Clone, Debug)]
pub struct Store {
    directory: PathBuf,
    build: String,
}

#[derive(Serialize, Deserialize)]
struct File {
    /// The code that made it: results of different code are not mixed.
    build: String,
    /// The setup of the point: after a change of the scenario it is different.
    setup: String,
    scenario: String,
    point: String,
    runs: usize,
    /// The runs' values of each metric that was measured.
    metrics: BTreeMap<String, Vec<Option<f64>>>,
}

/// In a file of any version, the program that wrote it.
#[derive(Deserialize)]
struct Made {
    build: String,
}

impl Store {
    /// Results in a directory, made by the code that `build` identifies. The directory is created.
    ///
    /// # Errors
    /// Fails if the directory cannot be created.
    pub fn open(directory: &Path, build: &str) -> Result<Self, StoreError> {
        fs::create_dir_all(directory)
            .map_err(|error| StoreError::Disk { path: directory.to_owned(), error })?;
        Ok(Self { directory: directory.to_owned(), build: build.to_owned() })
    }

    /// A name for the running program, if nothing is known about the code in it: other code may have other results.
    ///
    /// # Errors
    /// Fails if the program's file cannot be read.
    pub fn this_build() -> io::Result<String> {
        let program = fs::read(std::env::current_exe()?)?;
        Ok(format!("{:016x}", fingerprint(program.into_iter())))
    }

    fn path(&self, scenario: &Scenario, point: &Point) -> PathBuf {
        let name = format!("{:016x}.json", fingerprint(point.key.bytes()));
        let scenario: String = scenario
            .id
            .chars()
            .map(|c| if c.is_ascii_alphanumeric() || ".-_/".contains(c) { c } else { '_' })
            .collect();
        self.directory.join(scenario.replace("..", "__")).join(name)
    }

    /// The runs of a point; none if there is no file, or one of another setup.
    ///
    /// # Errors
    /// Fails if the file exists but cannot be read, or is damaged.
    pub fn load(&self, scenario: &Scenario, point: &Point) -> Result<Vec<Metrics>, StoreError> {
        let path = self.path(scenario, point);
        let text = match contents(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(StoreError::Disk { path, error }),
        };
        self.runs(&text, point).map_err(|reason| StoreError::Damaged { path, reason })
    }

    /// The runs in the text of a file, or an error about the file.
    fn runs(&self, text: &str, point: &Point) -> Result<Vec<Metrics>, String> {
        if text.len() as u64 > MOST_BYTES {
            return Err(format!("the file is longer than {MOST_BYTES} bytes"));
        }
        let Some(document) = checked(text) else {
            // Earlier programs stored no checksum.
            let of_another = serde_json::from_str::<Made>(text)
                .is_ok_and(|made| made.build != self.build && !text.starts_with(BEGIN));
            return match of_another {
                true => Ok(Vec::new()),
                false => Err("the checksum is wrong".to_owned()),
            };
        };
        let file: File = serde_json::from_str(&document).map_err(|error| error.to_string())?;
        if file.build != self.build || file.setup != setup(point) || file.point != point.key {
            return Ok(Vec::new());
        }
        if file.runs > MOST_RUNS {
            return Err(format!("{} runs, and a point has {MOST_RUNS} at most", file.runs));
        }
        if let Some((name, values)) = file.metrics.iter().find(|(_, v)| v.len() != file.runs) {
            let (values, runs) = (values.len(), file.runs);
            return Err(format!("{name} has {values} values, and there are {runs} runs"));
        }
        let mut runs = vec![Metrics::default(); file.runs];
        for (name, values) in &file.metrics {
            for (run, value) in runs.iter_mut().zip(values) {
                // An older file may contain a metric that no longer exists.
                if let Some(value) = value.filter(|_| metrics::find(name).is_some()) {
                    run.set(name, value);
                }
            }
        }
        Ok(runs)
    }

    /// Stores the runs of a point.
    ///
    /// # Errors
    /// Fails if the file cannot be written (a full disk, for instance). The previous file is kept.
    pub fn save(
        &self,
        scenario: &Scenario,
        point: &Point,
        runs: &[Metrics],
    ) -> Result<(), StoreError> {
        let path = self.path(scenario, point);
        let file = File {
            build: self.build.clone(),
            setup: setup(point),
            scenario: scenario.id.clone(),
            point: point.key.clone(),
            runs: runs.len(),
            metrics: METRICS
                .iter()
                .enumerate()
                .map(|(index, metric)| {
                    (metric.name.clone(), runs.iter().map(|run| run.at(index)).collect())
                })
                .filter(|(_, values): &(_, Vec<_>)| values.iter().any(Option::is_some))
                .collect(),
        };
        write(&path, &file).map_err(|error| StoreError::Disk { path, error })
    }
}

/// Everything that a run depends on besides its seed.
fn setup(point: &Point) -> String {
    format!("{:016x}", fingerprint(format!("{:?}", point.setup).bytes()))
}

/// The text of a file, or enough of it to show that it is too long. A device or a pipe may never end.
fn contents(path: &Path) -> io::Result<String> {
    if !fs::metadata(path)?.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "this is not a file"));
    }
    let mut bytes = Vec::new();
    fs::File::open(path)?.take(MOST_BYTES + 1).read_to_end(&mut bytes)?;
    // Bytes that are not UTF-8 are damaged, which the checksum shows.
    Ok(String::from_utf8(bytes)
        .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned()))
}

fn checksum(document: &str) -> String {
    sha256(document.as_bytes())
}

/// A document with its checksum as the first field.
fn sealed(document: &str) -> String {
    let rest = document.strip_prefix('{').unwrap_or(document);
    format!("{BEGIN}{}\",{rest}", checksum(document))
}

/// The document in a text with a checksum; `None` if the checksum is missing or wrong.
fn checked(text: &str) -> Option<String> {
    let (sum, rest) = text.strip_prefix(BEGIN)?.split_at_checked(DIGITS)?;
    let document = format!("{{{}", rest.strip_prefix("\",")?);
    (checksum(&document) == sum).then_some(document)
}

fn write(path: &Path, file: &File) -> io::Result<()> {
    let directory = path.parent().unwrap_or(Path::new("."));
    fs::create_dir_all(directory)?;
    let mut temporary = tempfile::NamedTempFile::new_in(directory)?;
    temporary.write_all(sealed(&serde_json::to_string(file)?).as_bytes())?;
    temporary.flush()?;
    temporary.as_file().sync_all()?;
    temporary.persist(path).map_err(|error| error.error)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::tests::{read, text};

    #[test]
    fn what_was_kept_is_read_again() {
        let scenario = read(&text(), &[]).unwrap();
        let point = &scenario.points[1];
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(dir.path(), "build").unwrap();
        assert_eq!(store.load(&scenario, point).unwrap(), [] as [Metrics; 0]);
        let runs = [
            Metrics::default().with("transfer_time_s", 0.1 + 0.2),
            Metrics::default().with("timeouts", 1e-300),
        ];
        store.save(&scenario, point, &runs).unwrap();
        let again = store.load(&scenario, point).unwrap();
        assert_eq!(again[0].get("transfer_time_s"), Some(0.1 + 0.2));
        assert_eq!((again[1].get("timeouts"), again[1].get("complete")), (Some(1e-300), None));
    }

    /// A store with the results of two runs, and the file that they are in.
    fn kept(directory: &Path, scenario: &Scenario) -> (Store, PathBuf) {
        let point = &scenario.points[0];
        let store = Store::open(directory, "build").unwrap();
        let runs = [1.25, 2.5].map(|time| Metrics::default().with("transfer_time_s", time));
        store.save(scenario, point, &runs).unwrap();
        let path = store.path(scenario, point);
        (store, path)
    }

    #[test]
    fn no_byte_of_a_file_can_change_unnoticed() {
        let scenario = read(&text(), &[]).unwrap();
        let dir = tempfile::tempdir().unwrap();
        let (store, path) = kept(dir.path(), &scenario);
        let whole = fs::read(&path).unwrap();
        let load = || store.load(&scenario, &scenario.points[0]);
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
            store.load(&scenario, &scenario.points[0]).map_err(|error| error.to_string())
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
        let point = &scenario.points[0];
        fs::write(&path, document.replace("\"build\":\"build\"", "\"build\":\"old\"")).unwrap();
        assert_eq!(store.load(&scenario, point).unwrap(), [] as [Metrics; 0]);
        // This program writes no file without a checksum.
        fs::write(&path, document).unwrap();
        assert!(matches!(store.load(&scenario, point), Err(StoreError::Damaged { .. })));
    }

    #[cfg(unix)]
    #[test]
    fn devices_are_not_read() {
        let scenario = read(&text(), &[]).unwrap();
        let dir = tempfile::tempdir().unwrap();
        let (store, path) = kept(dir.path(), &scenario);
        fs::remove_file(&path).unwrap();
        std::os::unix::fs::symlink("/dev/zero", &path).unwrap();
        let error = store.load(&scenario, &scenario.points[0]).unwrap_err();
        assert!(error.to_string().contains("this is not a file"), "{error}");
    }

    #[test]
    fn a_disk_that_takes_nothing_is_named() {
        let scenario = read(&text(), &[]).unwrap();
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(&dir.path().join("kept"), "build").unwrap();
        // There is a file in place of the scenario's directory.
        fs::write(dir.path().join("kept/test"), "").unwrap();
        let error = store.save(&scenario, &scenario.points[0], &[Metrics::default()]).unwrap_err();
        assert!(error.to_string().contains("what was kept before is not lost"), "{error}");
        fs::write(dir.path().join("file"), "").unwrap();
        assert!(Store::open(&dir.path().join("file"), "build").is_err());
    }
}
