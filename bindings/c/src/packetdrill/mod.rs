//! packetdrill's interface to stacks in user space: scripts make calls on one thread and exchange
//! IP packets on another, and the stack has no network of its own.
//!
//! The sockets are the usual ones, but their `Host` is another: its runtime is `executor` and its only
//! network interface is `network`.

mod executor;
pub mod interface;
mod network;
mod settings;

use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use self::executor::Executor;
use self::network::Network;
use self::settings::Settings;
use anabranch_sockets::{Binding, Host, Local};

/// Locks a mutex, even if it is poisoned.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A stack that packetdrill drives.
#[derive(Debug)]
struct Stack {
    executor: Arc<Executor>,
    network: Arc<Network>,
    host: Arc<Host>,
    sysctl: OnceLock<()>,
}

impl Stack {
    fn new(settings: &Settings) -> Self {
        let network = Arc::new(Network::default());
        let local: IpAddr = settings.local;
        let executor = Executor::start(network.clone(), local);
        let settle = {
            let executor = executor.clone();
            Box::new(move || executor.settle())
        };
        let only =
            Binding { addresses: vec![Local { ip: local, link: None }], ..Binding::default() };
        let host = Arc::new(Host::on(executor.clone(), settle, only));
        host.configure(|config| *config = settings.association());
        Self { executor, network, host, sysctl: OnceLock::new() }
    }

    /// Reads the settings of the script, once.
    fn read_sysctl(&self) {
        self.sysctl.get_or_init(|| {
            let file = std::env::var_os("PD_SYSCTL_FILE");
            if let Some(text) = file.and_then(|file| std::fs::read_to_string(file).ok()) {
                self.host.configure(|config| settings::apply(config, &text));
            }
        });
    }

    /// Receives a packet and handles it completely.
    fn inject(&self, packet: &[u8]) {
        if let Some((from, to, ecn, contents)) = network::parse(packet) {
            self.network.arrive(SocketAddr::new(from, 0), to, ecn, contents.to_vec());
        }
        self.executor.settle();
    }

    /// Stops the stack for good.
    fn stop(&self) {
        self.network.close();
        self.executor.stop();
    }
}
