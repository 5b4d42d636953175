//! What this program was built from, as its build script found out.

/// Its version.
pub(crate) const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The commit, with `-dirty` if files have changed since; `unknown` if nothing told the build.
pub(crate) const COMMIT: &str = env!("ANABRANCH_BUILT_FROM");

/// Fingerprint of the code that decides results.
pub(crate) const ENGINE: &str = env!("ANABRANCH_ENGINE");

/// What `--version` prints after the program's name.
pub(crate) const LONG: &str = concat!(
    env!("CARGO_PKG_VERSION"),
    "\ncommit ",
    env!("ANABRANCH_BUILT_FROM"),
    "\nengine ",
    env!("ANABRANCH_ENGINE")
);
