//! The engine of unmodified programs, set up from the options that the commands share.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use anabranch::runtime::Runtime;
use anabranch::{
    Association, AssociationConfig, BindError, Builder, CaptureFile, Endpoint, EndpointConfig,
};
use anabranch_run::{Engine, Hooks, Local, Settings};
use clap::Args;
use tokio::runtime::Handle;

use crate::address::{Address, plain_address};
use crate::endpoint::{Watch, config_of, places};
use crate::failure::{Failure, complain};
use crate::options::size;
use crate::policies::PolicyOptions;
use crate::{control, impairment, zone};

/// Options of the engine.
#[derive(Debug, Args)]
pub(crate) struct EngineOptions {
    /// Local addresses of all associations, so that each has several paths; the programs may bind to any of them
    /// [default: what the programs bind to]
    #[arg(long, alias = "local", value_name = "ADDR,...", value_delimiter = ',', value_parser = plain_address)]
    addresses: Vec<Address>,
    /// Set of protocol parameters: default, rfc9260, rfc4960, rfc2960, bulk, signalling or web
    #[arg(long, value_name = "NAME", help_heading = "SCTP")]
    profile: Option<String>,
    /// Bytes that the buffers of all associations of an endpoint may use together, for instance 64M [default: 1G]
    #[arg(long, value_name = "SIZE", value_parser = size, help_heading = "SCTP")]
    memory_limit: Option<usize>,
    /// Send and receive over this network interface only, regardless of routes
    #[arg(long, value_name = "NAME", help_heading = "SCTP")]
    interface: Option<String>,
    /// Impair packets as this TOML file says: rate, queue, delay, loss, cuts; 'local' is this side's address, and times
    /// count from the first socket that is used
    #[arg(long, value_name = "FILE", help_heading = "SCTP")]
    impair: Option<PathBuf>,
    /// Unix socket for 'anabranch inspect', for this user only; sockets of further endpoints get -2, -3 and so on
    /// appended [default: one for each endpoint in XDG_RUNTIME_DIR, or /run/anabranch for root, or /tmp/anabranch-UID]
    #[arg(long, value_name = "PATH", help_heading = "SCTP")]
    control: Option<PathBuf>,
    /// Write all packets to this file, for Wireshark
    #[arg(long, value_name = "FILE.pcapng", help_heading = "SCTP")]
    capture: Option<PathBuf>,
    // Keep this last: options after it would be listed under its heading.
    #[command(flatten)]
    policies: PolicyOptions,
}

impl EngineOptions {
    /// The initial options of associations.
    pub(crate) fn config(&self) -> Result<AssociationConfig, Failure> {
        config_of(self.profile.as_deref(), &self.policies)
    }

    /// The names of the options that were given.
    pub(crate) fn given(&self) -> impl Iterator<Item = &str> {
        [
            ("--addresses", !self.addresses.is_empty()),
            ("--profile", self.profile.is_some()),
            ("--memory-limit", self.memory_limit.is_some()),
            ("--interface", self.interface.is_some()),
            ("--impair", self.impair.is_some()),
            ("--control", self.control.is_some()),
            ("--capture", self.capture.is_some()),
        ]
        .into_iter()
        .filter_map(|(name, given)| given.then_some(name))
        .chain(self.policies.given())
    }

    /// Starts an engine with these settings, and with what the options say: for one program, or for all that may use
    /// the directory.
    pub(crate) fn start(
        &self,
        settings: Settings,
        directory: Option<&Path>,
    ) -> Result<Running, Failure> {
        let addresses = self.addresses.iter().map(local).collect::<Result<_, _>>()?;
        let interface = self.interface.clone();
        let hooks = Arc::new(Additions::new(self)?);
        let settings = Settings { addresses, interface, ..settings };
        let additions = hooks.clone();
        let engine = match directory {
            Some(directory) => Engine::start_in(directory, settings, additions)
                .map_err(|error| no_engine_in(directory, &error))?,
            None => Engine::start_with(settings, additions)
                .map_err(|error| Failure::failed(format!("the engine cannot start: {error}")))?,
        };
        Ok(Running { engine, capture: hooks.capture.clone() })
    }
}

