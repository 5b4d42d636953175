//! Reassembles messages from I-DATA chunks (RFC 8260 section 2.2.3): a message is known by its stream and identifier,
//! and its fragments by their positions.
//!
//! Fragments are stored as *runs* of adjacent ones. The run that the user takes next is kept with its message. Those
//! after a gap are kept by message and position.
//!
//! Any message whose next fragment is here can be delivered in parts, several at once. Otherwise unfinished messages
//! could fill the receive buffer for ever.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use anabranch_wire::Ppid;

use super::reassembly::{Assembled, Fragment, Violation};
use super::tsns::Tsns;
use crate::message::{Message, Payload};
use crate::tsn;

/// What identifies a message: its stream, whether it is unordered, and its message identifier.
pub(super) type Id = (u16, bool, u32);

/// The position of a message's first fragment; it leaves room below, so that FSNs can be unwrapped.
const FIRST: u64 = 1 << 32;

/// Memory of the first fragment of a message that arrives, beyond that of any other fragment: its entry in the map.
const ENTRY_COST: u32 = 2 * (size_of::<(Id, Partial)>() as u32);

/// Memory of a fragment after a gap: its entry in the other map.
const RUN_COST: u32 = 2 * (size_of::<(Id, u64, Run)>() as u32);

/// Memory of a fragment whose TSN does not follow that of the one before, in a list that grows by doubling.
const RANGE_COST: u32 = 2 * (size_of::<(u64, u64)>() as u32);

/// Adjacent fragments.
#[derive(Debug)]
struct Run {
    /// The position after the last one.
    next: u64,
    charge: u32,
    payload: Payload,
    tsns: Tsns,
}

impl Run {
    fn new(position: u64, fragment: Fragment) -> Self {
        Self {
            next: position + 1,
            charge: fragment.charge,
            payload: Payload::from(fragment.piece),
            tsns: Tsns::one(fragment.tsn),
        }
    }

    fn push(&mut self, fragment: Fragment) {
        self.next += 1;
        self.charge += fragment.charge;
        self.payload.push(fragment.piece);
        self.tsns.push(fragment.tsn);
    }

    fn append(&mut self, right: Self) {
        self.next = right.next;
        self.charge += right.charge;
        self.payload.append(right.payload);
        self.tsns.append(&right.tsns);
    }
}

/// A message that is not complete.
#[derive(Debug)]
struct Partial {
    /// The position of the next fragment that the user gets.
    from: u64,
    /// The run that begins there.
    front: Option<Run>,
    /// The position after the last fragment of the message, once that has arrived.
    end: Option<u64>,
    /// PPID, and TSN of the first fragment, once that has arrived.
    head: Option<(Ppid, u32)>,
    /// The number of runs after a gap.
    later: u32,
    /// The highest position after any fragment.
    highest: u64,
}

impl Partial {
    fn next(&self) -> u64 {
        self.front.as_ref().map_or(self.from, |run| run.next)
    }

    /// The position of a fragment.
    ///
    /// # Errors
    /// The message cannot have it.
    fn place(&self, fragment: &Fragment) -> Result<u64, Violation> {
        let position = match fragment.begin {
            true => FIRST,
            false => tsn::unwrap(self.next(), fragment.fsn),
        };
        if position < self.next() || position == FIRST && !fragment.begin {
            return Err("two fragments with one position in their message");
        }
        if self.end.is_some_and(|end| position >= end || fragment.end) {
            return Err("a fragment after the last one of its message");
        }
        if fragment.end && position + 1 < self.highest {
            return Err("the last fragment of a message comes before another one");
        }
        Ok(position)
    }

    /// Adds the next fragment, and the run behind it if nothing is missing in between.
    fn push(&mut self, id: Id, position: u64, fragment: Fragment, later: &mut Later) {
        match &mut self.front {
            Some(front) => front.push(fragment),
            None => self.front = Some(Run::new(position, fragment)),
        }
        if self.later > 0
            && let Some(front) = &mut self.front
            && let Some(right) = later.remove(&(id, front.next))
        {
            front.append(right);
            self.later -= 1;
        }
    }

