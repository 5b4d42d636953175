//! The network of a run: hosts and running links.

use std::fs::File;
use std::io::Write;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::Path as FilePath;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Instant;

use anabranch_lab::setup::{Link, Over, Path, Setup, When};
use netlink_packet_route::route::RouteMetric;

use super::addresses::{self, Changing};
use crate::Error;
use crate::network::Form;
use crate::network::capture::Capture;
use crate::network::fates::FateLog;
use crate::network::forwarder::{Network, Observers, Summary};
use crate::network::host::Host;
use crate::network::netlink::Kernel;
use crate::network::priority::{Rank, be_punctual};
use crate::network::routing::Routes;
use crate::network::topology::{LinkSpec, Node, Topology};

/// MTU of devices: the smallest one that carries IPv6, and the usual one.
const MTUS: (usize, u16) = (1280, 1500);
/// Maximum number of links: their numbers are part of addresses.
const MOST_LINKS: usize = 250;

/// Files that a run writes on request.
pub(super) const LOG: &str = "fates.log";
pub(super) const CAPTURE: &str = "both.pcapng";

/// A network that runs until `end` is called.
pub(super) struct Ground {
    /// The sender and the receiver.
    pub(super) hosts: [Host; 2],
    /// Their addresses on each path.
    pub(super) pairs: Vec<(IpAddr, IpAddr)>,
    /// Start of its links' clock.
    pub(super) begun: Instant,
    stop: Arc<AtomicBool>,
    forwarding: JoinHandle<Result<Summary, Error>>,
    changing: Vec<Changing>,
}

fn sentence(error: Error) -> String {
    error.to_string()
}

impl Ground {
    /// Creates the network. If there is a folder, a log and a capture are written to it.
    pub(super) fn make(
        setup: &Setup,
        seed: u64,
        folder: Option<&FilePath>,
    ) -> Result<Self, String> {
        let topology = topology(setup)?;
        let routes = Routes::new(&topology);
        let pairs = setup.network.paths.iter().map(|path| pair(&topology, path));
        let pairs: Vec<(IpAddr, IpAddr)> =
            pairs.collect::<Option<_>>().ok_or("a path without links")?;
        for (path, pair) in setup.network.paths.iter().zip(&pairs) {
            follow(setup, &routes, path, *pair)?;
        }
        let mut devices = Vec::new();
        let mut host = |node: usize| {
            let mut host = Host::make(&topology, &routes, node).map_err(sentence)?;
            devices.append(&mut host.devices);
            Ok::<_, String>(host)
        };
        let hosts = [host(0)?, host(1)?];
        if setup.transfers.iter().any(|transfer| transfer.over == Over::Tcp) {
            tell_routes(setup, &topology, &pairs, &hosts)?;
        }
        addresses::take_away((&topology, &routes), setup, &pairs, &hosts)?;
        let changes = addresses::plan((&topology, &routes), setup, &pairs)?;
        let ways = topology.ways();
        let mut observers = Observers::default();
        if let Some(folder) = folder {
            let (log, capture) = (folder.join(LOG), folder.join(CAPTURE));
            let out = create("log", &log)?;
            observers.log = Some(FateLog::new(out, log, Form::Compact, &ways, seed));
            let interfaces: Vec<String> =
                devices.iter().map(|(index, _)| index.to_string()).collect();
            let out = create("capture", &capture)?;
            observers.capture = Some(Capture::new(out, capture, &interfaces));
        }
        let network = Network::new(&topology, routes, ways, devices, observers, seed);
        let mut network = network.map_err(sentence)?;
        for event in &setup.events {
            if let When::At(at) = event.when {
                let ways = [(event.forward, 0), (event.backward, 1)];
                for (_, way) in ways.into_iter().filter(|(wanted, _)| *wanted) {
                    network.schedule(at, 2 * event.link + way, event.change);
                }
            }
        }
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let begun = Instant::now();
        let forwarding = std::thread::spawn(move || {
            be_punctual(Rank::Network);
            network.run(&stopped, |_| {})
        });
        let changing = addresses::begin(changes, &hosts, (begun, &stop))?;
        Ok(Self { hosts, pairs, begun, stop, forwarding, changing })
    }

    /// Ends the network and returns its summary.
    pub(super) fn end(self) -> Result<Summary, String> {
        self.stop.store(true, Ordering::Relaxed);
        let changed = addresses::end(self.changing);
        let ended = self.forwarding.join().map_err(|_| "the emulator panicked".to_owned())?;
        let summary = ended.map_err(sentence)?;
        changed.map(|()| summary)
    }
}

fn create(what: &str, path: &FilePath) -> Result<Box<dyn Write + Send>, String> {
    match File::create(path) {
        Ok(file) => Ok(Box::new(file)),
        Err(error) => Err(format!("the {what} {} cannot be written: {error}", path.display())),
    }
}

