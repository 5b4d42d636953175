//! Threads that must not wait for a processor.
//!
//! Even the highest priority of ordinary scheduling waits for others, up to some milliseconds. So these threads,
//! which sleep whenever there is nothing to do, have a real-time one, as far as the system allows it: root may.

use thread_priority::{
    RealtimeThreadSchedulePolicy, ThreadPriority, ThreadPriorityValue, ThreadSchedulePolicy,
    set_thread_priority_and_policy, thread_native_id,
};

/// The highest priority of ordinary scheduling.
const FIRST: i32 = -20;

/// What a thread is; a later one goes before an earlier one.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Rank {
    /// The end of a transfer that is measured.
    End = 1,
    /// The network: what runs in it shall not keep it from its times.
    Network = 2,
}

/// Lets this thread run when its time has come, as far as the system has such settings and allows them.
pub(crate) fn be_punctual(rank: Rank) {
    let _ = nix::sys::prctl::set_timerslack(1);
    let policy = ThreadSchedulePolicy::Realtime(RealtimeThreadSchedulePolicy::Fifo);
    let priority = ThreadPriorityValue::try_from(rank as u8).map(ThreadPriority::Crossplatform);
    let real_time = priority.is_ok_and(|priority| {
        set_thread_priority_and_policy(thread_native_id(), priority, policy).is_ok()
    });
    if !real_time {
        let _ = rustix::process::setpriority_process(None, FIRST);
    }
}
