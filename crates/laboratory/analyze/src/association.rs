//! Assigns an SCTP packet to an association: which end sent it, and what its chunks mean.

use std::collections::BTreeMap;
use std::net::IpAddr;

use crate::bytes::{be16, be32};
use crate::decode::{Ends, Place};
use crate::flow::{Flow, Found, Seen};
use crate::signal::Signal;
use crate::track::Data;

/// Maximum number of chunks in an SCTP packet.
const MOST_CHUNKS: usize = 256;
/// Limits on the state of an association: paths, addresses of a side, and tags offered.
pub(crate) const MOST_PATHS: usize = 64;
const MOST_ADDRESSES: usize = 64;
const MOST_OFFERS: usize = 8;

const DATA: u8 = 0;
pub(crate) const INIT: u8 = 1;
pub(crate) const INIT_ACK: u8 = 2;
const SACK: u8 = 3;
const ABORT: u8 = 6;
const SHUTDOWN: u8 = 7;
const SHUTDOWN_ACK: u8 = 8;
const COOKIE_ECHO: u8 = 10;
const SHUTDOWN_COMPLETE: u8 = 14;
const NR_SACK: u8 = 16;
const I_DATA: u8 = 64;
const RE_CONFIG: u8 = 130;

/// The state of an SCTP flow in addition to that of TCP.
#[derive(Clone, Debug, Default)]
pub(crate) struct Association {
    /// Verification tags of the packets that each side sends.
    pub(crate) tags: [Option<u32>; 2],
    /// All tags so far, each with the side that sends packets with it.
    pub(crate) known: Vec<(usize, u32)>,
    /// Where its packets were seen: pairs of addresses, with their interfaces.
    pub(crate) paths: Vec<(Place, Ends)>,
    /// The host of the first of these, if it is known.
    pub(crate) host: Option<u32>,
    /// Addresses of each side, after its INIT or INIT ACK was seen.
    pub(crate) addresses: [Vec<IpAddr>; 2],
    /// Tags and first TSNs of INIT ACKs; the COOKIE ECHO selects one of them.
    offers: Vec<(u32, u32)>,
    /// A COOKIE ECHO was seen.
    pub(crate) is_up: bool,
}

/// The first chunk of a packet, which determines the packet's association.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Opening {
    pub(crate) kind: u8,
    /// The tag belongs to the receiver of the packet (T bit).
    pub(crate) is_reflected: bool,
    /// The initiate tag of INIT and INIT ACK.
    pub(crate) initiate: Option<u32>,
}

impl Opening {
    pub(crate) fn read(chunks: &[u8]) -> Self {
        let kind = chunks.first().copied().unwrap_or(u8::MAX);
        let flags = chunks.get(1).copied().unwrap_or(0);
        let is_reflected = matches!(kind, ABORT | SHUTDOWN_COMPLETE) && flags & 1 != 0;
        let initiate = if matches!(kind, INIT | INIT_ACK) { be32(chunks, 4) } else { None };
        Self { kind, is_reflected, initiate }
    }
}

impl Association {
    /// Whether packets between these addresses at this place may belong to another path of this association.
    pub(crate) fn admits(&self, side: usize, place: Place, host: Option<u32>, ends: &Ends) -> bool {
        let is_same = |other: &Ends| {
            let other = if side == 0 { *other } else { other.back() };
            (other.from.0, other.to.0) == (ends.from.0, ends.to.0)
        };
        let at_other =
            |(at, other): &(Place, Ends)| at.file != place.file || *at != place && is_same(other);
        if self.paths.iter().any(at_other) || self.host.is_some() && host != self.host {
            return false;
        }
        match (self.addresses.get(side), self.addresses.get(1 - side)) {
            (Some(own), Some(other)) if !own.is_empty() && !other.is_empty() => {
                own.contains(&ends.from.0) || other.contains(&ends.to.0)
            }
            _ => true,
        }
    }

