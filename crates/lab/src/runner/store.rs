//! Finished points on disk, one file each, written in one piece or not at all.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::seeds::fingerprint;
use crate::metrics::{METRICS, Metrics};
use crate::scenario::{Point, Scenario};

/// Results cannot be kept or read.
#[derive(Debug, thiserror::Error)]
#[error("results cannot be kept in {path}: {error}; what was kept before is not lost", path = path.display())]
pub struct StoreError {
    path: PathBuf,
    error: io::Error,
}

/// A directory with results.
#[derive(Clone, Debug)]
pub struct Store {
    directory: PathBuf,
    build: String,
}

#[derive(Serialize, Deserialize)]
struct File {
    /// The program that made it: results of different programs are not mixed.
    build: String,
    /// What the point was: a changed scenario is another one.
    setup: String,
    scenario: String,
    point: String,
    runs: usize,
    /// The runs' values of each metric that was measured.
    metrics: BTreeMap<String, Vec<Option<f64>>>,
}

impl Store {
    /// Results in a directory, made by one build of the program. The directory is made.
    ///
    /// # Errors
    /// A directory that cannot be made.
    pub fn open(directory: &Path, build: &str) -> Result<Self, StoreError> {
        fs::create_dir_all(directory)
            .map_err(|error| StoreError { path: directory.to_owned(), error })?;
        Ok(Self { directory: directory.to_owned(), build: build.to_owned() })
    }

    /// A name for the program that runs: other code may have other results.
    ///
    /// # Errors
    /// A program whose file cannot be read.
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

    /// The runs of a point; none if there is no file, or one of something else.
    ///
    /// # Errors
    /// A file that is there and cannot be read.
    pub fn load(&self, scenario: &Scenario, point: &Point) -> Result<Vec<Metrics>, StoreError> {
        let path = self.path(scenario, point);
        let text = match fs::read(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(StoreError { path, error }),
        };
        // A damaged file is as good as none: the point is run again.
        let Ok(file) = serde_json::from_slice::<File>(&text) else { return Ok(Vec::new()) };
        if file.build != self.build || file.setup != setup(point) || file.point != point.key {
            return Ok(Vec::new());
        }
        let mut runs = vec![Metrics::default(); file.runs];
        for (name, values) in &file.metrics {
            for (run, value) in runs.iter_mut().zip(values) {
                if let Some(value) = value {
                    run.set(name, *value);
                }
            }
        }
        Ok(runs)
    }

    /// Keeps the runs of a point.
    ///
    /// # Errors
    /// A full disk, for instance; what was there before still is.
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
        write(&path, &file).map_err(|error| StoreError { path, error })
    }
}

/// Everything that a run depends on besides its seed.
fn setup(point: &Point) -> String {
    format!("{:016x}", fingerprint(format!("{:?}", point.setup).bytes()))
}

fn write(path: &Path, file: &File) -> io::Result<()> {
    let directory = path.parent().unwrap_or(Path::new("."));
    fs::create_dir_all(directory)?;
    let mut temporary = tempfile::NamedTempFile::new_in(directory)?;
    serde_json::to_writer(&mut temporary, file)?;
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

    #[test]
    fn a_damaged_file_is_as_good_as_none() {
        let scenario = read(&text(), &[]).unwrap();
        let point = &scenario.points[0];
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(dir.path(), "build").unwrap();
        store.save(&scenario, point, &[Metrics::default()]).unwrap();
        fs::write(store.path(&scenario, point), "{").unwrap();
        assert_eq!(store.load(&scenario, point).unwrap(), [] as [Metrics; 0]);
    }

    #[test]
    fn a_disk_that_takes_nothing_is_named() {
        let scenario = read(&text(), &[]).unwrap();
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(&dir.path().join("kept"), "build").unwrap();
        // Where the scenario's directory belongs stands a file.
        fs::write(dir.path().join("kept/test"), "").unwrap();
        let error = store.save(&scenario, &scenario.points[0], &[Metrics::default()]).unwrap_err();
        assert!(error.to_string().contains("what was kept before is not lost"), "{error}");
        fs::write(dir.path().join("file"), "").unwrap();
        assert!(Store::open(&dir.path().join("file"), "build").is_err());
    }
}
