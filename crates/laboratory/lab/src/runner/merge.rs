//! Puts results of several stores, or of units, into one.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

use super::plan::Runs;
use super::record::Record;
use super::store::{Store, StoreError, add, contents, parts, path, records, write};

/// What a merge did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Merged {
    /// Points with results.
    pub points: usize,
    /// Runs that are now in the store.
    pub runs: usize,
    /// Runs that were not in it before.
    pub new: usize,
}

/// Adds the results in directories (stores) and files (results of units, one a line) to a store. Everything is checked
/// before anything is written.
///
/// # Errors
/// Fails if a file cannot be read, is damaged, or is of another build than the store; and if two results of the same
/// run differ, or two results of the same point have different scenarios.
pub fn merge(store: &Store, from: &[PathBuf]) -> Result<Merged, StoreError> {
    let mut files = Vec::new();
    for place in from {
        find(place, place.is_dir(), &mut files)?;
    }
    let mut points: BTreeMap<(String, String), Found> = BTreeMap::new();
    for file in files {
        let is_of_store = file.extension().is_some_and(is_stored);
        for record in read(&file, store.build())? {
            let key = (record.scenario.clone(), record.point.clone());
            let found = points.entry(key).or_default();
            match is_of_store {
                false => found.records.push((file.clone(), record)),
                true if found.files.last() == Some(&file) => {}
                true => found.files.push(file.clone()),
            }
        }
    }
    let mut merged = Merged::default();
    // Once to find contradictions, and once to write: the runs of all stores need not fit into memory.
    for is_real in [false, true] {
        for ((scenario, point), found) in &points {
            let there = path(store.directory(), scenario, point);
            let (all, new) = found.with(&there, store.build())?;
            if let (true, Some(like)) = (is_real, &all.like) {
                write(&there, like, &all.runs)?;
                merged.points += 1;
                merged.runs += all.runs.len();
                merged.new += new;
            }
        }
    }
    Ok(merged)
}

/// Whether files with this extension belong to stores.
fn is_stored(extension: &OsStr) -> bool {
    ["json", "parts"].iter().any(|name| extension == *name)
}

/// Where the results of a point are.
#[derive(Default)]
struct Found {
    /// Files of stores.
    files: Vec<PathBuf>,
    /// Results of units, and the files that they are in.
    records: Vec<(PathBuf, Record)>,
}

impl Found {
    /// All results of the point, with those in its file `there`, and how many are not in that one.
    fn with(&self, there: &Path, build: &str) -> Result<(Together, usize), StoreError> {
        let mut all = Together { like: None, runs: Runs::new() };
        for file in [there, &parts(there)] {
            all.add_all(file, build)?;
        }
        let before = all.runs.len();
        for file in &self.files {
            all.add_all(file, build)?;
        }
        for (file, record) in &self.records {
            all.add(file, record)?;
        }
        let new = all.runs.len() - before;
        Ok((all, new))
    }
}

/// The results of one point.
struct Together {
    like: Option<Record>,
    runs: Runs,
}

impl Together {
    fn add_all(&mut self, file: &Path, build: &str) -> Result<(), StoreError> {
        read(file, build)?.iter().try_for_each(|record| self.add(file, record))
    }

    fn add(&mut self, file: &Path, record: &Record) -> Result<(), StoreError> {
        let contradiction = |reason: String| {
            StoreError::Contradiction(format!(
                "{} contradicts other results of {} at {}: {reason}; nothing is merged",
                file.display(),
                record.scenario,
                record.point
            ))
        };
        let like = self.like.get_or_insert_with(|| record.with(0, std::iter::empty()));
        if !like.is_like(record) {
            return Err(contradiction("it is of another version of the scenario".to_owned()));
        }
        add(&mut self.runs, record).map_err(contradiction)
    }
}

/// The records in a file; none if there is no such file.
fn read(file: &Path, build: &str) -> Result<Vec<Record>, StoreError> {
    let disk = |error| StoreError::Disk { path: file.to_owned(), error };
    let damaged = |reason| StoreError::Damaged { path: file.to_owned(), reason };
    let Some(text) = contents(file).map_err(disk)? else { return Ok(Vec::new()) };
    let records = match file.extension() {
        Some(extension) if extension == "json" => vec![Record::read(&text).map_err(damaged)?],
        _ => match records(&text) {
            (records, None) => records,
            (_, Some(reason)) => return Err(damaged(reason)),
        },
    };
    match records.iter().find(|record| record.build != build) {
        None => Ok(records),
        Some(record) => Err(StoreError::Contradiction(format!(
            "{} was made by the engine {}, and this program has {build}: merge with the program that made it, or make \
             these results again",
            file.display(),
            record.build
        ))),
    }
}

