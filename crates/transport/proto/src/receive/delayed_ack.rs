//! Decides when a SACK is due (RFC 9260 section 6.2).

use std::time::Duration;

use super::AckConfig;
use crate::per_path::PathId;
use crate::time::Instant;

/// The effect of a packet with DATA chunks on the receiver.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct DataPacket {
    /// A TSN was missing before or after the packet: the packet opened, left or filled a gap.
    pub(crate) gap: bool,
    /// It had a duplicate chunk.
    pub(crate) duplicate: bool,
    /// The I bit was set in one of its chunks (RFC 7053).
    pub(crate) immediate: bool,
    /// A chunk was dropped for lack of room.
    pub(crate) dropped: bool,
    /// It had a FORWARD TSN.
    pub(crate) skips: bool,
    /// This side is in SHUTDOWN-SENT and answers every packet with data immediately.
    pub(crate) shutdown_sent: bool,
}

/// Decides when to acknowledge. It only reports that a SACK is due; packets of one batch share a
/// SACK.
#[derive(Debug)]
pub(crate) struct Acknowledger {
    /// The path on which data last arrived; SACKs are sent on it, too.
    pub(crate) path: PathId,
    delay: Duration,
    frequency: u32,
    /// Packets with data since the last SACK.
    packets: u32,
    due: bool,
    /// Data has been received in this association.
    started: bool,
    deadline: Option<Instant>,
    /// A missing TSN does not cause an immediate acknowledgement, and each SACK carries the number of
    /// packets that it covers (concurrent multipath transfer).
    counts: bool,
}

/// The number of packets that a SACK covers according to its flags, as usrsctp and FreeBSD encode it:
/// in the two highest bits, where 3 means 3 or more, and 0 means unknown.
pub(crate) fn covered_packets(flags: u8) -> u8 {
    flags >> 6
}

impl Acknowledger {
    /// An acknowledger with the delay (SACK.Delay) and frequency of `config`. `counts`: concurrent
    /// multipath transfer delays acknowledgements.
    pub(crate) fn new(config: &AckConfig, counts: bool) -> Self {
        Self {
            path: PathId::FIRST,
            delay: config.sack_delay,
            frequency: config.sack_frequency,
            packets: 0,
            due: false,
            started: false,
            deadline: None,
            counts,
        }
    }

    /// Sets another delay and frequency, beginning with the next packet.
    pub(crate) fn reconfigure(&mut self, config: &AckConfig) {
        (self.delay, self.frequency) = (config.sack_delay, config.sack_frequency);
    }

    /// Records a packet with at least one DATA chunk.
    // req: rfc9260 6.2 "MUST NOT generate more than one SACK chunk"
    // req: rfc9260 6.2 "MUST NOT be more aggressive in sending SACK"
    pub(crate) fn on_packet(&mut self, now: Instant, packet: DataPacket) {
        // req: rfc9260 6.2 "Section 4.2 of [RFC5681] SHOULD be followed"
        // req: rfc9260 6.2 "acknowledgement SHOULD be generated for at least every"
        self.packets = self.packets.saturating_add(1);
        // req: rfc9260 5.1 "endpoint MUST immediately respond with a SACK chunk"
        let first = !self.started;
        self.started = true;
        self.due |= first
            || self.packets >= self.frequency
            // req: rfc9260 6.7 "it SHOULD send a SACK chunk with"
            // req: rfc9260 7.2.4 "it SHOULD start sending a SACK chunk back"
            || (packet.gap && !self.counts)
            // req: rfc9260 6.2 "the endpoint MUST immediately send a SACK chunk"
            || packet.duplicate
            // req: rfc9260 6.2 "the receiver SHOULD immediately respond with the"
            // req: rfc9260 6.2 "SHOULD NOT delay the sending of the corresponding"
            || packet.immediate
            // req: rfc9260 6.2 "the receiver MUST immediately send back a SACK"
            || packet.dropped
            || packet.shutdown_sent;
        if self.due {
            self.deadline = None;
        } else if self.deadline.is_none() {
            // req: rfc9260 6.2 "SHOULD be generated within 200 ms"
            self.deadline = Some(now + self.delay);
        }
    }

    /// Requests a SACK for another reason, such as a window update.
    pub(crate) fn request(&mut self) {
        self.due = true;
        self.deadline = None;
    }

    /// Whether a SACK must be sent now.
    pub(crate) fn due(&self) -> bool {
        self.due
    }

    /// The flags for a SACK sent now.
    pub(crate) fn flags(&self) -> u8 {
        if self.counts { (self.packets.min(3) as u8) << 6 } else { 0 }
    }

    /// Whether received data is unacknowledged. If so, any packet that is sent should include a SACK.
    pub(crate) fn pending(&self) -> bool {
        self.due || self.packets > 0
    }

