//! Gives slow paths only data that arrives in time (`SlowPaths::InTime`): measures the speed of each path, decides
//! its share, and retransmits late chunks on the best path. `policy/slow_paths.rs` has the rules.

use std::time::Duration;

use super::Sender;
use crate::marks::mark;
use crate::path::{Path, Paths};
use crate::per_path::{OfPath, PathId, PerPath};
use crate::policy::slow_paths::{self, Share, SlowPaths, Speed};
use crate::send::{Cause, SlotState};
use crate::time::{Instant, nanos};

/// How long a path rests after data on it was late: the initial and the maximum time. The time doubles each time,
/// until data arrives in time.
const FIRST_REST: Duration = Duration::from_millis(500);
const LONGEST_REST: Duration = Duration::from_secs(4);

/// A packet whose acknowledgement measures the path.
#[derive(Clone, Copy, Debug)]
struct Probe {
    packet: u64,
    sent: Instant,
    /// The number of bytes delivered before.
    delivered: u64,
}

/// A pause of a path whose late chunks were retransmitted on another path, while the original copies are still in
/// flight.
#[derive(Clone, Copy, Debug)]
struct Rest {
    began: Instant,
    until: Instant,
    /// The number of bytes that were retransmitted on another path.
    owed: usize,
}

/// State of one path.
#[derive(Debug)]
pub(super) struct Known {
    path: PathId,
    /// The number of bytes acknowledged.
    delivered: u64,
    probe: Option<Probe>,
    /// The last measurement: the rate in bytes per second, and the delay of the packet.
    rate: u64,
    delay: Duration,
    /// The shortest delay of a packet; zero before the first measurement.
    least: Duration,
    rest: Option<Rest>,
    /// When a path that is too slow is next tried with a packet, and how long it rests if that packet is late.
    try_at: Instant,
    rest_time: Duration,
    /// When the path may carry data again merely because time has passed; needs a timer.
    wake: Option<Instant>,
    /// The speed of the path, if it may carry new data now.
    speed: Option<Speed>,
    share: Share,
}

impl OfPath for Known {
    #[inline]
    fn id(&self) -> PathId {
        self.path
    }
}

impl Known {
    fn new(path: PathId) -> Self {
        Self {
            path,
            delivered: 0,
            probe: None,
            rate: 0,
            delay: Duration::ZERO,
            least: Duration::ZERO,
            rest: None,
            try_at: Instant::ZERO,
            rest_time: FIRST_REST,
            wake: None,
            speed: None,
            share: Share::ALL,
        }
    }

    /// Sets `wake` from the times that it depends on.
    fn plan(&mut self, now: Instant) {
        let times = [self.rest.map(|rest| rest.until), Some(self.try_at)];
        self.wake = times.into_iter().flatten().filter(|at| *at > now).min();
    }

    fn rests(&self, now: Instant) -> bool {
        self.rest.is_some_and(|rest| now < rest.until)
    }

    /// Whether a packet of new data may be sent, with `flight` bytes in flight and `unsent` bytes queued.
    fn admits(&self, now: Instant, flight: usize, packet: usize, unsent: usize) -> bool {
        if self.rests(now) {
            return false;
        }
        if self.share == Share::NOTHING {
            return flight == 0 && now >= self.try_at;
        }
        flight + packet <= self.share.most && unsent >= self.share.least_unsent
    }

    /// The delay of the last packet that was measured, or else the average of the path; `None` if nothing is known.
    fn last_delay(&self, path: &Path) -> Option<Duration> {
        if self.delay.is_zero() { path.rtt.srtt() } else { Some(self.delay) }
    }

    /// Records that a packet arrived `delay` after it was sent, and `bytes` arrived meanwhile.
    fn measured(&mut self, delay: Duration, bytes: u64) {
        let delay = delay.max(Duration::from_micros(1));
        let rate = u128::from(bytes) * 1_000_000_000 / u128::from(nanos(delay));
        self.rate = u64::try_from(rate).unwrap_or(u64::MAX);
        self.delay = delay;
        self.least = if self.least.is_zero() { delay } else { self.least.min(delay) };
        self.probe = None;
    }
}

