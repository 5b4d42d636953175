//! Scripts of Python that use the package.

use std::ffi::OsString;
use std::path::Path;
use std::process::Command;

use anabranch_bench::suite::Trouble;
use serde_json::Value;

/// The exit code with which scripts say that a package is missing.
const MISSING: i32 = 3;

/// The interpreter whose environment has the package.
fn interpreter() -> OsString {
    if let Some(named) = std::env::var_os("ANABRANCH_PYTHON") {
        return named;
    }
    // This program's path is TARGET/PROFILE/deps/NAME-HASH.
    let own = std::env::current_exe().unwrap_or_default();
    let target = own.ancestors().nth(3).unwrap_or(Path::new("target"));
    target.join("python-wheel/bin/python").into()
}

/// Runs a script. Returns the last line that it prints, which is JSON.
pub(crate) fn run(script: &str, arguments: &[&str]) -> Result<Value, Trouble> {
    let python = interpreter();
    let mut command = Command::new(&python);
    command.args(["-c", script]).args(arguments);
    let output = command.output().map_err(|error| {
        let python = Path::new(&python).display();
        Trouble::Missing(format!("{python}: {error}; scripts/python --release makes it"))
    })?;
    let said = String::from_utf8_lossy(&output.stderr);
    let said = said.trim().lines().last().unwrap_or_default().to_owned();
    match output.status.code() {
        Some(0) => {}
        Some(MISSING) => return Err(Trouble::Missing(said)),
        _ => return Err(Trouble::Failed(format!("{}: {said}", output.status))),
    }
    let printed = String::from_utf8_lossy(&output.stdout);
    let last = printed.trim().lines().last().unwrap_or_default();
    serde_json::from_str(last).map_err(|error| Trouble::Failed(format!("'{last}': {error}")))
}
