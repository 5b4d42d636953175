//! Tracks one direction of a flow: detects out-of-sequence data and determines its cause.
//!
//! Data that is not the next is either **ahead** of a hole and opens it, or it is **out of sequence**:
//!
//! - It fills a hole. It was *reordered* if it was sent before the data that came ahead of it, and *sent again*
//!   otherwise. The first available criterion decides: the identification of IPv4 packets, which senders increment;
//!   TCP's timestamp; or the time since the hole was opened, which for retransmissions is at least a round-trip time.
//! - It has been seen before. It is a *duplicate* made by the network if the earlier copy has the same identification
//!   (or without one, the same timestamp within half a round-trip time). Otherwise it was *sent again*: it was lost
//!   after the point of capture, or retransmitted needlessly.
//!
//! The next data may also have been overtaken, by retransmissions. Nothing is missing before it, so only
//! identifications show that. They are trusted after they have increased for some packets.
//!
//! A retransmission was caused by duplicate acknowledgements (RFC 5681 section 2), or by a SACK with gaps before it
//! (RFC 9260 section 7.2.4), if it came soon after these (*fast*). If the sender had been silent for so long that its
//! timer must have expired, it is a *timeout*. If it repeats the last data earlier than that, it is a *probe*.

use serde::Serialize;

/// Maximum number of holes; beyond it the oldest are forgotten.
const MOST_HOLES: usize = 1024;
/// Number of recent pieces of data kept for recognising copies.
const RECENT: usize = 64;
/// The minimum timeout of common TCPs.
const LEAST_RTO: u64 = 200_000_000;
/// Number of consecutive packets with increasing identifications before one that does not increase is trusted, and the
/// maximum difference of identifications of packets that may have overtaken each other.
const COUNTING: u8 = 16;
const NEAR: i16 = 64;
/// Number of duplicate acknowledgements that cause a retransmission.
const ENOUGH: u32 = 3;

/// Why data is out of sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Class {
    /// Sent again because of reports from the receiver.
    Fast,
    /// Sent again because a timer expired.
    Timeout,
    /// The last data, sent again to provoke an answer.
    Probe,
    /// Sent again for no visible reason.
    SentAgain,
    /// Overtaken in the network.
    Reordered,
    /// Copied in the network.
    Duplicate,
    /// The cause cannot be determined.
    Unknown,
}

impl Class {
    /// All classes.
    pub const ALL: [Self; 7] = [
        Self::Fast,
        Self::Timeout,
        Self::Probe,
        Self::SentAgain,
        Self::Reordered,
        Self::Duplicate,
        Self::Unknown,
    ];

    /// Its name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Fast => "retransmission (fast)",
            Self::Timeout => "retransmission (timeout)",
            Self::Probe => "retransmission (probe)",
            Self::SentAgain => "retransmission",
            Self::Reordered => "reordered",
            Self::Duplicate => "duplicate",
            Self::Unknown => "unknown",
        }
    }
}

/// Out-of-sequence data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutOfSequence {
    /// The cause.
    pub class: Class,
    /// For reordered data, the number of packets since the first one that was ahead of it (RFC 4737 section 4.2.1).
    pub extent: u64,
    /// For reordered data, nanoseconds since that packet (RFC 4737 section 4.3.1).
    pub late: u64,
}

/// A piece of data: the bytes of a segment, or one chunk.
#[derive(Clone, Copy, Debug, Default)]
pub struct Data {
    /// First byte or chunk number.
    pub start: u32,
    /// Number of bytes or chunks.
    pub length: u32,
    /// When it was seen, in nanoseconds.
    pub time: u64,
    /// IPv4 identification.
    pub identification: Option<u16>,
    /// TCP timestamp.
    pub timestamp: Option<u32>,
}

#[derive(Clone, Copy, Debug)]
struct Hole {
    start: u64,
    end: u64,
    /// The data that came ahead of the hole.
    opened: Seen,
    packet: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    start: u64,
    time: u64,
    identification: Option<u16>,
    timestamp: Option<u32>,
}