    /// Adds a fragment after a gap.
    fn insert_later(
        &mut self,
        id: Id,
        position: u64,
        fragment: Fragment,
        later: &mut Later,
    ) -> Result<(), Violation> {
        let right = later.remove(&(id, position + 1));
        let before = later.range_mut((id, 0)..=(id, position)).next_back();
        match before {
            Some((_, run)) if run.next > position => {
                return Err("two fragments with one position in their message");
            }
            Some((_, run)) if run.next == position => {
                run.push(fragment);
                if let Some(right) = right {
                    run.append(right);
                    self.later -= 1;
                }
            }
            _ => {
                let mut run = Run::new(position, fragment);
                match right {
                    Some(right) => run.append(right),
                    None => self.later += 1,
                }
                later.insert((id, position), run);
            }
        }
        Ok(())
    }
}

impl Default for Partial {
    /// A message of which nothing has arrived.
    fn default() -> Self {
        Self { from: FIRST, front: None, end: None, head: None, later: 0, highest: FIRST }
    }
}

/// The runs after a gap, by message and first position.
type Later = BTreeMap<(Id, u64), Run>;

/// What became of a fragment.
#[derive(Debug)]
pub(super) enum Inserted {
    /// It completed a message.
    Whole(Assembled),
    /// The next part of its message is here now.
    Opened,
    /// It is kept.
    Kept,
}

/// The incomplete messages.
#[derive(Debug, Default)]
pub(super) struct Interleaved {
    /// The message that changed last, kept outside of the map: bulk data never touches the map.
    recent: Option<(Id, Partial)>,
    others: BTreeMap<Id, Partial>,
    later: Later,
    /// Messages whose next part was ready to be taken, in this order. Some may be gone, or here twice.
    open: VecDeque<Id>,
    charge: usize,
}

/// What an incomplete message was when it was dropped.
#[derive(Debug)]
pub(super) struct Dropped {
    pub(super) charge: u32,
    /// The user got a part of it.
    pub(super) begun: bool,
    pub(super) tsns: Vec<Tsns>,
}

impl Interleaved {
    pub(super) fn is_empty(&self) -> bool {
        self.recent.is_none() && self.others.is_empty()
    }

    pub(super) fn charge(&self) -> usize {
        self.charge
    }

    /// Whether a part of this message has arrived.
    #[inline]
    pub(super) fn has(&self, id: Id) -> bool {
        self.get(id).is_some()
    }

    /// Whether this message changed last and is not complete.
    #[inline]
    pub(super) fn is_recent(&self, id: Id) -> bool {
        matches!(&self.recent, Some((recent, _)) if *recent == id)
    }

    #[inline]
    fn get(&self, id: Id) -> Option<&Partial> {
        match &self.recent {
            Some((recent, partial)) if *recent == id => Some(partial),
            _ => self.others.get(&id),
        }
    }

    /// Memory of a fragment beyond its bytes and its place in a list.
    pub(super) fn cost(&self, id: Id, fsn: u32) -> u32 {
        match self.get(id) {
            None => ENTRY_COST + RUN_COST,
            Some(partial) if tsn::wire(partial.next()) == fsn => RANGE_COST,
            Some(partial) if partial.later == 0 => RUN_COST,
            Some(partial) => {
                let position = tsn::unwrap(partial.next(), fsn);
                let before = self.later.range((id, 0)..(id, position)).next_back();
                let joins = before.is_some_and(|(_, run)| run.next == position);
                if joins { RANGE_COST } else { RUN_COST }
            }
        }
    }

    /// Adds a fragment that has not been added before.
    ///
    /// # Errors
    /// The fragment contradicts others.
    // req: rfc8260 2.2.3 "the receiver MUST first use the"
    pub(super) fn insert(&mut self, id: Id, fragment: Fragment) -> Result<Inserted, Violation> {
        self.charge += fragment.charge as usize;
        // Nothing is moved for the fragments of one message in a row.
        if !self.is_recent(id) {
            self.others.extend(self.recent.take());
        }
        let others = &mut self.others;
        let begin = || (id, others.remove(&id).unwrap_or_default());
        let (_, partial) = self.recent.get_or_insert_with(begin);
        let position = partial.place(&fragment)?;
        if fragment.begin {
            partial.head = Some((fragment.ppid, tsn::wire(fragment.tsn)));
        }
        if fragment.end {
            partial.end = Some(position + 1);
        }
        partial.highest = partial.highest.max(position + 1);
        let was_open = partial.front.is_some();
        if position == partial.next() {
            partial.push(id, position, fragment, &mut self.later);
        } else {
            partial.insert_later(id, position, fragment, &mut self.later)?;
        }
        if partial.end == Some(partial.next())
            && let Some(run) = partial.front.take()
        {
            return Ok(Inserted::Whole(self.complete(id, run)));
        }
        Ok(if !was_open && partial.front.is_some() { Inserted::Opened } else { Inserted::Kept })
    }

