//! Measures how often the analysis of the receiver's capture is right. Compares the verdict on each packet with data to
//! the emulator's log of the same packet.
//!
//! The log defines the truth about data that reached the receiver. Data is a copy if the log contains it twice. It is a
//! retransmission if the sender had sent the same bytes before. It is reordered if data of the same connection entered
//! the link later and left it earlier. All other data arrived in order.

use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::net::IpAddr;
use std::path::Path;
use std::rc::Rc;

use anabranch_analyze::Analysis;
use anabranch_analyze::track::Class;
use anabranch_lab::metrics::{AS_TOLD, IN_TRUTH, Metrics};

use super::captured::{Captured, packets};

/// Indices into `IN_TRUTH` and `AS_TOLD`.
const ORDERED: usize = 0;
const REORDERED: usize = 1;
const AGAIN: usize = 2;
const COPIED: usize = 3;
const UNKNOWN: usize = 4;

/// TCP data in the sender's capture.
#[derive(Clone, Copy)]
struct Segment {
    /// The ports identify the connection.
    ports: [u8; 4],
    /// Its range of bytes, relative to the start of the connection.
    start: u32,
    end: u32,
    sent_before: bool,
}

/// A packet that left the link.
struct Arrival {
    number: usize,
    at: u64,
}

/// State of a connection while its arrivals are processed.
#[derive(Default)]
struct Seen {
    latest: usize,
    end: u32,
    out_of_order: bool,
}

/// Compares the analysis of a capture with a log. `way` is the direction of the link as named in the log; `from` is the
/// address of the host that sends in that direction.
pub(super) fn measure(
    (log, capture): (&Path, &Path),
    (way, from): (&str, IpAddr),
    metrics: &mut Metrics,
) -> Result<(), String> {
    let failed = |error: std::io::Error| format!("what a run wrote cannot be read: {error}");
    let text = std::fs::read_to_string(log).map_err(failed)?;
    let bytes = std::fs::read(capture).map_err(failed)?;
    let [sent, received] = packets(&bytes, from);
    let arrivals = arrivals(&text, way);
    if !is_same(&sent, &received, &arrivals) {
        return Err("the log and the capture of a run do not have the same packets".into());
    }
    let (said, told) = analysis(&bytes)?;
    let segments = segments(&sent);
    let mut connections: HashMap<[u8; 4], Seen> = HashMap::new();
    let mut arrived = HashSet::new();
    let mut matrix = [[0_u32; AS_TOLD.len()]; IN_TRUTH.len()];
    for (packet, arrival) in received.iter().zip(&arrivals) {
        let Some(Some(segment)) = segments.get(arrival.number - 1) else { continue };
        let seen = connections.entry(segment.ports).or_default();
        let truth = if !arrived.insert(arrival.number) {
            COPIED
        } else if segment.sent_before {
            AGAIN
        } else if arrival.number < seen.latest {
            REORDERED
        } else {
            ORDERED
        };
        seen.out_of_order |= truth == REORDERED || segment.start < seen.end;
        seen.latest = seen.latest.max(arrival.number);
        seen.end = seen.end.max(segment.end);
        let verdict = said.get(&packet.number).copied().unwrap_or(ORDERED);
        if let Some(cell) = matrix.get_mut(truth).and_then(|row| row.get_mut(verdict)) {
            *cell += 1;
        }
    }
    for (truth, row) in IN_TRUTH.iter().zip(&matrix) {
        for (verdict, count) in AS_TOLD.iter().zip(row) {
            metrics.set(&format!("{truth}_as_{verdict}"), f64::from(*count));
        }
    }
    metrics.set("connections", connections.len() as f64);
    let out_of_order = connections.values().filter(|seen| seen.out_of_order).count();
    metrics.set("connections_out_of_order", out_of_order as f64);
    metrics.set("connections_told", told as f64);
    Ok(())
}

/// The packets that left the link according to the log, in that order.
fn arrivals(log: &str, way: &str) -> Vec<Arrival> {
    let arrival = |line: &str| {
        let words: Vec<&str> = line.split(' ').collect();
        let [on, number, _, _, _, out, _, "passed" | "copy", ..] = words[..] else { return None };
        let number = number.parse().ok().filter(|number| *number > 0)?;
        (on == way).then_some(Arrival { number, at: out.parse().ok()? })
    };
    let mut arrivals: Vec<Arrival> = log.lines().filter_map(arrival).collect();
    // The sort is stable: packets that leave at the same time keep the order of the log.
    arrivals.sort_by_key(|arrival| arrival.at);
    arrivals
}

