//! The table of all lanes and cases.

use std::fmt::Write;

use crate::cases::Case;
use crate::lane::{Outcome, Report};

/// One row per lane, one column per case; below the table, the reasons of exclusions and failures.
pub(crate) fn render(reports: &[Report], cases: &[Case]) -> String {
    let mut text = format!("{:<11}{:<8}{:<4}", "peer", "over", "IP");
    for case in cases {
        let width = width(*case);
        let _ = write!(text, "{:<width$}", case.name());
    }
    let mut rows: Vec<[&str; 3]> = Vec::new();
    for report in reports {
        let row = [&report.peer[..], &report.transport, &report.family];
        if !rows.contains(&row) {
            rows.push(row);
        }
    }
    let mut notes: Vec<String> = Vec::new();
    let mut failures = String::new();
    for row in rows {
        let _ = write!(text, "\n{:<11}{:<8}{:<4}", row[0], row[1], row[2]);
        for case in cases {
            let found = reports.iter().find(|report| {
                [&report.peer[..], &report.transport, &report.family] == row
                    && report.case == case.name()
            });
            let cell = match found {
                None => String::new(),
                Some(report) => match report.outcome {
                    Outcome::Ok if report.detail.is_empty() => "ok".to_owned(),
                    Outcome::Ok => {
                        format!("ok[{}]", number(&mut notes, "in part", &report.detail))
                    }
                    Outcome::Excluded => {
                        format!("-[{}]", number(&mut notes, "left out", &report.detail))
                    }
                    Outcome::Failed => {
                        let (row, case, detail) = (row.join(" "), case.name(), &report.detail);
                        let _ = writeln!(failures, "{row}: {case}: {detail}");
                        "FAILED".to_owned()
                    }
                },
            };
            let width = width(*case);
            let _ = write!(text, "{cell:<width$}");
        }
    }
    text = text.lines().map(str::trim_end).collect::<Vec<_>>().join("\n");
    text.push('\n');
    for (number, note) in notes.iter().enumerate() {
        let _ = writeln!(text, "[{}] {note}", number + 1);
    }
    text + &failures
}

/// Width of the column of a case.
fn width(case: Case) -> usize {
    case.name().len().max(8) + 2
}

/// The number of a note, which is added unless it is there.
fn number(notes: &mut Vec<String>, what: &str, detail: &str) -> usize {
    let note = format!("{what}: {detail}");
    let known = notes.iter().position(|known| *known == note);
    known.unwrap_or_else(|| {
        notes.push(note);
        notes.len() - 1
    }) + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(case: &str, outcome: Outcome, detail: &str) -> Report {
        Report {
            peer: "linux".into(),
            transport: "udp".into(),
            family: "v4".into(),
            case: case.into(),
            outcome,
            detail: detail.into(),
            seconds: 1.0,
        }
    }

    #[test]
    fn reasons_and_failures_stand_below() {
        let reports = [
            report("connect", Outcome::Ok, ""),
            report("paths", Outcome::Excluded, "why"),
            report("idle", Outcome::Failed, "what"),
            report("interleave", Outcome::Ok, "half"),
        ];
        let cases = [Case::Connect, Case::Paths, Case::Idle, Case::Interleave];
        let text = render(&reports, &cases);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "peer       over    IP  connect   paths     idle      interleave");
        assert_eq!(lines[1], "linux      udp     v4  ok        -[1]      FAILED    ok[2]");
        assert_eq!(lines[2], "[1] left out: why");
        assert_eq!(lines[3], "[2] in part: half");
        assert_eq!(lines[4], "linux udp v4: idle: what");
    }
}
