//! Timers with a descriptor that becomes readable when one expires.
//!
//! tokio's own only limit how long it waits for descriptors, and an event loop does the waiting here.

use std::sync::Arc;

use anabranch::runtime::{Runtime as _, Timer, TokioRuntime};
use tokio::runtime::Handle;

/// Makes a timer that is not running.
pub(super) fn new(handle: &Handle, clock: &TokioRuntime) -> Box<dyn Timer> {
    #[cfg(target_os = "linux")]
    if let Ok(timer) = descriptor::Descriptor::new(handle, clock) {
        return Box::new(timer);
    }
    // Without descriptors, tokio's: they are late if nothing else happens.
    let _inside = handle.enter();
    Arc::new(clock.clone()).timer()
}

#[cfg(target_os = "linux")]
mod descriptor {
    use std::io;
    use std::os::fd::OwnedFd;
    use std::task::{Context, Poll, ready};
    use std::time::Duration;

    use anabranch::runtime::{Instant, Runtime as _, Timer, TokioRuntime};
    use rustix::time::{
        Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
        timerfd_settime,
    };
    use tokio::io::Interest;
    use tokio::io::unix::AsyncFd;
    use tokio::runtime::Handle;

    /// Later deadlines expire then; what waits looks at the clock anyway.
    const LONGEST: Duration = Duration::from_secs(24 * 60 * 60);

    /// A timer of the system.
    #[derive(Debug)]
    pub(super) struct Descriptor {
        timer: AsyncFd<OwnedFd>,
        clock: TokioRuntime,
        has_expired: bool,
    }

    impl Descriptor {
        #[expect(
            deprecated,
            reason = "its successor is unsafe code, to promise that the descriptor stays open, and \
                      the standard library's owner keeps it open"
        )]
        pub(super) fn new(handle: &Handle, clock: &TokioRuntime) -> io::Result<Self> {
            let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
            let timer = timerfd_create(TimerfdClockId::Monotonic, flags)?;
            let _inside = handle.enter();
            let timer = AsyncFd::with_interest(timer, Interest::READABLE)?;
            Ok(Self { timer, clock: clock.clone(), has_expired: false })
        }
    }

    impl Timer for Descriptor {
        fn reset(&mut self, deadline: Instant) {
            let after = deadline.saturating_since(self.clock.now());
            // Zero would stop it.
            let after = after.clamp(Duration::from_nanos(1), LONGEST);
            let zero = Timespec { tv_sec: 0, tv_nsec: 0 };
            let value = Timespec::try_from(after).unwrap_or(Timespec { tv_sec: 1, tv_nsec: 0 });
            let once = Itimerspec { it_interval: zero, it_value: value };
            // This fails only for values out of range.
            let set = timerfd_settime(self.timer.get_ref(), TimerfdTimerFlags::empty(), &once);
            self.has_expired = set.is_err();
        }

        fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
            while !self.has_expired {
                // This fails only when the runtime ends.
                let Ok(mut guard) = ready!(self.timer.poll_read_ready(cx)) else {
                    return Poll::Pending;
                };
                let mut count = [0; 8];
                // Setting it again has reset the count, so an expiry of before is not seen.
                self.has_expired = rustix::io::read(self.timer.get_ref(), &mut count).is_ok();
                guard.clear_ready();
            }
            Poll::Ready(())
        }
    }
}
