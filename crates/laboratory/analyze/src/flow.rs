//! One flow: a connection or an association at one place, with both directions.

use serde::Serialize;

use crate::analysis::Protocol;
use crate::association::Association;
use crate::decode::{Ends, Place, Segment};
use crate::signal::Signal;
use crate::track::{Class, Data, OutOfSequence, Tracker};

/// Properties of a packet other than its contents.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seen {
    pub(crate) time: u64,
    pub(crate) identification: Option<u16>,
}

/// Out-of-sequence data: first number and classification.
pub(crate) type Found = Vec<(u32, OutOfSequence)>;

/// The state of one end.
#[derive(Clone, Debug, Default)]
pub(crate) struct Side {
    pub(crate) tracker: Tracker,
    pub(crate) packets: u64,
    pub(crate) data_packets: u64,
    pub(crate) bytes: u64,
    pub(crate) classes: [u64; Class::ALL.len()],
    pub(crate) signals: [u64; Signal::ALL.len()],
    /// The sequence number of its handshake.
    pub(crate) initial: Option<u32>,
    pub(crate) fin: bool,
    pub(crate) sack: bool,
    pub(crate) timestamps: bool,
    pub(crate) scaled: bool,
    pub(crate) mss: Option<u16>,
    /// The window that it last announced.
    pub(crate) window: Option<u32>,
    /// The purpose of its last packet.
    pub(crate) last: Option<Signal>,
}

impl Side {
    pub(crate) fn note(&mut self, signal: Signal) {
        self.last = Some(signal);
        if let Some(count) = self.signals.get_mut(signal as usize) {
            *count += 1;
        }
    }

