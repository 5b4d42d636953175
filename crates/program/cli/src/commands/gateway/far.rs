//! `anabranch gateway far`.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anabranch::seal::Seal;
use anabranch::{Association, AssociationConfig, Endpoint, ListenOptions, Listener, VantagePoint};
use anabranch_gateway::{Account, Accounts, FarOptions, Rule, Rules};
use anabranch_pictures::{Converter, ConverterOptions};
use clap::Args;
use serde::Serialize;
use tokio::time::{Instant, sleep};

use super::report::{self, Event};
use super::{PORT, config};
use crate::address::{ListenAddress, socket};
use crate::endpoint::{Binding, Watch, accept_all, end, sealed};
use crate::failure::{Failure, complain};
use crate::interrupt::Interrupt;
use crate::options::{SctpOptions, Transport, duration};
use crate::output::{json_line, print, print_first, write_in_background};
use crate::sealed::keys::key;
use crate::sealed::{Admission, Users, reach};
use crate::user_signal::UserSignal;

/// Connect to the targets that the near side asks for
///
/// Runs on a server until Ctrl-C. Resolves the names of targets itself, and connects to public addresses only, unless
/// --allow opens more. Prints a line for each connection that ends, and on SIGUSR1 a line for one more near side.
#[derive(Debug, Args)]
#[command(
    after_help = "Rules of --allow and --deny: HOST, *.DOMAIN, ADDRESS, NETWORK/BITS or *, with :PORT or
:FIRST-LAST after it if they are about ports. --deny goes first.

Examples:
  anabranch gateway far --plain --listen 127.0.0.1:9899 --allow 127.0.0.0/8
  anabranch gateway far --plain --allow 10.0.0.0/8:80 --allow intranet.example --deny *:25
  anabranch gateway far --plain --only-allowed --allow *.example.com:443"
)]
pub(super) struct Far {
    /// Addresses and UDP port on which the near side connects, IPv6 addresses in brackets
    #[arg(long, value_name = "ADDR[,ADDR...]:PORT", default_value = "[::]:9899")]
    listen: ListenAddress,
    /// Address and UDP port under which the near side reaches this host, for the invitation; may be given several times
    /// [default: the host's addresses]
    #[arg(long, value_name = "ADDR:PORT", value_parser = socket, conflicts_with = "plain")]
    public: Vec<SocketAddr>,
    /// File with the secret key, made if it is missing; the keys of users and what each may have are next to it, in a
    /// file that ends with .users [default: far.key in the user's configuration]
    #[arg(long, value_name = "FILE", conflicts_with = "plain")]
    key: Option<PathBuf>,
    /// Do not encrypt: anyone on the way can read and change everything, and anyone who reaches this port can use it
    #[arg(long)]
    plain: bool,
    /// Also connect to these targets, although their addresses are not public; may be given several times
    #[arg(long, value_name = "RULE")]
    allow: Vec<Rule>,
    /// Never connect to these targets; may be given several times
    #[arg(long, value_name = "RULE")]
    deny: Vec<Rule>,
    /// Connect to nothing but what --allow names
    #[arg(long)]
    only_allowed: bool,
    /// Connections to targets at the same time; more are refused
    #[arg(long, value_name = "N", default_value_t = 4096, value_parser = clap::value_parser!(u32).range(1..=60_000))]
    max_connections: u32,
    /// Flows of UDP at the same time, each what one socket of a program sends and receives; more are dropped
    #[arg(long, value_name = "N", default_value_t = 1024, value_parser = clap::value_parser!(u32).range(0..=60_000))]
    max_udp_flows: u32,
    /// How long connecting to a target may take, with resolving its name
    #[arg(long, value_name = "TIME", default_value = "20s", value_parser = duration)]
    target_timeout: Duration,
    /// Make pictures that come by http progressive, so that a slow link shows all of them early: JPEG, and PNG by
    /// interlacing. Pixels and metadata stay. Each waits until it is whole, and is converted in a process without rights
    #[arg(long)]
    progressive_pictures: bool,
    /// Pictures that are converted at the same time; others wait
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=256), requires = "progressive_pictures", hide_short_help = true)]
    max_conversions: u32,
    /// Print JSON, one document a line
    #[arg(long)]
    json: bool,
    /// Append the lines about connections to this file; without a terminal, SIGHUP reopens it
    #[arg(long, value_name = "FILE", hide_short_help = true)]
    log: Option<PathBuf>,
    #[command(flatten)]
    sctp: SctpOptions,
}

