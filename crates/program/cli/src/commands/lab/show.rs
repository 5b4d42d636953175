//! `anabranch lab show`.

use std::fmt::Write as _;
use std::path::Path;

use anabranch_lab::metrics::METRICS;
use anabranch_lab::scenario::{Library, Override, Scenario};
use clap::Args;

use super::session;
use crate::failure::Failure;
use crate::output;

/// Show what a scenario is about, and what it varies, measures and claims
#[derive(Debug, Args)]
pub(crate) struct Show {
    /// A scenario, or a file
    #[arg(value_name = "ID")]
    id: String,
    /// Print every value of the scenario instead, one a line: the SHA-256 of this text identifies the scenario in
    /// results
    #[arg(long)]
    resolved: bool,
    /// Change a field, or narrow an axis to these values (VALUE,VALUE), as for 'lab run'
    #[arg(long = "set", value_name = "KEY=VALUE", value_parser = session::change, requires = "resolved")]
    changes: Vec<Override>,
}

impl Show {
    pub(super) fn run(self, library: &Library) -> Result<(), Failure> {
        let scenarios = session::load(library, &[self.id], &self.changes)?;
        if self.resolved {
            let texts: Vec<&str> = scenarios.iter().map(|one| one.resolved.as_str()).collect();
            return output::print_data(&texts.concat());
        }
        let mut text = String::new();
        for scenario in &scenarios {
            // Writing to a string does not fail.
            let _ = describe(&mut text, scenario, &place(library, &scenario.file));
        }
        output::print(&output::prose(&text))
    }
}

/// The place of a scenario's file. Embedded scenarios have no lasting path.
fn place(library: &Library, file: &Path) -> String {
    match file.strip_prefix(library.directory()) {
        Ok(inside) if library.is_embedded() => format!("{} in the program", inside.display()),
        _ => file.display().to_string(),
    }
}

fn describe(text: &mut String, scenario: &Scenario, place: &str) -> std::fmt::Result {
    writeln!(text, "{}: {}", scenario.id, scenario.title)?;
    if !scenario.source.is_empty() {
        writeln!(text, "from {}", scenario.source)?;
    }
    if !scenario.notes.is_empty() {
        writeln!(text, "\n{}", scenario.notes.trim())?;
    }
    writeln!(text, "\nfile: {place}")?;
    let plan = scenario.replications;
    write!(text, "runs: {} of each point, {} points", plan.seeds, scenario.points.len())?;
    match plan.precision {
        Some(precision) => writeln!(
            text,
            "; less when the {:.0} % interval is within {:.1} % of the mean",
            plan.confidence * 100.0,
            precision * 100.0
        )?,
        None => writeln!(text, ", {:.0} % intervals", plan.confidence * 100.0)?,
    }
    writeln!(text, "\naxes")?;
    let rows: Vec<_> = std::iter::once(vec!["axis".to_owned(), "values".to_owned()])
        .chain(scenario.axes.iter().map(|axis| {
            let values: Vec<_> = axis.values.iter().map(|value| value.text.as_str()).collect();
            vec![axis.name.clone(), values.join(", ")]
        }))
        .collect();
    text.push_str(&output::table(&rows));
    let wanted = std::iter::once(&scenario.figure.y).chain(&scenario.figure.metrics);
    writeln!(text, "\nmetrics of the figure")?;
    for name in wanted {
        if let Some(metric) = METRICS.iter().find(|metric| metric.name == *name) {
            writeln!(text, "  {name}: {}", metric.what)?;
        }
    }
    if !scenario.claims.is_empty() {
        writeln!(text, "\nclaims")?;
    }
    for claim in &scenario.claims {
        let unit = &claim.unit;
        writeln!(text, "  {}/{} ({}): {}", scenario.id, claim.id, claim.kind, claim.text)?;
        writeln!(text, "    expected: {} {unit} ({})", claim.bounds, claim.source)?;
        if let Some(document) = claim.document {
            writeln!(text, "    document: {document} {unit}")?;
        }
        if let Some(reason) = &claim.reason {
            writeln!(text, "    differs because: {}", reason.trim())?;
        }
        if let Some(fitted) = &claim.fitted {
            writeln!(text, "    fitted: {}", fitted.trim())?;
        }
    }
    Ok(())
}
