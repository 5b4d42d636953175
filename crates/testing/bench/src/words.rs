//! Helper programs that other programs of this crate start with a few words and no options.

use std::process::ExitCode;

use crate::Result;

/// Runs the action that the words name; an error is printed to standard error.
pub fn main(name: &str, run: impl FnOnce(&[&str]) -> Result<()>) -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match run(&words) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{name}: {error}");
            ExitCode::FAILURE
        }
    }
}
