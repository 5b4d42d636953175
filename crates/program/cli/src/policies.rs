//! Options of associations on the command line, generated from the engine's table.

use anabranch::AssociationConfig;
use anabranch::config::{Kind, OptionInfo};
use clap::builder::ValueParser;
use clap::{Arg, ArgMatches, Args, Command, Error, FromArgMatches};

/// The association options that were given.
#[derive(Clone, Debug, Default)]
pub(crate) struct PolicyOptions {
    /// The option as written on the command line, its entry in the table, and its value.
    given: Vec<(String, OptionInfo, String)>,
}

/// An option of the command line that sets an option of the table to one of its forms.
struct Shorthand {
    long: &'static str,
    option: &'static str,
    /// The form, without the value.
    form: &'static str,
    value_name: &'static str,
    help: &'static str,
}

const SHORTHANDS: [Shorthand; 3] = [
    Shorthand {
        long: "lifetime",
        option: "reliability",
        form: "lifetime",
        value_name: "TIME",
        help: "Give messages up that are older than this, instead of sending them late or again: short for \
               --reliability 'lifetime TIME'",
    },
    Shorthand {
        long: "max-retransmissions",
        option: "reliability",
        form: "retransmissions",
        value_name: "N",
        help: "Give a message up instead of retransmitting a part of it more often than this: short for \
               --reliability 'retransmissions N'",
    },
    Shorthand {
        long: "message-priority",
        option: "reliability",
        form: "priority",
        value_name: "N",
        help: "Give messages up for more important ones, with smaller numbers, when the send buffer is full: short \
               for --reliability 'priority N'",
    },
];

/// Another name for an option of the table, as commands are commonly spelled.
const ALIASES: [(&str, &str); 1] = [("interleaving", "interleave")];

impl Shorthand {
    /// The option of the table, and the value that it gets.
    fn expand(&self, value: &str) -> Option<(OptionInfo, String)> {
        let option = AssociationConfig::options().find(|option| option.name == self.option)?;
        Some((option, format!("{} {value}", self.form)))
    }

    fn argument(&'static self) -> Arg {
        let check = move |text: &str| {
            let Some((option, value)) = self.expand(text) else {
                return Err("no such option".to_owned());
            };
            let set = option.set(&mut AssociationConfig::default(), &value);
            set.map(|()| text.to_owned()).map_err(|error| error.to_string())
        };
        let others = SHORTHANDS.iter().map(|other| other.long).filter(|long| *long != self.long);
        Arg::new(self.long)
            .long(self.long)
            .help(self.help)
            .help_heading("Sending")
            .value_name(self.value_name)
            .value_parser(ValueParser::new(check))
            .conflicts_with_all(others.chain([self.option]).collect::<Vec<_>>())
    }
}

/// The option's name on the command line: its short name, if it has one.
fn long(option: &OptionInfo) -> String {
    option.short.unwrap_or(option.name).replace('_', "-")
}

/// The placeholder of its value in the help.
fn value_name(kind: Kind) -> &'static str {
    match kind {
        Kind::Time { .. } => "TIME",
        Kind::Size { .. } => "SIZE",
        Kind::Count { .. } => "N",
        Kind::Switch => "on|off",
        Kind::Word(_) => "WORD",
        Kind::List(_) => "LIST",
        _ => "FORM",
    }
}

/// The heading in the help for the options of a section.
fn heading(section: &str) -> &'static str {
    match section {
        "timers" => "Timers",
        "paths" => "Paths",
        "congestion" => "Congestion control",
        "recovery" => "Loss recovery",
        "multipath" => "Several paths at once",
        "acknowledging" => "Acknowledging",
        "receiving" => "Receiving",
        "sending" => "Sending",
        "mtu" => "Path MTU",
        "addresses" => "Addresses that come and go",
        "authentication" => "Authentication",
        _ => "Protocol",
    }
}

