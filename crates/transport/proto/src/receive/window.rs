//! The window that the receiver announces, and the memory behind it.

use super::{MEMORY_UNIT, Receiver};

impl Receiver {
    /// User data for which `bytes` of memory are enough.
    fn scaled(&self, bytes: usize) -> usize {
        let data =
            bytes as u64 * u64::from(self.recent_data) / u64::from(self.recent_memory).max(1);
        // Tiny messages must not close the window for large ones.
        usize::try_from(data).unwrap_or(usize::MAX).max(bytes.min(2 * usize::from(self.mtu)))
    }

    /// The receive buffer, in bytes.
    pub(crate) fn limit(&self) -> usize {
        self.limit
    }

    /// Records that the endpoint has `left` bytes for all its associations.
    pub(crate) fn note_memory(&mut self, left: usize) {
        self.memory_left = u16::try_from(left / MEMORY_UNIT).unwrap_or(u16::MAX);
    }

    /// Whether, at the last update, the endpoint had far more memory left than the receive buffer may use.
    pub(crate) fn has_plenty(&self) -> bool {
        self.memory_left() / 2 >= self.limit
    }

    pub(super) fn memory_left(&self) -> usize {
        match self.memory_left {
            u16::MAX => usize::MAX,
            units => usize::from(units) * MEMORY_UNIT,
        }
    }

    fn free(&self) -> usize {
        self.scaled(self.limit.saturating_sub(self.charge).min(self.memory_left()))
    }

    /// The part of the announced window that, as far as the peer knows, is left.
    fn left(&self) -> usize {
        self.announced.saturating_sub(self.accepted)
    }

    /// Memory beyond the receive buffer for data that fits into the announced window. The window is computed from the
    /// memory of recent chunks; the last ones may need more than those.
    fn overrun(&self) -> usize {
        (2 * usize::from(self.mtu)).min(self.limit / 8)
    }

    /// Whether the peer was told that there is room for `length` bytes, and the buffer is not overrun by far.
    pub(super) fn keeps_promise(&self, length: usize) -> bool {
        length <= self.left() && self.charge < self.limit + self.overrun()
    }

    /// Whether the window is smaller than last announced. A peer that learns only that its data has arrived, as from a
    /// SHUTDOWN, assumes that the announced window is free again.
    pub(crate) fn is_narrower_than_announced(&self) -> bool {
        self.free() < self.announced
    }

    /// The window to announce in a SACK now.
    ///
    /// The right edge of the window advances by full packets or half of the buffer, not by less (RFC 1122 section
    /// 4.2.3.3), except when the buffer is empty and no more data can arrive. It does not move back for as little as the
    /// last packets of a window: they may be on their way.
    pub(crate) fn a_rwnd(&self) -> u32 {
        // req: rfc9260 6.2 "have an algorithm for advertising its receive window"
        let (free, left) = (self.free(), self.left());
        let small = free.saturating_sub(left) < usize::from(self.mtu).min(self.limit / 2);
        let window = if free > left {
            if small && self.charge > 0 { left } else { free }
        } else if self.memory_left() > 0 && self.keeps_promise(0) {
            free.max(left.min(self.overrun()))
        } else {
            free
        };
        u32::try_from(window).unwrap_or(u32::MAX)
    }

    /// Records that a SACK with this a_rwnd was sent.
    // req: rfc9260 6.2 "SHOULD place the current value of a_rwnd"
    pub(crate) fn on_sack_sent(&mut self, announced: u32) {
        self.announced = announced as usize;
        self.accepted = 0;
    }

    /// Whether the window has opened so far that the peer should be notified even without new data.
    ///
    /// This is the case if it has opened by a quarter of the buffer after half of it was used up, or by two packets if
    /// the window is closed and the user has read everything.
    // req: rfc9260 6.2 "SHOULD notify the data sender in a"
    pub(crate) fn window_update_due(&self) -> bool {
        // req: rfc9260 6.2 "SHOULD send additional SACK chunks to update"
        // req: rfc9260 6.2 "MUST avoid sending a large number of window"
        let capacity = self.scaled(self.limit);
        let left = self.left();
        if left > capacity / 2 {
            return false;
        }
        let grown = self.free().saturating_sub(left);
        let few = (2 * usize::from(self.mtu)).min(capacity / 2);
        grown >= few.max(capacity / 4)
            || grown >= few.max(1) && left < usize::from(self.mtu) && self.assembler.ready() == 0
    }
}
