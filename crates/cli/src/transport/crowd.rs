//! The TCP connections of a server: no more than leave descriptors for files and for what else it does.
//!
//! Whoever connects and says nothing is waited for, but gives way when there are too many: to open connections costs
//! a stranger nothing, and each of them is a descriptor here.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use tokio::task::{AbortHandle, JoinSet};

/// Whether a connection has asked anything.
#[derive(Clone, Debug, Default)]
pub(super) struct Asked(Arc<AtomicBool>);

impl Asked {
    /// It has.
    pub(super) fn note(&self) {
        self.0.store(true, Relaxed);
    }

    fn has(&self) -> bool {
        self.0.load(Relaxed)
    }
}

/// Connections, each with its task.
#[derive(Debug)]
pub(super) struct Crowd {
    most: usize,
    tasks: JoinSet<()>,
    /// Those that had asked nothing when they were last looked at, the oldest first.
    silent: VecDeque<(AbortHandle, Asked)>,
}

impl Crowd {
    /// So many at the most.
    pub(super) fn new(most: usize) -> Self {
        Self { most: most.max(1), tasks: JoinSet::new(), silent: VecDeque::new() }
    }

    /// Whether all places are taken by connections that have asked something: another one has to wait for the end of
    /// one of them.
    pub(super) fn is_full(&mut self) -> bool {
        self.forget();
        self.tasks.len() >= self.most && self.silent.is_empty()
    }

    /// Takes in a connection, for which the oldest that has asked nothing gives way if there are too many.
    pub(super) fn add<F>(&mut self, connection: impl FnOnce(Asked) -> F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        self.forget();
        if self.tasks.len() >= self.most
            && let Some((task, _)) = self.silent.pop_front()
        {
            task.abort();
        }
        let asked = Asked::default();
        let task = self.tasks.spawn(connection(asked.clone()));
        self.silent.push_back((task, asked));
    }

    /// Waits for the end of one; for ever if there is none.
    pub(super) async fn ended(&mut self) {
        if self.tasks.join_next().await.is_none() {
            std::future::pending::<()>().await;
        }
    }

    /// Those that have asked or ended are not silent any more.
    fn forget(&mut self) {
        let is_silent = |(task, asked): &(AbortHandle, Asked)| !asked.has() && !task.is_finished();
        while self.silent.front().is_some_and(|first| !is_silent(first)) {
            self.silent.pop_front();
        }
        if self.silent.len() > 2 * self.tasks.len() {
            self.silent.retain(is_silent);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use super::*;

    /// Counts the connections that there are.
    struct Open(Arc<AtomicUsize>);

    impl Drop for Open {
        fn drop(&mut self) {
            self.0.fetch_sub(1, Relaxed);
        }
    }

    #[tokio::test]
    async fn who_says_nothing_gives_way() {
        let (open, mut crowd) = (Arc::new(AtomicUsize::new(0)), Crowd::new(3));
        let add = |crowd: &mut Crowd, says: bool| {
            open.fetch_add(1, Relaxed);
            let here = Open(Arc::clone(&open));
            crowd.add(|asked| async move {
                let _here = here;
                if says {
                    asked.note();
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
                crowd.ended().await;
            }
            assert!(open.load(Relaxed) <= 3);
        }
        add(&mut crowd, true);
        add(&mut crowd, true);
        while crowd.tasks.len() > 3 {
            crowd.ended().await;
        }
        tokio::task::yield_now().await;
        assert!(crowd.is_full(), "nobody who has asked gives way");
        assert_eq!(open.load(Relaxed), 3);
    }
}
