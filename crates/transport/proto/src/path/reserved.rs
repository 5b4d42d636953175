//! Room that DATA chunks must leave for others in packets.

/// Reservations of room in every packet with data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reservation {
    /// The timestamp (caro 2.4.2).
    Timestamp,
}

impl Reservation {
    const COUNT: usize = Self::Timestamp as usize + 1;
}

/// The bytes that each has reserved.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Reserved([u16; Reservation::COUNT]);

impl Reserved {
    /// Reserves `bytes` for one, replacing its old value. Returns whether that changed the value.
    pub(super) fn set(&mut self, what: Reservation, bytes: u16) -> bool {
        std::mem::replace(&mut self.0[what as usize], bytes) != bytes
    }

    /// The sum of all, in bytes.
    pub(super) fn sum(self) -> usize {
        self.0.iter().map(|bytes| usize::from(*bytes)).sum()
    }
}
