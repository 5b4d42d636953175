//! Hosts: namespaces without names, which exist as long as a process holds them.

use std::fs::File;
use std::io;
use std::net::IpAddr;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread::JoinHandle;

use nix::errno::Errno;
use nix::sched::{CloneFlags, setns, unshare};
use tun_rs::{DeviceBuilder, SyncDevice};

use super::netlink::{Kernel, NETWORK_V4, NETWORK_V6};
use super::priority::{Rank, be_punctual};
use super::routing::Routes;
use super::topology::Topology;
use crate::Error;

/// Packets that the kernel queues until they are read: enough for a window sent in one burst.
const QUEUE: u32 = 5000;

/// The file through which devices are created; on most systems everyone may open it.
const TUN: &str = "/dev/net/tun";

/// A host that exists.
pub(crate) struct Host {
    /// The namespace.
    namespace: File,
    /// Its devices, each with the number of its attachment.
    pub(crate) devices: Vec<(usize, SyncDevice)>,
}

impl Host {
    /// Creates the namespace of a node with its devices, addresses and routes.
    pub(crate) fn make(topology: &Topology, routes: &Routes, node: usize) -> Result<Self, Error> {
        let name = topology.nodes.get(node).map_or("", |node| node.name.as_str());
        // Only the thread moves to the namespace, and the files that it opened work everywhere.
        let made = std::thread::scope(|scope| {
            let making = scope.spawn(|| make(topology, routes, node));
            let failed = |_| Err(Refused::Other(io::Error::other("the attempt failed")));
            making.join().unwrap_or_else(failed)
        });
        let host = name.to_owned();
        made.map_err(|refused| match refused {
            Refused::Tun(error) => Error::NoTun { host, file: TUN, help: help(&error), error },
            Refused::Other(error) => Error::Host { host, error },
        })
    }

    /// Runs `work` in the host's namespace on a new thread and waits for it.
    pub(crate) fn within<T: Send>(
        &self,
        work: impl FnOnce() -> io::Result<T> + Send,
    ) -> io::Result<T> {
        std::thread::scope(|scope| {
            let working = scope.spawn(|| {
                setns(&self.namespace, CloneFlags::CLONE_NEWNET)?;
                work()
            });
            working.join().unwrap_or_else(|_| Err(io::Error::other("the attempt failed")))
        })
    }

    /// Starts `work` in the host's namespace on a new thread.
    pub(crate) fn begin<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> io::Result<T> + Send + 'static,
    ) -> io::Result<JoinHandle<io::Result<T>>> {
        let namespace = self.namespace.try_clone()?;
        Ok(std::thread::spawn(move || {
            setns(&namespace, CloneFlags::CLONE_NEWNET)?;
            // A thread that waits for a processor would see a longer round trip and read several
            // packets at once.
            be_punctual(Rank::End);
            work()
        }))
    }

    /// Starts a program in the host's namespace.
    pub(crate) fn spawn(&self, command: &mut Command) -> io::Result<Child> {
        self.within(|| command.spawn())
    }
}

/// A shell command line in its own process group, so that all its processes can be ended.
pub(crate) fn shell(line: &str) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", line]).stdin(Stdio::null()).process_group(0);
    command
}

/// Why a host cannot be created.
enum Refused {
    /// Its devices cannot be created.
    Tun(io::Error),
    Other(io::Error),
}

impl From<io::Error> for Refused {
    fn from(error: io::Error) -> Self {
        Self::Other(error)
    }
}

impl From<Errno> for Refused {
    fn from(error: Errno) -> Self {
        Self::Other(error.into())
    }
}

/// What to do if no device can be created.
fn help(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::PermissionDenied => {
            "let everybody open it, as most systems do, or run as root"
        }
        _ => "the kernel's module 'tun' makes it",
    }
}

fn make(topology: &Topology, routes: &Routes, node: usize) -> Result<Host, Refused> {
    unshare(CloneFlags::CLONE_NEWNET)?;
    File::options().read(true).write(true).open(TUN).map_err(Refused::Tun)?;
    let kernel = Kernel::here()?;
    kernel.loopback_up()?;
    let six = set("net.ipv6.conf.default.router_solicitations", "0").is_ok();
    if six {
        // Link-local addresses would send announcements of their own.
        set("net.ipv6.conf.default.addr_gen_mode", "1")?;
    }
    let spec = topology.nodes.get(node);
    for (key, value) in spec.into_iter().flat_map(|node| &node.sysctl) {
        set(key, value).map_err(|error| {
            let reason = match error.kind() {
                io::ErrorKind::NotFound => format!("its kernel has no setting '{key}' of its own"),
                io::ErrorKind::InvalidInput => format!("{key} does not take the value '{value}'"),
                _ => format!("{key}: {error}"),
            };
            io::Error::new(error.kind(), reason)
        })?;
    }
    let mut devices = Vec::new();
    let attachments = routes.attachments.iter().enumerate();
    for (index, attachment) in attachments.filter(|(_, at)| at.node == node) {
        let Some(link) = topology.links.get(attachment.link) else { continue };
        let builder = DeviceBuilder::new().name(&link.name).mtu(link.mtu).offload(true).ipv4(
            link.v4[attachment.end],
            NETWORK_V4,
            None,
        );
        let builder = if six { builder.ipv6(link.v6[attachment.end], NETWORK_V6) } else { builder };
        let device = builder.build_sync()?;
        device.set_nonblocking(true)?;
        kernel.set_queue(device.if_index()?, QUEUE)?;
        devices.push((index, device));
    }
    for (index, device) in &devices {
        let Some(own) = routes.attachments.get(*index) else { continue };
        let device = device.if_index()?;
        for address in beyond(topology, routes, node, own.link) {
            if address.is_ipv4() || six {
                kernel.add_route(address, device)?;
            }
        }
    }
    let namespace = File::open("/proc/thread-self/ns/net")?;
    Ok(Host { namespace, devices })
}

/// The addresses that a node reaches through one of its links, without those of the link itself.
pub(crate) fn beyond(
    topology: &Topology,
    routes: &Routes,
    node: usize,
    link: usize,
) -> Vec<IpAddr> {
    let all = routes.attachments.iter().enumerate();
    let there = all.filter(|(to, at)| at.link != link && routes.usual(node, *to) == Some(link));
    let addresses =
        there.filter_map(|(_, at)| Some(topology.links.get(at.link)?.addresses(at.end)));
    addresses.flatten().collect()
}

/// Sets a `sysctl` value in this thread's namespace.
fn set(key: &str, value: &str) -> io::Result<()> {
    let path: PathBuf = ["/proc/sys"].into_iter().chain(key.split('.')).collect();
    std::fs::write(path, value)
}
