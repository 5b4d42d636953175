//! Installs the library into a temporary directory, and compiles C programs with it.

#![allow(dead_code, reason = "each test file uses a part of it")]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use tempfile::TempDir;

/// The installed library.
pub(crate) struct Installed {
    directory: TempDir,
}

/// The directory of this package.
pub(crate) fn package() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The directory with the library that cargo built for this test.
fn built() -> PathBuf {
    let test = std::env::current_exe().expect("tests know where they are");
    test.parent().expect("a file is in a directory").to_owned()
}

/// Free UDP ports.
pub(crate) fn udp_ports() -> [String; 2] {
    [(); 2].map(|()| anabranch_ports::free_udp_port().to_string())
}

/// Whether usrsctp is installed. Panics if it is missing but required.
pub(crate) fn has_usrsctp() -> bool {
    let there = Path::new("/usr/include/usrsctp.h").exists();
    if !there {
        let required = std::env::var("ANABRANCH_REQUIRE_ALL").is_ok_and(|all| all == "1");
        assert!(!required, "missing: usrsctp");
        eprintln!("skipped, because missing: usrsctp");
    }
    there
}

/// Runs a command that must succeed.
pub(crate) fn succeed(command: &mut Command) -> Output {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{command:?}: {}\n{out}{err}", output.status);
    output
}

impl Installed {
    pub(crate) fn new() -> Self {
        let directory = tempfile::tempdir().expect("a directory for the test");
        let mut install = Command::new(package().join("install"));
        install.arg("--prefix").arg(directory.path()).arg("--from").arg(built());
        succeed(&mut install);
        Self { directory }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Flags from pkg-config, or the same flags if it is not installed.
    fn flags(&self, of: &str) -> Vec<String> {
        let mut command = Command::new("pkg-config");
        command.env("PKG_CONFIG_PATH", self.path("lib/pkgconfig")).args([of, "anabranch"]);
        match command.output() {
            Ok(output) if output.status.success() => {
                let text = String::from_utf8_lossy(&output.stdout).into_owned();
                text.split_whitespace().map(str::to_owned).collect()
            }
            Ok(output) => panic!("{}", String::from_utf8_lossy(&output.stderr)),
            Err(_) if of == "--cflags" => vec![format!("-I{}", self.path("include").display())],
            Err(_) => vec![format!("-L{}", self.path("lib").display()), "-lanabranch".to_owned()],
        }
    }

    /// Compiles a C program of this package, with all warnings as errors.
    pub(crate) fn compile(&self, source: &str, extra: &[&str]) -> PathBuf {
        let stem = Path::new(source).file_stem().expect("a source has a name");
        let program = self.path(&format!("{}-{}", stem.to_string_lossy(), extra.len()));
        let mut cc = Command::new("cc");
        cc.args(["-std=gnu11", "-O1", "-g", "-Wall", "-Wextra", "-Werror", "-o"]).arg(&program);
        cc.args(self.flags("--cflags")).arg(package().join(source)).args(self.flags("--libs"));
        cc.arg(format!("-Wl,-rpath,{}", self.path("lib").display())).arg("-lpthread").args(extra);
        succeed(&mut cc);
        program
    }
}
