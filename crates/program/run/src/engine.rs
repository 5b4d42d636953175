//! The engine: it accepts calls, and keeps the table of the programs' sockets.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use anabranch::{AssociationConfig, SCTP_UDP_PORT};
use anabranch_channel::name::{self, Channel};
use anabranch_sockets::{AssocId, Error, Family, Hooks, Host, Local, Socket, Style};
use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, accept_with, bind, socketpair,
};
use tokio::io::Interest;
use tokio::sync::{Notify, oneshot};

use crate::answer;
use crate::lock::lock;
use crate::open::Open;
use crate::outbox::{Outbox, Record, Writing};
use crate::place::{Place, random};
use crate::tcp::Tcp;
use crate::transfer;

/// How long to wait after a connection could not be accepted, because there are too many descriptors.
const PATIENCE: Duration = Duration::from_millis(20);

/// Options of the programs' sockets.
#[derive(Clone, Debug)]
pub struct Settings {
    /// This side's UDP port; `None` for the usual port when listening and a free one otherwise.
    pub udp_port: Option<u16>,
    /// The peers' UDP port.
    pub remote_udp_port: u16,
    /// IP protocol 132 instead of UDP.
    pub raw: bool,
    /// Local addresses of all associations; empty if the programs decide.
    pub addresses: Vec<Local>,
    /// The only interface that is used.
    pub interface: Option<String>,
    /// Initial options of associations, which the programs' socket options change.
    pub config: AssociationConfig,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            udp_port: None,
            remote_udp_port: SCTP_UDP_PORT,
            raw: false,
            addresses: Vec::new(),
            interface: None,
            config: AssociationConfig::default(),
        }
    }
}

/// The engine of the programs that find it in their environment. Its tasks run on a thread of their own until the
/// process ends.
#[derive(Debug)]
pub struct Engine {
    pub(crate) shared: Arc<Shared>,
}

/// What the tasks of an engine share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) host: Arc<Host>,
    pub(crate) settings: Settings,
    pub(crate) place: Place,
    table: Mutex<HashMap<u64, Arc<Open>>>,
    /// The table has become empty.
    emptied: Notify,
    /// No more channels are opened.
    stopping: AtomicBool,
    /// `stopping` has become true.
    stopped: Notify,
    /// The TCP connections of programs, if SCTP carries them.
    pub(crate) tcp: OnceLock<Arc<Tcp>>,
}

impl Engine {
    /// Starts an engine.
    ///
    /// # Errors
    /// The system refuses a thread, a socket or a name.
    pub fn start(settings: Settings) -> io::Result<Self> {
        Self::on(Host::start().map_err(io::Error::other)?, Place::anywhere()?, settings)
    }

    /// As [`start`](Self::start), with additions to its endpoints and associations.
    ///
    /// # Errors
    /// As [`start`](Self::start).
    pub fn start_with(settings: Settings, hooks: Arc<dyn Hooks>) -> io::Result<Self> {
        let host = Host::start_with(hooks).map_err(io::Error::other)?;
        Self::on(host, Place::anywhere()?, settings)
    }

    /// As [`start_with`](Self::start_with), for all programs that may use a directory, which is made for this user if
    /// it is missing.
    ///
    /// # Errors
    /// `ResourceBusy`: another engine is there. `InvalidFilename`: the path is longer than 95 bytes. Otherwise as
    /// [`start`](Self::start).
    pub fn start_in(
        directory: &Path,
        settings: Settings,
        hooks: Arc<dyn Hooks>,
    ) -> io::Result<Self> {
        let place = Place::directory(directory)?;
        Self::on(Host::start_with(hooks).map_err(io::Error::other)?, place, settings)
    }

    fn on(
        host: Arc<Host>,
        (place, listener): (Place, OwnedFd),
        settings: Settings,
    ) -> io::Result<Self> {
        host.configure(|config| *config = settings.config.clone());
        let shared = Arc::new(Shared {
            host,
            settings,
            place,
            table: Mutex::default(),
            emptied: Notify::new(),
            stopping: AtomicBool::new(false),
            stopped: Notify::new(),
            tcp: OnceLock::new(),
        });
        let accepting = shared.clone();
        shared.host.spawn(async move { accept(accepting, listener).await });
        Ok(Self { shared })
    }

    /// The environment variable by which programs find the engine, and its value.
    #[must_use]
    pub fn environment(&self) -> (&'static str, String) {
        (name::VARIABLE, self.shared.place.variable())
    }

