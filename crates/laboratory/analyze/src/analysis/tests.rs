use std::cell::RefCell;
use std::rc::Rc;

use anabranch_pcapng::{interface_description, raw_packet, section_header};

use super::*;

const MS: u64 = 1_000_000;

/// A capture that grows packet by packet.
struct Capture(Vec<u8>);

impl Capture {
    fn new() -> Self {
        let mut file = Vec::new();
        section_header(&mut file);
        interface_description(&mut file, "a");
        Self(file)
    }

    fn ip(&mut self, time: u64, back: bool, id: u16, protocol: u8, inner: &[u8]) {
        let mut packet = vec![0; 20];
        packet[0] = 0x45;
        packet[2..4].copy_from_slice(&(20 + inner.len() as u16).to_be_bytes());
        packet[4..6].copy_from_slice(&id.to_be_bytes());
        packet[9] = protocol;
        let ends = if back { [10, 0, 0, 2, 10, 0, 0, 1] } else { [10, 0, 0, 1, 10, 0, 0, 2] };
        packet[12..20].copy_from_slice(&ends);
        packet.extend_from_slice(inner);
        raw_packet(&mut self.0, 0, time, &packet, "");
    }

    fn tcp(
        &mut self,
        time: u64,
        back: bool,
        id: u16,
        flags: u8,
        numbers: (u32, u32),
        length: usize,
    ) {
        let mut segment = vec![0; 20 + length];
        let ports = if back { [0, 80, 16, 0] } else { [16, 0, 0, 80] };
        segment[..4].copy_from_slice(&ports);
        segment[4..8].copy_from_slice(&numbers.0.to_be_bytes());
        segment[8..12].copy_from_slice(&numbers.1.to_be_bytes());
        segment[12] = 0x50;
        segment[13] = flags;
        self.ip(time, back, id, 6, &segment);
    }

    /// An SCTP packet with one chunk.
    fn sctp(&mut self, time: u64, back: bool, id: u16, chunk: &[u8]) {
        let ports = if back { [0, 9, 0, 7] } else { [0, 7, 0, 9] };
        let mut packet = [&ports[..], &[0; 8]].concat();
        packet.extend_from_slice(chunk);
        self.ip(time, back, id, 132, &packet);
    }

    fn data_chunk(&mut self, time: u64, id: u16, tsn: u32) {
        let mut packet = vec![0, 7, 0, 9, 0, 0, 0, 0, 0, 0, 0, 0];
        packet.extend_from_slice(&[0, 3, 0, 20]);
        packet.extend_from_slice(&tsn.to_be_bytes());
        packet.extend_from_slice(&[0; 12]);
        self.ip(time, false, id, 132, &packet);
    }
}

fn read(file: &[u8]) -> (Report, Stopped) {
    let mut analysis = Analysis::new();
    let stopped = analysis.read(file).unwrap();
    (analysis.finish(), stopped)
}

/// A TCP transfer with one segment reordered, one retransmitted, one copied.
fn transfer() -> Capture {
    let mut file = Capture::new();
    file.tcp(0, false, 1, 0x02, (99, 0), 0);
    file.tcp(MS, true, 1, 0x12, (499, 100), 0);
    for (time, id, start) in [
        (2, 2, 100),
        (3, 4, 300),
        (4, 3, 200),
        (5, 6, 500),
        (6, 7, 600),
        (7, 7, 600),
        (200, 8, 400),
    ] {
        file.tcp(time * MS, false, id, 0x10, (start, 500), 100);
        if time == 7 {
            (0..4).for_each(|n| file.tcp((10 + n) * MS, true, 2, 0x10, (500, 400), 0));
        }
    }
    file.tcp(300 * MS, false, 9, 0x11, (700, 500), 0);
    file.tcp(301 * MS, true, 9, 0x11, (500, 701), 0);
    file
}

#[test]
fn a_transfer_is_taken_apart() {
    let rows = Rc::new(RefCell::new(Vec::new()));
    let (flows, events) = (Rc::clone(&rows), Rc::new(RefCell::new(Vec::new())));
    let seen = Rc::clone(&events);
    let mut analysis =
        Analysis::new().on_flow(move |flow| flows.borrow_mut().push(flow.clone())).on_event(
            move |event| seen.borrow_mut().push((event.packet, event.start, event.found.class)),
        );
    assert_eq!(analysis.read(&transfer().0[..]), Ok(Stopped::End));
    let report = analysis.finish();
    let expected = [(5, 200, Class::Reordered), (8, 600, Class::Duplicate), (13, 400, Class::Fast)];
    assert_eq!(*events.borrow(), expected);
    assert_eq!((report.packets, report.others, report.data, report.complete), (15, 0, 7, 1));
    assert_eq!(report.out_of_sequence["reordered"], 1);
    assert_eq!((report.extents.most, report.lateness_us.most), (1, 1000));
    assert_eq!(report.affected["retransmission"], 1);
    let flow = &rows.borrow()[0];
    assert_eq!((flow.from.as_str(), flow.to.as_str()), ("10.0.0.1:4096", "10.0.0.2:80"));
    assert_eq!((flow.bytes, flow.duration_ns), ([700, 0], 301 * MS));
}

