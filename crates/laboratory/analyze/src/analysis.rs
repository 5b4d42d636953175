//! Flows, and their totals.

use std::collections::BTreeMap;
use std::io::Read;
use std::net::SocketAddr;

use serde::{Serialize, Serializer};

use crate::association::{INIT_ACK, Opening};
use crate::decode::{self, Content, Decoded, Outcome, Place};
use crate::distribution::Distribution;
use crate::flow::{Flow, FlowReport, Seen, Side};
use crate::flows::{Flows, Sight};
use crate::fragments::Fragments;
use crate::reader::{self, Captured, ReadError, Stopped};
use crate::reason::Reason;
use crate::signal::Signal;
use crate::track::{Class, OutOfSequence};

/// Maximum number of flows tracked. When it is exceeded, the half that was silent longest is closed.
const MOST_FLOWS: usize = 65_536;
/// Maximum number of reasons counted separately.
const MOST_REASONS: usize = 256;
/// Maximum depth of packets within fragments within packets.
const MOST_DEPTH: u32 = 4;

/// Protocol of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Protocol {
    /// TCP (RFC 9293). A flow is a connection.
    Tcp,
    /// SCTP (RFC 9260), over IP or UDP. A flow is an association, with all its paths.
    Sctp,
}

/// Out-of-sequence data, for callers that want every occurrence.
#[derive(Clone, Debug)]
pub struct Event<'a> {
    /// Number of the packet in the input, from 1.
    pub packet: u64,
    /// Nanoseconds since 1970.
    pub time: u64,
    /// Number of the interface.
    pub interface: u32,
    /// Source.
    pub from: SocketAddr,
    /// Destination.
    pub to: SocketAddr,
    /// IPv4 identification.
    pub identification: Option<u16>,
    /// First byte or chunk number of the data.
    pub start: u32,
    /// Its classification.
    pub found: &'a OutOfSequence,
}

/// The results for the whole input.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Report {
    /// Packets in the files.
    pub packets: u64,
    /// Packets that belong to no flow: the sum of `left_out`.
    pub others: u64,
    /// Packets that belong to no flow, by reason.
    #[serde(serialize_with = "by_name")]
    pub left_out: BTreeMap<Reason, u64>,
    /// IP fragments that were reassembled.
    pub fragments: u64,
    /// Total bytes of IP packets.
    pub bytes: u64,
    /// Flows of each protocol: connections and associations, each counted at every interface that saw it.
    pub flows: BTreeMap<&'static str, u64>,
    /// Connections and associations of each protocol, each counted once.
    pub distinct: BTreeMap<&'static str, u64>,
    /// Number of address pairs of the associations.
    pub paths: u64,
    /// Flows whose start and end were captured.
    pub complete: u64,
    /// Flows that were reset.
    pub reset: u64,
    /// TCP flows whose ends agreed on each option.
    pub options: BTreeMap<&'static str, u64>,
    /// SCTP chunks of each type.
    pub chunks: BTreeMap<u8, u64>,
    /// Packets (TCP) and chunks (SCTP) with data.
    pub data: u64,
    /// Those of them that were out of sequence, by class.
    pub out_of_sequence: BTreeMap<&'static str, u64>,
    /// Packets without new information, by purpose.
    pub signals: BTreeMap<&'static str, u64>,
    /// Flows with out-of-sequence data, with retransmissions, and with reordering.
    pub affected: BTreeMap<&'static str, u64>,
    /// Bytes of data per flow, both directions.
    pub sizes: Distribution,
    /// Durations of flows in microseconds.
    pub durations_us: Distribution,
    /// Minimum round-trip times of flows in microseconds, as seen from the capture.
    pub rtts_us: Distribution,
    /// Number of packets that overtook reordered data.
    pub extents: Distribution,
    /// How late reordered data was, in microseconds.
    pub lateness_us: Distribution,
}

