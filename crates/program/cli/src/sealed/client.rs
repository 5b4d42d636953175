//! The sealed servers of a client, and why it trusts them.

use std::fmt::Display;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use anabranch::seal::{Invitation, KnownServers, PublicKey, Seal, SecretKey};
use anabranch::{Association, ConnectOptions, Endpoint, VantagePoint};
use anabranch_gateway::{UplinkSpec, Uplinks};
use anabranch_http::Authority;
use clap::Args;
use tokio::sync::Mutex;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::url::{ServerKey, is_invitation};
use super::{ask, keys, use_all_paths};
use crate::endpoint::{close, sealed};
use crate::failure::{Failure, complain};
use crate::options::{SctpOptions, Transport};

/// How long a server may take to give its key.
const ASKING: Duration = Duration::from_secs(5);

/// How a client is sealed.
#[derive(Clone, Debug, Args)]
pub(crate) struct SealOptions {
    /// Encrypt everything; the server must do the same. Not needed if its key is given
    ///
    /// If no key is given, the one that is known from before is the only one that is accepted, and the first time the
    /// one that the server gives. All uplinks of this host are used at the same time. Nothing is ever sent without
    /// encryption instead.
    #[arg(long)]
    sealed: bool,
    /// File with your secret key, made if it is missing, for a server that admits known users only [default: a new key each
    /// time; client.key in the user's configuration if the line admits one user]
    #[arg(long, value_name = "FILE", hide_short_help = true)]
    key: Option<PathBuf>,
    /// File with the keys of servers that are known [default: known_servers in the user's configuration]
    #[arg(long, value_name = "FILE", hide_short_help = true)]
    known_servers: Option<PathBuf>,
    /// With --sealed: interfaces or local addresses to use at the same time, at most eight [default: all interfaces with a
    /// route]
    #[arg(
        long,
        value_name = "NAME|ADDR[,...]",
        hide_short_help = true,
        value_delimiter = ',',
        value_parser = uplink
    )]
    uplink: Vec<UplinkSpec>,
}

/// Parses an uplink that is used all the time.
pub(crate) fn uplink(text: &str) -> Result<UplinkSpec, String> {
    let spec: UplinkSpec =
        text.parse().map_err(|error: anabranch_gateway::NoUplink| error.to_string())?;
    match spec.is_conditional() {
        true => {
            Err(":backup and :limit are for 'anabranch gateway near': leave them out".to_owned())
        }
        false => Ok(spec),
    }
}

impl SealOptions {
    /// Whether a command for these servers is sealed.
    pub(crate) fn is_on<'u>(&self, mut servers: impl Iterator<Item = &'u Authority>) -> bool {
        self.sealed || servers.any(|server| server.key.is_some())
    }

    /// Refuses a server that would be reached without encryption although the command is sealed, or the other way round.
    /// `on` says whether it is, and `name` is the server as the user named it.
    pub(crate) fn check(
        &self,
        on: bool,
        (name, server): (&dyn Display, &Authority),
        transport: Transport,
    ) -> Result<(), Failure> {
        if on && transport != Transport::SctpUdp {
            return Err(Failure::usage(format!(
                "{name} cannot be sealed, because only SCTP over UDP can: use sctp://, or a command without --sealed"
            )));
        }
        if !on && server.key.is_some() {
            return Err(Failure::usage(format!("{name} has a key: use --sealed")));
        }
        if !on && self.key.is_some() {
            return Err(Failure::usage("--key is for --sealed"));
        }
        if !on && !self.uplink.is_empty() {
            return Err(Failure::usage("--uplink is for --sealed; --local is for plain paths"));
        }
        Ok(())
    }
}

/// Why the key of a server is trusted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Trust {
    /// The user has named it.
    Named,
    /// It is in the file of known servers.
    Known,
    /// The server has said so, and its name was not known.
    First,
}

/// A server with the endpoint for it.
#[derive(Debug)]
struct Server {
    authority: Authority,
    key: PublicKey,
    trust: Trust,
    addresses: Vec<SocketAddr>,
    endpoint: Endpoint,
    following: JoinHandle<()>,
}

impl Drop for Server {
    fn drop(&mut self) {
        self.following.abort();
    }
}

/// The sealed servers of a command, each with an endpoint of its own.
#[derive(Debug)]
pub(crate) struct Servers {
    seal: SealOptions,
    sctp: SctpOptions,
    servers: Mutex<Vec<Server>>,
}

