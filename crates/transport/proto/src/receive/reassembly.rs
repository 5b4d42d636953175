//! Reassembles messages from DATA chunks: the fragments of a message have consecutive TSNs (RFC 9260
//! section 6.9).
//!
//! Fragments are stored as *runs*: adjacent fragments of one message. A fragment joins the run before
//! it, the run after it, or both.
//!
//! Everything up to the cumulative TSN has been received, so at most one run is in that range: the one
//! whose next fragment is the next TSN. Only this run is ever delivered in parts, because freeing
//! memory anywhere else would not let the association make progress.

use std::collections::BTreeMap;

use anabranch_wire::Ppid;
use bytes::Bytes;

use super::tsns::Tsns;
use crate::message::{Message, Payload};

/// How the peer violated the protocol.
pub(crate) type Violation = &'static str;

/// The attributes of a chunk that matter for its message.
#[derive(Debug)]
pub(crate) struct Fragment {
    pub(crate) tsn: u64,
    pub(crate) begin: bool,
    pub(crate) end: bool,
    pub(crate) stream: u16,
    /// SSN, or message identifier.
    pub(crate) sequence: u32,
    /// Position in the message, if messages are interleaved.
    pub(crate) fsn: u32,
    pub(crate) ppid: Ppid,
    pub(crate) unordered: bool,
    pub(crate) piece: Bytes,
    pub(crate) charge: u32,
}

/// A complete message, or the last part of a message that was delivered in parts.
#[derive(Debug)]
pub(crate) struct Assembled {
    pub(crate) tsns: Tsns,
    pub(crate) message: Message,
}

impl From<Fragment> for Assembled {
    /// A message of one chunk.
    #[inline]
    fn from(chunk: Fragment) -> Self {
        Self {
            tsns: Tsns::one(chunk.tsn),
            message: Message {
                stream: chunk.stream,
                ppid: chunk.ppid,
                unordered: chunk.unordered,
                begin: true,
                end: true,
                sequence: chunk.sequence,
                tsn: chunk.tsn as u32,
                payload: Payload::from(chunk.piece),
                charge: chunk.charge,
            },
        }
    }
}

/// Adjacent fragments of one message.
#[derive(Debug)]
pub(crate) struct Run {
    first: u64,
    /// The TSN after the last fragment.
    next: u64,
    /// The first fragment of the message is, or was, in the run.
    begin: bool,
    /// The last fragment of the message is in the run.
    end: bool,
    /// A part was delivered to the user.
    begun: bool,
    pub(crate) unordered: bool,
    pub(crate) stream: u16,
    /// DATA chunks have 16 bits of it. More would make every run in memory larger.
    ssn: u16,
    ppid: Ppid,
    charge: u32,
    payload: Payload,
}

impl Run {
    fn new(fragment: Fragment) -> Self {
        Self {
            first: fragment.tsn,
            next: fragment.tsn + 1,
            begin: fragment.begin,
            end: fragment.end,
            begun: false,
            unordered: fragment.unordered,
            stream: fragment.stream,
            ssn: fragment.sequence as u16,
            ppid: fragment.ppid,
            charge: fragment.charge,
            payload: Payload::from(fragment.piece),
        }
    }

    /// The message's SSN.
    pub(crate) fn sequence(&self) -> u32 {
        self.ssn.into()
    }

    /// Whether a fragment with these attributes can belong to the message of this run.
    fn is_of(&self, stream: u16, ssn: u16, unordered: bool) -> bool {
        // req: rfc9260 3.3.1 "the receiver MUST ignore the Stream Sequence Number"
        // req: rfc9260 6.6 "but the receiver MUST ignore the field"
        self.stream == stream && self.unordered == unordered && (unordered || self.ssn == ssn)
    }

    /// Adds the fragment after the last one.
    fn push(&mut self, fragment: Fragment) -> Result<(), Violation> {
        if !self.is_of(fragment.stream, fragment.sequence as u16, fragment.unordered) {
            return Err("a fragment differs from the one before in stream, SSN or U bit");
        }
        self.next += 1;
        self.end = fragment.end;
        self.charge += fragment.charge;
        self.payload.push(fragment.piece);
        Ok(())
    }

