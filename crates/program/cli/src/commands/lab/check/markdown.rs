//! The tables of verdicts, and of agreement with the original simulator, as Markdown, for the documents
//! of the project.

use std::path::Path;

use anabranch_lab::check::{self, Checked};
use anabranch_units::{MOST_TEXT, read_text};

use crate::commands::lab::session;
use crate::failure::Failure;

const BEGIN: &str = "<!-- verdicts -->";
const END: &str = "<!-- end of verdicts -->";
const AGREEMENT: &str = "<!-- agreement -->";
const END_OF_AGREEMENT: &str = "<!-- end of agreement -->";

/// Writes the table of verdicts into a file: between the two marks, or as a new file. Also writes the
/// table of agreement, if it was requested and the file has the marks for it.
pub(super) fn write(file: &Path, checked: &[Checked]) -> Result<(), Failure> {
    let unreadable = |error| Failure::failed(format!("{} cannot be read: {error}", file.display()));
    let old = match read_text(file, MOST_TEXT) {
        Ok(old) => old,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => format!("{BEGIN}\n{END}\n"),
        Err(error) => return Err(unreadable(error)),
    };
    let Some(mut new) = between(&old, [BEGIN, END], &check::tables(checked)) else {
        return Err(Failure::failed(format!(
            "{} has no line '{BEGIN}' with a line '{END}' after it",
            file.display()
        )));
    };
    if checked.iter().any(|one| one.agreement.is_some())
        && let Some(both) =
            between(&new, [AGREEMENT, END_OF_AGREEMENT], &check::agreement_table(checked))
    {
        new = both;
    }
    session::write_file(file, &new)
}

/// The text with everything between the marks replaced.
fn between(old: &str, [begin, end]: [&str; 2], new: &str) -> Option<String> {
    let (before, rest) = old.split_once(begin)?;
    let (_, after) = rest.split_once(end)?;
    Some(format!("{before}{begin}\n\n{new}\n{end}{after}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_stands_between_the_marks_is_replaced() {
        let old = format!("a\n{BEGIN}\nold\n{END}\nb\n");
        let new = between(&old, [BEGIN, END], "new").unwrap();
        assert_eq!(new, format!("a\n{BEGIN}\n\nnew\n{END}\nb\n"));
        assert_eq!(between(&new, [BEGIN, END], "new").unwrap(), new);
        assert_eq!(between("no marks", [BEGIN, END], "new"), None);
        assert_eq!(between(&new, [AGREEMENT, END_OF_AGREEMENT], "new"), None);
    }
}
