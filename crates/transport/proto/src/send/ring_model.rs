//! Compares the ring of outstanding chunks with a model that is too simple to be wrong.
//!
//! Operations are decoded from bytes, either a fuzzer's or those of the tests below.

use std::collections::BTreeSet;

use super::outstanding::{Outstanding, SlotState};
use super::{Cause, Fragment, Slot};
use crate::per_path::PathId;
use crate::time::Instant;

const PATHS: usize = 3;
/// Maximum number of chunks in the model, which searches linearly.
const MAX_CHUNKS: usize = 128;

/// The identifier of a path; the model uses plain indices.
fn name(path: usize) -> PathId {
    PathId(path as u16)
}

/// A chunk of the model.
#[derive(Clone, Debug)]
struct Entry {
    tsn: u64,
    size: usize,
    payload: usize,
    path: usize,
    state: SlotState,
    fast_retransmitted: bool,
    missing_reports: u8,
    packet: u64,
    /// The path and list in which it was lost, and whether it was sent more than once.
    lost_from: (usize, bool),
    again: bool,
    /// It was carried by another path than the one that it belongs to.
    elsewhere: bool,
}

#[derive(Debug, Default)]
struct Model {
    entries: Vec<Entry>,
    /// TSNs in flight in the order of sending: those for which missing reports count, and the
    /// others.
    order: [Vec<u64>; PATHS],
    held: [Vec<u64>; PATHS],
}

impl Model {
    fn entry(&mut self, tsn: u64) -> &mut Entry {
        self.entries.iter_mut().find(|entry| entry.tsn == tsn).expect("a chunk of the model")
    }

    fn take_off(&mut self, tsn: u64) {
        for list in self.order.iter_mut().chain(&mut self.held) {
            list.retain(|other| *other != tsn);
        }
    }
}

/// Decodes bytes to operations.
struct Input<'a>(&'a [u8]);

impl Input<'_> {
    fn next(&mut self) -> Option<usize> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(usize::from(*first))
    }
}

/// Applies the operations in `bytes` to a ring and its model, and compares them after each
/// operation.
///
/// # Panics
/// If they differ.
#[cfg_attr(not(fuzzing), allow(unreachable_pub))]
pub fn check(bytes: &[u8]) {
    let mut input = Input(bytes);
    // Start close to where the links' 32 bits wrap around.
    let Some(before_wrap) = input.next() else { return };
    let first = (1u64 << 33) - before_wrap as u64;
    let mut ring = Outstanding::new(first);
    (0..PATHS).for_each(|path| ring.add_path(name(path)));
    let mut model = Model::default();
    let mut packet = 0;
    while step(&mut input, &mut ring, &mut model, &mut packet).is_some() {
        compare(first, &ring, &model);
    }
}

/// Performs one operation; `None` when there are no more bytes.
fn step(
    input: &mut Input<'_>,
    ring: &mut Outstanding,
    model: &mut Model,
    packet: &mut u64,
) -> Option<()> {
    let (operation, choice) = (input.next()?, input.next()?);
    *packet += 1;
    let path = choice % PATHS;
    let to = operation / 9 % PATHS;
    // In the upper half of the numbers, some operations are done in another way.
    let is_high = operation > 127;
    // Picks a chunk in a state, if there is one.
    let pick = |model: &Model, state: SlotState| {
        let all: Vec<u64> =
            model.entries.iter().filter(|e| e.state == state).map(|e| e.tsn).collect();
        all.get(choice % all.len().max(1)).copied()
    };
    let in_flight = pick(model, SlotState::InFlight);
    match operation % 10 {
        0 | 1 if model.entries.len() < MAX_CHUNKS => push(ring, model, path, choice, *packet),
        2 => {
            let cause = if is_high { Cause::MissingReports } else { Cause::Timeout };
            in_flight.into_iter().for_each(|tsn| lose(ring, model, tsn, cause, to));
        }
        3 => {
            if let Some(tsn) = ring.first_lost(name(path)) {
                let is_counted = is_high || !model.entry(tsn).fast_retransmitted;
                retransmit(ring, model, tsn, to, *packet, is_counted);
            }
        }
        4 => {
            let tsn = in_flight.filter(|_| operation > 63);
            let tsn = tsn.or_else(|| pick(model, SlotState::Lost));
            tsn.into_iter().for_each(|tsn| gap_ack(ring, model, tsn));
        }
        5 if is_high => pop_plain(ring, model, choice),
        5 => pop(ring, model),
        6 => match pick(model, SlotState::Acked) {
            Some(tsn) if is_high => free(ring, model, tsn),
            Some(tsn) => renege(ring, model, tsn),
            None => {}
        },
        7 => redirect_lost(ring, model, path, to),
        8 => {
            let lost = pick(model, SlotState::Lost);
            lost.into_iter().for_each(|tsn| take_back(ring, model, tsn));
        }
        _ => in_flight.into_iter().for_each(|tsn| report_missing(ring, model, tsn)),
    }
    Some(())
}

