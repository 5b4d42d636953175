//! Memory that a server uses for idle streams and connections.

use std::path::Path;
use std::process::Command;
use std::thread::sleep;
use std::time::Duration;

use anabranch_bench::children::Answering;
use anabranch_bench::folder::Folder;
use anabranch_bench::suite::Trouble;
use anabranch_bench::suite::single::{Bench, Sample};

/// The program with both ends, whose allocators count.
const ENDS: &str = env!("CARGO_BIN_EXE_idle-streams");

const NAME: &str = "object.bin";

/// Number of connections opened before counting starts, so that shared state exists.
const BEFORE: u32 = 64;
/// Number of connections opened while counting.
const MORE: u32 = 256;

/// Time for acknowledgements and timers to finish.
const SETTLE: Duration = Duration::from_millis(700);

pub(crate) fn bytes(_: &Bench<'_>) -> Result<Sample, Trouble> {
    let folder = Folder::new().map_err(Trouble::failed)?;
    std::fs::write(folder.file(NAME), [7; 5000]).map_err(Trouble::failed)?;
    let each = |server: &str, kind: &str| one_more(folder.path(), server, kind);
    let value = each("sctp", "sctp")?;
    let notes = vec![
        ("TCP connection", each("tcp", "tcp")?),
        ("HTTP/3 request", each("h3", "h3-request")?),
        ("HTTP/3 connection", each("h3", "h3")?),
    ];
    Ok(Sample { value, notes })
}

/// Bytes of the server's allocator for one more stream or connection.
fn one_more(directory: &Path, server: &str, kind: &str) -> Result<f64, Trouble> {
    let mut server = Answering::start(Command::new(ENDS).args(["serve", server]).arg(directory))?;
    let line = server.line()?;
    let port =
        line.strip_prefix("listening ").ok_or(Trouble::Failed("no port is printed".into()))?;
    let target = format!("/{NAME}");
    let mut holder = Answering::start(Command::new(ENDS).args(["hold", kind, port, &target]))?;
    let mut held = |count: u32| -> Result<f64, Trouble> {
        holder.ask(&count.to_string())?;
        sleep(SETTLE);
        server.ask("held")?.parse().map_err(Trouble::failed)
    };
    let before = held(BEFORE)?;
    Ok((held(MORE)? - before) / f64::from(MORE))
}