#[test]
fn chunks_are_followed_by_their_numbers() {
    let mut file = Capture::new();
    for (time, id, tsn) in [(0, 1, 7), (1, 3, 9), (2, 2, 8), (3, 5, 11), (900, 9, 10)] {
        file.data_chunk(time * MS, id, tsn);
    }
    let (report, _) = read(&file.0);
    assert_eq!(report.out_of_sequence["reordered"], 1);
    assert_eq!(report.out_of_sequence["retransmission (timeout)"], 1);
    assert_eq!((report.flows["sctp"], report.chunks[&0]), (1, 5));
    assert_eq!(report.sizes.most, 20);
}

#[test]
fn what_is_cut_off_or_damaged_is_read_as_far_as_it_goes() {
    let whole = transfer().0;
    let (all, _) = read(&whole);
    let mut least = 0;
    for length in (28..whole.len()).step_by(7) {
        let (report, stopped) = read(&whole[..length]);
        assert!(report.packets >= least && report.packets <= all.packets, "{length}");
        assert!(
            matches!(stopped, Stopped::Damaged(..)) || report.packets < all.packets,
            "{length}"
        );
        least = report.packets;
    }
    for index in 28..whole.len() {
        let mut damaged = whole.clone();
        damaged[index] ^= 0xff;
        // Any input: no panic, and no invented packets.
        let mut analysis = Analysis::new();
        if analysis.read(&damaged[..]).is_ok() {
            assert!(analysis.finish().packets <= all.packets, "{index}");
        }
    }
    let mut analysis = Analysis::new();
    assert!(analysis.read(&b"something else, of some length"[..]).is_err());
    assert!(analysis.read(&b""[..]).is_err());
}

#[test]
fn many_flows_take_bounded_memory() {
    let mut file = Capture::new();
    for n in 0..70_000_u32 {
        let mut segment = [0; 20];
        segment[..2].copy_from_slice(&((n % 50_000) as u16).to_be_bytes());
        segment[3] = (n / 50_000) as u8;
        segment[12] = 0x50;
        segment[13] = 0x10;
        file.ip(u64::from(n), false, 1, 6, &segment);
    }
    let mut analysis = Analysis::new();
    analysis.read(&file.0[..]).unwrap();
    assert!(analysis.flows.len() <= MOST_FLOWS);
    assert_eq!(analysis.finish().flows["tcp"], 70_000);
}

/// The flow of a capture that has one.
fn only_flow(file: &Capture) -> FlowReport {
    let flows = Rc::new(RefCell::new(Vec::new()));
    let seen = Rc::clone(&flows);
    let mut analysis = Analysis::new().on_flow(move |flow| seen.borrow_mut().push(flow.clone()));
    analysis.read(&file.0[..]).unwrap();
    analysis.finish();
    assert_eq!(flows.borrow().len(), 1);
    flows.borrow()[0].clone()
}

/// An I-DATA chunk with 4 bytes.
fn i_data(tsn: u32, stream: u8, mid: u8, fsn: u8) -> Vec<u8> {
    let flags = if fsn == 0 { 2 } else { 1 };
    let mut chunk = vec![64, flags, 0, 24];
    chunk.extend(tsn.to_be_bytes());
    chunk.extend([0, stream, 0, 0, 0, 0, 0, mid, 0, 0, 0, fsn]);
    chunk.extend(b"text");
    chunk
}

#[test]
fn interleaved_messages_are_data() {
    let mut file = Capture::new();
    // The fragments of two messages alternate, and one of them is lost and sent again.
    for (time, id, tsn, stream, fsn) in
        [(0, 1, 10, 0, 0), (1, 2, 11, 1, 0), (3, 4, 13, 1, 1), (200, 5, 12, 0, 1)]
    {
        file.sctp(time * MS, false, id, &i_data(tsn, stream, 7, fsn));
    }
    let flow = only_flow(&file);
    assert_eq!(flow.bytes, [16, 0]);
    assert_eq!(flow.out_of_sequence[0].iter().sum::<u64>(), 1);
}

#[test]
fn an_association_that_is_reset_goes_on_with_other_tsns() {
    let mut file = Capture::new();
    file.sctp(0, false, 1, &i_data(10, 0, 0, 0));
    file.sctp(MS, false, 2, &i_data(11, 0, 0, 1));
    // The peer answers the request, twice.
    let (own_next, other_next) = (5_u32, 11 | 1 << 31);
    let mut answer = vec![130, 0, 0, 24, 0, 16, 0, 20, 0, 0, 0, 1, 0, 0, 0, 1];
    answer.extend([own_next, other_next].into_iter().flat_map(u32::to_be_bytes));
    file.sctp(2 * MS, true, 1, &answer);
    file.sctp(3 * MS, false, 3, &i_data(other_next, 0, 0, 0));
    file.sctp(4 * MS, true, 2, &answer);
    file.sctp(5 * MS, false, 4, &i_data(other_next + 1, 0, 0, 1));
    file.sctp(6 * MS, true, 3, &i_data(own_next, 0, 0, 0));
    let flow = only_flow(&file);
    assert_eq!(flow.bytes, [16, 4]);
    assert_eq!(flow.out_of_sequence.iter().flatten().sum::<u64>(), 0, "{flow:?}");
}
