//! One direction of a path: entrance, transmitter and wire.

use std::time::Duration;

use crate::discipline::{Manager, Treatment};
use crate::loss::LossState;
use crate::pattern::{Director, Facts, Verdict};
use crate::record::{Cause, Record, Recorder};
use crate::transmitter::{Effects, Job, QueueIntegral, Transmitter};
use crate::wire::Wire;
use crate::{ConfigError, Cut, LinkConfig, LinkStats, Packet, Probability, QueueLimit, Rng};

/// The outcome of offering a packet to a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SendOutcome {
    /// It is in the link and will arrive, unless the link goes down before.
    Accepted,
    /// It will not arrive.
    Lost(LossCause),
    /// The queue was full, or RED dropped it.
    QueueFull,
    /// It is larger than the link's MTU; a router would answer with ICMP.
    TooBig {
        /// The largest packet that fits, without overhead: the limit for [`Packet::size`].
        mtu: usize,
    },
}

/// Why a packet is lost that the sender takes for accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LossCause {
    /// The loss model selected it.
    Model,
    /// The link is down.
    Down,
    /// It is larger than the MTU of a link that does not report it.
    Blackhole,
}

/// One direction of one path, for packets of type `T`.
///
/// Contract of a driver: call [`send`](Self::send) and [`poll`](Self::poll) with times that never decrease (an earlier
/// time counts as the latest one given). After any call, poll until `None`, then wait for
/// [`next_deadline`](Self::next_deadline). A late poll delivers everything that was due, in order, and changes no other
/// time: departures and arrivals are computed, not observed.
///
/// Each model draws from a separate generator, and the loss model is evaluated once for every packet offered. So with
/// the same seed, the same packets are lost regardless of the other models.
#[derive(Debug)]
pub struct Link<T> {
    config: LinkConfig,
    seed: u64,
    now: u64,
    /// Nothing departs or changes before this time, so there is nothing to check. 0 if unknown.
    rests_until: u64,
    /// As set by `set_up`; cuts apply in addition.
    enabled: bool,
    schedule: Schedule,
    transmitter: Transmitter<T>,
    manager: Manager,
    wire: Wire<T>,
    loss: LossState,
    draws: Draws,
    /// Arrival time of the last packet that must not be overtaken.
    last_due: u64,
    /// Highest position delivered.
    highest_delivered: u64,
    stats: LinkStats,
    /// State of the patterns; most links have none.
    director: Option<Box<Director>>,
    /// Current rate in bits per second, from the configuration or a pattern; 0 means that nothing is sent.
    rate: Option<u64>,
    /// When the rate of a pattern changes.
    rate_until: Option<u64>,
    /// The value of `is_plain` for the current configuration.
    plain: bool,
    /// The configured delay.
    delay: u64,
    /// Packets that wait for others to pass them, in the order in which they arrived.
    held: Vec<Held<T>>,
    /// Records the fates of packets, if enabled.
    recorder: Option<Box<Recorder>>,
}

/// A packet that others should pass first.
#[derive(Debug)]
struct Held<T> {
    /// The pattern, and the packet of that pattern after which this one continues.
    pattern: usize,
    release: u64,
    /// When it continues at the latest.
    until: u64,
    number: u64,
    packet: T,
    delay: Option<u64>,
}

/// A separate generator for each model other than loss.
#[derive(Debug)]
struct Draws {
    jitter: Rng,
    reorder: Rng,
    duplicate: Rng,
    corrupt: Rng,
}

impl<T: Packet> Link<T> {
    /// A link that is empty, and up unless a cut applies.
    ///
    /// # Errors
    /// Those of [`LinkConfig::validate`].
    pub fn new(config: LinkConfig, seed: u64) -> Result<Self, ConfigError> {
        config.validate()?;
        if config.patterns.need_facts() && !T::HAS_FACTS {
            return Err(ConfigError::Filter);
        }
        Ok(Self {
            director: Director::new(&config.patterns),
            rate: config.rate,
            rate_until: Some(0),
            plain: is_plain(&config),
            delay: nanos(config.delay),
            held: Vec::new(),
            recorder: None,
            now: 0,
            rests_until: 0,
            enabled: true,
            schedule: Schedule::at(&config.cuts, 0),
            transmitter: Transmitter::new(),
            manager: Manager::new(config.discipline, Rng::stream(seed, 5)),
            wire: Wire::new(),
            loss: LossState::new(Rng::stream(seed, 0)),
            draws: Draws {
                jitter: Rng::stream(seed, 1),
                reorder: Rng::stream(seed, 2),
                duplicate: Rng::stream(seed, 3),
                corrupt: Rng::stream(seed, 4),
            },
            last_due: 0,
            highest_delivered: 0,
            stats: LinkStats::default(),
            seed,
            config,
        })
    }

