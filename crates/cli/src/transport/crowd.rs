//! The TCP connections of a server: no more than leave descriptors for files and for what else it does.
//!
//! A connection that has asked nothing, or has all of its answers, is ended when its place is needed: opening
//! connections costs a stranger nothing, and each of them is a descriptor here. What the system has taken of an answer
//! is still delivered then. Places are counted by address, for IPv6 by its first 64 bits: when all connections
//! are being answered, an address with more than a quarter of the places loses one to another address.

mod places;

use std::future::pending;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};

use self::places::{Places, Site};

/// How long a connection waits to be accepted when all others are being answered: one of them may end.
const PATIENCE: Duration = Duration::from_millis(250);

/// Connections that have been ended and still have their descriptor, at most.
const LEAVING: usize = 16;

/// Places, and a bell for who waits for one.
#[derive(Clone, Debug)]
struct Shared {
    places: Arc<Mutex<Places>>,
    changed: Arc<Notify>,
}

impl Shared {
    fn places(&self) -> MutexGuard<'_, Places> {
        self.places.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A connection's place, until it is dropped.
#[derive(Clone, Debug)]
pub(super) struct Activity {
    shared: Shared,
    number: u64,
}

impl Activity {
    /// The connection begins to be answered, or has all of its answers.
    pub(super) fn set_busy(&self, busy: bool) {
        self.shared.places().set_busy(self.number, busy);
        if !busy {
            self.shared.changed.notify_one();
        }
    }
}

/// Gives a place back.
struct Leave(Activity);

impl Drop for Leave {
    fn drop(&mut self) {
        self.0.shared.places().remove(self.0.number);
    }
}

/// Connections, each with its task.
#[derive(Debug)]
pub(super) struct Crowd {
    shared: Shared,
    tasks: JoinSet<()>,
    /// Since when nobody is accepted.
    full: Option<Instant>,
}

impl Crowd {
    /// At most this many.
    pub(super) fn new(most: usize) -> Self {
        let shared =
            Shared { places: Arc::new(Mutex::new(Places::new(most))), changed: Arc::default() };
        Self { shared, tasks: JoinSet::new(), full: None }
    }

    /// Whether another connection is to be accepted, which may have to be refused then.
    pub(super) fn accepts(&mut self) -> bool {
        let places = self.shared.places();
        if self.tasks.len() >= places.len() + LEAVING {
            return false;
        }
        if !places.is_full() || places.has_idle() {
            self.full = None;
            return true;
        }
        let since = *self.full.get_or_insert_with(Instant::now);
        places.has_greedy() && since.elapsed() >= PATIENCE
    }

    /// Takes in a connection. If there are too many, another one is ended for it, or it is dropped itself.
    pub(super) fn add<F>(&mut self, peer: IpAddr, connection: impl FnOnce(Activity) -> F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let site = Site::of(peer);
        let number = {
            let mut places = self.shared.places();
            if !places.make_room(site) {
                return;
            }
            places.add(site)
        };
        let activity = Activity { shared: self.shared.clone(), number };
        let leave = Leave(activity.clone());
        let connection = connection(activity);
        let task = self.tasks.spawn(async move {
            let _leave = leave;
            connection.await;
        });
        self.shared.places().set_task(number, task);
    }

    /// Waits until there may be room: for the end of a connection or of an answer, or when it has been full for a
    /// while.
    pub(super) async fn changed(&mut self) {
        let waited =
            self.full.map(|since| since + PATIENCE).filter(|until| *until > Instant::now());
        let while_full = async {
            match waited {
                Some(until) => sleep_until(until).await,
                None => pending().await,
            }
        };
        tokio::select! {
            Some(_) = self.tasks.join_next() => {}
            () = self.shared.changed.notified(), if self.full.is_some() => {}
            () = while_full => {}
        }
    }

    /// Waits until all connections have ended.
    pub(super) async fn ended(&mut self) {
        while self.tasks.join_next().await.is_some() {}
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

    use super::*;

    /// Counts the connections that there are.
    struct Open(Arc<AtomicUsize>);

    impl Drop for Open {
        fn drop(&mut self) {
            self.0.fetch_sub(1, Relaxed);
        }
    }

    /// A crowd whose connections are answered until `answered` is notified.
    struct Test {
        crowd: Crowd,
        open: Arc<AtomicUsize>,
        answered: Arc<Notify>,
    }

    impl Test {
        fn new(most: usize) -> Self {
            Self { crowd: Crowd::new(most), open: Arc::default(), answered: Arc::default() }
        }

        async fn add(&mut self, peer: [u8; 4], asks: bool) {
            self.open.fetch_add(1, Relaxed);
            let (here, answered) = (Open(Arc::clone(&self.open)), Arc::clone(&self.answered));
            self.crowd.add(peer.into(), |activity| async move {
                let _here = here;
                if asks {
                    activity.set_busy(true);
                    answered.notified().await;
                    activity.set_busy(false);
                }
                std::future::pending::<()>().await;
            });
            while self.crowd.tasks.len() > self.crowd.shared.places().len() {
                self.crowd.changed().await;
            }
            tokio::task::yield_now().await;
        }

        fn open(&self) -> usize {
            self.open.load(Relaxed)
        }
    }

    #[tokio::test(start_paused = true)]
    async fn who_says_nothing_is_ended() {
        let mut test = Test::new(3);
        test.add([10, 0, 0, 1], true).await;
        for _ in 0..20 {
            assert!(test.crowd.accepts());
            test.add([10, 0, 0, 1], false).await;
            assert!(test.open() <= 3);
        }
        test.add([10, 0, 0, 1], true).await;
        test.add([10, 0, 0, 1], true).await;
        assert!(!test.crowd.accepts(), "nobody whose answer is under way is ended");
        // One has its answer, and is ended at once when its place is needed.
        test.answered.notify_one();
        test.crowd.changed().await;
        assert!(test.crowd.accepts());
        test.add([10, 0, 0, 1], true).await;
        assert!(!test.crowd.accepts());
        assert_eq!(test.open(), 3);
    }

    #[tokio::test(start_paused = true)]
    async fn one_address_cannot_keep_the_others_out() {
        let mut test = Test::new(8);
        for _ in 0..8 {
            test.add([10, 0, 0, 1], true).await;
        }
        assert!(!test.crowd.accepts());
        while !test.crowd.accepts() {
            test.crowd.changed().await;
        }
        // It gets no more itself.
        test.add([10, 0, 0, 1], true).await;
        assert_eq!((test.open(), test.crowd.tasks.len()), (8, 8));
        for other in 2..=4 {
            test.add([10, 0, 0, other], true).await;
            test.add([10, 0, 0, other], true).await;
        }
        assert_eq!(test.open(), 8);
        assert!(!test.crowd.accepts() && !test.crowd.shared.places().has_greedy());
    }
}
