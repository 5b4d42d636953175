//! Transfers over associations of this project's sockets, directly over IP as in the simulator.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier};
use std::thread::JoinHandle;
use std::time::Duration;

use anabranch::config::Routes;
use anabranch::{
    Association, ConnectOptions, Encapsulation, Endpoint, EndpointConfig, ListenOptions, Listener,
    Notification, OutgoingMessage, PathState, PathStatistics, Ppid, Statistics,
};
use anabranch_lab::metrics::Metrics;
use anabranch_lab::observed::Observed;
use anabranch_lab::setup::{Flow, Transfer};
use anabranch_lab::simulation;
use bytes::Bytes;
use tokio::task::JoinSet;

use super::Course;
use super::addresses::ask;
use super::arrivals::Arrivals;
use super::ground::Ground;
use super::place::port;

/// Interval for checking whether the run is over.
const LOOK: Duration = Duration::from_millis(20);

/// Transfers that have begun, with a thread for each host.
pub(super) struct Begun {
    all: Vec<(usize, Arrivals)>,
    threads: Vec<JoinHandle<io::Result<Vec<Told>>>>,
}

/// What a sender reports at its end.
struct Told {
    index: usize,
    statistics: Statistics,
    /// When paths failed, and whether each was the primary path.
    failures: Vec<(Duration, bool)>,
}

/// A transfer to this host: its number, its record, and its listener.
type Listening = (usize, Arrivals, Listener);

/// A host with its transfers.
struct End {
    course: Course,
    back: bool,
    all: Vec<(usize, Arrivals)>,
    listening: Arc<Barrier>,
    /// Number of transfers that have not ended.
    open: Arc<AtomicUsize>,
}

pub(super) fn begin(ground: &Ground, course: &Course, indices: &[usize]) -> Result<Begun, String> {
    let arrivals = |index: &usize| {
        let bytes = course.setup.transfers.get(*index).map_or(0, Transfer::bytes);
        (*index, Arrivals::of(bytes))
    };
    let all: Vec<_> = indices.iter().map(arrivals).collect();
    let (listening, open) = (Arc::new(Barrier::new(2)), Arc::new(AtomicUsize::new(all.len())));
    let mut threads = Vec::new();
    for (host, back) in ground.hosts.iter().zip([false, true]) {
        let end = End {
            course: course.clone(),
            back,
            all: all.clone(),
            listening: Arc::clone(&listening),
            open: Arc::clone(&open),
        };
        let begun = host.begin(move || end.run());
        threads.push(begun.map_err(|error| format!("a thread cannot be started: {error}"))?);
    }
    Ok(Begun { all, threads })
}

impl Begun {
    /// Waits until all transfers have ended.
    pub(super) fn end(
        self,
        course: &Course,
        metrics: &mut Metrics,
    ) -> Result<Vec<(usize, Observed)>, String> {
        for thread in self.threads {
            let ended = thread.join().map_err(|_| "the transfers panicked".to_owned())?;
            let told = ended.map_err(|error| format!("SCTP: {error}"))?;
            for told in told.iter().filter(|told| told.index == 0) {
                let path_of = |path: &PathStatistics| course.path_of(path.remote);
                simulation::of_sender(&told.statistics, &path_of, metrics);
                let primary = told.failures.iter().filter(|(_, primary)| *primary).count();
                metrics.set("failovers", primary as f64);
                let started = course.starts.first().copied().unwrap_or_default();
                if let Some((at, _)) = told.failures.first() {
                    let after = at.saturating_sub(started).as_secs_f64();
                    metrics.set("failure_detected_s", after);
                }
            }
        }
        let now = course.now();
        Ok(self.all.into_iter().map(|(index, arrivals)| (index, arrivals.seen(now))).collect())
    }
}

