//! Path MTU discovery with probes (RFC 8899, DPLPMTUD; section 6.2 for SCTP).
//!
//! A probe is a HEARTBEAT with a PAD chunk; the HEARTBEAT ACK confirms its size. Sizes are those of IP packets,
//! including all headers. This module decides what to probe and when; the path builds and sends the probes.

use std::time::Duration;

use super::MtuConfig;
use crate::marks::mark;
use crate::time::{Instant, nanos};

/// MAX_PROBES: a size is considered too large after this many lost probes.
const MAX_PROBES: u32 = 3;

/// Minimum of PROBE_TIMER.
const MIN_PROBE_TIMER: Duration = Duration::from_secs(1);

/// After this many consecutive timeouts of packets above the base size, their size is considered the cause of the
/// losses.
const MAX_LOSSES: u32 = 2;

/// The MTU of most paths.
const ETHERNET: u16 = 1500;

/// Sizes that links and tunnels often permit, which are tried first.
const COMMON: [u16; 12] =
    [1280, 1360, 1400, 1420, 1448, 1472, 1480, 1492, ETHERNET, 4352, 8192, 9000];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// It is not known whether the path works.
    Disabled,
    /// Probes whether packets of the base size pass.
    Base,
    /// Probes for a larger size than the current one.
    Searching,
    /// The size is found. If larger sizes exist, the search is repeated at this time.
    Complete(Option<Instant>),
}

/// A probe in flight.
#[derive(Clone, Copy, Debug)]
struct Probe {
    size: u16,
    expires: Instant,
}

/// The search for the path MTU of one path.
#[derive(Clone, Debug)]
pub(crate) struct MtuSearch {
    discovery: bool,
    min: u16,
    base: u16,
    max: u16,
    /// In nanoseconds.
    raise_interval: u64,
    state: State,
    /// PLPMTU.
    current: u16,
    /// The smallest size known or assumed to be too large; above `max` if there is none.
    too_large: u32,
    /// The size that a router reported, not confirmed yet.
    hint: Option<u16>,
    probe: Option<Probe>,
    /// The size of the last lost probes, and the number of consecutive ones lost.
    lost: (u16, u32),
    /// Number of consecutive timeouts of packets above the base size.
    losses: u32,
}

impl MtuSearch {
    /// Starts with the base size. `min` is the minimum size that the path's IP version must carry: 576 for IPv4, 1,280
    /// for IPv6. The search does not begin before [`on_path_confirmed`](Self::on_path_confirmed).
    pub(crate) fn new(config: &MtuConfig, min: u16) -> Self {
        let base = if config.discovery { config.base.max(min) } else { config.base };
        let max = config.max.max(base);
        Self {
            discovery: config.discovery,
            min: min.min(base),
            base,
            max,
            raise_interval: nanos(config.raise_interval),
            state: State::Disabled,
            current: base,
            too_large: u32::from(max) + 1,
            hint: None,
            probe: None,
            lost: (0, 0),
            losses: 0,
        }
    }

    /// The path MTU to use: the size of an IP packet in bytes.
    pub(crate) fn current(&self) -> u16 {
        self.current
    }

    /// The base size; only larger packets count as full-sized.
    pub(crate) fn base(&self) -> u16 {
        self.base
    }

    /// Records that the peer has answered on the path.
    pub(crate) fn on_path_confirmed(&mut self) {
        if self.discovery && self.state == State::Disabled {
            self.enter_base();
        }
    }

    /// Records that the path has stopped working, perhaps because of the size of its packets.
    pub(crate) fn on_path_lost(&mut self) {
        if self.discovery {
            self.enter_base();
            self.state = State::Disabled;
        }
    }

    /// The size of the probe that must be sent now.
    // req: rfc8899 3 "between probe packets MUST be at least one"
    // req: rfc8899 8 "individual probe packets MUST be at least one"
    pub(crate) fn next_probe(&self) -> Option<u16> {
        match self.state {
            _ if self.probe.is_some() => None,
            State::Base => Some(self.base),
            State::Searching => self.candidate(),
            State::Disabled | State::Complete(_) => None,
        }
    }