#[derive(Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
enum Printed<'a> {
    Listening {
        service: &'static str,
        listen: &'a str,
        udp_port: u16,
        sealed: bool,
        invitation: Option<&'a str>,
    },
    /// For one more near side.
    Invitation { invitation: &'a str },
}

/// What sealed paths need besides the endpoint.
struct Sealed {
    admission: Admission,
    accounts: Arc<Accounts>,
    /// Why the last attempt to save them failed.
    not_saved: Mutex<Option<String>>,
}

/// How often what users have carried is saved, if it has changed.
const SAVE: Duration = Duration::from_secs(10);

impl Far {
    pub(super) fn sctp(&self) -> &SctpOptions {
        &self.sctp
    }

    pub(super) async fn run(self) -> Result<(), Failure> {
        if self.listen.udp_port.is_some() {
            return Err(Failure::usage(
                "--listen: the port is that of UDP, so ;udp= is not needed",
            ));
        }
        write_in_background(self.log.as_deref(), self.json)?;
        crate::commands::serve::descriptors();
        let config = config(&self.sctp)?;
        let interrupt = Interrupt::of_server()?;
        let (endpoint, listener, sealed) = match self.plain {
            true => {
                let (endpoint, listener) = self.plain(config)?;
                (endpoint, listener, None)
            }
            false => self.sealed(config)?,
        };
        let json = self.json;
        let pictures = self.pictures().await?;
        let far = anabranch_gateway::Far::new(
            FarOptions { pictures, ..self.options() },
            Arc::new(move |access| report::access(&access, json)),
        );
        #[cfg(unix)]
        crate::metrics::also(
            far.traffic(),
            far.pictures(),
            sealed.as_ref().map(|sealed| &sealed.accounts),
        );
        let wish = UserSignal::listen()?;
        let udp_port = endpoint.udp_port();
        self.tell_listening(udp_port, sealed.as_ref())?;
        let sealed = sealed.map(Arc::new);
        let inviting = self.invite_more(wish, udp_port, sealed.as_deref());
        let serving = serve_all(&far, &endpoint, listener, sealed.as_ref(), &interrupt, json);
        let ended = tokio::select! {
            () = serving => Ok(()),
            failure = inviting => Err(failure),
        };
        if let Some(sealed) = &sealed {
            sealed.save();
        }
        ended
    }

    /// The converter of pictures, which has shown that it can be isolated on this system.
    async fn pictures(&self) -> Result<Option<Arc<Converter>>, Failure> {
        if !self.progressive_pictures {
            return Ok(None);
        }
        let at_once = self.max_conversions as usize;
        // In KiB: mimalloc reserves a GiB otherwise.
        let environment = vec![("MIMALLOC_ARENA_RESERVE", "65536")];
        let options = ConverterOptions { at_once, environment, ..ConverterOptions::default() };
        let converter = Converter::new(options);
        let probed = converter.probe().await;
        probed.map_err(|error| {
            Failure::failed(format!(
                "--progressive-pictures: the converter cannot be isolated: {error}"
            ))
        })?;
        Ok(Some(converter))
    }

    fn options(&self) -> FarOptions {
        FarOptions {
            rules: Rules {
                deny: self.deny.clone(),
                allow: self.allow.clone(),
                only_allowed: self.only_allowed,
            },
            connections: self.max_connections as usize,
            connect_timeout: self.target_timeout,
            udp_flows: self.max_udp_flows as usize,
            ..FarOptions::default()
        }
    }

    fn plain(&self, config: AssociationConfig) -> Result<(Endpoint, Listener), Failure> {
        let binding = Binding {
            transport: Transport::SctpUdp,
            addresses: &self.listen.addresses,
            udp_port: Some(self.listen.port),
            remote_udp_port: None,
            options: &self.sctp,
        };
        binding.server(PORT, config)
    }

    fn sealed(
        &self,
        config: AssociationConfig,
    ) -> Result<(Endpoint, Listener, Option<Sealed>), Failure> {
        let (secret, path) = key(self.key.as_deref(), "far.key")?;
        let users = Users::beside(&path)?;
        let accounts =
            Accounts::open(users.usage(), users.allowances()).map_err(Failure::failed)?;
        let accounts = Arc::new(accounts);
        let seal = Seal::listen(secret.clone(), reach::sockets(&self.listen)?);
        let (seal, admission) = Admission::new(seal, secret, users, "gateway");
        let endpoint = sealed(&self.sctp, seal, VantagePoint::Server)?;
        let listener =
            endpoint.listen(PORT, ListenOptions::from(config)).map_err(Failure::failed)?;
        let sealed = Sealed { admission, accounts, not_saved: Mutex::default() };
        Ok((endpoint, listener, Some(sealed)))
    }

