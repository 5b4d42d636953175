//! Benchmarks that compare anabranch with its peers.
//!
//! The library contains the common parts. `cargo bench -p anabranch-bench --bench compare` runs the
//! comparison; `-- --list` after it lists the figures.
#![forbid(unsafe_code)]

pub mod children;
pub mod folder;
pub mod quic;
pub mod suite;
pub mod trust;
pub mod web;
pub mod words;

/// Errors are messages for the user.
pub type Result<V> = std::result::Result<V, Box<dyn std::error::Error + Send + Sync>>;

/// Whether the arguments ask a benchmark of this name, whose only option is `--quick`, just to test that it works. So does
/// a run without `--bench`, which `cargo bench` adds.
///
/// # Errors
/// The message for an argument that it does not have.
pub fn is_quick(name: &str) -> std::result::Result<bool, String> {
    let (mut quick, mut bench) = (false, false);
    for argument in std::env::args().skip(1) {
        match argument.as_str() {
            "--bench" => bench = true,
            "--quick" => quick = true,
            other => return Err(format!("{name}: '{other}' is unknown; it takes --quick")),
        }
    }
    Ok(quick || !bench)
}
