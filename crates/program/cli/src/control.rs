//! The control socket: lets `inspect` look at the endpoint of another process.
//!
//! It is a Unix socket that only its owner (and root) may use. Each received line is a request in
//! JSON, `{"get":"endpoint"}`, and is answered with one line: a [`View`], or `{"error": "..."}`.

use std::fs::DirBuilder;
use std::io;
use std::net::IpAddr;
use std::os::unix::fs::{
    DirBuilderExt as _, FileTypeExt as _, MetadataExt as _, PermissionsExt as _,
};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anabranch::{AssociationSnapshot, Endpoint, PathMetrics};
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::Semaphore;

use crate::counters;
use crate::endpoint::paths;
use crate::failure::Failure;
use crate::numbers::Numbers;
use crate::report::PathReport;
use crate::transport::requests::{self, Requests};

/// Maximum length of a request.
const MOST_REQUEST: u64 = 1024;

/// Maximum length of an answer.
const MOST_ANSWER: u64 = 64 << 20;

/// Maximum number of associations listed in an answer; further ones are only counted.
const MOST_LISTED: usize = 4096;

/// How long an endpoint may take to answer.
pub(crate) const PATIENCE: Duration = Duration::from_secs(2);

/// Maximum number of connections at the same time.
const MOST_CONNECTIONS: usize = 8;

/// A request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(tag = "get", rename_all = "snake_case", deny_unknown_fields)]
enum Request {
    Endpoint,
}

/// An endpoint as reported by the control socket.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct View {
    /// The process of the endpoint.
    pub(crate) process: u32,
    /// The UDP port; 0 for IP protocol 132.
    pub(crate) udp_port: u16,
    pub(crate) local_addresses: Vec<IpAddr>,
    pub(crate) datagrams_sent: u64,
    pub(crate) datagrams_received: u64,
    pub(crate) datagrams_dropped: u64,
    pub(crate) send_errors: u64,
    /// The stored metrics of pairs of addresses.
    #[serde(default)]
    pub(crate) metrics: Vec<MetricsView>,
    /// Totals over all associations of the process, including ended ones, by the names of the
    /// counters.
    #[serde(default)]
    pub(crate) totals: Numbers,
    /// Requests that the process answered, if it serves files.
    #[serde(default)]
    pub(crate) requests: Vec<Requests>,
    /// Lines of output that could not be written.
    #[serde(default)]
    pub(crate) dropped_lines: u64,
    pub(crate) associations: Vec<AssociationView>,
    /// Number of associations that are not listed.
    #[serde(default)]
    pub(crate) unlisted: u64,
}

/// The metrics of a pair of addresses, stored for future associations.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct MetricsView {
    pub(crate) local: IpAddr,
    pub(crate) remote: IpAddr,
    pub(crate) srtt_seconds: f64,
    pub(crate) rttvar_seconds: f64,
    /// In bytes; `None` if no loss has determined it.
    pub(crate) ssthresh: Option<usize>,
    /// The largest reordering extent, in packets.
    pub(crate) reordering: u64,
    pub(crate) age_seconds: f64,
}

impl MetricsView {
    fn of(known: &PathMetrics) -> Self {
        Self {
            local: known.local,
            remote: known.remote,
            srtt_seconds: known.srtt.as_secs_f64(),
            rttvar_seconds: known.rttvar.as_secs_f64(),
            ssthresh: known.ssthresh,
            reordering: known.reordering,
            age_seconds: known.age.as_secs_f64(),
        }
    }
}

/// An association as reported by the control socket.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct AssociationView {
    pub(crate) id: String,
    /// The peer initiated it.
    pub(crate) incoming: bool,
    pub(crate) state: String,
    pub(crate) local_port: u16,
    pub(crate) remote_port: u16,
    pub(crate) outbound_streams: u16,
    pub(crate) inbound_streams: u16,
    /// Whether both sides agreed on NR-SACKs.
    pub(crate) nr_sack: bool,
    /// Names of the extensions to RFC 9260 that both sides agreed on.
    #[serde(default)]
    pub(crate) features: Vec<String>,
    /// All counters and measurements of the engine.
    #[serde(default)]
    pub(crate) counters: Numbers,
    pub(crate) paths: Vec<PathReport>,
}

