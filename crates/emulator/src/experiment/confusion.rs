//! How often the analysis of the receiver's capture is right: what it says of each packet with data beside what the
//! emulator's log says of the same packet.
//!
//! The truth about data that reached the receiver. It is a copy if the log has it twice. It was sent again if the
//! sender had sent the same bytes before. It was reordered if data of the connection that entered the link later
//! left it earlier. Otherwise it came in order.

use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::net::IpAddr;
use std::path::Path;
use std::rc::Rc;

use anabranch_analyze::Analysis;
use anabranch_analyze::track::Class;
use anabranch_lab::metrics::{AS_TOLD, IN_TRUTH, Metrics};

use super::captured::{Captured, packets};

/// Places in `IN_TRUTH` and `AS_TOLD`.
const ORDERED: usize = 0;
const REORDERED: usize = 1;
const AGAIN: usize = 2;
const COPIED: usize = 3;
const UNKNOWN: usize = 4;

/// Data of TCP as the sender's capture has it.
#[derive(Clone, Copy)]
struct Segment {
    /// The ports name the connection.
    ports: [u8; 4],
    /// Its bytes, from the first one of the connection.
    start: u32,
    end: u32,
    sent_before: bool,
}

/// A packet that left the link.
struct Arrival {
    number: usize,
    at: u64,
}

/// What is known of a connection while its arrivals are walked through.
#[derive(Default)]
struct Seen {
    latest: usize,
    end: u32,
    out_of_order: bool,
}

/// Holds what the analysis of a capture says against a log. `way` is what the log calls the direction of the
/// link, and `from` the address of the host that sends that way.
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

/// What left the link, in that order, as the log has it.
fn arrivals(log: &str, way: &str) -> Vec<Arrival> {
    let arrival = |line: &str| {
        let words: Vec<&str> = line.split(' ').collect();
        let [on, number, _, _, _, out, _, "passed" | "copy", ..] = words[..] else { return None };
        let number = number.parse().ok().filter(|number| *number > 0)?;
        (on == way).then_some(Arrival { number, at: out.parse().ok()? })
    };
    let mut arrivals: Vec<Arrival> = log.lines().filter_map(arrival).collect();
    // Those that leave at one time leave in the order of the log.
    arrivals.sort_by_key(|arrival| arrival.at);
    arrivals
}

/// Whether what left the link according to the log is, packet for packet, what reached the receiver according to the capture.
fn is_same(sent: &[Captured<'_>], received: &[Captured<'_>], arrivals: &[Arrival]) -> bool {
    let bytes = |arrival: &Arrival| sent.get(arrival.number - 1).map(|packet| packet.bytes);
    let both = received.iter().zip(arrivals);
    received.len() == arrivals.len()
        && both.into_iter().all(|(packet, arrival)| bytes(arrival) == Some(packet.bytes))
}

/// Out-of-sequence data at the receiver by the number of its packet, and at how many connections there was some.
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

/// The data of each packet that was sent, and whether all of its bytes had been sent before.
fn segments(sent: &[Captured<'_>]) -> Vec<Option<Segment>> {
    // The first number of a connection, and the end of what was sent.
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

/// Ports, first number and number of bytes of a TCP segment over IPv4, if there is data in it.
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

    /// A segment of 100 bytes at a place of a connection; `id` counts up.
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

    /// Packets that were sent, and the order in which they arrived, from 1, as a log and as a capture.
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
        // Two is overtaken by three, four is lost and sent again as six, five arrives twice.
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
        // In order there is nothing to tell.
        let metrics = run(&sent[..3], &[1, 2, 3], &[1, 2, 3]).unwrap();
        let connections = connections.map(|name| metrics.get(name));
        assert_eq!(connections, [Some(1.0), Some(0.0), Some(0.0)]);
    }

    #[test]
    fn what_is_told_wrongly_stands_beside_the_diagonal() {
        // The identification of what is overtaken claims that it was sent later.
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