/// The network of a setup as the emulator's topology.
fn topology(setup: &Setup) -> Result<Topology, String> {
    let network = &setup.network;
    if network.links.len() > MOST_LINKS {
        return Err(format!("there are more than {MOST_LINKS} links"));
    }
    let nodes = network.nodes.iter().enumerate().map(|(index, name)| Node {
        name: name.clone(),
        is_host: index < 2,
        balance: None,
        sysctl: if index < 2 { settings(setup) } else { Vec::new() },
        run: Vec::new(),
    });
    let links = network.links.iter().enumerate().map(|(index, link)| spec(index, link));
    Ok(Topology { seed: None, nodes: nodes.collect(), links: links.collect() })
}

fn spec(index: usize, link: &Link) -> LinkSpec {
    let configs = [link.forward.config(), link.backward.config()];
    let mtu = configs.iter().filter_map(|config| config.mtu).min();
    let mtu = mtu.map_or(MTUS.1, |mtu| u16::try_from(mtu.max(MTUS.0)).unwrap_or(u16::MAX));
    let number = u8::try_from(index).unwrap_or(u8::MAX);
    LinkSpec {
        name: format!("l{index}"),
        ends: [link.from, link.to],
        configs,
        mtu,
        v4: [1, 2].map(|end| Ipv4Addr::new(10, 0, number, end)),
        v6: [1, 2].map(|end| Ipv6Addr::new(0xfd00, 0, 0, number.into(), 0, 0, 0, end)),
    }
}

/// Settings of the kernel: those of `[sysctl]`, and those that `[tcp]` implies.
fn settings(setup: &Setup) -> Vec<(String, String)> {
    let mut settings = Vec::new();
    let tcp = &setup.tcp;
    let mut set = |key: &str, name: &str, value: String| {
        if tcp.is_given(key) {
            settings.push((format!("net.ipv4.{name}"), value));
        }
    };
    set("sack", "tcp_sack", u8::from(tcp.config.sack).to_string());
    set("rto_min", "tcp_rto_min_us", tcp.config.rto_min.as_micros().to_string());
    set("rto_max", "tcp_rto_max_ms", tcp.config.rto_max.as_millis().to_string());
    let own = setup.sysctl.iter();
    settings.extend(own.map(|(key, value)| (format!("net.ipv4.{key}"), value.clone())));
    settings
}

/// The addresses of a path's ends.
fn pair(topology: &Topology, path: &Path) -> Option<(IpAddr, IpAddr)> {
    let address = |step: &(usize, bool), far: bool| {
        let link = topology.links.get(step.0)?;
        Some(link.v4[usize::from(step.1 != far)].into())
    };
    Some((address(path.links.first()?, false)?, address(path.links.last()?, true)?))
}

/// Refuses a path that differs from the route to its addresses.
fn follow(
    setup: &Setup,
    routes: &Routes,
    path: &Path,
    (local, remote): (IpAddr, IpAddr),
) -> Result<(), String> {
    for (link, reversed) in &path.links {
        let Some(spec) = setup.network.links.get(*link) else { continue };
        let (from, to) = if *reversed { (spec.to, spec.from) } else { (spec.from, spec.to) };
        for (node, goal) in [(from, remote), (to, local)] {
            let taken = routes.find(goal).and_then(|goal| routes.usual(node, goal));
            if taken != Some(*link) {
                let links = &setup.network.links;
                let taken = taken.and_then(|link| links.get(link)).map_or("no link", |l| &l.name);
                return Err(format!(
                    "path '{}' cannot be emulated: packets from '{}' take {taken}, not {}",
                    path.name,
                    setup.network.nodes.get(node).map_or("", String::as_str),
                    spec.name
                ));
            }
        }
    }
    Ok(())
}

/// Sets the parameters that kernels take from routes.
fn tell_routes(
    setup: &Setup,
    topology: &Topology,
    pairs: &[(IpAddr, IpAddr)],
    hosts: &[Host; 2],
) -> Result<(), String> {
    let tcp = &setup.tcp;
    let mut wanted = Vec::new();
    if tcp.is_given("initial_window") {
        wanted.push(RouteMetric::InitCwnd(tcp.config.initial_window));
    }
    if tcp.is_given("ack_delay") {
        wanted.push(RouteMetric::QuickAck(1));
    }
    if wanted.is_empty() {
        return Ok(());
    }
    for (path, (local, remote)) in setup.network.paths.iter().zip(pairs) {
        let ends = [(path.links.first(), *remote), (path.links.last(), *local)];
        for (host, (step, to)) in hosts.iter().zip(ends) {
            let Some(link) = step.and_then(|(link, _)| topology.links.get(*link)) else { continue };
            let (name, wanted) = (link.name.clone(), wanted.clone());
            let told = host.within(move || {
                let device = nix::net::if_::if_nametoindex(name.as_str())?;
                Kernel::here()?.set_route(to, device, wanted)
            });
            told.map_err(|error| format!("a route cannot be made: {error}"))?;
        }
    }
    Ok(())
}
