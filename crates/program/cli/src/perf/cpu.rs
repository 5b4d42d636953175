//! Processor time.

/// Seconds of processor time that this process has used so far, in user mode and in the kernel;
/// `None` if the system does not report it.
#[cfg(unix)]
pub(crate) fn seconds() -> Option<f64> {
    use nix::sys::resource::{UsageWho, getrusage};
    let usage = getrusage(UsageWho::RUSAGE_SELF).ok()?;
    let times = [usage.user_time(), usage.system_time()];
    Some(times.iter().map(|time| time.tv_sec() as f64 + time.tv_usec() as f64 * 1e-6).sum())
}

/// Seconds of processor time that this process has used so far; `None` if the system does not
/// report it.
#[cfg(not(unix))]
pub(crate) fn seconds() -> Option<f64> {
    None
}
