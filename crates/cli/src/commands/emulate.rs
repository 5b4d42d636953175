//! `anabranch emulate`.

use std::path::PathBuf;

use clap::Args;

use crate::emulate::{Emulation, LineAddress};
use crate::failure::Failure;
use crate::impairment;

/// Forward packets between network namespaces, spoiling them on the way
///
/// Makes a TUN device at both ends of every line, with the address given, and forwards IP packets
/// of whatever protocol between them through the links that an impairment file describes: rate,
/// queue, delay, loss, cuts. In the file, 'local' is the address on the line's left side, and
/// 'send' the direction from left to right. A packet larger than a link's MTU is lost. Runs until
/// Ctrl-C, removes the devices and prints what each link did. Needs root or CAP_NET_ADMIN.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  anabranch emulate --impair slow.toml --line left:w0:10.1.0.1/24=right:w0:10.1.0.2/24
  anabranch emulate --impair two.toml --line :w0:10.1.0.1/24=peer:w0:10.1.0.2/24 \\
      --line :w1:10.2.0.1/24=peer:w1:10.2.0.2/24 --json")]
pub(crate) struct Emulate {
    /// Impairments of the lines, a TOML file
    #[arg(long, value_name = "FILE")]
    impair: PathBuf,
    /// Two ends, each a namespace of ip-netns (empty: this one), a device and its address
    #[arg(
        long = "line",
        value_name = "[NAMESPACE]:DEVICE:ADDR/PREFIX=[NAMESPACE]:DEVICE:ADDR/PREFIX",
        required = true
    )]
    lines: Vec<LineAddress>,
    /// MTU of the devices
    #[arg(long, value_name = "BYTES", default_value_t = 1500, value_parser = clap::value_parser!(u16).range(576..))]
    mtu: u16,
    /// Print JSON, one document a line
    #[arg(long)]
    json: bool,
}

impl Emulate {
    pub(crate) async fn run(self) -> Result<(), Failure> {
        let file = impairment::read(&self.impair)?;
        Emulation { file, lines: self.lines, mtu: self.mtu, json: self.json }.run().await
    }
}
