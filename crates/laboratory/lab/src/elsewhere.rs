//! Claims that no run of a scenario shows, but a test does: time lines, equations, decision trees.
//!
//! A document's scenarios may have a file `elsewhere.log` next to them. It has a line for each claim: name, source,
//! text, file of the test and test, separated by tabs.

use std::io;
use std::path::{Path, PathBuf};

use crate::units::{MOST_TEXT, read_text};

/// A claim and the test that shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Elsewhere {
    /// `document/figure/claim`.
    pub id: String,
    /// Where it comes from.
    pub source: String,
    /// The claim.
    pub text: String,
    /// The file of the test, relative to the repository.
    pub file: String,
    /// The test function.
    pub test: String,
}

/// Reads the claims that are shown elsewhere, for the document with scenarios in `directory`; empty if there is no
/// file.
///
/// # Errors
/// Fails if the file cannot be read or has an invalid line.
pub fn read(directory: &Path) -> Result<Vec<Elsewhere>, String> {
    let file: PathBuf = directory.join("elsewhere.log");
    let text = match read_text(&file, MOST_TEXT) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(format!("{} cannot be read: {error}", file.display())),
    };
    let document =
        directory.file_name().map_or_else(String::new, |name| name.display().to_string());
    let line = |(number, line): (usize, &str)| match line.split('\t').collect::<Vec<_>>()[..] {
        [id, source, text, test_file, test] => Ok(Elsewhere {
            id: format!("{document}/{id}"),
            source: source.to_owned(),
            text: text.to_owned(),
            file: test_file.to_owned(),
            test: test.to_owned(),
        }),
        _ => Err(format!(
            "{}:{}: a line has a name, a source, what it says, a file and a test, with tabs between",
            file.display(),
            number + 1
        )),
    };
    text.lines().enumerate().map(line).collect()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// The listed tests exist.
    #[test]
    fn the_tests_exist() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..");
        let mut count = 0;
        for document in ["caro", "nat-ch2", "nat-ch3", "nat-ch4", "web"] {
            for claim in read(&root.join("scenarios").join(document)).unwrap() {
                let text = fs::read_to_string(root.join(&claim.file)).unwrap();
                let function =
                    format!("#[test]\n{}fn {}()", indent(&text, &claim.test), claim.test);
                assert!(text.contains(&function), "{}: {}", claim.id, claim.test);
                count += 1;
            }
        }
        assert_eq!(count, 17);
    }

    /// The indentation of a function.
    fn indent<'a>(text: &'a str, test: &str) -> &'a str {
        let name = format!("fn {test}()");
        let line = text.lines().find(|line| line.trim_start().starts_with(&name)).unwrap_or("");
        &line[..line.len() - line.trim_start().len()]
    }

    #[test]
    fn lines_that_are_none_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(read(dir.path()), Ok(Vec::new()));
        fs::write(dir.path().join("elsewhere.log"), "a\tb\tc\td\te\na\tb\n").unwrap();
        assert!(read(dir.path()).unwrap_err().contains("elsewhere.log:2: a line has"));
    }
}
