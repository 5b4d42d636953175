//! `--config FILE`: options of a server in a file, one on each line.
//!
//! The file is TOML without tables: `listen = "192.0.2.1:80"`, `json = true`, `rto_min = "200ms"`. Names
//! are those of the command line, with `-` or `_`. The options of the file are placed before those of
//! the command line, so that the latter override them.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;

use anabranch_units::{MOST_TEXT, read_text};
use clap::{Arg, ArgAction, Command};
use toml::de::{DeTable, DeValue};

use crate::failure::{Failure, mistake};

const OPTION: &str = "config";

/// Adds the option to a command that listens.
pub(crate) fn offer(command: Command) -> Command {
    if !command.get_arguments().any(|argument| argument.get_id() == "listen") {
        return command;
    }
    command.arg(
        Arg::new(OPTION)
            .long(OPTION)
            .value_name("FILE")
            .value_parser(clap::value_parser!(PathBuf))
            .help_heading(None::<&str>)
            .help("Read options from this file, one a line: 'rto-min = \"200ms\"'; the command line overrides them"),
    )
}

/// The arguments, preceded by those of the file that `--config` names.
///
/// # Errors
/// The file cannot be read, is not TOML, or has an option that the command does not know.
pub(crate) fn expand(
    program: &Command,
    arguments: Vec<OsString>,
) -> Result<Vec<OsString>, Failure> {
    // Other mistakes in the command line are reported later.
    let quiet = program.clone().ignore_errors(true).try_get_matches_from(&arguments);
    let Ok(matches) = quiet else { return Ok(arguments) };
    let (mut command, mut at, mut matches) = (program, 1, &matches);
    while let Some((name, next)) = matches.subcommand() {
        let place = arguments.iter().skip(at).position(|word| word == name);
        let (Some(found), Some(place)) = (command.find_subcommand(name), place) else { break };
        (command, at, matches) = (found, at + place + 1, next);
    }
    let Ok(Some(file)) = matches.try_get_one::<PathBuf>(OPTION) else { return Ok(arguments) };
    let name = file.display();
    let text = read_text(file, MOST_TEXT)
        .map_err(|error| Failure::failed(format!("the file {name} cannot be read: {error}")))?;
    let is_given = |argument: &Arg| {
        let source = matches.value_source(argument.get_id().as_str());
        source == Some(clap::parser::ValueSource::CommandLine)
    };
    let from_file = read(&text, program, command, is_given)
        .map_err(|(line, reason)| Failure::failed(format!("{name}, line {line}: {reason}")))?;
    let mut all = arguments;
    all.splice(at..at, from_file);
    Ok(all)
}

/// Converts the options of a file to arguments. An error has its line.
fn read(
    text: &str,
    program: &Command,
    command: &Command,
    is_given: impl Fn(&Arg) -> bool,
) -> Result<Vec<OsString>, (usize, String)> {
    let line = |at: usize| {
        text.as_bytes()[..at.min(text.len())].iter().filter(|b| **b == b'\n').count() + 1
    };
    let table = DeTable::parse(text).map_err(|error| {
        let at = error.span().map_or(0, |span| span.start);
        (line(at), error.message().lines().collect::<Vec<_>>().join(" "))
    })?;
    let global = || program.get_arguments().filter(|argument| argument.is_global_set());
    let (mut arguments, mut lines) = (Vec::new(), BTreeMap::new());
    for (key, value) in table.get_ref() {
        let at = line(key.span().start);
        let key = key.get_ref().replace('_', "-");
        // TOML rejects identical keys; these differ in '-' and '_'.
        if let Some(other) = lines.insert(key.clone(), at) {
            return Err((
                at.max(other),
                format!("'{key}' is already set in line {}", at.min(other)),
            ));
        }
        let mut all = command.get_arguments().chain(global());
        let Some(argument) = all.find(|argument| is_named(argument, &key)) else {
            let command = command.get_name();
            return Err((at, format!("'{command}' has no option '{key}'; see --help=all")));
        };
        if !is_settable(argument) {
            return Err((at, format!("'{key}' cannot be set in a file, only on the command line")));
        }
        let flag = !argument.get_action().takes_values();
        let value = value.get_ref();
        if flag && !matches!(value, DeValue::Boolean(_)) {
            return Err((at, format!("'{key}' is true or false")));
        }
        let Some(word) = word(value) else {
            return Err((at, format!("'{key}' must be a string, a number or a boolean")));
        };
        if !flag {
            check(argument, &word).map_err(|reason| (at, format!("'{key}': {reason}")))?;
        }
        if argument.is_positional() {
            if !is_given(argument) {
                arguments.push(word.into_owned().into());
            }
        } else if !flag {
            arguments.push(format!("--{key}={word}").into());
        } else if word == "on" {
            arguments.push(format!("--{key}").into());
        }
    }
    Ok(arguments)
}

fn is_named(argument: &Arg, key: &str) -> bool {
    argument.get_long().unwrap_or(argument.get_id().as_str()) == key
}

fn is_settable(argument: &Arg) -> bool {
    let once = matches!(argument.get_action(), ArgAction::Set | ArgAction::SetTrue);
    once && argument.get_id() != OPTION
}

