//! Timers of tasks.

use std::collections::BTreeMap;
use std::fmt;
use std::task::{Context, Poll, Waker};

use anabranch::runtime::{Instant, Timer};

use crate::executor::World;

/// Running timers, by deadline and then in the order in which they were set.
#[derive(Default)]
pub(crate) struct Timers {
    running: BTreeMap<(u64, u64), Option<Waker>>,
    last: u64,
}

impl fmt::Debug for Timers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.running.keys()).finish()
    }
}

impl Timers {
    /// The earliest deadline.
    pub(crate) fn next(&self) -> Option<u64> {
        let mut running = self.running.iter();
        running.find(|(_, waker)| waker.is_some()).map(|((at, _), _)| *at)
    }

    /// Wakes the tasks whose deadlines are due by `now`.
    pub(crate) fn expire(&mut self, now: u64, woken: &mut Vec<Waker>) {
        for (_, waker) in self.running.range_mut(..=(now, u64::MAX)) {
            woken.extend(waker.take());
        }
    }
}

/// A timer of a [`World`].
#[derive(Debug)]
pub(crate) struct VirtualTimer {
    world: World,
    key: Option<(u64, u64)>,
}

impl VirtualTimer {
    pub(crate) fn new(world: World) -> Self {
        Self { world, key: None }
    }
}

impl Timer for VirtualTimer {
    fn reset(&mut self, deadline: Instant) {
        let mut state = self.world.state();
        if let Some(key) = self.key {
            if key.0 == deadline.as_nanos() {
                return;
            }
            state.timers.running.remove(&key);
        }
        state.timers.last += 1;
        let key = (deadline.as_nanos(), state.timers.last);
        state.timers.running.insert(key, None);
        self.key = Some(key);
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let mut state = self.world.state();
        let Some(key) = self.key else { return Poll::Pending };
        if key.0 <= state.now {
            return Poll::Ready(());
        }
        state.timers.running.insert(key, Some(cx.waker().clone()));
        Poll::Pending
    }
}

impl Drop for VirtualTimer {
    fn drop(&mut self) {
        if let Some(key) = self.key {
            self.world.state().timers.running.remove(&key);
        }
    }
}
