//! Room in packets that DATA chunks must leave for other chunks.

/// The reasons to reserve room in every packet with data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reservation {
    /// The timestamp (caro 2.4.2).
    Timestamp,
    /// The AUTH chunk (RFC 4895), where the peer wants data or acknowledgements to be authenticated.
    Authentication,
}

impl Reservation {
    const COUNT: usize = Self::Authentication as usize + 1;
}

/// Reserved bytes for each reason.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Reserved([u16; Reservation::COUNT]);

impl Reserved {
    /// Reserves `bytes` for a reason, replacing the old value. Returns whether that changed it.
    pub(super) fn set(&mut self, what: Reservation, bytes: u16) -> bool {
        std::mem::replace(&mut self.0[what as usize], bytes) != bytes
    }

    /// The total in bytes.
    pub(super) fn sum(self) -> usize {
        self.0.iter().map(|bytes| usize::from(*bytes)).sum()
    }
}
