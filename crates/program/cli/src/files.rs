//! The files that a command line names. An output must not be an input or another output.
//!
//! The arguments of every command are checked here, before any file is read or truncated. A test checks that each
//! argument that names a file is listed here.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use clap::{Arg, ArgMatches, Command};

use crate::failure::Failure;

/// What a command does with the file that an argument names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    /// It reads the file.
    Input,
    /// It writes the file, and overwrites an existing one.
    Output,
    /// It reads TOML files below this directory.
    Scenarios,
    /// Neither: it is a directory or a socket, or existing files are not overwritten.
    Other,
}

/// Maximum length of a chain of links.
const MOST_LINKS: usize = 40;

/// The files named on this process's command line, for later checks of files that are named only in an input or a
/// URL.
static NAMED: OnceLock<Vec<Named>> = OnceLock::new();

/// The role of an argument of a command; `None` if it does not name a file.
fn role(command: &str, argument: &str) -> Option<Role> {
    Some(match (command, argument) {
        ("pattern-new", "csv" | "captures") => Role::Input,
        ("lab-new", "file") => Role::Other,
        ("lab", "scenarios") => Role::Scenarios,
        ("pattern-convert" | "lab-merge", "from") | ("perf-chart", "sources") => Role::Input,
        ("pattern-convert", "to") => Role::Output,
        (_, "config" | "impair" | "replay" | "mahimahi" | "statistics" | "ca" | "library") => {
            Role::Input
        }
        (_, "file" | "files" | "id" | "ids") => Role::Input,
        (_, "csv" | "json" | "html" | "events" | "to_qvis" | "parquet" | "svg" | "markdown") => {
            Role::Output
        }
        (_, "log" | "capture" | "report" | "qlog" | "pcap" | "filmstrip" | "output") => {
            Role::Output
        }
        (_, "key" | "known_servers") => Role::Input,
        ("pattern-new", "out") => Role::Output,
        ("run", "host" | "join") => Role::Other,
        (_, "out" | "directory" | "pictures" | "control" | "scenarios" | "upload") => Role::Other,
        _ => return None,
    })
}

/// A file that an argument names.
#[derive(Debug)]
struct Named {
    /// The argument as the user writes it.
    argument: String,
    file: PathBuf,
    role: Role,
}

/// Checks that no output of a command line is one of its inputs, or another output.
pub(crate) fn check(program: &Command, matches: &ArgMatches) -> Result<(), Failure> {
    let named = named(program, matches);
    let (mut inputs, mut outputs): (Vec<&Named>, Vec<&Named>) = (Vec::new(), Vec::new());
    for one in &named {
        match one.role {
            Role::Input | Role::Scenarios => inputs.push(one),
            Role::Output if is_file(&one.file) => outputs.push(one),
            Role::Output | Role::Other => {}
        }
    }
    for (index, output) in outputs.iter().enumerate() {
        let (argument, name) = (&output.argument, output.file.display());
        if inputs.iter().any(|input| input.reads(&output.file)) {
            return Err(Failure::usage(format!(
                "{argument} would overwrite {name}, which is to be read: give it another name"
            )));
        }
        let before = outputs.iter().take(index).find(|other| is_same(&other.file, &output.file));
        if let Some(other) = before {
            let other = &other.argument;
            return Err(Failure::usage(format!(
                "{other} and {argument} name one file, {name}: give each one of its own"
            )));
        }
    }
    // One process has one command line.
    let _ = NAMED.set(named);
    Ok(())
}

/// Checks a file that an input file names. Returns the reason if it is also an output.
pub(crate) fn read_too(file: &Path) -> Result<(), String> {
    let named = NAMED.get().into_iter().flatten();
    let mut outputs = named.filter(|one| one.role == Role::Output && is_file(&one.file));
    match outputs.find(|output| is_same(&output.file, file)) {
        Some(output) => Err(format!("is to be read, and {} would overwrite it", output.argument)),
        None => Ok(()),
    }
}

