//! The state of a link's patterns, which determines the fate of the next packet.

use std::time::Duration;

use super::runs::Cursor;
use super::{Action, Basis, End, Facts, Kind, Pattern, Patterns, Start};

const MS: u64 = 1_000_000;

/// The mutable state of a link's patterns.
#[derive(Debug)]
pub(crate) struct Director {
    patterns: Patterns,
    places: Vec<Place>,
    /// Commands that triggers have requested.
    commands: Vec<String>,
    /// Whether a trigger has cut the link.
    cut: bool,
    /// Whether packets keep their order regardless of their delays.
    keeps_order: bool,
}

#[derive(Debug, Default)]
struct Place {
    active: bool,
    /// When the pattern started.
    begun: Option<u64>,
    /// Number of packets that the filter matched while the pattern was active.
    seen: u64,
    /// Number of packets since the pattern started.
    index: u64,
    cursor: Cursor,
    last: u64,
    next_trigger: usize,
}

/// The fate of a packet.
#[derive(Debug, Default)]
pub(crate) struct Verdict {
    /// The pattern that loses the packet.
    pub(crate) lost: Option<usize>,
    /// Other effects; most packets have none.
    pub(crate) marks: Option<Box<Marks>>,
    /// The first pattern with a filter that counted the packet, and its place there.
    pub(crate) place: Option<(usize, u64)>,
    /// Whether a trigger took the link down at this packet.
    pub(crate) cut: bool,
}

/// Effects on a packet other than loss.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Marks {
    /// Pattern and list of bits to flip, from 1.
    pub(crate) bits: Option<(usize, u64)>,
    pub(crate) copies: u64,
    /// Nanoseconds on the wire.
    pub(crate) delay: Option<u64>,
    /// Bits per second.
    pub(crate) rate: Option<u64>,
    /// Its place in the displaced order of packets.
    pub(crate) place: Option<Displacement>,
    /// The pattern that is reported as the cause.
    pub(crate) by: Option<usize>,
}

/// The place of a packet among those that a pattern of displacements counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Displacement {
    pub(crate) pattern: usize,
    pub(crate) index: u64,
    /// Number of packets that are to pass first.
    pub(crate) by: u64,
}

pub(crate) fn nanos(span: Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)
}

impl Place {
    fn begin(&mut self, now: u64) {
        *self = Self { active: true, begun: Some(now), ..Self::default() };
    }

    /// The value for the next packet.
    fn next(&mut self, pattern: &Pattern) -> u64 {
        self.index += 1;
        match self.cursor.next(&pattern.values) {
            Some(value) => self.last = value,
            None => match pattern.end {
                End::Stop => self.last = 0,
                End::Hold => {}
                End::Repeat => {
                    self.cursor = Cursor::default();
                    self.last = self.cursor.next(&pattern.values).unwrap_or(0);
                }
            },
        }
        self.last
    }

    /// The value for the millisecond at `now`, and when it changes (`None`: never).
    fn at(&mut self, pattern: &Pattern, now: u64) -> (u64, Option<u64>) {
        let Some(begun) = self.begun.filter(|begun| *begun <= now) else {
            return (0, self.begun);
        };
        let length = pattern.values.len();
        let ms = (now - begun) / MS;
        let (cycle, position) = match pattern.end {
            End::Repeat => (ms / length.max(1), ms % length.max(1)),
            _ => (0, ms),
        };
        let last = match pattern.end {
            End::Hold => length.saturating_sub(1),
            _ => u64::MAX,
        };
        match self.cursor.seek(&pattern.values, position.min(last)) {
            Some((_, until)) if pattern.end == End::Hold && until >= length => {
                (self.cursor.seek(&pattern.values, last).map_or(0, |(value, _)| value), None)
            }
            Some((value, until)) => {
                let until = cycle.saturating_mul(length).saturating_add(until);
                (value, Some(begun.saturating_add(until.saturating_mul(MS))))
            }
            None => (0, None),
        }
    }
}

