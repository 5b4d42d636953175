//! The tasks of a home: those of endpoints.

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::task::{Context, Wake, Waker};

use super::Home;

pub(super) type Boxed = Pin<Box<dyn Future<Output = ()> + Send>>;

/// A future that whoever runs the home polls when it is woken.
pub(super) struct Task {
    future: Mutex<Option<Boxed>>,
    woken: AtomicBool,
    home: Weak<Home>,
}

impl Task {
    /// A task that is already woken.
    pub(super) fn new(future: Boxed, home: Weak<Home>) -> Arc<Self> {
        Arc::new(Self { future: Mutex::new(Some(future)), woken: AtomicBool::new(true), home })
    }

    pub(super) fn is_woken(&self) -> bool {
        self.woken.load(Ordering::Acquire)
    }

    /// Polls it. Returns whether it has ended.
    pub(super) fn run(self: &Arc<Self>) -> bool {
        // Before the poll: what happens during it is a reason for another one.
        self.woken.store(false, Ordering::Release);
        let mut slot = self.future.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(future) = slot.as_mut() else { return true };
        let waker = Waker::from(Arc::clone(self));
        let is_done = future.as_mut().poll(&mut Context::from_waker(&waker)).is_ready();
        if is_done {
            *slot = None;
        }
        is_done
    }
}

impl Wake for Task {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if !self.woken.swap(true, Ordering::AcqRel)
            && let Some(home) = self.home.upgrade()
        {
            home.task_woken();
        }
    }
}
