//! Attacks by a hostile end, or by a host on the path, on the packets of a live association.

use std::collections::VecDeque;

use anabranch_impair::Rng;
use anabranch_wire::{Tsn, kind};

use super::{Draft, RawPiece};
use crate::{Network, Verdict};

/// Replaces one packet by any number of packets.
pub trait Mutator {
    /// Adds the replacements of `packet` to `out`.
    fn mutate(&mut self, packet: Draft, rng: &mut Rng, out: &mut Vec<Draft>);
}

/// Passes all packets of `node` through `mutators`, one after the other.
pub fn mutate(net: &mut Network, node: usize, mut mutators: Vec<Box<dyn Mutator>>, seed: u64) {
    let mut rng = Rng::stream(seed, 4);
    net.script(move |sight| {
        let Some(draft) = Draft::read(sight.packet.bytes()).filter(|_| sight.node == node) else {
            return Verdict::Pass;
        };
        let mut packets = vec![draft];
        for mutator in &mut mutators {
            let mut out = Vec::new();
            for packet in packets {
                mutator.mutate(packet, &mut rng, &mut out);
            }
            packets = out;
        }
        Verdict::Instead(packets.iter().map(Draft::bytes).collect())
    });
}

/// Adds this many copies with forged tags to each packet.
#[derive(Clone, Copy, Debug)]
pub struct ForgedTag(pub u32);

impl Mutator for ForgedTag {
    fn mutate(&mut self, packet: Draft, rng: &mut Rng, out: &mut Vec<Draft>) {
        for _ in 0..self.0 {
            let mut forged = packet.clone();
            // Never the correct tag by chance.
            forged.header.verification_tag ^= rng.next_u64() as u32 | 1;
            out.push(forged);
        }
        out.push(packet);
    }
}

/// Sends each packet this many more times immediately, and repeats earlier packets with the next
/// one.
#[derive(Clone, Debug, Default)]
pub struct Replay {
    /// Copies of each packet.
    pub copies: usize,
    /// Number of earlier packets that are repeated.
    pub old: usize,
    last: VecDeque<Draft>,
}

impl Replay {
    /// Sends `copies` of each packet, and `old` earlier ones with it.
    pub fn new(copies: usize, old: usize) -> Self {
        Self { copies, old, last: VecDeque::new() }
    }
}

impl Mutator for Replay {
    fn mutate(&mut self, packet: Draft, _: &mut Rng, out: &mut Vec<Draft>) {
        out.extend(self.last.iter().cloned());
        out.extend(std::iter::repeat_n(packet.clone(), self.copies + 1));
        self.last.push_back(packet);
        while self.last.len() > self.old {
            self.last.pop_front();
        }
    }
}

/// Shuffles the chunks of a packet. Chunks that must come first stay there.
#[derive(Clone, Copy, Debug)]
pub struct ShuffledChunks;

impl Mutator for ShuffledChunks {
    fn mutate(&mut self, mut packet: Draft, rng: &mut Rng, out: &mut Vec<Draft>) {
        let first = [kind::INIT, kind::INIT_ACK, kind::COOKIE_ECHO, kind::COOKIE_ACK];
        let from = usize::from(packet.chunks.first().is_some_and(|c| first.contains(&c.kind)));
        let rest = &mut packet.chunks[from..];
        for at in (1..rest.len()).rev() {
            rest.swap(at, rng.below(at as u64 + 1) as usize);
        }
        out.push(packet);
    }
}

/// Sends every chunk in a separate packet.
#[derive(Clone, Copy, Debug)]
pub struct Split;

impl Mutator for Split {
    fn mutate(&mut self, packet: Draft, _: &mut Rng, out: &mut Vec<Draft>) {
        let header = packet.header;
        let alone = |chunk: RawPiece| Draft { header, chunks: vec![chunk], cut: None };
        out.extend(packet.chunks.into_iter().map(alone));
    }
}

/// Adds this many truncated copies to each packet.
#[derive(Clone, Copy, Debug)]
pub struct CutShort(pub u32);

impl Mutator for CutShort {
    fn mutate(&mut self, packet: Draft, rng: &mut Rng, out: &mut Vec<Draft>) {
        let length = packet.bytes().len() as u64;
        for _ in 0..self.0 {
            out.push(Draft { cut: Some(rng.below(length) as usize), ..packet.clone() });
        }
        out.push(packet);
    }
}

