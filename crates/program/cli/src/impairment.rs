//! Impairment files for `--impair` and `emulate`.

use std::fmt::Display;
use std::hash::{BuildHasher as _, RandomState};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anabranch::runtime::{ImpairedRuntime, Runtime, TokioRuntime};
use anabranch_impair::file::ImpairmentFile;
use anabranch_impair::pattern;
use anabranch_units::{MOST_TEXT, read_text};

use crate::failure::Failure;

/// How long a command that is done waits for packets in its links.
const PATIENCE: Duration = Duration::from_secs(5);

/// The runtimes that have links.
static RUNTIMES: Mutex<Vec<Arc<ImpairedRuntime>>> = Mutex::new(Vec::new());

/// Reads an impairment file and the pattern files that it names, relative to its directory.
pub(crate) fn read(path: &Path) -> Result<ImpairmentFile, Failure> {
    read_with_patterns(path, |text, load| ImpairmentFile::read(text, load))
}

/// Reads a file that may name pattern files, relative to its directory.
pub(crate) fn read_with_patterns<T, E: Display>(
    path: &Path,
    parse: impl FnOnce(&str, &mut dyn FnMut(&str) -> Result<Vec<u8>, String>) -> Result<T, E>,
) -> Result<T, Failure> {
    let name = path.display();
    let text = read_text(path, MOST_TEXT)
        .map_err(|error| Failure::failed(format!("the file {name} cannot be read: {error}")))?;
    let beside = path.parent().unwrap_or(Path::new(""));
    let mut load = |file: &str| {
        let file = beside.join(file);
        crate::files::read_too(&file)
            .and_then(|()| pattern::load(&file).map_err(|reason| reason.to_string()))
            .map_err(|reason| format!("it {reason}"))
    };
    parse(&text, &mut load).map_err(|error| Failure::failed(format!("{name}, {error}")))
}

/// The seed for links whose file has none.
pub(crate) fn seed() -> u64 {
    RandomState::new().hash_one(std::process::id())
}

/// A runtime whose sockets follow the impairment file.
pub(crate) fn runtime(path: &Path) -> Result<Arc<dyn Runtime>, Failure> {
    let file = read(path)?;
    let tokio = TokioRuntime::current()
        .ok_or_else(|| Failure::failed("there is no runtime for impaired sockets"))?;
    let runtime = Arc::new(ImpairedRuntime::new(Arc::new(tokio), file, seed()));
    RUNTIMES.lock().unwrap_or_else(PoisonError::into_inner).push(Arc::clone(&runtime));
    Ok(runtime)
}

/// Waits for packets in this process's links, so that a peer receives the end of a shutdown.
pub(crate) async fn drained() {
    let runtimes = std::mem::take(&mut *RUNTIMES.lock().unwrap_or_else(PoisonError::into_inner));
    for runtime in runtimes {
        runtime.drained(PATIENCE).await;
    }
}