impl Servers {
    pub(crate) fn new(seal: &SealOptions, sctp: &SctpOptions) -> Self {
        Self { seal: seal.clone(), sctp: sctp.clone(), servers: Mutex::default() }
    }

    /// Sets up an association with a server at these addresses, whose ports are not used.
    pub(crate) async fn associate(
        &self,
        authority: &Authority,
        addresses: &[SocketAddr],
        mut options: ConnectOptions,
        patience: Duration,
    ) -> Result<Association, Failure> {
        use_all_paths(&mut options.config, &self.sctp)?;
        let udp_port = options.remote_udp_port;
        let real = |address: &SocketAddr| {
            let mut address = *address;
            address.set_port(udp_port);
            address
        };
        let real: Vec<_> = addresses.iter().map(real).collect();
        let (endpoint, key, trust) = self.server(authority, real.clone(), udp_port).await?;
        let invited = authority.key.as_ref().is_some_and(|key| is_invitation(key));
        let connecting = endpoint.connect(key.remotes(authority.port), options);
        let connected = tokio::select! {
            connected = timeout(patience, connecting) => connected,
            other = ask::unexpected_key(&real, Some(key)) => {
                return Err(self.changed(authority, udp_port, trust, (key, other)));
            }
        };
        let association = match connected {
            Ok(connected) => connected.map_err(Failure::failed)?,
            Err(_) => {
                return Err(Failure::failed(format!(
                    "no answer from {} within {patience:?}: check that a sealed server with this key listens there \
                     (serve --sealed), that no firewall stops UDP port {udp_port}, and {}",
                    names(authority, udp_port).join(", "),
                    match invited {
                        true =>
                            "that nobody else has used this line, and the server has not started again since it was printed",
                        false => "that the server knows the key in --key if it is a private one",
                    }
                )));
            }
        };
        if trust == Trust::First {
            self.keep(authority, udp_port, key).await?;
        }
        Ok(association)
    }

    /// The endpoint for a server, its key, and why that is trusted.
    async fn server(
        &self,
        authority: &Authority,
        addresses: Vec<SocketAddr>,
        udp_port: u16,
    ) -> Result<(Endpoint, PublicKey, Trust), Failure> {
        let mut servers = self.servers.lock().await;
        let same =
            |server: &&Server| server.authority == *authority && server.addresses == addresses;
        if let Some(server) = servers.iter().find(same) {
            return Ok((server.endpoint.clone(), server.key, server.trust));
        }
        if !servers.is_empty() {
            let given = [
                ("--capture", self.sctp.capture.is_some()),
                ("--qlog", self.sctp.qlog.is_some()),
                ("--control", self.sctp.control.is_some()),
                ("--metrics", self.sctp.metrics.is_some()),
            ];
            if let Some((name, _)) = given.into_iter().find(|(_, given)| *given) {
                return Err(Failure::failed(format!(
                    "{name} is for one sealed server: fetch from {authority} with another command"
                )));
            }
        }
        let (ServerKey { key, token }, trust) =
            self.key_of(authority, &addresses, udp_port).await?;
        let invitation = Invitation::new(key, addresses.iter().copied());
        let invitation = match token {
            Some(token) => invitation.with_token(token),
            None => invitation,
        };
        let (endpoint, following) = self.bind(&invitation)?;
        servers.push(Server {
            authority: authority.clone(),
            key,
            trust,
            addresses,
            endpoint: endpoint.clone(),
            following,
        });
        Ok((endpoint, key, trust))
    }

    /// Opens the endpoint for a server.
    fn bind(&self, invitation: &Invitation) -> Result<(Endpoint, JoinHandle<()>), Failure> {
        let secret = self.secret(invitation.token().is_some())?;
        let seal = Seal::connect(secret, invitation);
        let uplinks = match &self.seal.uplink[..] {
            [] => {
                let server = invitation.addresses().iter().map(SocketAddr::ip).collect();
                Uplinks::with_routes(seal.handle(), server)
            }
            named => {
                Uplinks::named(seal.handle(), named.to_vec(), None).map_err(Failure::failed)?
            }
        };
        let seal = seal.uplinks(uplinks.uplinks());
        let endpoint = sealed(&self.sctp, seal, VantagePoint::Client)?;
        let following = tokio::spawn(async move { uplinks.follow(None).await });
        Ok((endpoint, following))
    }

