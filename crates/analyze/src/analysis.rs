//! Flows, and what all of them come to.

use std::collections::{BTreeMap, HashMap};
use std::io::Read;
use std::net::SocketAddr;

use serde::Serialize;

use crate::decode::{Content, Ends, Segment, decode};
use crate::distribution::Distribution;
use crate::reader::{self, Captured, ReadError, Stopped};
use crate::track::{Class, Data, OutOfSequence, Tracker};

/// Flows that are followed at a time. When there are more, the half of them that was silent for longest is closed.
const MOST_FLOWS: usize = 65_536;
/// Chunks of an SCTP packet at the most.
const MOST_CHUNKS: usize = 256;

/// Protocol of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Protocol {
    /// TCP (RFC 9293).
    Tcp,
    /// SCTP (RFC 9260), over IP or UDP. A flow is a path of an association.
    Sctp,
}

/// A flow at one interface, with both directions; the first one is that of the packet seen first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Key {
    interface: u32,
    protocol: Protocol,
    /// The lower end first.
    ends: Ends,
}

#[derive(Clone, Debug, Default)]
struct Side {
    tracker: Tracker,
    packets: u64,
    data_packets: u64,
    bytes: u64,
    classes: [u64; Class::ALL.len()],
    syn: bool,
    fin: bool,
    sack: bool,
    timestamps: bool,
    scaled: bool,
    mss: Option<u16>,
}

#[derive(Clone, Debug)]
struct Flow {
    /// From where the first packet came.
    first: Ends,
    sides: [Side; 2],
    begun: u64,
    last: u64,
    reset: bool,
}

/// What a flow came to, in both directions; the first is that of its first packet.
#[derive(Clone, Debug, Serialize)]
pub struct FlowReport {
    /// Number of the interface in its file.
    pub interface: u32,
    /// Protocol.
    pub protocol: Protocol,
    /// Where its first packet came from.
    pub from: String,
    /// Where that went.
    pub to: String,
    /// Nanoseconds since 1970 of the first packet.
    pub begun_ns: u64,
    /// Nanoseconds from the first packet to the last.
    pub duration_ns: u64,
    /// Whether its beginning and end were seen.
    pub complete: bool,
    /// Packets.
    pub packets: [u64; 2],
    /// Bytes of data, those sent again included.
    pub bytes: [u64; 2],
    /// Shortest times from data to its acknowledgement, in nanoseconds.
    pub rtt_ns: [Option<u64>; 2],
    /// Data that was out of sequence, by class (`Class::ALL`).
    pub out_of_sequence: [[u64; Class::ALL.len()]; 2],
}

/// Out-of-sequence data as it was seen, for those who want each.
#[derive(Clone, Debug)]
pub struct Event<'a> {
    /// Number of the packet in what was read, from 1.
    pub packet: u64,
    /// Nanoseconds since 1970.
    pub time: u64,
    /// Number of the interface.
    pub interface: u32,
    /// Where it came from.
    pub from: SocketAddr,
    /// Where it went.
    pub to: SocketAddr,
    /// IPv4's identification.
    pub identification: Option<u16>,
    /// First number of the data.
    pub start: u32,
    /// What it is.
    pub found: &'a OutOfSequence,
}

/// What all that was read comes to.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Report {
    /// Packets in the files.
    pub packets: u64,
    /// Packets of neither protocol, or that could not be understood.
    pub others: u64,
    /// Bytes of IP packets.
    pub bytes: u64,
    /// Flows of each protocol.
    pub flows: BTreeMap<&'static str, u64>,
    /// Flows whose beginning and end were seen.
    pub complete: u64,
    /// Flows that were reset.
    pub reset: u64,
    /// TCP flows whose ends agreed on an option.
    pub options: BTreeMap<&'static str, u64>,
    /// SCTP chunks of each type.
    pub chunks: BTreeMap<u8, u64>,
    /// Packets (TCP) and chunks (SCTP) with data.
    pub data: u64,
    /// Those of them that were out of sequence, by class.
    pub out_of_sequence: BTreeMap<&'static str, u64>,
    /// Flows with out-of-sequence data, and with data that was sent again, or reordered.
    pub affected: BTreeMap<&'static str, u64>,
    /// Bytes of data of a flow, both directions.
    pub sizes: Distribution,
    /// Microseconds that flows lasted.
    pub durations_us: Distribution,
    /// Microseconds of the shortest round trips of flows, as seen from the capture.
    pub rtts_us: Distribution,
    /// Packets that overtook reordered data.
    pub extents: Distribution,
    /// Microseconds that reordered data was late.
    pub lateness_us: Distribution,
}