    /// Records that a probe was sent; `rto` is that of the path.
    pub(crate) fn on_probe_sent(&mut self, now: Instant, size: u16, rto: Duration) {
        // The answer to a HEARTBEAT is not delayed, and the round-trip time is known, so it is not necessary to wait
        // for 15 seconds.
        // req: rfc8899 5.1.1 "This value MUST NOT be smaller than 1"
        // exempt: rfc8899 5.1.1 "SHOULD be larger than 15 seconds" the RTO tells when an answer is overdue
        let wait = rto.saturating_mul(2).max(MIN_PROBE_TIMER);
        self.probe = Some(Probe { size, expires: now + wait });
    }

    /// Records that a probe of this size arrived at the peer.
    pub(crate) fn on_probe_acked(&mut self, now: Instant, size: u16) {
        // req: rfc8899 3 "A method is REQUIRED to be robust to"
        // Answers to earlier probes that were given up describe the path as it was before.
        if self.probe.is_none_or(|probe| probe.size != size) {
            return;
        }
        self.probe = None;
        self.lost = (0, 0);
        self.hint = self.hint.filter(|&hint| hint > size);
        match self.state {
            State::Base => {
                self.current = self.base;
                self.search(now);
            }
            State::Searching => {
                mark!(MtuRaised);
                self.current = size;
                self.search(now);
            }
            State::Disabled | State::Complete(_) => {}
        }
    }

    /// Records that the probe of this size was lost.
    // req: rfc8899 3 "The PL is REQUIRED to be robust in"
    // req: rfc8899 3 "a probe packet SHOULD NOT be treated as"
    // req: rfc8899 3 "of congestion and SHOULD NOT trigger a congestion"
    pub(crate) fn on_probe_lost(&mut self, now: Instant, size: u16) {
        if self.probe.is_none_or(|probe| probe.size != size) {
            return;
        }
        self.probe = None;
        let count = if self.lost.0 == size { self.lost.1 + 1 } else { 1 };
        self.lost = (size, count);
        if count < MAX_PROBES {
            return;
        }
        match self.state {
            State::Base => self.enter_error(now, self.base),
            State::Searching => {
                self.too_large = u32::from(size);
                self.hint = None;
                self.search(now);
            }
            State::Disabled | State::Complete(_) => {}
        }
    }

    /// When [`on_timeout`](Self::on_timeout) must be called.
    // req: rfc8899 5.1.1 "this timer MUST NOT be used"
    // req: rfc8899 6.2.1.3 "a sender MUST NOT implement the CONFIRMATION"
    pub(crate) fn deadline(&self) -> Option<Instant> {
        match (self.probe, self.state) {
            (Some(probe), _) => Some(probe.expires),
            (None, State::Complete(raise)) => raise,
            (None, _) => None,
        }
    }

    /// Handles a deadline, if one has passed.
    pub(crate) fn on_timeout(&mut self, now: Instant) {
        if let Some(probe) = self.probe {
            if probe.expires <= now {
                self.on_probe_lost(now, probe.size);
            }
        } else if let State::Complete(Some(raise)) = self.state
            && raise <= now
        {
            self.too_large = u32::from(self.max) + 1;
            if self.discovery {
                self.search(now);
            } else {
                self.current = self.base;
                self.state = State::Disabled;
            }
        }
    }

    /// Handles a report that a router on the path dropped a packet because it forwards only `mtu` bytes. The message
    /// must have been validated (RFC 9260 section 10).
    // req: rfc8899 6.2.1.4 "the PTB message SHOULD be used with the"
    // req: rfc8899 3 "A PTB message MUST NOT be used to"
    // req: rfc8899 3 "greater than that currently probed SHOULD be ignored"
    pub(crate) fn on_packet_too_big(&mut self, now: Instant, mtu: u16) {
        if !self.discovery {
            self.follow_router(now, mtu);
            return;
        }
        // req: rfc8899 4.6.2 "MUST NOT be used directly to set the"
        if self.state == State::Disabled || mtu < self.min {
            return;
        }
        if mtu < self.current {
            mark!(MtuRouterSaid);
            // req: rfc8899 4.6.2 "The PLPMTU SHOULD be set to BASE_PLPMTU"
            self.probe = None;
            if mtu < self.base {
                self.enter_error(now, mtu + 1);
            } else {
                self.current = self.base;
                self.too_large = u32::from(mtu) + 1;
            }
        } else if self.probe.is_some_and(|probe| mtu < probe.size) {
            self.probe = None;
            self.too_large = u32::from(mtu) + 1;
        } else {
            return;
        }
        self.losses = 0;
        self.hint = Some(mtu);
        self.search(now);
    }

