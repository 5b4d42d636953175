//! Lines between TUN devices in namespaces that exist already.

use anabranch_emulator::{Forwarder, LineAddress};
use anabranch_impair::file::ImpairmentFile;

use super::report;
use crate::failure::Failure;
use crate::impairment;
use crate::interrupt::Interrupt;

/// Forwards until the user stops it.
pub(crate) async fn run(
    file: ImpairmentFile,
    lines: &[LineAddress],
    mtu: u16,
    json: bool,
) -> Result<(), Failure> {
    let interrupt = Interrupt::install()?;
    let mut forwarder = Forwarder::new(file, impairment::seed());
    for line in lines {
        forwarder.add(line, mtu)?;
    }
    report::tell_ready(lines.iter().map(ToString::to_string).collect(), json)?;
    let links = forwarder.run(interrupt.stop()).await?;
    report::tell_links(&links, json)
}