/// The state of a direction.
#[derive(Clone, Debug, Default)]
pub struct Tracker {
    /// Base of numbers without wrap.
    origin: Option<u64>,
    /// The highest number seen, plus 1.
    end: u64,
    holes: Vec<Hole>,
    recent: Vec<Seen>,
    /// The highest identification, and the number of consecutive packets with increasing ones.
    counted: Option<(u16, u8)>,
    /// Packets with data.
    packets: u64,
    /// When data was last seen.
    last: Option<u64>,
    /// Highest acknowledgement from the other direction, and how often it was repeated.
    acknowledged: Option<u64>,
    repeated: u32,
    /// Since the last new acknowledgement, SACKs have reported data missing before this number.
    asked: Option<u64>,
    /// When the acknowledgement was last repeated, or missing data was last reported.
    urged: Option<u64>,
    /// Data sent into a closed window. It is not part of the sequence until it is acknowledged.
    probe: Option<(u64, u64)>,
    /// Data whose acknowledgement will measure a round-trip time: its end, and when it was seen.
    timed: Option<(u64, u64)>,
    /// Minimum and latest time from data to its acknowledgement.
    rtt: Option<(u64, u64)>,
    rtt_sum: (u64, u64),
    /// The number at which the sequence went on after it was last reset.
    reset: Option<u32>,
}

impl Tracker {
    /// The number without wrap that is closest to the highest seen.
    fn unwrap(&mut self, number: u32) -> u64 {
        const FAR: u64 = 1 << 40;
        if self.origin.is_none() {
            self.origin = Some(FAR + u64::from(number));
            self.end = FAR + u64::from(number);
        }
        let distance = number.wrapping_sub(self.end as u32) as i32;
        self.end.wrapping_add_signed(i64::from(distance))
    }

    /// Sets the first number, unless there already is one.
    pub fn begin(&mut self, first: u32) {
        self.unwrap(first);
    }

    /// Sets the first number, unless there already was data.
    pub fn begin_again(&mut self, first: u32) {
        if self.packets == 0 {
            *self = Self::default();
        }
        self.begin(first);
    }

    /// Lets the sequence go on at another number, as a reset of an association does. Repetitions change nothing.
    pub fn go_on_at(&mut self, number: u32) {
        if self.reset.replace(number) == Some(number) {
            return;
        }
        self.unwrap(number);
        // Numbers without wrap only grow.
        let ahead = number.wrapping_sub(self.end as u32);
        self.end += u64::from(ahead);
        self.holes.clear();
        self.recent.clear();
        self.acknowledged = Some(self.end);
        (self.repeated, self.asked, self.urged) = (0, None, None);
        (self.probe, self.timed) = (None, None);
    }

    /// The difference between a number and the next one; `None` if no number is known yet.
    pub fn ahead(&self, number: u32) -> Option<i32> {
        self.origin?;
        Some(number.wrapping_sub(self.end as u32) as i32)
    }

    /// Whether all data seen was acknowledged.
    pub fn is_acknowledged(&self) -> bool {
        self.acknowledged.is_some_and(|number| number >= self.end)
    }

    /// Whether this number is the highest acknowledgement.
    pub fn is_repeated(&self, number: u32) -> bool {
        self.acknowledged.is_some_and(|highest| highest as u32 == number)
    }

    /// Records data that probes a closed window.
    pub fn probe(&mut self, start: u32, length: u32) {
        let start = self.unwrap(start);
        self.probe = Some((start, start + u64::from(length)));
    }

    /// Minimum time from data to its acknowledgement, the mean, and the number of measurements.
    pub fn rtt(&self) -> Option<(u64, u64, u64)> {
        let (least, _) = self.rtt?;
        let (sum, count) = self.rtt_sum;
        Some((least, sum / count.max(1), count))
    }

    /// Records data; `other` is the minimum round-trip time of the other direction. Returns the classification if the
    /// data is out of sequence.
    pub fn data(&mut self, data: &Data, other: Option<u64>) -> Option<OutOfSequence> {
        let start = self.unwrap(data.start);
        let end = start + u64::from(data.length);
        self.packets += 1;
        let seen = Seen {
            start,
            time: data.time,
            identification: data.identification,
            timestamp: data.timestamp,
        };
        if let Some((from, to)) = self.probe
            && from == self.end
            && start == to
        {
            // Its sender continues after it.
            self.end = to;
        }
        let overtaken = self.count(&seen);
        let found = if start >= self.end {
            if start > self.end {
                if self.holes.len() == MOST_HOLES {
                    self.holes.remove(0);
                }
                let hole = Hole { start: self.end, end: start, opened: seen, packet: self.packets };
                self.holes.push(hole);
            }
            self.end = end;
            if self.timed.is_none() {
                self.timed = Some((end, data.time));
            }
            overtaken
        } else {
            // Retransmitted data gives no round-trip time.
            self.timed = None;
            let whole = self.whole_rtt(other);
            let found = self.out_of_sequence(&seen, end, whole);
            self.end = self.end.max(end);
            Some(found)
        };
        self.last = Some(data.time);
        if self.recent.len() == RECENT {
            self.recent.remove(0);
        }
        self.recent.push(seen);
        found
    }

