//! Where and when a transfer runs: hosts, addresses, port and start.

use std::net::IpAddr;
use std::time::Duration;

use anabranch_lab::setup::Transfer;

use super::Course;
use super::ground::Ground;
use crate::network::host::Host;

/// Port of the first transfer. Each further transfer uses the next port.
const FIRST_PORT: u16 = 5001;

/// Port of a transfer.
pub(super) fn port(index: usize) -> u16 {
    FIRST_PORT.saturating_add(u16::try_from(index).unwrap_or(u16::MAX))
}

/// A transfer on the primary path.
pub(super) struct Place<'a> {
    pub(super) transfer: &'a Transfer,
    pub(super) start: Duration,
    /// Hosts of the sender and of the receiver.
    pub(super) from: &'a Host,
    pub(super) to: &'a Host,
    /// Their addresses.
    pub(super) local: IpAddr,
    pub(super) remote: IpAddr,
    pub(super) port: u16,
}

impl<'a> Place<'a> {
    /// # Errors
    /// Fails if the transfer or the primary path does not exist.
    pub(super) fn of(ground: &'a Ground, course: &'a Course, index: usize) -> Result<Self, String> {
        let setup = &course.setup;
        let (Some(transfer), Some(start)) = (setup.transfers.get(index), course.starts.get(index))
        else {
            return Err("there is no such transfer".into());
        };
        let Some((near, far)) = course.pairs.get(setup.network.primary).copied() else {
            return Err("there is no primary path".into());
        };
        let [first, second] = &ground.hosts;
        let (from, to, local, remote) = match transfer.back {
            false => (first, second, near, far),
            true => (second, first, far, near),
        };
        Ok(Self { transfer, start: *start, from, to, local, remote, port: port(index) })
    }
}
