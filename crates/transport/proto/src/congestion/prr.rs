//! Proportional rate reduction (RFC 6937, RFC 9937): in fast recovery the window falls in step with what arrives.
//!
//! Without it, a sender halves its window at once, waits for half a round trip until enough has arrived, and after
//! many losses sends a burst. With it, each acknowledgement allows a part of what it acknowledges to be sent, so
//! that the data in flight reaches ssthresh when fast recovery ends.

/// The fast recovery of one path.
// req: rfc8985 9.3 "is RECOMMENDED for the specific congestion"
#[derive(Clone, Copy, Debug)]
pub(super) struct Prr {
    /// Bytes in flight when it began, before the acknowledgement that showed the loss: RecoverFS.
    flight: usize,
    /// Bytes acknowledged and sent since then.
    delivered: u64,
    out: u64,
    /// Bytes of the latest acknowledgement, until data is sent.
    latest: usize,
    /// The latest acknowledgement advanced the Cumulative TSN Ack Point and showed no loss (RFC 9937: safeACK).
    safe: bool,
}

impl Prr {
    /// Fast recovery begins, with `flight` bytes in flight before an acknowledgement of `delivered` bytes.
    pub(super) fn new(flight: usize, delivered: usize) -> Self {
        Self { flight, delivered: delivered as u64, out: 0, latest: delivered, safe: false }
    }

    /// `bytes` were acknowledged. `advanced`: with an advance of the Cumulative TSN Ack Point.
    pub(super) fn on_acked(&mut self, bytes: usize, advanced: bool) {
        self.delivered = self.delivered.saturating_add(bytes as u64);
        (self.latest, self.safe) = (bytes, advanced);
    }

    /// More data is considered lost.
    pub(super) fn on_lost(&mut self) {
        self.safe = false;
    }

    /// `bytes` were sent.
    pub(super) fn on_sent(&mut self, bytes: usize) {
        self.out = self.out.saturating_add(bytes as u64);
        self.latest = 0;
    }

    /// The congestion window in bytes with `in_flight` bytes in flight, for packets of `packet` bytes.
    pub(super) fn window(&self, in_flight: usize, ssthresh: usize, packet: usize) -> usize {
        let allowed = if in_flight > ssthresh {
            self.proportional(ssthresh)
        } else {
            // What was lost has already reduced the flight: it grows again by what arrives, and by one packet more
            // with each acknowledgement that shows progress.
            let arrived = self.delivered.saturating_sub(self.out).max(self.latest as u64);
            let more = if self.safe { packet as u64 } else { 0 };
            arrived.saturating_add(more).min((ssthresh - in_flight) as u64)
        };
        // The first retransmission does not wait.
        let allowed = if allowed == 0 && self.out == 0 { packet as u64 } else { allowed };
        in_flight.saturating_add(usize::try_from(allowed).unwrap_or(usize::MAX)).max(packet)
    }

    /// What may be sent, so that it is in the same proportion to what arrived as ssthresh to the flight at the
    /// beginning.
    fn proportional(&self, ssthresh: usize) -> u64 {
        let flight = self.flight.max(1) as u128;
        let share = (u128::from(self.delivered) * ssthresh as u128).div_ceil(flight);
        // A peer that acknowledges more than was in flight gets no more than it acknowledges.
        u64::try_from(share).unwrap_or(u64::MAX).min(self.delivered).saturating_sub(self.out)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const PACKET: usize = 1000;

    /// A path in fast recovery.
    struct Path {
        prr: Prr,
        flight: usize,
        ssthresh: usize,
    }

    impl Path {
        /// One of `packets` packets arrived, and `lost` are lost.
        fn new(packets: usize, lost: usize, ssthresh: usize) -> Self {
            let flight = packets * PACKET;
            let mut prr = Prr::new(flight, PACKET);
            prr.on_lost();
            Self { prr, flight: flight - (1 + lost) * PACKET, ssthresh: ssthresh * PACKET }
        }

        /// Sends packets while the window is not full, and returns how many.
        fn send(&mut self) -> usize {
            let window = self.prr.window(self.flight, self.ssthresh, PACKET);
            let mut packets = 0;
            while self.flight < window {
                self.prr.on_sent(PACKET);
                self.flight += PACKET;
                packets += 1;
            }
            packets
        }

        fn ack(&mut self, advanced: bool) -> usize {
            self.flight -= PACKET;
            self.prr.on_acked(PACKET, advanced);
            self.send()
        }
    }

    /// RFC 6937 section 3.1, the first example.
    #[test]
    fn after_one_loss_every_second_acknowledgement_sends() {
        let mut path = Path::new(20, 1, 10);
        assert_eq!(path.send(), 1, "the retransmission");
        let sent: Vec<_> = (0..16).map(|_| path.ack(false)).collect();
        assert_eq!(sent[..14], [0, 1].repeat(7), "{sent:?}");
        assert_eq!((path.flight, path.prr.out), (10 * PACKET, 8 * PACKET as u64), "{sent:?}");
    }

    /// The second example: 15 of 20 packets are lost.
    #[test]
    fn after_many_losses_there_is_no_burst() {
        let mut path = Path::new(20, 15, 10);
        assert_eq!((path.flight, path.send()), (4 * PACKET, 1));
        // Nothing more than arrives, as long as there is no progress.
        assert_eq!([path.ack(false), path.ack(false)], [1, 1]);
        // RFC 9937: then slow start up to the target.
        let sent: Vec<_> = (0..8).map(|_| path.ack(true)).collect();
        assert_eq!(sent[..5], [2; 5], "{sent:?}");
        assert_eq!(path.flight, 10 * PACKET);
    }

    #[test]
    fn the_first_packet_needs_no_acknowledgement_and_gets_no_second() {
        // Time showed the loss.
        let mut prr = Prr::new(20 * PACKET, 0);
        assert_eq!(prr.window(19 * PACKET, 14 * PACKET, PACKET), 20 * PACKET);
        prr.on_sent(PACKET);
        assert_eq!(prr.window(20 * PACKET, 14 * PACKET, PACKET), 20 * PACKET);
        // A window of at least one packet, whatever is in flight.
        assert_eq!(prr.window(0, 0, PACKET), PACKET);
    }

    proptest! {
        /// Whatever an acknowledgement claims, it allows no more than it acknowledges and a packet, or the target.
        #[test]
        fn the_window_is_bounded(
            flight in 0..usize::MAX,
            ssthresh in 0..usize::MAX / 2,
            events in prop::collection::vec((0..usize::MAX, 0..3u8), 0..50),
        ) {
            let mut prr = Prr::new(flight, 0);
            let mut acked = 0_usize;
            for (bytes, event) in events {
                match event {
                    0 => {
                        acked = acked.saturating_add(bytes);
                        prr.on_acked(bytes, bytes % 2 == 0);
                    }
                    1 => prr.on_sent(bytes),
                    _ => prr.on_lost(),
                }
                let window = prr.window(bytes, ssthresh, PACKET);
                prop_assert!(window >= PACKET);
                prop_assert!(window <= bytes.saturating_add(acked).saturating_add(2 * PACKET));
                if bytes <= ssthresh {
                    prop_assert!(window <= ssthresh.max(bytes + PACKET), "{window}");
                }
            }
        }
    }
}