    /// Records an identification. Returns the classification of the packet if its identification is below the highest.
    fn count(&mut self, seen: &Seen) -> Option<OutOfSequence> {
        let own = seen.identification?;
        let before = |other: u16| own.wrapping_sub(other) as i16;
        let (highest, counted) = self.counted.unwrap_or((own, 0));
        match before(highest) {
            step if (1..=NEAR).contains(&step) => {
                self.counted = Some((own, counted.saturating_add(1)));
                return None;
            }
            0 => {
                self.counted = Some((own, counted));
                return None;
            }
            step if (-NEAR..0).contains(&step) => {}
            // They are random, or many packets were lost.
            _ => {
                self.counted = Some((own, 0));
                return None;
            }
        }
        let passed = |recent: &Seen| recent.identification.is_some_and(|other| before(other) < 0);
        let first = self.recent.iter().position(passed).filter(|_| counted >= COUNTING)?;
        let late = self.recent.get(first).map_or(0, |recent| seen.time.saturating_sub(recent.time));
        let extent = (self.recent.len() - first) as u64;
        Some(OutOfSequence { class: Class::Reordered, extent, late })
    }

    fn whole_rtt(&self, other: Option<u64>) -> Option<u64> {
        match (self.rtt.map(|(least, _)| least), other) {
            (Some(own), Some(other)) => Some(own + other),
            (own, other) => own.or(other),
        }
    }

    fn out_of_sequence(&mut self, seen: &Seen, end: u64, rtt: Option<u64>) -> OutOfSequence {
        let hole = self.holes.iter().position(|hole| seen.start < hole.end && end > hole.start);
        let Some(index) = hole else {
            let class =
                if self.is_copy(seen, rtt) { Class::Duplicate } else { self.cause(seen, end, rtt) };
            return OutOfSequence { class, extent: 0, late: 0 };
        };
        let hole = self.holes.remove(index);
        // Keep the parts of the hole before and after it.
        for (start, end) in [(hole.start, seen.start), (end, hole.end)] {
            if start < end {
                self.holes.insert(index.min(self.holes.len()), Hole { start, end, ..hole });
            }
        }
        let late = seen.time.saturating_sub(hole.opened.time);
        match sent_before(seen, &hole.opened, rtt) {
            Some(true) => {
                let extent = self.packets.saturating_sub(hole.packet);
                OutOfSequence { class: Class::Reordered, extent, late }
            }
            Some(false) => OutOfSequence { class: self.cause(seen, end, rtt), extent: 0, late: 0 },
            None => OutOfSequence { class: Class::Unknown, extent: 0, late: 0 },
        }
    }

    fn is_copy(&self, seen: &Seen, rtt: Option<u64>) -> bool {
        let earlier = self.recent.iter().rev().find(|earlier| earlier.start == seen.start);
        earlier.is_some_and(|earlier| match (earlier.identification, seen.identification) {
            (Some(one), Some(other)) => one == other,
            _ => {
                let soon = rtt.map_or(1_000_000, |rtt| rtt / 2);
                earlier.timestamp == seen.timestamp && seen.time.saturating_sub(earlier.time) < soon
            }
        })
    }