    /// Follows a router's report if there are no probes. The fixed size applies unless a router reports a smaller one
    /// (RFC 1191 section 6.3).
    fn follow_router(&mut self, now: Instant, mtu: u16) {
        if (self.min..self.current).contains(&mtu) {
            mark!(MtuRouterSaid);
            self.current = mtu;
            self.state = State::Complete(Some(now + Duration::from_nanos(self.raise_interval)));
        }
    }

    /// Limits the size to `mtu`, because the local interface sends no larger packets.
    // req: rfc8899 3 "DPLPMTUD sender is RECOMMENDED to utilize information about"
    pub(crate) fn on_local_limit(&mut self, now: Instant, mtu: u16) {
        if mtu >= self.max || mtu < self.min {
            return;
        }
        self.max = mtu;
        self.base = self.base.min(mtu);
        self.current = self.current.min(mtu);
        self.too_large = self.too_large.min(u32::from(mtu) + 1);
        if self.probe.is_some_and(|probe| probe.size > mtu) {
            self.probe = None;
        }
        if self.state == State::Searching {
            self.search(now);
        }
    }

    /// Records that the retransmission timer expired for a packet above the base size.
    // req: rfc8899 4.3 "A DPLPMTUD method MUST NOT rely solely on"
    // req: rfc6951 5.5 "the SCTP stack MUST NOT rely on receiving"
    // req: rfc6951 5.6 "and RFC4821 it MUST be taken into account"
    // req: rfc8899 3 "methods are robust to path changes"
    pub(crate) fn on_full_size_loss(&mut self) {
        self.losses += 1;
        if self.losses >= MAX_LOSSES && self.discovery && self.current > self.base {
            mark!(MtuBlackHole);
            self.enter_base();
            // It is no longer known whether the base size passes. If the path MTU is set to the size that every path
            // must carry, data need not wait for a probe of the base size: a round trip if it passes, several probes if
            // not.
            // exempt: rfc8899 5.1.2 "default BASE_PLPMTU of 1200 bytes is RECOMMENDED" after a black hole packets have the least size until a probe of the base size is answered
            self.current = self.min;
        }
    }

    /// Records that a packet above the base size was acknowledged.
    pub(crate) fn on_full_size_acked(&mut self) {
        self.losses = 0;
    }

    fn enter_base(&mut self) {
        self.state = State::Base;
        self.current = self.base;
        self.too_large = u32::from(self.max) + 1;
        self.hint = None;
        self.probe = None;
        self.lost = (0, 0);
        self.losses = 0;
    }

    /// Handles the loss of packets of `too_large` bytes, the base size or less: uses the minimum size, and searches
    /// from there.
    fn enter_error(&mut self, now: Instant, too_large: u16) {
        mark!(MtuBelowBase);
        self.current = self.min;
        self.too_large = u32::from(too_large);
        self.hint = None;
        self.search(now);
    }

    /// Continues the search if there are sizes left to try.
    fn search(&mut self, now: Instant) {
        self.state = State::Searching;
        if self.candidate().is_none() {
            // req: rfc8899 5.2 "DPLPMTUD SHOULD NOT continue to generate PLPMTU probes"
            // req: rfc8899 8 "a PLPMTUD implementation SHOULD consider how to mitigate"
            // req: rfc8899 3 "determine whether the path has changed"
            let raise =
                (self.current < self.max).then(|| now + Duration::from_nanos(self.raise_interval));
            self.state = State::Complete(raise);
        }
    }

