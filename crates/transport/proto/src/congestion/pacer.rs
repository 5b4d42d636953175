//! Pacing: spreads packets over time at a rate slightly above cwnd per round trip, in quanta.

use std::time::Duration;

use crate::time::{Instant, nanos};

/// How much data, as time at the paced rate in nanoseconds, may be sent back to back: queues absorb that
/// much, and timers are not much finer.
const BURST_TIME: u64 = 1_000_000;
/// Maximum number of packets sent back to back: four GSO sends.
const MAX_BURST: u64 = 176;

/// A token bucket of bytes. The engine has one for each path that is paced; others may use it to drive a controller
/// without the engine.
#[derive(Clone, Copy, Debug)]
pub struct Pacer {
    /// The number of packets that may be sent back to back at any rate.
    quantum: u32,
    tokens: u32,
    refilled: Instant,
}

impl Pacer {
    /// `quantum`: the number of packets that may be sent back to back at any rate, at least 1. It begins full.
    pub fn new(quantum: u32) -> Self {
        Self { quantum, tokens: u32::MAX, refilled: Instant::ZERO }
    }

    /// The number of bytes that may be sent now, or as an error the time when at least half a quantum may
    /// be sent.
    ///
    /// `cwnd` is in bytes; `slow_start` says whether it is below ssthresh; `rate` is in bytes per second, if the
    /// controller sets one ([`Controller::pacing_rate`](super::Controller::pacing_rate)); `packet` is the size of a
    /// full packet in bytes. Without `srtt`, the smoothed round-trip time, nothing is paced.
    ///
    /// # Errors
    /// The time when to ask again.
    pub fn allowance(
        &mut self,
        now: Instant,
        srtt: Option<Duration>,
        cwnd: usize,
        slow_start: bool,
        rate: Option<u64>,
        packet: usize,
    ) -> Result<usize, Instant> {
        let Some(rtt) = srtt.map(nanos).filter(|rtt| *rtt > 0) else {
            return Ok(usize::MAX);
        };
        // 2 cwnd per RTT in slow start, where cwnd doubles, and 5/4 cwnd later, so pacing itself
        // never limits the window's growth.
        let (numerator, denominator) = if slow_start { (2, 1) } else { (5, 4) };
        // `bytes` in `time` nanoseconds: a rate may be less than a byte in a short round trip.
        let (bytes, time) = match rate {
            Some(rate) => (rate.max(1), 1_000_000_000),
            None => (((cwnd as u64).saturating_mul(numerator) / denominator).max(1), rtt),
        };
        let packet = packet as u64;
        let timely = u128::from(bytes) * u128::from(BURST_TIME) / u128::from(time);
        let capacity = u64::try_from(timely)
            .unwrap_or(u64::MAX)
            .clamp(
                u64::from(self.quantum).saturating_mul(packet),
                MAX_BURST.max(u64::from(self.quantum)).saturating_mul(packet),
            )
            .min(u64::from(u32::MAX));
        let elapsed = nanos(now.saturating_since(self.refilled));
        // A controller's rate may be less than a packet per round trip, but cwnd may not.
        let elapsed = if rate.is_some() { elapsed } else { elapsed.min(rtt) };
        let refill = u128::from(bytes) * u128::from(elapsed) / u128::from(time);
        let refill = u64::try_from(refill).unwrap_or(u64::MAX);
        let tokens = u64::from(self.tokens).min(capacity).saturating_add(refill).min(capacity);
        self.tokens = u32::try_from(tokens).unwrap_or(u32::MAX);
        // At a low rate a fraction of a byte must not be lost with each call.
        let fraction = if rate.is_some() && tokens < capacity {
            u128::from(elapsed) - u128::from(refill) * u128::from(time) / u128::from(bytes)
        } else {
            0
        };
        self.refilled = now - Duration::from_nanos(u64::try_from(fraction).unwrap_or(0));
        // Waiting for half a quantum limits the number of wake-ups.
        let wanted = (capacity / 2).max(packet).min(capacity);
        // The rest of a burst may follow immediately, unless it is only a packet or two: these would cost
        // a separate send call.
        let rest = (capacity / 8).max(packet);
        if tokens >= wanted || (u128::from(elapsed) == fraction && tokens >= rest) {
            return Ok(tokens as usize);
        }
        let missing = u128::from(wanted - tokens.min(wanted)) * u128::from(time);
        let wait = missing.div_ceil(u128::from(bytes)).max(1);
        Err(now + Duration::from_nanos(u64::try_from(wait).unwrap_or(u64::MAX)))
    }

