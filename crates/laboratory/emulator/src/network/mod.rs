//! Networks of hosts, routers and links, and the programs in them.

pub(crate) mod capture;
pub(crate) mod fates;
pub(crate) mod forwarder;
pub(crate) mod host;
mod icmp;
mod join;
mod names;
pub(crate) mod netlink;
mod packet;
pub(crate) mod priority;
mod programs;
mod replay;
mod rest;
pub(crate) mod routing;
pub(crate) mod topology;
pub(crate) mod ways;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};

use tokio::sync::watch;
use tun_rs::SyncDevice;

pub use self::capture::Capture;
pub use self::fates::{FateLog, Form};
use self::forwarder::Network;
pub use self::forwarder::{Observers, Summary};
use self::host::{Host, shell};
use self::programs::Running;
pub use self::programs::{Ended, Programs};
pub use self::replay::Replay;
use self::routing::Routes;
pub use self::topology::Topology;
pub use self::ways::Way;
use crate::isolation::INSIDE;
use crate::stop::stopped;
use crate::{Error, Notice, Notify};

/// A network whose hosts and devices exist. It exists until this value is dropped and all programs in it have ended.
pub struct Emulation {
    topology: Topology,
    ways: Vec<Way>,
    routes: Routes,
    /// The host of each node; `None` for a router.
    hosts: Vec<Option<Host>>,
    /// Each device with the number of its attachment.
    devices: Vec<(usize, SyncDevice)>,
    notify: Notify,
}

/// The result of a run.
#[derive(Debug)]
pub struct Outcome {
    /// What the links did, in the order of the network's ways.
    pub summary: Summary,
    /// How it ended; an error if a program could not be started.
    pub ended: Result<Ended, Error>,
}

impl Emulation {
    /// Creates hosts and devices, and publishes the names of hosts to programs. Call it inside the namespaces of
    /// [`isolation`](crate::isolation).
    ///
    /// # Errors
    /// Fails if a host cannot be created.
    pub fn make(topology: Topology, notify: Notify) -> Result<Self, Error> {
        let ways = topology.ways();
        let routes = Routes::new(&topology);
        if let Err(reason) = names::publish(&topology) {
            notify(Notice::NoNames(reason));
        }
        let (mut hosts, mut devices) = (Vec::new(), Vec::new());
        for (node, spec) in topology.nodes.iter().enumerate() {
            hosts.push(match spec.is_host {
                true => Some(Host::make(&topology, &routes, node)?),
                false => None,
            });
            if let Some(Some(host)) = hosts.last_mut() {
                devices.append(&mut host.devices);
            }
        }
        Ok(Self { topology, ways, routes, hosts, devices, notify })
    }

    /// All directions of links, with their names in logs.
    pub fn ways(&self) -> &[Way] {
        &self.ways
    }

    /// Names of the ends of links at hosts, as used in captures.
    pub fn interfaces(&self) -> Vec<String> {
        let attachments =
            self.devices.iter().filter_map(|(index, _)| self.routes.attachments.get(*index));
        let named = attachments.map(|at| {
            let node = self.topology.nodes.get(at.node).map_or("", |node| node.name.as_str());
            let link = self.topology.links.get(at.link).map_or("", |link| link.name.as_str());
            format!("{node}:{link}")
        });
        named.collect()
    }

    /// Forwards packets and runs the programs until the command ends or `stop` becomes `true`. `seed` determines all
    /// random choices.
    ///
    /// # Errors
    /// Fails if the network itself does: a device fails, the fate of a packet differs from the replayed log, or a log
    /// or capture cannot be written.
    pub async fn run(
        self,
        programs: &Programs,
        observers: Observers,
        seed: u64,
        stop: watch::Receiver<bool>,
    ) -> Result<Outcome, Error> {
        let Self { topology, ways, routes, hosts, devices, notify } = self;
        let network = Network::new(&topology, routes, ways, devices, observers, seed)?;
        let over = Arc::new(AtomicBool::new(false));
        let flag = Arc::clone(&over);
        let commands = run_commands(Arc::clone(&notify));
        // Use a separate thread: it waits more precisely than the runtime's timers.
        let mut forwarding = tokio::task::spawn_blocking(move || {
            priority::be_punctual(priority::Rank::Network);
            // Sending only fails if the receiving thread has ended, and then nobody waits for the command.
            network.run(&flag, |line| drop(commands.send(line.to_owned())))
        });
        let ended = {
            let mut running = Running::default();
            let ended = tokio::select! {
                ended = programs.run(&topology, &hosts, &mut running, &notify) => ended,
                () = stopped(&stop) => Ok(Ended::Stopped),
                // The forwarding thread only ends by itself if something is wrong.
                wrong = &mut forwarding => {
                    return Err(wrong.map_err(Error::Task)?.err().unwrap_or(Error::Early));
                }
            };
            running.end().await;
            ended
        };
        over.store(true, Ordering::Relaxed);
        let summary = forwarding.await.map_err(Error::Task)??;
        Ok(Outcome { summary, ended })
    }
}

/// Runs the commands of triggers, one shell command line each. They do not have the priority of the forwarding thread.
fn run_commands(notify: Notify) -> mpsc::Sender<String> {
    let (sender, lines) = mpsc::channel::<String>();
    std::thread::spawn(move || {
        for line in lines {
            if let Err(error) = shell(&line).env_remove(INSIDE).spawn() {
                notify(Notice::Command { line, error });
            }
        }
    });
    sender
}