    /// Forgets the message that changed last; `run` is its end.
    fn complete(&mut self, id: Id, run: Run) -> Assembled {
        let (from, head) = match self.recent.take() {
            Some((_, partial)) => (partial.from, partial.head),
            None => (FIRST, None),
        };
        // Otherwise the list would have to be cleaned every few messages.
        if self.open.back() == Some(&id) {
            self.open.pop_back();
        }
        self.charge -= run.charge as usize;
        let message = part(id, from, head, true, run.payload, run.charge);
        Assembled { tsns: run.tsns, message }
    }

    /// Whether the next part of a message is here.
    pub(super) fn is_open(&self, id: Id) -> bool {
        self.get(id).is_some_and(|partial| partial.front.is_some())
    }

    /// Records that a message may be taken in parts from now on, if its next part is here.
    pub(super) fn open(&mut self, id: Id) {
        let waits = self.get(id).and_then(|partial| partial.front.as_ref());
        if waits.is_none() {
            return;
        }
        if self.open.len() > 2 * self.others.len() + 8 {
            let open = std::mem::take(&mut self.open);
            let mut seen = BTreeSet::new();
            self.open =
                open.into_iter().filter(|id| self.is_open(*id) && seen.insert(*id)).collect();
        }
        self.open.push_back(id);
    }

    /// Whether a part of some message can be taken.
    pub(super) fn has_part(&self) -> bool {
        self.open.iter().any(|id| self.is_open(*id))
    }

    /// Takes the available part of the message that has waited longest, with its TSNs.
    pub(super) fn take_part(&mut self) -> Option<(Message, Tsns)> {
        while let Some(id) = self.open.pop_front() {
            let partial = match &mut self.recent {
                Some((recent, partial)) if *recent == id => Some(partial),
                _ => self.others.get_mut(&id),
            };
            let Some(partial) = partial else { continue };
            let Some(run) = partial.front.take() else { continue };
            self.charge -= run.charge as usize;
            let from = std::mem::replace(&mut partial.from, run.next);
            let message = part(id, from, partial.head, false, run.payload, run.charge);
            return Some((message, run.tsns));
        }
        None
    }

    /// Drops the incomplete messages of a stream up to this identifier.
    pub(super) fn skip(&mut self, stream: u16, unordered: bool, last: u32) -> Vec<(Id, Dropped)> {
        self.others.extend(self.recent.take());
        // Only what goes is looked at, because a chunk can name a stream with many messages again and again.
        let first = last.wrapping_sub((1 << 31) - 1);
        let ranges = match first <= last {
            true => [Some((first, last)), None],
            false => [Some((first, u32::MAX)), Some((0, last))],
        };
        let mut gone = Vec::new();
        for (from, to) in ranges.into_iter().flatten() {
            let of_stream = self.others.range((stream, unordered, from)..=(stream, unordered, to));
            gone.extend(of_stream.map(|(id, _)| *id));
        }
        gone.into_iter().filter_map(|id| Some((id, self.remove(id)?))).collect()
    }

    /// Drops the incomplete messages that begin before the TSN `first`, as far as is known.
    pub(super) fn take_earlier(&mut self, first: u64) -> Vec<(Id, Dropped)> {
        self.others.extend(self.recent.take());
        let earlier = |id: &Id, partial: &Partial| match partial.head {
            Some((_, tsn)) => tsn::unwrap(first, tsn) < first,
            None => self.later.range((*id, 0)..).next().is_none_or(|((of, _), run)| {
                of != id || run.tsns.ranges().next().is_none_or(|(tsn, _)| tsn < first)
            }),
        };
        let gone = self.others.iter().filter(|(id, partial)| earlier(id, partial));
        let gone: Vec<Id> = gone.map(|(id, _)| *id).collect();
        gone.into_iter().filter_map(|id| Some((id, self.remove(id)?))).collect()
    }

    fn remove(&mut self, id: Id) -> Option<Dropped> {
        let partial = self.others.remove(&id)?;
        let mut runs: Vec<Run> = partial.front.into_iter().collect();
        if partial.later > 0 {
            let later: Vec<_> =
                self.later.range((id, 0)..=(id, u64::MAX)).map(|(key, _)| *key).collect();
            runs.extend(later.iter().filter_map(|key| self.later.remove(key)));
        }
        let charge = runs.iter().map(|run| run.charge).sum::<u32>();
        self.charge -= charge as usize;
        let begun = partial.from > FIRST;
        Some(Dropped { charge, begun, tsns: runs.into_iter().map(|run| run.tsns).collect() })
    }

