//! Timestamps, which show the transmission that an acknowledgement is for (caro 2.4.2).
//!
//! The value that this side sends encodes the time and the path of the packet. The peer returns it with
//! the acknowledgement that the packet causes. So retransmissions are measured like other packets, the
//! acknowledgement confirms the path that the retransmission took, and needless retransmissions are
//! detected.

use anabranch_wire::{Chunk, PacketWriter, Timestamp};

use super::Association;
use crate::marks::mark;
use crate::path::{Reservation, low_bits};
use crate::per_path::{MAX_PATHS, PathId};
use crate::time::Instant;

/// The bits of a value that encode the path: the lowest bits of its identifier.
const PATH_BITS: u32 = 0xf;

const _: () = assert!(MAX_PATHS == PATH_BITS as usize + 1);

/// Timestamps of one association.
#[derive(Debug, Default)]
pub(super) struct Timestamps {
    /// Both sides negotiated them.
    pub(super) in_use: bool,
    /// The timestamp of the current packet.
    at_hand: Option<Timestamp>,
    /// Value of the earliest packet with data that has not been acknowledged yet.
    to_echo: Option<u32>,
}

impl Timestamps {
    /// `in_use`: both sides negotiated timestamps.
    pub(super) fn new(in_use: bool) -> Self {
        Self { in_use, ..Self::default() }
    }

    /// Prepares for a packet.
    pub(super) fn begin_packet(&mut self) {
        self.at_hand = None;
    }

    /// Stores the timestamp of the current packet.
    pub(super) fn received(&mut self, timestamp: Timestamp) {
        self.at_hand = Some(timestamp);
    }

    /// Records that the current packet carries data, which will be acknowledged.
    pub(super) fn data_received(&mut self) {
        if let (true, Some(timestamp)) = (self.in_use, self.at_hand) {
            self.to_echo.get_or_insert(timestamp.value);
        }
    }
}

/// The time in microseconds, without the bits that encode the path.
fn ticks(now: Instant) -> u64 {
    (now.as_nanos() / 1000) & !u64::from(PATH_BITS)
}

/// The value for a packet sent `now` on `path`.
fn value(now: Instant, path: PathId) -> u32 {
    ticks(now) as u32 | (low_bits(path) as u32 & PATH_BITS)
}

/// Decodes `value` into the path's bits and the send time of the packet, which is up to 16 us too
/// early.
fn read(now: Instant, value: u32) -> (usize, Instant) {
    let age = (ticks(now) as u32).wrapping_sub(value & !PATH_BITS);
    let sent = ticks(now).saturating_sub(u64::from(age)).saturating_mul(1000);
    ((value & PATH_BITS) as usize, Instant::from_nanos(sent))
}

impl Association {
    /// The path and the send time of the packet that the current acknowledgement answers.
    fn echo(&self, now: Instant) -> Option<(PathId, Instant)> {
        let echo = self.timestamps.at_hand.filter(|_| self.timestamps.in_use)?.echo?;
        let (bits, sent) = read(now, echo);
        self.paths.by_low_bits(bits).map(|path| (path, sent))
    }

    /// Processes the echo in the packet of an acknowledgement.
    pub(super) fn use_echo(&mut self, now: Instant) {
        let Some((id, sent)) = self.echo(now) else { return };
        if self.sender.takes_measurement(now, &self.paths[id], sent) {
            self.paths[id].rtt.on_measurement(now.saturating_since(sent));
        }
        self.path_works(now, id);
        let resolution = std::time::Duration::from_micros(u64::from(PATH_BITS) + 1);
        if self.sender.finds_needless(now, sent, resolution, &mut self.paths) {
            mark!(SpuriousRetransmission);
            self.paths[id].loss.on_not_lost(1);
        }
    }

    /// Makes room for timestamps in the packets of all paths, before anything is sent.
    pub(super) fn reserve_timestamps(&mut self, now: Instant) {
        let bytes = if self.timestamps.in_use { Timestamp::LEN as u16 } else { 0 };
        self.sender.measure_by_echoes(self.timestamps.in_use);
        self.reserve(now, Reservation::Timestamp, bytes);
    }

    /// Reserves `bytes` in the packets of all paths.
    pub(super) fn reserve(&mut self, now: Instant, what: Reservation, bytes: u16) {
        for id in self.paths.ids_now() {
            if self.paths[id].reserve(what, bytes) {
                // If the initial window is a number of packets, it becomes smaller; nothing has been
                // sent yet.
                self.mtu_changed(now, id);
                self.sender.forget_network(now, id);
            }
        }
    }

    /// Writes the timestamp of a packet with data or, if `answers`, an acknowledgement. Returns
    /// its length.
    pub(super) fn write_timestamp(
        &mut self,
        now: Instant,
        path: PathId,
        answers: bool,
        packet: &mut PacketWriter<'_>,
    ) -> usize {
        let echo = self.timestamps.to_echo.filter(|_| answers);
        let timestamp = Timestamp { value: value(now, path), echo };
        if packet.chunk(&Chunk::Timestamp(timestamp)).is_err() {
            return 0;
        }
        if answers {
            self.timestamps.to_echo = None;
        }
        Timestamp::LEN
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_tell_path_and_time_across_the_wrap() {
        for seconds in [0, 1, 4294, 4295, 1_000_000_000] {
            for path in [0, 7, 15, 16 + 5] {
                let sent = Instant::from_nanos(seconds * 1_000_000_000 + 123_456_789);
                for later in [0, 90_000_000, 2_000_000_000_000] {
                    let now = Instant::from_nanos(sent.as_nanos() + later);
                    let (from, at) = read(now, value(sent, PathId(path)));
                    assert_eq!(from, usize::from(path) % 16);
                    assert!((0..16_000).contains(&(sent.as_nanos() - at.as_nanos())));
                }
            }
        }
    }

    #[test]
    fn the_earliest_packet_is_echoed_and_only_with_data() {
        let mut timestamps = Timestamps::new(true);
        timestamps.received(Timestamp { value: 1, echo: None });
        timestamps.begin_packet();
        timestamps.data_received();
        assert_eq!(timestamps.to_echo, None);
        for value in [5, 6] {
            timestamps.begin_packet();
            timestamps.received(Timestamp { value, echo: None });
            timestamps.data_received();
        }
        assert_eq!(timestamps.to_echo, Some(5));
        let mut unused = Timestamps::default();
        unused.received(Timestamp { value: 5, echo: None });
        unused.data_received();
        assert_eq!(unused.to_echo, None);
    }
}