    /// Why data was sent again.
    fn cause(&self, seen: &Seen, end: u64, rtt: Option<u64>) -> Class {
        let since = |time: Option<u64>| time.map_or(0, |time| seen.time.saturating_sub(time));
        let silent = since(self.last);
        let behind = self.acknowledged.is_none_or(|acknowledged| acknowledged <= seen.start);
        let asked = self.repeated >= ENOUGH || self.asked.is_some_and(|beyond| seen.start < beyond);
        // A sender retransmits immediately on request; later data was caused by a timeout.
        let latest = self.rtt.map_or(0, |(_, latest)| latest).max(rtt.unwrap_or(0));
        let soon = since(self.urged).min(silent) < LEAST_RTO + latest;
        if behind && asked && soon {
            return Class::Fast;
        }
        if silent >= LEAST_RTO.max(rtt.unwrap_or(0)) {
            return Class::Timeout;
        }
        if end == self.end && rtt.is_some_and(|rtt| silent >= rtt) {
            return Class::Probe;
        }
        Class::SentAgain
    }

    /// Records an acknowledgement from the other direction. `duplicate` means that it is a duplicate by the rules of
    /// the protocol, `missing` that it reports a gap before this number. Returns the number of accepted bytes or chunks
    /// of a window probe.
    pub fn acknowledge(
        &mut self,
        number: u32,
        time: u64,
        duplicate: bool,
        missing: Option<u32>,
    ) -> u64 {
        if self.origin.is_none() {
            return 0;
        }
        let number = self.unwrap(number);
        let missing = missing.map(|number| self.unwrap(number));
        if duplicate || missing.is_some() {
            self.urged = Some(time);
        }
        match self.acknowledged {
            Some(highest) if number < highest => return 0,
            Some(highest) if number == highest => {
                self.repeated += u32::from(duplicate);
                self.asked = self.asked.max(missing);
                return 0;
            }
            _ => {}
        }
        self.acknowledged = Some(number);
        self.repeated = 0;
        self.asked = missing;
        if let Some((end, sent)) = self.timed
            && number >= end
        {
            let rtt = time.saturating_sub(sent);
            self.rtt = Some((self.rtt.map_or(rtt, |(least, _)| least.min(rtt)), rtt));
            self.rtt_sum = (self.rtt_sum.0.saturating_add(rtt), self.rtt_sum.1 + 1);
            self.timed = None;
        }
        // Drop holes below it: acknowledged data has arrived.
        self.holes.retain(|hole| hole.end > number);
        self.take_probe(number)
    }

    /// If a window probe is acknowledged, it was data.
    fn take_probe(&mut self, acknowledged: u64) -> u64 {
        match self.probe {
            Some((start, end)) if acknowledged >= end && start == self.end => {
                self.end = end;
                self.probe = None;
                end - start
            }
            _ => 0,
        }
    }
}

