//! A runtime whose tasks run only when a thread calls [`Executor::settle`]: in a socket call, in
//! `netdev_send`, or in the thread that waits for timers. When `settle` returns, no task can make
//! progress.

use std::collections::{BTreeMap, VecDeque};
use std::future::Future;
use std::io;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError, Weak};
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, SystemTime};

use anabranch::runtime::Instant;
use anabranch::runtime::{Binding, LocalAddress, PacketSocket, Runtime, Timer};

use super::lock;
use super::network::{Network, Socket};

type Future_ = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Runs tasks.
pub(super) struct Executor {
    network: Arc<Network>,
    local: IpAddr,
    origin: std::time::Instant,
    /// Woken tasks.
    queue: Mutex<VecDeque<Arc<Task>>>,
    /// Held by the thread that runs tasks.
    running: Mutex<()>,
    timers: Mutex<Timers>,
    timers_changed: Condvar,
    this: Weak<Self>,
}

impl std::fmt::Debug for Executor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Executor").field("local", &self.local).finish_non_exhaustive()
    }
}

struct Task {
    future: Mutex<Option<Future_>>,
    /// In the queue.
    queued: AtomicBool,
    executor: Weak<Executor>,
}

impl Wake for Task {
    fn wake(self: Arc<Self>) {
        if let Some(executor) = self.executor.upgrade()
            && !self.queued.swap(true, Ordering::AcqRel)
        {
            lock(&executor.queue).push_back(self);
        }
    }
}

#[derive(Default)]
struct Timers {
    next: u64,
    /// By number: when the timer expires, and what to wake.
    running: BTreeMap<u64, (Instant, Option<Waker>)>,
    stopped: bool,
}

impl Executor {
    /// Starts the thread that waits for timers.
    pub(super) fn start(network: Arc<Network>, local: IpAddr) -> Arc<Self> {
        let executor = Arc::new_cyclic(|this| Self {
            network,
            local,
            origin: std::time::Instant::now(),
            queue: Mutex::default(),
            running: Mutex::new(()),
            timers: Mutex::default(),
            timers_changed: Condvar::new(),
            this: this.clone(),
        });
        let waiting = executor.clone();
        std::thread::spawn(move || while waiting.wait_for_timer() {});
        executor
    }

    /// Runs all tasks that can run, and waits for tasks that run on another thread.
    pub(super) fn settle(&self) {
        let _running = lock(&self.running);
        loop {
            let Some(task) = lock(&self.queue).pop_front() else { return };
            task.queued.store(false, Ordering::Release);
            let waker = Waker::from(task.clone());
            let mut future = lock(&task.future);
            let done = future
                .as_mut()
                .is_some_and(|f| f.as_mut().poll(&mut Context::from_waker(&waker)).is_ready());
            if done {
                *future = None;
            }
        }
    }

    /// Ends the thread. No timer expires after this.
    pub(super) fn stop(&self) {
        lock(&self.timers).stopped = true;
        self.timers_changed.notify_all();
    }

    /// Waits for the next timer and runs the tasks that it wakes. Returns false once stopped.
    fn wait_for_timer(&self) -> bool {
        let mut timers = lock(&self.timers);
        if timers.stopped {
            return false;
        }
        let now = self.now();
        let waiting = timers.running.values().filter(|(_, waker)| waker.is_some());
        let next = waiting.map(|(deadline, _)| *deadline).min();
        match next {
            None => {
                drop(self.timers_changed.wait(timers).unwrap_or_else(PoisonError::into_inner));
            }
            Some(next) if next > now => {
                let left = next.saturating_since(now).min(Duration::from_secs(3600));
                let waited = self.timers_changed.wait_timeout(timers, left);
                drop(waited.unwrap_or_else(PoisonError::into_inner));
            }
            Some(_) => {
                let due = timers.running.values_mut().filter(|(deadline, _)| *deadline <= now);
                let woken: Vec<Waker> = due.filter_map(|(_, waker)| waker.take()).collect();
                drop(timers);
                woken.into_iter().for_each(Waker::wake);
                self.settle();
            }
        }
        true
    }
}

impl Runtime for Executor {
    fn now(&self) -> Instant {
        Instant::ZERO + self.origin.elapsed()
    }

    fn wall_clock(&self) -> SystemTime {
        SystemTime::now()
    }

    fn timer(self: Arc<Self>) -> Box<dyn Timer> {
        let number = {
            let mut timers = lock(&self.timers);
            timers.next += 1;
            timers.next
        };
        Box::new(Alarm { executor: self, number })
    }

    fn spawn(&self, task: Future_) {
        let executor = self.this.clone();
        let task =
            Task { future: Mutex::new(Some(task)), queued: AtomicBool::new(false), executor };
        Arc::new(task).wake();
    }

    fn bind(&self, binding: &Binding) -> io::Result<Box<dyn PacketSocket>> {
        Ok(Box::new(Socket::new(self.network.clone(), binding.address.ip())))
    }

    fn local_addresses(&self) -> io::Result<Vec<LocalAddress>> {
        let interface = "packetdrill".to_owned();
        Ok(vec![LocalAddress { ip: self.local, interface, index: 1 }])
    }
}

struct Alarm {
    executor: Arc<Executor>,
    number: u64,
}

impl std::fmt::Debug for Alarm {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Alarm").field("number", &self.number).finish_non_exhaustive()
    }
}

impl Timer for Alarm {
    fn reset(&mut self, deadline: Instant) {
        lock(&self.executor.timers).running.insert(self.number, (deadline, None));
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let now = self.executor.now();
        match lock(&self.executor.timers).running.get_mut(&self.number) {
            Some((deadline, _)) if *deadline <= now => return Poll::Ready(()),
            Some((_, waker)) => *waker = Some(cx.waker().clone()),
            None => return Poll::Pending,
        }
        self.executor.timers_changed.notify_all();
        Poll::Pending
    }
}

impl Drop for Alarm {
    fn drop(&mut self) {
        lock(&self.executor.timers).running.remove(&self.number);
    }
}
