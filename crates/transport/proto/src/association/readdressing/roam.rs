//! Tells the peer when addresses of this host come and go.
//!
//! A new address is added as soon as its routes have had time to follow. One that went away may come back within the
//! option `roam_patience`, before this side tells the peer: its paths rest meanwhile, so nothing is lost by waiting, and an
//! interface that flaps causes no requests. An address behind a translator that fails, or that never works, is added once
//! more, because the translator may show the peer another one now, or another translator did.

use std::net::IpAddr;
use std::time::Duration;

use crate::association::Association;
use crate::path::Path;
use crate::per_path::{MAX_PATHS, PathId};
use crate::roaming::{AddressChange, AddressError};
use crate::time::Instant;

/// The time that a host has to add the routes of a new address. Before that, packets from it take another network, or none.
pub(super) const SETTLE: Duration = Duration::from_millis(200);
/// The least and the longest time until a failed address behind a translator is added again.
pub(super) const AGAIN: Duration = Duration::from_secs(2);
const LONGEST_AGAIN: Duration = Duration::from_secs(60);

impl Association {
    /// Handles a local address that became usable, or unusable.
    pub(in crate::association) fn roam(&mut self, now: Instant, local: IpAddr, usable: bool) {
        if !self.config.addresses.roam || self.may_readdress(AddressChange::Added).is_err() {
            return;
        }
        let patience = self.config.addresses.roam_patience;
        let stays = self.will_have(local);
        let state = self.readdressing();
        state.arriving.retain(|(address, _)| *address != local);
        state.departed.retain(|(address, _)| *address != local);
        state.absent.retain(|address| *address != local);
        if !usable && state.absent.len() < MAX_PATHS {
            state.absent.push(local);
        }
        if usable {
            state.stranded = state.stranded.filter(|old| *old != local);
            if !stays {
                state.arriving.push((local, now + SETTLE));
            }
        } else if stays {
            state.departed.push((local, now + patience));
        }
    }

    /// Repeats the outstanding chunk soon, because an interface came back.
    pub(in crate::association) fn hasten_changes(&mut self, now: Instant) {
        if let Some(state) = &mut self.readdressing {
            state.hasten = (!state.requests.is_free()).then_some(now + SETTLE);
        }
    }

    /// Handles the failure of a path from an address that the peer knows by what a translator made of it.
    pub(in crate::association) fn announce_again(&mut self, now: Instant, local: IpAddr) {
        let own = |path: &&Path| path.local == local;
        let works = self.paths.iter().filter(own).any(Path::is_active);
        let left = self.paths.iter().filter(own).all(|path| path.detached);
        let roams = self.config.addresses.roam && self.may_readdress(AddressChange::Added).is_ok();
        // One that left is announced when it comes back.
        if !roams || works || left || self.may_name(local) {
            return;
        }
        let state = self.readdressing();
        if !state.arriving.iter().any(|(address, _)| *address == local) {
            state.arriving.push((local, now + state.again));
            state.again = (state.again * 2).min(LONGEST_AGAIN);
        }
    }

    /// Handles an error of a path. If it was never verified, the peer may know its address as another one: a request that
    /// left before the address had its routes took another network, and was translated there. The true address is then
    /// unknown to the peer, which discards what comes from it.
    pub(in crate::association) fn doubt_announcement(&mut self, now: Instant, id: PathId) {
        let path = &self.paths[id];
        if !path.is_verified() {
            self.announce_again(now, path.local);
        }
    }

    /// Adds the addresses that are due, and removes those that did not come back in time. The last address stays until
    /// another one comes.
    pub(super) fn follow_addresses(&mut self, now: Instant) {
        let Some(state) = &mut self.readdressing else { return };
        if state.hasten.take_if(|at| *at <= now).is_some() {
            state.requests.hasten();
            state.last = None;
            self.advance_readdressing(now);
        }
        let Some(state) = &mut self.readdressing else { return };
        let arrived = take_due(&mut state.arriving, now);
        let departed = take_due(&mut state.departed, now);
        for local in arrived {
            self.arrive(now, local);
        }
        for local in departed {
            self.depart(now, local);
        }
    }

    fn arrive(&mut self, now: Instant, local: IpAddr) {
        let own = |path: &Path| path.local == local;
        if self.paths.iter().any(|path| own(path) && (path.is_active() || path.detached)) {
            return;
        }
        // It is known already if it failed. If it is silent, another change of it is under way.
        if self.paths.iter().any(|path| own(path) && !path.silent) {
            self.silence(local);
        }
        // If it reaches no address of the peer, there is nothing to do.
        let _ = self.add_address(now, local);
        let stranded = self.readdressing().stranded.take();
        if let Some(old) = stranded.filter(|old| *old != local) {
            self.depart(now, old);
        }
    }

    fn depart(&mut self, now: Instant, local: IpAddr) {
        if self.remove_address(now, local) == Err(AddressError::Last) {
            self.readdressing().stranded = Some(local);
        }
    }
}

/// Takes the addresses whose time has come.
fn take_due(waiting: &mut Vec<(IpAddr, Instant)>, now: Instant) -> Vec<IpAddr> {
    let due = waiting.iter().filter(|(_, at)| *at <= now).map(|(address, _)| *address).collect();
    waiting.retain(|(_, at)| *at > now);
    due
}
