//! Keeps the public API of the libraries as text, `docs/api/*.txt`, so that no change goes unnoticed.
//!
//! `api` compares the texts with the sources, and fails if they differ; `api --write` writes them. It
//! also fails if a public item of `anabranch` mentions a type of the project that has no name there.
//!
//! The compiler describes the API as rustdoc's JSON. Stable compilers write it only with
//! `RUSTC_BOOTSTRAP=1`. Only rustdoc gets this variable, since build scripts read it and all of the
//! libraries would be rebuilt: so this program replaces rustdoc, and calls it.
#![forbid(unsafe_code)]

mod names;

use std::env;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

/// A library, and the features with which it is described.
struct Library {
    package: &'static str,
    features: &'static str,
}

const LIBRARIES: [Library; 3] = [
    Library { package: "anabranch", features: "impair,seal,serde" },
    Library { package: "anabranch-proto", features: "serde" },
    Library { package: "anabranch-wire", features: "checksum" },
];

/// Set for the process that replaces rustdoc, to the path of the real one.
const STANDS_IN: &str = "ANABRANCH_API_RUSTDOC";

fn main() -> ExitCode {
    if let Some(rustdoc) = env::var_os(STANDS_IN) {
        return run_rustdoc(&rustdoc);
    }
    let arguments: Vec<String> = env::args().skip(1).collect();
    let write = match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [] => false,
        ["--write"] => true,
        _ => {
            eprintln!("usage: api [--write]");
            return ExitCode::from(2);
        }
    };
    match check_all(write) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::from(2)
        }
    }
}

/// Whether all is well with all libraries.
fn check_all(write: bool) -> Result<bool, String> {
    let apis: Vec<String> = LIBRARIES.iter().map(describe).collect::<Result<_, _>>()?;
    let mut all_right = true;
    for (library, api) in LIBRARIES.iter().zip(&apis) {
        all_right &= check(library, api, write)?;
    }
    // The first API must be complete by itself; its re-exports come from the second.
    if let [api, engine, ..] = &apis[..] {
        for name in names::unnamed(api, engine) {
            eprintln!("anabranch: public items mention {name}, which has no name in it");
            all_right = false;
        }
    }
    Ok(all_right)
}

/// Whether the text of a library is what its sources say.
fn check(library: &Library, api: &str, write: bool) -> Result<bool, String> {
    let text = names::shortened(api);
    let path = root().join(format!("docs/api/{}.txt", library.package));
    if write {
        fs::write(&path, text).map_err(|error| format!("{}: {error}", path.display()))?;
        return Ok(true);
    }
    let known =
        fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
    let differences = differences(&known, &text);
    if !differences.is_empty() {
        eprintln!("the public API of {} is another one:", library.package);
        differences.iter().for_each(|line| eprintln!("{line}"));
        eprintln!(
            "if this is meant: `cargo run -p anabranch-api -- --write`, and a line in CHANGELOG.md"
        );
    }
    Ok(differences.is_empty())
}

/// Lines that went, with `-`, and lines that came, with `+`.
fn differences(known: &str, text: &str) -> Vec<String> {
    let (old, new): (Vec<&str>, Vec<&str>) = (known.lines().collect(), text.lines().collect());
    let gone = old.iter().filter(|line| !new.contains(line)).map(|line| format!("-{line}"));
    let come = new.iter().filter(|line| !old.contains(line)).map(|line| format!("+{line}"));
    gone.chain(come).collect()
}

/// The public items of a library, one a line, without derived items and those that follow from the
/// compiler's rules.
fn describe(library: &Library) -> Result<String, String> {
    let named = |error: String| format!("{}: {error}", library.package);
    let json = document(library).map_err(named)?;
    let api = public_api::Builder::from_rustdoc_json(json)
        .omit_blanket_impls(true)
        .omit_auto_trait_impls(true)
        .omit_auto_derived_impls(true)
        .build()
        .map_err(|error| named(error.to_string()))?;
    let mut lines: Vec<String> = api.items().map(|item| item.to_string()).collect();
    lines.dedup();
    Ok(lines.join("\n") + "\n")
}

/// Has rustdoc describe a library, and returns where.
fn document(library: &Library) -> Result<PathBuf, String> {
    let this = env::current_exe().map_err(|error| error.to_string())?;
    let rustdoc = env::var_os("RUSTDOC").unwrap_or_else(|| "rustdoc".into());
    let target = target_directory(&this)?;
    let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let done = Command::new(cargo)
        .current_dir(root())
        .args(["rustdoc", "--quiet", "--locked", "--lib", "--package", library.package])
        .args(["--features", library.features])
        .args(["--", "-Zunstable-options", "--output-format=json", "--cap-lints=allow"])
        .env("CARGO_TARGET_DIR", &target)
        .env("RUSTDOC", &this)
        .env(STANDS_IN, rustdoc)
        .status()
        .map_err(|error| format!("cargo: {error}"))?;
    if !done.success() {
        return Err("cannot be documented".to_owned());
    }
    Ok(target.join("doc").join(format!("{}.json", library.package.replace('-', "_"))))
}

/// Cargo's directory, in which this program lies as `debug/anabranch-api`.
fn target_directory(program: &Path) -> Result<PathBuf, String> {
    let directory = program.parent().and_then(Path::parent);
    directory.map(Path::to_owned).ok_or_else(|| "cannot tell the target directory".to_owned())
}

fn run_rustdoc(rustdoc: &OsStr) -> ExitCode {
    let done = Command::new(rustdoc)
        .args(env::args_os().skip(1))
        .env_remove(STANDS_IN)
        .env("RUSTC_BOOTSTRAP", "1")
        .status();
    match done {
        Ok(status) if status.success() => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {}: {error}", rustdoc.display());
            ExitCode::FAILURE
        }
    }
}

/// The repository that this program was built from.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_that_moved_are_no_difference() {
        assert!(differences("a\nb\n", "b\na\n").is_empty());
        assert_eq!(differences("a\nb\n", "b\nc\n"), ["-a", "+c"]);
    }
}
