//! The sealed paths of a server.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

use anabranch::seal::{Allow, Invitation, PublicKey, Seal, SealHandle, SecretKey};
use anabranch::{
    Association, AssociationConfig, Endpoint, ListenOptions, Listener, SCTP_UDP_PORT, VantagePoint,
};
use clap::Args;

use super::use_all_paths;
use crate::address::{ListenAddress, socket};
use crate::commands::gateway::{keys, reach};
use crate::endpoint::sealed;
use crate::failure::Failure;
use crate::options::SctpOptions;

/// How a server is sealed.
#[derive(Clone, Debug, Args)]
pub(crate) struct ServerSealOptions {
    /// Encrypt everything, for clients that do the same, with --sealed
    #[arg(long)]
    pub(crate) sealed: bool,
    /// With --sealed: file with the secret key, made if it is missing [default: serve.key in the user's configuration]
    #[arg(long, value_name = "FILE", requires = "sealed", hide_short_help = true)]
    key: Option<PathBuf>,
    /// With --sealed: address and UDP port under which clients reach this host, for the line that they paste; may be
    /// given several times [default: the host's addresses]
    #[arg(
        long,
        value_name = "ADDR:PORT",
        requires = "sealed",
        hide_short_help = true,
        value_parser = socket
    )]
    public: Vec<SocketAddr>,
}

/// What clients need to know of a sealed server.
#[derive(Clone, Debug)]
pub(crate) struct Identity {
    pub(crate) key: PublicKey,
    pub(crate) line: Invitation,
}

/// A sealed server that listens.
pub(crate) struct SealedServer {
    pub(crate) endpoint: Endpoint,
    pub(crate) listener: Listener,
    pub(crate) identity: Identity,
    handle: SealHandle,
}

impl ServerSealOptions {
    /// Opens an endpoint for any client, which listens on this SCTP port and gives its key to anyone who asks.
    pub(crate) fn server(
        &self,
        listen: &ListenAddress,
        udp_port: Option<u16>,
        mut config: AssociationConfig,
        options: &SctpOptions,
    ) -> Result<SealedServer, Failure> {
        #[cfg(unix)]
        if !crate::activation::udp_sockets(&listen.addresses, udp_port)?.is_empty() {
            return Err(Failure::usage("--sealed cannot use the sockets that systemd has opened"));
        }
        use_all_paths(&mut config, options)?;
        let (secret, _) = self.secret()?;
        let real = ListenAddress { port: udp_port.unwrap_or(SCTP_UDP_PORT), ..listen.clone() };
        let seal = Seal::listen(secret.clone(), reach::sockets(&real)?).allow(Allow::Any);
        let seal = seal.announce();
        let handle = seal.handle();
        let endpoint = sealed(options, seal, VantagePoint::Server)?;
        let listener =
            endpoint.listen(listen.port, ListenOptions::from(config)).map_err(Failure::failed)?;
        let addresses = reach::known(&self.public, &real, endpoint.udp_port());
        let key = secret.public();
        let identity = Identity { key, line: Invitation::new(key, addresses) };
        Ok(SealedServer { endpoint, listener, identity, handle })
    }

    fn secret(&self) -> Result<(SecretKey, PathBuf), Failure> {
        keys::key(self.key.as_deref(), "serve.key")
    }
}

impl SealedServer {
    /// Finds the real address of the client of an association.
    pub(crate) fn real_address(
        &self,
    ) -> impl Fn(&Association) -> Option<SocketAddr> + Clone + use<> {
        let handle = self.handle.clone();
        move |association| {
            let known = handle.paths();
            let real = |ip: IpAddr| known.iter().find(|path| path.address == ip)?.remote;
            association.statistics().paths.iter().find_map(|path| real(path.remote))
        }
    }
}
