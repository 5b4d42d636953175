//! Accounting for memory that a program uses because of a peer.

use std::sync::Arc;

use super::handle::AssociationRef;

/// Memory that a program uses because of the peer of an association, counted in the endpoint's
/// `memory_limit`; from [`Association::reserve`](crate::Association::reserve).
///
/// The library counts its own memory until a message is read. A program that stores messages after reading them, for
/// example to assemble the parts of one, reserves memory for that. Then peers cannot make it use more memory than
/// intended. Dropping the reservation releases the memory.
///
/// Keeps the association open as any handle does.
///
/// ```
/// # async fn example(association: anabranch::Association) -> Option<()> {
/// let mut whole = Vec::new();
/// let mut reserved = association.reserve(0)?;
/// while let Ok(Some(part)) = association.recv().await {
///     if !reserved.grow(part.payload.len()) {
///         association.abort(b"no memory for this message");
///         return None;
///     }
///     part.payload.pieces().for_each(|piece| whole.extend_from_slice(piece));
///     if part.end {
///         break;
///     }
/// }
/// # Some(())
/// # }
/// ```
#[derive(Debug)]
pub struct Reservation {
    association: Arc<AssociationRef>,
    bytes: usize,
}

impl Reservation {
    pub(crate) fn new(association: Arc<AssociationRef>, bytes: usize) -> Option<Self> {
        let mut reservation = Self { association, bytes: 0 };
        reservation.grow(bytes).then_some(reservation)
    }

    /// The number of reserved bytes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Reserves more. `false` if the endpoint has no memory left; earlier reservations stay valid.
    ///
    /// A later attempt may succeed: a peer that has caused much memory use and makes no progress is disconnected when
    /// others need memory.
    pub fn grow(&mut self, bytes: usize) -> bool {
        let reference = &*self.association;
        let now = reference.shared.runtime.now();
        let mut guard = reference.shared.lock();
        let state = &mut *guard;
        // After the end of the association nothing is counted.
        if let (Some(entry), Some(mut association)) = (
            state.associations.get_mut(&reference.id),
            state.engine.association_mut(now, reference.id),
        ) {
            if bytes > 0 && !association.may_keep(bytes) {
                return false;
            }
            entry.reserve(bytes);
            entry.count_kept(&mut association);
            self.bytes += bytes;
        }
        true
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        let bytes = self.bytes;
        self.association.with(|state| state.unreserve(bytes));
    }
}