    /// Records an INIT or INIT ACK of a side. Returns whether the side's TSNs begin with it.
    fn opens(&mut self, side: usize, kind: u8, chunk: &[u8], from: IpAddr) -> bool {
        let (Some(tag), Some(tsn)) = (be32(chunk, 4), be32(chunk, 16)) else { return false };
        if let Some(addresses) = self.addresses.get_mut(side) {
            listed(chunk, from, addresses);
        }
        if self.is_up {
            return false;
        }
        if let Some(own) = self.tags.get_mut(1 - side) {
            *own = Some(tag);
        }
        if kind == INIT_ACK && self.offers.len() < MOST_OFFERS {
            self.offers.push((tag, tsn));
        }
        true
    }

    /// The first TSN of the INIT ACK with this tag.
    fn taken(&mut self, side: usize, tag: u32) -> Option<u32> {
        if std::mem::replace(&mut self.is_up, true) {
            return None;
        }
        if let Some(own) = self.tags.get_mut(side) {
            *own = Some(tag);
        }
        self.offers.iter().find(|(offered, _)| *offered == tag).map(|(_, tsn)| *tsn)
    }
}

/// Adds the addresses listed in an INIT or INIT ACK, and its source address.
fn listed(chunk: &[u8], from: IpAddr, addresses: &mut Vec<IpAddr>) {
    let mut add = |address: IpAddr| {
        if addresses.len() < MOST_ADDRESSES && !addresses.contains(&address) {
            addresses.push(address);
        }
    };
    add(from);
    let mut rest = chunk.get(20..).unwrap_or_default();
    while let (Some(kind), Some(length @ 4..)) = (be16(rest, 0), be16(rest, 2)) {
        let length = usize::from(length);
        let body = rest.get(4..length).unwrap_or_default();
        match (kind, body.len()) {
            (5, 4) => body.try_into().map(|bytes: [u8; 4]| add(bytes.into())).unwrap_or_default(),
            (6, 16) => body.try_into().map(|bytes: [u8; 16]| add(bytes.into())).unwrap_or_default(),
            _ => {}
        }
        rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
    }
}

impl Flow {
    /// Records the chunks of a packet from a side.
    pub(crate) fn chunks(
        &mut self,
        side: usize,
        (tag, mut rest): (u32, &[u8]),
        (from, seen): (IpAddr, Seen),
        found: &mut Found,
        types: &mut BTreeMap<u8, u64>,
    ) {
        let (own, _) = self.pair(side);
        own.packets += 1;
        own.last = None;
        for _ in 0..MOST_CHUNKS {
            let (Some(&kind), Some(length)) = (rest.first(), be16(rest, 2)) else { break };
            let length = usize::from(length);
            if length < 4 {
                break;
            }
            *types.entry(kind).or_default() += 1;
            let chunk = rest.get(..length).unwrap_or(rest);
            match kind {
                DATA | I_DATA => self.data_chunk(side, chunk, length, seen, found),
                INIT | INIT_ACK => self.opening(side, kind, chunk, from),
                SACK | NR_SACK => self.sack(side, chunk, seen),
                COOKIE_ECHO => self.cookie(side, tag),
                ABORT => {
                    self.reset = true;
                    self.pair(side).0.fin = true;
                }
                SHUTDOWN => self.shutdown(side, chunk, seen),
                RE_CONFIG => self.reconfiguration(side, chunk),
                SHUTDOWN_ACK | SHUTDOWN_COMPLETE => self.pair(side).0.fin = true,
                _ => {}
            }
            rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
        }
    }

    fn opening(&mut self, side: usize, kind: u8, chunk: &[u8], from: IpAddr) {
        let Some(association) = &mut self.association else { return };
        let is_first = association.opens(side, kind, chunk, from);
        let (own, _) = self.pair(side);
        if let (Some(tsn), true) = (be32(chunk, 16), is_first) {
            if own.initial == Some(tsn) && kind == INIT {
                own.note(Signal::HandshakeAgain);
            }
            own.initial = Some(tsn);
            own.window = be32(chunk, 8);
            own.tracker.begin_again(tsn);
        }
    }

