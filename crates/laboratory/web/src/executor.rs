//! Tasks in virtual time, on one thread.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use anabranch::runtime::Instant;

use crate::network::Network;
use crate::timers::Timers;

/// A task that runs concurrently with the main one.
type Task = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Virtual time: tasks, timers and the network between two hosts.
///
/// Handles are cheap to clone and share everything.
#[derive(Clone, Debug)]
pub struct World {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    ready: Arc<Ready>,
    state: Mutex<State>,
}

/// The mutable state.
pub(crate) struct State {
    pub(crate) now: u64,
    pub(crate) timers: Timers,
    pub(crate) network: Network,
    tasks: BTreeMap<u64, (Task, Waker)>,
    last_task: u64,
}

impl fmt::Debug for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("State").field("now", &self.now).finish_non_exhaustive()
    }
}

/// Tasks that are ready, in the order in which they were woken.
#[derive(Debug, Default)]
struct Ready {
    line: Mutex<Line>,
}

#[derive(Debug, Default)]
struct Line {
    tasks: VecDeque<Arc<Turn>>,
    /// The waker of the task that polls all others, while none is ready.
    poller: Option<Waker>,
}

impl Ready {
    fn line(&self) -> MutexGuard<'_, Line> {
        self.line.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Queues a task, at most once.
#[derive(Debug)]
struct Turn {
    task: u64,
    in_line: AtomicBool,
    ready: Arc<Ready>,
}

impl Wake for Turn {
    fn wake(self: Arc<Self>) {
        if self.in_line.swap(true, Ordering::Relaxed) {
            return;
        }
        let mut line = self.ready.line();
        line.tasks.push_back(Arc::clone(&self));
        let poller = line.poller.take();
        drop(line);
        if let Some(poller) = poller {
            poller.wake();
        }
    }
}

/// The number of the main task.
const MAIN: u64 = 0;

impl World {
    pub(crate) fn new(network: Network) -> Self {
        let state = State {
            now: 0,
            timers: Timers::default(),
            network,
            tasks: BTreeMap::new(),
            last_task: MAIN,
        };
        Self { shared: Arc::new(Shared { ready: Arc::default(), state: Mutex::new(state) }) }
    }

    /// The time since the start.
    pub fn now(&self) -> Duration {
        Duration::from_nanos(self.state().now)
    }

    pub(crate) fn instant(&self) -> Instant {
        Instant::from_nanos(self.state().now)
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.shared.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn turn(&self, task: u64) -> Arc<Turn> {
        let ready = Arc::clone(&self.shared.ready);
        Arc::new(Turn { task, in_line: AtomicBool::new(false), ready })
    }

    /// Runs a task concurrently with the others.
    pub(crate) fn spawn(&self, task: Task) {
        let mut state = self.state();
        state.last_task += 1;
        let turn = self.turn(state.last_task);
        let id = state.last_task;
        state.tasks.insert(id, (task, Waker::from(Arc::clone(&turn))));
        drop(state);
        turn.wake();
    }

    /// Runs `main` and all tasks that it spawns, until `main` is done or `limit` of virtual time
    /// has passed, in which case it returns `None`. The remaining tasks are dropped.
    ///
    /// # Errors
    /// tokio's timers are not available.
    pub(crate) fn run<F: Future>(
        &self,
        main: F,
        limit: Duration,
    ) -> std::io::Result<Option<F::Output>> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()?;
        let done = runtime.block_on(async {
            let mut main = pin!(main);
            let mut leap = Leap::new(limit);
            let turn = self.turn(MAIN);
            let waker = Waker::from(Arc::clone(&turn));
            turn.wake();
            std::future::poll_fn(|cx| self.poll(cx, main.as_mut(), &waker, &mut leap)).await
        });
        // Tasks hold the world, and would keep it forever. Dropping them may lock it.
        loop {
            let mut state = self.state();
            let Some((_, task)) = state.tasks.pop_first() else { break };
            drop(state);
            drop(task);
        }
        Ok(done)
    }

    /// Continues until `main` is done, or until tokio's clock is behind.
    fn poll<F: Future>(
        &self,
        cx: &mut Context<'_>,
        mut main: Pin<&mut F>,
        main_waker: &Waker,
        leap: &mut Leap,
    ) -> Poll<Option<F::Output>> {
        // Tasks woken by tokio's timers run at their time, after those that were due earlier.
        self.follow(leap.passed());
        loop {
            while let Some(turn) = self.next_turn() {
                if turn.task == MAIN {
                    if let Poll::Ready(done) =
                        main.as_mut().poll(&mut Context::from_waker(main_waker))
                    {
                        return Poll::Ready(Some(done));
                    }
                    continue;
                }
                let taken = self.state().tasks.remove(&turn.task);
                let Some((mut task, waker)) = taken else { continue };
                if task.as_mut().poll(&mut Context::from_waker(&waker)).is_pending() {
                    self.state().tasks.insert(turn.task, (task, waker));
                }
            }
            let next = self.state().next_deadline();
            if next.is_none_or(|next| next >= leap.limit) && leap.passed() >= leap.limit {
                return Poll::Ready(None);
            }
            match next.filter(|next| *next <= leap.passed()) {
                Some(next) => self.reach(next),
                None => {
                    self.shared.ready.line().poller = Some(cx.waker().clone());
                    let until = next.unwrap_or(u64::MAX).min(leap.limit);
                    if leap.poll(cx, until).is_pending() {
                        return Poll::Pending;
                    }
                }
            }
        }
    }

    fn next_turn(&self) -> Option<Arc<Turn>> {
        let turn = self.shared.ready.line().tasks.pop_front()?;
        turn.in_line.store(false, Ordering::Relaxed);
        Some(turn)
    }

    /// Advances the time to `to`, or to the next deadline if that is earlier.
    fn follow(&self, to: u64) {
        let mut state = self.state();
        let next = state.next_deadline().unwrap_or(u64::MAX);
        state.now = state.now.max(to.min(next));
    }

    /// Handles everything due at `next`.
    fn reach(&self, next: u64) {
        let mut state = self.state();
        state.now = state.now.max(next);
        let now = state.now;
        let mut woken = Vec::new();
        state.network.arrive(now, &mut woken);
        state.timers.expire(now, &mut woken);
        drop(state);
        woken.into_iter().for_each(Waker::wake);
    }
}

impl State {
    fn next_deadline(&self) -> Option<u64> {
        [self.timers.next(), self.network.next_deadline()].into_iter().flatten().min()
    }
}

/// Makes tokio's clock jump, in milliseconds: it is ahead of ours by less than one.
struct Leap {
    origin: tokio::time::Instant,
    sleep: Pin<Box<tokio::time::Sleep>>,
    limit: u64,
}

impl Leap {
    fn new(limit: Duration) -> Self {
        let limit = u64::try_from(limit.as_nanos()).unwrap_or(u64::MAX);
        let origin = tokio::time::Instant::now();
        Self { origin, sleep: Box::pin(tokio::time::sleep(Duration::ZERO)), limit }
    }

    /// The time passed by tokio's clock.
    fn passed(&self) -> u64 {
        u64::try_from(self.origin.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    fn poll(&mut self, cx: &mut Context<'_>, until: u64) -> Poll<()> {
        self.sleep.as_mut().reset(self.origin + Duration::from_nanos(until));
        self.sleep.as_mut().poll(cx)
    }
}
