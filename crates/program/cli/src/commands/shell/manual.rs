//! Man pages: the text that clap generates for a command, followed by further sections.

use std::io::{self, Write};
use std::path::Path;

use clap::Command;
use clap_mangen::Man;
use clap_mangen::roff::{Roff, bold, roman};

/// The line before the examples in the help of a command.
const EXAMPLES: &str = "Examples:";

/// Environment variables, and the commands that use them; an empty list means all commands.
const ENVIRONMENT: [(&str, &str, &[&str]); 5] = [
    (
        "ANABRANCH_LOG",
        "Filters of the log on standard error by target and level, such as 'anabranch=debug,anabranch_proto=trace'. \
         It overrides -v.",
        &[],
    ),
    ("COLUMNS", "Columns of the terminal, even if there is no terminal.", &[]),
    ("NO_COLOR, FORCE_COLOR", "No colours, or colours even if there is no terminal.", &[]),
    (
        "XDG_RUNTIME_DIR",
        "Endpoints have their control sockets in its directory 'anabranch'.",
        &["serve", "get", "put", "gateway", "perf", "echo", "discard", "inspect"],
    ),
    (
        "TOKIO_WORKER_THREADS",
        "Threads of a server, instead of one for each shard.",
        &["serve", "gateway", "perf", "echo", "discard"],
    ),
];

/// Files, and the commands that use them.
const FILES: [(&str, &str, &[&str]); 5] = [
    (
        "/etc/anabranch/NAME.toml",
        "Options of the server that 'systemctl start anabranch-serve@NAME' starts.",
        &["serve"],
    ),
    (
        "$XDG_RUNTIME_DIR/anabranch, /run/anabranch, /tmp/anabranch-UID",
        "Control sockets of running endpoints. Without XDG_RUNTIME_DIR, root uses the second one, and other users the \
         last one.",
        &["serve", "get", "put", "gateway", "perf", "echo", "discard", "inspect"],
    ),
    (
        "$XDG_CONFIG_HOME/anabranch/far.key, far.users, near.key",
        "Keys of the gateway and of its users; without XDG_CONFIG_HOME in ~/.config/anabranch.",
        &["gateway"],
    ),
    ("scenarios/DOCUMENT/FIGURE.toml", "Scenarios, here or in a directory above.", &["lab"]),
    (
        "/etc/hosts",
        "Within an emulated network it begins with the names of its hosts.",
        &["emulate"],
    ),
];

/// Writes the pages of a command and of all its subcommands.
pub(super) fn write(command: Command, directory: &Path) -> io::Result<()> {
    let mut command = command.disable_help_subcommand(true);
    command.build();
    write_one(&command, &[], directory)
}

fn write_one(command: &Command, above: &[&Command], directory: &Path) -> io::Result<()> {
    let mut path = above.to_vec();
    path.push(command);
    for below in command.get_subcommands().filter(|below| !below.is_hide_set()) {
        write_one(below, &path, directory)?;
    }
    let man = Man::new(command.clone()).source(format!("anabranch {}", env!("CARGO_PKG_VERSION")));
    let mut page = Vec::new();
    man.render_title(&mut page)?;
    man.render_name_section(&mut page)?;
    man.render_synopsis_section(&mut page)?;
    man.render_description_section(&mut page)?;
    if command.get_arguments().any(|argument| !argument.is_hide_set()) {
        man.render_options_section(&mut page)?;
    }
    if command.has_subcommands() {
        man.render_subcommands_section(&mut page)?;
    }
    sections(&path).to_writer(&mut page)?;
    let mut file = std::fs::File::create(directory.join(man.get_filename()))?;
    file.write_all(&page)?;
    file.flush()
}

/// The sections that clap does not generate.
fn sections(path: &[&Command]) -> Roff {
    let mut roff = Roff::new();
    // The subcommand of the program that this command is or belongs to; `None` for the program
    // itself.
    let topic = path.get(1).map(|command| command.get_name());
    let command = path.last().copied();
    examples(&mut roff, command);
    exit_status(&mut roff, topic);
    entries(&mut roff, "ENVIRONMENT", topic, &ENVIRONMENT);
    entries(&mut roff, "FILES", topic, &FILES);
    see_also(&mut roff, path);
    roff
}

fn examples(roff: &mut Roff, command: Option<&Command>) {
    let help =
        command.and_then(|command| command.get_after_long_help().or(command.get_after_help()));
    let help = help.map(ToString::to_string).unwrap_or_default();
    let Some((_, lines)) = help.split_once(EXAMPLES) else { return };
    roff.control("SH", ["EXAMPLES"]).control("nf", []);
    for line in lines.lines().map(str::trim).filter(|line| !line.is_empty()) {
        roff.text([roman(line)]);
    }
    roff.control("fi", []);
}

fn exit_status(roff: &mut Roff, topic: Option<&str>) {
    roff.control("SH", ["EXIT STATUS"]);
    let mut codes = vec![
        ("0", "Success. A server was stopped."),
        (
            "1",
            "The command failed, or a file cannot be read or is wrong. One sentence on standard error says why.",
        ),
        ("2", "The command line is wrong; nothing was started."),
        ("130", "It was stopped by Ctrl-C, SIGTERM or SIGHUP."),
    ];
    match topic {
        Some("emulate" | "run") => codes.push((
            "other",
            "The exit code of the command that was run, or 128 plus the number of its signal.",
        )),
        Some("script" | "swarm") => {
            codes[1].1 = "A script or a run failed, or a file cannot be read or is wrong.";
        }
        _ => {}
    }
    for (code, what) in codes {
        entry(roff, code, what);
    }
}

fn entry(roff: &mut Roff, name: &str, what: &str) {
    roff.control("TP", []).text([bold(name)]).text([roman(what)]);
}

fn entries(roff: &mut Roff, title: &str, topic: Option<&str>, all: &[(&str, &str, &[&str])]) {
    let mut of_topic = all
        .iter()
        .filter(|(.., topics)| {
            topics.is_empty() || topic.is_none_or(|topic| topics.contains(&topic))
        })
        .peekable();
    if of_topic.peek().is_some() {
        roff.control("SH", [title]);
    }
    for (name, what, _) in of_topic {
        entry(roff, name, what);
    }
}

/// The pages of the parent commands, the siblings and the subcommands.
fn see_also(roff: &mut Roff, path: &[&Command]) {
    let mut pages = Vec::new();
    for length in 1..path.len() {
        pages.push(page(&path[..length]));
    }
    if let [above @ .., command] = path {
        let (family, within): (&[&Command], &Command) = match (command.has_subcommands(), above) {
            (false, [.., parent]) => (above, *parent),
            _ => (path, *command),
        };
        let visible = within.get_subcommands().filter(|other| !other.is_hide_set());
        for other in visible.filter(|other| other.get_name() != command.get_name()) {
            pages.push(page(&[family, &[other]].concat()));
        }
    }
    roff.control("SH", ["SEE ALSO"]);
    let mut words = Vec::new();
    for (index, name) in pages.iter().enumerate() {
        words.push(bold(name.as_str()));
        words.push(roman(if index + 1 < pages.len() { "(1), " } else { "(1)" }));
    }
    roff.text(words);
}

/// The name of a page.
fn page(path: &[&Command]) -> String {
    path.iter().map(|command| command.get_name()).collect::<Vec<_>>().join("-")
}
