//! Finds the flow of a packet among the flows in progress.
//!
//! A TCP connection is found by its addresses and ports at a place (`Place`); a SYN with another number starts a new
//! connection. An SCTP association is found by its verification tags, first on the path where it was seen, then on any
//! path that may belong to it. So an association with several paths is one flow, and one that is set up again with
//! other tags is another flow.

use std::collections::HashMap;

use crate::analysis::Protocol;
use crate::association::{Association, INIT, MOST_PATHS, Opening};
use crate::decode::{Ends, Place, Segment};
use crate::flow::Flow;

/// Maximum number of flows with one pair of ports and one tag, and of flows with the same ends.
const MOST_OF_ONE: usize = 64;

/// Both ends at a place, the lower one first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Path {
    protocol: Protocol,
    place: Place,
    ends: Ends,
}

/// The flow on a path.
#[derive(Clone, Copy, Debug)]
struct Entry {
    flow: usize,
    /// The side of the lower end.
    lower: usize,
    /// The connection that existed before this one's SYN, until that SYN is answered.
    before: Option<usize>,
}

/// Source port, destination port and verification tag of a packet.
type Tagged = (u16, u16, u32);

/// Flows in progress.
#[derive(Debug, Default)]
pub(crate) struct Flows {
    slots: Vec<Option<Flow>>,
    free: Vec<usize>,
    paths: HashMap<Path, Entry>,
    /// Associations by tag, each with the side that sends packets with it.
    tags: HashMap<Tagged, Vec<(usize, usize)>>,
    /// Connections with the same ends, at any place.
    same: HashMap<Ends, Vec<usize>>,
    /// Flows that ended because new ones began.
    ended: Vec<Flow>,
}

/// Where a packet was seen, and when.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sight {
    pub(crate) place: Place,
    pub(crate) host: Option<u32>,
    pub(crate) ends: Ends,
    pub(crate) time: u64,
}

impl Sight {
    fn path(&self, protocol: Protocol) -> (Path, bool) {
        let forward = self.ends.from <= self.ends.to;
        let ends = if forward { self.ends } else { self.ends.back() };
        (Path { protocol, place: self.place, ends }, forward)
    }
}

impl Flows {
    pub(crate) fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    pub(crate) fn get(&mut self, flow: usize) -> Option<&mut Flow> {
        self.slots.get_mut(flow)?.as_mut()
    }

    fn look(&self, flow: usize) -> Option<&Flow> {
        self.slots.get(flow)?.as_ref()
    }

    /// Takes the flows that ended because new ones began.
    pub(crate) fn ended(&mut self) -> impl Iterator<Item = Flow> {
        self.ended.drain(..)
    }

    fn insert(&mut self, flow: Flow) -> usize {
        if let Some(free) = self.free.pop()
            && let Some(slot) = self.slots.get_mut(free)
        {
            *slot = Some(flow);
            return free;
        }
        self.slots.push(Some(flow));
        self.slots.len() - 1
    }

    /// All flows: time of the last packet, time of the first packet, and index.
    pub(crate) fn ages(&self) -> Vec<(u64, u64, usize)> {
        let all = self.slots.iter().enumerate();
        all.filter_map(|(index, flow)| flow.as_ref().map(|flow| (flow.last, flow.begun, index)))
            .collect()
    }

    /// Removes a flow.
    pub(crate) fn remove(&mut self, index: usize) -> Option<Flow> {
        let flow = self.slots.get_mut(index)?.take()?;
        self.free.push(index);
        match &flow.association {
            Some(association) => {
                for (place, ends) in &association.paths {
                    self.leave(
                        Path { protocol: Protocol::Sctp, place: *place, ends: *ends },
                        index,
                    );
                }
                for tagged in association.tagged(&flow.first) {
                    forget(&mut self.tags, tagged, |(flow, _)| *flow == index);
                }
            }
            None => {
                let (path, _) = Sight { place: flow.place, host: None, ends: flow.first, time: 0 }
                    .path(Protocol::Tcp);
                self.leave(path, index);
                forget(&mut self.same, path.ends, |flow| *flow == index);
            }
        }
        Some(flow)
    }

    fn leave(&mut self, path: Path, index: usize) {
        let Some(entry) = self.paths.get_mut(&path) else { return };
        match entry {
            Entry { flow, before: Some(before), .. } if *flow == index => {
                (*flow, entry.before) = (*before, None);
            }
            Entry { flow, .. } if *flow == index => {
                self.paths.remove(&path);
            }
            Entry { before, .. } if *before == Some(index) => *before = None,
            _ => {}
        }
    }

    fn end(&mut self, index: usize) {
        if let Some(flow) = self.remove(index) {
            self.ended.push(flow);
        }
    }