    /// The next size to try above the current one.
    // req: rfc8899 5.3.2 "maximize the gain in PLPMTU from each search"
    fn candidate(&self) -> Option<u16> {
        let open = |size: u16| size > self.current && u32::from(size) < self.too_large;
        if let Some(hint) = self.hint.filter(|&hint| open(hint)) {
            return Some(hint);
        }
        [self.max, ETHERNET]
            .into_iter()
            .find(|&size| open(size))
            .or_else(|| {
                let common = COMMON.into_iter().filter(|&size| open(size));
                let count = common.clone().count();
                common.clone().nth(count / 2)
            })
            .or_else(|| {
                // The rest is searched with a precision of 4 bytes, or 128 bytes above the size of Ethernet.
                let step = if self.current < ETHERNET { 4 } else { 128 };
                let gap = self.too_large.saturating_sub(u32::from(self.current));
                let middle = self.current.saturating_add(u16::try_from(gap / 2).ok()?) & !3;
                (gap > step && open(middle)).then_some(middle)
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RTO: Duration = Duration::from_secs(1);
    const RTT: Duration = Duration::from_millis(50);

    /// A path in virtual time.
    struct Path {
        search: MtuSearch,
        now: Instant,
        mtu: u16,
        /// Whether routers send ICMP messages.
        icmp: bool,
        probes: Vec<u16>,
        /// Numbers of probes that are lost at random.
        unlucky: Vec<usize>,
    }

    impl Path {
        fn new(config: MtuConfig, min: u16, mtu: u16) -> Self {
            let mut search = MtuSearch::new(&config, min);
            assert_eq!((search.next_probe(), search.deadline()), (None, None));
            search.on_path_confirmed();
            let (probes, unlucky) = (Vec::new(), Vec::new());
            Self { search, now: Instant::ZERO, mtu, icmp: false, probes, unlucky }
        }

        /// Sends one probe, if one is due, and waits for the result.
        fn step(&mut self) -> bool {
            let Some(size) = self.search.next_probe() else { return false };
            self.search.on_probe_sent(self.now, size, RTO);
            // test: rfc8899 3 "between probe packets MUST be at least one"
            // test: rfc8899 8 "individual probe packets MUST be at least one"
            assert_eq!(self.search.next_probe(), None, "one at a time");
            let lost = self.unlucky.contains(&self.probes.len());
            self.probes.push(size);
            if size <= self.mtu && !lost {
                self.now += RTT;
                self.search.on_probe_acked(self.now, size);
            } else if size > self.mtu && self.icmp {
                self.now += RTT;
                self.search.on_packet_too_big(self.now, self.mtu);
            } else {
                let deadline = self.search.deadline().unwrap();
                // test: rfc8899 5.1.1 "This value MUST NOT be smaller than 1"
                assert!(deadline >= self.now + MIN_PROBE_TIMER);
                self.now = deadline;
                self.search.on_timeout(self.now);
            }
            true
        }

        /// Searches until the size is found.
        fn settle(&mut self) -> u16 {
            self.probes.clear();
            while self.step() {
                assert!(self.probes.len() < 100, "no end: {:?}", self.probes);
                assert!(self.search.current() <= self.mtu || self.mtu < self.search.min);
            }
            self.search.current()
        }
    }

    fn config(max: u16) -> MtuConfig {
        MtuConfig { max, ..MtuConfig::default() }
    }

    #[test]
    // test: rfc8899 5.1.1 "this timer MUST NOT be used"
    // test: rfc8899 5.1.2 "default BASE_PLPMTU of 1200 bytes is RECOMMENDED"
    // test: rfc8899 5.2 "DPLPMTUD SHOULD NOT continue to generate PLPMTU probes"
    // test: rfc8899 6.2.1.3 "a sender MUST NOT implement the CONFIRMATION"
    fn most_paths_take_two_probes() {
        let mut path = Path::new(config(1500), 576, 1500);
        assert_eq!(path.search.current(), 1200);
        assert_eq!(path.settle(), 1500);
        assert_eq!(path.probes, [1200, 1500]);
        assert_eq!(path.search.deadline(), None, "nothing larger exists");
        let mut path = Path::new(config(9000), 576, 9000);
        assert_eq!(path.settle(), 9000);
        assert_eq!(path.probes, [1200, 9000]);
        let mut path = Path::new(config(1500), 1280, 1500);
        assert_eq!((path.search.current(), path.settle()), (1280, 1500), "IPv6");
    }

    #[test]
    // test: rfc8899 5.3.2 "maximize the gain in PLPMTU from each search"
    fn every_path_mtu_is_found() {
        for mtu in (1200..=1500).chain((1500..9000).step_by(61)) {
            for max in [1500, 9000] {
                let found = Path::new(config(max), 576, mtu).settle();
                let best = mtu.min(max);
                let step = if mtu < 1500 { 4 } else { 128 };
                assert!(found <= best && best - found <= step, "{mtu} {max}: {found}");
            }
        }
        let mut path = Path::new(config(1500), 576, 1280);
        assert_eq!(path.settle(), 1280);
        assert!(path.probes.len() <= 27, "{:?}", path.probes);
    }

    #[test]
    // test: rfc8899 4.6.2 "MUST NOT be used directly to set the"
    // test: rfc8899 6.2.1.4 "the PTB message SHOULD be used with the"
    fn routers_speed_the_search_up() {
        let mut path = Path::new(config(9000), 576, 1420);
        path.icmp = true;
        assert_eq!(path.settle(), 1420);
        assert_eq!(path.probes, [1200, 9000, 1420]);
    }

    #[test]
    // test: rfc8899 3 "The PL is REQUIRED to be robust in"
    fn chance_losses_do_not_matter() {
        let mut path = Path::new(config(1500), 576, 1500);
        path.unlucky = vec![0, 1, 3, 4];
        assert_eq!(path.settle(), 1500);
        assert_eq!(path.probes, [1200, 1200, 1200, 1500, 1500, 1500]);
    }

    #[test]
    fn a_narrow_path_below_the_base() {
        let mut path = Path::new(config(1500), 576, 1000);
        path.probes.clear();
        while path.step() {}
        let found = path.search.current();
        assert!((996..=1000).contains(&found), "{found}");
        // The path improves; the raise timer detects that.
        path.mtu = 1500;
        path.now = path.search.deadline().unwrap();
        path.search.on_timeout(path.now);
        assert_eq!(path.settle(), 1500);
    }

    #[test]
    // test: rfc8899 3 "determine whether the path has changed"
    // test: rfc8899 8 "a PLPMTUD implementation SHOULD consider how to mitigate"
    fn the_raise_timer_searches_again() {
        let mut path = Path::new(config(1500), 576, 1400);
        assert_eq!(path.settle(), 1400);
        let complete = path.now;
        let raise = path.search.deadline().unwrap();
        assert_eq!(raise, complete + Duration::from_secs(600));
        path.search.on_timeout(complete + Duration::from_secs(599));
        assert_eq!(path.search.next_probe(), None);
        path.now = raise;
        path.mtu = 1500;
        path.search.on_timeout(raise);
        assert_eq!(path.search.current(), 1400);
        assert_eq!((path.settle(), &path.probes[..]), (1500, &[1500][..]));
    }

    #[test]
    // test: rfc8899 4.6.2 "The PLPMTU SHOULD be set to BASE_PLPMTU"
    fn a_path_shrinks_and_says_so() {
        let mut path = Path::new(config(1500), 576, 1500);
        path.settle();
        path.mtu = 1280;
        path.search.on_packet_too_big(path.now, 1280);
        assert_eq!(path.search.current(), 1200);
        assert_eq!((path.settle(), &path.probes[..]), (1280, &[1280][..]));
        assert!(path.search.deadline().is_some());
    }

    #[test]
    // test: rfc8899 4.3 "A DPLPMTUD method MUST NOT rely solely on"
    // test: rfc6951 5.6 "and RFC4821 it MUST be taken into account"
    fn a_path_shrinks_without_a_word() {
        let mut path = Path::new(config(1500), 576, 1500);
        path.settle();
        path.mtu = 1280;
        path.search.on_full_size_loss();
        path.search.on_full_size_acked();
        path.search.on_full_size_loss();
        assert_eq!(path.search.current(), 1500, "not in a row");
        path.search.on_full_size_loss();
        assert_eq!(path.search.current(), 576, "until the base size has passed");
        assert!(path.step());
        assert_eq!((path.search.current(), path.probes.last()), (1200, Some(&1200)));
        assert_eq!(path.settle(), 1280);
        assert_eq!(path.probes[0], 1500);
    }

    #[test]
    // test: rfc8899 3 "A PTB message MUST NOT be used to"
    // test: rfc8899 3 "greater than that currently probed SHOULD be ignored"
    fn words_of_routers_that_mean_nothing() {
        let mut path = Path::new(config(1500), 576, 1500);
        path.settle();
        for mtu in [0, 68, 575, 1500, 1501, 9000] {
            path.search.on_packet_too_big(path.now, mtu);
            assert_eq!((path.search.current(), path.search.next_probe()), (1500, None), "{mtu}");
        }
        path.search.on_packet_too_big(path.now, 600);
        assert_eq!((path.search.current(), path.search.next_probe()), (576, Some(600)));
    }

    #[test]
    // test: rfc8899 3 "A method is REQUIRED to be robust to"
    fn answers_to_old_probes_mean_nothing() {
        let mut path = Path::new(config(1500), 576, 1500);
        path.step();
        path.search.on_probe_sent(path.now, 1500, RTO);
        path.search.on_packet_too_big(path.now, 1400);
        path.search.on_probe_acked(path.now, 1500);
        assert_eq!((path.search.current(), path.search.next_probe()), (1200, Some(1400)));
        path.search.on_probe_lost(path.now, 1400);
        assert_eq!(path.search.next_probe(), Some(1400));
    }

    #[test]
    // test: rfc8899 3 "methods are robust to path changes"
    fn a_lost_path_starts_over() {
        let mut path = Path::new(config(1500), 576, 1500);
        path.settle();
        path.search.on_path_lost();
        assert_eq!((path.search.current(), path.search.next_probe()), (1200, None));
        path.search.on_path_confirmed();
        assert_eq!(path.settle(), 1500);
    }

    #[test]
    // test: rfc8899 3 "DPLPMTUD sender is RECOMMENDED to utilize information about"
    fn the_interface_limits_the_search() {
        let mut path = Path::new(config(9000), 576, 1420);
        path.search.on_local_limit(path.now, 1420);
        assert_eq!(path.settle(), 1420);
        assert_eq!(path.probes, [1200, 1420]);
        path.search.on_local_limit(path.now, 1300);
        assert_eq!((path.search.current(), path.search.next_probe()), (1300, None));
        path.search.on_local_limit(path.now, 1100);
        assert_eq!((path.search.current(), path.search.base()), (1100, 1100));
        // A probe in flight is still valid if it could be sent.
        for (limit, next) in [(1400, Some(1400)), (4000, None)] {
            let mut path = Path::new(config(9000), 576, 1500);
            path.step();
            path.search.on_probe_sent(path.now, 1500, RTO);
            path.search.on_local_limit(path.now, limit);
            assert_eq!(path.search.next_probe(), next, "{limit}");
        }
    }

    #[test]
    fn a_fixed_size_stays() {
        let mut search = MtuSearch::new(&MtuConfig::fixed(1400), 1280);
        search.on_path_confirmed();
        (0..9).for_each(|_| search.on_full_size_loss());
        search.on_path_lost();
        assert_eq!((search.current(), search.next_probe(), search.deadline()), (1400, None, None));
    }

    #[test]
    // test: rfc9260 10 "implementation SHOULD process this information as defined"
    fn a_fixed_size_yields_to_routers_for_a_while() {
        let mut search = MtuSearch::new(&MtuConfig::fixed(1400), 1280);
        search.on_path_confirmed();
        let now = Instant::from_nanos(5);
        for nonsense in [0, 1279, 1400, 9000] {
            search.on_packet_too_big(now, nonsense);
            assert_eq!((search.current(), search.deadline()), (1400, None), "{nonsense}");
        }
        search.on_packet_too_big(now, 1300);
        let raise = now + Duration::from_secs(600);
        assert_eq!((search.current(), search.deadline()), (1300, Some(raise)));
        search.on_packet_too_big(raise, 1280);
        let raise = raise + Duration::from_secs(600);
        assert_eq!((search.current(), search.next_probe()), (1280, None));
        search.on_timeout(raise);
        assert_eq!((search.current(), search.next_probe(), search.deadline()), (1400, None, None));
    }
}
