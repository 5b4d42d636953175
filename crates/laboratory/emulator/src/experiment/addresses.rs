//! Addresses of the hosts that come and go while a run goes on, and changes of them that applications ask for.
//!
//! The kernel of the host's namespace loses the address and gets it again, so the library notices what it would notice on
//! any host. The links do not change.

use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anabranch::{AddressChange, Association};
use anabranch_lab::setup::{AddressAction, AddressEvent, Setup, is_there_at_first};

use super::Course;
use crate::network::host::{Host, beyond};
use crate::network::netlink::Kernel;
use crate::network::routing::Routes;
use crate::network::topology::Topology;

/// Interval for checking whether the run is over.
const LOOK: Duration = Duration::from_millis(20);

/// An address of a host that comes or goes.
pub(super) struct Place {
    address: IpAddr,
    /// The name of its device.
    device: String,
    /// What the host reaches through the device besides its link. The kernel forgets it with the last address.
    beyond: Vec<IpAddr>,
}

impl Place {
    fn of(
        topology: &Topology,
        routes: &Routes,
        setup: &Setup,
        pairs: &[(IpAddr, IpAddr)],
        (path, second): (usize, bool),
    ) -> Option<Self> {
        let (first, last) = *pairs.get(path)?;
        let links = &setup.network.paths.get(path)?.links;
        let link = if second { links.last() } else { links.first() }?.0;
        Some(Self {
            address: if second { last } else { first },
            device: topology.links.get(link)?.name.clone(),
            beyond: beyond(topology, routes, usize::from(second), link),
        })
    }

    /// Gives this thread's namespace the address, or takes it away.
    fn set(&self, kernel: &Kernel, present: bool) -> io::Result<()> {
        let device = nix::net::if_::if_nametoindex(self.device.as_str())?;
        kernel.set_address(self.address, device, present)?;
        if present {
            for to in &self.beyond {
                kernel.set_route(*to, device, Vec::new())?;
            }
        }
        Ok(())
    }
}

/// A thread that changes the addresses of one host.
pub(super) type Changing = JoinHandle<io::Result<()>>;

/// Takes away the addresses that the hosts do not have at the beginning.
pub(super) fn take_away(
    (topology, routes): (&Topology, &Routes),
    setup: &Setup,
    pairs: &[(IpAddr, IpAddr)],
    hosts: &[Host; 2],
) -> Result<(), String> {
    for (host, second) in hosts.iter().zip([false, true]) {
        for path in 0..pairs.len() {
            if is_there_at_first(&setup.addresses, path, second) {
                continue;
            }
            let place = Place::of(topology, routes, setup, pairs, (path, second));
            let place = place.ok_or("an address without a link")?;
            let taken = host.within(move || place.set(&Kernel::here()?, false));
            taken.map_err(|error| format!("an address cannot be taken away: {error}"))?;
        }
    }
    Ok(())
}

/// What happens to the addresses of one host, in order: when, and whether the address is there from then on.
pub(super) type Changes = Vec<(Duration, Place, bool)>;

/// The changes of both hosts.
pub(super) fn plan(
    (topology, routes): (&Topology, &Routes),
    setup: &Setup,
    pairs: &[(IpAddr, IpAddr)],
) -> Result<[Changes; 2], String> {
    let mut both = [Changes::new(), Changes::new()];
    for (changes, second) in both.iter_mut().zip([false, true]) {
        for event in own(&setup.addresses, second) {
            let present = match event.what {
                AddressAction::Appears => true,
                AddressAction::Disappears => false,
                AddressAction::Asks(_) => continue,
            };
            let place = Place::of(topology, routes, setup, pairs, (event.path, second));
            changes.push((event.at, place.ok_or("an address without a link")?, present));
        }
    }
    Ok(both)
}

/// Changes the addresses of the hosts when it is time, until `stop`.
pub(super) fn begin(
    plan: [Changes; 2],
    hosts: &[Host; 2],
    (begun, stop): (Instant, &Arc<AtomicBool>),
) -> Result<Vec<Changing>, String> {
    let mut threads = Vec::new();
    for (host, changes) in hosts.iter().zip(plan).filter(|(_, changes)| !changes.is_empty()) {
        let stop = Arc::clone(stop);
        let thread = host.begin(move || {
            let kernel = Kernel::here()?;
            for (at, place, present) in changes {
                loop {
                    if stop.load(Ordering::Relaxed) {
                        return Ok(());
                    }
                    let left = at.saturating_sub(begun.elapsed());
                    if left.is_zero() {
                        break;
                    }
                    std::thread::sleep(left.min(LOOK));
                }
                place.set(&kernel, present)?;
            }
            Ok(())
        });
        threads.push(thread.map_err(|error| format!("a thread cannot be started: {error}"))?);
    }
    Ok(threads)
}

/// Waits for the threads, after `stop`.
pub(super) fn end(threads: Vec<Changing>) -> Result<(), String> {
    for thread in threads {
        let changed = thread.join().map_err(|_| "a change of an address panicked".to_owned())?;
        changed.map_err(|error| format!("an address cannot be changed: {error}"))?;
    }
    Ok(())
}

/// The events of one host in order.
fn own(events: &[AddressEvent], second: bool) -> Vec<&AddressEvent> {
    let mut own: Vec<_> = events.iter().filter(|event| event.of_receiver == second).collect();
    own.sort_by_key(|event| event.at);
    own
}

/// Asks for the changes that the applications of one host want, when it is time.
pub(super) async fn ask(course: Course, association: Association, second: bool) {
    for event in own(&course.setup.addresses, second) {
        let AddressAction::Asks(change) = event.what else { continue };
        let Some(pair) = course.pairs.get(event.path) else { continue };
        let local = if second { pair.1 } else { pair.0 };
        tokio::time::sleep(event.at.saturating_sub(course.now())).await;
        // One that is impossible now changes nothing.
        let _ = match change {
            AddressChange::Added => association.add_address(local),
            AddressChange::Removed => association.remove_address(local),
            _ => association.prefer_address(local),
        };
    }
}
