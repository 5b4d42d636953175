//! Runs the tasks of sockets: on its own thread, or on a runtime that the caller drives.

use std::fmt;
use std::future::Future;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use anabranch::runtime::{Runtime, TokioRuntime};

use crate::error::Error;
use crate::lock::lock;

/// A runtime, and the means to run its tasks.
pub(crate) struct Reactor {
    runtime: Arc<dyn Runtime>,
    /// Runs tasks until none can make progress. For runtimes that do not run tasks themselves.
    settle: Option<Box<dyn Fn() + Send + Sync>>,
    /// Runs the tasks until it is dropped.
    threads: Option<tokio::runtime::Runtime>,
}

impl fmt::Debug for Reactor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reactor").field("runtime", &self.runtime).finish_non_exhaustive()
    }
}

impl Reactor {
    /// A reactor on a runtime whose tasks `settle` runs until none can make progress.
    pub(crate) fn on(runtime: Arc<dyn Runtime>, settle: Box<dyn Fn() + Send + Sync>) -> Self {
        Self { runtime, settle: Some(settle), threads: None }
    }

    /// A reactor on the operating system's sockets, with a thread that runs the tasks.
    pub(crate) fn start() -> Result<Self, Error> {
        let threads = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("anabranch")
            .enable_all()
            .build()?;
        let runtime = {
            let _within = threads.enter();
            TokioRuntime::current().ok_or(Error::Io)?
        };
        Ok(Self { runtime: Arc::new(runtime), settle: None, threads: Some(threads) })
    }

    pub(crate) fn runtime(&self) -> Arc<dyn Runtime> {
        self.runtime.clone()
    }

    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.runtime.spawn(Box::pin(task));
    }

    /// Whether tasks run only in [`settle`](Self::settle).
    pub(crate) fn settles(&self) -> bool {
        self.settle.is_some()
    }

    /// Runs all tasks that can run, unless a thread does that.
    pub(crate) fn settle(&self) {
        if let Some(settle) = &self.settle {
            settle();
        }
    }

    /// Runs a future on the reactor's thread and waits for it, at most for `limit`. Returns whether it completed;
    /// `false` if there is no such thread. Tasks must not call this.
    ///
    /// The calling thread only sleeps, so it may call this when its thread-local variables are gone: in `atexit`
    /// handlers and in library destructors.
    pub(crate) fn within(
        &self,
        limit: Option<Duration>,
        future: impl Future<Output = ()> + Send + 'static,
    ) -> bool {
        let Some(threads) = &self.threads else { return false };
        let result = Arc::new((Mutex::new(None), Condvar::new()));
        let outcome = Outcome(result.clone());
        threads.spawn(async move {
            let mut outcome = outcome;
            let done = match limit {
                Some(limit) => tokio::time::timeout(limit, future).await.is_ok(),
                None => {
                    future.await;
                    true
                }
            };
            // An endpoint reports the end of an association before it sends the last packet to the
            // peer. Once the thread runs another task, the packet has been sent and the program may
            // exit.
            let _ = tokio::spawn(async {}).await;
            outcome.set(done);
        });
        let (done, changed) = &*result;
        let mut done = lock(done);
        loop {
            if let Some(done) = *done {
                return done;
            }
            done = changed.wait(done).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl Drop for Reactor {
    /// Does not wait for tasks, because a task may drop the last reference.
    fn drop(&mut self) {
        if let Some(threads) = self.threads.take() {
            threads.shutdown_background();
        }
    }
}

/// Stores the outcome of a task: not completed if the task is dropped early.
struct Outcome(Arc<(Mutex<Option<bool>>, Condvar)>);

impl Outcome {
    fn set(&mut self, done: bool) {
        lock(&self.0.0).get_or_insert(done);
        self.0.1.notify_all();
    }
}

impl Drop for Outcome {
    fn drop(&mut self) {
        self.set(false);
    }
}