/// Changes the SACKs of a packet.
fn sacks(packet: &mut Draft, mut change: impl FnMut(&mut Vec<u8>)) {
    let sacks = packet.chunks.iter_mut().filter(|chunk| chunk.kind == kind::SACK);
    sacks.filter(|chunk| chunk.value.len() >= 12).for_each(|chunk| change(&mut chunk.value));
}

fn cumulative(sack: &[u8]) -> u32 {
    sack.iter().take(4).fold(0, |value, byte| (value << 8) | u32::from(*byte))
}

/// Replaces the gap ack blocks of each SACK by random ones within this many TSNs above the
/// cumulative one. This reneges on acknowledged TSNs, and acknowledges missing ones.
#[derive(Clone, Copy, Debug)]
pub struct GapLies(pub u16);

impl Mutator for GapLies {
    fn mutate(&mut self, mut packet: Draft, rng: &mut Rng, out: &mut Vec<Draft>) {
        sacks(&mut packet, |sack| {
            sack.truncate(8);
            let blocks = rng.below(8) as u16;
            sack.extend_from_slice(&blocks.to_be_bytes());
            sack.extend_from_slice(&[0, 0]);
            for _ in 0..blocks {
                // They may overlap and be out of order.
                let start = rng.below(u64::from(self.0)) as u16 + 1;
                let end = start + rng.below(u64::from(self.0 - start) + 1) as u16;
                sack.extend_from_slice(&start.to_be_bytes());
                sack.extend_from_slice(&end.to_be_bytes());
            }
        });
        out.push(packet);
    }
}

/// Sets this window in every SACK.
#[derive(Clone, Copy, Debug)]
pub struct WindowLies(pub u32);

impl Mutator for WindowLies {
    fn mutate(&mut self, mut packet: Draft, _: &mut Rng, out: &mut Vec<Draft>) {
        sacks(&mut packet, |sack| sack[4..8].copy_from_slice(&self.0.to_be_bytes()));
        out.push(packet);
    }
}

/// Acknowledges this many more TSNs than have arrived.
#[derive(Clone, Copy, Debug)]
pub struct AckAhead(pub u32);

impl Mutator for AckAhead {
    fn mutate(&mut self, mut packet: Draft, _: &mut Rng, out: &mut Vec<Draft>) {
        sacks(&mut packet, |sack| {
            let ahead = Tsn(cumulative(sack).wrapping_add(self.0));
            sack.truncate(8);
            sack[..4].copy_from_slice(&ahead.0.to_be_bytes());
            sack.extend_from_slice(&[0; 4]);
        });
        out.push(packet);
    }
}

/// Sends a SACK for every single TSN, and repeats each this many times.
#[derive(Clone, Copy, Debug, Default)]
pub struct AckDivision {
    /// Repetitions of each SACK.
    pub repeated: usize,
    last: Option<u32>,
}

impl AckDivision {
    /// Repeats each SACK `repeated` times.
    pub fn new(repeated: usize) -> Self {
        Self { repeated, last: None }
    }
}

impl Mutator for AckDivision {
    fn mutate(&mut self, packet: Draft, _: &mut Rng, out: &mut Vec<Draft>) {
        let now = packet.chunks.iter().find(|chunk| chunk.kind == kind::SACK);
        let Some(now) = now.map(|chunk| cumulative(&chunk.value)) else {
            out.push(packet);
            return;
        };
        let last = self.last.replace(now).unwrap_or(now);
        let steps = now.wrapping_sub(last).min(1000);
        for step in 1..=steps {
            let mut part = packet.clone();
            sacks(&mut part, |sack| {
                sack[..4].copy_from_slice(&last.wrapping_add(step).to_be_bytes());
                sack.truncate(8);
                sack.extend_from_slice(&[0; 4]);
            });
            out.extend(std::iter::repeat_n(part, self.repeated + 1));
        }
        out.push(packet);
    }
}

/// Adds this many chunks of unknown types to each packet. Their types ask to be skipped, with or
/// without a report.
#[derive(Clone, Copy, Debug)]
pub struct Strange(pub u32);

impl Mutator for Strange {
    fn mutate(&mut self, mut packet: Draft, rng: &mut Rng, out: &mut Vec<Draft>) {
        let alone = [kind::INIT, kind::INIT_ACK, kind::SHUTDOWN_COMPLETE, kind::ABORT];
        if !packet.chunks.iter().any(|chunk| alone.contains(&chunk.kind)) {
            for _ in 0..self.0 {
                let kind = [0xbe, 0xfe][rng.below(2) as usize];
                let value = vec![7; rng.below(20) as usize];
                packet.chunks.push(RawPiece { kind, flags: 0, value });
            }
        }
        out.push(packet);
    }
}