    /// Takes no more calls, and ends all channels: the programs' calls fail. What they have sent is delivered, see
    /// [`unused`](Self::unused) and [`finish`](Self::finish).
    pub fn stop(&self) {
        self.shared.place.leave();
        let open: Vec<_> = {
            let table = lock(&self.shared.table);
            // With the table locked, so that no channel is opened afterwards.
            self.shared.stopping.store(true, Ordering::SeqCst);
            table.values().cloned().collect()
        };
        self.shared.stopped.notify_waiters();
        open.iter().for_each(|open| open.stop());
    }

    /// All programs have ended: waits until none has a socket.
    pub async fn unused(&self) {
        let (done, unused) = oneshot::channel();
        let shared = self.shared.clone();
        self.shared.host.spawn(async move {
            loop {
                let emptied = shared.emptied.notified();
                if lock(&shared.table).is_empty() {
                    break;
                }
                emptied.await;
            }
            if let Some(tcp) = shared.tcp.get() {
                tcp.finish().await;
            }
            let _ = done.send(());
        });
        let _ = unused.await;
    }

    /// Waits until all sent data is delivered, and gives up if there is no progress for `limit`. Returns whether it
    /// is delivered. Blocks the thread.
    #[must_use]
    pub fn finish(&self, limit: Duration) -> bool {
        self.shared.host.finish(Some(limit))
    }
}

impl Shared {
    /// A new socket with the settings of the engine.
    pub(crate) fn socket(&self, style: Style, family: Family) -> Result<Arc<Socket>, Error> {
        let socket = Socket::detached(&self.host, style, family);
        socket.change_options(|options| {
            options.udp_port = self.settings.udp_port;
            options.raw = self.settings.raw;
            options.addresses.clone_from(&self.settings.addresses);
        });
        socket.choose_interface(self.settings.interface.clone())?;
        socket.set_remote_udp_port(AssocId::FUTURE, self.settings.remote_udp_port)?;
        Ok(socket)
    }

    /// Makes a channel for a socket, and starts its task. Returns the program's end.
    ///
    /// # Errors
    /// There is no descriptor left.
    pub(crate) fn open(
        self: &Arc<Self>,
        socket: Arc<Socket>,
        waiting: VecDeque<Record>,
        style: Writing,
    ) -> io::Result<OwnedFd> {
        let flags = SocketFlags::CLOEXEC;
        let (own, program) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?;
        let handle = random()?;
        let channel = Channel { handle, one_to_many: socket.style() == Style::OneToMany };
        bind(&program, &SocketAddrUnix::new_abstract_name(&channel.encode())?)?;
        let open = Arc::new(Open::new(handle, socket, own, Outbox::new(waiting, style))?);
        {
            let mut table = lock(&self.table);
            if self.stopping.load(Ordering::SeqCst) {
                return Err(io::Error::from_raw_os_error(libc::ENETDOWN));
            }
            table.insert(handle, open.clone());
        }
        let shared = self.clone();
        self.host.spawn(open.run(shared));
        Ok(program)
    }

    /// The socket with this handle.
    pub(crate) fn find(&self, handle: u64) -> Option<Arc<Open>> {
        lock(&self.table).get(&handle).cloned()
    }

    /// Whether the engine stops, and so have all its sockets.
    pub(crate) fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::SeqCst)
    }

    /// Removes a socket that no program needs.
    pub(crate) fn forget(&self, handle: u64) {
        let mut table = lock(&self.table);
        table.remove(&handle);
        if table.is_empty() {
            self.emptied.notify_waiters();
        }
    }
}

/// Accepts calls, each on a connection of its own.
async fn accept(shared: Arc<Shared>, listener: OwnedFd) {
    let Ok(listener) = transfer::watch(listener, Interest::READABLE) else { return };
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    loop {
        let stopped = shared.stopped.notified();
        if shared.stopping.load(Ordering::SeqCst) {
            return;
        }
        let accepting =
            listener.async_io(Interest::READABLE, |listener| Ok(accept_with(listener, flags)?));
        let accepted = tokio::select! {
            accepted = accepting => accepted,
            () = stopped => return,
        };
        match accepted {
            Ok(connection) => {
                let answering = shared.clone();
                shared.host.spawn(async move { answer::serve(answering, connection).await });
            }
            Err(_) => tokio::time::sleep(PATIENCE).await,
        }
    }
}

#[cfg(test)]
mod tests {
    use rustix::net::{RecvFlags, recv};

    use super::*;

    /// Anybody may connect. Descriptors of the engine are not theirs to keep.
    #[tokio::test(start_paused = true)]
    async fn a_connection_without_a_call_is_closed() {
        let settings = Settings { udp_port: Some(0), ..Settings::default() };
        let engine = Engine::start(settings).unwrap();
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let (caller, own) =
            socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None).unwrap();
        answer::serve(engine.shared.clone(), own).await;
        assert_eq!(recv(&caller, &mut [0; 1], RecvFlags::empty()).unwrap().1, 0);
    }
}
