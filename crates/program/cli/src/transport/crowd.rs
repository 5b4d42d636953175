//! Limits the TCP connections of a server, to leave descriptors for files and other purposes.
//!
//! Opening connections costs a client nothing, but each needs a descriptor here. So if a place is needed, a connection
//! is closed that has sent no request yet, or has received all answers. Data that is already in the system's send
//! buffer is still delivered. Places are counted for each address; for IPv6, for its first 64 bits. When all
//! connections are being answered, an address with more than a quarter of the places loses one to another address.

mod places;

use std::future::pending;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};

use self::places::{Places, Site};

/// How long a new connection waits to be accepted while all others are being answered: one of them may end meanwhile.
const PATIENCE: Duration = Duration::from_millis(250);

/// Maximum number of closed connections that still hold their descriptors.
const LEAVING: usize = 16;

/// The places, and a notification for the task that waits for one.
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

/// The place of a connection, held until this is dropped.
#[derive(Clone, Debug)]
pub(super) struct Activity {
    shared: Shared,
    number: u64,
}

impl Activity {
    /// Sets whether the connection has an answer in progress.
    pub(super) fn set_busy(&self, busy: bool) {
        self.shared.places().set_busy(self.number, busy);
        if !busy {
            self.shared.changed.notify_one();
        }
    }
}

/// Releases a place.
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
    /// When accepting was suspended because all places were taken.
    full: Option<Instant>,
}

impl Crowd {
    /// Limits the number of connections.
    pub(super) fn new(most: usize) -> Self {
        let shared =
            Shared { places: Arc::new(Mutex::new(Places::new(most))), changed: Arc::default() };
        Self { shared, tasks: JoinSet::new(), full: None }
    }

    /// Whether to accept another connection, which may still be refused afterwards.
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

    /// Adds a connection. If all places are taken, closes another connection for it, or drops it.
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

    /// Waits until there may be room: until a connection or an answer ends, or until all places have been taken for a
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

    /// Counts the open connections.
    struct Open(Arc<AtomicUsize>);

    impl Drop for Open {
        fn drop(&mut self) {
            self.0.fetch_sub(1, Relaxed);
        }
    }

    /// A set of connections that are being answered until `answered` is notified.
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
        assert!(!test.crowd.accepts(), "no connection with an answer in progress is closed");
        // One connection has its answer, so it is closed as soon as its place is needed.
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
        // The same address does not get another place.
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