    /// Offers a packet at `now`.
    pub fn send(&mut self, now: u64, mut packet: T) -> SendOutcome {
        self.advance(now);
        let size = packet.size();
        self.stats.offered += 1;
        self.stats.offered_bytes += size as u64;
        let number = self.stats.offered;
        // Always evaluate the loss model first, so that losses depend only on the number of packets.
        let modelled = self.loss.takes(&self.config.loss, number, self.now);
        let verdict = self.judge(&packet, number, size);
        let lost = modelled || verdict.lost.is_some();

        let bytes = size.saturating_add(self.config.overhead);
        if let Some((outcome, cause)) = self.refuse(&mut packet, bytes) {
            self.lose(number, cause);
            // Packets that wait to be passed may have waited only for this one.
            self.release_at_rest(self.now);
            return outcome;
        }
        let job = Job {
            packet: (!lost).then_some(packet),
            bytes,
            number,
            entered: self.now,
            marks: verdict.marks,
        };
        self.transmitter.push(self.now, self.rate, job);
        if let Some(departs) = self.transmitter.next_departure() {
            self.rests_until = self.rests_until.min(departs);
        }
        let (packets, bytes) = self.transmitter.backlog();
        self.stats.max_queue_packets = self.stats.max_queue_packets.max(packets as u64);
        self.stats.max_queue_bytes = self.stats.max_queue_bytes.max(bytes as u64);
        // Without a rate it is sent immediately.
        self.advance(now);
        if lost {
            self.stats.lost_model += 1;
            self.lose(number, verdict.lost.map_or(Cause::Model, Cause::Pattern));
            return SendOutcome::Lost(LossCause::Model);
        }
        SendOutcome::Accepted
    }

    /// Why a packet of `bytes` bytes including overhead may not enter. RED may mark it instead.
    fn refuse(&mut self, packet: &mut T, bytes: usize) -> Option<(SendOutcome, Cause)> {
        if let Some(mtu) = self.config.mtu
            && bytes > mtu
            && !packet.may_be_fragmented()
        {
            self.stats.too_big += 1;
            if self.config.mtu_blackhole {
                return Some((SendOutcome::Lost(LossCause::Blackhole), Cause::Mtu));
            }
            let mtu = mtu.saturating_sub(self.config.overhead);
            return Some((SendOutcome::TooBig { mtu }, Cause::Mtu));
        }
        if !self.is_up() {
            self.stats.lost_down += 1;
            return Some((SendOutcome::Lost(LossCause::Down), Cause::Down));
        }
        if !self.transmitter.has_room(self.config.queue, bytes) {
            self.stats.queue_drops += 1;
            return Some((SendOutcome::QueueFull, Cause::Queue));
        }
        if let Manager::Red(red) = &mut self.manager {
            let (packets, queued) = self.transmitter.backlog();
            let length = match self.config.queue {
                QueueLimit::Bytes(_) => queued,
                QueueLimit::Packets(_) | QueueLimit::Unlimited => packets,
            };
            let treatment = red.judge(length as u64, self.transmitter.idle(self.now), self.rate);
            if treatment == Treatment::Mark && packet.mark() {
                self.stats.marked += 1;
            } else if treatment != Treatment::Queue {
                self.stats.early_drops += 1;
                return Some((SendOutcome::QueueFull, Cause::Discipline));
            }
        }
        None
    }

    /// The next packet that has arrived by `now`; call it until it returns `None`.
    pub fn poll(&mut self, now: u64) -> Option<T> {
        self.advance(now);
        let arrived = self.wire.arrive(self.now)?;
        let reordered = arrived.number < self.highest_delivered;
        if let Some(recorder) = &mut self.recorder {
            recorder.arrive(arrived.number, arrived.due, reordered);
        }
        if reordered {
            self.stats.reordered += 1;
        } else {
            self.highest_delivered = arrived.number;
        }
        self.stats.delivered += 1;
        self.stats.delivered_bytes += arrived.packet.size() as u64;
        Some(arrived.packet)
    }

    /// The time of the next poll; `None` if the link is empty.
    ///
    /// Never later than the next arrival. There may be nothing to deliver at that time if the packet was lost or
    /// delayed by jitter; then the next deadline is later.
    pub fn next_deadline(&self) -> Option<u64> {
        let next = self.next_due();
        (next != u64::MAX).then_some(next)
    }