impl View {
    pub(crate) fn of(endpoint: &Endpoint) -> Self {
        let snapshot = endpoint.snapshot();
        let totals = snapshot.statistics;
        let listed = snapshot.associations.iter().take(MOST_LISTED);
        Self {
            udp_port: snapshot.udp_port,
            local_addresses: snapshot.local_addresses,
            datagrams_sent: totals.datagrams_sent,
            datagrams_received: totals.datagrams_received,
            datagrams_dropped: totals.datagrams_dropped,
            send_errors: totals.send_errors,
            metrics: snapshot.metrics.iter().map(MetricsView::of).collect(),
            associations: listed.map(AssociationView::of).collect(),
            unlisted: snapshot.associations.len().saturating_sub(MOST_LISTED) as u64,
            ..Self::of_process()
        }
    }

    /// The counters of a process without an endpoint.
    pub(crate) fn of_process() -> Self {
        Self {
            process: std::process::id(),
            udp_port: 0,
            local_addresses: Vec::new(),
            datagrams_sent: 0,
            datagrams_received: 0,
            datagrams_dropped: 0,
            send_errors: 0,
            metrics: Vec::new(),
            totals: counters::now(),
            requests: requests::now(),
            dropped_lines: crate::output::dropped(),
            associations: Vec::new(),
            unlisted: 0,
        }
    }

    /// Associations that have not ended.
    pub(crate) fn count(&self) -> u64 {
        self.associations.len() as u64 + self.unlisted
    }

    /// Returns the view with control characters escaped, so that the other process cannot control
    /// the terminal.
    fn plain(mut self) -> Self {
        let plain = |text: &mut String| *text = text.escape_debug().to_string();
        for association in &mut self.associations {
            plain(&mut association.id);
            plain(&mut association.state);
            association.features.iter_mut().for_each(plain);
        }
        self.requests.iter_mut().for_each(|requests| plain(&mut requests.method));
        self
    }
}

impl AssociationView {
    fn of(association: &AssociationSnapshot) -> Self {
        let statistics = &association.statistics;
        Self {
            id: association.id.clone(),
            incoming: association.incoming,
            state: statistics.state.to_string(),
            local_port: association.local_port,
            remote_port: association.remote_port,
            outbound_streams: association.outbound_streams,
            inbound_streams: association.inbound_streams,
            nr_sack: statistics.nr_sack,
            features: statistics.features.names().map(str::to_owned).collect(),
            counters: Numbers::of(statistics),
            paths: paths(statistics),
        }
    }
}

/// Sockets of this process, which are removed when it ends.
static SOCKETS: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

/// Removes the sockets of this process.
pub(crate) fn remove_sockets() {
    for path in SOCKETS.lock().unwrap_or_else(PoisonError::into_inner).drain(..) {
        // Another process may have removed it already.
        let _ = std::fs::remove_file(path);
    }
}

/// Removes one of them, whose endpoint has been closed.
fn remove(path: &Path) {
    let mut sockets = SOCKETS.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(at) = sockets.iter().position(|socket| socket == path) {
        sockets.swap_remove(at);
        let _ = std::fs::remove_file(path);
    }
}

/// The default directory of sockets, created if it is missing: in XDG_RUNTIME_DIR, or if that is
/// not set, as in containers and for root, /run/anabranch for root and /tmp/anabranch-UID for
/// others. No other user may write to it.
pub(crate) fn directory() -> io::Result<PathBuf> {
    let user = nix::unistd::geteuid();
    let runtime = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
    let directory = match runtime.filter(|path| path.is_absolute() && path.is_dir()) {
        Some(runtime) => runtime.join("anabranch"),
        None if user.is_root() && Path::new("/run").is_dir() => PathBuf::from("/run/anabranch"),
        None => std::env::temp_dir().join(format!("anabranch-{user}")),
    };
    own_directory(&directory)?;
    Ok(directory)
}

/// Creates a directory for this user only. An existing one must be private already, because any
/// user can create directories in /tmp.
fn own_directory(directory: &Path) -> io::Result<()> {
    match DirBuilder::new().mode(0o700).create(directory) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    let found = std::fs::symlink_metadata(directory)?;
    let own = found.is_dir() && found.uid() == nix::unistd::geteuid().as_raw();
    if own && found.mode() & 0o022 == 0 {
        return Ok(());
    }
    let name = directory.display();
    Err(io::Error::other(format!("{name} is not a directory that only this user can write to")))
}