/// An engine, and the file that it writes.
#[derive(Debug)]
pub(crate) struct Running {
    pub(crate) engine: Engine,
    capture: Option<CaptureFile>,
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(capture) = &self.capture {
            capture.finish();
        }
    }
}

fn no_engine_in(directory: &Path, error: &io::Error) -> Failure {
    let name = directory.display();
    Failure::failed(match error.kind() {
        io::ErrorKind::ResourceBusy => {
            format!("another engine runs in {name}: stop it, or use another directory")
        }
        io::ErrorKind::InvalidFilename => {
            format!("the path {name} is too long for a socket: use a directory with a shorter one")
        }
        _ => format!("no engine can run in {name}: {error}"),
    })
}

fn local(address: &Address) -> Result<Local, Failure> {
    if address.ip.is_unspecified() {
        let ip = address.ip;
        return Err(Failure::usage(format!(
            "--addresses {ip} is not an address of this host: name them, or leave the option out"
        )));
    }
    let link = address.zone.as_deref().map(zone::name).transpose()?;
    Ok(Local { ip: address.ip, link })
}

/// What this program adds to the endpoints and associations of an engine.
#[derive(Debug)]
struct Additions {
    config: EndpointConfig,
    capture: Option<CaptureFile>,
    impair: Option<PathBuf>,
    /// The runtime with the links of `impair`, which all endpoints share.
    impaired: OnceLock<Option<Arc<dyn Runtime>>>,
    control: Option<PathBuf>,
    /// The number of endpoints so far.
    opened: Mutex<u64>,
    /// Runs what is not the engine's own work.
    handle: Handle,
}

impl Additions {
    fn new(options: &EngineOptions) -> Result<Self, Failure> {
        let mut config = EndpointConfig::default();
        if let Some(limit) = options.memory_limit {
            config.memory_limit = limit;
            config.max_associations = places(limit);
        }
        config.validate().map_err(Failure::usage)?;
        if let Some(file) = &options.impair {
            impairment::read(file)?;
        }
        crate::outputs::check(&[("--capture", options.capture.as_deref())])?;
        let create = |path: &PathBuf| {
            CaptureFile::create(path).map_err(|error| {
                let name = path.display();
                Failure::failed(format!("cannot create the capture file {name}: {error}"))
            })
        };
        Ok(Self {
            config,
            capture: options.capture.as_ref().map(create).transpose()?,
            impair: options.impair.clone(),
            impaired: OnceLock::new(),
            control: options.control.clone(),
            opened: Mutex::default(),
            handle: Handle::current(),
        })
    }

    /// Lets 'inspect' look at an endpoint.
    fn offer(&self, endpoint: &Endpoint) {
        let number = {
            let mut opened = self.opened.lock().unwrap_or_else(PoisonError::into_inner);
            *opened += 1;
            *opened
        };
        let path = self.control.as_ref().map(|path| match number {
            1 => path.clone(),
            _ => {
                let mut name = path.clone().into_os_string();
                name.push(format!("-{number}"));
                name.into()
            }
        });
        let _within = self.handle.enter();
        if let Err(failure) = control::offer(endpoint, path.as_deref()) {
            // The programs work without it.
            complain(failure.told().0.unwrap_or_default());
        }
    }
}

impl Hooks for Additions {
    fn config(&self) -> EndpointConfig {
        self.config.clone()
    }

    fn bind(&self, mut builder: Builder) -> Result<Endpoint, BindError> {
        if let Some(capture) = &self.capture {
            builder = builder.capture_into(capture);
        }
        // It was read before, so it can only be missing if it has just changed.
        let impaired = || impairment::runtime(self.impair.as_ref()?).ok();
        if let Some(runtime) = self.impaired.get_or_init(impaired) {
            builder = builder.runtime(runtime.clone());
        }
        let endpoint = builder.bind()?;
        self.offer(&endpoint);
        Ok(endpoint)
    }

    fn established(&self, association: &Association, accepted: bool) {
        let _within = self.handle.enter();
        let watch = match accepted {
            true => Watch::accepted(association),
            false => Watch::connected(association),
        };
        let association = association.clone();
        self.handle.spawn(async move {
            // Any end is one.
            let _ = association.closed().await;
            drop(watch);
        });
    }
}
