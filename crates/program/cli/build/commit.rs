//! Finds the commit that the program is built from.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The commit if nothing says which one it is.
pub(crate) const UNKNOWN: &str = "unknown";

/// Longest name of a commit that is accepted.
const LONGEST: usize = 80;

/// The commit, with `-dirty` if files that the program is made from have changed since. The first of these that
/// names one:
///
/// 1. `told`, the value of the environment variable `ANABRANCH_COMMIT`: for builds outside of a checkout;
/// 2. `.cargo_vcs_info.json` in the directory `package`, which cargo adds to packages;
/// 3. git, if `root` is the top of a checkout; `sources` are the files that matter;
/// 4. the file `commit` in `package`, into which 'git archive' writes it.
///
/// # Errors
/// Fails if `told` cannot be the name of a commit.
pub(crate) fn commit(
    told: &str,
    package: &Path,
    root: Option<&Path>,
    sources: &[PathBuf],
) -> Result<String, String> {
    let told = told.trim();
    if !told.is_empty() {
        return match is_name(told) {
            true => Ok(told.to_owned()),
            false => Err(format!(
                "ANABRANCH_COMMIT is '{}': give a commit, letters and digits, or unset it",
                told.escape_debug()
            )),
        };
    }
    let found = packaged(package)
        .or_else(|| root.and_then(|root| checked_out(root, sources)))
        .or_else(|| archived(package));
    Ok(found.filter(|name| is_name(name)).unwrap_or_else(|| UNKNOWN.to_owned()))
}

fn is_name(text: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-._".contains(c);
    !text.is_empty() && text.len() <= LONGEST && text.chars().all(plain)
}

/// What cargo wrote into a package: `{"git": {"sha1": "...", "dirty": true}, ...}`.
fn packaged(package: &Path) -> Option<String> {
    let text = fs::read_to_string(package.join(".cargo_vcs_info.json")).ok()?;
    let of = |key: &str| {
        let (_, rest) = text.split_once(&format!("\"{key}\""))?;
        Some(rest.trim_start().strip_prefix(':')?.trim_start())
    };
    let (commit, _) = of("sha1")?.strip_prefix('"')?.split_once('"')?;
    let is_dirty = of("dirty").is_some_and(|value| value.starts_with("true"));
    Some(named(commit, is_dirty))
}

/// What git says about a checkout whose top is `root`, and not about one that happens to contain it.
fn checked_out(root: &Path, sources: &[PathBuf]) -> Option<String> {
    let top = git(root, &["rev-parse", "--show-toplevel"])?;
    if fs::canonicalize(top).ok()? != fs::canonicalize(root).ok()? {
        return None;
    }
    let commit = git(root, &["rev-parse", "--verify", "HEAD"])?;
    let sources = sources.iter().map(|path| path.to_str()).collect::<Option<Vec<_>>>()?;
    let changes = git(root, &[&["status", "--porcelain", "--"], &sources[..]].concat())?;
    Some(named(&commit, !changes.is_empty()))
}

fn archived(package: &Path) -> Option<String> {
    let text = fs::read_to_string(package.join("commit")).ok()?;
    // Outside of an archive it is '$Format:%H$'.
    Some(text.trim().to_owned()).filter(|text| !text.contains('$'))
}

fn named(commit: &str, is_dirty: bool) -> String {
    format!("{commit}{}", if is_dirty { "-dirty" } else { "" })
}

/// Files that change with the commit of a checkout. Empty without one.
pub(crate) fn watched(root: &Path) -> Vec<PathBuf> {
    let branch = git(root, &["symbolic-ref", "-q", "HEAD"]);
    let names = ["HEAD", "logs/HEAD", "packed-refs"].into_iter().chain(branch.as_deref());
    names
        .filter_map(|name| git(root, &["rev-parse", "--git-path", name]))
        .map(|path| root.join(path))
        .filter(|path| path.exists())
        .collect()
}

/// What git prints, or `None` if it fails.
fn git(root: &Path, arguments: &[&str]) -> Option<String> {
    let mut command = Command::new("git");
    // Without these, it works on another repository when a hook of git runs the build.
    for variable in ["GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE"] {
        command.env_remove(variable);
    }
    // A build must not write into the repository, not even to refresh the index.
    command.arg("--no-optional-locks").arg("-C").arg(root).args(arguments);
    let output = command.output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.trim_end().to_owned())
}
