//! Interprets arbitrary bytes as a scenario file of the laboratory.

use std::path::Path;

use anabranch_lab::scenario::Scenario;

/// Reads a file. An error must be one sentence and name a line of the file. A valid file can also
/// be turned into the scenario of the null test.
pub fn scenario(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    match Scenario::read(text, Path::new("fuzz.toml"), "fuzz/1", &[]) {
        Ok(scenario) => {
            assert!(!scenario.points.is_empty());
            let (nulled, changed) = scenario.nulled();
            assert_eq!(nulled.points.len(), scenario.points.len());
            assert_eq!(changed.len(), scenario.points.len());
        }
        Err(problem) => {
            let lines = text.lines().count();
            assert!(problem.line <= lines + 1, "line {} of {lines}", problem.line);
            assert!(!problem.reason.trim().is_empty());
            assert!(!problem.reason.contains('\n'), "{}", problem.reason);
        }
    }
}