    /// The connection of a segment, and the side that sent it. Creates a connection if necessary.
    pub(crate) fn connection(&mut self, sight: &Sight, segment: &Segment) -> (usize, usize) {
        let (path, forward) = sight.path(Protocol::Tcp);
        let Some(entry) = self.paths.get(&path).copied() else {
            return (self.connect(path, sight, segment, None), 0);
        };
        let side = if forward { entry.lower } else { 1 - entry.lower };
        let Some(flow) = self.look(entry.flow) else {
            return (self.connect(path, sight, segment, None), 0);
        };
        if segment.syn && flow.begins_again(side, segment) {
            // A SYN that is never answered does not start a connection; the old one continues (RFC 5961 section 4).
            let before = match (flow.is_over(), entry.before) {
                (true, before) => {
                    self.end(entry.flow);
                    before
                }
                (false, None) => Some(entry.flow),
                (false, Some(before)) => {
                    self.end(entry.flow);
                    Some(before)
                }
            };
            return (self.connect(path, sight, segment, before), 0);
        }
        let Some(before) = entry.before else { return (entry.flow, side) };
        let is_answered = flow.sides.iter().all(|side| side.initial.is_some());
        let first = self.look(before).map(|older| older.first.from);
        let older_side = usize::from(first != Some(sight.ends.from));
        let goes_on = !segment.syn
            && !flow.is_near(side, segment)
            && self.look(before).is_some_and(|older| older.is_near(older_side, segment));
        if is_answered {
            self.end(before);
        } else if goes_on {
            return (before, older_side);
        }
        (entry.flow, side)
    }

    fn connect(
        &mut self,
        path: Path,
        sight: &Sight,
        segment: &Segment,
        before: Option<usize>,
    ) -> usize {
        let mut flow = Flow::new(Protocol::Tcp, sight.place, sight.ends, sight.time);
        let others = self.same.get(&path.ends).into_iter().flatten();
        flow.elsewhere = others.filter_map(|other| self.look(*other)).any(|other| {
            let side = usize::from(other.first.from != sight.ends.from);
            let initial = other.sides.get(side).and_then(|side| side.initial);
            let is_it = match (segment.syn, initial) {
                (true, Some(number)) => number == segment.sequence,
                _ => other.is_near(side, segment),
            };
            other.place != sight.place && is_it
        });
        let index = self.insert(flow);
        let lower = usize::from(path.ends != sight.ends);
        self.paths.insert(path, Entry { flow: index, lower, before });
        remember(self.same.entry(path.ends).or_default(), index);
        index
    }

    /// The association of a packet, and the side that sent it. Creates an association if necessary.
    pub(crate) fn association(
        &mut self,
        sight: &Sight,
        tag: u32,
        opening: Opening,
    ) -> (usize, usize) {
        let (path, forward) = sight.path(Protocol::Sctp);
        let here = self.paths.get(&path).copied().and_then(|entry| {
            let side = if forward { entry.lower } else { 1 - entry.lower };
            Some((entry.flow, side)).filter(|_| self.look(entry.flow).is_some())
        });
        if opening.kind == INIT {
            return self.initiated(path, sight, opening.initiate, here);
        }
        if let Some((flow, side)) = here
            && self.tag(flow, side) == Some(tag)
        {
            return (flow, side);
        }
        // The handshake was seen here, but this tag was not.
        if let Some((flow, side)) = here
            && self.tag(flow, side).is_none()
            && !opening.is_reflected
            && self.look(flow).is_some_and(Flow::is_beginning)
        {
            self.set_tag(flow, side, tag);
            return (flow, side);
        }
        if opening.is_reflected {
            // A reflected tag: that of the packet which it answers, in the other direction.
            match here {
                Some((flow, side)) if self.tag(flow, 1 - side) == Some(tag) => return (flow, side),
                _ => {}
            }
            let back = self.tagged((sight.ends.to.1, sight.ends.from.1, tag), &sight.back());
            if let Some((flow, side)) = back {
                return (flow, 1 - side);
            }
        }
        let tagged = (sight.ends.from.1, sight.ends.to.1, tag);
        if let Some((flow, side)) = self.tagged(tagged, sight) {
            self.join(path, sight, flow, side);
            return (flow, side);
        }
        if let Some((flow, side)) = here
            && (self.tag(flow, side).is_none() || opening.is_reflected)
        {
            self.set_tag(flow, side, tag);
            return (flow, side);
        }
        let flow = self.associate(path, sight);
        self.set_tag(flow, 0, tag);
        (flow, 0)
    }

    /// The association of an INIT whose own tag is still unknown.
    fn initiated(
        &mut self,
        path: Path,
        sight: &Sight,
        initiate: Option<u32>,
        here: Option<(usize, usize)>,
    ) -> (usize, usize) {
        let Some(initiate) = initiate else {
            return here.unwrap_or_else(|| (self.associate(path, sight), 0));
        };
        if let Some((flow, side)) = here {
            let is_its = match self.tag(flow, 1 - side) {
                Some(tag) => tag == initiate,
                // Both sides may send INIT at the same time.
                None => self.look(flow).is_some_and(Flow::is_beginning),
            };
            if is_its && !self.look(flow).is_some_and(Flow::is_over) {
                self.set_tag(flow, 1 - side, initiate);
                return (flow, side);
            }
        }
        // INIT may be retransmitted to another address.
        let answer = (sight.ends.to.1, sight.ends.from.1, initiate);
        if let Some((flow, side)) = self.tagged(answer, &sight.back())
            && self
                .look(flow)
                .is_some_and(|flow| flow.is_beginning() && flow.first.udp == sight.ends.udp)
        {
            self.join(path, sight, flow, 1 - side);
            return (flow, 1 - side);
        }
        let flow = self.associate(path, sight);
        self.set_tag(flow, 1, initiate);
        (flow, 0)
    }