type OnFlow = Box<dyn FnMut(&FlowReport)>;
type OnEvent = Box<dyn FnMut(&Event<'_>)>;

/// An analysis in progress.
#[derive(Default)]
pub struct Analysis {
    flows: Flows,
    fragments: Fragments,
    /// Counts files that do not continue the previous one.
    file: u32,
    /// The latest time so far.
    latest: u64,
    report: Report,
    on_flow: Option<OnFlow>,
    on_event: Option<OnEvent>,
}

impl Analysis {
    /// An analysis that has read nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Calls a function for every flow that has ended or was closed because it was silent.
    #[must_use]
    pub fn on_flow(mut self, call: impl FnMut(&FlowReport) + 'static) -> Self {
        self.on_flow = Some(Box::new(call));
        self
    }

    /// Calls a function for each occurrence of out-of-sequence data.
    #[must_use]
    pub fn on_event(mut self, call: impl FnMut(&Event<'_>) + 'static) -> Self {
        self.on_event = Some(Box::new(call));
        self
    }

    /// Reads a file as far as possible. Flows continue from one file to the next, unless the next begins before the
    /// previous one ended.
    ///
    /// # Errors
    /// Fails if the input is not a capture.
    pub fn read(&mut self, source: impl Read + Send) -> Result<Stopped, ReadError> {
        let mut is_first = true;
        reader::read(source, |captured| {
            if std::mem::take(&mut is_first) && captured.time < self.latest {
                // This is another capture of the same time, for example from the other end.
                self.file += 1;
            }
            self.latest = self.latest.max(captured.time);
            self.packet(&captured);
        })
    }

    fn packet(&mut self, captured: &Captured<'_>) {
        self.report.packets += 1;
        let mut place = Place::new(self.file, captured.interface);
        let outcome = match captured.link {
            Some(link) => decode::frame(link, captured.piece, &mut place),
            None => Err(Reason::NoInterface),
        };
        self.take(outcome, place, captured, 0);
    }

    fn take(
        &mut self,
        outcome: Result<Outcome<'_>, Reason>,
        mut place: Place,
        captured: &Captured<'_>,
        depth: u32,
    ) {
        match outcome {
            Ok(Outcome::Packet(decoded)) => self.decoded(&decoded, place, captured),
            Ok(Outcome::Fragment(_, _)) if depth >= MOST_DEPTH => {
                self.leave_out(Reason::TooDeep, 1);
            }
            Ok(Outcome::Fragment(part, fragment)) => {
                let whole = self.fragments.take(&part, fragment, place, captured.time);
                if let Some(whole) = whole {
                    let outcome = decode::network(whole.network(&part), &mut place);
                    match outcome {
                        // All fragments of the packet are excluded with it.
                        Err(reason) => self.leave_out(reason, whole.parts),
                        Ok(_) => {
                            self.report.fragments += whole.parts;
                            self.take(outcome, place, captured, depth + 1);
                        }
                    }
                }
            }
            Err(reason) => self.leave_out(reason, 1),
        }
    }

    fn leave_out(&mut self, reason: Reason, packets: u64) {
        let all = &mut self.report.left_out;
        let is_known = all.contains_key(&reason) || all.len() < MOST_REASONS;
        let reason = if is_known { reason } else { Reason::Further };
        *all.entry(reason).or_default() += packets;
        self.report.others += packets;
    }

    fn decoded(&mut self, decoded: &Decoded<'_>, place: Place, captured: &Captured<'_>) {
        self.report.bytes += decoded.size;
        let (ends, time) = (decoded.ends, captured.time);
        let sight = Sight { place, host: captured.host, ends, time };
        let (index, side) = match decoded.content {
            Content::Tcp(segment) => self.flows.connection(&sight, &segment),
            Content::Sctp(tag, chunks) => {
                let opening = Opening::read(chunks);
                let (index, side) = self.flows.association(&sight, tag, opening);
                if let (INIT_ACK, Some(tag)) = (opening.kind, opening.initiate) {
                    self.flows.set_tag(index, 1 - side, tag);
                }
                (index, side)
            }
        };
        let Some(flow) = self.flows.get(index) else { return };
        flow.last = flow.last.max(time);
        let mut found = Vec::new();
        let seen = Seen { time, identification: decoded.identification };
        match decoded.content {
            Content::Tcp(segment) => flow.segment(side, &segment, seen, &mut found),
            Content::Sctp(tag, chunks) => {
                let from = (ends.from.0, seen);
                flow.chunks(side, (tag, chunks), from, &mut found, &mut self.report.chunks);
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
                    identification: decoded.identification,
                    start: *start,
                    found,
                });
            }
        }
        let ended: Vec<Flow> = self.flows.ended().collect();
        ended.iter().for_each(|flow| self.close(flow));
        if self.flows.len() > MOST_FLOWS {
            self.close_silent();
        }
    }

    fn close(&mut self, flow: &Flow) {
        let report = flow.report();
        self.report.add(flow, &report);
        if let Some(call) = &mut self.on_flow {
            call(&report);
        }
    }

    fn close_silent(&mut self) {
        let mut silent = self.flows.ages();
        silent.sort_unstable();
        for (_, _, index) in silent.into_iter().take(MOST_FLOWS / 2) {
            if let Some(flow) = self.flows.remove(index) {
                self.close(&flow);
            }
        }
    }

    /// The final report.
    pub fn finish(mut self) -> Report {
        let mut all = self.flows.ages();
        all.sort_unstable_by_key(|(_, begun, index)| (*begun, *index));
        for (_, _, index) in all {
            if let Some(flow) = self.flows.remove(index) {
                self.close(&flow);
            }
        }
        match self.fragments.lost() {
            0 => {}
            lost => self.leave_out(Reason::Fragment, lost),
        }
        self.report
    }
}

fn by_name<S: Serializer>(all: &BTreeMap<Reason, u64>, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map(all.iter().map(|(reason, count)| (reason.to_string(), count)))
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
        let distinct: fn(&mut Self) -> &mut BTreeMap<&'static str, u64> = |r| &mut r.distinct;
        for (name, protocol) in [("tcp", Protocol::Tcp), ("sctp", Protocol::Sctp)] {
            count(flows, name, report.protocol == protocol);
            count(distinct, name, report.protocol == protocol && !flow.elsewhere);
        }
        let all = |holds: fn(&Side) -> bool| flow.sides.iter().all(holds);
        if report.protocol == Protocol::Tcp {
            let options: fn(&mut Self) -> &mut BTreeMap<&'static str, u64> = |r| &mut r.options;
            count(options, "handshake seen", all(|side| side.initial.is_some()));
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
        for signal in Signal::ALL {
            let count =
                report.signals.iter().filter_map(|side| side.get(signal as usize)).sum::<u64>();
            if count > 0 {
                *self.signals.entry(signal.name()).or_default() += count;
            }
        }
        if report.protocol == Protocol::Sctp {
            self.paths += report.paths;
        }
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

#[cfg(test)]
mod tests;
