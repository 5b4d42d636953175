//! TUN devices in network namespaces.

use std::fs::File;
use std::io;
use std::net::IpAddr;
use std::path::Path;

use nix::sched::{CloneFlags, setns};
use tun_rs::{DeviceBuilder, SyncDevice};

use super::EndAddress;
use crate::Error;

/// Where ip-netns keeps its named namespaces.
const NAMESPACES: &str = "/run/netns";

/// Packets that the kernel queues until they are read: enough for a window sent in one burst.
const QUEUE: u32 = 5000;

/// Creates the device of one end with its address, brings it up and makes it non-blocking. The
/// device disappears when the value is dropped.
pub(super) fn create(end: &EndAddress, mtu: u16) -> Result<SyncDevice, Error> {
    let namespace = match &end.namespace {
        None => None,
        Some(name) => Some(File::open(Path::new(NAMESPACES).join(name)).map_err(|error| {
            let name = name.clone();
            match error.kind() {
                io::ErrorKind::NotFound => Error::NoNamespace(name),
                _ => Error::Namespace { name, error },
            }
        })?),
    };
    // Only the thread moves to the namespace. The device stays there, and its descriptor works
    // everywhere.
    let built = std::thread::scope(|scope| {
        let building = scope.spawn(|| {
            if let Some(namespace) = namespace {
                setns(namespace, CloneFlags::CLONE_NEWNET)?;
            }
            build(end, mtu)
        });
        building.join().unwrap_or_else(|_| Err(io::Error::other("the attempt failed")))
    });
    built.map_err(|error| Error::Device { end: end.clone(), error })
}

fn build(end: &EndAddress, mtu: u16) -> io::Result<SyncDevice> {
    let builder = DeviceBuilder::new().name(&end.device).mtu(mtu).tx_queue_len(QUEUE);
    let builder = match end.address {
        IpAddr::V4(address) => builder.ipv4(address, end.prefix, None),
        IpAddr::V6(address) => builder.ipv6(address, end.prefix),
    };
    let device = builder.build_sync()?;
    device.set_nonblocking(true)?;
    Ok(device)
}
