//! `anabranch lab expect`.

use std::time::SystemTime;

use anabranch_lab::check;
use anabranch_lab::scenario::Library;
use clap::Args;

use super::session;
use crate::failure::Failure;
use crate::output;

/// Write new or changed expectations into the log next to the scenarios
///
/// Do this before a scenario is run for the first time; reports list later changes.
#[derive(Debug, Args)]
pub(crate) struct Expect {
    /// Documents, scenarios or files
    #[arg(value_name = "ID", required = true)]
    ids: Vec<String>,
    /// Why they are new, or changed
    #[arg(long, value_name = "TEXT")]
    why: String,
}

impl Expect {
    pub(super) fn run(self, library: &Library) -> Result<(), Failure> {
        if self.why.trim().is_empty() {
            return Err(Failure::usage("--why needs a reason"));
        }
        let scenarios = session::load(library, &self.ids, &[])?;
        let date = today();
        let mut written = 0;
        for scenario in &scenarios {
            written += check::accept(scenario, &date, &self.why).map_err(Failure::failed)?;
        }
        let plural = if written == 1 { "" } else { "s" };
        output::print(&format!("{written} expectation{plural} written\n"))
    }
}

/// Today's date in UTC, as in 2026-11-21.
fn today() -> String {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    date(now.as_secs() / 86_400)
}

/// The date of a day counted from 1970-01-01, in the Gregorian calendar.
fn date(days: u64) -> String {
    // Years begin in March, so that a leap day is the last day of its year; day 0 is 0000-03-01.
    let days = days + 719_468;
    let (era, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = era * 400 + year + u64::from(month <= 2);
    format!("{year:04}-{month:02}-{day:02}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_have_dates() {
        for (days, text) in [
            (0, "1970-01-01"),
            (11_016, "2000-02-29"),
            (11_017, "2000-03-01"),
            (20_778, "2026-11-21"),
        ] {
            assert_eq!(date(days), text);
        }
    }
}
