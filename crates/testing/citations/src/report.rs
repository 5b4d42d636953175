//! A page of requirements: implemented, tested, exempt and open.

use std::collections::BTreeSet;
use std::fmt::Write;

use crate::source::{Citation, Kind};
use crate::table::Requirement;
use crate::words::words;

/// Keywords in the order of the report. MAY and OPTIONAL ask for nothing and are never open.
const KEYWORDS: [&str; 8] = [
    "MUST",
    "MUST NOT",
    "SHALL",
    "REQUIRED",
    "SHOULD",
    "SHOULD NOT",
    "RECOMMENDED",
    "NOT RECOMMENDED",
];

/// A requirement and its citations.
pub(crate) struct Row<'a> {
    requirement: &'a Requirement,
    citations: Vec<&'a Citation>,
}

impl Row<'_> {
    fn has(&self, kind: Kind) -> bool {
        self.citations.iter().any(|citation| citation.kind == kind)
    }

    fn is_open(&self) -> bool {
        self.citations.is_empty() && KEYWORDS.contains(&self.requirement.keyword.as_str())
    }
}

/// Numbers for one keyword.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Count {
    pub(crate) total: usize,
    pub(crate) done: usize,
    pub(crate) tested: usize,
    pub(crate) exempt: usize,
    pub(crate) open: usize,
}

/// Joins requirements and citations of one document. Citations that match nothing are returned
/// separately.
pub(crate) fn join<'a>(
    requirements: &'a [Requirement],
    citations: &[&'a Citation],
) -> (Vec<Row<'a>>, Vec<&'a Citation>) {
    let mut rows: Vec<Row<'a>> =
        requirements.iter().map(|requirement| Row { requirement, citations: Vec::new() }).collect();
    let mut unmatched = Vec::new();
    for citation in citations.iter().copied() {
        let quoted = words(&citation.quoted);
        let mut any = false;
        for row in &mut rows {
            if row.requirement.section == citation.section && row.requirement.has(&quoted) {
                row.citations.push(citation);
                any = true;
            }
        }
        if !any {
            unmatched.push(citation);
        }
    }
    (rows, unmatched)
}

/// The numbers by keyword.
pub(crate) fn counts(rows: &[Row<'_>]) -> Vec<(&'static str, Count)> {
    let count = |keyword: &'static str| {
        let mut count = Count::default();
        for row in rows.iter().filter(|row| row.requirement.keyword == keyword) {
            count.total += 1;
            count.done += usize::from(row.has(Kind::Required));
            count.tested += usize::from(row.has(Kind::Tested));
            count.exempt += usize::from(row.has(Kind::Exempt));
            count.open += usize::from(row.is_open());
        }
        (keyword, count)
    };
    KEYWORDS.into_iter().map(count).filter(|(_, count)| count.total > 0).collect()
}

/// The numbers as a table in Markdown, which is also readable in a terminal.
pub(crate) fn summary(rows: &[Row<'_>]) -> String {
    let mut out = String::from(
        "| keyword         | total | in code | in tests | exempt | open |\n\
         |-----------------|------:|--------:|---------:|-------:|-----:|\n",
    );
    for (keyword, Count { total, done, tested, exempt, open }) in counts(rows) {
        let _ = writeln!(
            out,
            "| {keyword:15} | {total:5} | {done:7} | {tested:8} | {exempt:6} | {open:4} |"
        );
    }
    out
}

/// A file's path, without the folders above its crate.
fn from_crate(file: &str) -> &str {
    let grouped = file.strip_prefix("crates/").and_then(|file| file.split_once('/'));
    grouped.map_or(file, |(_, file)| file)
}

/// The whole page of one document.
pub(crate) fn page(document: &str, rows: &[Row<'_>]) -> String {
    let mut out = format!("## {}\n\n{}\n", document.to_uppercase(), summary(rows));
    out.push_str("| section | keyword | about | code | tests | exempt because |\n");
    out.push_str("|---|---|---|---|---|---|\n");
    for row in rows.iter().filter(|row| !row.citations.is_empty() || row.is_open()) {
        let files = |kind: Kind| -> String {
            let files: BTreeSet<&str> = (row.citations.iter())
                .filter(|citation| citation.kind == kind)
                .map(|citation| from_crate(&citation.file))
                .collect();
            files.into_iter().collect::<Vec<_>>().join(", ")
        };
        let reasons: BTreeSet<&str> = (row.citations.iter())
            .filter(|citation| citation.kind == Kind::Exempt)
            .map(|citation| citation.reason.as_str())
            .collect();
        let Requirement { section, keyword, about, .. } = row.requirement;
        let code = if row.is_open() { "**open**".to_owned() } else { files(Kind::Required) };
        let _ = writeln!(
            out,
            "| {section} | {keyword} | {about} | {code} | {} | {} |",
            files(Kind::Tested),
            reasons.into_iter().collect::<Vec<_>>().join("; "),
        );
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::citations;
    use crate::table::extract;

    #[test]
    fn counts_what_is_cited() {
        let text = "1.  A\n\n   X MUST do this.  Y MUST do that.  Z MUST NOT rest.  \
                    P SHOULD go.  Q MAY stay here.\n";
        let requirements = extract(text);
        let marks = ["req:", "test:", "exempt:"];
        let source = format!(
            "// {0} rfc1 1 \"X MUST do\"\n// {1} rfc1 1 \"MUST do this\"\n\
             // {2} rfc1 1 \"Z MUST NOT rest\" it is late\n// {0} rfc1 1 \"Y MUST run\"\n\
             // {0} rfc1 1 \"Q MAY stay\"\n",
            marks[0], marks[1], marks[2]
        );
        let found: Vec<_> = citations("a.rs", &source).into_iter().map(Result::unwrap).collect();
        let (rows, unmatched) = join(&requirements, &found.iter().collect::<Vec<_>>());
        assert_eq!(unmatched.len(), 1);
        assert_eq!(unmatched[0].line, 4);
        assert_eq!(
            counts(&rows),
            [
                ("MUST", Count { total: 2, done: 1, tested: 1, exempt: 0, open: 1 }),
                ("MUST NOT", Count { total: 1, done: 0, tested: 0, exempt: 1, open: 0 }),
                ("SHOULD", Count { total: 1, done: 0, tested: 0, exempt: 0, open: 1 }),
            ]
        );
        let page = page("rfc1", &rows);
        assert!(
            page.contains("| 1 | MUST NOT | do that Z MUST") || page.contains("Z MUST NOT rest")
        );
        assert!(page.contains("it is late"));
        assert!(page.contains("**open**"));
    }
}