impl End {
    fn run(self) -> io::Result<Vec<Told>> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let endpoint = match &runtime {
            Ok(runtime) => {
                let _within = runtime.enter();
                self.bind()
            }
            Err(error) => Err(io::Error::new(error.kind(), error.to_string())),
        };
        // Wait in any case: the other host waits even if this one failed.
        self.listening.wait();
        let (endpoint, listeners) = endpoint?;
        runtime?.block_on(self.transfers(endpoint, listeners))
    }

    /// Listens on the ports of the transfers to this host.
    fn bind(&self) -> io::Result<(Endpoint, Vec<Listening>)> {
        let mut config = EndpointConfig::default();
        config.encapsulation = Encapsulation::Ip;
        let turned = |(near, far): &(IpAddr, IpAddr)| match self.back {
            false => (*near, *far),
            true => (*far, *near),
        };
        let pairs: Vec<_> = self.course.pairs.iter().map(turned).collect();
        let mut own: Vec<IpAddr> = pairs.iter().map(|pair| pair.0).collect();
        // Several paths may begin at one address.
        own.sort_unstable();
        own.dedup();
        if !self.course.setup.addresses.is_empty() {
            // Sockets of their own could not be opened for addresses that come later.
            own = vec![Ipv4Addr::UNSPECIFIED.into()];
        }
        config.routes = Routes::Pairs(pairs);
        let endpoint = Endpoint::builder().config(config).local_addresses(own).bind();
        let endpoint = endpoint.map_err(io::Error::other)?;
        let mut listeners = Vec::new();
        for (index, arrivals) in &self.all {
            let Some(transfer) = self.course.setup.transfers.get(*index) else { continue };
            if transfer.back == self.back {
                continue;
            }
            let config = self.config(!transfer.back);
            let listener = endpoint.listen(port(*index), ListenOptions::from(config));
            listeners.push((*index, arrivals.clone(), listener.map_err(io::Error::other)?));
        }
        Ok((endpoint, listeners))
    }

    fn config(&self, receiving: bool) -> anabranch::AssociationConfig {
        let setup = &self.course.setup;
        if receiving { setup.receiver.clone() } else { setup.sender.clone() }
    }

    async fn transfers(
        self,
        endpoint: Endpoint,
        listeners: Vec<Listening>,
    ) -> io::Result<Vec<Told>> {
        let (mut receiving, mut sending) = (JoinSet::new(), JoinSet::new());
        for (index, arrivals, listener) in listeners {
            let Some(transfer) = self.course.setup.transfers.get(index).cloned() else { continue };
            receiving.spawn(receive(self.course.clone(), transfer, arrivals, listener));
        }
        for (index, arrivals) in &self.all {
            let Some(transfer) = self.course.setup.transfers.get(*index).cloned() else { continue };
            if transfer.back != self.back {
                continue;
            }
            let config = self.config(transfer.back);
            let sender = Sender {
                course: self.course.clone(),
                index: *index,
                transfer,
                arrivals: arrivals.clone(),
                endpoint: endpoint.clone(),
            };
            let (open, arrivals) = (Arc::clone(&self.open), arrivals.clone());
            sending.spawn(async move {
                let course = sender.course.clone();
                let told = until(&course, &arrivals, sender.run(config)).await;
                open.fetch_sub(1, Ordering::Relaxed);
                told
            });
        }
        let mut all = Vec::new();
        while let Some(told) = sending.join_next().await {
            if let Some(told) = told.map_err(io::Error::other)?? {
                all.push(told);
            }
        }
        while self.open.load(Ordering::Relaxed) > 0 {
            tokio::time::sleep(LOOK).await;
        }
        Ok(all)
    }
}

/// The result of a sender, or nothing if the time is over before it has connected.
async fn until(
    course: &Course,
    arrivals: &Arrivals,
    sending: impl Future<Output = io::Result<Told>>,
) -> io::Result<Option<Told>> {
    let over = async {
        // A connected sender checks the time itself and gets a little longer to report.
        while !course.is_over() {
            tokio::time::sleep(LOOK).await;
        }
        tokio::time::sleep(10 * LOOK).await;
    };
    tokio::select! {
        told = sending => told.map(Some),
        () = over => {
            drop(arrivals.seen(course.now()));
            Ok(None)
        }
    }
}

/// The sending end of a transfer.
struct Sender {
    course: Course,
    index: usize,
    transfer: Transfer,
    arrivals: Arrivals,
    endpoint: Endpoint,
}

impl Sender {
    async fn run(self, config: anabranch::AssociationConfig) -> io::Result<Told> {
        let start = self.course.starts.get(self.index).copied().unwrap_or_default();
        tokio::time::sleep(start.saturating_sub(self.course.now())).await;
        let remotes = self.remotes();
        let addresses: Vec<SocketAddr> =
            remotes.iter().map(|remote| SocketAddr::new(*remote, port(self.index))).collect();
        self.arrivals.started(self.course.now());
        let connected = self.endpoint.connect(addresses, ConnectOptions::from(config)).await;
        let association = connected.map_err(io::Error::other)?;
        self.arrivals.connected(self.course.now());
        let primary = remotes.first().copied();
        if let Some(primary) = primary {
            // If the peer does not list the address, the handshake's choice stays.
            let _ = association.set_primary(primary);
        }
        let mut events = association.events();
        let mut failures = Vec::new();
        {
            let mut working = std::pin::pin!(self.work(&association));
            let asking = ask(self.course.clone(), association.clone(), self.transfer.back);
            let mut asking = std::pin::pin!(asking);
            let (mut done, mut asked) = (false, false);
            loop {
                tokio::select! {
                    () = &mut working, if !done => done = true,
                    () = &mut asking, if !asked => asked = true,
                    event = events.next() => match event {
                        Some(Notification::PathChanged { remote, state: PathState::Inactive, .. }) => {
                            failures.push((self.course.now(), Some(remote) == primary));
                        }
                        Some(_) => {}
                        None => break,
                    },
                    () = tokio::time::sleep(LOOK) => {}
                }
                if self.course.is_over() || self.arrivals.is_complete() || association.is_closed() {
                    break;
                }
            }
        }
        let statistics = association.statistics();
        association.abort(b"the run is over");
        Ok(Told { index: self.index, statistics, failures })
    }

