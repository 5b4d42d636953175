//! `anabranch run --host`: an engine for all programs that may use a directory.

use std::fs::Permissions;
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use anabranch_run::{Settings, VARIABLE};
use tokio::time::timeout;

use super::{GRACE, finish, raise_descriptors};
use crate::engine::EngineOptions;
use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::output::print_first;
use crate::readiness;

/// The library in the directory of an engine.
const LIBRARY: &str = "libanabranch-preload.so";

/// Runs an engine until the user stops it. Then it delivers what the programs have sent.
pub(super) async fn run(
    directory: &Path,
    options: &EngineOptions,
    settings: Settings,
    library: &Path,
) -> Result<(), Failure> {
    let interrupt = Interrupt::of_server()?;
    raise_descriptors();
    let running = options.start(settings, Some(directory))?;
    let (_, place) = running.engine.environment();
    copy(library, Path::new(&place)).map_err(|error| {
        Failure::failed(format!("the library cannot be copied to {place}: {error}"))
    })?;
    print_first(&format!("{VARIABLE}={place} LD_PRELOAD={place}/{LIBRARY}\n"))?;
    readiness::tell("READY=1");
    interrupt.wait().await;
    readiness::tell("STOPPING=1");
    running.engine.stop();
    // What does not move that long waits in vain.
    let _ = timeout(GRACE, running.engine.unused()).await;
    finish(running).await;
    Ok(())
}

/// Copies the library to where the programs find it, whatever file system they see. Programs that use an old one keep it.
fn copy(library: &Path, directory: &Path) -> io::Result<()> {
    let unfinished = directory.join(format!("{LIBRARY}.new"));
    std::fs::copy(library, &unfinished)?;
    std::fs::set_permissions(&unfinished, Permissions::from_mode(0o755))?;
    std::fs::rename(unfinished, directory.join(LIBRARY))
}

/// The directory of an engine that answers.
pub(super) fn find(directory: &Path) -> Result<PathBuf, Failure> {
    let answers = directory.canonicalize().and_then(|directory| {
        anabranch_run::check(&directory)?;
        Ok(directory)
    });
    answers.map_err(|error| {
        let name = directory.display();
        Failure::failed(match error.kind() {
            io::ErrorKind::PermissionDenied => {
                format!("this user may not use the engine in {name}: {error}")
            }
            _ => {
                format!("no engine answers in {name}: start one with 'anabranch run --host {name}'")
            }
        })
    })
}

/// The library that the engine has put into its directory.
pub(super) fn library(directory: &Path) -> Option<PathBuf> {
    let library = directory.join(LIBRARY);
    library.exists().then_some(library)
}