/// Whether the packets that left the link according to the log are exactly those that the receiver captured.
fn is_same(sent: &[Captured<'_>], received: &[Captured<'_>], arrivals: &[Arrival]) -> bool {
    let bytes = |arrival: &Arrival| sent.get(arrival.number - 1).map(|packet| packet.bytes);
    let both = received.iter().zip(arrivals);
    received.len() == arrivals.len()
        && both.into_iter().all(|(packet, arrival)| bytes(arrival) == Some(packet.bytes))
}

/// The class of out-of-sequence data at the receiver by packet number, and the number of connections with such data.
fn analysis(capture: &[u8]) -> Result<(HashMap<u64, usize>, usize), String> {
    let said = Rc::new(RefCell::new(HashMap::new()));
    let told = Rc::new(RefCell::new(0));
    let (verdicts, affected) = (Rc::clone(&said), Rc::clone(&told));
    let mut analysis = Analysis::new()
        .on_event(move |event| {
            if event.interface == 1 {
                verdicts.borrow_mut().insert(event.packet, verdict(event.found.class));
            }
        })
        .on_flow(move |flow| {
            let some = flow.out_of_sequence.iter().flatten().any(|count| *count > 0);
            *affected.borrow_mut() += usize::from(flow.interface == 1 && some);
        });
    analysis.read(capture).map_err(|error| format!("the capture of a run: {error}"))?;
    analysis.finish();
    let count = *told.borrow();
    Ok((said.take(), count))
}

fn verdict(class: Class) -> usize {
    match class {
        Class::Reordered => REORDERED,
        Class::Fast | Class::Timeout | Class::Probe | Class::SentAgain => AGAIN,
        Class::Duplicate => COPIED,
        Class::Unknown => UNKNOWN,
    }
}

/// The data of each packet sent, and whether all of its bytes had been sent before.
fn segments(sent: &[Captured<'_>]) -> Vec<Option<Segment>> {
    // The initial sequence number of each connection, and the end of the data sent.
    let mut known: HashMap<[u8; 4], (u32, u32)> = HashMap::new();
    let one = |packet: &Captured<'_>| {
        let (ports, number, length) = data(packet.bytes)?;
        let (first, end) = known.entry(ports).or_insert((number, 0));
        let start = number.wrapping_sub(*first);
        let segment = Segment {
            ports,
            start,
            end: start.saturating_add(length),
            sent_before: start.saturating_add(length) <= *end,
        };
        *end = segment.end.max(*end);
        Some(segment)
    };
    sent.iter().map(one).collect()
}