    /// Drops the runs that reach the TSN `from` and begin above `above`, if `may_drop` returns true for their TSNs and
    /// their charge.
    pub(super) fn drop_upper(
        &mut self,
        above: u64,
        from: u64,
        mut may_drop: impl FnMut(&Tsns, u32) -> bool,
    ) {
        self.others.extend(self.recent.take());
        let mut dropped = 0;
        let mut drops = |run: &Run| {
            let (tsns, charge) = (&run.tsns, run.charge);
            let drops = tsns.first() > above && tsns.last() >= from && may_drop(tsns, charge);
            dropped += if drops { charge as usize } else { 0 };
            drops
        };
        let others = &mut self.others;
        self.later.retain(|(id, _), run| {
            let drops = drops(run);
            if let Some(partial) = others.get_mut(id).filter(|_| drops) {
                partial.later -= 1;
            }
            !drops
        });
        for partial in others.values_mut() {
            partial.front.take_if(|run| drops(run));
        }
        self.charge -= dropped;
        self.forget_lost();
    }

    /// Drops what is known of fragments that were dropped.
    fn forget_lost(&mut self) {
        let later = &self.later;
        self.others.retain(|id, partial| {
            let last = later.range((*id, 0)..=(*id, u64::MAX)).next_back();
            let highest = last.map_or(partial.next(), |(_, run)| run.next);
            partial.highest = highest;
            partial.end = partial.end.filter(|end| *end <= highest);
            if partial.from == FIRST && partial.front.is_none() {
                partial.head = None;
            }
            // A message that the user got a part of stays.
            partial.front.is_some() || partial.later > 0 || partial.from > FIRST
        });
    }

    /// The TSNs of all runs, for tests.
    #[cfg(any(test, feature = "invariants"))]
    pub(super) fn tsns(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        let messages = self.recent.iter().map(|(_, partial)| partial).chain(self.others.values());
        let fronts = messages.filter_map(|partial| partial.front.as_ref());
        fronts.chain(self.later.values()).flat_map(|run| run.tsns.ranges())
    }
}

/// A message, or the part of one that begins at position `from`.
fn part(
    (stream, unordered, mid): Id,
    from: u64,
    head: Option<(Ppid, u32)>,
    end: bool,
    payload: Payload,
    charge: u32,
) -> Message {
    let (ppid, tsn) = head.unwrap_or_default();
    Message {
        stream,
        ppid,
        unordered,
        begin: from == FIRST,
        end,
        sequence: mid,
        tsn,
        payload,
        charge,
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    fn fragment(mid: u32, tsn: u64) -> Fragment {
        Fragment {
            tsn,
            begin: true,
            end: false,
            stream: 1,
            sequence: mid,
            fsn: 0,
            ppid: Ppid(0),
            unordered: true,
            piece: Bytes::from_static(b"x"),
            charge: 10,
        }
    }

    #[test]
    fn messages_are_skipped_up_to_an_identifier_across_the_wrap() {
        let half = 1_u32 << 31;
        for last in [5, 0, half, half + 7, u32::MAX] {
            let mut messages = Interleaved::default();
            let distances = [half - 1, 3, 1, 0];
            let kept = [1, 9, half - 1];
            let behind = distances.map(|distance| last.wrapping_sub(distance));
            let ahead = kept.map(|distance| last.wrapping_add(distance));
            for (tsn, mid) in (1..).zip(behind.into_iter().chain(ahead)) {
                let inserted = messages.insert((1, true, mid), fragment(mid, tsn)).unwrap();
                assert!(matches!(inserted, Inserted::Opened));
            }
            // Other streams, and the ordered messages of this one, stay.
            messages.insert((1, false, last), fragment(last, 20)).unwrap();
            messages.insert((2, true, last), fragment(last, 21)).unwrap();
            let mut gone: Vec<u32> =
                messages.skip(1, true, last).into_iter().map(|((.., mid), _)| mid).collect();
            gone.sort_by_key(|mid| std::cmp::Reverse(last.wrapping_sub(*mid)));
            assert_eq!(gone, behind, "up to {last}");
            assert_eq!(messages.charge(), 50);
            assert!(messages.skip(1, true, last).is_empty());
        }
    }
}