    /// Adds the run after this one.
    fn append(&mut self, right: Self) -> Result<(), Violation> {
        if !self.is_of(right.stream, right.ssn, right.unordered) {
            return Err("a fragment differs from the one after in stream, SSN or U bit");
        }
        self.next = right.next;
        self.end = right.end;
        self.charge += right.charge;
        self.payload.append(right.payload);
        Ok(())
    }

    fn is_complete(&self) -> bool {
        self.begin && self.end
    }

    /// Memory of its fragments.
    pub(crate) fn charge(&self) -> u32 {
        self.charge
    }

    /// Whether the user got a part of it.
    pub(crate) fn is_begun(&self) -> bool {
        self.begun
    }

    fn into_assembled(self) -> Assembled {
        Assembled {
            tsns: Tsns::range(self.first, self.next - 1),
            message: Message {
                stream: self.stream,
                ppid: self.ppid,
                unordered: self.unordered,
                begin: !self.begun,
                end: true,
                sequence: self.ssn.into(),
                tsn: self.first as u32,
                payload: self.payload,
                charge: self.charge,
            },
        }
    }
}

/// The incomplete messages.
#[derive(Debug, Default)]
pub(crate) struct Reassembly {
    /// The run that changed last, kept outside of the map: bulk data never touches the map.
    recent: Option<Run>,
    /// The other runs, by first TSN.
    others: BTreeMap<u64, Run>,
    charge: usize,
}

impl Reassembly {
    /// Whether no message is incomplete.
    pub(crate) fn is_empty(&self) -> bool {
        self.recent.is_none() && self.others.is_empty()
    }

    /// Memory of the stored fragments.
    pub(crate) fn charge(&self) -> usize {
        self.charge
    }

    /// Adds a fragment that has not been added before; returns the message that it completes. `may_skip`: a message
    /// may begin although the end of the one before was not sent.
    ///
    /// # Errors
    /// The fragment contradicts its neighbours.
    // req: rfc9260 6.9 "MUST recognize fragmented DATA chunks by examining"
    // req: rfc9260 6.9 "but it MUST support reassembly when receiving"
    // req: rfc9260 6 "they MUST be implemented by the data receiver"
    pub(crate) fn insert(
        &mut self,
        fragment: Fragment,
        may_skip: bool,
    ) -> Result<Option<Assembled>, Violation> {
        self.charge += fragment.charge as usize;
        // Bulk data arrives above all incomplete messages, where there is no other run to join.
        let highest = self.others.last_key_value();
        match &mut self.recent {
            Some(recent)
                if recent.next == fragment.tsn
                    && !recent.end
                    && !fragment.begin
                    && highest.is_none_or(|(&first, _)| first < fragment.tsn) =>
            {
                recent.push(fragment)?;
                if recent.is_complete() {
                    return Ok(self.recent.take().map(|run| self.complete(run)));
                }
                return Ok(None);
            }
            None if highest.is_none_or(|(_, run)| run.next < fragment.tsn) => {
                self.recent = Some(Run::new(fragment));
                return Ok(None);
            }
            _ => {}
        }
        if let Some(recent) = self.recent.take() {
            self.others.insert(recent.first, recent);
        }
        let run = self.join(fragment, may_skip)?;
        if run.is_complete() {
            return Ok(Some(self.complete(run)));
        }
        self.recent = Some(run);
        Ok(None)
    }

    fn complete(&mut self, run: Run) -> Assembled {
        self.charge -= run.charge as usize;
        run.into_assembled()
    }