    /// Addresses of the receiver, beginning with that of the primary path.
    fn remotes(&self) -> Vec<IpAddr> {
        let network = &self.course.setup.network;
        let pairs = self.course.pairs.iter();
        let mut remotes: Vec<IpAddr> =
            pairs.map(|pair| if self.transfer.back { pair.0 } else { pair.1 }).collect();
        if let Some(first) = remotes.get_mut(..=network.primary) {
            first.rotate_right(1);
        }
        if network.primary_only {
            remotes.truncate(1);
        }
        remotes
    }

    /// Sends all messages. On an error the association ends, and other tasks notice that.
    async fn work(&self, association: &Association) {
        let transfer = &self.transfer;
        let longest = transfer.message.max(transfer.large.map_or(0, |(_, bytes)| bytes));
        let payload = Bytes::from(vec![0; usize::try_from(longest).unwrap_or(1)]);
        let connected = self.course.now();
        let mut left = transfer.bytes();
        for number in 0..transfer.messages() {
            let mut due = self.course.now();
            let every = match transfer.flow {
                Flow::Messages { interval, .. } => Some((interval, 1)),
                Flow::Bursts { interval, burst, .. } => Some((interval, burst)),
                Flow::Bulk { .. } | Flow::Requests { .. } => None,
            };
            if let Some((interval, burst)) = every {
                let number = u32::try_from(number / burst.max(1)).unwrap_or(u32::MAX);
                due = connected + interval.saturating_mul(number);
                tokio::time::sleep(due.saturating_sub(self.course.now())).await;
            }
            let bytes = transfer.message_bytes(number).min(left);
            left -= bytes;
            let length = payload.len().min(usize::try_from(bytes).unwrap_or(usize::MAX));
            let stream = (number % u64::from(transfer.streams.max(1))) as u16;
            // The PPID carries the number of the message, because the peer can read it.
            let ppid = Ppid(u32::try_from(number & 0xffff_ffff).unwrap_or(0));
            let mut message = OutgoingMessage::new(stream, ppid, payload.slice(..length));
            message.unordered = !transfer.ordered;
            message.reliability = transfer.reliability(number);
            self.arrivals.given(number, due, false);
            if association.send(message).await.is_err() {
                return;
            }
            match transfer.flow {
                Flow::Bulk { .. } => self.arrivals.given(number, self.course.now(), true),
                Flow::Messages { .. } | Flow::Bursts { .. } => {}
                Flow::Requests { pause, .. } => {
                    loop {
                        let Ok(Some(answer)) = association.recv().await else { return };
                        self.arrivals.arrived(self.course.now(), answer.payload.len());
                        if answer.end {
                            self.arrivals.delivered(self.course.now(), answer.ppid.0.into());
                            break;
                        }
                    }
                    tokio::time::sleep(pause).await;
                }
            }
        }
    }
}

/// The receiving end of a transfer.
async fn receive(course: Course, transfer: Transfer, arrivals: Arrivals, listener: Listener) {
    let Some(association) = listener.accept().await else { return };
    let asking = tokio::spawn(ask(course.clone(), association.clone(), !transfer.back));
    read(&course, &transfer, &arrivals, &association).await;
    asking.abort();
}

/// Reads everything that arrives, and answers requests.
async fn read(
    course: &Course,
    transfer: &Transfer,
    arrivals: &Arrivals,
    association: &Association,
) {
    let answer = match transfer.flow {
        Flow::Requests { answer, .. } => Some(vec![0; usize::try_from(answer).unwrap_or(1)]),
        Flow::Bulk { .. } | Flow::Messages { .. } | Flow::Bursts { .. } => None,
    };
    while let Ok(Some(message)) = association.recv().await {
        let now = course.now();
        arrivals.arrived(now, message.payload.len());
        if !message.end {
            continue;
        }
        match &answer {
            None => arrivals.delivered(now, message.ppid.0.into()),
            Some(answer) => {
                let reply = OutgoingMessage::new(message.stream, message.ppid, answer.clone());
                if association.send(reply).await.is_err() {
                    return;
                }
            }
        }
    }
}