    /// Records data; `other` is the minimum round-trip time of the other direction.
    pub(crate) fn data(&mut self, data: &Data, bytes: u64, other: Option<u64>, found: &mut Found) {
        self.data_packets += 1;
        self.bytes += bytes;
        if let Some(out) = self.tracker.data(data, other) {
            if let Some(count) = self.classes.get_mut(out.class as usize) {
                *count += 1;
            }
            found.push((data.start, out));
        }
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Flow {
    pub(crate) protocol: Protocol,
    pub(crate) place: Place,
    /// Ends of the first packet.
    pub(crate) first: Ends,
    pub(crate) sides: [Side; 2],
    pub(crate) begun: u64,
    pub(crate) last: u64,
    pub(crate) reset: bool,
    /// Whether the same connection or association was seen earlier at another place.
    pub(crate) elsewhere: bool,
    /// Additional state of SCTP.
    pub(crate) association: Option<Box<Association>>,
}

/// The totals of a flow in both directions; the first direction is that of its first packet.
#[derive(Clone, Debug, Serialize)]
pub struct FlowReport {
    /// Number of the interface in its file.
    pub interface: u32,
    /// Protocol.
    pub protocol: Protocol,
    /// Source of its first packet.
    pub from: String,
    /// Destination of its first packet.
    pub to: String,
    /// Time of the first packet in nanoseconds since 1970.
    pub begun_ns: u64,
    /// Nanoseconds from the first packet to the last.
    pub duration_ns: u64,
    /// Whether its start and end were seen.
    pub complete: bool,
    /// Packets.
    pub packets: [u64; 2],
    /// Bytes of data, including retransmissions.
    pub bytes: [u64; 2],
    /// Minimum times from data to its acknowledgement in nanoseconds.
    pub rtt_ns: [Option<u64>; 2],
    /// Out-of-sequence data by class (`Class::ALL`).
    pub out_of_sequence: [[u64; Class::ALL.len()]; 2],
    /// Packets without new information by purpose (`Signal::ALL`).
    pub signals: [[u64; Signal::ALL.len()]; 2],
    /// Device, VLANs and virtual networks, if known.
    pub place: String,
    /// The UDP ports of encapsulated SCTP.
    pub udp: Option<(u16, u16)>,
    /// Number of address pairs.
    pub paths: u64,
    /// Whether the same connection or association was seen earlier at another interface.
    pub elsewhere: bool,
}

impl Flow {
    pub(crate) fn new(protocol: Protocol, place: Place, first: Ends, time: u64) -> Self {
        Self {
            protocol,
            place,
            first,
            sides: Default::default(),
            begun: time,
            last: time,
            reset: false,
            elsewhere: false,
            association: (protocol == Protocol::Sctp).then(Box::default),
        }
    }

    pub(crate) fn is_over(&self) -> bool {
        self.reset || self.sides.iter().all(|side| side.fin)
    }

    /// A side and the other one.
    pub(crate) fn pair(&mut self, side: usize) -> (&mut Side, &mut Side) {
        let [first, second] = &mut self.sides;
        if side == 0 { (first, second) } else { (second, first) }
    }

    /// Whether a segment's numbers are close to those of this connection.
    pub(crate) fn is_near(&self, side: usize, segment: &Segment) -> bool {
        const NEAR: u32 = 1 << 24;
        let near = |side: usize, number: u32| {
            let ahead = self.sides.get(side).and_then(|side| side.tracker.ahead(number));
            ahead.is_some_and(|ahead| ahead.unsigned_abs() < NEAR)
        };
        near(side, segment.sequence)
            || segment.acknowledgment.is_some_and(|number| near(1 - side, number))
    }

    /// Whether a SYN starts a new connection.
    pub(crate) fn begins_again(&self, side: usize, segment: &Segment) -> bool {
        let (Some(own), Some(other)) = (self.sides.get(side), self.sides.get(1 - side)) else {
            return false;
        };
        let has_data = own.data_packets + other.data_packets > 0;
        match (segment.acknowledgment, own.initial) {
            // The ports are reused.
            (None, _) if self.is_over() => true,
            (None, Some(number)) => number != segment.sequence,
            // Both sides may send a SYN at the same time.
            (None, None) => own.packets > 0 || other.initial.is_none(),
            // A server may answer each copy of a SYN with another number, until one is accepted.
            (Some(_), Some(number)) => number != segment.sequence && (has_data || self.is_over()),
            (Some(_), None) => own.packets > 0,
        }
    }

    pub(crate) fn segment(
        &mut self,
        side: usize,
        segment: &Segment,
        seen: Seen,
        found: &mut Found,
    ) {
        self.reset |= segment.rst;
        let (own, other) = self.pair(side);
        own.packets += 1;
        let is_again =
            segment.syn && own.initial == Some(segment.sequence) || segment.fin && own.fin;
        own.fin |= segment.fin;
        if segment.syn {
            own.handshake(segment);
        } else if segment.length == 0 && !segment.rst {
            own.tracker.begin(segment.sequence);
        }
        let signal =
            if is_again { Some(Signal::HandshakeAgain) } else { signal(own, other, segment) };
        own.last = None;
        if let Some(signal) = signal {
            own.note(signal);
        }
        if !segment.rst {
            own.window = Some(u32::from(segment.window));
        }
        if let Some(number) = segment.acknowledgment {
            let duplicate = signal == Some(Signal::DuplicateAck);
            let taken = other.tracker.acknowledge(number, seen.time, duplicate, segment.sacked);
            other.bytes += taken;
            other.data_packets += u64::from(taken > 0);
        }
        if segment.length == 0 {
            return;
        }
        // A SYN uses one sequence number.
        let start = segment.sequence.wrapping_add(u32::from(segment.syn));
        match signal {
            Some(Signal::WindowProbe) => own.tracker.probe(start, segment.length),
            Some(Signal::KeepAlive) => {}
            _ => {
                let data = Data {
                    start,
                    length: segment.length,
                    time: seen.time,
                    identification: seen.identification,
                    timestamp: segment.timestamp,
                };
                let rtt = other.tracker.rtt().map(|(least, ..)| least);
                own.data(&data, u64::from(segment.length), rtt, found);
            }
        }
    }

    pub(crate) fn report(&self) -> FlowReport {
        let side = |value: fn(&Side) -> u64| self.sides.each_ref().map(value);
        let address = |(ip, port): (std::net::IpAddr, u16)| {
            std::net::SocketAddr::from((ip, port)).to_string()
        };
        FlowReport {
            interface: self.place.interface,
            protocol: self.protocol,
            from: address(self.first.from),
            to: address(self.first.to),
            begun_ns: self.begun,
            duration_ns: self.last.saturating_sub(self.begun),
            complete: self.sides.iter().all(|side| side.initial.is_some()) && self.is_over(),
            packets: side(|side| side.packets),
            bytes: side(|side| side.bytes),
            rtt_ns: self.sides.each_ref().map(|side| side.tracker.rtt().map(|(least, ..)| least)),
            out_of_sequence: self.sides.each_ref().map(|side| side.classes),
            signals: self.sides.each_ref().map(|side| side.signals),
            place: self.place.to_string(),
            udp: self.first.udp,
            paths: self
                .association
                .as_ref()
                .map_or(1, |association| association.paths.len() as u64),
            elsewhere: self.elsewhere,
        }
    }
}

impl Side {
    fn handshake(&mut self, segment: &Segment) {
        self.initial = Some(segment.sequence);
        self.sack = segment.sack_permitted;
        self.timestamps = segment.timestamp.is_some();
        self.scaled = segment.window_scale;
        self.mss = segment.mss;
        self.tracker.begin_again(segment.sequence.wrapping_add(1));
    }
}

/// The purpose of a TCP segment without new information: neither new data nor a new acknowledgement.
fn signal(own: &Side, other: &Side, segment: &Segment) -> Option<Signal> {
    if segment.syn || segment.fin || segment.rst {
        return None;
    }
    let is_closed = other.window == Some(0);
    let probe = if is_closed { Signal::WindowProbe } else { Signal::KeepAlive };
    // A keep-alive has one acknowledged byte or no data, and the number before the next. A window probe has a byte for
    // which the window has no room.
    match (segment.length, own.tracker.ahead(segment.sequence)) {
        (0, Some(-1)) => return Some(probe),
        (1, Some(-1)) if own.tracker.is_acknowledged() => return Some(probe),
        (1, Some(0)) if is_closed => return Some(Signal::WindowProbe),
        (0, _) => {}
        _ => return None,
    }
    let window = u32::from(segment.window);
    let is_repeated =
        segment.acknowledgment.is_some_and(|number| other.tracker.is_repeated(number));
    if !is_repeated {
        return (window == 0 && own.window != Some(0)).then_some(Signal::WindowClosed);
    }
    // RFC 5681 section 2: data is outstanding and the window is unchanged; or SACK blocks report data beyond (RFC
    // 6675).
    let is_outstanding = !other.tracker.is_acknowledged();
    match (window, other.last) {
        (0, Some(Signal::WindowProbe)) => Some(Signal::WindowProbeAnswer),
        _ if segment.sacked.is_some() && is_outstanding => Some(Signal::DuplicateAck),
        _ if own.window != Some(window) => {
            Some(if window == 0 { Signal::WindowClosed } else { Signal::WindowUpdate })
        }
        (_, Some(Signal::KeepAlive)) => Some(Signal::KeepAliveAnswer),
        _ => is_outstanding.then_some(Signal::DuplicateAck),
    }
}
