//! Runs ns-2.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use anabranch_proto::RetransmissionPolicy;

use crate::scenario::Point;

/// The paths of ns-2 and of its script.
pub(crate) struct Script {
    program: &'static str,
    script: PathBuf,
}

impl Script {
    /// `None` if ns-2 is not installed and cannot be installed.
    pub(crate) fn find() -> Result<Option<Self>, String> {
        let script = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("benches/sim/transfer.tcl");
        if !script.exists() {
            return Err(format!("{} is missing", script.display()));
        }
        if !installed() {
            println!("sim: installing ns-2 with apt-get");
            let install = Command::new("apt-get")
                .args(["install", "-y", "-qq", "--no-install-recommends", "ns2"])
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .status();
            if !install.is_ok_and(|status| status.success()) || !installed() {
                return Ok(None);
            }
        }
        Ok(Some(Self { program: "ns", script }))
    }

    /// The command for one transfer.
    pub(crate) fn transfer(&self, bytes: u64, point: &Point, seed: u64) -> Command {
        let policy = match point.policy {
            RetransmissionPolicy::AllRtxSame => "0",
            RetransmissionPolicy::AllRtxAlt => "1",
            _ => "2",
        };
        let loss = |percent: u32| (f64::from(percent) / 100.0).to_string();
        let mut command = Command::new(self.program);
        command.arg(&self.script);
        command.args([seed.to_string(), bytes.to_string()]);
        command.args([loss(point.primary_loss), loss(point.alternate_loss)]);
        command.arg(policy).stdin(Stdio::null()).stdout(Stdio::null());
        command
    }
}

fn installed() -> bool {
    // Without a script it reads commands from its standard input, which is empty.
    let run = Command::new("ns").stdin(Stdio::null()).stdout(Stdio::null()).status();
    run.is_ok_and(|status| status.success())
}