    /// Records that `bytes` were sent.
    pub fn sent(&mut self, bytes: usize) {
        self.tokens = self.tokens.saturating_sub(u32::try_from(bytes).unwrap_or(u32::MAX));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RTT: Option<Duration> = Some(Duration::from_millis(10));

    #[test]
    fn any_rate_is_held_whatever_the_round_trip_time() {
        for rate in [125, 2_000_000, 5_000_000_000] {
            for rtt in [Duration::from_micros(10), Duration::from_secs(100)] {
                let mut pacer = Pacer::new(2);
                let (mut now, mut sent) = (Instant::ZERO, 0_u64);
                for _ in 0..1000 {
                    // Somebody asks all the time.
                    now += Duration::from_nanos(100);
                    match pacer.allowance(now, Some(rtt), 1000, false, Some(rate), 1000) {
                        Ok(bytes) => {
                            pacer.sent(bytes);
                            sent += bytes as u64;
                        }
                        Err(until) => now = until,
                    }
                }
                let allowed = rate as f64 * now.as_secs_f64();
                let burst = (rate / 1000).clamp(2000, MAX_BURST * 1000) as f64;
                let range = allowed * 0.99 - burst..=allowed * 1.01 + burst;
                assert!(range.contains(&(sent as f64)), "{rate} B/s, {rtt:?}: {sent} of {allowed}");
            }
        }
        let mut pacer = Pacer::new(2);
        let most = Some(u64::MAX);
        assert!(pacer.allowance(Instant::FAR_FUTURE, RTT, 1, false, most, 1000).is_ok());
    }

    #[test]
    fn rate_is_held_over_a_round_trip() {
        let mut pacer = Pacer::new(4);
        let mut now = Instant::from_nanos(1_000_000_000);
        let end = now + Duration::from_millis(100);
        let mut sent = 0;
        while now < end {
            match pacer.allowance(now, RTT, 100_000, false, None, 1000) {
                Ok(bytes) => {
                    // A millisecond at 12.5 MB/s.
                    assert!(bytes <= 12_500);
                    pacer.sent(bytes);
                    sent += bytes;
                }
                Err(later) => {
                    assert!(later > now);
                    now = later;
                }
            }
        }
        // Ten round trips at 125,000 bytes each, and the first burst.
        assert!((1_250_000 - 12_500..=1_250_000 + 25_000).contains(&sent), "{sent}");
    }

    #[test]
    fn nothing_is_paced_before_the_first_measurement() {
        let mut pacer = Pacer::new(4);
        assert_eq!(pacer.allowance(Instant::ZERO, None, 10, true, None, 1000), Ok(usize::MAX));
    }

    #[test]
    fn the_rest_of_a_burst_follows_at_once_unless_it_is_small() {
        let mut pacer = Pacer::new(16);
        let now = Instant::from_nanos(5_000_000_000);
        // The quantum, at a low rate.
        assert_eq!(pacer.allowance(now, RTT, 10_000, false, None, 1000), Ok(16_000));
        pacer.sent(13_000);
        assert_eq!(pacer.allowance(now, RTT, 10_000, false, None, 1000), Ok(3000));
        pacer.sent(1500);
        assert!(pacer.allowance(now, RTT, 10_000, false, None, 1000).is_err(), "under an eighth");
        // The rest is not lost: half a quantum is available that much earlier, at 1.25 bytes per
        // microsecond.
        let until = pacer.allowance(now, RTT, 10_000, false, None, 1000).unwrap_err();
        assert_eq!(until, now + Duration::from_micros(5200));
        assert_eq!(pacer.allowance(until, RTT, 10_000, false, None, 1000), Ok(8000));
    }

    #[test]
    fn an_idle_time_gives_one_burst_only() {
        let mut pacer = Pacer::new(4);
        pacer.sent(usize::MAX);
        let now = Instant::from_nanos(5_000_000_000);
        assert_eq!(pacer.allowance(now, RTT, 100_000, true, None, 1000), Ok(20_000));
        pacer.sent(usize::MAX);
        let now = now + Duration::from_secs(1);
        assert_eq!(pacer.allowance(now, RTT, 10_000, true, None, 1000), Ok(4000), "the quantum");
    }
}