    fn cookie(&mut self, side: usize, tag: u32) {
        let first = self.association.as_mut().and_then(|association| association.taken(side, tag));
        if let Some(tsn) = first {
            let (_, other) = self.pair(side);
            other.tracker.begin_again(tsn);
        }
    }

    fn data_chunk(
        &mut self,
        side: usize,
        chunk: &[u8],
        length: usize,
        seen: Seen,
        found: &mut Found,
    ) {
        let Some(tsn) = be32(chunk, 4) else { return };
        let (own, other) = self.pair(side);
        // DATA and I-DATA have the TSN at the same offset.
        let head = if chunk.first() == Some(&DATA) { 16 } else { 20 };
        let bytes = length.saturating_sub(head) as u64;
        // RFC 9260 section 6.1 A: one chunk is sent into a closed window, and repeated until there is room.
        if other.window == Some(0) && own.tracker.is_repeated(tsn) {
            own.note(Signal::WindowProbe);
            if own.tracker.ahead(tsn) != Some(0) {
                return;
            }
        }
        let Seen { time, identification } = seen;
        let data = Data { start: tsn, length: 1, time, identification, timestamp: None };
        let rtt = other.tracker.rtt().map(|(least, ..)| least);
        own.data(&data, bytes, rtt, found);
    }

    /// A response with the next TSNs of both sides resets the association: they go on with other TSNs (RFC 6525
    /// section 4.4).
    fn reconfiguration(&mut self, side: usize, chunk: &[u8]) {
        const RESPONSE: u16 = 16;
        let mut rest = chunk.get(4..).unwrap_or_default();
        while let (Some(kind), Some(length @ 4..)) = (be16(rest, 0), be16(rest, 2)) {
            let length = usize::from(length);
            let parameter = rest.get(..length).unwrap_or_default();
            if let (RESPONSE, Some(own_next), Some(other_next)) =
                (kind, be32(parameter, 12), be32(parameter, 16))
            {
                let (own, other) = self.pair(side);
                own.tracker.go_on_at(own_next);
                other.tracker.go_on_at(other_next);
            }
            rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
        }
    }

    /// SHUTDOWN is an acknowledgement too.
    fn shutdown(&mut self, side: usize, chunk: &[u8], seen: Seen) {
        let (own, other) = self.pair(side);
        own.fin = true;
        if let Some(tsn) = be32(chunk, 4) {
            other.tracker.acknowledge(tsn.wrapping_add(1), seen.time, false, None);
        }
    }

    /// SACK and NR-SACK: cumulative TSN, window, and gaps.
    fn sack(&mut self, side: usize, chunk: &[u8], seen: Seen) {
        let (Some(tsn), Some(window)) = (be32(chunk, 4), be32(chunk, 8)) else { return };
        let (own, other) = self.pair(side);
        // Chunks before a gap ack block are missing. If no block was captured, their number still shows that there are some.
        let is_sack = chunk.first() == Some(&SACK);
        let head = if is_sack { 16 } else { 20 };
        let renegable = usize::from(be16(chunk, 12).unwrap_or(0));
        let kept = be16(chunk, 14).filter(|_| !is_sack).map_or(0, usize::from);
        let gaps = renegable + kept;
        let ends = (0..gaps).map_while(|gap| be16(chunk, head + gap * 4 + 2));
        let highest = ends.max().or((gaps > 0).then_some(2));
        let missing = highest.map(|offset| tsn.wrapping_add(u32::from(offset)));
        let number = tsn.wrapping_add(1);
        let is_repeated = other.tracker.is_repeated(number);
        let signal = match (is_repeated && gaps == 0, window, other.last) {
            (true, 0, Some(Signal::WindowProbe)) => Some(Signal::WindowProbeAnswer),
            (true, 1.., _) if own.window != Some(window) => Some(Signal::WindowUpdate),
            (_, 0, _) if own.window != Some(0) => Some(Signal::WindowClosed),
            _ => None,
        };
        if let Some(signal) = signal {
            own.note(signal);
        }
        own.window = Some(window);
        other.tracker.acknowledge(number, seen.time, false, missing);
    }
}
