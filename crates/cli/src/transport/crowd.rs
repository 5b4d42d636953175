//! The TCP connections of a server: no more than leave descriptors for files and for what else it does.
//!
//! Whoever connects and says nothing is waited for, and so is whoever has an answer and may ask for more, but both give
//! way when there are too many, who says nothing first: to open connections costs a stranger nothing, and each of them
//! is a descriptor here.

use std::collections::VecDeque;
use std::future::pending;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::task::{AbortHandle, JoinSet};
use tokio::time::{Instant, sleep};

/// Who has got an answer is left alone for so long: some 400 KB of it may still be in buffers of HTTP/1.1, which take
/// a minute over 56 kbit/s.
const ANSWERED: Duration = Duration::from_secs(60);

/// How often it is looked whether somebody has become idle when nobody was.
const LOOK: Duration = Duration::from_secs(1);

/// What a connection has asked.
#[derive(Clone, Debug, Default)]
pub(super) struct Asked(Arc<Mutex<Requests>>);

#[derive(Debug, Default)]
struct Requests {
    /// Not yet answered.
    open: u32,
    /// When the last answer was over, or the last request came.
    last: Option<Instant>,
}

impl Asked {
    /// It asks something.
    pub(super) fn begin(&self) {
        let mut requests = self.requests();
        requests.open += 1;
        requests.last = Some(Instant::now());
    }

    /// An answer is over, whole or not.
    pub(super) fn end(&self) {
        let mut requests = self.requests();
        requests.open = requests.open.saturating_sub(1);
        requests.last = Some(Instant::now());
    }

    fn requests(&self) -> MutexGuard<'_, Requests> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn has(&self) -> bool {
        self.requests().last.is_some()
    }

    fn is_idle(&self) -> bool {
        let requests = self.requests();
        requests.open == 0 && requests.last.is_none_or(|last| last.elapsed() >= ANSWERED)
    }
}

/// A connection's task, and what was asked there.
type Connection = (AbortHandle, Asked);

/// Connections, each with its task.
#[derive(Debug)]
pub(super) struct Crowd {
    most: usize,
    tasks: JoinSet<()>,
    /// Those that had asked nothing when they were last looked at, the oldest first.
    silent: VecDeque<Connection>,
    /// The others, those first that were looked at least lately.
    known: VecDeque<Connection>,
    /// The one to give way next.
    next: Option<Connection>,
}

impl Crowd {
    /// So many at the most.
    pub(super) fn new(most: usize) -> Self {
        let (silent, known) = (VecDeque::new(), VecDeque::new());
        Self { most: most.max(1), tasks: JoinSet::new(), silent, known, next: None }
    }

    /// Whether all places are taken by connections that are being answered: another one has to wait.
    pub(super) fn is_full(&mut self) -> bool {
        self.tasks.len() >= self.most && !self.has_next()
    }

    /// Takes in a connection, for which another one gives way if there are too many.
    pub(super) fn add<F>(&mut self, connection: impl FnOnce(Asked) -> F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        if self.tasks.len() >= self.most
            && self.has_next()
            && let Some((task, _)) = self.next.take()
        {
            task.abort();
        }
        self.forget();
        let asked = Asked::default();
        let task = self.tasks.spawn(connection(asked.clone()));
        self.silent.push_back((task, asked));
    }

    /// Waits until there may be room: for the end of one, and when it is full for a while.
    pub(super) async fn ended(&mut self, full: bool) {
        let while_full = async {
            match full {
                true => sleep(LOOK).await,
                false => pending().await,
            }
        };
        tokio::select! {
            Some(_) = self.tasks.join_next() => {}
            () = while_full => {}
        }
    }

    /// Whether there is one to give way.
    fn has_next(&mut self) -> bool {
        match self.next.take() {
            Some(next) if next.1.is_idle() && !next.0.is_finished() => self.next = Some(next),
            before => {
                self.known.extend(before);
                self.next = self.find();
            }
        }
        self.next.is_some()
    }

    /// The oldest that has asked nothing, or one that is not being answered.
    fn find(&mut self) -> Option<Connection> {
        while let Some(first) = self.silent.pop_front() {
            match first.1.has() {
                true => self.known.push_back(first),
                false if first.0.is_finished() => {}
                false => return Some(first),
            }
        }
        for _ in 0..self.known.len() {
            let first = self.known.pop_front()?;
            if first.0.is_finished() {
                continue;
            }
            if first.1.is_idle() {
                return Some(first);
            }
            self.known.push_back(first);
        }
        None
    }

    /// Those that have ended are not looked at any more.
    fn forget(&mut self) {
        if self.silent.len() + self.known.len() > 2 * self.tasks.len() {
            self.silent.retain(|(task, _)| !task.is_finished());
            self.known.retain(|(task, _)| !task.is_finished());
        }
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

    #[tokio::test(start_paused = true)]
    async fn who_says_nothing_gives_way() {
        let (open, mut crowd) = (Arc::new(AtomicUsize::new(0)), Crowd::new(3));
        let answered = Arc::new(tokio::sync::Notify::new());
        let add = |crowd: &mut Crowd, says: bool| {
            open.fetch_add(1, Relaxed);
            let here = Open(Arc::clone(&open));
            let answered = Arc::clone(&answered);
            crowd.add(|asked| async move {
                let _here = here;
                if says {
                    asked.begin();
                    answered.notified().await;
                    asked.end();
                }
                std::future::pending::<()>().await;
            });
        };
        add(&mut crowd, true);
        tokio::task::yield_now().await;
        for _ in 0..20 {
            assert!(!crowd.is_full());
            add(&mut crowd, false);
            while crowd.tasks.len() > 3 {
                crowd.ended(false).await;
            }
            assert!(open.load(Relaxed) <= 3);
        }
        add(&mut crowd, true);
        add(&mut crowd, true);
        while crowd.tasks.len() > 3 {
            crowd.ended(false).await;
        }
        tokio::task::yield_now().await;
        assert!(crowd.is_full(), "nobody who waits for an answer gives way");
        assert_eq!(open.load(Relaxed), 3);
        // One is answered, and may ask for more for a while.
        answered.notify_one();
        crowd.ended(true).await;
        assert!(crowd.is_full(), "what was sent may be on its way");
        while crowd.is_full() {
            crowd.ended(true).await;
        }
        add(&mut crowd, true);
        crowd.ended(false).await;
        tokio::task::yield_now().await;
        assert!(crowd.is_full());
        assert_eq!(open.load(Relaxed), 3);
    }
}
