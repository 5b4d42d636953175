//! Taps, scripts, captures and series.

use std::cell::RefCell;
use std::rc::Rc;

use anabranch_wire::Chunk;

use super::*;

/// The first TSN in a packet.
fn tsn(sight: &Sight<'_>) -> Option<u32> {
    let packet = sight.packet()?;
    packet.chunks().flatten().find_map(|chunk| match chunk.decode() {
        Ok(Chunk::Data(data)) => Some(data.tsn.0),
        _ => None,
    })
}

#[test]
fn taps_see_both_ends_of_a_path() {
    let mut d = dumbbell(1, &[0]);
    let seen = Rc::new(RefCell::new(Vec::new()));
    let log = seen.clone();
    d.net.tap(None, move |sight: &Sight<'_>| {
        log.borrow_mut().push((sight.endpoint, sight.point, sight.now, sight.bytes.len()));
    });
    d.net.add_transfer(d.bulk(1)).unwrap();
    d.net.run(Instant::from_secs(10));
    let seen = seen.borrow();
    let (first, second) = (seen[0], seen[1]);
    assert_eq!((first.0, first.1, first.2), (d.sender, Point::Sent, Instant::ZERO));
    assert_eq!((second.0, second.1, second.3), (d.receiver, Point::Received, first.3));
    assert!(second.2 > Instant::from_millis(45));
}

#[test]
fn a_script_decides_by_content() {
    // The second DATA packet is lost, and the path is cut when the fourth one is sent.
    let mut d = dumbbell(1, &[0, 0]);
    let link = d.cores[0];
    let mut first = None;
    d.net.script(move |sight| {
        let Some(tsn) = tsn(sight) else { return Fate::Pass };
        let number = tsn.wrapping_sub(*first.get_or_insert(tsn));
        match number {
            1 if sight.now < Instant::from_millis(200) => Fate::Drop,
            3 => Fate::Then(
                Duration::ZERO,
                Box::new(Action::Cut { link, direction: Direction::Both }),
            ),
            _ => Fate::Pass,
        }
    });
    let transfer = d.net.add_transfer(d.bulk(100_000)).unwrap();
    d.net.run(Instant::from_secs(1000));
    let result = d.net.transfer(transfer);
    assert_eq!(result.outcome, Outcome::Complete);
    assert!(result.longest_gap > ms(900));
    let stats = d.net.sender(transfer).unwrap().statistics();
    assert!(stats.paths[1].data_bytes_sent > 0);
}

#[test]
fn captures_open_in_other_programs() {
    let mut d = dumbbell(1, &[2, 2]);
    let capture = Rc::new(RefCell::new(Capture::new(Vec::new()).unwrap()));
    d.net.tap(Some(d.sender), capture.clone());
    let seen = Rc::new(RefCell::new(0));
    let count = seen.clone();
    d.net.tap(Some(d.sender), move |_: &Sight<'_>| *count.borrow_mut() += 1);
    d.net.add_transfer(d.bulk(100_000)).unwrap();
    d.net.run(Instant::from_secs(1000));
    drop(d);
    let capture = Rc::into_inner(capture).unwrap().into_inner();
    let bytes = capture.finish().unwrap();
    // Blocks: type, length, body, length.
    let (mut at, mut kinds) = (0, Vec::new());
    while at < bytes.len() {
        let word = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
        let length = word(at + 4) as usize;
        assert_eq!(word(at + length - 4) as usize, length);
        kinds.push(word(at));
        at += length;
    }
    assert_eq!(kinds[..3], [0x0a0d_0d0a, 1, 6]);
    assert_eq!(kinds.iter().filter(|kind| **kind == 6).count(), *seen.borrow());
    assert_eq!(kinds.iter().filter(|kind| **kind == 1).count(), 2);
}

#[test]
fn a_full_disk_ends_the_capture_only() {
    struct Full;
    impl std::io::Write for Full {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            // The section header fits.
            if bytes.len() == 28 { Ok(28) } else { Err(std::io::ErrorKind::StorageFull.into()) }
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let mut d = dumbbell(1, &[0]);
    let capture = Rc::new(RefCell::new(Capture::new(Full).unwrap()));
    d.net.tap(None, capture.clone());
    let transfer = d.net.add_transfer(d.bulk(1000)).unwrap();
    d.net.run(Instant::from_secs(10));
    assert_eq!(d.net.transfer(transfer).outcome, Outcome::Complete);
    drop(d);
    let capture = Rc::into_inner(capture).unwrap().into_inner();
    let error = capture.finish().err().unwrap();
    assert_eq!(error.kind(), std::io::ErrorKind::StorageFull);
}

#[test]
fn series_follow_any_statistic() {
    let mut d = dumbbell(1, &[0]);
    let transfer = d.net.add_transfer(d.bulk(2_000_000)).unwrap();
    let cwnd = d
        .net
        .record(ms(100), move |net| Some(net.sender(transfer)?.statistics().paths[0].cwnd as f64));
    let core = d.cores[0];
    let queue =
        d.net.record(ms(100), move |net| Some(net.queue_len(core, Direction::Forward) as f64));
    let end = d.net.run(Instant::from_secs(100));
    let cwnd = d.net.series(cwnd);
    assert!(cwnd.first().unwrap().1 < cwnd.last().unwrap().1);
    assert!(cwnd.windows(2).all(|pair| pair[1].0 == pair[0].0 + ms(100)));
    let expected = end.as_nanos() / 100_000_000 + 1;
    assert_eq!(d.net.series(queue).len() as u64, expected);
    // Observing changes nothing.
    let mut plain = dumbbell(1, &[0]);
    plain.net.add_transfer(plain.bulk(2_000_000)).unwrap();
    plain.net.run(Instant::from_secs(100));
    assert_eq!(plain.net.trace_hash(), d.net.trace_hash());
}
