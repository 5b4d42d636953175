//! The uplinks of the near side: switches, backups, limits, and which there are.

mod plan;
mod routes;
mod spec;

use std::fmt;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anabranch::PathState;
use anabranch::seal::{PATHS, SealHandle, Uplink};
use serde::Serialize;
use tokio::time::{Instant, sleep};

use self::plan::{Candidate, Plan};
pub use self::spec::{NoUplink, UplinkSpec};
use crate::limit::LimitState;
use crate::near::{Link, number};
use crate::usage::{self, Clock, Usage};

/// How often the plan is made again.
const STEP: Duration = Duration::from_millis(200);

/// How often the routes of the host are read.
const ROUTES: Duration = Duration::from_secs(2);

/// How often usages are written, if they have changed.
const SAVE: Duration = Duration::from_secs(10);

/// Bytes around each packet, which an operator counts, too: those of the seal, of UDP and of IPv4.
const AROUND: u64 = 28 + 8 + 20;

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
    /// It is used now; otherwise the switch, the limit, or another uplink keeps it out.
    pub used: bool,
    /// It is used only while no other works.
    pub backup: bool,
    /// What its limit allows, if it has one.
    pub limit: Option<LimitState>,
}

impl UplinkState {
    pub(crate) fn new(number: u8, name: String) -> Self {
        Self { number, name, on: true, used: true, backup: false, limit: None }
    }
}

/// An uplink and what the plan knows of it.
#[derive(Debug)]
struct Entry {
    spec: UplinkSpec,
    state: UplinkState,
    usage: Usage,
    /// The bytes of its path at the last look.
    counted: u64,
    works: bool,
}

impl Entry {
    fn new(number: u8, spec: UplinkSpec, usage: Usage) -> Self {
        let mut state = UplinkState::new(number, spec.uplink.to_string());
        state.backup = spec.backup;
        Self { spec, state, usage, counted: 0, works: false }
    }
}

#[derive(Default)]
struct Inner {
    entries: Vec<Entry>,
    plan: Plan,
    unsaved: bool,
}

/// The uplinks of an endpoint with sealed paths.
#[derive(Default)]
pub struct Uplinks {
    handle: SealHandle,
    inner: Mutex<Inner>,
    /// Keeps the usages of limits.
    file: Option<PathBuf>,
    /// Uplinks are those with a route to one of these addresses; empty if they are named.
    far: Vec<IpAddr>,
    clock: Clock,
}

impl fmt::Debug for Uplinks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Uplinks").field("states", &self.states()).finish_non_exhaustive()
    }
}

impl Uplinks {
    /// Uplinks in the order of their paths, at most [`PATHS`]. With limits, `file` keeps what was used.
    ///
    /// # Errors
    /// The file cannot be read. The error is a sentence.
    pub fn named(
        handle: SealHandle,
        specs: Vec<UplinkSpec>,
        file: Option<PathBuf>,
    ) -> Result<Self, String> {
        let clock = Clock::default();
        let file = file.filter(|_| specs.iter().any(|spec| spec.limit.is_some()));
        let saved = file.as_deref().map(usage::load).transpose();
        let saved = saved.map_err(|error| {
            let name = file.as_deref().unwrap_or_else(|| "".as_ref()).display().to_string();
            format!(
                "cannot read {name}, which keeps what uplinks with limits have carried: {error}"
            )
        })?;
        let saved = saved.unwrap_or_default();
        let entry = |(number, spec): (u8, UplinkSpec)| {
            let usage = saved.get(&spec.uplink.to_string()).copied();
            Entry::new(number, spec, Usage::resume(usage, clock.now()))
        };
        let entries = (0..PATHS).zip(specs).map(entry).collect();
        let inner = Mutex::new(Inner { entries, ..Inner::default() });
        let this = Self { handle, inner, file, far: Vec::new(), clock };
        this.update(None);
        Ok(this)
    }

