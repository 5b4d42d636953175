//! The program and the libraries that are measured, and programs in C.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use anabranch_bench::folder::Folder;
use anabranch_bench::suite::Trouble;
use anabranch_bench::suite::single::Bench;

/// Files of one build.
#[derive(Debug)]
pub(crate) struct Built {
    pub(crate) program: PathBuf,
    /// The library for unmodified programs.
    pub(crate) preload: PathBuf,
    /// The library for C.
    c: PathBuf,
}

impl Built {
    pub(crate) fn find(bench: &Bench<'_>) -> Result<Self, Trouble> {
        static LIBRARIES: OnceLock<Result<(), String>> = OnceLock::new();
        let program = bench.program()?;
        if bench.builds() {
            LIBRARIES.get_or_init(build).clone()?;
        }
        let preload = beside(&program, "libanabranch_preload.so")?;
        let c = beside(&program, "libanabranch_c.so")?;
        Ok(Self { program, preload, c })
    }

    /// Compiles `ends.c` for the kernel's SCTP, or for the C library.
    pub(crate) fn ends(&self, folder: &Folder, for_library: bool) -> Result<PathBuf, Trouble> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..");
        let program = folder.file(if for_library { "ends-of-library" } else { "ends" });
        let mut cc = Command::new("cc");
        cc.args(["-O2", "-D_GNU_SOURCE", "-Wall", "-Werror", "-o"]).arg(&program);
        if for_library {
            let include = root.join("bindings/c/include");
            cc.arg("-I").arg(&include).arg("-I").arg(include.join("anabranch"));
            cc.args(["-include", "anabranch_compat.h"]);
        }
        cc.arg(root.join("crates/testing/bench/benches/unmodified/ends.c"));
        if for_library {
            // The name under which programs look for it.
            let name = folder.file("libanabranch.so.0");
            std::os::unix::fs::symlink(&self.c, &name).map_err(Trouble::failed)?;
            cc.arg(&name).arg(format!("-Wl,-rpath,{}", folder.path().display()));
        }
        let output = cc.output().map_err(|_| Trouble::Missing("there is no C compiler".into()))?;
        if !output.status.success() {
            return Err(Trouble::Failed(String::from_utf8_lossy(&output.stderr).into_owned()));
        }
        Ok(program)
    }
}

/// Builds the libraries that a program does not contain.
fn build() -> Result<(), String> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut build = Command::new(cargo);
    build.args(["build", "--quiet", "--release", "-p", "anabranch-c", "-p", "anabranch-preload"]);
    match build.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("the libraries cannot be built: {status}")),
        Err(error) => Err(format!("the libraries cannot be built: {error}")),
    }
}

/// A library where cargo puts it: beside the program, or for tests in 'deps'. The newer one counts.
fn beside(program: &Path, name: &str) -> Result<PathBuf, Trouble> {
    let directory = program.parent().unwrap_or(Path::new("."));
    let files = [directory.join(name), directory.join("deps").join(name)];
    let built = files.into_iter().filter_map(|file| {
        let changed = file.metadata().and_then(|metadata| metadata.modified()).ok()?;
        Some((changed, file))
    });
    let newest = built.max().map(|(_, file)| file);
    newest.ok_or_else(|| Trouble::Failed(format!("{name} is not beside {}", program.display())))
}
