//! Points in time passed as arguments, for code that reads no clock.

use std::fmt;
use std::num::NonZeroU64;
use std::ops::{Add, AddAssign, Sub};
use std::time::Duration;

/// A point in time in nanoseconds since an origin that the driver chooses.
///
/// Drivers map their monotonic clock (or virtual time) to it. All instants passed to one endpoint
/// or connection must have the same origin and must not decrease.
// Stores the nanoseconds plus one, so that an `Option` needs no additional memory: an association
// has dozens of timers, most of which are off.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Instant(NonZeroU64);

impl Instant {
    /// The origin.
    pub const ZERO: Self = Self(NonZeroU64::MIN);
    /// Later than every deadline.
    pub const FAR_FUTURE: Self = Self(NonZeroU64::MAX);

    /// The instant `nanos` nanoseconds after the origin.
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(NonZeroU64::MIN.saturating_add(nanos))
    }

    /// The instant `secs` seconds after the origin, or the latest possible one.
    pub const fn from_secs(secs: u64) -> Self {
        Self::from_nanos(secs.saturating_mul(1_000_000_000))
    }

    /// The instant `millis` milliseconds after the origin, or the latest possible one.
    pub const fn from_millis(millis: u64) -> Self {
        Self::from_nanos(millis.saturating_mul(1_000_000))
    }

    /// Seconds since the origin, for display.
    pub const fn as_secs_f64(self) -> f64 {
        self.as_nanos() as f64 / 1e9
    }

    /// Nanoseconds since the origin.
    pub const fn as_nanos(self) -> u64 {
        self.0.get() - 1
    }

    /// Time that has passed since `earlier`; zero if `earlier` is in the future.
    pub const fn saturating_since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.get().saturating_sub(earlier.0.get()))
    }
}

/// Nanoseconds of a duration, saturating (584 years are enough for a timer).
pub fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

impl Default for Instant {
    fn default() -> Self {
        Self::ZERO
    }
}

impl Add<Duration> for Instant {
    type Output = Self;

    fn add(self, rhs: Duration) -> Self {
        Self(self.0.saturating_add(nanos(rhs)))
    }
}

impl AddAssign<Duration> for Instant {
    fn add_assign(&mut self, rhs: Duration) {
        *self = *self + rhs;
    }
}

impl Sub<Duration> for Instant {
    type Output = Self;

    fn sub(self, rhs: Duration) -> Self {
        Self::from_nanos(self.as_nanos().saturating_sub(nanos(rhs)))
    }
}

impl fmt::Debug for Instant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let nanos = self.as_nanos();
        write!(f, "{}.{:09}s", nanos / 1_000_000_000, nanos % 1_000_000_000)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arithmetic_saturates() {
        let t = Instant::from_nanos(5);
        assert_eq!(t - Duration::from_secs(1), Instant::ZERO);
        assert_eq!(Instant::FAR_FUTURE + Duration::from_secs(1), Instant::FAR_FUTURE);
        assert_eq!(t.saturating_since(t + Duration::from_nanos(3)), Duration::ZERO);
        assert_eq!((t + Duration::from_nanos(3)).saturating_since(t), Duration::from_nanos(3));
        assert_eq!(Instant::from_nanos(u64::MAX), Instant::FAR_FUTURE);
        assert_eq!(size_of::<Option<Instant>>(), size_of::<u64>());
        assert_eq!(format!("{:?}", Instant::from_nanos(1_500_000_000)), "1.500000000s");
    }
}
