//! Keeps the heap at the size that it has reached.
//!
//! The C library returns memory at the end of the heap to the system. An engine that allocates a buffer for each batch of
//! packets then pays for page faults, up to a tenth of its time, or not: that depends on where other allocations happen to
//! be, and changes with every change of the program. It says nothing about an engine, so all of them are measured without.

use std::io;
use std::os::unix::process::CommandExt as _;
use std::process::Command;

/// Memory at the end of the heap that the C library does not return, and the size from which it asks the system for each
/// allocation, in bytes (mallopt(3)). Setting the former without the latter freezes the latter at 128 KB.
const KEPT: [(&str, &str); 2] =
    [("MALLOC_TRIM_THRESHOLD_", "4000000000"), ("MALLOC_MMAP_THRESHOLD_", "1000000000")];

/// Starts this program again with such a heap, unless it has one. Returns if it has, or with the error if it cannot be
/// started.
pub(crate) fn keep() -> io::Result<()> {
    if KEPT.iter().all(|(name, _)| std::env::var_os(name).is_some()) {
        return Ok(());
    }
    let mut again = Command::new(std::env::current_exe()?);
    Err(again.args(std::env::args_os().skip(1)).envs(KEPT).exec())
}

/// Gives a child process the heap that programs usually have.
pub(crate) fn as_usual(command: &mut Command) {
    for (name, _) in KEPT {
        command.env_remove(name);
    }
}