/// Checks a file that is written for a URL. Fails if an argument names it, too.
pub(crate) fn written_too(file: &Path) -> Result<(), Failure> {
    let mut named = NAMED.get().into_iter().flatten();
    let is_it = |one: &&Named| match one.role {
        Role::Input | Role::Scenarios => one.reads(file),
        Role::Output => is_file(&one.file) && is_same(&one.file, file),
        Role::Other => false,
    };
    match named.find(is_it) {
        Some(one) => Err(Failure::usage(format!(
            "{} and the file of a URL name one file, {}: give each one of its own",
            one.argument,
            file.display()
        ))),
        None => Ok(()),
    }
}

/// Returns the files that the arguments of a command line name.
fn named(program: &Command, matches: &ArgMatches) -> Vec<Named> {
    let (mut command, mut matches, mut path) = (program, matches, String::new());
    let mut named = Vec::new();
    loop {
        for argument in command.get_arguments() {
            if let Some(role) = role(&path, argument.get_id().as_str()) {
                named.extend(values(argument, matches).map(|file| Named {
                    argument: title(argument),
                    file,
                    role,
                }));
            }
        }
        let Some((name, inner)) = matches.subcommand() else { return named };
        let Some(next) = command.find_subcommand(name) else { return named };
        path = if path.is_empty() { name.to_owned() } else { format!("{path}-{name}") };
        (command, matches) = (next, inner);
    }
}

fn values(argument: &Arg, matches: &ArgMatches) -> impl Iterator<Item = PathBuf> {
    let takes = argument.get_action().takes_values();
    let raw = matches.try_get_raw(argument.get_id().as_str()).ok().flatten();
    raw.into_iter().flatten().filter(move |_| takes).map(PathBuf::from)
}

fn title(argument: &Arg) -> String {
    match argument.get_long() {
        Some(long) => format!("--{long}"),
        None => argument.get_id().as_str().to_uppercase(),
    }
}

impl Named {
    /// Whether this input includes a file.
    fn reads(&self, output: &Path) -> bool {
        if self.role == Role::Scenarios {
            let is_scenario = output.extension().is_some_and(|extension| extension == "toml");
            let within = |(file, folder): (PathBuf, PathBuf)| file.starts_with(folder);
            let both = output.canonicalize().ok().zip(self.file.canonicalize().ok());
            return is_scenario && both.is_some_and(within);
        }
        // Some inputs have a name before the file, or the number of an interface after it.
        let text = self.file.to_str().unwrap_or_default();
        let (named, numbered) = (text.split_once('='), text.rsplit_once(':'));
        let parts = named.map(|(_, file)| file).into_iter().chain(numbered.map(|(file, _)| file));
        let files = parts.map(Path::new).chain([self.file.as_path()]);
        files.into_iter().any(|file| is_file(file) && is_same(file, output))
    }
}

/// Whether this is a file: not standard output, which has separate rules, nor a device, which may be written by
/// several.
fn is_file(file: &Path) -> bool {
    let is_device = || file.exists() && !file.is_file() && !file.is_dir();
    file.as_os_str() != "-" && !is_device()
}

/// Whether two names refer to the same file: the same inode, or if it does not exist yet, the same location.
fn is_same(one: &Path, other: &Path) -> bool {
    if one == other {
        return true;
    }
    match (identity(one), identity(other)) {
        (Some(one), Some(other)) => one == other,
        (None, None) => place(one).is_some_and(|one| place(other) == Some(one)),
        _ => false,
    }
}

#[cfg(unix)]
fn identity(file: &Path) -> Option<(u64, u64)> {
    use std::os::unix::fs::MetadataExt as _;
    std::fs::metadata(file).ok().map(|metadata| (metadata.dev(), metadata.ino()))
}

#[cfg(not(unix))]
fn identity(file: &Path) -> Option<PathBuf> {
    file.canonicalize().ok()
}

