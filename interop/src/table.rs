//! The table of all lanes and cases.

use std::fmt::Write;

use crate::cases::Case;
use crate::lane::{Outcome, Report};

/// One row per lane, one column per case; below the table, the reasons of exclusions and failures.
pub(crate) fn render(reports: &[Report], cases: &[Case]) -> String {
    let mut text = format!("{:<11}{:<8}{:<4}", "peer", "over", "IP");
    for case in cases {
        let _ = write!(text, "{:<10}", case.name());
    }
    let mut rows: Vec<[&str; 3]> = Vec::new();
    for report in reports {
        let row = [&report.peer[..], &report.transport, &report.family];
        if !rows.contains(&row) {
            rows.push(row);
        }
    }
    let mut notes: Vec<&str> = Vec::new();
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
                    Outcome::Ok => "ok".to_string(),
                    Outcome::Excluded => {
                        let known = notes.iter().position(|note| *note == report.detail);
                        let number = known.unwrap_or_else(|| {
                            notes.push(&report.detail);
                            notes.len() - 1
                        });
                        format!("-[{}]", number + 1)
                    }
                    Outcome::Failed => {
                        let _ = writeln!(
                            failures,
                            "{}: {}: {}",
                            row.join(" "),
                            case.name(),
                            report.detail
                        );
                        "FAILED".to_string()
                    }
                },
            };
            let _ = write!(text, "{cell:<10}");
        }
    }
    text = text.lines().map(str::trim_end).collect::<Vec<_>>().join("\n");
    text.push('\n');
    for (number, note) in notes.iter().enumerate() {
        let _ = writeln!(text, "[{}] left out: {note}", number + 1);
    }
    text + &failures
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
        ];
        let text = render(&reports, &[Case::Connect, Case::Paths, Case::Idle]);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "peer       over    IP  connect   paths     idle");
        assert_eq!(lines[1], "linux      udp     v4  ok        -[1]      FAILED");
        assert_eq!(lines[2], "[1] left out: why");
        assert_eq!(lines[3], "linux udp v4: idle: what");
    }
}