    /// Joins `fragment` with its neighbours in the map to one run.
    fn join(&mut self, fragment: Fragment, may_skip: bool) -> Result<Run, Violation> {
        let tsn = fragment.tsn;
        let left = match self.others.range(..tsn).next_back() {
            Some((&first, left)) if left.next == tsn => match (left.end, fragment.begin) {
                (true, true) => None,
                (false, false) => self.others.remove(&first),
                (true, false) => return Err("a message ends and the next one does not begin"),
                (false, true) if may_skip => None,
                (false, true) => return Err("a message begins before the one before has ended"),
            },
            _ => None,
        };
        let mut run = match left {
            Some(mut left) => {
                left.push(fragment)?;
                left
            }
            None => Run::new(fragment),
        };
        if let Some(right) = self.others.get(&run.next) {
            match (run.end, right.begin) {
                (true, true) => {}
                (false, false) => {
                    if let Some(right) = self.others.remove(&run.next) {
                        run.append(right)?;
                    }
                }
                (true, false) => return Err("a message ends and the next one does not begin"),
                (false, true) if may_skip => {}
                (false, true) => return Err("a message begins before the one before has ended"),
            }
        }
        Ok(run)
    }

    /// Drops the runs that reach `from` and begin above `above`, if `may_drop` returns true for their
    /// TSNs and their charge.
    pub(crate) fn drop_upper(
        &mut self,
        above: u64,
        from: u64,
        mut may_drop: impl FnMut(&Tsns, u32) -> bool,
    ) {
        let mut dropped = 0;
        let mut drops = |run: &Run| {
            let drops = run.first > above
                && run.next > from
                && may_drop(&Tsns::range(run.first, run.next - 1), run.charge);
            dropped += if drops { run.charge as usize } else { 0 };
            drops
        };
        self.recent.take_if(|run| drops(run));
        self.others.retain(|_, run| !drops(run));
        self.charge -= dropped;
    }

    /// First and last TSN of all runs, for tests.
    #[cfg(any(test, feature = "invariants"))]
    pub(crate) fn tsns(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.recent.iter().chain(self.others.values()).map(|run| (run.first, run.next - 1))
    }

    fn lowest(&self) -> Option<&Run> {
        match (&self.recent, self.others.first_key_value()) {
            (Some(recent), Some((_, other))) if other.first < recent.first => Some(other),
            (Some(recent), _) => Some(recent),
            (None, other) => other.map(|(_, run)| run),
        }
    }

    fn lowest_mut(&mut self) -> Option<&mut Run> {
        let recent_is_lowest = match (&self.recent, self.others.first_key_value()) {
            (Some(recent), Some((&first, _))) => recent.first < first,
            (recent, _) => recent.is_some(),
        };
        if recent_is_lowest {
            self.recent.as_mut()
        } else {
            self.others.first_entry().map(std::collections::btree_map::OccupiedEntry::into_mut)
        }
    }

    /// Checks the data at or below the cumulative TSN, where nothing is missing: there is at most
    /// one message that has begun, and its next fragment is the next TSN.
    ///
    /// This detects a stray fragment next to a complete message.
    ///
    /// # Errors
    /// A message there can never become complete.
    pub(crate) fn verify(&self, cumulative: u64) -> Result<(), Violation> {
        match self.lowest() {
            Some(run) if run.first <= cumulative => {
                if !run.begin {
                    Err("a message without its first fragment")
                } else if run.next <= cumulative {
                    Err("a message without its last fragment")
                } else {
                    Ok(())
                }
            }
            _ => Ok(()),
        }
    }

    /// Removes a message that can never become complete: it begins at or below `point`, up to which the peer sends no
    /// more, or all TSNs next to its fragments up to `cumulative` have arrived.
    pub(crate) fn take_broken(&mut self, point: u64, cumulative: u64) -> Option<Run> {
        let lowest = self.lowest()?;
        let broken = lowest.first <= point
            || lowest.first <= cumulative && (!lowest.begin || lowest.next <= cumulative);
        if !broken {
            return None;
        }
        let first = lowest.first;
        let run = match &self.recent {
            Some(recent) if recent.first == first => self.recent.take(),
            _ => self.others.remove(&first),
        }?;
        self.charge -= run.charge as usize;
        Some(run)
    }

    /// The message that the next TSN continues, if a part of it could be delivered now.
    pub(crate) fn open(&self, cumulative: u64) -> Option<&Run> {
        self.lowest().filter(|run| {
            run.begin && run.first <= cumulative && run.next == cumulative + 1 && run.charge > 0
        })
    }

