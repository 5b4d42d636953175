//! Controls what `-h`, `--help` and `--help=all` show.

use std::ffi::OsString;

use clap::{ColorChoice, Command};

use crate::config_file::offer;

/// Headings of options for experts, which only `--help=all` shows.
const ADVANCED: [&str; 13] = [
    "SCTP",
    "Timers",
    "Paths",
    "Congestion control",
    "Loss recovery",
    "Several paths at once",
    "Acknowledging",
    "Receiving",
    "Sending",
    "Path MTU",
    "Addresses that come and go",
    "Authentication",
    "Protocol",
];

/// Options under these headings that are needed frequently, so `--help` shows them, too.
const COMMON: [&str; 6] =
    ["udp_port", "remote_udp_port", "profile", "capture", "multipath", "impair"];

/// Options that are needed frequently by commands that send messages, and these commands: `perf client`, `perf server`
/// and `echo`. Others send byte streams.
const OF_MESSAGES: [&str; 5] =
    ["scheduler", "interleaving", "lifetime", "max-retransmissions", "message-priority"];
const SENDERS: [&str; 3] = ["client", "server", "echo"];

/// The last line of `-h` and `--help`.
const MORE: &str = "Options of the protocol: --help=all";

/// What `-h` shows instead of examples.
const EXAMPLES: &str = "Examples: --help.";

/// Hides the options of a command that only `--help=all` shows.
pub(crate) fn shape(command: Command, all: bool) -> Command {
    let command = match colors(std::env::var_os("NO_COLOR"), std::env::var_os("FORCE_COLOR")) {
        Some(true) => command.color(ColorChoice::Always),
        Some(false) => command.color(ColorChoice::Never),
        None => command,
    };
    shape_one(command, all)
}

fn shape_one(command: Command, all: bool) -> Command {
    let mut hidden = false;
    let sends = SENDERS.contains(&command.get_name());
    let mut command = offer(command).args_override_self(true).mut_args(|argument| {
        let heading = argument.get_help_heading().unwrap_or_default().to_owned();
        let advanced = ADVANCED.contains(&heading.as_str());
        let id = argument.get_id().as_str();
        let common = COMMON.contains(&id) || sends && OF_MESSAGES.contains(&id);
        hidden |= advanced && !all;
        // Parse a number below zero as a wrong value, not as an unknown option.
        let argument = match argument.get_action().takes_values() {
            true => argument.allow_negative_numbers(true),
            false => argument,
        };
        // Few users need these options.
        let rare = argument.is_hide_short_help_set();
        argument
            .hide_short_help(rare || (advanced && !all))
            .hide_long_help(advanced && !all && !common)
    });
    // Only --help has examples.
    let examples = command.get_after_help().map(ToString::to_string).unwrap_or_default();
    let more = if hidden { MORE } else { "" };
    let long = [examples.as_str(), more].join("\n\n");
    let hint = if examples.is_empty() { "" } else { EXAMPLES };
    let short = [hint, more].join(" ");
    command = command.after_help(short.trim().to_owned()).after_long_help(long.trim().to_owned());
    command.mut_subcommands(|subcommand| shape_one(subcommand, all))
}

/// Whether to use colours; `None` means only on terminals.
pub(crate) fn colors(no_color: Option<OsString>, force_color: Option<OsString>) -> Option<bool> {
    let given = |value: Option<OsString>| value.filter(|value| !value.is_empty());
    match (given(no_color), given(force_color)) {
        (Some(_), _) => Some(false),
        (None, Some(force)) => Some(force != "0"),
        (None, None) => None,
    }
}

/// The arguments with `--help=all` translated for clap, and whether it was among them.
pub(crate) fn arguments(given: impl Iterator<Item = OsString>) -> (Vec<OsString>, bool) {
    let mut all = false;
    let mut arguments: Vec<_> = given.collect();
    for argument in arguments.iter_mut().take_while(|argument| *argument != "--") {
        if argument == "--help=all" {
            all = true;
            *argument = "--help".into();
        }
    }
    (arguments, all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_are_for_terminals_unless_told_otherwise() {
        let of = |no: &str, force: &str| colors(Some(no.into()), Some(force.into()));
        assert_eq!(colors(None, None), None);
        assert_eq!(of("", ""), None);
        assert_eq!(of("1", "1"), Some(false));
        assert_eq!(of("", "1"), Some(true));
        assert_eq!(of("", "0"), Some(false));
    }

    #[test]
    fn all_of_the_help_can_be_asked_for() {
        let of = |words: &str| arguments(words.split(' ').map(OsString::from));
        assert_eq!(of("a get --help=all"), (vec!["a".into(), "get".into(), "--help".into()], true));
        assert!(!of("a get --help").1);
        assert!(!of("a get -- --help=all").1);
    }
}
