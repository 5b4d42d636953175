//! Values of options and arguments, for completions. Parsing checks them separately, with better messages.

use anabranch::AssociationConfig;
use anabranch::config::Kind;
use anabranch_lab::scenario::Library;
use clap::builder::{PossibleValue, PossibleValuesParser};
use clap::{Arg, Command, ValueHint};
use clap_complete::Shell;

/// Arguments of the laboratory that are scenarios.
const SCENARIOS: [&str; 3] = ["id", "ids", "from"];

/// The command line with possible values for arguments that have only a few known ones.
pub(super) fn known(command: Command) -> Command {
    let scenarios = scenarios();
    let command = command.mut_args(with_values);
    command.mut_subcommands(|command| match command.get_name() {
        "lab" => command.mut_subcommands(|command| {
            command.mut_args(with_values).mut_args(|argument| {
                match SCENARIOS.contains(&argument.get_id().as_str()) {
                    true => taking(argument, scenarios.clone()),
                    false => argument,
                }
            })
        }),
        "options" => command.mut_args(|argument| match argument.get_id() == "name" {
            true => {
                taking(argument, AssociationConfig::options().map(|option| option.name.to_owned()))
            }
            false => argument,
        }),
        _ => command.mut_args(with_values).mut_subcommands(|command| command.mut_args(with_values)),
    })
}

/// Adds to a script what clap does not generate: for zsh, files where scenarios are completed; for fish,
/// positional arguments.
pub(super) fn completed(shell: Shell, script: &str) -> String {
    let scenarios = scenarios().join(" ");
    match shell {
        Shell::Zsh => {
            let function = format!(
                "_anabranch_scenarios() {{\n    _alternative 'scenarios:scenario:({scenarios})' \
                 'files:file:_files -g \"*.toml\"'\n}}\n\n_anabranch() {{\n"
            );
            script.replace(&format!(":({scenarios})'"), ":_anabranch_scenarios'").replacen(
                "_anabranch() {\n",
                &function,
                1,
            )
        }
        Shell::Fish => {
            let options: Vec<&str> =
                AssociationConfig::options().map(|option| option.name).collect();
            let within = "complete -c anabranch -n \"__fish_anabranch_using_subcommand";
            format!(
                "{script}{within} lab; and __fish_seen_subcommand_from list show run check expect report trace\" \
                 -a \"{scenarios}\"\n{within} options\" -f -a \"{}\"\n",
                options.join(" ")
            )
        }
        _ => script.to_owned(),
    }
}

/// Documents and scenarios embedded in the program; empty if they cannot be unpacked.
fn scenarios() -> Vec<String> {
    let ids = Library::embedded().ok().and_then(|library| library.ids().ok()).unwrap_or_default();
    let mut names: Vec<String> =
        ids.iter().filter_map(|id| id.split('/').next()).map(str::to_owned).collect();
    names.dedup();
    names.extend(ids);
    names
}

fn with_values(argument: Arg) -> Arg {
    let id = argument.get_id().as_str();
    if id == "profile" {
        let profiles = AssociationConfig::PROFILES.iter().map(|(name, _)| (*name).to_owned());
        return taking(argument, profiles);
    }
    let option = AssociationConfig::options().find(|option| option.name == id);
    let words: &[&str] = match option.map(|option| option.kind) {
        Some(Kind::Word(words)) => words,
        Some(Kind::Switch) => &["on", "off"],
        _ => &[],
    };
    if !words.is_empty() {
        return taking(argument, words.iter().map(|word| (*word).to_owned()));
    }
    // The name of a value shows whether it is a file or a directory.
    let names = argument.get_value_names().unwrap_or_default();
    let hint = match names {
        [name] if name.starts_with("FILE") || name.ends_with("FILE") => ValueHint::FilePath,
        [name] if name.starts_with("DIR") => ValueHint::DirPath,
        _ => return argument,
    };
    argument.value_hint(hint)
}

fn taking(argument: Arg, values: impl IntoIterator<Item = String>) -> Arg {
    argument.value_parser(PossibleValuesParser::new(values.into_iter().map(PossibleValue::new)))
}
