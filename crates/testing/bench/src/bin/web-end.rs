//! One end of HTTP in a separate process, for the benchmark `web`.
//!
//! `web-end serve-h3 DIRECTORY` prints the port where it listens and serves HTTP/3 until it is killed. `web-end ask-h3
//! PORT TARGET REQUESTS SECONDS` and `web-end ask-sctp UDP-PORT PORT TARGET STREAMS SECONDS` request one file
//! repeatedly and print the answers per second.
#![forbid(unsafe_code)]

use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use anabranch_bench::web::ask::{self, Plan};
use anabranch_bench::web::{http3, ours};
use anabranch_bench::{Result, words};

fn main() -> ExitCode {
    words::main("web-end", run)
}

fn run(words: &[&str]) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let rate = match *words {
        ["serve-h3", directory] => return runtime.block_on(http3::serve(Path::new(directory))),
        ["ask-h3", port, target, requests, seconds] => {
            runtime.block_on(http3::ask(port.parse()?, target, &plan(requests, seconds)?))?
        }
        ["ask-sctp", udp_port, port, target, streams, seconds] => runtime.block_on(async {
            let (_endpoint, association) = ours::connect(udp_port.parse()?, port.parse()?).await?;
            ask::ask(&association, target, &plan(streams, seconds)?).await
        })?,
        _ => return Err("nothing that this end can do".into()),
    };
    println!("{rate}");
    Ok(())
}

/// Adds a quarter of the time as warm-up.
fn plan(streams: &str, seconds: &str) -> Result<Plan> {
    let time = Duration::try_from_secs_f64(seconds.parse()?)?;
    Ok(Plan { streams: streams.parse()?, warm_up: time / 4, time })
}