impl Director {
    /// Returns `None` if there are no patterns.
    pub(crate) fn new(patterns: &Patterns) -> Option<Box<Self>> {
        if patterns.is_empty() {
            return None;
        }
        let place = |pattern: &Pattern| Place {
            active: pattern.start != Start::Switch,
            begun: match pattern.start {
                Start::At(at) => Some(at),
                _ => None,
            },
            ..Place::default()
        };
        let of = |kind: Kind| patterns.list().iter().filter(move |pattern| pattern.kind == kind);
        Some(Box::new(Self {
            places: patterns.list().iter().map(place).collect(),
            commands: Vec::new(),
            cut: false,
            keeps_order: of(Kind::Delay).any(|pattern| !pattern.overtake),
            patterns: patterns.clone(),
        }))
    }

    pub(crate) fn is_cut(&self) -> bool {
        self.cut
    }

    pub(crate) fn keeps_order(&self) -> bool {
        self.keeps_order
    }

    pub(crate) fn commands(&mut self) -> Vec<String> {
        std::mem::take(&mut self.commands)
    }

    /// The bits of a list.
    pub(crate) fn bits(&self, (pattern, list): (usize, u64)) -> &[i64] {
        let lists = self.patterns.list().get(pattern).map(|pattern| &pattern.bits);
        let index = usize::try_from(list.saturating_sub(1)).unwrap_or(usize::MAX);
        lists.and_then(|lists| lists.get(index)).map_or(&[], Vec::as_slice)
    }

    /// How long a displaced packet of a pattern waits at most.
    pub(crate) fn wait(&self, pattern: usize) -> u64 {
        self.patterns.list().get(pattern).map_or(0, |pattern| pattern.wait)
    }

    /// How many packets a pattern has counted since it started.
    pub(crate) fn counted(&self, pattern: usize) -> u64 {
        self.places.get(pattern).map_or(0, |place| place.index)
    }

    /// Determines the fate of the packet that is offered now. Must be called once for each packet,
    /// in order.
    pub(crate) fn judge(&mut self, now: u64, size: usize, facts: Option<&Facts>) -> Verdict {
        let mut verdict = Verdict::default();
        let was_cut = self.cut;
        // Evaluate triggers first: a trigger also applies to its own packet.
        for triggers in [true, false] {
            let mut decided = [false; Kind::ALL.len()];
            for index in 0..self.places.len() {
                let Some(pattern) = self.patterns.list().get(index) else { continue };
                if (pattern.kind == Kind::Trigger) != triggers
                    || !self.places.get(index).is_some_and(|place| place.active)
                    || !pattern.filter.chooses(size, facts)
                {
                    continue;
                }
                let (slot, filtered) = (pattern.kind as usize, !pattern.filter.is_any());
                let Some(value) = self.count(index, now) else { continue };
                if filtered && verdict.place.is_none() {
                    verdict.place = Some((index, self.counted(index)));
                }
                if decided.get_mut(slot).is_some_and(|done| !std::mem::replace(done, true)) {
                    self.apply(&mut verdict, index, value);
                }
            }
        }
        verdict.cut = self.cut && !was_cut;
        verdict
    }

    /// Counts a packet that a pattern's filter matches. Returns its value if the pattern has
    /// started.
    fn count(&mut self, index: usize, now: u64) -> Option<u64> {
        let patterns = self.patterns.clone();
        let pattern = patterns.list().get(index)?;
        let place = self.places.get_mut(index)?;
        place.seen += 1;
        if place.begun.is_none() {
            let begins = match pattern.start {
                Start::First | Start::Switch => true,
                Start::Packet(number) => place.seen >= number,
                Start::At(_) => false,
            };
            if !begins {
                return None;
            }
            place.begun = Some(now);
        }
        if place.begun.is_some_and(|begun| begun > now) {
            return None;
        }
        if pattern.kind == Kind::Trigger {
            place.index += 1;
            let (count, mut next) = (place.index, place.next_trigger);
            while pattern.basis == Basis::Packet
                && let Some(trigger) = pattern.triggers.get(next).filter(|t| t.at <= count)
            {
                next += 1;
                self.act(&trigger.action, now);
            }
            if let Some(place) = self.places.get_mut(index) {
                place.next_trigger = place.next_trigger.max(next);
            }
            return None;
        }
        Some(match pattern.basis {
            Basis::Packet => place.next(pattern),
            Basis::Millisecond => {
                place.index += 1;
                place.at(pattern, now).0
            }
        })
    }

