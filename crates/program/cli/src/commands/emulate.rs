//! `anabranch emulate`.

use std::path::PathBuf;
use std::time::Duration;

use anabranch_emulator::{Form, LineAddress, Programs, RelayAddress};
use clap::{ArgGroup, Args, ValueEnum};

use crate::emulate::network::NetworkRun;
use crate::emulate::sink::is_stdout;
use crate::emulate::{forward, isolation, relays};
use crate::failure::Failure;
use crate::impairment;

/// The usage that clap would generate from the groups is wider than a terminal, so it is given here.
const USAGE: &str = "\
anabranch emulate [OPTIONS] <FILE> [-- <COMMAND>...]
       anabranch emulate [OPTIONS] --impair <FILE> --line <END=END>
       anabranch emulate [OPTIONS] --impair <FILE> --relay <ADDR:PORT=ADDR:PORT>";

/// Run programs behind links that lose, delay and reorder packets exactly as configured
///
/// FILE describes hosts, routers and links (docs/emulator.md). The command runs at the first host and may belong to an
/// ordinary user. When it ends, everything that was set up for it is removed. Its exit code becomes that of the
/// emulator.
///
/// With --line and --impair instead, packets are forwarded between TUN devices in existing namespaces; this needs root
/// or CAP_NET_ADMIN. In the impairment file, 'local' is the address on the line's left side, and 'send' the direction
/// from left to right.
///
/// With --relay and --impair, UDP is relayed from one address to another, without namespaces or privileges:
/// 'local' is where the relay listens, 'remote' the server, and 'send' the direction to it.
#[derive(Debug, Args)]
#[command(override_usage = USAGE,
    group(ArgGroup::new("what").args(["file", "lines", "relays"]).required(true)), after_help = "Examples:
  anabranch emulate sat.toml --at server 'python3 -m http.server 80' -- curl http://10.0.0.2/
  anabranch emulate sat.toml -- ping -c 3 10.0.0.2
  anabranch emulate sat.toml --log fates.log --capture both.pcapng -- ./test
  anabranch emulate sat.toml --replay fates.log -- ./test
  anabranch emulate --impair slow.toml --line left:w0:10.1.0.1/24=right:w0:10.1.0.2/24
  anabranch emulate --impair slow.toml --relay 127.0.0.1:7000=127.0.0.1:9899")]
pub(crate) struct Emulate {
    /// The network, a TOML file
    #[arg(conflicts_with_all = ["lines", "relays"])]
    file: Option<PathBuf>,
    /// The command to run at the first host
    #[arg(last = true, value_name = "COMMAND", requires = "file")]
    command: Vec<String>,
    /// Run this shell command on another host; may be given several times
    #[arg(long, num_args = 2, value_names = ["HOST", "COMMAND"], requires = "file")]
    at: Vec<String>,
    /// How long these run before the command starts
    #[arg(long, value_name = "TIME", default_value = "500ms", value_parser = crate::options::duration)]
    head_start: Duration,
    /// Seed for all random choices
    #[arg(long, value_name = "NUMBER", requires = "file")]
    seed: Option<u64>,
    /// Write the fate of every packet, to standard output if it is '-'
    #[arg(long, value_name = "FILE", requires = "file")]
    log: Option<PathBuf>,
    /// Form of the log
    #[arg(long, value_enum, value_name = "FORM", default_value_t = LogForm::Compact)]
    log_form: LogForm,
    /// Fail at the first packet whose fate differs from the log of an earlier run
    #[arg(long, value_name = "LOG", requires = "file")]
    replay: Option<PathBuf>,
    /// Write packets as they leave and reach hosts to a pcapng file, with comments, or to standard output if it is '-'
    #[arg(long, value_name = "FILE", requires = "file")]
    capture: Option<PathBuf>,
    /// Write what the links did as JSON, to standard output if it is '-'
    #[arg(long, value_name = "FILE", requires = "file")]
    report: Option<PathBuf>,
    /// Do not print what the links did
    #[arg(long, short, requires = "file")]
    quiet: bool,
    /// Impairments of lines and relays, a TOML file
    #[arg(long, value_name = "FILE", conflicts_with = "file")]
    impair: Option<PathBuf>,
    /// Two ends, each a namespace of ip-netns (empty: this one), a device and its address
    #[arg(
        long = "line",
        value_name = "[NAMESPACE]:DEVICE:ADDR/PREFIX=[NAMESPACE]:DEVICE:ADDR/PREFIX",
        requires = "impair"
    )]
    lines: Vec<LineAddress>,
    /// Where to receive UDP, and where to send it
    #[arg(
        long = "relay",
        value_name = "ADDR:PORT=ADDR:PORT",
        requires = "impair",
        conflicts_with = "lines"
    )]
    relays: Vec<RelayAddress>,
    /// MTU of the lines' devices
    #[arg(long, value_name = "BYTES", default_value_t = 1500, value_parser = clap::value_parser!(u16).range(576..))]
    mtu: u16,
    /// For lines and relays: print JSON, one document a line
    #[arg(long, conflicts_with = "file")]
    json: bool,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum LogForm {
    Compact,
    Json,
}

impl Emulate {
    /// Enters the namespaces that a network needs, while the program has only one thread. Returns `Some` if the
    /// command has already run, inside.
    pub(crate) fn isolate(&self) -> Result<Option<u8>, Failure> {
        match self.network() {
            None => Ok(None),
            Some(run) => {
                crate::outputs::check(&[
                    ("--log", self.log.as_deref()),
                    ("--capture", self.capture.as_deref()),
                    ("--report", self.report.as_deref()),
                ])?;
                self.one_on_stdout()?;
                run.check()?;
                isolation::enter()
            }
        }
    }

    /// Only one of the files can be standard output.
    fn one_on_stdout(&self) -> Result<(), Failure> {
        let files = [&self.log, &self.capture, &self.report];
        let there = files.iter().filter(|file| file.as_ref().is_some_and(|file| is_stdout(file)));
        match there.count() {
            0 | 1 => Ok(()),
            _ => Err(Failure::usage("standard output is for one file only")),
        }
    }

    fn network(&self) -> Option<NetworkRun> {
        let at = self.at.chunks(2).filter_map(|pair| match pair {
            [host, line] => Some((host.clone(), line.clone())),
            _ => None,
        });
        Some(NetworkRun {
            file: self.file.clone()?,
            programs: Programs {
                command: self.command.clone(),
                at: at.collect(),
                head_start: self.head_start,
            },
            seed: self.seed,
            log: self.log.clone(),
            form: match self.log_form {
                LogForm::Compact => Form::Compact,
                LogForm::Json => Form::Json,
            },
            replay: self.replay.clone(),
            capture: self.capture.clone(),
            report: self.report.clone(),
            quiet: self.quiet,
        })
    }

    pub(crate) async fn run(self) -> Result<(), Failure> {
        if let Some(run) = self.network() {
            return run.run().await;
        }
        let Some(impair) = &self.impair else {
            return Err(Failure::usage("--line and --relay need --impair"));
        };
        let file = impairment::read(impair)?;
        if !self.relays.is_empty() {
            return relays::run(file, self.relays, self.json).await;
        }
        forward::run(file, &self.lines, self.mtu, self.json).await
    }
}
