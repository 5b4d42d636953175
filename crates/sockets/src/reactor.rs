//! What runs the tasks of sockets: a thread of its own, or a runtime that somebody else drives.

use std::fmt;
use std::future::Future;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use anabranch::runtime::{Runtime, TokioRuntime};

use crate::error::Error;
use crate::lock::lock;

/// A runtime, and what makes its tasks run.
pub(crate) struct Reactor {
    runtime: Arc<dyn Runtime>,
    /// Lets all tasks run that can, and returns when none can any more. For runtimes whose tasks
    /// nobody else runs.
    settle: Option<Box<dyn Fn() + Send + Sync>>,
    /// Runs the tasks while this lives.
    threads: Option<tokio::runtime::Runtime>,
}

impl fmt::Debug for Reactor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reactor").field("runtime", &self.runtime).finish_non_exhaustive()
    }
}

impl Reactor {
    /// A runtime that `settle` runs until no task can go on.
    pub(crate) fn on(runtime: Arc<dyn Runtime>, settle: Box<dyn Fn() + Send + Sync>) -> Self {
        Self { runtime, settle: Some(settle), threads: None }
    }

    /// The sockets of the operating system, with a thread that runs the tasks.
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

    /// Runs a task.
    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.runtime.spawn(Box::pin(task));
    }

    /// Whether tasks run only when somebody [settles](Self::settle) them.
    pub(crate) fn settles(&self) -> bool {
        self.settle.is_some()
    }

    /// Lets all tasks run that can, if nobody else does.
    pub(crate) fn settle(&self) {
        if let Some(settle) = &self.settle {
            settle();
        }
    }

    /// Waits until its own thread has carried out a future, at most for `limit`. Returns whether it is done;
    /// `false` if it has no thread of its own. No task may call this.
    ///
    /// The calling thread only sleeps. So this may be called when its thread-local variables are gone: from
    /// handlers of `atexit` and from destructors of libraries.
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
            // peer. The packet has left when its thread turns to something else. The program may end
            // then.
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
    /// Does not wait for tasks: one of them may drop the last reference.
    fn drop(&mut self) {
        if let Some(threads) = self.threads.take() {
            threads.shutdown_background();
        }
    }
}

/// Where the outcome of a task goes. A task that is dropped before it has one was not done.
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
