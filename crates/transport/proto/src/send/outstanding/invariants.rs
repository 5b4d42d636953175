//! Invariants of the ring that hold at any time; for tests.

use std::collections::{BTreeMap, BTreeSet};

use super::{Outstanding, Past, Slot, SlotState};

impl Outstanding {
    /// Recomputes all derived values from the slots, and compares them.
    ///
    /// # Errors
    /// A description of the mismatch.
    #[expect(clippy::too_many_lines, reason = "one check behind the other")]
    pub(crate) fn check_invariants(&self) -> Result<(), String> {
        let mut payload = 0;
        let mut lost_chunks = 0;
        for flight in self.flights.iter() {
            let path = flight.path;
            let (mut bytes, mut held) = (0, 0);
            let mut in_flight = BTreeSet::new();
            let mut lost = BTreeSet::new();
            for (offset, slot) in self.slots.iter().enumerate() {
                let tsn = self.base + offset as u64;
                if slot.path == path {
                    held += slot.payload.len();
                }
                match slot.state {
                    _ if slot.path != path => {}
                    SlotState::InFlight => {
                        bytes += slot.size();
                        payload += slot.payload.len();
                        in_flight.insert(tsn);
                    }
                    SlotState::Lost => {
                        lost.insert(tsn);
                    }
                    SlotState::Acked | SlotState::NrAcked | SlotState::GivenUp => {}
                }
            }
            if bytes != flight.bytes {
                return Err(format!(
                    "path {path}: {} bytes in flight, kept {}",
                    bytes, flight.bytes
                ));
            }
            flight.packets.check_invariants(in_flight.len())?;
            if held != flight.held {
                return Err(format!("path {path}: {held} bytes held, kept {}", flight.held));
            }
            if lost != flight.lost {
                return Err(format!("path {path}: lost {lost:?}, kept {:?}", flight.lost));
            }
            lost_chunks += lost.len();
            let mut linked = BTreeSet::new();
            for (held, list) in [(false, flight.order), (true, flight.uncounted)] {
                let mut at = list.ends.map(|(head, _)| head);
                while let Some(tsn) = at {
                    let slot = self
                        .get(tsn)
                        .ok_or_else(|| format!("TSN {tsn} is linked but not in the ring"))?;
                    if slot.past.has(Past::HELD) != held || !linked.insert(tsn) {
                        return Err(format!("path {path}: TSN {tsn} is in a wrong list or twice"));
                    }
                    at = self.sent_after(tsn);
                    if at.is_none() && list.ends.map(|(_, tail)| tail) != Some(tsn) {
                        return Err(format!("path {path}: a list ends at {tsn}, not at its tail"));
                    }
                }
            }
            if linked != in_flight {
                return Err(format!("path {path}: in flight {in_flight:?}, linked {linked:?}"));
            }
        }
        self.check_messages()?;
        if let Some((tsn, _)) = self
            .retransmissions
            .iter()
            .find(|(tsn, _)| self.get(**tsn).is_none_or(|slot| slot.state.is_acked()))
        {
            return Err(format!("TSN {tsn} is not outstanding, and its retransmissions are kept"));
        }
        let sum = |counts: fn(&Slot) -> bool| -> usize {
            self.slots.iter().filter(|slot| counts(slot)).map(|slot| slot.payload.len()).sum()
        };
        let held = (sum(|_| true), sum(|slot| slot.state.is_acked()));
        if held != (self.held, self.held_acked) {
            return Err(format!("held {held:?}, kept {:?}", (self.held, self.held_acked)));
        }
        if self.slots.front().is_some_and(|slot| slot.state == SlotState::NrAcked) {
            return Err("the next TSN to be acknowledged is one acknowledged for good".into());
        }
        if let Some(slot) = self.slots.iter().find(|s| s.payload.is_empty() != s.state.is_final()) {
            return Err(format!("{:?} with {} bytes", slot.state, slot.payload.len()));
        }
        if payload != self.payload_in_flight {
            return Err(format!("{payload} in flight, kept {}", self.payload_in_flight));
        }
        if lost_chunks != self.lost {
            return Err(format!("{lost_chunks} chunks lost, kept {}", self.lost));
        }
        Ok(())
    }

    /// Each chunk is within the range of its message, the last chunk of each complete message is outstanding, and without
    /// interleaving a message has all TSNs in its range.
    fn check_messages(&self) -> Result<(), String> {
        let mut seen = BTreeMap::<u32, u32>::new();
        let mut interleaves = false;
        for (offset, slot) in self.slots.iter().enumerate() {
            let tsn = self.base + offset as u64;
            let Some(message) = self.messages.get(slot.message) else {
                return Err(format!("TSN {tsn} has no message"));
            };
            let is_last = message.complete && tsn == message.last();
            let flags = (slot.flags.begin(), slot.flags.end(), slot.flags.unordered());
            let expected = (tsn == message.first, is_last, message.unordered);
            if tsn < message.first || tsn > message.last() || flags != expected {
                let number = slot.message;
                return Err(format!("TSN {tsn}, {flags:?}, is not of {number}: {message:?}"));
            }
            interleaves |= slot.past.has(Past::INTERLEAVED);
            *seen.entry(slot.message).or_default() += 1;
        }
        for (number, message) in self.messages.iter() {
            let outstanding = (message.last() + 1).saturating_sub(message.first.max(self.base));
            let chunks = seen.get(&number).map_or(0, |chunks| u64::from(*chunks));
            // A message that is still being sent may have no outstanding chunk.
            if message.complete && chunks == 0 {
                return Err(format!("message {number} has no chunk: {message:?}"));
            }
            if !interleaves && chunks != outstanding {
                return Err(format!("message {number} has {chunks} chunks: {message:?}"));
            }
        }
        Ok(())
    }
}