fn lose(ring: &mut Outstanding, model: &mut Model, tsn: u64, cause: Cause, to: usize) {
    ring.lose(tsn, cause, name(to));
    let held = model.held.iter().any(|list| list.contains(&tsn));
    model.take_off(tsn);
    let entry = model.entry(tsn);
    entry.lost_from = (entry.path, held);
    (entry.state, entry.path) = (SlotState::Lost, to);
    entry.fast_retransmitted |= cause.is_reported();
}

/// Retransmits a lost chunk; missing reports may count for it or not.
fn retransmit(
    ring: &mut Outstanding,
    model: &mut Model,
    tsn: u64,
    to: usize,
    packet: u64,
    is_counted: bool,
) {
    ring.retransmitted(Instant::ZERO, tsn, name(to), packet, is_counted, false);
    let entry = model.entry(tsn);
    (entry.state, entry.path, entry.missing_reports) = (SlotState::InFlight, to, 0);
    (entry.packet, entry.again, entry.elsewhere) = (packet, true, false);
    let lists = if is_counted { &mut model.order } else { &mut model.held };
    lists[to].push(tsn);
}

fn gap_ack(ring: &mut Outstanding, model: &mut Model, tsn: u64) {
    ring.gap_ack(tsn);
    model.take_off(tsn);
    let entry = model.entry(tsn);
    entry.elsewhere |= entry.state == SlotState::Lost && entry.lost_from.0 != entry.path;
    entry.state = SlotState::Acked;
}

/// Frees a payload, because the peer will not renege on the chunk.
fn free(ring: &mut Outstanding, model: &mut Model, tsn: u64) {
    let entry = model.entry(tsn);
    assert_eq!(ring.free(tsn), entry.payload);
    assert_eq!(ring.free(tsn), 0, "it is gone");
    ring.renege(Instant::ZERO, tsn);
    (entry.state, entry.payload) = (SlotState::NrAcked, 0);
}

fn renege(ring: &mut Outstanding, model: &mut Model, tsn: u64) {
    ring.renege(Instant::ZERO, tsn);
    let entry = model.entry(tsn);
    let path = entry.path;
    if entry.elsewhere {
        entry.state = SlotState::Lost;
    } else {
        entry.state = SlotState::InFlight;
        model.order[path].insert(0, tsn);
    }
}

fn redirect_lost(ring: &mut Outstanding, model: &mut Model, path: usize, to: usize) {
    ring.redirect_lost(name(path), name(to));
    for entry in &mut model.entries {
        if entry.state == SlotState::Lost && entry.path == path {
            entry.path = to;
        }
    }
}

fn report_missing(ring: &mut Outstanding, model: &mut Model, tsn: u64) {
    let entry = model.entry(tsn);
    entry.missing_reports = entry.missing_reports.saturating_add(1);
    let expected = entry.missing_reports;
    assert_eq!(ring.report_missing(tsn, 1), expected);
}

fn push(ring: &mut Outstanding, model: &mut Model, path: usize, len: usize, packet: u64) {
    let payload = 1 + len;
    let fragment = Fragment::whole(ring.next_message(), payload);
    let tsn = ring.push(Instant::ZERO, fragment, name(path), packet, false);
    model.order[path].push(tsn);
    model.entries.push(Entry {
        tsn,
        size: 16 + payload.next_multiple_of(4),
        payload,
        path,
        state: SlotState::InFlight,
        fast_retransmitted: false,
        missing_reports: 0,
        packet,
        lost_from: (path, false),
        again: false,
        elsewhere: false,
    });
}

fn take_back(ring: &mut Outstanding, model: &mut Model, tsn: u64) {
    if model.entry(tsn).elsewhere {
        assert!(!ring.take_back(Instant::ZERO, tsn), "it was acknowledged since");
        return;
    }
    assert!(ring.take_back(Instant::ZERO, tsn));
    assert!(!ring.take_back(Instant::ZERO, tsn), "it is in flight");
    let entry = model.entry(tsn);
    let ((path, held), packet) = (entry.lost_from, entry.packet);
    (entry.state, entry.path, entry.missing_reports) = (SlotState::InFlight, path, 0);
    entry.fast_retransmitted &= entry.again;
    let lists = if held { &model.held } else { &model.order };
    let later = |other: &u64| {
        model.entries.iter().any(|entry| entry.tsn == *other && entry.packet >= packet)
    };
    let place = lists[path].iter().position(later).unwrap_or(lists[path].len());
    let lists = if held { &mut model.held } else { &mut model.order };
    lists[path].insert(place, tsn);
}