/// The files with results at a place: a file, or all of them in a store.
fn find(place: &Path, is_store: bool, files: &mut Vec<PathBuf>) -> Result<(), StoreError> {
    let disk = |error| StoreError::Disk { path: place.to_owned(), error };
    if !place.is_dir() {
        match !is_store || place.extension().is_some_and(is_stored) {
            true if !place.exists() => return Err(disk(std::io::ErrorKind::NotFound.into())),
            true => files.push(place.to_owned()),
            false => {}
        }
        return Ok(());
    }
    let entries = fs::read_dir(place).map_err(disk)?;
    let mut entries: Vec<PathBuf> = entries
        .map(|entry| entry.map(|entry| entry.path()))
        .collect::<Result<_, _>>()
        .map_err(disk)?;
    entries.sort();
    entries.iter().try_for_each(|entry| find(entry, true, files))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::Metrics;
    use crate::scenario::Scenario;
    use crate::scenario::tests::{read as scenario, text};

    /// A store with runs from `first` of the second point.
    fn store(dir: &Path, build: &str, first: usize, times: &[f64]) -> PathBuf {
        let (scenario, dir) =
            (scenario(&text(), &[]).unwrap(), dir.join(format!("{build}-{first}")));
        let runs =
            (first..).zip(times.iter().map(|t| Metrics::default().with("transfer_time_s", *t)));
        let store = Store::open(&dir, build).unwrap();
        store.keep(&scenario, &scenario.points[1], &runs.collect()).unwrap();
        dir
    }

    fn numbers(store: &Store, scenario: &Scenario) -> Vec<usize> {
        store.load(scenario, &scenario.points[1]).unwrap().runs.into_keys().collect()
    }

    #[test]
    fn stores_and_results_of_units_become_one_store() {
        let dir = tempfile::tempdir().unwrap();
        let scenario = scenario(&text(), &[]).unwrap();
        let parts =
            [store(dir.path(), "b", 0, &[1.0, 2.0]), store(dir.path(), "b", 3, &[4.0, 5.0])];
        let all = Store::open(&dir.path().join("all"), "b").unwrap();
        let merged = merge(&all, &parts).unwrap();
        assert_eq!(merged, Merged { points: 1, runs: 4, new: 4 });
        assert_eq!(numbers(&all, &scenario), [0, 1, 3, 4]);
        let run = Metrics::default().with("transfer_time_s", 3.0);
        let record = Record::new("b", &scenario, &scenario.points[1], 2, &[run]);
        let units = dir.path().join("units.jsonl");
        fs::write(&units, record.line().unwrap() + "\n").unwrap();
        // What is there already does no harm.
        let merged = merge(&all, &[units, parts[0].clone()]).unwrap();
        assert_eq!(merged, Merged { points: 1, runs: 5, new: 1 });
        drop(all);
        let whole = store(dir.path(), "b", 0, &[1.0, 2.0, 3.0, 4.0, 5.0]);
        let file =
            |dir: &Path| fs::read_dir(dir.join("test/1")).unwrap().next().unwrap().unwrap().path();
        let read = |dir: &Path| fs::read_to_string(file(dir)).unwrap();
        assert_eq!(read(&dir.path().join("all")), read(&whole));
    }

    #[test]
    fn what_does_not_belong_together_is_not_merged() {
        let dir = tempfile::tempdir().unwrap();
        let first = store(dir.path(), "b", 0, &[1.0, 2.0]);
        let all = Store::open(&dir.path().join("all"), "b").unwrap();
        let refused = |place: PathBuf, reason: &str| {
            let error = merge(&all, &[first.clone(), place]).unwrap_err().to_string();
            assert!(error.contains(reason), "{error}");
            assert!(!dir.path().join("all/test").exists(), "nothing is written");
        };
        refused(store(dir.path(), "other", 0, &[1.0]), "was made by the engine other");
        refused(
            store(dir.path(), "b", 1, &[9.0]),
            "run 1 has two results, which differ; nothing is merged",
        );
        refused(dir.path().join("none"), "cannot be kept");
        let changed = scenario(&text(), &[("association.pmr", "1")]).unwrap();
        let run = [Metrics::default()];
        let record = Record::new("b", &changed, &changed.points[1], 4, &run).line().unwrap();
        let units = dir.path().join("units");
        fs::write(&units, format!("{record}\n")).unwrap();
        refused(units.clone(), "another version of the scenario");
        fs::write(&units, format!("{}\n", record.replace("\"runs\":1", "\"runs\":2"))).unwrap();
        refused(units.clone(), "line 1: the checksum is wrong");
        fs::write(&units, "Killed\n").unwrap();
        refused(units, "line 1: the checksum is wrong");
    }
}
