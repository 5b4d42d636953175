//! Packets of those who have no association: when there are so many of them that associations
//! must be guarded, and how much work they may make then.

use std::time::Duration;

use anabranch_proto::Instant;

/// So many packets that led to nothing within [`WINDOW`] are a flood, which has not filled the
/// queue of a socket then.
const FLOOD: u64 = 512;
const WINDOW: Duration = Duration::from_millis(100);

/// How long strangers get no more than their share of work after that.
const CAUTION: Duration = Duration::from_secs(1);

/// Their share: so many packets at once, and then so many for each millisecond and one for so
/// many packets of associations. An INIT costs as much as ten or twenty packets with data, and
/// a busy machine may give the endpoint a small part of a core.
const MOST_AT_ONCE: i64 = 64;
const PER_MILLISECOND: i64 = 1;
const PACKETS_FOR_ONE: u64 = 128;

/// How long after that the sockets go on to prefer the tags of associations.
const CALM: Duration = Duration::from_secs(10);

/// Least time between two changes of what the sockets prefer.
const SETTLE: Duration = Duration::from_millis(10);

/// Counts packets of strangers, and limits them during a flood.
#[derive(Debug)]
pub(crate) struct Strangers {
    /// Begin of the window, and the packets there had been then.
    window: (Instant, u64),
    /// Until when a flood is assumed.
    flood_until: Option<Instant>,
    /// When the sockets were told of which state of the associations.
    told: Option<(Instant, u64)>,
    /// Packets that are to set associations up have a queue of their own without a flood, too.
    setup_apart: bool,
    /// Packets that may be looked at now, less those of a call that were too many, and until
    /// when that is counted.
    allowed: i64,
    counted_until: Instant,
    /// Packets in the other queues that were counted.
    packets: u64,
}

impl Strangers {
    pub(crate) fn new(now: Instant) -> Self {
        let allowed = MOST_AT_ONCE;
        let (window, counted_until) = ((now, 0), now);
        Self {
            window,
            flood_until: None,
            told: None,
            setup_apart: false,
            allowed,
            counted_until,
            packets: 0,
        }
    }

    /// Whether the sockets should have a queue of its own for what is to set associations up, and
    /// prefer all else: from the first listener on, so that a flood finds it there, and again when
    /// a flood is over. It is taken as done.
    pub(crate) fn keep_setup_apart(&mut self, now: Instant, listening: bool) -> bool {
        let over = self.told.is_some() && self.flood_until.is_none_or(|until| now >= until + CALM);
        if over {
            self.told = None;
        }
        let first = listening && !self.setup_apart;
        self.setup_apart |= first || over;
        first || over
    }

    /// So many packets have led to nothing in all, and the associations are in a state with this
    /// number. Returns whether the sockets should be told what to prefer; if so,
    /// [`tell`](Self::tell) is to follow.
    pub(crate) fn count(&mut self, now: Instant, packets: u64, revision: u64) -> bool {
        let (begin, before) = self.window;
        let flooded = packets.saturating_sub(before) > FLOOD;
        if flooded {
            self.flood_until = Some(now + CAUTION);
        }
        if flooded || packets < before || now.saturating_since(begin) > WINDOW {
            self.window = (now, packets);
        }
        self.flood_until.is_some_and(|until| now < until)
            && self.told.is_none_or(|(at, known)| known != revision && now >= at + SETTLE)
    }

    /// The sockets know what to prefer in this state of the associations.
    pub(crate) fn tell(&mut self, now: Instant, revision: u64) {
        self.told = Some((now, revision));
    }

    /// Whether the queues of strangers may be looked at, when there have been so many packets in
    /// the other ones.
    pub(crate) fn may_look(&mut self, now: Instant, packets: u64) -> bool {
        if self.flood_until.is_none_or(|until| now >= until) {
            self.allowed = MOST_AT_ONCE;
            self.packets = packets;
            self.counted_until = now;
            return self.told.is_some() || self.setup_apart;
        }
        let passed = now.saturating_since(self.counted_until).as_micros();
        let more = i64::try_from(passed).unwrap_or(i64::MAX).saturating_mul(PER_MILLISECOND) / 1000;
        if more > 0 {
            self.allowed = self.allowed.saturating_add(more).min(MOST_AT_ONCE);
            self.counted_until = now;
        }
        let rounds = packets.saturating_sub(self.packets) / PACKETS_FOR_ONE;
        self.allowed = self.allowed.saturating_add_unsigned(rounds).min(MOST_AT_ONCE);
        self.packets += rounds * PACKETS_FOR_ONE;
        (self.told.is_some() || self.setup_apart) && self.allowed > 0
    }

