//! Where the endpoints of an event loop live.
//!
//! The loop's own thread runs them. It watches one descriptor, that of tokio's reactor, and goes on when that is
//! readable: a packet has arrived, a timer has expired, or a call wants something to be sent. So a packet costs no switch
//! of threads, and sending none either.
//!
//! A loop that is busy with something else would let the peer wait for acknowledgements, and paths would seem to fail. So
//! a [warden](warden) watches the same descriptor. If nobody has answered it for a while, the warden runs the endpoints,
//! until the loop wants them back. It also runs those of loops that have ended, and of programs without one.

mod runtime;
mod task;
mod timer;
mod warden;

use std::cell::Cell;
use std::future::poll_fn;
use std::io;
use std::os::fd::{AsRawFd as _, RawFd};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, TryLockError};
use std::task::{Poll, Waker};

use anabranch::runtime::TokioRuntime;
use tokio::runtime::{Handle, Runtime};
use tokio::sync::Notify;

pub(crate) use runtime::HomeRuntime;
use task::Task;

use crate::operation::Wakeups;

/// How many times a drive runs tasks that are woken and looks for arrivals, before it lets the event loop do something
/// else.
const ROUNDS: usize = 16;

thread_local! {
    /// The home that this thread runs, by its address: tasks that are woken meanwhile need not ring.
    static DRIVEN: Cell<usize> = const { Cell::new(0) };
}

/// The endpoints of one event loop, with their tasks, sockets and timers.
pub(crate) struct Home {
    /// Whoever runs the endpoints holds this.
    runtime: Mutex<Option<Runtime>>,
    handle: Handle,
    tokio: TokioRuntime,
    /// The descriptor of the reactor; `None` where the system cannot tell it. Then the warden runs everything.
    descriptor: Option<RawFd>,
    /// Makes the descriptor readable, or wakes the warden if it runs the endpoints.
    bell: OnceLock<Waker>,
    tasks: Mutex<Vec<Arc<Task>>>,
    /// How often the loop has run the endpoints.
    drives: AtomicU64,
    /// The loop waits for the warden to stop.
    wanted: AtomicBool,
    /// A call has rung since the last drive.
    rung: AtomicBool,
    gone: Arc<Notify>,
}