    /// Applies a value to the verdict.
    fn apply(&mut self, verdict: &mut Verdict, index: usize, value: u64) {
        let Some(pattern) = self.patterns.list().get(index) else { return };
        let (kind, basis) = (pattern.kind, pattern.basis);
        if kind == Kind::Displace {
            // All counted packets get a place, whether or not they are displaced.
            let counted = self.places.get(index).map_or(0, |place| place.index);
            let marks = verdict.marks.get_or_insert_default();
            marks.place = Some(Displacement { pattern: index, index: counted, by: value });
            if value > 0 {
                marks.by = Some(index);
            }
            return;
        }
        if value == 0 {
            return;
        }
        match kind {
            Kind::Loss => verdict.lost = Some(index),
            // A rate per millisecond applies to the link, not to the packet.
            Kind::Rate if basis == Basis::Millisecond => {}
            Kind::Corrupt | Kind::Duplicate | Kind::Delay | Kind::Rate => {
                let marks = verdict.marks.get_or_insert_default();
                marks.by = Some(index);
                match kind {
                    Kind::Corrupt => marks.bits = Some((index, value)),
                    Kind::Duplicate => marks.copies = value,
                    Kind::Delay => marks.delay = Some(value - 1),
                    _ => marks.rate = Some(value - 1),
                }
            }
            Kind::Displace | Kind::Trigger => {}
        }
    }

    fn act(&mut self, action: &Action, now: u64) {
        match action {
            Action::Cut => self.cut = true,
            Action::Repair => self.cut = false,
            Action::Run(command) => self.commands.push(command.clone()),
            Action::Switch(name) => {
                let list = self.patterns.list();
                let chosen = list.iter().position(|p| p.name.as_ref() == Some(name));
                let Some(kind) = chosen.and_then(|index| list.get(index)).map(|p| p.kind) else {
                    return;
                };
                let kinds = list.iter().map(|pattern| pattern.kind);
                for (index, (place, other)) in self.places.iter_mut().zip(kinds).enumerate() {
                    if Some(index) == chosen {
                        place.begin(now);
                    } else if other == kind {
                        place.active = false;
                    }
                }
            }
        }
    }

    /// When the next timed trigger is due.
    pub(crate) fn next_trigger(&self) -> Option<u64> {
        let places = self.patterns.list().iter().zip(&self.places);
        places
            .filter(|(pattern, place)| {
                place.active && pattern.kind == Kind::Trigger && pattern.basis == Basis::Millisecond
            })
            .filter_map(|(pattern, place)| {
                let trigger = pattern.triggers.get(place.next_trigger)?;
                Some(place.begun?.saturating_add(trigger.at))
            })
            .min()
    }

    /// Fires the triggers due at `now`. Returns whether one has cut the link.
    pub(crate) fn fire(&mut self, now: u64) -> bool {
        let was_cut = self.cut;
        let patterns = self.patterns.clone();
        for (index, pattern) in patterns.list().iter().enumerate() {
            if pattern.kind != Kind::Trigger || pattern.basis != Basis::Millisecond {
                continue;
            }
            while let Some(place) = self.places.get_mut(index).filter(|place| place.active) {
                let due = |at: u64| place.begun.is_some_and(|b| b.saturating_add(at) <= now);
                let Some(trigger) = pattern.triggers.get(place.next_trigger) else { break };
                if !due(trigger.at) {
                    break;
                }
                place.next_trigger += 1;
                self.act(&trigger.action, now);
            }
        }
        self.cut && !was_cut
    }

    /// The rate of the link at `now`, if a pattern sets one (`Some(0)` sends nothing), and when it
    /// may change.
    pub(crate) fn rate(&mut self, now: u64) -> (Option<u64>, Option<u64>) {
        for (pattern, place) in self.patterns.list().iter().zip(&mut self.places) {
            let drives = pattern.kind == Kind::Rate && pattern.basis == Basis::Millisecond;
            if drives && place.active {
                let (value, until) = place.at(pattern, now);
                return (value.checked_sub(1), until);
            }
        }
        (None, None)
    }
}