    /// So many packets of strangers were looked at.
    pub(crate) fn looked(&mut self, packets: u64) {
        self.allowed = self.allowed.saturating_sub_unsigned(packets);
    }

    /// When there is something to do again that no packet tells of.
    pub(crate) fn next_deadline(&self, revision: u64) -> Option<Instant> {
        let (at, known) = self.told?;
        let until = self.flood_until?;
        let tell = (known != revision && at + SETTLE < until).then_some(at + SETTLE);
        let debt = u64::try_from(-self.allowed / PER_MILLISECOND).unwrap_or(0);
        let look = self.counted_until + Duration::from_millis(1 + debt);
        let look = (self.allowed <= 0).then_some(look);
        [tell, look].into_iter().flatten().min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(millis)
    }

    /// In the middle of a flood.
    fn flooded() -> Strangers {
        let mut strangers = Strangers::new(at(0));
        assert!(strangers.count(at(1), 5_000, 1));
        strangers.tell(at(1), 1);
        strangers
    }

    #[test]
    fn only_a_flood_is_one() {
        let mut strangers = Strangers::new(at(0));
        // One a millisecond for ten seconds.
        assert!((0..10_000).all(|ms| !strangers.count(at(ms), ms, 1)));
        // As many handshakes under way.
        assert!((0..10_000).all(|ms| !strangers.count(at(ms), 10_000 + ms % 400, 1)));
        assert_eq!(strangers.next_deadline(2), None);
        assert!(!strangers.may_look(at(10_000), 1000));
        assert!(strangers.count(at(10_001), 11_000, 1));
        strangers.tell(at(10_001), 1);
        assert!(!strangers.count(at(10_002), 20_000, 1));
    }

    #[test]
    fn sockets_are_told_of_changes_but_not_of_each() {
        let mut strangers = flooded();
        assert!(!strangers.count(at(2), 5_000, 2));
        assert_eq!(strangers.next_deadline(2), Some(at(11)));
        assert!(strangers.count(at(11), 5_000, 3));
        strangers.tell(at(11), 3);
        assert_eq!(strangers.next_deadline(3), None);
    }

    #[test]
    fn a_flood_gets_its_share_of_work() {
        let mut strangers = flooded();
        let (mut looked, mut packets) = (0, 0);
        for us in 0..1_000_000 {
            let now = at(1) + Duration::from_micros(us);
            strangers.count(now, 10_000 * us, 1);
            while strangers.may_look(now, packets) {
                strangers.looked(8);
                looked += 8;
            }
            assert!(strangers.next_deadline(1).is_some());
            packets += u64::from(us % 10 == 0);
        }
        let share = 1000 * PER_MILLISECOND + i64::try_from(packets / PACKETS_FOR_ONE).unwrap();
        assert!((share - 8..=MOST_AT_ONCE + share + 8).contains(&looked), "{looked}");
    }

    #[test]
    fn setup_is_kept_apart_from_the_first_listener_on() {
        let mut strangers = Strangers::new(at(0));
        assert!(!strangers.keep_setup_apart(at(0), false) && !strangers.may_look(at(0), 0));
        assert!(strangers.keep_setup_apart(at(1), true));
        assert!(!strangers.keep_setup_apart(at(2), true) && strangers.may_look(at(2), 0));
        // The associations' tags are told all the same, and not for ever.
        assert!(strangers.count(at(3), 5_000, 1));
        strangers.tell(at(3), 1);
        assert!(!strangers.keep_setup_apart(at(11_002), true));
        assert!(strangers.keep_setup_apart(at(11_003), true));
        assert!(!strangers.keep_setup_apart(at(11_004), true));
        assert!(strangers.count(at(11_005), 10_000, 1));
    }

    #[test]
    fn a_flood_ends() {
        let mut strangers = flooded();
        for ms in 1002..1100 {
            strangers.count(at(ms), 5_010, 1);
            for _ in 0..1000 {
                assert!(strangers.may_look(at(ms), 0));
                strangers.looked(8);
            }
        }
    }
}
