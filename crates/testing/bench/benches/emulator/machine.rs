//! The processors of a measurement, and clocks for real and processor time.

use std::num::NonZeroU64;
use std::time::Duration;

use nix::sys::resource::{UsageWho, getrusage};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity, set_current_timer_slack};
use rustix::time::{ClockId, clock_gettime};

/// The processor of the emulator, and that of its ends.
pub(crate) const PROCESSORS: [usize; 2] = [0, 1];

/// Pins this thread, and the processes that it starts, to one processor. On a machine with one processor nothing
/// changes.
pub(crate) fn pin(processor: usize) {
    let mut set = CpuSet::new();
    set.set(processor);
    // If this is refused, results are only less exact.
    let _ = sched_setaffinity(None, &set);
}

/// Runs a function on one processor, and then returns to all of them.
pub(crate) fn pinned<V>(processor: usize, run: impl FnOnce() -> V) -> V {
    let before = sched_getaffinity(None);
    pin(processor);
    let value = run();
    if let Ok(before) = before {
        let _ = sched_setaffinity(None, &before);
    }
    value
}

/// Makes sleeps end on time even on a busy machine, as far as the system allows it.
pub(crate) fn wake_in_time() {
    let _ = set_current_timer_slack(NonZeroU64::new(1));
    let _ = rustix::process::setpriority_process(None, -20);
}

/// The same for ends that sleep between packets, with a real-time priority as far as the system allows it. An end that
/// waits for a processor would measure the machine.
#[cfg(target_os = "linux")]
pub(crate) fn be_first() {
    use thread_priority::{RealtimeThreadSchedulePolicy::Fifo, ThreadPriority};
    use thread_priority::{ThreadSchedulePolicy, set_thread_priority_and_policy, thread_native_id};
    let policy = ThreadSchedulePolicy::Realtime(Fifo);
    let _ = set_thread_priority_and_policy(thread_native_id(), ThreadPriority::Min, policy);
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn be_first() {}

/// Nanoseconds of a clock shared by all processes.
pub(crate) fn now() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    u64::try_from(time.tv_sec * 1_000_000_000 + time.tv_nsec).unwrap_or(0)
}

/// Nanoseconds of the clock that the kernel uses for receive timestamps.
pub(crate) fn wall() -> u64 {
    let time = clock_gettime(ClockId::Realtime);
    u64::try_from(time.tv_sec * 1_000_000_000 + time.tv_nsec).unwrap_or(0)
}

/// How late a thread wakes that only sleeps until the next tenth of a millisecond, with the emulator's priority and on
/// its processor, measured for a second: nanoseconds, 99th percentile. No timer on this machine can be more exact.
pub(crate) fn lateness() -> f64 {
    const STEP: u64 = 100_000;
    let watch = || {
        wake_in_time();
        be_first();
        let begun = now();
        let mut late: Vec<u64> = (1..10_000)
            .map(|number| {
                let due = begun + number * STEP;
                std::thread::sleep(Duration::from_nanos(due.saturating_sub(now())));
                now().saturating_sub(due)
            })
            .collect();
        late.sort_unstable();
        late.get(late.len() * 99 / 100).map_or(f64::NAN, |late| *late as f64)
    };
    let watching = || std::thread::scope(|scope| scope.spawn(watch).join());
    pinned(PROCESSORS[0], watching).unwrap_or(f64::NAN)
}

/// Processor seconds of the child processes that this process has waited for.
pub(crate) fn childrens_seconds() -> f64 {
    let Ok(usage) = getrusage(UsageWho::RUSAGE_CHILDREN) else { return 0.0 };
    let seconds =
        |time: nix::sys::time::TimeVal| time.tv_sec() as f64 + time.tv_usec() as f64 * 1e-6;
    seconds(usage.user_time()) + seconds(usage.system_time())
}
