//! TCP programs over SCTP: `anabranch run --tcp`.
//!
//! The kernel's TCP socket of a program stays what it is. Its other end is a TCP socket of the engine on this host, and
//! the engine moves the bytes to and from an association, or where the peer has none, a TCP connection of its own.
//! `docs/run.md` describes it.
//!
//! | module | what it does |
//! |---|---|
//! | `hosts` | lists of hosts: `--only`, `--never` |
//! | `memory` | which hosts have SCTP |
//! | `gate` | connects sockets of programs to the engine |
//! | `names` | the true addresses of connections |
//! | `association` | associations that carry a connection |
//! | `race` | connects over SCTP, or TCP |
//! | `connecting` | `connect` of programs |
//! | `listening` | `listen` of programs |
//! | `relay` | moves bytes |

mod association;
mod connecting;
mod gate;
mod hosts;
mod listening;
mod memory;
mod names;
mod race;
mod relay;

use std::io;
use std::net::IpAddr;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use anabranch_c::layout;
use anabranch_channel::call::{Operation, Request};
use anabranch_channel::tcp::VARIABLE;
use anabranch_sockets::{Host, Lease, mapped};
use tokio::sync::{Notify, OnceCell};

use self::connecting::Failures;
use self::gate::Gate;
pub use self::hosts::{HostList, WrongHost};
use self::listening::Listening;
use self::memory::Memory;
use self::names::Names;
use crate::engine::{Engine, Settings, Shared};
use crate::lock::lock;

/// Which connections of programs SCTP carries.
#[derive(Clone, Debug)]
pub struct TcpSettings {
    /// Only those with these hosts; all hosts if there is no list.
    pub only: Option<HostList>,
    /// None with these hosts.
    pub never: HostList,
    /// Connections that SCTP does not carry fail, except those with hosts outside of the lists.
    pub required: bool,
    /// Gets a sentence that says why SCTP does not carry connections to a program that listens.
    pub complain: fn(&str),
}

impl Default for TcpSettings {
    fn default() -> Self {
        Self { only: None, never: HostList::default(), required: false, complain: |_| {} }
    }
}

/// The TCP connections of the programs of an engine.
#[derive(Debug)]
pub(crate) struct Tcp {
    host: Arc<Host>,
    engine: Settings,
    settings: TcpSettings,
    gate: Gate,
    /// The endpoint that connects, once it is needed.
    client: OnceCell<Arc<Lease>>,
    memory: Mutex<Memory>,
    names: Mutex<Names>,
    failures: Mutex<Failures>,
    listening: tokio::sync::Mutex<Listening>,
    /// Connections that are being set up or relayed.
    open: AtomicUsize,
    /// All programs have ended.
    over: AtomicBool,
    /// `open` has become 0, or `over` true.
    changed: Notify,
}

impl Engine {
    /// Carries the TCP connections of programs as well. Returns the environment variable by which they learn of it, and
    /// its value.
    ///
    /// # Errors
    /// There is no loopback interface, or the system refuses a socket.
    pub fn carry_tcp(&self, settings: TcpSettings) -> io::Result<(&'static str, String)> {
        let shared = &self.shared;
        let gate = Gate::open(settings.required)?;
        let value = gate.known.variable();
        let tcp = Tcp {
            host: shared.host.clone(),
            engine: shared.settings.clone(),
            settings,
            gate,
            client: OnceCell::new(),
            memory: Mutex::default(),
            names: Mutex::default(),
            failures: Mutex::default(),
            listening: tokio::sync::Mutex::default(),
            open: AtomicUsize::new(0),
            over: AtomicBool::new(false),
            changed: Notify::new(),
        };
        let _ = shared.tcp.set(Arc::new(tcp));
        Ok((VARIABLE, value))
    }
}

/// What a call returns besides its value.
pub(crate) type Answered = (i32, Vec<u8>);

/// Whether a call is about a TCP socket.
pub(crate) fn is_about(request: &Request) -> bool {
    use Operation::{TcpBegin, TcpConnect, TcpError, TcpListen, TcpNames};
    matches!(request.operation, TcpConnect | TcpBegin | TcpListen | TcpNames | TcpError)
}

/// Carries out a call about a TCP socket. Errors are numbers of `errno`.
pub(crate) async fn carry_out(
    shared: &Arc<Shared>,
    request: &Request,
    data: &[u8],
    descriptor: Option<OwnedFd>,
) -> Result<Answered, i32> {
    let tcp = shared.tcp.get().ok_or(libc::EOPNOTSUPP)?;
    let [first, second, _] = request.arguments;
    if request.operation == Operation::TcpError {
        return Ok((lock(&tcp.failures).take([first, second]), Vec::new()));
    }
    let value = match (request.operation, &layout::addresses(data)?[..]) {
        (Operation::TcpConnect, &[remote]) => i32::from(tcp.decide(remote)),
        (Operation::TcpBegin, &[own, remote]) => {
            tcp.begin(own, remote, descriptor.ok_or(libc::EINVAL)?, [first, second]);
            0
        }
        (Operation::TcpListen, &[at]) => {
            tcp.listen(at, first != 0).await?;
            0
        }
        (Operation::TcpNames, &[own, peer]) => {
            let names = lock(&tcp.names).find(own, peer, &tcp.gate.known).ok_or(libc::ENOENT)?;
            // Sockets for IPv6 show IPv4 addresses mapped.
            let shown = names.map(|name| if first != 0 { mapped(name) } else { name });
            return Ok((0, shown.into_iter().flat_map(layout::address).collect()));
        }
        _ => return Err(libc::EINVAL),
    };
    Ok((value, Vec::new()))
}

impl Tcp {
    /// Whether SCTP may carry connections with this host.
    fn may_carry(&self, host: IpAddr) -> bool {
        let host = host.to_canonical();
        self.settings.only.as_ref().is_none_or(|only| only.has(host))
            && !self.settings.never.has(host)
    }

    /// Counts a connection until the result is dropped.
    fn opened(self: &Arc<Self>) -> Opened {
        self.open.fetch_add(1, Ordering::SeqCst);
        Opened(self.clone())
    }

    /// Waits until all programs have ended.
    async fn over(&self) {
        self.wait_until(|| self.over.load(Ordering::SeqCst)).await;
    }

    /// All programs have ended: waits until what they have sent is on its way.
    pub(crate) async fn finish(&self) {
        self.over.store(true, Ordering::SeqCst);
        self.changed.notify_waiters();
        self.wait_until(|| self.open.load(Ordering::SeqCst) == 0).await;
    }

    async fn wait_until(&self, done: impl Fn() -> bool) {
        loop {
            let mut changed = std::pin::pin!(self.changed.notified());
            changed.as_mut().enable();
            if done() {
                return;
            }
            changed.await;
        }
    }
}

/// A connection that is counted.
#[derive(Debug)]
struct Opened(Arc<Tcp>);

impl Drop for Opened {
    fn drop(&mut self) {
        if self.0.open.fetch_sub(1, Ordering::SeqCst) == 1 {
            self.0.changed.notify_waiters();
        }
    }
}