/// Ports, sequence number and length of a TCP segment over IPv4, if it has data.
fn data(packet: &[u8]) -> Option<([u8; 4], u32, u32)> {
    let header = usize::from(packet.first()? & 15) * 4;
    let size = u16::from_be_bytes(packet.get(2..4)?.try_into().ok()?);
    let tcp = packet.get(header..usize::from(size)).filter(|_| packet.get(9) == Some(&6))?;
    let offset = usize::from(tcp.get(12)? >> 4) * 4;
    let length = u32::try_from(tcp.get(offset..)?.len()).ok().filter(|length| *length > 0)?;
    let number = u32::from_be_bytes(tcp.get(4..8)?.try_into().ok()?);
    Some((tcp.get(..4)?.try_into().ok()?, number, length))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A segment of 100 bytes at place `place` of a connection; `id` is the IP identification.
    fn segment(id: u16, place: u32) -> Vec<u8> {
        let mut packet = vec![0; 140];
        packet[0] = 0x45;
        packet[2..4].copy_from_slice(&140_u16.to_be_bytes());
        packet[4..6].copy_from_slice(&id.to_be_bytes());
        packet[8..10].copy_from_slice(&[64, 6]);
        packet[12..20].copy_from_slice(&[10, 0, 0, 1, 10, 0, 0, 2]);
        packet[20..24].copy_from_slice(&[0, 7, 0, 9]);
        packet[24..28].copy_from_slice(&(1000 + 100 * place).to_be_bytes());
        packet[32] = 0x50;
        packet
    }

    /// Measures a run. `sent` are the packets sent; `log` and `capture` their order of arrival, numbered from 1.
    fn run(sent: &[(u16, u32)], log: &[usize], capture: &[usize]) -> Result<Metrics, String> {
        let directory = tempfile::tempdir().unwrap();
        let (fates, file) = (directory.path().join("log"), directory.path().join("capture"));
        let mut bytes = Vec::new();
        anabranch_pcapng::section_header(&mut bytes);
        for name in ["a", "b"] {
            anabranch_pcapng::interface_description(&mut bytes, name);
        }
        let sent: Vec<_> = sent.iter().map(|(id, place)| segment(*id, *place)).collect();
        for (at, packet) in sent.iter().enumerate() {
            anabranch_pcapng::raw_packet(&mut bytes, 0, at as u64, packet, "");
        }
        for (at, number) in capture.iter().enumerate() {
            anabranch_pcapng::raw_packet(&mut bytes, 1, 1000 + at as u64, &sent[number - 1], "");
        }
        let mut text = String::from("# comment\n");
        for number in 1..=sent.len() {
            if !log.contains(&number) {
                text.push_str(&format!("l0> {number} f {number} 0 - 140 lost pattern:p - 1:1\n"));
            }
        }
        let mut known = HashSet::new();
        for (at, number) in log.iter().enumerate() {
            let fate = if known.insert(number) { "passed" } else { "copy" };
            text.push_str(&format!("l0> {number} f {number} 0 {at} 140 {fate} link - -\n"));
        }
        std::fs::write(&fates, text).unwrap();
        std::fs::write(&file, bytes).unwrap();
        let mut metrics = Metrics::default();
        let from = IpAddr::from([10, 0, 0, 1]);
        measure((&fates, &file), ("l0>", from), &mut metrics).map(|()| metrics)
    }

    #[test]
    fn each_packet_has_its_place_in_the_matrix() {
        // Packet 2 is overtaken by 3; 4 is lost and retransmitted as 6; 5 arrives twice.
        let sent = [(1, 0), (2, 1), (3, 2), (4, 3), (5, 4), (6, 3)];
        let order = [1, 3, 2, 5, 5, 6];
        let metrics = run(&sent, &order, &order).unwrap();
        let of = |name: &str| metrics.get(name).unwrap();
        assert_eq!(of("ordered_as_ordered"), 3.0, "{metrics:?}");
        for right in ["reordered_as_reordered", "again_as_again", "copied_as_copied"] {
            assert_eq!(of(right), 1.0, "{right}: {metrics:?}");
        }
        let all: f64 = IN_TRUTH
            .iter()
            .flat_map(|truth| AS_TOLD.map(|told| of(&format!("{truth}_as_{told}"))))
            .sum();
        assert_eq!(all, 6.0);
        let connections = ["connections", "connections_out_of_order", "connections_told"];
        assert_eq!(connections.map(of), [1.0, 1.0, 1.0]);
        // In order there is nothing to report.
        let metrics = run(&sent[..3], &[1, 2, 3], &[1, 2, 3]).unwrap();
        let connections = connections.map(|name| metrics.get(name));
        assert_eq!(connections, [Some(1.0), Some(0.0), Some(0.0)]);
    }

    #[test]
    fn what_is_told_wrongly_stands_beside_the_diagonal() {
        // The identification of the overtaken packet pretends that it was sent later.
        let sent = [(1, 0), (9, 1), (3, 2)];
        let metrics = run(&sent, &[1, 3, 2], &[1, 3, 2]).unwrap();
        assert_eq!(metrics.get("reordered_as_reordered"), Some(0.0));
        assert_eq!(metrics.get("reordered_as_again"), Some(1.0));
    }

    #[test]
    fn a_log_of_another_run_is_refused() {
        let sent = [(1, 0), (2, 1), (3, 2)];
        for wrong in [&[1, 2, 3][..], &[1, 3], &[1, 3, 3]] {
            assert!(run(&sent, wrong, &[1, 3, 2]).unwrap_err().contains("the same packets"));
        }
    }
}