/// Lets other processes inspect an endpoint: through the socket at `path`, or else through one in
/// the directory that `inspect` searches.
pub(crate) fn offer(endpoint: &Endpoint, path: Option<&Path>) -> Result<(), Failure> {
    match path {
        Some(path) => listen(endpoint, path).map_err(|error| {
            let name = path.display();
            Failure::failed(match error.kind() {
                io::ErrorKind::AddrInUse if is_socket(path) => {
                    format!("the control socket {name} is in use")
                }
                io::ErrorKind::AddrInUse => format!(
                    "the control socket {name} cannot be made: there is something else of that name"
                ),
                _ => format!("the control socket {name} cannot be made: {error}"),
            })
        }),
        None => {
            // The user did not ask for a socket, so a directory that is not writable is not an
            // error.
            if let Err(error) = listen_in_directory(endpoint) {
                tracing::debug!(%error, "no control socket");
            }
            Ok(())
        }
    }
}

fn listen_in_directory(endpoint: &Endpoint) -> io::Result<()> {
    let directory = directory()?;
    remove_left_behind(&directory);
    let id = std::process::id();
    let name = match endpoint.udp_port() {
        0 => format!("{id}.sock"),
        port => format!("{id}-{port}.sock"),
    };
    listen(endpoint, &directory.join(name))
}

fn listen(endpoint: &Endpoint, path: &Path) -> io::Result<()> {
    let listener = match UnixListener::bind(path) {
        // A socket that a killed process has left behind is replaced.
        Err(error) if error.kind() == io::ErrorKind::AddrInUse && is_left_behind(path) => {
            std::fs::remove_file(path)?;
            UnixListener::bind(path)?
        }
        bound => bound?,
    };
    SOCKETS.lock().unwrap_or_else(PoisonError::into_inner).push(path.to_owned());
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600))?;
    let (endpoint, path) = (endpoint.clone(), path.to_owned());
    tokio::spawn(async move {
        serve(endpoint, listener).await;
        remove(&path);
    });
    Ok(())
}

/// Whether a socket no longer has a listener. Connections to files of other types are refused, too.
fn is_left_behind(path: &Path) -> bool {
    let connected = || std::os::unix::net::UnixStream::connect(path);
    is_socket(path)
        && connected().is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused)
}

fn is_socket(path: &Path) -> bool {
    std::fs::symlink_metadata(path).is_ok_and(|metadata| metadata.file_type().is_socket())
}

/// Removes sockets that killed processes left in our directory.
fn remove_left_behind(directory: &Path) {
    for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let process = name.to_str().and_then(|name| name.split(['-', '.']).next()?.parse().ok());
        // A process that is just creating its socket does not listen yet, so check that the process
        // is gone.
        if process.is_some_and(|process| !is_running(process)) && is_left_behind(&entry.path()) {
            let _ = std::fs::remove_file(entry.path());
        }
    }
}

fn is_running(process: i32) -> bool {
    let process = nix::unistd::Pid::from_raw(process);
    nix::sys::signal::kill(process, None) != Err(nix::errno::Errno::ESRCH)
}

async fn serve(endpoint: Endpoint, listener: UnixListener) {
    let places = Arc::new(Semaphore::new(MOST_CONNECTIONS));
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = endpoint.closed() => return,
        };
        let Ok((stream, _)) = accepted else {
            // Probably out of descriptors.
            tokio::time::sleep(Duration::from_millis(100)).await;
            continue;
        };
        // Connections beyond the limit, and those of other users, are closed without an answer.
        if let (true, Ok(place)) = (is_trusted(&stream), places.clone().try_acquire_owned()) {
            let endpoint = endpoint.clone();
            tokio::spawn(async move {
                let _place = place;
                // A client that disconnects early gets no answer.
                let _ = tokio::select! {
                    answered = answer(&endpoint, stream) => answered,
                    () = endpoint.closed() => Ok(()),
                };
            });
        }
    }
}

/// Whether the other side belongs to this user, or to root.
fn is_trusted(stream: &UnixStream) -> bool {
    let own = nix::unistd::getuid().as_raw();
    stream.peer_cred().is_ok_and(|peer| peer.uid() == own || peer.uid() == 0)
}

