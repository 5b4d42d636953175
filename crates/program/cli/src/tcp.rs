//! `anabranch run --tcp`: which TCP connections SCTP carries.

use anabranch_run::{Engine, HostList, TcpSettings};
use clap::Args;

use crate::failure::{Failure, complain};

/// Options of `--tcp`.
#[derive(Clone, Debug, Args)]
pub(crate) struct TcpOptions {
    /// Carry TCP connections over SCTP where the peer runs under 'anabranch run --tcp' as well
    #[arg(long, conflicts_with_all = ["host", "join"], help_heading = "TCP")]
    tcp: bool,
    /// Only connections with these hosts: addresses, networks, names, and @FILE with one on each line
    #[arg(long, value_name = "HOST[,HOST...]", requires = "tcp", help_heading = "TCP")]
    only: Option<HostList>,
    /// No connections with these hosts
    #[arg(long, value_name = "HOST[,HOST...]", requires = "tcp", help_heading = "TCP")]
    never: Option<HostList>,
    /// Connections that SCTP cannot carry fail, instead of using TCP
    #[arg(long, requires = "tcp", help_heading = "TCP")]
    require: bool,
}

impl TcpOptions {
    /// Begins to carry TCP connections, if that is wanted. Returns the environment variable for the program.
    pub(crate) fn start(self, engine: &Engine) -> Result<Option<(&'static str, String)>, Failure> {
        if !self.tcp {
            return Ok(None);
        }
        let never = self.never.unwrap_or_default();
        let settings = TcpSettings { only: self.only, never, required: self.require, complain };
        let variable = engine.carry_tcp(settings);
        variable.map(Some).map_err(|error| {
            Failure::failed(format!("--tcp needs the loopback interface: {error}"))
        })
    }
}
