//! The sealed paths of a server.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;

use anabranch::seal::{Allow, Invitation, PublicKey, Seal, SealHandle};
use anabranch::{
    Association, AssociationConfig, Endpoint, ListenOptions, Listener, SCTP_UDP_PORT, VantagePoint,
};
use anabranch_gateway::Allowances;
use clap::Args;
use tokio::time::sleep;

use super::{Admission, Users, keys, reach, use_all_paths};
use crate::address::{ListenAddress, socket};
use crate::endpoint::sealed;
use crate::failure::{Failure, complain};
use crate::options::SctpOptions;
use crate::user_signal::UserSignal;

/// How a server is sealed.
#[derive(Clone, Debug, Args)]
pub(crate) struct ServerSealOptions {
    /// Encrypt everything, for clients that do the same, with --sealed
    #[arg(long)]
    pub(crate) sealed: bool,
    /// With --sealed: file with the secret key, made if it is missing [default: serve.key in the user's configuration]
    #[arg(long, value_name = "FILE", requires = "sealed", hide_short_help = true)]
    key: Option<PathBuf>,
    /// With --sealed: admit known users only
    ///
    /// Prints a line that admits one user, and another one on SIGUSR1. The keys of users are kept next to the key of the
    /// server, in a file that ends with .users; one that is removed from it is locked out at once. All others get no answer.
    #[arg(long, requires = "sealed", hide_short_help = true)]
    pub(crate) private: bool,
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
    /// With a token for one user, if the server is private.
    pub(crate) line: Invitation,
}

impl Identity {
    /// Whom the line is for.
    pub(crate) fn audience(&self) -> &'static str {
        match self.line.token() {
            Some(_) => "one more user",
            None => "clients elsewhere",
        }
    }
}

/// A sealed server that listens.
pub(crate) struct SealedServer {
    pub(crate) endpoint: Endpoint,
    pub(crate) listener: Listener,
    pub(crate) identity: Identity,
    pub(crate) clients: Clients,
    /// The wish for a line for one more user.
    pub(crate) wish: UserSignal,
}

/// The clients of a sealed server.
#[derive(Clone)]
pub(crate) struct Clients {
    handle: SealHandle,
    /// Of a private server.
    admission: Option<Arc<Admission>>,
    /// Where clients reach the server.
    addresses: Vec<SocketAddr>,
}

impl ServerSealOptions {
    /// Opens an endpoint that listens on this SCTP port. Unless it is private, any client may use it, and it answers
    /// any question for its key.
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
        let (secret, path) = keys::key(self.key.as_deref(), "serve.key")?;
        let key = secret.public();
        let real = ListenAddress { port: udp_port.unwrap_or(SCTP_UDP_PORT), ..listen.clone() };
        let seal = Seal::listen(secret.clone(), reach::sockets(&real)?);
        let (seal, admission) = match self.private {
            true => {
                let users = Users::beside(&path)?;
                if users.allowances() != Allowances::default() {
                    return Err(Failure::usage(format!(
                        "{}: bounds of users are for 'anabranch gateway far': leave only the keys",
                        users.file().display()
                    )));
                }
                let (seal, admission) = Admission::new(seal, secret, users, "server");
                (seal, Some(Arc::new(admission)))
            }
            false => (seal.allow(Allow::Any).announce(), None),
        };
        let wish = match self.private {
            true => UserSignal::listen()?,
            false => UserSignal::never(),
        };
        let handle = seal.handle();
        let endpoint = sealed(options, seal, VantagePoint::Server)?;
        let listener =
            endpoint.listen(listen.port, ListenOptions::from(config)).map_err(Failure::failed)?;
        let addresses = reach::known(&self.public, &real, endpoint.udp_port());
        let clients = Clients { handle, admission, addresses };
        let line = match clients.invite()? {
            Some(invitation) => invitation,
            None => Invitation::new(key, clients.addresses.iter().copied()),
        };
        Ok(SealedServer { endpoint, listener, identity: Identity { key, line }, clients, wish })
    }
}

impl Clients {
    /// Finds the real address of the client of an association.
    pub(crate) fn real_address(&self, association: &Association) -> Option<SocketAddr> {
        let known = self.handle.paths();
        let real = |ip: IpAddr| known.iter().find(|path| path.address == ip)?.remote;
        association.statistics().paths.iter().find_map(|path| real(path.remote))
    }

    /// Serves an association, and notes whose it is meanwhile.
    pub(crate) async fn during<T>(
        &self,
        association: &Association,
        serving: impl Future<Output = T>,
    ) -> T {
        let Some(admission) = &self.admission else { return serving.await };
        admission.opened(association);
        let served = serving.await;
        admission.closed(association.id());
        served
    }

    /// A line for one more user of a private server.
    fn invite(&self) -> Result<Option<Invitation>, Failure> {
        let invite = |admission: &Arc<Admission>| admission.invite(self.addresses.iter().copied());
        self.admission.as_ref().map(invite).transpose()
    }

    /// Follows the file of users, and tells an invitation for one more at each wish. Ends with an error only.
    pub(crate) async fn follow(
        &self,
        wish: &mut UserSignal,
        tell: impl Fn(&Invitation) -> Result<(), Failure>,
    ) -> Failure {
        let Some(admission) = &self.admission else { return std::future::pending().await };
        let following = async {
            loop {
                sleep(Admission::LOOK).await;
                if admission.look().await.is_some() {
                    complain(
                        "bounds of users are for 'anabranch gateway far', and are not kept here",
                    );
                }
            }
        };
        let inviting = async {
            loop {
                wish.next().await;
                let invited = self.invite();
                let told = invited.and_then(|line| line.as_ref().map_or(Ok(()), &tell));
                if let Err(failure) = told {
                    return failure;
                }
            }
        };
        tokio::select! {
            failure = following => failure,
            failure = inviting => failure,
        }
    }
}