/// The help of an option: its meaning, possible values, and default.
fn help(option: &OptionInfo) -> String {
    let takes = match option.kind {
        Kind::Switch => String::new(),
        _ => format!("; it {}", option.expectation()),
    };
    let default = option.get(&AssociationConfig::default());
    let text = option.help();
    format!("{}{takes} [default: {default}]", text.trim_end_matches('.'))
}

fn argument(option: OptionInfo) -> Arg {
    let long = long(&option);
    let check = move |text: &str| {
        option.set(&mut AssociationConfig::default(), text).map(|()| text.to_owned())
    };
    let arg = Arg::new(option.name)
        .long(long)
        .help(help(&option))
        .help_heading(heading(option.section))
        .value_name(value_name(option.kind))
        .value_parser(ValueParser::new(check));
    // Its long name works as well, but is not in the help.
    let arg = match option.short {
        Some(_) => arg.alias(option.name.replace('_', "-")),
        None => arg,
    };
    let aliases = ALIASES.iter().filter(|(name, _)| *name == option.name);
    let arg = aliases.fold(arg, |arg, (_, alias)| arg.visible_alias(*alias));
    // An option that has no effect without another one requires it.
    let arg = match (option.section, option.name) {
        ("multipath", name) if name != "multipath" => arg.requires("multipath"),
        (_, "copies_share") => arg.requires("copies_up_to"),
        (_, "class_paths" | "class_bound") => arg.requires("class_from"),
        (_, "informed_failover") => arg.requires("change_primary_threshold"),
        _ => arg,
    };
    // The value of a switch is optional, and must follow an equals sign.
    if option.kind == Kind::Switch {
        arg.num_args(0..=1).require_equals(true).default_missing_value("on")
    } else {
        arg
    }
}

impl FromArgMatches for PolicyOptions {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        let mut options = Self::default();
        options.update_from_arg_matches(matches)?;
        Ok(options)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        for option in AssociationConfig::options() {
            if let Some(value) = matches.get_one::<String>(option.name) {
                self.given.push((format!("--{}", long(&option)), option, value.clone()));
            }
        }
        for shorthand in &SHORTHANDS {
            let value = matches.get_one::<String>(shorthand.long);
            if let Some((option, value)) = value.and_then(|value| shorthand.expand(value)) {
                self.given.push((format!("--{}", shorthand.long), option, value));
            }
        }
        Ok(())
    }
}