    fn tell_listening(&self, udp_port: u16, sealed: Option<&Sealed>) -> Result<(), Failure> {
        let listen = ListenAddress { port: udp_port, ..self.listen.clone() }.to_string();
        let invitation = sealed.map(|sealed| self.invite(udp_port, sealed)).transpose()?;
        if self.json {
            return print_first(&json_line(&Printed::Listening {
                service: "gateway-far",
                listen: &listen,
                udp_port,
                sealed: sealed.is_some(),
                invitation: invitation.as_deref(),
            })?);
        }
        let Some(invitation) = invitation else {
            return print_first(&format!("gateway far on UDP {listen}, not encrypted\n"));
        };
        print_first(&format!(
            "gateway far on UDP {listen}; one near side connects with this line:\n\n  \
             anabranch gateway near {invitation}\n\n"
        ))
    }

    /// An invitation for one more near side.
    fn invite(&self, udp_port: u16, sealed: &Sealed) -> Result<String, Failure> {
        let addresses = reach::addresses(&self.public, &self.listen, udp_port);
        Ok(sealed.admission.invite(addresses)?.to_string())
    }

    /// Prints an invitation whenever SIGUSR1 arrives.
    async fn invite_more(
        &self,
        mut wish: UserSignal,
        udp_port: u16,
        sealed: Option<&Sealed>,
    ) -> Failure {
        loop {
            wish.next().await;
            let Some(sealed) = sealed else {
                complain("SIGUSR1: without encryption there are no invitations");
                continue;
            };
            let printed = self.invite(udp_port, sealed).and_then(|invitation| match self.json {
                true => print(&json_line(&Printed::Invitation { invitation: &invitation })?),
                false => print(&format!(
                    "one more near side connects with this line:\n\n  \
                     anabranch gateway near {invitation}\n\n"
                )),
            });
            if let Err(failure) = printed {
                return failure;
            }
        }
    }
}

impl Sealed {
    /// Returns the account of the near side.
    fn opened(&self, association: &Association) -> Arc<Account> {
        // One without a key has ended already.
        let key = self.admission.opened(association);
        key.map_or_else(Account::unlimited, |key| self.accounts.of(&key.to_string()))
    }

    /// Saves what users have carried.
    fn save(&self) {
        let error = self.accounts.save().err();
        let mut last = self.not_saved.lock().unwrap_or_else(PoisonError::into_inner);
        // Report a full disk once.
        if let Some(error) = error.as_ref().filter(|error| last.as_ref() != Some(error)) {
            complain(error);
        }
        *last = error;
    }

    /// Follows the file of users, and saves what they have carried.
    async fn follow_users(&self) {
        let mut saved = Instant::now();
        loop {
            sleep(Admission::LOOK).await;
            if saved.elapsed() >= SAVE {
                saved = Instant::now();
                self.save();
            }
            if let Some(allowances) = self.admission.look().await {
                self.accounts.allow(allowances);
                complain("what users may have is changed");
            }
        }
    }
}

/// Serves all near sides until the user wants to stop.
async fn serve_all(
    far: &anabranch_gateway::Far,
    endpoint: &Endpoint,
    listener: Listener,
    sealed: Option<&Arc<Sealed>>,
    interrupt: &Interrupt,
    json: bool,
) {
    let handle = |association: Association| {
        let account = match sealed {
            Some(sealed) => sealed.opened(&association),
            None => Account::unlimited(),
        };
        let (far, sealed, id) = (far.clone(), sealed.cloned(), association.id());
        async move {
            serve(far, association, &account, json).await;
            if let Some(sealed) = sealed {
                sealed.admission.closed(id);
            }
        }
    };
    let watching = async {
        match sealed {
            Some(sealed) => sealed.follow_users().await,
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        () = accept_all(endpoint, listener, interrupt, Duration::ZERO, handle) => {}
        () = watching => {}
    }
}

async fn serve(
    far: anabranch_gateway::Far,
    association: Association,
    account: &Arc<Account>,
    json: bool,
) {
    let near = association.peer_addresses().first().map(|near| near.ip().to_string());
    let near = near.as_deref().unwrap_or("-");
    report::tell(Event::Accepted { near }, json);
    let _counted = Watch::accepted(&association);
    let served = far.serve(&association, account).await;
    let error = match served {
        Ok(()) => end(&association).await.err(),
        Err(error) => Some(error.to_string()),
    };
    report::tell(Event::Ended { near, error: error.as_deref() }, json);
}