async fn answer(endpoint: &Endpoint, stream: UnixStream) -> io::Result<()> {
    let (reader, mut writer) = stream.into_split();
    let mut reader = BufReader::new(reader);
    loop {
        let mut line = Vec::new();
        (&mut reader).take(MOST_REQUEST).read_until(b'\n', &mut line).await?;
        if line.is_empty() {
            return Ok(());
        }
        let mut answer = match serde_json::from_slice(&line) {
            Ok(Request::Endpoint) => serde_json::to_vec(&View::of(endpoint))?,
            Err(error) => serde_json::to_vec(&serde_json::json!({ "error": error.to_string() }))?,
        };
        answer.push(b'\n');
        writer.write_all(&answer).await?;
        // The rest of an overlong line is not a request.
        if line.last() != Some(&b'\n') {
            return Ok(());
        }
    }
}

/// A connection to the control socket of another process.
#[derive(Debug)]
pub(crate) struct Control {
    stream: BufReader<UnixStream>,
}

impl Control {
    pub(crate) async fn connect(path: &Path) -> io::Result<Self> {
        let connected = tokio::time::timeout(PATIENCE, UnixStream::connect(path)).await;
        Ok(Self { stream: BufReader::new(connected.map_err(|_| io::ErrorKind::TimedOut)??) })
    }

    /// The current state of the endpoint.
    pub(crate) async fn view(&mut self) -> io::Result<View> {
        tokio::time::timeout(PATIENCE, self.ask()).await.unwrap_or_else(|_| {
            let sentence = format!("no answer within {} s", PATIENCE.as_secs());
            Err(io::Error::new(io::ErrorKind::TimedOut, sentence))
        })
    }

    async fn ask(&mut self) -> io::Result<View> {
        let mut request = serde_json::to_vec(&Request::Endpoint)?;
        request.push(b'\n');
        self.stream.write_all(&request).await?;
        let mut line = Vec::new();
        (&mut self.stream).take(MOST_ANSWER).read_until(b'\n', &mut line).await?;
        if line.is_empty() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let view: View = serde_json::from_slice(&line).map_err(|error| {
            io::Error::other(format!("this is not the answer of an endpoint: {error}"))
        })?;
        Ok(view.plain())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sockets_are_in_a_directory_of_their_own() {
        let base = tempfile::tempdir().unwrap();
        let directory = base.path().join("anabranch");
        own_directory(&directory).unwrap();
        assert_eq!(std::fs::metadata(&directory).unwrap().mode() & 0o777, 0o700);
        own_directory(&directory).unwrap();
        std::fs::set_permissions(&directory, std::fs::Permissions::from_mode(0o777)).unwrap();
        assert!(own_directory(&directory).is_err(), "others can write to it");
        let link = base.path().join("link");
        std::os::unix::fs::symlink(base.path(), &link).unwrap();
        assert!(own_directory(&link).is_err(), "a link that somebody else made");
    }
    #[test]
    fn only_sockets_of_ended_processes_are_left_behind() {
        let base = tempfile::tempdir().unwrap();
        let within = |name: &str| base.path().join(name);
        let ended = std::process::Command::new("true").spawn().and_then(|mut child| {
            child.wait()?;
            Ok(child.id())
        });
        let (ended, own) = (ended.unwrap(), std::process::id());
        for name in [format!("{ended}-9899.sock"), format!("{own}.sock"), "other.sock".into()] {
            drop(std::os::unix::net::UnixListener::bind(within(&name)).unwrap());
        }
        let used = std::os::unix::net::UnixListener::bind(within("used")).unwrap();
        std::fs::write(within(&format!("{ended}.txt")), "precious").unwrap();
        assert!(is_left_behind(&within(&format!("{own}.sock"))));
        assert!(!is_left_behind(&within("used")), "{used:?}");
        assert!(!is_left_behind(&within(&format!("{ended}.txt"))));
        remove_left_behind(base.path());
        let names = |entry: io::Result<std::fs::DirEntry>| {
            entry.unwrap().file_name().into_string().unwrap()
        };
        let mut left: Vec<_> = std::fs::read_dir(base.path()).unwrap().map(names).collect();
        left.sort();
        let mut expected =
            [format!("{ended}.txt"), format!("{own}.sock"), "other.sock".into(), "used".into()];
        expected.sort();
        assert_eq!(left, expected);
    }
}