    /// Whether the user has a part of a message whose end is missing.
    pub(crate) fn is_begun(&self) -> bool {
        // Only the lowest one can be taken in part.
        self.lowest().is_some_and(Run::is_begun)
    }

    /// Takes the available part of the message that the next TSN continues.
    pub(crate) fn take_part(&mut self, cumulative: u64) -> Option<Message> {
        self.open(cumulative)?;
        let run = self.lowest_mut()?;
        let part = Message {
            stream: run.stream,
            ppid: run.ppid,
            unordered: run.unordered,
            begin: !run.begun,
            end: false,
            sequence: run.sequence(),
            tsn: run.first as u32,
            payload: std::mem::take(&mut run.payload),
            charge: std::mem::take(&mut run.charge),
        };
        run.begun = true;
        self.charge -= part.charge as usize;
        Some(part)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A fragment of message `ssn` on stream 1; its payload is its TSN in one byte.
    fn fragment(tsn: u8, flags: &str, ssn: u16) -> Fragment {
        Fragment {
            tsn: u64::from(tsn),
            begin: flags.contains('B'),
            end: flags.contains('E'),
            stream: 1,
            sequence: ssn.into(),
            fsn: 0,
            ppid: Ppid(9),
            unordered: flags.contains('U'),
            piece: Bytes::copy_from_slice(&[tsn]),
            charge: 10,
        }
    }

    fn bytes(assembled: &Assembled) -> Vec<u8> {
        assembled.message.payload.clone().into_bytes().to_vec()
    }

    #[test]
    // test: rfc9260 6.9 "it MUST support reassembly when receiving DATA"
    // test: rfc9260 6.9 "MUST recognize fragmented DATA chunks by examining"
    // test: rfc9260 6.9 "but it MUST support reassembly when receiving"
    // test: rfc9260 6 "they MUST be implemented by the data receiver"
    fn every_order_of_five_fragments() {
        let mut orders = vec![vec![]];
        for tsn in 1..=5_u8 {
            orders = orders
                .iter()
                .flat_map(|order: &Vec<u8>| {
                    (0..=order.len()).map(move |at| {
                        let mut order = order.clone();
                        order.insert(at, tsn);
                        order
                    })
                })
                .collect();
        }
        assert_eq!(orders.len(), 120);
        for order in orders {
            let mut reassembly = Reassembly::default();
            let mut done = Vec::new();
            for tsn in &order {
                let flags = ["B", "", "", "", "E"][usize::from(*tsn) - 1];
                done.extend(reassembly.insert(fragment(*tsn, flags, 7), false).unwrap());
            }
            assert_eq!(done.len(), 1, "{order:?}");
            assert_eq!(bytes(&done[0]), [1, 2, 3, 4, 5], "{order:?}");
            assert_eq!(
                (done[0].tsns.first(), done[0].message.sequence, done[0].message.charge),
                (1, 7, 50)
            );
            assert!(done[0].message.is_whole());
            assert!(reassembly.is_empty() && reassembly.charge() == 0);
        }
    }

    #[test]
    fn neighbouring_messages_stay_apart() {
        let mut reassembly = Reassembly::default();
        for (tsn, flags, ssn) in [(2, "E", 0), (3, "B", 1), (5, "B", 2)] {
            assert!(reassembly.insert(fragment(tsn, flags, ssn), false).unwrap().is_none());
        }
        assert_eq!(bytes(&reassembly.insert(fragment(4, "E", 1), false).unwrap().unwrap()), [3, 4]);
        assert_eq!(bytes(&reassembly.insert(fragment(1, "B", 0), false).unwrap().unwrap()), [1, 2]);
        assert_eq!(bytes(&reassembly.insert(fragment(6, "E", 2), false).unwrap().unwrap()), [5, 6]);
        assert!(reassembly.is_empty());
    }

    #[test]
    fn contradictions_are_violations() {
        let refused = |fragments: &[(u8, &str, u16)]| {
            let mut reassembly = Reassembly::default();
            let (last, before) = fragments.split_last().unwrap();
            for (tsn, flags, ssn) in before {
                reassembly.insert(fragment(*tsn, flags, *ssn), false).unwrap();
            }
            reassembly.insert(fragment(last.0, last.1, last.2), false).is_err()
        };
        assert!(refused(&[(1, "B", 0), (2, "B", 1)]));
        assert!(refused(&[(1, "B", 0), (3, "B", 1), (2, "", 0)]));
        assert!(refused(&[(2, "B", 0), (1, "B", 0)]));
        assert!(refused(&[(1, "E", 0), (2, "", 0)]));
        assert!(refused(&[(2, "", 0), (1, "E", 0)]));
        assert!(refused(&[(1, "B", 0), (2, "", 1)]));
        assert!(refused(&[(1, "B", 0), (2, "E", 1)]));
        assert!(refused(&[(2, "E", 1), (1, "B", 0)]));
        assert!(refused(&[(1, "B", 0), (2, "U", 0)]));
        assert!(refused(&[(1, "B", 0), (3, "E", 1), (2, "", 0)]));
        assert!(!refused(&[(1, "BU", 0), (2, "U", 1)]));
    }

    #[test]
    // test: rfc9260 6.6 "but the receiver MUST ignore the field"
    // test: rfc9260 3.3.1 "the receiver MUST ignore the Stream Sequence Number"
    fn the_ssn_of_unordered_fragments_is_ignored() {
        let mut reassembly = Reassembly::default();
        reassembly.insert(fragment(1, "BU", 3), false).unwrap();
        let done = reassembly.insert(fragment(2, "EU", 9), false).unwrap().unwrap();
        assert!(done.message.unordered);
    }

    #[test]
    fn what_can_never_be_complete_is_found() {
        let mut reassembly = Reassembly::default();
        reassembly.insert(fragment(5, "", 0), false).unwrap();
        assert!(reassembly.verify(4).is_ok());
        assert!(reassembly.verify(5).is_err(), "no beginning");
        let mut reassembly = Reassembly::default();
        reassembly.insert(fragment(5, "B", 0), false).unwrap();
        reassembly.insert(fragment(9, "", 0), false).unwrap();
        assert!(reassembly.verify(5).is_ok());
        assert!(reassembly.verify(6).is_err(), "TSN 6 was another message");
    }

    #[test]
    // test: rfc9260 6.9 "SHOULD dispatch part of its inbound message"
    fn a_message_flows_through_in_parts() {
        let mut reassembly = Reassembly::default();
        reassembly.insert(fragment(1, "B", 0), false).unwrap();
        reassembly.insert(fragment(2, "", 0), false).unwrap();
        reassembly.insert(fragment(5, "", 0), false).unwrap();
        assert!(reassembly.take_part(0).is_none());
        let part = reassembly.take_part(2).unwrap();
        assert!(part.begin && !part.end && part.payload == [1, 2][..]);
        assert_eq!((part.charge, reassembly.charge()), (20, 10));
        assert!(reassembly.take_part(2).is_none(), "nothing new");
        assert!(reassembly.open(2).is_none());
        reassembly.insert(fragment(3, "", 0), false).unwrap();
        reassembly.insert(fragment(4, "", 0), false).unwrap();
        assert!(reassembly.verify(5).is_ok());
        let part = reassembly.take_part(5).unwrap();
        assert!(!part.begin && !part.end && part.payload == [3, 4, 5][..]);
        let done = reassembly.insert(fragment(6, "E", 0), false).unwrap().unwrap();
        assert!(!done.message.begin && done.message.end);
        assert_eq!((done.tsns.first(), bytes(&done)), (1, vec![6]));
        assert_eq!((part.tsn, done.message.tsn), (1, 1));
        assert!(reassembly.is_empty() && reassembly.charge() == 0);
    }

    #[test]
    fn a_part_without_its_beginning_is_kept() {
        let mut reassembly = Reassembly::default();
        reassembly.insert(fragment(3, "", 0), false).unwrap();
        assert!(reassembly.open(2).is_none());
        assert!(reassembly.take_part(3).is_none());
    }
}