    /// The user's own key. By default it is made for this one time, so that a server cannot tell that two commands belong
    /// together, unless the server admits known users only.
    fn secret(&self, invited: bool) -> Result<SecretKey, Failure> {
        match &self.seal.key {
            None if !invited => SecretKey::generate().map_err(Failure::failed),
            file => keys::key(file.as_deref(), "client.key").map(|(secret, _)| secret),
        }
    }

    /// The key of a server: that of the URL, the one that is known, or the one that the server gives.
    async fn key_of(
        &self,
        authority: &Authority,
        addresses: &[SocketAddr],
        udp_port: u16,
    ) -> Result<(ServerKey, Trust), Failure> {
        let alone = |key| ServerKey { key, token: None };
        if let Some(key) = &authority.key {
            let key = key.parse().map_err(|error| Failure::failed(format!("{key}: {error}")))?;
            return Ok((key, Trust::Named));
        }
        let (known, names) = (self.known()?, names(authority, udp_port));
        let keys: Vec<_> = names.iter().filter_map(|name| known.key_of(name)).collect();
        if let Some(key) = keys.first() {
            if keys.iter().any(|other| other != key) {
                return Err(Failure::failed(format!(
                    "{} are different servers by their keys in {}: name one of them, or give the key in the URL",
                    names.join(", "),
                    known.path().display()
                )));
            }
            return Ok((alone(*key), Trust::Known));
        }
        match ask::key_at(addresses, ASKING).await {
            Some(key) => Ok((alone(key), Trust::First)),
            None => Err(Failure::failed(format!(
                "no sealed server answers at {} within {ASKING:?}: check that it was started with --sealed, and that no \
                 firewall stops UDP port {udp_port}; if it is not sealed, leave --sealed out",
                names.join(", ")
            ))),
        }
    }

    fn known(&self) -> Result<KnownServers, Failure> {
        let file = match &self.seal.known_servers {
            Some(file) => file.clone(),
            None => keys::in_configuration("known_servers")?,
        };
        KnownServers::load(&file).map_err(Failure::failed)
    }

    /// Keeps the key of a server that has proved to have it, and says so.
    async fn keep(
        &self,
        authority: &Authority,
        udp_port: u16,
        key: PublicKey,
    ) -> Result<(), Failure> {
        let mut servers = self.servers.lock().await;
        let server = servers.iter_mut().find(|server| server.authority == *authority);
        // Another association may have been faster.
        if server
            .is_none_or(|server| std::mem::replace(&mut server.trust, Trust::Known) != Trust::First)
        {
            return Ok(());
        }
        let (mut known, names) = (self.known()?, names(authority, udp_port));
        for name in &names {
            known.add(name, key).map_err(Failure::failed)?;
        }
        complain(&format!(
            "{} is trusted with the key {key}, which nobody has confirmed: compare it with what the server prints; it is \
             kept in {}, and another key will be refused",
            names.join(", "),
            known.path().display()
        ));
        Ok(())
    }

    /// The error for a server that has another key than expected.
    fn changed(
        &self,
        authority: &Authority,
        udp_port: u16,
        trust: Trust,
        (expected, found): (PublicKey, PublicKey),
    ) -> Failure {
        let names = names(authority, udp_port).join(", ");
        let start = "either the server has a new key, or somebody else answers in its place";
        Failure::failed(match trust {
            Trust::Named => format!(
                "{names} has the key {found}, not {expected} of the URL: {start}. Ask its owner for the right one"
            ),
            Trust::Known | Trust::First => {
                let file = self.known().map(|known| known.path().display().to_string());
                format!(
                    "{names} has the key {found}, and had {expected}: {start}. If its owner confirms the new key, \
                     remove the old one from {}",
                    file.unwrap_or_else(|_| "the file of known servers".to_owned())
                )
            }
        })
    }

    /// Shuts down the remaining associations and closes the sockets.
    pub(crate) async fn close(&self) {
        for server in self.servers.lock().await.iter() {
            close(&server.endpoint).await;
        }
    }
}

/// The names under which a server is known: each host with the UDP port, which belongs to the key.
fn names(authority: &Authority, udp_port: u16) -> Vec<String> {
    authority.hosts.iter().map(|host| format!("{host}:{udp_port}")).collect()
}