/// Whether data was sent before the data that came ahead of it; `None` if that is unknown.
fn sent_before(seen: &Seen, ahead: &Seen, rtt: Option<u64>) -> Option<bool> {
    if let (Some(own), Some(other)) = (seen.identification, ahead.identification)
        && own != other
    {
        return Some((own.wrapping_sub(other) as i16) < 0);
    }
    if let (Some(own), Some(other)) = (seen.timestamp, ahead.timestamp)
        && own != other
    {
        return Some((own.wrapping_sub(other) as i32) < 0);
    }
    let late = seen.time.saturating_sub(ahead.time);
    // A retransmission waits for a report of the hole, which needs nearly a round-trip time.
    rtt.map(|rtt| late < rtt - rtt / 8)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn data(start: u32, time: u64, identification: u16) -> Data {
        Data { start, length: 100, time, identification: Some(identification), timestamp: None }
    }

    fn class(tracker: &mut Tracker, data: Data) -> Option<Class> {
        tracker.data(&data, None).map(|found| found.class)
    }

    #[test]
    fn identifications_tell_reordering_from_what_is_sent_again() {
        let mut tracker = Tracker::default();
        assert_eq!(class(&mut tracker, data(0, 0, 65_534)), None);
        assert_eq!(class(&mut tracker, data(200, MS, 0)), None);
        assert_eq!(class(&mut tracker, data(300, 2 * MS, 1)), None);
        // Identifications wrap: 65535 is before 0.
        let found = tracker.data(&data(100, 3 * MS, 65_535), None).unwrap();
        assert_eq!(found, OutOfSequence { class: Class::Reordered, extent: 2, late: 2 * MS });
        assert_eq!(class(&mut tracker, data(500, 4 * MS, 3)), None);
        for n in 0..4 {
            tracker.acknowledge(400, 5 * MS + n, true, None);
        }
        assert_eq!(class(&mut tracker, data(400, 6 * MS, 9)), Some(Class::Fast));
        // The same packet again, and the same data in a new packet.
        assert_eq!(class(&mut tracker, data(400, 7 * MS, 9)), Some(Class::Duplicate));
        tracker.acknowledge(600, 8 * MS, false, None);
        assert_eq!(class(&mut tracker, data(500, 9 * MS, 10)), Some(Class::SentAgain));
        assert_eq!(class(&mut tracker, data(500, 999 * MS, 11)), Some(Class::Timeout));
    }

    #[test]
    fn without_identifications_timestamps_and_times_tell() {
        let plain = |start: u32, time: u64, timestamp: Option<u32>| Data {
            start,
            length: 100,
            time,
            identification: None,
            timestamp,
        };
        let mut tracker = Tracker::default();
        tracker.data(&plain(0, 0, Some(10)), None);
        tracker.data(&plain(200, 1, Some(11)), None);
        assert_eq!(class(&mut tracker, plain(100, 2, Some(10))), Some(Class::Reordered));
        tracker.data(&plain(400, 3, Some(12)), None);
        tracker.acknowledge(300, 4, false, Some(500));
        assert_eq!(class(&mut tracker, plain(300, 5, Some(13))), Some(Class::Fast));
        // With neither, the time decides, after a round-trip time has been measured.
        let mut tracker = Tracker::default();
        tracker.data(&plain(0, 0, None), None);
        tracker.data(&plain(200, MS, None), None);
        assert_eq!(class(&mut tracker, plain(100, 2 * MS, None)), Some(Class::Unknown));
        tracker.data(&plain(300, 10 * MS, None), None);
        tracker.acknowledge(400, 110 * MS, false, None);
        assert_eq!(tracker.rtt(), Some((100 * MS, 100 * MS, 1)));
        tracker.data(&plain(500, 120 * MS, None), None);
        assert_eq!(class(&mut tracker, plain(400, 150 * MS, None)), Some(Class::Reordered));
        tracker.data(&plain(700, 160 * MS, None), None);
        assert_eq!(class(&mut tracker, plain(600, 270 * MS, None)), Some(Class::SentAgain));
        assert_eq!(class(&mut tracker, plain(700, 390 * MS, None)), Some(Class::Probe));
    }

    #[test]
    fn the_next_data_may_have_been_overtaken_by_what_was_sent_again() {
        let mut tracker = Tracker::default();
        for n in 0..20 {
            let own = data(n * 100, u64::from(n) * MS, 65_530_u16.wrapping_add(n as u16));
            assert_eq!(class(&mut tracker, own), None);
        }
        // Of three more packets the first is lost, and the last is overtaken by the retransmission of the first.
        assert_eq!(class(&mut tracker, data(2100, 21 * MS, 15)), None);
        assert_eq!(class(&mut tracker, data(2000, 40 * MS, 17)), Some(Class::SentAgain));
        let found = tracker.data(&data(2200, 41 * MS, 16), None).unwrap();
        assert_eq!(found, OutOfSequence { class: Class::Reordered, extent: 1, late: MS });
        assert_eq!(class(&mut tracker, data(2300, 42 * MS, 18)), None);
        // Random identifications are ignored.
        let mut tracker = Tracker::default();
        for (n, id) in [9, 40_000, 7, 6, 5, 50_000, 49_999, 3].into_iter().enumerate() {
            assert_eq!(class(&mut tracker, data(n as u32 * 100, 0, id)), None);
        }
    }

    #[test]
    fn numbers_wrap() {
        let mut tracker = Tracker::default();
        assert_eq!(class(&mut tracker, data(u32::MAX - 99, 0, 1)), None);
        assert_eq!(class(&mut tracker, data(100, 1, 3)), None);
        assert_eq!(class(&mut tracker, data(0, 2, 2)), Some(Class::Reordered));
        assert_eq!(class(&mut tracker, data(200, 3, 4)), None);
    }

    #[test]
    fn memory_is_bounded() {
        let mut tracker = Tracker::default();
        for n in 0..10_000_u32 {
            tracker.data(&data(n * 200, u64::from(n), n as u16), None);
        }
        assert_eq!((tracker.holes.len(), tracker.recent.len()), (MOST_HOLES, RECENT));
    }
}