/// Checks a value while its line is known; later it would be reported without one.
fn check(argument: &Arg, word: &str) -> Result<(), String> {
    let name = argument.get_long().unwrap_or(argument.get_id().as_str()).to_owned();
    let given = format!("--{name}={word}");
    let mut alone = Arg::new("value")
        .long(name)
        .value_names(argument.get_value_names().unwrap_or_default().to_vec())
        .value_parser(argument.get_value_parser().clone())
        .value_delimiter(argument.get_value_delimiter());
    if let Some(number) = argument.get_num_args() {
        alone = alone.num_args(number);
    }
    let alone = Command::new("").arg(alone).try_get_matches_from(["", &given]);
    alone.map(drop).map_err(|error| mistake(&error))
}

/// A value as it would be written on the command line.
fn word<'a>(value: &'a DeValue<'_>) -> Option<Cow<'a, str>> {
    Some(match value {
        DeValue::String(text) => Cow::Borrowed(text.as_ref()),
        DeValue::Integer(number) => Cow::Borrowed(number.as_str()),
        DeValue::Float(number) => Cow::Borrowed(number.as_str()),
        DeValue::Boolean(true) => Cow::Borrowed("on"),
        DeValue::Boolean(false) => Cow::Borrowed("off"),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn serve() -> Command {
        let flag = |name: &'static str| Arg::new(name).long(name).action(ArgAction::SetTrue);
        let option = |name: &'static str| Arg::new(name).long(name);
        let number = option("udp-port").value_parser(clap::value_parser!(u16));
        let format = option("log-format").value_parser(["text", "json"]).global(true);
        let serve = Command::new("serve").args([
            Arg::new("directory"),
            option("listen"),
            option("rto-min"),
            option("abc"),
            number,
            flag("json"),
        ]);
        let perf = Command::new("perf").subcommand(Command::new("server").arg(option("listen")));
        Command::new("a").args([flag("verbose"), format]).subcommands([offer(serve), perf])
    }

    fn read_serve(text: &str, given: bool) -> Result<Vec<OsString>, (usize, String)> {
        let program = serve();
        let command = program.find_subcommand("serve").unwrap();
        read(text, &program, command, |_| given)
    }

    #[test]
    fn each_line_is_an_option() {
        let text = "# a server\nlisten = '[::1]:80'\nrto_min = '200ms'\nabc = 7\njson = true\n";
        let arguments = read_serve(text, false).unwrap();
        assert_eq!(arguments, ["--listen=[::1]:80", "--rto-min=200ms", "--abc=7", "--json"]);
        assert_eq!(read_serve("json = false\nabc = false", false).unwrap(), ["--abc=off"]);
        assert_eq!(read_serve("directory = '/srv'", false).unwrap(), ["/srv"]);
        assert_eq!(read_serve("directory = '/srv'", true).unwrap(), [""; 0]);
        assert_eq!(read_serve("log_format = 'json'", true).unwrap(), ["--log-format=json"]);
    }

    #[test]
    fn what_is_wrong_is_told_with_its_line() {
        for (text, line, part) in [
            ("listen = 'a'\nlisten_on = 'b'", 2, "no option 'listen-on'"),
            ("\n\nlisten = ", 3, ""),
            ("listen = ['a']", 1, "must be a string"),
            ("[listen]\na = 1", 1, "must be a string"),
            ("json = 'yes'", 1, "true or false"),
            ("config = 'other'", 1, "'config' cannot be set in a file"),
            (
                "json = true\nudp_port = 70000",
                2,
                "'udp-port': invalid value '70000' for '--udp-port",
            ),
            ("json = true\nlog_format = 'xml'", 2, "'log-format': invalid value 'xml'"),
            ("abc = 1\nrto_min = '1s'\nrto-min = '2s'", 3, "'rto-min' is already set in line 2"),
        ] {
            let (at, reason) = read_serve(text, false).unwrap_err();
            assert_eq!(at, line, "{text}: {reason}");
            assert!(reason.contains(part), "{text}: {reason}");
        }
    }

    #[test]
    fn options_of_the_file_stand_before_those_of_the_command_line() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("serve.toml");
        std::fs::write(&file, "listen = 'x:1'\ndirectory = '/srv'\n").unwrap();
        let given = |words: &[&str]| -> Vec<OsString> {
            let mut words: Vec<OsString> = words.iter().map(OsString::from).collect();
            words.push(format!("--config={}", file.display()).into());
            words
        };
        let config = format!("--config={}", file.display());
        let all = expand(&serve(), given(&["a", "--verbose", "serve", "--json"])).unwrap();
        assert_eq!(all, ["a", "--verbose", "serve", "--listen=x:1", "/srv", "--json", &config]);
        let all = expand(&serve(), given(&["a", "serve", "here"])).unwrap();
        assert_eq!(all, ["a", "serve", "--listen=x:1", "here", &config]);
        let all = expand(&serve(), given(&["a", "--log-format", "text", "serve", "here"])).unwrap();
        assert_eq!(
            all,
            ["a", "--log-format", "text", "serve", "--listen=x:1", "here", &config],
            "options before the command may have values"
        );
        let without = vec!["a".into(), "perf".into(), "server".into()];
        assert_eq!(expand(&serve(), without.clone()).unwrap(), without);
    }
}
