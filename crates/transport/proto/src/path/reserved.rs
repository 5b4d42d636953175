//! Room in packets with data that chunks of user data must leave to others.

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
    /// Reserves `bytes` for one, replacing its old value. `true` if that changes something.
    pub(super) fn set(&mut self, what: Reservation, bytes: u16) -> bool {
        std::mem::replace(&mut self.0[what as usize], bytes) != bytes
    }

    /// The sum of all, in bytes.
    pub(super) fn sum(self) -> usize {
        self.0.iter().map(|bytes| usize::from(*bytes)).sum()
    }
}