impl Home {
    /// Makes one, with a warden.
    pub(crate) fn new() -> io::Result<Arc<Self>> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let handle = runtime.handle().clone();
        let tokio = {
            let _inside = handle.enter();
            let current = TokioRuntime::current().ok_or_else(|| io::Error::other("no runtime"))?;
            // The tasks that packets wake are Python's.
            current.without_turns()
        };
        let descriptor = reactor(&runtime)?;
        let home = Arc::new(Self {
            runtime: Mutex::new(Some(runtime)),
            handle,
            tokio,
            descriptor,
            bell: OnceLock::new(),
            tasks: Mutex::default(),
            drives: AtomicU64::new(0),
            wanted: AtomicBool::new(false),
            rung: AtomicBool::new(false),
            gone: Arc::default(),
        });
        home.run(&home.lock(), || false, || ());
        warden::watch(&home)?;
        Ok(home)
    }

    /// What an event loop watches.
    pub(crate) fn descriptor(&self) -> Option<RawFd> {
        self.descriptor
    }

    /// Runs everything that can run, without waiting, when the loop has found the descriptor readable. Ends early if
    /// `wakeups` has something for the loop: it looks at the descriptor soon again.
    pub(crate) fn drive(&self, wakeups: &Wakeups) {
        let runtime = self.lock();
        self.run(&runtime, || wakeups.any(), || ());
    }

    /// Calls `act`, which gives something to send, and sends it: at once, or when the loop looks at the descriptor next.
    /// Then several messages share packets.
    pub(crate) fn send<T>(&self, at_once: bool, wakeups: &Wakeups, act: impl FnOnce() -> T) -> T {
        if at_once {
            let runtime = self.lock();
            return self.run(&runtime, || wakeups.any(), act);
        }
        let result = self.as_driven(act);
        if self.any_woken() && !self.rung.swap(true, Ordering::Relaxed) {
            self.ring();
        }
        result
    }

    /// Calls `act`, then runs what can run, as long as `enough` does not say otherwise.
    fn run<T>(
        &self,
        runtime: &MutexGuard<'_, Option<Runtime>>,
        enough: impl Fn() -> bool,
        act: impl FnOnce() -> T,
    ) -> T {
        self.drives.fetch_add(1, Ordering::Relaxed);
        self.rung.store(false, Ordering::Relaxed);
        let result = self.as_driven(|| {
            let result = act();
            if let Some(runtime) = &**runtime {
                runtime.block_on(self.steps(enough));
            }
            result
        });
        if self.any_woken() {
            self.ring();
        }
        result
    }

    /// Runs woken tasks and takes arrivals, in turns.
    async fn steps(&self, enough: impl Fn() -> bool) {
        // The waker of this future is that of the runtime, now and later.
        poll_fn(|cx| {
            self.bell.get_or_init(|| cx.waker().clone());
            Poll::Ready(())
        })
        .await;
        for _ in 0..ROUNDS {
            self.run_woken();
            if enough() {
                return;
            }
            // The reactor looks once, without waiting.
            tokio::task::yield_now().await;
            if !self.any_woken() {
                return;
            }
        }
    }

    /// Runs everything until the loop wants to do it, or nothing is left: the warden's part.
    fn stand_in(&self) {
        let runtime = self.lock_anyhow();
        let Some(inner) = &*runtime else { return };
        inner.block_on(poll_fn(|cx| {
            self.run_woken();
            if self.wanted.load(Ordering::Acquire) || self.tasks().is_empty() {
                return Poll::Ready(());
            }
            if self.any_woken() {
                cx.waker().wake_by_ref();
            }
            Poll::Pending
        }));
    }

    fn as_driven<T>(&self, act: impl FnOnce() -> T) -> T {
        let before = DRIVEN.replace(self.address());
        let result = act();
        DRIVEN.set(before);
        result
    }

    fn address(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }

    /// Waits until the warden has stopped, if it runs the endpoints.
    fn lock(&self) -> MutexGuard<'_, Option<Runtime>> {
        match self.runtime.try_lock() {
            Ok(runtime) => return runtime,
            Err(TryLockError::Poisoned(runtime)) => return runtime.into_inner(),
            Err(TryLockError::WouldBlock) => {}
        }
        self.wanted.store(true, Ordering::Release);
        self.ring();
        let runtime = self.lock_anyhow();
        self.wanted.store(false, Ordering::Release);
        runtime
    }

    fn lock_anyhow(&self) -> MutexGuard<'_, Option<Runtime>> {
        self.runtime.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn ring(&self) {
        if let Some(bell) = self.bell.get() {
            bell.wake_by_ref();
        }
    }

    /// Called when a task is woken.
    fn task_woken(&self) {
        if DRIVEN.get() != self.address() {
            self.ring();
        }
    }

    fn any_woken(&self) -> bool {
        self.tasks().iter().any(|task| task.is_woken())
    }

    /// Polls each woken task once.
    fn run_woken(&self) {
        let woken: Vec<_> = self.tasks().iter().filter(|task| task.is_woken()).cloned().collect();
        for task in woken {
            if task.run() {
                self.tasks().retain(|other| !Arc::ptr_eq(other, &task));
            }
        }
    }

    fn tasks(&self) -> MutexGuard<'_, Vec<Arc<Task>>> {
        self.tasks.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        self.gone.notify_one();
        // Dropping it here would wait for it, which is not allowed everywhere.
        if let Some(runtime) = self.lock_anyhow().take() {
            runtime.shutdown_background();
        }
    }
}

/// The descriptor of the runtime's reactor. tokio does not tell it, but Linux tells what each descriptor of that kind
/// watches.
#[cfg(target_os = "linux")]
fn reactor(runtime: &Runtime) -> io::Result<Option<RawFd>> {
    use std::os::unix::net::UnixStream;

    let (known, _other) = UnixStream::pair()?;
    known.set_nonblocking(true)?;
    let number = known.as_raw_fd().to_string();
    let _inside = runtime.enter();
    let _watched = tokio::net::UnixStream::from_std(known)?;
    // Without /proc, the warden runs everything.
    let Ok(descriptors) = std::fs::read_dir("/proc/self/fdinfo") else { return Ok(None) };
    for entry in descriptors.flatten() {
        // Descriptors of other threads may be closed meanwhile.
        let Ok(text) = std::fs::read_to_string(entry.path()) else { continue };
        let watched = text.lines().filter_map(|line| line.strip_prefix("tfd:"));
        if watched.filter_map(|line| line.split_whitespace().next()).any(|fd| fd == number) {
            return Ok(entry.file_name().to_str().and_then(|name| name.parse().ok()));
        }
    }
    Ok(None)
}

#[cfg(not(target_os = "linux"))]
fn reactor(_runtime: &Runtime) -> io::Result<Option<RawFd>> {
    Ok(None)
}