/// Where a file would be created. Follows links whose targets do not exist yet.
fn place(file: &Path) -> Option<PathBuf> {
    let mut file = file.to_owned();
    for _ in 0..MOST_LINKS {
        let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty());
        let folder = folder.unwrap_or(Path::new(".")).canonicalize().ok()?;
        match std::fs::read_link(&file) {
            Ok(target) => file = folder.join(target),
            Err(_) => return Some(folder.join(file.file_name()?)),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    fn told(arguments: &[&str]) -> Option<String> {
        let program = crate::Program::command();
        let all = ["anabranch"].iter().chain(arguments);
        let matches = program.clone().try_get_matches_from(all).unwrap();
        let failure = check(&program, &matches).err()?;
        Some(failure.told().0.unwrap_or_default().to_owned())
    }

    #[test]
    fn every_argument_that_names_a_file_has_a_role() {
        fn walk(command: &Command, path: &str, unknown: &mut Vec<String>) {
            for argument in command.get_arguments() {
                let id = argument.get_id().as_str();
                let is_path = argument.get_value_parser().type_id()
                    == clap::builder::ValueParser::path_buf().type_id();
                let names = argument.get_value_names().unwrap_or_default();
                let says_so = names.iter().any(|name| name.as_str().starts_with("FILE"));
                if (is_path || says_so) && role(path, id).is_none() {
                    unknown.push(format!("{path} {id}"));
                }
            }
            for next in command.get_subcommands() {
                let name = next.get_name();
                let path = if path.is_empty() { name.to_owned() } else { format!("{path}-{name}") };
                walk(next, &path, unknown);
            }
        }
        let mut unknown = Vec::new();
        walk(&crate::Program::command(), "", &mut unknown);
        assert!(unknown.is_empty(), "{unknown:?}");
    }

    #[test]
    fn an_output_is_no_input() {
        let folder = tempfile::tempdir().unwrap();
        let within = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
        let (file, other) = (within("a.toml"), within("b"));
        std::fs::write(&file, "").unwrap();
        std::fs::hard_link(&file, within("hard")).unwrap();
        let again = format!("{}/./a.toml", folder.path().display());
        let capture = format!("{file}:0");
        let source = format!("name={file}");
        for output in [&file, &again, &within("hard")] {
            for arguments in [
                &["analyze", &file, "--csv", output][..],
                &["analyze", &other, &file, "--html", output],
                &["qlog", &file, "--html", output],
                &["qlog", &file, "--to-qvis", output],
                &["lab", "run", &file, "--csv", output],
                &[
                    "lab",
                    "--scenarios",
                    folder.path().to_str().unwrap(),
                    "run",
                    "a",
                    "--csv",
                    &file,
                ],
                &["lab", "trace", &file, "--pcap", output],
                &["emulate", &file, "--log", output],
                &["emulate", &other, "--replay", &file, "--log", output],
                &["emulate", &other, "--replay", &file, "--capture", output],
                &["pattern", "convert", &file, output],
                &["pattern", "show", &file, "--svg", output],
                &["pattern", "new", "loss", "--csv", &file, "--out", output],
                &["pattern", "new", "--captures", &capture, &other, "--out", output],
                &["perf", "chart", &source, "--svg", output],
                &["get", "sctp://h/", "--impair", &file, "--capture", output],
                &["echo", "--listen", "127.0.0.1:7", "--impair", &file, "--qlog", output],
            ] {
                let said = told(arguments).unwrap_or_default();
                assert!(said.contains(" would overwrite "), "{arguments:?}: {said}");
            }
        }
        for arguments in [
            &["analyze", &file, "--csv", &other][..],
            &["analyze", "-", "--csv", &other],
            &["lab", "run", &file, "--csv", "-", "--json", &other],
            &["analyze", &file, "--csv", "/dev/null", "--html", "/dev/null"],
        ] {
            assert_eq!(told(arguments), None, "{arguments:?}");
        }
    }

    #[test]
    fn two_outputs_are_two_files() {
        let folder = tempfile::tempdir().unwrap();
        let within = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
        let (one, two) = (within("a"), within("b"));
        let again = format!("{}/./a", folder.path().display());
        let said = told(&["analyze", "x", "--csv", &one, "--html", &again]).unwrap();
        assert!(said.starts_with("--csv and --html name one file, "), "{said}");
        assert_eq!(told(&["analyze", "x", "--csv", &one, "--html", &two]), None);
        #[cfg(unix)]
        {
            // Neither file exists yet, and one name is a link to the other.
            std::os::unix::fs::symlink("a", &two).unwrap();
            assert!(told(&["analyze", "x", "--csv", &one, "--html", &two]).is_some());
        }
    }
}
