//! What users of the far side may do, and what they have done.
//!
//! An account is that of one user, with all associations of that user. It bounds connections, the rate of each
//! direction, and bytes in a period; payload counts.

mod allowance;
mod pace;
mod turn;

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::time::Instant;

pub use self::allowance::{Allowance, NoAllowance};
use self::pace::Pace;
pub(crate) use self::turn::Turn;
use crate::limit::{Limit, LimitState};
use crate::prometheus::{label, metric};
use crate::status::{Refusal, Status};
use crate::traffic::Amount;
use crate::usage::{self, Clock, Usage};

/// Which way bytes go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    ToTarget,
    FromTarget,
}

#[derive(Debug, Default)]
struct State {
    allowance: Allowance,
    /// Connections and flows of UDP that are open.
    open: u32,
    carried: Amount,
    /// Of the limit of bytes, if there is one.
    usage: Usage,
    /// To the target, and from it.
    paces: [Pace; 2],
}

/// The account of a user.
#[derive(Default)]
pub struct Account {
    state: Mutex<State>,
    clock: Clock,
}

impl fmt::Debug for Account {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.lock().fmt(f)
    }
}

/// The place of a connection, until it is dropped.
#[derive(Debug)]
pub(crate) struct Place(Arc<Account>);

impl Drop for Place {
    fn drop(&mut self) {
        self.0.lock().open -= 1;
    }
}

impl Account {
    /// An account without bounds.
    pub fn unlimited() -> Arc<Self> {
        Arc::default()
    }

    fn new(allowance: Allowance, saved: Option<Usage>, clock: Clock) -> Arc<Self> {
        let usage = Usage::resume(saved, clock.now());
        let state = State { allowance, usage, ..State::default() };
        Arc::new(Self { state: Mutex::new(state), clock })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A place for one more connection.
    ///
    /// # Errors
    /// The user has as many as allowed, or has used up the limit of bytes.
    pub(crate) fn place(self: &Arc<Self>) -> Result<Place, Refusal> {
        let mut state = self.lock();
        state.check_limit(self.clock.now())?;
        if let Some(most) = state.allowance.connections.filter(|most| state.open >= *most) {
            let text = format!("this user may have {most} connections at the same time");
            return Err(Refusal::new(Status::Busy, text));
        }
        state.open += 1;
        Ok(Place(Arc::clone(self)))
    }

    /// The most bytes that a connection should carry before others get a turn.
    fn most(&self) -> usize {
        self.lock().allowance.rate.map_or(usize::MAX, Pace::piece)
    }

    /// Counts bytes that were carried. Returns from when on the next ones of this connection may be.
    ///
    /// # Errors
    /// The limit of bytes is used up.
    fn carried(
        &self,
        direction: Direction,
        bytes: usize,
        large: bool,
    ) -> Result<Option<Instant>, Refusal> {
        let mut state = self.lock();
        state.count(direction, bytes, self.clock.now());
        state.check_limit(self.clock.now())?;
        let Some(rate) = state.allowance.rate else { return Ok(None) };
        Ok(state.paces[direction as usize].carry(Instant::now(), rate, bytes, large))
    }

    /// Counts a datagram, unless it exceeds the rate or the limit; then it is to be dropped.
    pub(crate) fn takes(&self, direction: Direction, bytes: usize, large: bool) -> bool {
        let mut state = self.lock();
        let rate = state.allowance.rate;
        let pace = &mut state.paces[direction as usize];
        if rate.is_some_and(|rate| !pace.takes(Instant::now(), rate, bytes, large))
            || state.check_limit(self.clock.now()).is_err()
        {
            return false;
        }
        state.count(direction, bytes, self.clock.now());
        true
    }
}

impl State {
    fn count(&mut self, direction: Direction, bytes: usize, now: u64) {
        let bytes = bytes as u64;
        match direction {
            Direction::ToTarget => self.carried.bytes_sent += bytes,
            Direction::FromTarget => self.carried.bytes_received += bytes,
        }
        if let Some(limit) = self.allowance.limit {
            self.usage.add(limit, now, bytes);
        }
    }

    fn check_limit(&mut self, now: u64) -> Result<(), Refusal> {
        let Some(limit) = self.allowance.limit else { return Ok(()) };
        // The period may be over.
        self.usage.add(limit, now, 0);
        if !self.usage.is_exceeded(limit) {
            return Ok(());
        }
        let minutes = self.usage.state(limit, now).remaining_seconds.div_ceil(60);
        let (hours, minutes) = (minutes / 60, minutes % 60);
        let text = format!(
            "the limit of this user, {limit}, is used up for another {hours} h {minutes} min"
        );
        Err(Refusal::new(Status::Busy, text))
    }