    /// The same as a number, where the maximum means never.
    #[inline]
    pub fn next_due(&self) -> u64 {
        let departs = self.transmitter.next_departure().unwrap_or(u64::MAX);
        let arrives = self.wire.next_arrival().unwrap_or(u64::MAX);
        if self.director.is_some() {
            // Patterns may reduce the delay of the packet being sent to zero.
            return arrives.min(departs).min(self.next_directed().unwrap_or(u64::MAX));
        }
        arrives.min(departs.saturating_add(self.delay))
    }

    /// When the next packet that has left the transmitter arrives.
    pub fn next_arrival(&self) -> Option<u64> {
        self.wire.next_arrival()
    }

    /// Replaces the configuration at `now`. Changed patterns start again. Packets on the wire keep their arrival times,
    /// waiting packets are kept even beyond a smaller queue limit, and the rest of the packet being sent continues at
    /// the new rate.
    ///
    /// # Errors
    /// Those of [`LinkConfig::validate`]; nothing is changed then.
    pub fn set_config(&mut self, now: u64, config: LinkConfig) -> Result<(), ConfigError> {
        config.validate()?;
        if config.patterns.need_facts() && !T::HAS_FACTS {
            return Err(ConfigError::Filter);
        }
        self.advance(now);
        self.rests_until = 0;
        if config.patterns != self.config.patterns {
            self.director = Director::new(&config.patterns);
            self.rate_until = Some(0);
        }
        self.schedule = Schedule::at(&config.cuts, self.now);
        if config.discipline != self.config.discipline {
            self.manager = Manager::new(config.discipline, Rng::stream(self.seed, 5));
        }
        self.plain = is_plain(&config);
        self.delay = nanos(config.delay);
        self.config = config;
        self.sync_rate(self.now);
        if !self.is_up() {
            self.drop_all();
        }
        // Packets that waited for the old rate may be sent now.
        self.advance(now);
        Ok(())
    }

    /// The current configuration.
    pub fn config(&self) -> &LinkConfig {
        &self.config
    }

    /// Takes the link down or up at `now`. Packets in the link when it goes down are lost. The link is up if neither
    /// this nor a cut has taken it down.
    pub fn set_up(&mut self, now: u64, up: bool) {
        self.advance(now);
        self.enabled = up;
        if !up {
            self.drop_all();
        }
    }

    /// Whether the link was up at the latest given time.
    pub fn is_up(&self) -> bool {
        self.enabled && !self.schedule.down && !self.director.as_ref().is_some_and(|d| d.is_cut())
    }

    /// The counters so far.
    pub fn stats(&self) -> &LinkStats {
        &self.stats
    }

    /// Number of packets in the link that will arrive unless it goes down.
    pub fn in_transit(&self) -> usize {
        self.wire.len() + self.transmitter.packets() + self.held.len()
    }

    /// Number of packets that wait for the transmitter, without the one being sent. The loss model may still drop some
    /// of them.
    pub fn queue_len(&self) -> usize {
        self.transmitter.backlog().0
    }

    /// The integral of the queue length until `now`.
    pub fn queue_integral(&mut self, now: u64) -> QueueIntegral {
        self.advance(now);
        self.transmitter.integral(self.now)
    }

    /// Processes everything due until `now` in order of time: departures, cuts, and changes by patterns.
    #[inline]
    fn advance(&mut self, now: u64) {
        let now = self.now.max(now);
        if now < self.rests_until {
            self.now = now;
        } else {
            self.catch_up(now);
        }
    }

    fn catch_up(&mut self, now: u64) {
        if self.director.is_none() && self.config.cuts.is_empty() {
            // As on most links, there are only departures.
            self.rests_until = loop {
                let departure = self.transmitter.next_departure().unwrap_or(u64::MAX);
                if departure > now || departure == u64::MAX {
                    break departure;
                }
                self.depart(departure);
            };
        } else {
            self.change_in_order(now);
        }
        self.now = now;
        // If nothing was being sent, the new rate has not been applied yet.
        if self.rate_until.is_some_and(|until| until <= now) {
            self.sync_rate(now);
        }
    }

    /// Departures, cuts, and changes by patterns until `now`.
    fn change_in_order(&mut self, now: u64) {
        loop {
            let departure = self.transmitter.next_departure().unwrap_or(u64::MAX);
            let change = self.schedule.next_change(&self.config.cuts).unwrap_or(u64::MAX);
            let directed = self.next_directed().unwrap_or(u64::MAX);
            let next = departure.min(change).min(directed);
            if next > now || next == u64::MAX {
                // With patterns, the next change may depend on every packet.
                self.rests_until = if self.director.is_some() { 0 } else { next };
                return;
            }
            // Among events at the same time, departures come first and changes by patterns last.
            if departure == next {
                self.depart(departure);
            } else if change == next {
                self.now = change;
                self.schedule.step();
                if self.schedule.down {
                    self.drop_all();
                }
            } else {
                self.direct(directed);
            }
        }
    }

