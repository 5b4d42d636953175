//! Options of the side that sets up associations: `get` and `perf client` share them.

use std::time::Duration;

use anabranch::{AssociationConfig, ConnectOptions, Endpoint, SCTP_UDP_PORT};
use anabranch_http::Host;
use clap::Args;

use crate::address::{Address, plain_address};
use crate::endpoint::{Binding, association_config, file_config, one_udp_port};
use crate::failure::Failure;
use crate::options::{SctpOptions, Transport, duration};

/// Options of a client.
#[derive(Clone, Debug, Args)]
pub(crate) struct ClientOptions {
    /// Addresses to connect from [default: those of the host]
    #[arg(long, value_name = "ADDR,...", value_delimiter = ',', value_parser = plain_address)]
    pub(crate) local: Vec<Address>,
    /// How long to wait for the peer's first answer
    #[arg(long, value_name = "TIME", default_value = "15s", value_parser = duration)]
    pub(crate) connect_timeout: Duration,
    /// Give up when the peer has been silent for this long; 0s waits forever
    #[arg(long, value_name = "TIME", default_value = "2m", value_parser = duration)]
    timeout: Duration,
    /// UDP port of this side [default: a free one]
    #[arg(long, value_name = "N", help_heading = "SCTP")]
    pub(crate) udp_port: Option<u16>,
    /// UDP port of the peer [default: 9899]
    #[arg(long, value_name = "N", help_heading = "SCTP")]
    pub(crate) remote_udp_port: Option<u16>,
    #[command(flatten)]
    pub(crate) sctp: SctpOptions,
}

impl ClientOptions {
    /// How long the peer may be silent; `None` means forever.
    pub(crate) fn silence(&self) -> Option<Duration> {
        (!self.timeout.is_zero()).then_some(self.timeout)
    }

    /// Opens an endpoint that can reach these hosts; `peer_port` is their UDP port, if an address
    /// names it.
    pub(crate) fn bind<'h>(
        &self,
        transport: Transport,
        peer_port: Option<u16>,
        hosts: impl Iterator<Item = &'h Host>,
    ) -> Result<Endpoint, Failure> {
        let (addresses, udp_port, options) = (&self.local, self.udp_port, &self.sctp);
        let remote_udp_port = Some(peer_port.or(self.remote_udp_port).unwrap_or(SCTP_UDP_PORT));
        Binding { transport, addresses, udp_port, remote_udp_port, options }.client(hosts)
    }

    /// The options of an association.
    pub(crate) fn association_config(&self) -> Result<AssociationConfig, Failure> {
        association_config(&self.sctp)
    }

    /// The options of an association that carries files.
    pub(crate) fn file_config(&self) -> Result<AssociationConfig, Failure> {
        file_config(&self.sctp)
    }

    /// Options for an association with `streams` outbound streams, or more if `config` has more;
    /// `udp_port` is the peer's, if its address names one.
    pub(crate) fn connect_options(
        &self,
        mut config: AssociationConfig,
        streams: u16,
        udp_port: Option<u16>,
    ) -> Result<ConnectOptions, Failure> {
        config.sending.outbound_streams = config.sending.outbound_streams.max(streams);
        let mut options = ConnectOptions::from(config);
        let port = one_udp_port(self.remote_udp_port, "--remote-udp-port", udp_port)?;
        options.remote_udp_port = port.unwrap_or(SCTP_UDP_PORT);
        Ok(options)
    }
}
