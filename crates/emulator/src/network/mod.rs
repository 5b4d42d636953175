//! Networks of hosts, routers and links, and programs in them.

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

/// A network whose hosts and devices exist. It is gone when this value and all programs in it are.
pub struct Emulation {
    topology: Topology,
    ways: Vec<Way>,
    routes: Routes,
    /// Of each node, if it is a host.
    hosts: Vec<Option<Host>>,
    /// Each with the number of its attachment.
    devices: Vec<(usize, SyncDevice)>,
    notify: Notify,
}

/// What a run came to.
#[derive(Debug)]
pub struct Outcome {
    /// What the links did, in the order of the network's ways.
    pub summary: Summary,
    /// How it ended; an error is that of a program that could not be started.
    pub ended: Result<Ended, Error>,
}

impl Emulation {
    /// Makes hosts and devices, and lets programs call hosts by their names. To be called within the namespaces of
    /// [`isolation`](crate::isolation).
    ///
    /// # Errors
    /// A host that cannot be made.
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

    /// All directions of links, as logs name them.
    pub fn ways(&self) -> &[Way] {
        &self.ways
    }

    /// Names of the ends of links at hosts, as captures have them.
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

    /// Forwards packets and runs the programs until the command ends or `stop` becomes `true`. The seed is for all
    /// random choices.
    ///
    /// # Errors
    /// What ends the network itself: a device that fails, a packet that fares otherwise than in the log that is
    /// replayed, a log or a capture that cannot be written.
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
        // A thread of its own: it waits with more precision than the runtime's timers have.
        let mut forwarding = tokio::task::spawn_blocking(move || {
            priority::be_punctual(priority::Rank::Network);
            // The thread for them gets a line, or has ended because nobody waits for it any more.
            network.run(&flag, |line| drop(commands.send(line.to_owned())))
        });
        let ended = {
            let mut running = Running::default();
            let ended = tokio::select! {
                ended = programs.run(&topology, &hosts, &mut running, &notify) => ended,
                () = stopped(&stop) => Ok(Ended::Stopped),
                // It ends by itself only when something is wrong.
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

/// Runs the commands of triggers, one line for the shell each. They do not have the priority of the thread that
/// forwards.
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
