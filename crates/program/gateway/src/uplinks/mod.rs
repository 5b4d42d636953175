//! The uplinks of the near side, and the switch that each of them has.

use std::sync::{Mutex, MutexGuard, PoisonError};

use anabranch::seal::SealHandle;
use serde::Serialize;

/// An uplink as it is now.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct UplinkState {
    /// The number of its path.
    pub number: u8,
    /// The interface or local address.
    pub name: String,
    /// Its switch: the person at the status page has not switched it off.
    pub on: bool,
}

impl UplinkState {
    pub(crate) fn new(number: u8, name: String) -> Self {
        Self { number, name, on: true }
    }
}

/// The uplinks of an endpoint with sealed paths.
#[derive(Debug, Default)]
pub struct Uplinks {
    handle: SealHandle,
    uplinks: Mutex<Vec<UplinkState>>,
}

impl Uplinks {
    /// `names` are those of the uplinks in the order of their paths.
    pub fn new(handle: SealHandle, names: impl IntoIterator<Item = String>) -> Self {
        let uplinks = (0..).zip(names).map(|(number, name)| UplinkState::new(number, name));
        Self { handle, uplinks: Mutex::new(uplinks.collect()) }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<UplinkState>> {
        self.uplinks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// All uplinks. Empty without sealed paths.
    pub fn states(&self) -> Vec<UplinkState> {
        self.lock().clone()
    }

    /// Switches an uplink on or off. Returns false if there is none with this number.
    pub fn switch(&self, number: u8, on: bool) -> bool {
        let mut uplinks = self.lock();
        let Some(uplink) = uplinks.iter_mut().find(|uplink| uplink.number == number) else {
            return false;
        };
        uplink.on = on;
        self.handle.set_uplink(number, on);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uplinks_are_switched_by_number() {
        let names = ["wlan0", "wwan0"].map(str::to_owned);
        let uplinks = Uplinks::new(SealHandle::default(), names);
        assert!(uplinks.switch(1, false) && !uplinks.switch(2, false));
        let on: Vec<_> = uplinks.states().iter().map(|uplink| uplink.on).collect();
        assert_eq!(on, [true, false]);
    }
}