    /// Handles the end of a transmission at `at`.
    fn depart(&mut self, at: u64) {
        self.now = at;
        let departed = match &mut self.manager {
            Manager::DropTail | Manager::Red(_) => self.transmitter.depart(self.rate),
            Manager::CoDel(codel) => {
                let mut effects = Effects::default();
                let departed = self.transmitter.depart_by(self.rate, codel, &mut effects);
                self.stats.early_drops += effects.dropped.len() as u64;
                self.stats.marked += effects.marked;
                for number in effects.dropped {
                    self.lose(number, Cause::Discipline);
                }
                departed
            }
        };
        let Some(job) = departed else { return };
        if job.marks.is_some() || !self.held.is_empty() {
            self.depart_marked(at, job);
        } else if let Some(packet) = job.packet {
            if self.plain {
                self.wire.launch(at.saturating_add(self.delay), job.number, packet);
            } else {
                self.spoil_and_launch(at, job.number, packet, None);
            }
        }
    }

    /// Applies the models to a packet, and puts it and its copies on the wire.
    fn spoil_and_launch(&mut self, at: u64, number: u64, mut packet: T, delay: Option<u64>) {
        // Most links do none of this, and then nothing is drawn.
        let twice = happens(&mut self.draws.duplicate, self.config.duplicate);
        let copy = if twice { packet.duplicate() } else { None };
        if happens(&mut self.draws.corrupt, self.config.corrupt)
            && packet.corrupt(&mut self.draws.corrupt)
        {
            self.stats.corrupted += 1;
            self.note_spoiled(number, true, 0);
        }
        self.launch(at, number, packet, delay);
        if let Some(copy) = copy {
            self.stats.duplicated += 1;
            self.note_spoiled(number, false, 1);
            self.launch(at, number, copy, delay);
        }
    }

    fn launch(&mut self, at: u64, number: u64, packet: T, delay: Option<u64>) {
        let mut due = at.saturating_add(delay.unwrap_or(nanos(self.config.delay)));
        if !self.config.jitter.is_zero() {
            let jitter = self.draws.jitter.below(nanos(self.config.jitter).saturating_add(1));
            due = due.saturating_add(jitter);
        }
        if happens(&mut self.draws.reorder, self.config.reorder) {
            due = due.saturating_add(nanos(self.config.reorder_delay));
        } else if self.config.keep_order || self.director.as_ref().is_some_and(|d| d.keeps_order())
        {
            due = due.max(self.last_due);
            self.last_due = due;
        }
        self.wire.launch(due, number, packet);
    }

    /// Handles the link going down: only packets that have arrived but have not been polled yet are kept.
    #[cold]
    fn drop_all(&mut self) {
        self.note_dropped();
        let dropped = self.transmitter.clear(self.now) + self.wire.clear_after(self.now);
        self.stats.lost_down += (dropped + self.held.len()) as u64;
        self.held.clear();
    }
}

/// The position of the clock in the list of cuts.
#[derive(Debug)]
struct Schedule {
    /// The current cut, or the next one.
    index: usize,
    down: bool,
}

impl Schedule {
    fn at(cuts: &[Cut], now: u64) -> Self {
        let index = cuts.partition_point(|cut| cut.until.is_some_and(|until| until <= now));
        let down = cuts.get(index).is_some_and(|cut| cut.at <= now);
        Self { index, down }
    }

    fn next_change(&self, cuts: &[Cut]) -> Option<u64> {
        let cut = cuts.get(self.index)?;
        if self.down { cut.until } else { Some(cut.at) }
    }

    fn step(&mut self) {
        if self.down {
            self.index += 1;
        }
        self.down = !self.down;
    }
}

/// Whether packets that have left the transmitter arrive in order after the delay, without any model, as on most links.
fn is_plain(config: &LinkConfig) -> bool {
    config.duplicate == Probability::ZERO
        && config.corrupt == Probability::ZERO
        && config.reorder == Probability::ZERO
        && config.jitter.is_zero()
        && !config.keep_order
        && config.patterns.is_empty()
}

/// Draws with probability `p`, unless it is zero.
fn happens(rng: &mut Rng, p: Probability) -> bool {
    p > Probability::ZERO && rng.chance(p)
}

/// Whole nanoseconds of a span, which validation keeps below a day.
fn nanos(span: Duration) -> u64 {
    span.as_secs().saturating_mul(1_000_000_000).saturating_add(u64::from(span.subsec_nanos()))
}

#[cfg(test)]
mod pattern_tests;
mod patterned;
#[cfg(test)]
mod queue_tests;
#[cfg(test)]
mod tests;