fn pop(ring: &mut Outstanding, model: &mut Model) {
    let slot = ring.pop();
    assert_eq!(slot.is_none(), model.entries.is_empty());
    if let Some(slot) = slot {
        let entry = model.entries.remove(0);
        assert_eq!(slot.payload.len(), entry.payload);
        model.take_off(entry.tsn);
    }
}

/// Removes chunks that nothing sets apart, `most` beyond the first one at most.
fn pop_plain(ring: &mut Outstanding, model: &mut Model, most: usize) {
    let first = ring.base();
    let run = ring.pop_plain(first + most as u64);
    let Some(run) = run else { return };
    assert!(run.first_tsn == first && run.len() <= most + 1);
    let gone: Vec<Entry> = model.entries.drain(..run.len()).collect();
    let path = gone[0].path;
    assert!(gone.iter().all(|entry| entry.path == path && entry.state == SlotState::InFlight));
    assert_eq!((run.path, run.last_tsn), (name(path), gone[gone.len() - 1].tsn));
    assert_eq!(run.payload, gone.iter().map(|entry| entry.payload).sum::<usize>());
    assert_eq!(run.bytes, gone.iter().map(|entry| entry.size).sum::<usize>());
    assert_eq!(run.first_packet, gone[0].packet);
    assert_eq!(run.last_packet.number, gone[gone.len() - 1].packet);
    assert_eq!(run.earliest, model.held[path].is_empty());
    gone.iter().for_each(|entry| model.take_off(entry.tsn));
}

/// Checks that the ring agrees with the model.
fn compare(first: u64, ring: &Outstanding, model: &Model) {
    assert_eq!(ring.len(), model.entries.len());
    assert_eq!(ring.is_empty(), model.entries.is_empty());
    assert_eq!(ring.next_tsn() - ring.base(), model.entries.len() as u64);
    assert!(ring.base() >= first);
    if let Some(entry) = model.entries.first() {
        assert_eq!(ring.base(), entry.tsn);
    }
    let in_flight = || model.entries.iter().filter(|e| e.state == SlotState::InFlight);
    assert_eq!(ring.payload_in_flight(), in_flight().map(|e| e.payload).sum::<usize>());
    let lost = || model.entries.iter().filter(|e| e.state == SlotState::Lost);
    let acked = || model.entries.iter().filter(|e| e.state == SlotState::Acked);
    let sum = |entry: &Entry| entry.payload;
    assert_eq!(ring.held(), model.entries.iter().map(sum).sum::<usize>());
    assert_eq!(ring.held_acked(), acked().map(sum).sum::<usize>());
    assert_eq!(ring.lost_chunks(), lost().count());
    for entry in &model.entries {
        let slot: &Slot = ring.get(entry.tsn).expect("a slot for every chunk");
        assert_eq!((slot.state, slot.path), (entry.state, name(entry.path)));
    }
    for path in 0..PATHS {
        let flight: usize = in_flight().filter(|e| e.path == path).map(|e| e.size).sum();
        assert_eq!(ring.flight(name(path)), flight);
        assert_eq!(ring.in_flight(name(path)), flight > 0);
        let packets: BTreeSet<u64> =
            in_flight().filter(|e| e.path == path).map(|e| e.packet).collect();
        assert_eq!(ring.packets(name(path)), packets.len());
        assert_eq!(
            ring.oldest_packet(name(path)).map(|(oldest, _)| oldest),
            packets.first().copied()
        );
        assert_eq!(ring.first_lost(name(path)), lost().find(|e| e.path == path).map(|e| e.tsn));
        let mut order = Vec::new();
        let mut at = ring.oldest_counted(name(path));
        while let Some(tsn) = at {
            order.push(tsn);
            assert!(order.len() <= model.entries.len(), "a list that ends nowhere");
            at = ring.sent_after(tsn);
        }
        assert_eq!(order, model.order[path], "order of sending on path {path}");
        let earliest = model.held[path].first().or(model.order[path].first());
        assert_eq!(ring.earliest(name(path)), earliest.copied());
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::check;

    proptest! {
        #[test]
        fn ring_and_model_agree(bytes in proptest::collection::vec(any::<u8>(), 0..600)) {
            check(&bytes);
        }
    }

    #[test]
    fn kept_inputs_pass() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../fuzz/corpus-seed/ring");
        let mut inputs = 0;
        for entry in std::fs::read_dir(folder).unwrap() {
            check(&std::fs::read(entry.unwrap().path()).unwrap());
            inputs += 1;
        }
        assert!(inputs > 0, "no inputs in {folder}");
    }
}
