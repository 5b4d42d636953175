//! Changes of expectations.
//!
//! A document's scenarios have a file `expectations.log` next to them. It has a line for each
//! expectation when it was written, and one for each change with the reason. A changed claim
//! without a line is reported. Reports list every line after a claim's first.

use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use crate::scenario::Scenario;
use crate::units::{MOST_TEXT, read_text};

/// The log cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// The file cannot be read or written.
    #[error("{path} cannot be read or written: {error}", path = path.display())]
    File {
        /// Its name.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// An invalid line.
    #[error("{path}:{line}: a line has a date, a claim, what is expected and why, with tabs between", path = path.display())]
    Line {
        /// The file.
        path: PathBuf,
        /// Line from 1.
        line: usize,
    },
}

/// A line of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// Day, as in 2026-11-21.
    pub date: String,
    /// `document/figure/claim`.
    pub claim: String,
    /// The expectation from then on.
    pub expectation: String,
    /// The reason for it or for the change.
    pub why: String,
}

fn path(scenario: &Scenario) -> PathBuf {
    scenario.file.with_file_name("expectations.log")
}

fn read(path: &Path) -> Result<Vec<Change>, LogError> {
    let text = match read_text(path, MOST_TEXT) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(LogError::File { path: path.to_owned(), error }),
    };
    text.lines()
        .enumerate()
        .filter(|(_, line)| !line.trim().is_empty() && !line.starts_with('#'))
        .map(|(index, line)| match line.split('\t').collect::<Vec<_>>()[..] {
            [date, claim, expectation, why] => Ok(Change {
                date: date.to_owned(),
                claim: claim.to_owned(),
                expectation: expectation.to_owned(),
                why: why.to_owned(),
            }),
            _ => Err(LogError::Line { path: path.to_owned(), line: index + 1 }),
        })
        .collect()
}

/// The claims of a scenario whose expectation differs from the latest one in the log.
///
/// # Errors
/// Fails if the log cannot be read.
pub fn unrecorded(scenario: &Scenario) -> Result<Vec<String>, LogError> {
    let lines = read(&path(scenario))?;
    Ok(scenario
        .claims
        .iter()
        .filter(|claim| {
            let id = format!("{}/{}", scenario.id, claim.id);
            let latest = lines.iter().rev().find(|line| line.claim == id);
            latest.is_none_or(|line| line.expectation != claim.expectation())
        })
        .map(|claim| claim.id.clone())
        .collect())
}

/// Changes after a claim was written: each line of this scenario's claims except the first, and
/// removed claims.
///
/// # Errors
/// Fails if the log cannot be read.
pub fn changes(scenario: &Scenario) -> Result<Vec<Change>, LogError> {
    let lines = read(&path(scenario))?;
    let mut seen: Vec<&str> = Vec::new();
    let mut changes = Vec::new();
    for line in &lines {
        match line.claim.rsplit_once('/') {
            Some((id, _)) if id == scenario.id => {}
            _ => continue,
        }
        if seen.contains(&line.claim.as_str()) {
            changes.push(line.clone());
        } else {
            seen.push(&line.claim);
        }
    }
    for claim in seen {
        let id = claim.rsplit_once('/').map_or(claim, |(_, id)| id);
        if !scenario.claims.iter().any(|claim| claim.id == id) {
            changes.push(Change {
                date: String::new(),
                claim: claim.to_owned(),
                expectation: "the claim is not in the file any more".to_owned(),
                why: String::new(),
            });
        }
    }
    Ok(changes)
}

/// The claims of the scenario whose expectation was changed after it was first written.
///
/// # Errors
/// Fails if the log cannot be read.
pub fn changed(scenario: &Scenario) -> Result<Vec<String>, LogError> {
    let lines = changes(scenario)?;
    let is_changed = |id: &str| {
        let is_of = |line: &Change| line.claim.rsplit_once('/').is_some_and(|(_, of)| of == id);
        lines.iter().any(is_of)
    };
    let ids = scenario.claims.iter().map(|claim| claim.id.clone());
    Ok(ids.filter(|id| is_changed(id)).collect())
}

/// Adds expectations to the log that are not in it yet.
///
/// # Errors
/// Fails if the log cannot be written.
pub fn accept(scenario: &Scenario, date: &str, why: &str) -> Result<usize, LogError> {
    let path = path(scenario);
    let ids = unrecorded(scenario)?;
    let mut text = String::new();
    for claim in scenario.claims.iter().filter(|claim| ids.contains(&claim.id)) {
        let why = why.split_whitespace().collect::<Vec<_>>().join(" ");
        let expectation = claim.expectation();
        text.push_str(&format!("{date}\t{}/{}\t{expectation}\t{why}\n", scenario.id, claim.id));
    }
    let failed = |error| LogError::File { path: path.clone(), error };
    let mut file = fs::OpenOptions::new().create(true).append(true).open(&path).map_err(failed)?;
    file.write_all(text.as_bytes()).map_err(failed)?;
    Ok(ids.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::tests::text;

    #[test]
    fn changes_are_noticed_and_listed() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("1.toml");
        let with = |most: u32| {
            let claim = "[[claim]]\nid = 'a'\nkind = 'value'\ntext = 't'\nsource = 's'\n\
                         formula = '1 +\t2'\nat_most = ";
            fs::write(&file, format!("{}{claim}{most}\n", text())).unwrap();
            Scenario::load(&file, "test/1", &[]).unwrap()
        };
        let scenario = with(3);
        assert_eq!(unrecorded(&scenario).unwrap(), ["a"]);
        assert_eq!(accept(&scenario, "2026-11-21", "as the\tdocument says").unwrap(), 1);
        assert_eq!(unrecorded(&scenario).unwrap(), [] as [&str; 0]);
        assert_eq!(changes(&scenario).unwrap(), []);
        assert_eq!(changed(&scenario).unwrap(), [] as [&str; 0]);
        let scenario = with(4);
        assert_eq!(unrecorded(&scenario).unwrap(), ["a"]);
        accept(&scenario, "2026-11-22", "it was misread").unwrap();
        let changes = changes(&scenario).unwrap();
        assert_eq!(changes.len(), 1);
        assert_eq!(changes[0].expectation, "1 + 2: at most 4");
        assert_eq!(changes[0].why, "it was misread");
        assert_eq!(changed(&scenario).unwrap(), ["a"]);
        fs::write(dir.path().join("expectations.log"), "x\n").unwrap();
        assert!(unrecorded(&scenario).unwrap_err().to_string().contains("log:1:"));
    }
}
