//! `anabranch options`: the engine's table of options.

use anabranch::AssociationConfig;
use anabranch::config::OptionInfo;
use clap::Args;
use serde::Serialize;

use crate::failure::Failure;
use crate::output;

/// Show all options of associations: their values, their defaults in each profile, and their
/// meaning
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Only options whose name contains this
    name: Option<String>,
    /// Print JSON
    #[arg(long, conflicts_with = "markdown")]
    json: bool,
    /// Print tables in Markdown, one section each
    #[arg(long)]
    markdown: bool,
}

/// An option as JSON.
#[derive(Debug, Serialize)]
struct Row {
    section: &'static str,
    name: &'static str,
    short: Option<&'static str>,
    takes: String,
    live: bool,
    defaults: Vec<(&'static str, String)>,
    help: String,
}

fn row(option: &OptionInfo) -> Row {
    let defaults = AssociationConfig::PROFILES.iter();
    Row {
        section: option.section,
        name: option.name,
        short: option.short,
        takes: option.expectation().trim_start_matches("must be ").to_owned(),
        live: option.live,
        defaults: defaults.map(|(name, profile)| (*name, option.get(&profile()))).collect(),
        help: option.help(),
    }
}

/// The document of `--json`.
#[derive(Serialize)]
struct Document<'a> {
    options: &'a [Row],
}

impl Options {
    pub(crate) fn run(self) -> Result<(), Failure> {
        let wanted = self.name.unwrap_or_default().replace('-', "_");
        let rows: Vec<Row> = AssociationConfig::options()
            .filter(|option| option.name.contains(&wanted) || option.short == Some(&wanted))
            .map(|option| row(&option))
            .collect();
        if rows.is_empty() {
            return Err(Failure::usage(format!("no option's name contains '{wanted}'")));
        }
        if self.json {
            return output::print_json(&Document { options: &rows });
        }
        output::print(&if self.markdown { markdown(&rows) } else { output::filled(&plain(&rows)) })
    }
}

/// The default profile's value, and the values of profiles that differ from it.
fn defaults(row: &Row) -> String {
    let Some(((_, default), rest)) = row.defaults.split_first() else { return String::new() };
    let others: Vec<_> = rest.iter().filter(|(_, value)| value != default).collect();
    match others.is_empty() {
        true => default.clone(),
        false => others.iter().fold(format!("default: {default}"), |text, (name, value)| {
            format!("{text}, {name}: {value}")
        }),
    }
}

fn plain(rows: &[Row]) -> String {
    let mut text = String::new();
    for row in rows {
        let short = row.short.map(|short| format!(" ({short})")).unwrap_or_default();
        let live = if row.live { "; may change while the association is up" } else { "" };
        text += &format!("{}{short}\n", row.name);
        text += &format!("    {}\n", row.help);
        text += &format!("    takes {}{live}\n    {}\n", row.takes, defaults(row));
    }
    text
}

/// The page `docs/options.md`.
fn markdown(rows: &[Row]) -> String {
    let mut text = String::from(
        "# Options of associations\n\nMade by `anabranch options --markdown`. The names are those of scenarios and \
         scripts, of `--set` and of\n`AssociationConfig::set`; on the command line `-` stands for `_`, and the short \
         name, if there is one,\nfor the long one. Profiles that differ from the default one have their values next to its. What is \
         marked with * may\nchange while an association is up.\n",
    );
    let mut section = None;
    for row in rows {
        if section != Some(row.section) {
            section = Some(row.section);
            let title = if row.section.is_empty() { "others" } else { row.section };
            text += &format!(
                "\n## {title}\n\n| option | takes | default | what it means |\n|---|---|---|---|\n"
            );
        }
        let live = if row.live { "*" } else { "" };
        let short = row.short.map(|short| format!(", `{short}`")).unwrap_or_default();
        let cell = |text: &str| text.replace('|', "\\|");
        text += &format!(
            "| `{}`{short}{live} | {} | {} | {} |\n",
            row.name,
            cell(&row.takes),
            cell(&defaults(row)),
            cell(&row.help)
        );
    }
    text
}
