//! The send buffer grows with the congestion windows (the function `tcp_sndbuf_expand` of Linux).
//!
//! A path with a window of W bytes carries W bytes in a round trip, and they stay in the buffer for that time. Twice as
//! much lets the user fill one half while the other is on its way, and leaves something to send during a repair. With
//! several paths, data stays in the buffer until what was sent before it on the slowest path has arrived, so each path
//! counts with what it carries in the longest round trip (RFC 8684 section 3.3.4 for the receiver).
//!
//! A window only grows when it is used, so a user who sends little does not make the buffer grow.

use super::Sender;
use crate::path::Paths;

/// The buffer is this many times what the paths carry in the longest round trip.
const ROUND_TRIPS: u128 = 2;

/// The buffer may take 1/SHARE of the memory that the endpoint has left.
const SHARE: usize = 2;

impl Sender {
    /// Whether the user fills the buffer, and it may grow.
    #[inline]
    pub(crate) fn fills_buffer(&self) -> bool {
        let limit = self.queue.limit();
        limit < self.config.sending.send_buffer && self.queue.buffered() > limit / 2
    }

    /// Lets the buffer grow to what the paths carry; `memory_left` is what the endpoint has left, in bytes.
    pub(crate) fn grow_buffer(&mut self, memory_left: usize, paths: &Paths) {
        let carry = || paths.iter().filter(|path| self.carries_new(path.id, paths));
        let longest = carry().filter_map(|path| path.rtt.srtt()).max().unwrap_or_default();
        let carried: u128 = carry()
            .map(|path| {
                let own = path.rtt.srtt().unwrap_or(longest).as_nanos().max(1);
                let window = self.lanes[path.id].congestion.cwnd() as u128;
                window.saturating_mul(longest.as_nanos().max(1)) / own
            })
            .fold(0, u128::saturating_add);
        let wanted = usize::try_from(carried.saturating_mul(ROUND_TRIPS)).unwrap_or(usize::MAX);
        let wanted = wanted.min(self.config.sending.send_buffer).min(memory_left / SHARE);
        if wanted > self.queue.limit() {
            self.queue.set_limit(wanted);
        }
    }
}