/// State of all paths.
#[derive(Debug, Default)]
pub(super) struct InTime {
    paths: PerPath<Known>,
    /// The fastest path.
    best: PathId,
}

impl InTime {
    /// Removes a path.
    pub(super) fn remove(&mut self, path: PathId) {
        self.paths.remove(path);
    }
}

impl Sender {
    /// Whether the option to hold back slow paths is set.
    fn is_in_time(&self) -> bool {
        self.config.concurrent().is_some_and(|multipath| multipath.slow_paths == SlowPaths::InTime)
    }

    /// Whether slow paths are held back now: several paths carry new data.
    fn keeps_time(&self, paths: &PerPath<Path>) -> bool {
        self.is_in_time() && paths.iter().filter(|path| path.is_concurrent()).nth(1).is_some()
    }

    /// Whether a packet of new data would arrive in time on a path, if the path has room for it.
    pub(super) fn arrives_in_time(&self, now: Instant, path: PathId, paths: &Paths) -> bool {
        let Some(all) = self.in_time.as_deref() else { return true };
        let Some(known) = all.paths.get(path) else { return true };
        // A class has no faster path to wait for.
        if self.carries_class(path, paths) {
            return true;
        }
        // Without the best path, no other path has a reason to wait.
        if !paths.get(all.best).is_some_and(Path::is_concurrent) {
            return true;
        }
        // If the buffer is full, the user has more to send than is queued.
        let more = self.queue.free() < self.queue.limit() / 2;
        let unsent = if more { usize::MAX } else { self.queue.unsent() };
        !self.keeps_time(paths)
            || known.admits(now, self.outstanding.flight(path), paths[path].pmdcs(), unsent)
    }

    /// Records that a packet with data is sent. If no measured packet is in flight, or if it was sent at the same
    /// time, the acknowledgement of this one measures the path.
    pub(super) fn watch_packet(&mut self, now: Instant, path: PathId, packet: u64, paths: &Paths) {
        if !self.keeps_time(paths) {
            return;
        }
        let all = self.in_time.get_or_insert_default();
        if !all.paths.has(path) {
            all.paths.clear();
            paths.ids().for_each(|path| all.paths.push(Known::new(path)));
        }
        let Some(known) = all.paths.get_mut(path) else { return };
        let probe = Probe { packet, sent: now, delivered: known.delivered };
        match &mut known.probe {
            // Measure packets sent at the same time as a whole. The first arrives before the others, so a path that
            // carries ten packets in a round trip would seem to carry one.
            Some(last) if last.sent == now && known.rate > 0 => last.packet = packet,
            Some(_) => {}
            none => *none = Some(probe),
        }
        if known.share == Share::NOTHING {
            known.try_at = now + known.rest_time;
            known.plan(now);
        }
    }

    /// When a slow path may carry data again merely because time has passed.
    pub(super) fn slow_path_deadline(&self, path: PathId) -> Option<Instant> {
        self.in_time.as_deref()?.paths.get(path)?.wake
    }

    /// Handles the expiry of that deadline or an earlier one.
    pub(super) fn on_slow_path_deadline(&mut self, now: Instant, path: PathId) {
        if let Some(known) = self.in_time.as_deref_mut().and_then(|all| all.paths.get_mut(path)) {
            known.plan(now);
        }
    }

    /// Measures the paths by the current acknowledgement.
    pub(super) fn measure_paths(&mut self, now: Instant, paths: &Paths) {
        let Some(all) = self.in_time.as_deref_mut() else { return };
        for known in all.paths.iter_mut() {
            let Some(ack) = self.summary.paths.get(known.path) else { continue };
            known.delivered += ack.bytes as u64;
            // If data was sent on two paths, it is unknown which copy arrived.
            if let Some(probe) = known.probe
                && ack.proven
                && ack.highest_packet.is_some_and(|latest| latest >= probe.packet)
            {
                known.measured(now.saturating_since(probe.sent), known.delivered - probe.delivered);
            }
        }
        self.share_out(now, paths);
    }