    /// Changes what is allowed. What was used of a limit counts for another limit, too.
    fn allow(&mut self, allowance: Allowance) {
        if allowance.rate != self.allowance.rate {
            self.paces = <[Pace; 2]>::default();
        }
        self.allowance = allowance;
    }
}

/// What is allowed to whom.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Allowances {
    /// By user.
    pub of: BTreeMap<String, Allowance>,
    /// What each user may have of whom nothing else is said.
    pub others: Allowance,
}

impl Allowances {
    fn find(&self, user: &str) -> Allowance {
        let own = self.of.get(user).copied().unwrap_or_default();
        own.or(self.others)
    }
}

#[derive(Default)]
struct Inner {
    accounts: BTreeMap<String, Arc<Account>>,
    allowances: Allowances,
    /// As the file has it.
    saved: BTreeMap<String, Usage>,
}

/// The accounts of all users, by a text that names each.
#[derive(Default)]
pub struct Accounts {
    inner: Mutex<Inner>,
    /// Keeps what was used of limits.
    file: Option<PathBuf>,
    clock: Clock,
}

impl fmt::Debug for Accounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(&self.lock().accounts).finish()
    }
}

impl Accounts {
    /// Accounts whose usages are kept in a file, which may be missing.
    ///
    /// # Errors
    /// The file cannot be read. The error is a sentence.
    pub fn open(file: PathBuf, allowances: Allowances) -> Result<Self, String> {
        let saved = usage::load(&file).map_err(|error| {
            let name = file.display();
            format!("cannot read {name}, which keeps what users with limits have carried: {error}")
        })?;
        let inner = Inner { allowances, saved, ..Inner::default() };
        Ok(Self { inner: Mutex::new(inner), file: Some(file), clock: Clock::default() })
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The account of a user.
    pub fn of(&self, user: &str) -> Arc<Account> {
        let mut inner = self.lock();
        if let Some(account) = inner.accounts.get(user) {
            return Arc::clone(account);
        }
        let saved = inner.saved.get(user).copied();
        let account = Account::new(inner.allowances.find(user), saved, self.clock);
        inner.accounts.insert(user.to_owned(), Arc::clone(&account));
        account
    }

    /// Changes what is allowed, also to connections that are open.
    pub fn allow(&self, allowances: Allowances) {
        let mut inner = self.lock();
        for (user, account) in &inner.accounts {
            account.lock().allow(allowances.find(user));
        }
        inner.allowances = allowances;
    }

    /// Writes what was used of limits to the file, if it has changed.
    ///
    /// # Errors
    /// The system refuses. The error is a sentence.
    pub fn save(&self) -> Result<(), String> {
        let Some(file) = &self.file else { return Ok(()) };
        let mut inner = self.lock();
        // Usages of users who were not there since the start are kept.
        let mut usages = inner.saved.clone();
        for (user, account) in &inner.accounts {
            let state = account.lock();
            if state.allowance.limit.is_some() {
                usages.insert(user.clone(), state.usage);
            }
        }
        if usages == inner.saved {
            return Ok(());
        }
        usage::save(file, &usages).map_err(|error| {
            let name = file.display();
            format!("what users with limits have carried cannot be saved in {name}: {error}")
        })?;
        inner.saved = usages;
        Ok(())
    }

    /// Metrics in the text format of Prometheus, by user.
    pub fn prometheus(&self) -> String {
        let inner = self.lock();
        let now = self.clock.now();
        let row = |(user, account): (&String, &Arc<Account>)| {
            let state = account.lock();
            let limit = |limit: Limit| state.usage.state(limit, now);
            (label("user", user), state.open, state.carried, state.allowance.limit.map(limit))
        };
        let rows: Vec<(String, u32, Amount, Option<LimitState>)> =
            inner.accounts.iter().map(row).collect();
        let mut text = String::new();
        let samples = rows.iter().map(|row| (row.0.clone(), f64::from(row.1)));
        let help = "Connections and flows of UDP of a user that have not ended.";
        metric(&mut text, "user_open", "gauge", help, samples);
        let samples = rows.iter().map(|row| (row.0.clone(), row.2.bytes_sent as f64));
        let help = "Bytes of a user towards targets.";
        metric(&mut text, "user_bytes_sent_total", "counter", help, samples);
        let samples = rows.iter().map(|row| (row.0.clone(), row.2.bytes_received as f64));
        let help = "Bytes of a user from targets.";
        metric(&mut text, "user_bytes_received_total", "counter", help, samples);
        let limited = || rows.iter().filter_map(|row| Some((row.0.clone(), row.3?)));
        let samples = limited().map(|(user, limit)| (user, limit.bytes as f64));
        let help = "Bytes that a user may carry in a period.";
        metric(&mut text, "user_limit_bytes", "gauge", help, samples);
        let samples = limited().map(|(user, limit)| (user, limit.used_bytes as f64));
        let help = "Bytes that a user has carried in the current period.";
        metric(&mut text, "user_limit_used_bytes", "gauge", help, samples);
        text
    }
}

/// The error of a connection that ends because of a limit.
fn over(refusal: &Refusal) -> io::Error {
    io::Error::new(io::ErrorKind::QuotaExceeded, refusal.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn allowances(of: &[(&str, &str)], others: &str) -> Allowances {
        let of = of.iter().map(|(user, text)| ((*user).to_owned(), text.parse().unwrap()));
        Allowances { of: of.collect(), others: others.parse().unwrap() }
    }

    #[test]
    fn connections_have_places() {
        let accounts = Accounts::default();
        accounts.allow(allowances(&[("a", "connections=3")], "connections=1"));
        let account = accounts.of("b");
        let place = account.place().unwrap();
        let refusal = accounts.of("b").place().unwrap_err();
        assert_eq!(refusal.status, Status::Busy);
        assert!(refusal.to_string().contains("may have 1 connections"), "{refusal}");
        let others: Vec<_> = (0..3).map(|_| accounts.of("a").place().unwrap()).collect();
        assert!(accounts.of("a").place().is_err());
        drop((place, others));
        assert!(account.place().is_ok() && accounts.of("a").place().is_ok());
        // A change holds for those who are there.
        accounts.allow(allowances(&[], "connections=2"));
        let places = [account.place(), account.place()].map(Result::unwrap);
        assert!(account.place().is_err());
        accounts.allow(Allowances::default());
        assert!(account.place().is_ok());
        drop(places);
    }

    #[test]
    fn limits_are_kept_over_restarts() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("far.usage");
        let start = || {
            let allowances = allowances(&[("a", "limit=1kB/d")], "limit=3kB/d");
            Accounts::open(file.clone(), allowances).unwrap()
        };
        let first = start();
        let [a, b] = ["a", "b"].map(|user| first.of(user));
        assert!(a.carried(Direction::ToTarget, 999, false).is_ok() && a.place().is_ok());
        assert!(b.carried(Direction::ToTarget, 2000, false).is_ok());
        first.save().unwrap();
        let error = a.carried(Direction::FromTarget, 1, false).unwrap_err().to_string();
        assert!(error.contains("1kB/d, is used up for another 24 h 0 min"), "{error}");
        assert!(!a.takes(Direction::ToTarget, 1, false) && a.place().is_err());
        first.save().unwrap();
        let again = start();
        assert!(again.of("a").place().is_err() && again.of("b").place().is_ok());
        assert!(again.of("b").carried(Direction::ToTarget, 1000, false).is_err());
        // A higher limit frees at once.
        again.allow(allowances(&[("a", "limit=2kB/d")], "limit=3kB/d"));
        assert!(again.of("a").place().is_ok());
        // Who was not there keeps what was used.
        let third = start();
        assert!(third.of("b").carried(Direction::ToTarget, 999, false).is_ok());
        third.save().unwrap();
        assert!(start().of("a").place().is_err());
        std::fs::write(&file, "x").unwrap();
        let error = Accounts::open(file.clone(), Allowances::default()).unwrap_err();
        assert!(error.contains("far.usage") && error.contains("delete it"), "{error}");
    }

    #[test]
    fn a_disk_that_refuses_is_an_error_and_tried_again() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("none/far.usage");
        let accounts = Accounts::open(file, allowances(&[], "limit=1kB/d")).unwrap();
        accounts.of("a").carried(Direction::ToTarget, 5, false).unwrap();
        assert!(accounts.save().unwrap_err().contains("cannot be saved in"));
        std::fs::create_dir(folder.path().join("none")).unwrap();
        assert_eq!(accounts.save(), Ok(()));
    }

    #[test]
    fn users_have_metrics() {
        let accounts = Accounts::default();
        accounts.allow(allowances(&[], "limit=1kB/d"));
        let _place = accounts.of("a").place().unwrap();
        accounts.of("a").carried(Direction::FromTarget, 7, false).unwrap();
        let text = accounts.prometheus();
        for line in [
            "user_open{user=\"a\"} 1",
            "user_bytes_received_total{user=\"a\"} 7",
            "user_limit_bytes{user=\"a\"} 1000",
            "user_limit_used_bytes{user=\"a\"} 7",
        ] {
            assert!(text.contains(&format!("\nanabranch_gateway_{line}\n")), "{text}");
        }
    }
}