    fn tag(&self, flow: usize, side: usize) -> Option<u32> {
        self.look(flow)?.association.as_ref()?.tags.get(side).copied().flatten()
    }

    /// An association on any path to which packets with this tag may belong.
    fn tagged(&self, tagged: Tagged, sight: &Sight) -> Option<(usize, usize)> {
        let all = self.tags.get(&tagged)?.iter().copied();
        all.rev().find(|(flow, side)| {
            let association = self.look(*flow).and_then(|flow| flow.association.as_ref());
            association.is_some_and(|own| own.admits(*side, sight.place, sight.host, &sight.ends))
        })
    }

    /// Creates an association with this first packet.
    fn associate(&mut self, path: Path, sight: &Sight) -> usize {
        let mut flow = Flow::new(Protocol::Sctp, sight.place, sight.ends, sight.time);
        if let Some(association) = &mut flow.association {
            association.host = sight.host;
        }
        let index = self.insert(flow);
        self.join(path, sight, index, 0);
        index
    }

    /// Adds a path on which an association is seen.
    fn join(&mut self, path: Path, sight: &Sight, index: usize, side: usize) {
        let is_forward = path.ends == sight.ends;
        let lower = if is_forward { side } else { 1 - side };
        let Some(association) = self.get(index).and_then(|flow| flow.association.as_mut()) else {
            return;
        };
        let own = (path.place, path.ends);
        if !association.paths.contains(&own) {
            if association.paths.len() >= MOST_PATHS {
                return;
            }
            association.paths.push(own);
        }
        self.paths.insert(path, Entry { flow: index, lower, before: None });
    }

    /// Sets the tag of the packets that a side sends.
    pub(crate) fn set_tag(&mut self, index: usize, side: usize, tag: u32) {
        let Some(flow) = self.get(index) else { return };
        let (ends, place) = (if side == 0 { flow.first } else { flow.first.back() }, flow.place);
        let Some(association) = flow.association.as_mut() else { return };
        if !association.know(side, tag) {
            return;
        }
        let tagged = (ends.from.1, ends.to.1, tag);
        let others = self.tags.get(&tagged).into_iter().flatten();
        let elsewhere = others.filter(|(other, _)| *other != index).any(|(other, _)| {
            self.look(*other).is_some_and(|other| {
                let same = (other.first.from.0, other.first.to.0);
                let own = [(ends.from.0, ends.to.0), (ends.to.0, ends.from.0)];
                // One of these counts as distinct; the others are repetitions.
                !other.elsewhere && other.place != place && own.contains(&same)
            })
        });
        remember(self.tags.entry(tagged).or_default(), (index, side));
        if let Some(flow) = self.get(index) {
            flow.elsewhere |= elsewhere;
        }
    }
}

impl Sight {
    fn back(&self) -> Self {
        Self { ends: self.ends.back(), ..*self }
    }
}

impl Flow {
    /// Whether this is an association with an INIT or INIT ACK, and no data yet.
    fn is_beginning(&self) -> bool {
        let is_begun = self.sides.iter().any(|side| side.initial.is_some());
        let has_data = self.sides.iter().any(|side| side.data_packets > 0);
        is_begun
            && !has_data
            && self.association.as_ref().is_some_and(|association| !association.is_up)
    }
}

impl Association {
    /// Records a tag. Returns false if it is known.
    fn know(&mut self, side: usize, tag: u32) -> bool {
        if let Some(own) = self.tags.get_mut(side)
            && own.is_none()
        {
            *own = Some(tag);
        }
        if self.known.contains(&(side, tag)) || self.known.len() >= MOST_PATHS {
            return false;
        }
        self.known.push((side, tag));
        true
    }

    /// The keys by which its packets are found.
    fn tagged(&self, first: &Ends) -> impl Iterator<Item = Tagged> {
        let (from, to) = (first.from.1, first.to.1);
        self.known.iter().map(move |(side, tag)| match side {
            0 => (from, to, *tag),
            _ => (to, from, *tag),
        })
    }
}

fn remember<T>(all: &mut Vec<T>, one: T) {
    if all.len() >= MOST_OF_ONE {
        all.remove(0);
    }
    all.push(one);
}

fn forget<K: std::hash::Hash + Eq, T>(
    map: &mut HashMap<K, Vec<T>>,
    key: K,
    is_it: impl Fn(&T) -> bool,
) {
    if let Some(all) = map.get_mut(&key) {
        all.retain(|one| !is_it(one));
        if all.is_empty() {
            map.remove(&key);
        }
    }
}