    /// Handles the answer to a heartbeat: every packet sent before it has arrived or is lost.
    pub(crate) fn on_path_answer(
        &mut self,
        now: Instant,
        path: PathId,
        rtt: Duration,
        paths: &Paths,
    ) {
        let Some(all) = self.in_time.as_deref_mut() else { return };
        let Some(known) = all.paths.get_mut(path) else { return };
        let Some(rest) = known.rest.take() else { return };
        mark!(MultipathRested);
        // Some packets sent before may be lost, so the path is not faster than it was.
        let before = if known.rate > 0 { known.rate } else { u64::MAX };
        known.measured(rtt, rest.owed as u64);
        known.rate = known.rate.min(before);
        self.share_out(now, paths);
    }

    /// Ends all pauses, because a path timed out and resting paths may be needed now.
    pub(super) fn end_rests(&mut self, now: Instant, paths: &Paths) {
        let Some(all) = self.in_time.as_deref_mut() else { return };
        all.paths.iter_mut().for_each(|known| known.rest = None);
        self.share_out(now, paths);
    }

    /// The size of the send buffer or of the peer's receive buffer, whichever is smaller.
    fn smaller_buffer(&self) -> u64 {
        self.queue.limit().min(self.window.largest()) as u64
    }

    /// The current speed of a path.
    fn speed(&self, now: Instant, known: &Known, path: &Path) -> Speed {
        let waits = self.outstanding.oldest_packet(known.path);
        let age = waits.map_or(Duration::ZERO, |(_, sent)| now.saturating_since(sent));
        let measured = known.last_delay(path).unwrap_or_default();
        // The queue that the last packet waited in is gone when all has arrived. Otherwise a path that is too slow now
        // would stay so, because nothing measures it.
        let idle = !known.least.is_zero() && !self.outstanding.in_flight(known.path);
        let measured = if idle { known.least } else { measured };
        let delay = measured.max(age).max(Duration::from_micros(1));
        let per_second = |bytes: usize| {
            let rate = bytes as u128 * 1_000_000_000 / u128::from(nanos(delay));
            u64::try_from(rate).unwrap_or(u64::MAX)
        };
        let cwnd = self.lanes[known.path].congestion.cwnd();
        // A single path cannot have more in flight than the buffers hold.
        let alone = per_second(cwnd.min(self.smaller_buffer() as usize));
        let least = if known.least.is_zero() { delay } else { known.least };
        Speed { rate: known.rate, alone, delay, least }
    }

    /// Decides how much each path may carry until there is new information.
    fn share_out(&mut self, now: Instant, paths: &Paths) {
        let Some(mut all) = self.in_time.take() else { return };
        let buffer = self.smaller_buffer();
        let works = |path: &&Path| path.is_concurrent() && path.error_count == 0;
        let mut sum: u64 = 0;
        let mut best: Option<(PathId, Speed)> = None;
        for known in all.paths.iter_mut() {
            let path = paths.get(known.path).filter(works).filter(|_| !known.rests(now));
            known.speed = path.map(|path| self.speed(now, known, path));
            let Some(speed) = known.speed else { continue };
            sum = sum.saturating_add(speed.alone);
            if best.is_none_or(|(_, best)| speed.alone >= best.alone) {
                best = Some((known.path, speed));
            }
        }
        if let Some((id, best)) = best {
            all.best = id;
            for known in all.paths.iter_mut() {
                let Some(speed) = known.speed else { continue };
                known.share = if known.path == id {
                    Share::ALL
                } else {
                    let packet = paths[known.path].pmdcs() as u64;
                    slow_paths::share(&speed, &best, sum - speed.alone, buffer, packet)
                };
                if known.share != Share::NOTHING && known.rate > 0 {
                    known.rest_time = FIRST_REST;
                }
            }
        }
        self.in_time = Some(all);
    }

