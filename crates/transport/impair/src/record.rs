//! Optional records of the fate of each packet.

use std::collections::BTreeMap;
use std::fmt;

use crate::pattern::{Facts, FlowKey, Marks};

/// Maximum number of flows that are counted separately; packets of further flows have index 0.
const MOST_FLOWS: usize = 65_536;

/// A packet and its fate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Position among the packets offered to the link, from 1.
    pub number: u64,
    /// Its flow.
    pub flow: FlowKey,
    /// Position in its flow, from 1; 0 if there are too many flows.
    pub index: u64,
    /// When it was offered, in nanoseconds of the driver's clock.
    pub entered: u64,
    /// When it arrived.
    pub left: Option<u64>,
    /// Index of the first pattern with a filter that matched it, and its place among the packets
    /// that this pattern has counted, from 1.
    pub place: Option<(usize, u64)>,
    /// Size in bytes.
    pub size: usize,
    /// Its fate.
    pub fate: Fate,
    /// The cause of its fate.
    pub cause: Cause,
    /// Other effects on it.
    pub effects: Effects,
}

/// The possible fates of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It arrived.
    Passed,
    /// It did not arrive.
    Lost,
    /// It is an additional copy of a packet and arrived.
    Copy,
    /// It was still in the link when the remaining records were taken.
    Underway,
}

/// The causes of a fate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// The link's configuration.
    Link,
    /// The loss model.
    Model,
    /// The pattern with this index, from 0.
    Pattern(usize),
    /// The queue was full.
    Queue,
    /// RED or CoDel.
    Discipline,
    /// The link was down.
    Down,
    /// The packet was too large.
    Mtu,
}

/// Effects on a packet that arrives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Effects {
    /// Bits were flipped.
    pub corrupted: bool,
    /// This many additional copies were created.
    pub copies: u64,
    /// Number of later packets that were to pass first.
    pub displaced: u64,
    /// The time on the wire that a pattern set, in nanoseconds.
    pub delay: Option<u64>,
    /// It arrived after one that was offered later (RFC 4737 section 3.3).
    pub reordered: bool,
}

impl Fate {
    /// Its name in logs.
    pub fn name(self) -> &'static str {
        match self {
            Self::Passed => "passed",
            Self::Lost => "lost",
            Self::Copy => "copy",
            Self::Underway => "underway",
        }
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Link => f.write_str("link"),
            Self::Model => f.write_str("model"),
            Self::Pattern(index) => write!(f, "pattern{}", index + 1),
            Self::Queue => f.write_str("queue"),
            Self::Discipline => f.write_str("discipline"),
            Self::Down => f.write_str("down"),
            Self::Mtu => f.write_str("mtu"),
        }
    }
}

/// The records of packets whose fate is not known yet.
#[derive(Debug, Default)]
pub(crate) struct Recorder {
    pending: BTreeMap<u64, Record>,
    flows: BTreeMap<FlowKey, u64>,
    done: Vec<Record>,
    /// The record of the packet delivered last, for copies of it.
    latest: Option<Record>,
}

impl Recorder {
    /// Records that a packet was offered.
    pub(crate) fn enter(&mut self, number: u64, now: u64, size: usize, facts: Option<&Facts>) {
        let flow = facts.map(Facts::flow).unwrap_or(Facts::default().flow());
        let known = self.flows.contains_key(&flow) || self.flows.len() < MOST_FLOWS;
        let index = if known {
            let count = self.flows.entry(flow).or_default();
            *count += 1;
            *count
        } else {
            0
        };
        let record = Record {
            number,
            flow,
            index,
            entered: now,
            left: None,
            place: None,
            size,
            fate: Fate::Lost,
            cause: Cause::Link,
            effects: Effects::default(),
        };
        self.pending.insert(number, record);
    }

    /// Records its place among the packets that a filter matches.
    pub(crate) fn place(&mut self, number: u64, place: (usize, u64)) {
        if let Some(record) = self.pending.get_mut(&number) {
            record.place = Some(place);
        }
    }

    /// Records the effects of its marks.
    pub(crate) fn mark(&mut self, number: u64, marks: &Marks) {
        if let Some(record) = self.pending.get_mut(&number) {
            record.effects.displaced = marks.place.map_or(0, |place| place.by);
            record.effects.delay = marks.delay;
            record.cause = marks.by.map_or(Cause::Link, Cause::Pattern);
        }
    }

    /// Records flipped bits and copies.
    pub(crate) fn spoil(&mut self, number: u64, corrupted: bool, copies: u64) {
        if let Some(record) = self.pending.get_mut(&number) {
            record.effects.corrupted |= corrupted;
            record.effects.copies += copies;
        }
    }

    /// Records that it will not arrive.
    pub(crate) fn lose(&mut self, number: u64, cause: Cause) {
        if let Some(mut record) = self.pending.remove(&number) {
            record.cause = cause;
            record.effects = Effects::default();
            self.done.push(record);
        }
    }

    /// Records that it has arrived at its computed time.
    pub(crate) fn arrive(&mut self, number: u64, at: u64, reordered: bool) {
        if let Some(mut record) = self.pending.remove(&number) {
            record.left = Some(at);
            record.fate = Fate::Passed;
            record.effects.reordered = reordered;
            if record.effects.copies > 0 {
                self.latest = Some(record.clone());
            }
            self.done.push(record);
        } else if let Some(first) = self.latest.as_ref().filter(|r| r.number == number) {
            self.done.push(Record { left: Some(at), fate: Fate::Copy, ..first.clone() });
        }
    }

    /// Ends the records of packets that are still in the link.
    pub(crate) fn give_up(&mut self) {
        let pending = std::mem::take(&mut self.pending);
        let underway = |record| Record { fate: Fate::Underway, ..record };
        self.done.extend(pending.into_values().map(underway));
    }

    pub(crate) fn take(&mut self) -> std::vec::Drain<'_, Record> {
        self.done.drain(..)
    }
}
