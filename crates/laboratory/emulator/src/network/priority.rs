//! Threads that must not wait for a processor.
//!
//! Even the highest priority of ordinary scheduling can wait several milliseconds for other threads. These threads
//! sleep whenever they have nothing to do, so they use a real-time priority where the system allows it. Root may always
//! use one.

use thread_priority::{
    RealtimeThreadSchedulePolicy, ThreadPriority, ThreadPriorityValue, ThreadSchedulePolicy,
    set_thread_priority_and_policy, thread_native_id,
};

/// The highest priority of ordinary scheduling.
const FIRST: i32 = -20;

/// The role of a thread; a later one has precedence.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Rank {
    /// One end of a measured transfer.
    End = 1,
    /// The network. Programs in it must not delay it.
    Network = 2,
}

/// Makes this thread run when it is due, as far as the system supports and allows such settings.
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
