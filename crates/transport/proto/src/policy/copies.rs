//! Copies: small messages are sent on two paths, and the one that arrives first counts. Proposed as future work in
//! hurtig 7 ('redundantly send data over several paths and use the data that arrives first').
//!
//! Prefer them for a few small messages over paths that lose packets or whose delays vary: a message is late only if
//! both paths are. They help nothing where the paths share a bottleneck.
//!
//! A copy never waits. It goes to the path with the lowest latency that has room for it, immediately after the first
//! transmission, or nowhere. Copies occupy the congestion windows of both paths for a round trip of each, even if one
//! of them is acknowledged earlier, and take at most `copies_share` of a window. So the traffic beside them loses at
//! most this share. `sender/copies.rs` sends them and keeps their acknowledgements out of all measurements: nobody
//! knows which path delivered a chunk that was sent on two.

use std::time::Duration;

use crate::per_path::PathId;

/// What a path has room for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Room {
    pub(crate) path: PathId,
    /// It may have failed.
    pub(crate) doubtful: bool,
    /// Its smoothed round-trip time, if it was measured.
    pub(crate) latency: Option<Duration>,
    pub(crate) cwnd: usize,
    /// Bytes that occupy the window, copies included.
    pub(crate) charged: usize,
    /// The part of them that are copies.
    pub(crate) copies: usize,
    /// Bytes of a full packet.
    pub(crate) packet: usize,
}

impl Room {
    /// Whether a copy of `size` bytes may be sent, if copies may take `share` percent of the window.
    fn admits(&self, size: usize, share: u32) -> bool {
        let most = (self.cwnd / 100 * share as usize).max(self.packet);
        self.copies + size <= most && self.charged + size <= self.cwnd
    }
}

/// The path for a copy of `size` bytes: the one with the lowest latency of those that have room.
pub(crate) fn path(rooms: impl Iterator<Item = Room>, size: usize, share: u32) -> Option<PathId> {
    rooms
        .filter(|room| room.admits(size, share))
        .min_by_key(|room| (room.doubtful, room.latency.is_none(), room.latency))
        .map(|room| room.path)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn room(path: u16, millis: u64) -> Room {
        Room {
            path: PathId(path),
            doubtful: false,
            latency: (millis > 0).then(|| Duration::from_millis(millis)),
            cwnd: 14_000,
            charged: 0,
            copies: 0,
            packet: 1400,
        }
    }

    fn chosen(rooms: &[Room]) -> Option<u16> {
        path(rooms.iter().copied(), 300, 25).map(PathId::number)
    }

    #[test]
    fn a_copy_goes_to_the_nearest_path_with_room() {
        assert_eq!(chosen(&[room(1, 40), room(2, 20), room(3, 0)]), Some(2));
        let doubtful = Room { doubtful: true, ..room(2, 20) };
        assert_eq!(chosen(&[room(1, 40), doubtful]), Some(1));
        assert_eq!(chosen(&[doubtful]), Some(2));
        let full = Room { charged: 13_701, ..room(2, 20) };
        assert_eq!(chosen(&[room(1, 40), full]), Some(1));
        assert_eq!(chosen(&[full]), None, "it does not wait for room");
    }

    #[test]
    fn copies_take_a_share_of_a_window_and_at_least_a_packet() {
        let taken = |copies| Room { copies, charged: copies, ..room(1, 20) };
        assert_eq!(chosen(&[taken(3200)]), Some(1), "3500 are a quarter");
        assert_eq!(chosen(&[taken(3201)]), None);
        let small = |copies| Room { cwnd: 2800, ..taken(copies) };
        assert_eq!(chosen(&[small(1100)]), Some(1));
        assert_eq!(chosen(&[small(1101)]), None);
    }
}
