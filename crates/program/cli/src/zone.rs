//! Zones of link-local addresses: interfaces of this host, by name or number.

use crate::failure::Failure;

/// The number of the interface, as sockets need it.
pub(crate) fn index(zone: &str) -> Result<u32, Failure> {
    match zone.parse() {
        Ok(0) => Err(unknown(zone)),
        Ok(index) => Ok(index),
        Err(_) => lookup::index(zone).ok_or_else(|| unknown(zone)),
    }
}

/// The name of the interface.
pub(crate) fn name(zone: &str) -> Result<String, Failure> {
    match zone.parse() {
        Ok(index) => lookup::name(index).ok_or_else(|| unknown(zone)),
        Err(_) => lookup::index(zone).map(|_| zone.to_owned()).ok_or_else(|| unknown(zone)),
    }
}

fn unknown(zone: &str) -> Failure {
    Failure::failed(format!("this host has no network interface '{zone}'"))
}

#[cfg(unix)]
mod lookup {
    use nix::net::if_::{if_nameindex, if_nametoindex};

    pub(super) fn index(name: &str) -> Option<u32> {
        if_nametoindex(name).ok()
    }

    pub(super) fn name(index: u32) -> Option<String> {
        let interfaces = if_nameindex().ok()?;
        let found = interfaces.iter().find(|interface| interface.index() == index)?;
        found.name().to_str().ok().map(str::to_owned)
    }
}

/// On other systems only the number of an interface is known, and sockets cannot be bound to one.
#[cfg(not(unix))]
mod lookup {
    pub(super) fn index(_: &str) -> Option<u32> {
        None
    }

    pub(super) fn name(_: u32) -> Option<String> {
        None
    }
}