type OnFlow = Box<dyn FnMut(&FlowReport)>;
type OnEvent = Box<dyn FnMut(&Event<'_>)>;

/// An analysis under way.
#[derive(Default)]
pub struct Analysis {
    flows: HashMap<Key, Flow>,
    report: Report,
    on_flow: Option<OnFlow>,
    on_event: Option<OnEvent>,
}

impl Analysis {
    /// Nothing read yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Calls a function for every flow that has ended, or was silent while there were too many.
    #[must_use]
    pub fn on_flow(mut self, call: impl FnMut(&FlowReport) + 'static) -> Self {
        self.on_flow = Some(Box::new(call));
        self
    }

    /// Calls a function for all out-of-sequence data.
    #[must_use]
    pub fn on_event(mut self, call: impl FnMut(&Event<'_>) + 'static) -> Self {
        self.on_event = Some(Box::new(call));
        self
    }

    /// Reads a file as far as it goes. Flows go on from one file to the next.
    ///
    /// # Errors
    /// What is no capture at all.
    pub fn read(&mut self, source: impl Read + Send) -> Result<Stopped, ReadError> {
        reader::read(source, |captured| self.packet(&captured))
    }

    fn packet(&mut self, captured: &Captured<'_>) {
        self.report.packets += 1;
        let Some(decoded) = decode(captured.link, captured.data) else {
            self.report.others += 1;
            return;
        };
        self.report.bytes += u64::from(decoded.size);
        let ends = decoded.ends;
        let forward = ends.from <= ends.to;
        let ordered = if forward { ends } else { Ends { from: ends.to, to: ends.from } };
        let protocol = match decoded.content {
            Content::Tcp(_) => Protocol::Tcp,
            Content::Sctp(_) => Protocol::Sctp,
        };
        let key = Key { interface: captured.interface, protocol, ends: ordered };
        if let Content::Tcp(segment) = &decoded.content
            && segment.syn
            && segment.acknowledgment.is_none()
            && self.flows.get(&key).is_some_and(Flow::is_over)
        {
            // The ports are used again.
            self.close(key);
        }
        if self.flows.len() >= MOST_FLOWS && !self.flows.contains_key(&key) {
            self.close_silent();
        }
        let time = captured.time;
        let flow = self.flows.entry(key).or_insert_with(|| Flow::new(ends, time));
        flow.last = flow.last.max(time);
        let side = usize::from(ends.from != flow.first.from);
        let mut found = Vec::new();
        let identification = decoded.identification;
        match decoded.content {
            Content::Tcp(segment) => flow.segment(side, &segment, time, identification, &mut found),
            Content::Sctp(chunks) => {
                flow.chunks(
                    side,
                    chunks,
                    time,
                    identification,
                    &mut found,
                    &mut self.report.chunks,
                );
            }
        }
        for (start, found) in &found {
            self.report.take(found);
            if let Some(call) = &mut self.on_event {
                call(&Event {
                    packet: self.report.packets,
                    time,
                    interface: captured.interface,
                    from: ends.from.into(),
                    to: ends.to.into(),
                    identification,
                    start: *start,
                    found,
                });
            }
        }
    }

    fn close(&mut self, key: Key) {
        if let Some(flow) = self.flows.remove(&key) {
            let report = flow.report(&key);
            self.report.add(&flow, &report);
            if let Some(call) = &mut self.on_flow {
                call(&report);
            }
        }
    }

    fn close_silent(&mut self) {
        let mut silent: Vec<(u64, Key)> =
            self.flows.iter().map(|(k, flow)| (flow.last, *k)).collect();
        silent.sort_unstable();
        for (_, key) in silent.into_iter().take(MOST_FLOWS / 2) {
            self.close(key);
        }
    }

    /// What it all comes to.
    pub fn finish(mut self) -> Report {
        let mut keys: Vec<(u64, Key)> =
            self.flows.iter().map(|(k, flow)| (flow.begun, *k)).collect();
        keys.sort_unstable();
        for (_, key) in keys {
            self.close(key);
        }
        self.report
    }
}

impl Flow {
    fn new(first: Ends, time: u64) -> Self {
        Self { first, sides: Default::default(), begun: time, last: time, reset: false }
    }

    fn is_over(&self) -> bool {
        self.reset || self.sides.iter().all(|side| side.fin)
    }

    /// A side and the other one.
    fn pair(&mut self, side: usize) -> (&mut Side, &mut Side) {
        let [first, second] = &mut self.sides;
        if side == 0 { (first, second) } else { (second, first) }
    }

    fn segment(
        &mut self,
        side: usize,
        segment: &Segment,
        time: u64,
        identification: Option<u16>,
        found: &mut Vec<(u32, OutOfSequence)>,
    ) {
        self.reset |= segment.rst;
        let (own, other) = self.pair(side);
        own.packets += 1;
        own.fin |= segment.fin;
        if segment.syn {
            own.syn = true;
            own.sack = segment.sack_permitted;
            own.timestamps = segment.timestamp.is_some();
            own.scaled = segment.window_scale;
            own.mss = segment.mss;
            own.tracker.begin(segment.sequence.wrapping_add(1));
        }
        if let Some(number) = segment.acknowledgment {
            let pure = segment.length == 0 && !segment.syn && !segment.fin;
            other.tracker.acknowledge(number, time, pure, segment.sacks);
        }
        if segment.length == 0 || segment.syn {
            return;
        }
        own.data_packets += 1;
        own.bytes += u64::from(segment.length);
        let data = Data {
            start: segment.sequence,
            length: segment.length,
            time,
            identification,
            timestamp: segment.timestamp,
        };
        let rtt = other.tracker.rtt().map(|(least, ..)| least);
        if let Some(out) = own.tracker.data(&data, rtt) {
            own.classes[out.class as usize] += 1;
            found.push((segment.sequence, out));
        }
    }

    fn chunks(
        &mut self,
        side: usize,
        mut rest: &[u8],
        time: u64,
        identification: Option<u16>,
        found: &mut Vec<(u32, OutOfSequence)>,
        types: &mut BTreeMap<u8, u64>,
    ) {
        let (own, other) = self.pair(side);
        own.packets += 1;
        for _ in 0..MOST_CHUNKS {
            let (Some(&kind), Some(length)) = (rest.first(), be16(rest, 2)) else { break };
            let length = usize::from(length);
            if length < 4 {
                break;
            }
            *types.entry(kind).or_default() += 1;
            match kind {
                // DATA and I-DATA: the TSN stands at the same place.
                0 | 64 => {
                    let head = if kind == 0 { 16 } else { 20 };
                    let Some(tsn) = be32(rest, 4) else { break };
                    own.data_packets += 1;
                    own.bytes += length.saturating_sub(head) as u64;
                    let data =
                        Data { start: tsn, length: 1, time, identification, timestamp: None };
                    let rtt = other.tracker.rtt().map(|(least, ..)| least);
                    if let Some(out) = own.tracker.data(&data, rtt) {
                        own.classes[out.class as usize] += 1;
                        found.push((tsn, out));
                    }
                }
                1 | 2 => {
                    own.syn = true;
                    if let Some(tsn) = be32(rest, 16) {
                        own.tracker.begin(tsn);
                    }
                }
                // SACK and NR-SACK: cumulative TSN, and whether there are gaps.
                3 | 16 => {
                    if let (Some(tsn), Some(gaps)) = (be32(rest, 4), be16(rest, 12)) {
                        other.tracker.acknowledge(tsn.wrapping_add(1), time, true, gaps > 0);
                    }
                }
                6 => self_reset(own),
                7 | 8 | 14 => own.fin = true,
                _ => {}
            }
            rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
        }
    }

    fn report(&self, key: &Key) -> FlowReport {
        let side = |value: fn(&Side) -> u64| self.sides.each_ref().map(value);
        let address = |end: (std::net::IpAddr, u16)| SocketAddr::from(end).to_string();
        FlowReport {
            interface: key.interface,
            protocol: key.protocol,
            from: address(self.first.from),
            to: address(self.first.to),
            begun_ns: self.begun,
            duration_ns: self.last.saturating_sub(self.begun),
            complete: self.sides.iter().all(|side| side.syn) && self.is_over(),
            packets: side(|side| side.packets),
            bytes: side(|side| side.bytes),
            rtt_ns: self.sides.each_ref().map(|side| side.tracker.rtt().map(|(least, ..)| least)),
            out_of_sequence: self.sides.each_ref().map(|side| side.classes),
        }
    }
}

/// An ABORT ends both directions.
fn self_reset(side: &mut Side) {
    side.fin = true;
}

impl Report {
    fn take(&mut self, found: &OutOfSequence) {
        *self.out_of_sequence.entry(found.class.name()).or_default() += 1;
        if found.class == Class::Reordered {
            self.extents.add(found.extent);
            self.lateness_us.add(found.late / 1000);
        }
    }

    fn add(&mut self, flow: &Flow, report: &FlowReport) {
        let mut count =
            |map: fn(&mut Self) -> &mut BTreeMap<&'static str, u64>, name, holds: bool| {
                if holds {
                    *map(self).entry(name).or_default() += 1;
                }
            };
        let flows: fn(&mut Self) -> &mut BTreeMap<&'static str, u64> = |report| &mut report.flows;
        count(flows, "tcp", report.protocol == Protocol::Tcp);
        count(flows, "sctp", report.protocol == Protocol::Sctp);
        let all = |holds: fn(&Side) -> bool| flow.sides.iter().all(holds);
        if report.protocol == Protocol::Tcp {
            let options: fn(&mut Self) -> &mut BTreeMap<&'static str, u64> = |r| &mut r.options;
            count(options, "handshake seen", all(|side| side.syn));
            count(options, "sack", all(|side| side.sack));
            count(options, "timestamps", all(|side| side.timestamps));
            count(options, "window scale", all(|side| side.scaled));
            count(options, "mss", all(|side| side.mss.is_some()));
        }
        let of = |classes: &[Class]| {
            classes
                .iter()
                .any(|class| flow.sides.iter().any(|side| side.classes[*class as usize] > 0))
        };
        let affected: fn(&mut Self) -> &mut BTreeMap<&'static str, u64> = |r| &mut r.affected;
        count(affected, "out of sequence", of(&Class::ALL));
        let again = [Class::Fast, Class::Timeout, Class::Probe, Class::SentAgain];
        count(affected, "retransmission", of(&again));
        count(affected, "reordering", of(&[Class::Reordered]));
        count(affected, "duplicate", of(&[Class::Duplicate]));
        self.complete += u64::from(report.complete);
        self.reset += u64::from(flow.reset);
        self.data += flow.sides.iter().map(|side| side.data_packets).sum::<u64>();
        self.sizes.add(report.bytes.iter().sum());
        self.durations_us.add(report.duration_ns / 1000);
        let halves: Vec<u64> = report.rtt_ns.iter().flatten().copied().collect();
        if !halves.is_empty() {
            self.rtts_us.add(halves.iter().sum::<u64>() / 1000);
        }
    }
}

fn be16(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

fn be32(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_be_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

#[cfg(test)]
mod tests;
