//! Checks the citations of RFCs in the sources.
//!
//! `citations` compares every `req:`, `test:` and `exempt:` comment with the tables in
//! `docs/requirements`, prints the numbers and writes `docs/conformance.md`. It fails if a
//! citation names a section or words that the table does not have.
//!
//! `citations table rfc9260.txt` makes such a table of a document's text.
#![forbid(unsafe_code)]

mod report;
mod source;
mod table;
mod words;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use crate::source::Citation;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let done = match arguments[..] {
        [] => check(&root()),
        ["table", file] => print_table(Path::new(file)),
        _ => {
            eprintln!("usage: citations [table <text of an RFC>]");
            return ExitCode::from(2);
        }
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::from(2)
        }
    }
}

/// The repository that this program was built from.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..")
}

fn read(path: &Path) -> Result<String, String> {
    fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))
}

fn print_table(path: &Path) -> Result<bool, String> {
    let requirements = table::extract(&read(path)?);
    print!("{}", table::write(&requirements));
    Ok(true)
}

/// Whether every citation is right.
fn check(root: &Path) -> Result<bool, String> {
    let tables = root.join("docs/requirements");
    let (all, malformed) = collect(root, &tables)?;
    for place in &malformed {
        eprintln!("{place}: a citation without document, section, quoted words or reason");
    }
    let mut wrong = malformed.len();
    let mut page = String::from(
        "# Conformance\n\nWritten by `cargo run -p anabranch-citations` from the citations in the \
         sources, with file names from their crate on.\n",
    );
    let documents: BTreeSet<&str> = all.iter().map(|citation| citation.document.as_str()).collect();
    for document in documents {
        let path = tables.join(format!("{document}.tsv"));
        let requirements =
            table::read(&read(&path)?).map_err(|error| format!("{}: {error}", path.display()))?;
        let citations: Vec<&Citation> =
            all.iter().filter(|citation| citation.document == document).collect();
        let (rows, unmatched) = report::join(&requirements, &citations);
        for Citation { file, line, section, quoted, .. } in &unmatched {
            eprintln!(
                "{file}:{line}: {document} section {section} asks for nothing with the words \"{quoted}\""
            );
        }
        wrong += unmatched.len();
        println!("{document}\n{}", report::summary(&rows));
        page.push('\n');
        page.push_str(&report::page(document, &rows));
    }
    let path = root.join("docs/conformance.md");
    fs::write(&path, page).map_err(|error| format!("{}: {error}", path.display()))?;
    println!("{} citations, {wrong} of them wrong", all.len() + malformed.len());
    Ok(wrong == 0)
}

/// All citations, and the places of malformed ones.
fn collect(root: &Path, tables: &Path) -> Result<(Vec<Citation>, Vec<String>), String> {
    let crates = root.join("crates");
    let mut files =
        source::sources(&crates).map_err(|error| format!("{}: {error}", crates.display()))?;
    let scripts = root.join("conformance");
    let scripts =
        source::sources(&scripts).map_err(|error| format!("{}: {error}", scripts.display()))?;
    files.extend(scripts);
    files.push(tables.join("exemptions.md"));
    let (mut all, mut malformed) = (Vec::new(), Vec::new());
    for path in files {
        let name = path.strip_prefix(root).unwrap_or(&path).display().to_string();
        for citation in source::citations(&name, &read(&path)?) {
            match citation {
                Ok(citation) => all.push(citation),
                Err(line) => malformed.push(format!("{name}:{line}")),
            }
        }
    }
    Ok((all, malformed))
}