    /// Another path for a retransmission that would be late on path `to`, which is too slow.
    pub(super) fn sooner_than(&self, to: PathId, paths: &PerPath<Path>) -> Option<PathId> {
        let all = self.in_time.as_deref().filter(|_| self.keeps_time(paths))?;
        // A path that timed out may do so again, regardless of its window.
        if paths[to].error_count > 0 {
            return self.next_that_works(to, paths);
        }
        let (this, best) = (all.paths.get(to)?, all.paths.get(all.best)?);
        let flight = self.outstanding.flight(to);
        let queued = slow_paths::time_of(flight as u64, this.rate);
        let slow = this.rest.is_some()
            || flight >= this.share.most
            || this.delay.max(queued) > best.delay * 2;
        (slow && paths.get(all.best).is_some_and(Path::is_concurrent)).then_some(all.best)
    }

    /// Whether a path with this congestion window would have nothing to send before the acknowledgement of the next
    /// packet arrives: because a buffer is full or the data ends.
    fn will_wait(&self, cwnd: usize) -> bool {
        // A user who found the send buffer full is woken when a quarter of it is free.
        let none_comes = self.queue.free() < self.queue.limit() / 4;
        let unsent = self.queue.unsent();
        unsent == 0 || (none_comes && unsent < cwnd) || self.window.left() < cwnd
    }

    /// Retransmits chunks on a slow path that block the window on the best path, before the best path must wait.
    /// Returns the late path, which should be probed.
    pub(super) fn overtake(&mut self, now: Instant, paths: &mut Paths) -> Option<PathId> {
        // A path that may have failed meanwhile can block the window, too.
        let all = self.in_time.as_deref().filter(|_| self.is_in_time())?;
        let best = all.best;
        let cwnd = self.lanes.get(best)?.congestion.cwnd();
        let mut free = cwnd.saturating_sub(self.outstanding.flight(best));
        if free == 0 || !self.will_wait(cwnd) || !paths[best].is_concurrent() {
            return None;
        }
        let first = self.outstanding.get(self.outstanding.base())?;
        let from = first.path;
        if from == best {
            return None;
        }
        if first.state == SlotState::Lost {
            // Otherwise it would wait for room in the window of a slow path.
            mark!(MultipathOvertaken);
            self.redirect(from, best);
            return None;
        }
        let (late, quick) = (all.paths.get(from)?, all.paths.get(best)?);
        let sent = self.outstanding.sent_at(self.outstanding.base())?;
        let age = now.saturating_since(sent);
        // Unknown is not fast.
        let quick = quick.last_delay(&paths[best])?;
        // The window may have had room for only a part of the chunks when the path was found to be late.
        let is_left = late.rest.is_some_and(|rest| sent <= rest.began);
        let arrives_later = late.delay >= age + quick;
        // Without a gap, later chunks have not arrived either: the peer may only delay its acknowledgement, as it did
        // before.
        let rtt = &paths[from].rtt;
        let usual = match (self.summary.reports_gaps, rtt.srtt()) {
            (false, Some(srtt)) => srtt + rtt.rttvar() * 4,
            _ => Duration::ZERO,
        };
        let is_overdue = age >= usual.max(late.delay / 4 * 5);
        if age < quick || !(arrives_later || is_overdue || is_left) {
            return None;
        }
        mark!(MultipathOvertaken);
        let mut owed = 0;
        while let Some(tsn) = self.outstanding.earliest(from) {
            let due = self.outstanding.sent_at(tsn).is_some_and(|sent| sent + quick <= now);
            let size = self.outstanding.get(tsn).map_or(0, |slot| slot.size());
            // What must not be sent again would be given up, and it is only late.
            if !due || free == 0 || !self.may_repeat(now, tsn) {
                break;
            }
            free = free.saturating_sub(size);
            owed += size;
            self.lose(tsn, Cause::Overtaken, Some(best), paths);
        }
        if !self.outstanding.in_flight(from) {
            self.stop_t3(from);
        }
        let known = self.in_time.as_deref_mut()?.paths.get_mut(from)?;
        known.delay = known.delay.max(age);
        let first = known.rest.is_none();
        let rest = known.rest.unwrap_or(Rest { began: now, until: now, owed: 0 });
        known.rest = Some(Rest { until: now + known.rest_time, owed: rest.owed + owed, ..rest });
        if first {
            known.try_at = now + known.rest_time;
            known.rest_time = (known.rest_time * 2).min(LONGEST_REST);
        }
        known.plan(now);
        first.then_some(from)
    }
}