    /// When [`on_timeout`](Self::on_timeout) must be called.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.deadline
    }

    /// Checks whether the delay has expired.
    pub(crate) fn on_timeout(&mut self, now: Instant) {
        if self.deadline.is_some_and(|deadline| deadline <= now) {
            self.request();
        }
    }

    /// Records that a SACK was sent.
    pub(crate) fn sent(&mut self) {
        self.packets = 0;
        self.due = false;
        self.deadline = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAIN: DataPacket = DataPacket {
        skips: false,
        gap: false,
        duplicate: false,
        immediate: false,
        dropped: false,
        shutdown_sent: false,
    };

    fn at(millis: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(millis)
    }

    /// An acknowledger that has acknowledged the association's first packet.
    fn started(frequency: u32) -> Acknowledger {
        let config = AckConfig { sack_frequency: frequency, ..AckConfig::default() };
        let mut acknowledger = Acknowledger::new(&config, false);
        assert!(!acknowledger.due() && !acknowledger.pending());
        acknowledger.on_packet(at(0), PLAIN);
        acknowledger.sent();
        acknowledger
    }

    #[test]
    // test: rfc9260 5.1 "endpoint MUST immediately respond with a SACK chunk"
    fn the_first_packet_of_all_is_acknowledged_at_once() {
        let mut acknowledger = Acknowledger::new(&AckConfig::default(), false);
        acknowledger.on_packet(at(0), PLAIN);
        assert!(acknowledger.due());
        assert_eq!(acknowledger.deadline(), None);
    }

    #[test]
    // test: rfc9260 6.2 "acknowledgement SHOULD be generated for at least every"
    fn every_second_packet() {
        let mut acknowledger = started(2);
        for _ in 0..3 {
            acknowledger.on_packet(at(1), PLAIN);
            assert!(!acknowledger.due() && acknowledger.pending());
            acknowledger.on_packet(at(2), PLAIN);
            assert!(acknowledger.due());
            assert_eq!(acknowledger.deadline(), None);
            acknowledger.sent();
            assert!(!acknowledger.due() && !acknowledger.pending());
        }
        let mut acknowledger = started(4);
        for _ in 0..3 {
            acknowledger.on_packet(at(1), PLAIN);
            assert!(!acknowledger.due());
        }
        acknowledger.on_packet(at(1), PLAIN);
        assert!(acknowledger.due());
    }

    #[test]
    // test: rfc9260 6.2 "SHOULD be generated within 200 ms"
    fn a_single_packet_waits_for_the_timer() {
        let mut acknowledger = started(2);
        acknowledger.on_packet(at(100), PLAIN);
        assert_eq!(acknowledger.deadline(), Some(at(300)));
        acknowledger.on_timeout(at(299));
        assert!(!acknowledger.due());
        acknowledger.on_timeout(at(300));
        assert!(acknowledger.due());
        assert_eq!(acknowledger.deadline(), None);
        acknowledger.sent();
        acknowledger.on_timeout(at(1000));
        assert!(!acknowledger.due());
    }

    #[test]
    fn the_timer_counts_from_the_oldest_packet() {
        let mut acknowledger = started(5);
        acknowledger.on_packet(at(10), PLAIN);
        acknowledger.on_packet(at(50), PLAIN);
        assert_eq!(acknowledger.deadline(), Some(at(210)));
    }

    #[test]
    // test: rfc9260 6.2 "the endpoint MUST immediately send a SACK chunk"
    // test: rfc9260 6.2 "the receiver MUST immediately send back a SACK"
    // test: rfc9260 6.2 "SHOULD NOT delay the sending of the corresponding"
    // test: rfc9260 6.7 "it SHOULD send a SACK chunk with"
    // test: rfc9260 4 "MUST acknowledge any received DATA chunks without delay"
    fn what_does_not_wait() {
        for packet in [
            DataPacket { gap: true, ..PLAIN },
            DataPacket { duplicate: true, ..PLAIN },
            DataPacket { immediate: true, ..PLAIN },
            DataPacket { dropped: true, ..PLAIN },
            DataPacket { shutdown_sent: true, ..PLAIN },
        ] {
            let mut acknowledger = started(10);
            acknowledger.on_packet(at(1), packet);
            assert!(acknowledger.due(), "{packet:?}");
            assert_eq!(acknowledger.deadline(), None);
        }
    }

    #[test]
    // test: rfc9260 6.2 "MUST NOT generate more than one SACK chunk"
    // test: rfc9260 6.2 "MUST NOT be more aggressive in sending SACK"
    fn packets_of_a_batch_share_a_sack() {
        let mut acknowledger = started(2);
        for _ in 0..44 {
            acknowledger.on_packet(at(1), PLAIN);
        }
        acknowledger.sent();
        assert!(!acknowledger.due() && !acknowledger.pending());
        acknowledger.request();
        assert!(acknowledger.due() && acknowledger.pending());
    }
}