    /// The interfaces that have a route to the far side. If there are not two at least, the system's routes decide.
    pub fn with_routes(handle: SealHandle, far: Vec<IpAddr>) -> Self {
        let any = Entry::new(0, UplinkSpec::always(Uplink::any()), Usage::default());
        let inner = Mutex::new(Inner { entries: vec![any], ..Inner::default() });
        let this = Self { handle, inner, file: None, far, clock: Clock::default() };
        this.follow_routes();
        this
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The uplinks to begin with, in the order of their paths.
    pub fn uplinks(&self) -> Vec<Uplink> {
        self.lock().entries.iter().map(|entry| entry.spec.uplink.clone()).collect()
    }

    /// All uplinks. Empty without sealed paths.
    pub fn states(&self) -> Vec<UplinkState> {
        let inner = self.lock();
        let now = self.clock.now();
        let state = |entry: &Entry| {
            let limit = entry.spec.limit.map(|limit| entry.usage.state(limit, now));
            UplinkState { limit, ..entry.state.clone() }
        };
        inner.entries.iter().map(state).collect()
    }

    /// Switches an uplink on or off. Returns false if there is none with this number.
    pub fn switch(&self, number: u8, on: bool) -> bool {
        let mut inner = self.lock();
        let entry = inner.entries.iter_mut().find(|entry| entry.state.number == number);
        let Some(entry) = entry else { return false };
        entry.state.on = on;
        drop(inner);
        self.update(None);
        true
    }

    /// Follows routes, and with a link also backups and limits. Never returns unless there is nothing to follow.
    pub async fn follow(&self, link: Option<&Link>) {
        let conditional =
            link.is_some() && self.lock().entries.iter().any(|entry| entry.spec.is_conditional());
        if !conditional && self.far.is_empty() {
            return;
        }
        let (mut saved, mut looked) = (Instant::now(), Instant::now());
        loop {
            sleep(STEP).await;
            if conditional {
                self.update(link);
            }
            if saved.elapsed() >= SAVE {
                saved = Instant::now();
                self.save();
            }
            if looked.elapsed() >= ROUTES {
                looked = Instant::now();
                self.follow_routes();
            }
        }
    }

    /// Counts what was carried, makes the plan, and switches paths by it.
    fn update(&self, link: Option<&Link>) {
        let mut inner = self.lock();
        let now = self.clock.now();
        if let Some(link) = link {
            let carried = link.carried();
            let paths = link.association().map(|association| association.statistics().paths);
            let paths = paths.unwrap_or_default();
            let mut changed = false;
            for entry in &mut inner.entries {
                let totals = carried.of(entry.state.number);
                let packets = totals.packets_sent.saturating_add(totals.packets_received);
                let bytes = totals.bytes_sent.saturating_add(totals.bytes_received);
                let bytes = bytes.saturating_add(packets.saturating_mul(AROUND));
                let more = bytes.saturating_sub(std::mem::replace(&mut entry.counted, bytes));
                if let Some(limit) = entry.spec.limit {
                    entry.usage.add(limit, now, more);
                    changed |= more > 0;
                }
                let path = paths.iter().find(|path| number(path) == entry.state.number);
                entry.works = path.is_some_and(|path| path.state == PathState::Active);
            }
            inner.unsaved |= changed;
        }
        let candidate = |entry: &Entry| Candidate {
            on: entry.state.on,
            backup: entry.spec.backup,
            exceeded: entry.spec.limit.is_some_and(|limit| entry.usage.is_exceeded(limit)),
            works: entry.works,
        };
        let candidates: Vec<_> = inner.entries.iter().map(candidate).collect();
        let used = inner.plan.decide(self.clock.elapsed(), &candidates);
        for (entry, used) in inner.entries.iter_mut().zip(used) {
            if std::mem::replace(&mut entry.state.used, used) != used {
                tracing::info!(uplink = %entry.state.name, used, "an uplink is switched");
                self.handle.set_uplink(entry.state.number, used);
            }
        }
    }

    /// Adds interfaces that have a route now. One that goes keeps its path, which is down without it.
    fn follow_routes(&self) {
        if self.far.is_empty() {
            return;
        }
        let found = routes::interfaces(&self.far);
        self.lock().add(&found, |number, uplink| self.handle.replace_uplink(number, uplink));
    }

    /// Writes what was used to the file.
    pub fn save(&self) {
        let Some(file) = &self.file else { return };
        let mut inner = self.lock();
        if !std::mem::take(&mut inner.unsaved) {
            return;
        }
        // Other uplinks in the file are kept: the next start may name them again.
        let mut usages = usage::load(file).unwrap_or_default();
        let limited = inner.entries.iter().filter(|entry| entry.spec.limit.is_some());
        usages.extend(limited.map(|entry| (entry.state.name.clone(), entry.usage)));
        if let Err(error) = usage::save(file, &usages) {
            inner.unsaved = true;
            tracing::warn!(file = %file.display(), %error, "what uplinks have carried cannot be saved");
        }
    }
}

impl Inner {
    /// Gives a path to each interface that has none, if there are two interfaces at least.
    fn add(&mut self, interfaces: &[String], replace: impl Fn(u8, Uplink)) {
        let follows_routes = self.entries.iter().any(|entry| entry.spec.uplink == Uplink::any());
        if follows_routes && interfaces.len() < 2 {
            return;
        }
        for name in interfaces {
            let uplink = Uplink::interface(name);
            if self.entries.iter().any(|entry| entry.spec.uplink == uplink) {
                continue;
            }
            let free = self.entries.iter().position(|entry| entry.spec.uplink == Uplink::any());
            let at = free.unwrap_or(self.entries.len());
            let Some(number) = u8::try_from(at).ok().filter(|number| *number < PATHS) else {
                return;
            };
            let mut entry =
                Entry::new(number, UplinkSpec::always(uplink.clone()), Usage::default());
            match self.entries.get_mut(at) {
                Some(before) => {
                    (entry.state.on, entry.state.used) = (before.state.on, before.state.used);
                    *before = entry;
                }
                None => self.entries.push(entry),
            }
            replace(number, uplink);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    fn named(specs: &[&str]) -> Uplinks {
        let specs = specs.iter().map(|spec| spec.parse().unwrap()).collect();
        Uplinks::named(SealHandle::default(), specs, None).unwrap()
    }

    #[test]
    fn uplinks_are_switched_by_number() {
        let uplinks = named(&["wlan0", "wwan0", "eth0:backup"]);
        assert!(uplinks.switch(1, false) && !uplinks.switch(3, false));
        let states = uplinks.states();
        let on: Vec<_> = states.iter().map(|uplink| uplink.on).collect();
        assert_eq!(on, [true, false, true]);
        let used: Vec<_> = states.iter().map(|uplink| uplink.used).collect();
        assert_eq!(used, [true, false, false], "the backup waits");
    }

    #[test]
    fn limits_are_kept_over_restarts() {
        let folder = std::env::temp_dir().join(format!("anabranch-limit-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let file = folder.join("near.usage");
        let start = || {
            let specs = vec!["wwan0:limit=1kB/d".parse().unwrap(), "wlan0".parse().unwrap()];
            Uplinks::named(SealHandle::default(), specs, Some(file.clone())).unwrap()
        };
        let first = start();
        let limit = first.states()[0].limit.unwrap();
        assert!(!limit.is_exceeded() && limit.period_seconds == 86_400);
        {
            let mut inner = first.lock();
            let now = first.clock.now();
            inner.entries[0].usage.add("1kB/d".parse().unwrap(), now, 1000);
            inner.unsaved = true;
        }
        first.save();
        let again = start().states();
        assert!(again[0].limit.unwrap().is_exceeded());
        assert_eq!((again[0].used, again[0].on, again[1].used), (false, true, true));
        std::fs::write(&file, "x").unwrap();
        let spec = vec!["wwan0:limit=1kB/d".parse().unwrap()];
        let error = Uplinks::named(SealHandle::default(), spec, Some(file.clone())).unwrap_err();
        assert!(error.contains("near.usage") && error.contains("delete it"), "{error}");
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn interfaces_get_paths_as_they_come() {
        let uplinks = Uplinks::with_routes(SealHandle::default(), Vec::new());
        let replaced = RefCell::new(Vec::new());
        let add = |names: &[&str]| {
            let names: Vec<_> = names.iter().map(|name| (*name).to_owned()).collect();
            uplinks.lock().add(&names, |number, uplink| {
                replaced.borrow_mut().push((number, uplink.to_string()));
            });
            replaced.take()
        };
        let are = |expected: &[(u8, &str)]| -> Vec<(u8, String)> {
            expected.iter().map(|(number, name)| (*number, (*name).to_owned())).collect()
        };
        assert_eq!(add(&["wlan0"]), are(&[]), "the routes are enough");
        assert_eq!(add(&["wlan0", "wwan0"]), are(&[(0, "wlan0"), (1, "wwan0")]));
        assert_eq!(add(&["wwan0"]), are(&[]));
        assert_eq!(add(&["eth0", "wwan0"]), are(&[(2, "eth0")]));
        assert_eq!(add(&["a", "b", "c", "d", "e", "f"]).len(), 5, "there are eight paths");
        assert_eq!(uplinks.states().len(), 8);
    }
}