impl Args for PolicyOptions {
    fn augment_args(command: Command) -> Command {
        let command = AssociationConfig::options()
            .fold(command, |command, option| command.arg(argument(option)));
        SHORTHANDS.iter().fold(command, |command, shorthand| command.arg(shorthand.argument()))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl PolicyOptions {
    /// The options that were given, by their names.
    pub(crate) fn given(&self) -> impl Iterator<Item = &str> {
        self.given.iter().map(|(name, ..)| name.as_str())
    }

    /// Applies the given options to the options of an association.
    pub(crate) fn apply(&self, config: &mut AssociationConfig) {
        // Apply the mode of multipath transfer first: it sets other options, which may be given as
        // well.
        let is_mode = |option: &OptionInfo| option.name == "multipath";
        let (modes, others): (Vec<_>, Vec<_>) =
            self.given.iter().partition(|(_, option, _)| is_mode(option));
        for (_, option, value) in modes.into_iter().chain(others) {
            // The parser has validated it.
            let set = config.set(option.name, value);
            debug_assert!(set.is_ok(), "{set:?}");
        }
        // Turn on what an option needs, unless the user gave that.
        let given = |name: &str| self.given.iter().any(|(_, option, _)| option.name == name);
        if config.addresses.roam && !given("address_reconfiguration") {
            config.addresses.address_reconfiguration = true;
        }
        if config.addresses.address_reconfiguration && !given("authentication") {
            config.authentication.authentication = true;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use anabranch::config::{PathChoice, RetransmissionPolicy};
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Program {
        file: Option<String>,
        #[command(flatten)]
        options: PolicyOptions,
    }

    fn parse(line: &str) -> Result<PolicyOptions, String> {
        let words = std::iter::once("test").chain(line.split_whitespace());
        Program::try_parse_from(words).map(|c| c.options).map_err(|error| error.to_string())
    }

    #[test]
    fn what_is_given_is_set_and_the_rest_stays() {
        let options = parse(
            "--retransmission frsame-rtoalt --har --timestamps --pf 0 --cpt 0 --rto-min 200ms \
             --dormant last-dest --retransmission-precedence same-path --never-renege=off",
        )
        .unwrap();
        let mut config = AssociationConfig::rfc2960();
        options.apply(&mut config);
        assert_eq!(config.paths.retransmission, RetransmissionPolicy::FrSameRtoAlt);
        assert_eq!(config.timers.rto_min, Duration::from_millis(200));
        assert_eq!(config.paths.potentially_failed_max_retrans, Some(0));
        assert!(config.paths.heartbeat_after_rto && !config.receiving.never_renege);
        assert!(!config.recovery.multiple_fast_retransmit);
        assert_eq!(options.given().count(), 9);
        let mut untouched = AssociationConfig::rfc2960();
        parse("").unwrap().apply(&mut untouched);
        assert_eq!(untouched, AssociationConfig::rfc2960());
    }

    #[test]
    fn the_mode_of_multipath_comes_first_wherever_it_stands() {
        let line = "--retransmission rtx-cwnd --path-choice lowest-rtt --multipath cmt-pf";
        let mut config = AssociationConfig::default();
        parse(line).unwrap().apply(&mut config);
        assert!(config.multipath.is_on());
        assert_eq!(config.multipath.path_choice, PathChoice::LowestRtt);
        assert_eq!(config.paths.retransmission, RetransmissionPolicy::RtxCwnd);
        assert_eq!(config.paths.potentially_failed_max_retrans, Some(0));
    }

    #[test]
    fn a_switch_takes_nothing_of_what_follows() {
        let words = ["test", "--har", "file"];
        let program = Program::try_parse_from(words).map_err(|error| error.to_string()).unwrap();
        assert_eq!(program.file.as_deref(), Some("file"));
        assert_eq!(program.options.given().collect::<Vec<_>>(), ["--har"]);
    }

    #[test]
    fn shorthands_set_the_options_of_the_table() {
        use anabranch::Reliability;
        for (line, reliability) in [
            ("--lifetime 50ms", Reliability::Lifetime(Duration::from_millis(50))),
            ("--max-retransmissions 2", Reliability::Retransmissions(2)),
            ("--message-priority 7", Reliability::Priority(7)),
        ] {
            let options = parse(line).unwrap();
            let mut config = AssociationConfig::default();
            options.apply(&mut config);
            assert_eq!(config.sending.reliability, reliability);
            assert!(line.starts_with(options.given().next().unwrap()), "{line}");
        }
        for line in ["--lifetime 1s --max-retransmissions 2", "--lifetime 1s --reliability full"] {
            assert!(parse(line).err().unwrap().contains("cannot be used with"), "{line}");
        }
        let mut config = AssociationConfig::default();
        parse("--interleave --scheduler priority").unwrap().apply(&mut config);
        assert!(config.sending.interleaving);
    }

    #[test]
    fn what_means_nothing_is_refused_with_the_options_name() {
        for (line, words) in [
            ("--retransmission sometimes", "must be one of all-rtx-same, all-rtx-alt"),
            ("--rto-min 0s", "rto_min must be a time from 1 ns to 1 h, not '0s'"),
            ("--pmr=-1", "path_max_retrans must be a whole number from 0 to"),
            ("--multipath on", "must be one of off, cmt, cmt-pf"),
            ("--har=maybe", "must be on or off"),
            ("--lifetime 50", "reliability must be"),
            ("--max-retransmissions=-1", "reliability must be"),
        ] {
            let error = parse(line).err().unwrap();
            assert!(error.contains(words), "{error}");
        }
    }
}
