//! Whole pages.

use std::time::Duration;

use anabranch::config::Pieces;

use super::*;

mod downloads;
mod readers;

/// The last hop of 56 kb/s with 1,080 ms in the study of progressive images, with this loss rate.
fn slow(site: Site, carriage: Carriage, per_mille: u32, seed: u64) -> Load {
    let mut load = Load::new(site, carriage);
    let link = LinkConfig::new()
        .rate(56_000)
        .delay(Duration::from_millis(540))
        .queue(QueueLimit::Packets(50))
        .loss(Loss::Uniform(Probability::per_million(per_mille * 1000)));
    (load.up, load.down, load.seed) = (link.clone(), link, seed);
    load
}

const CARRIAGES: [Carriage; 6] = [
    Carriage::Sctp { streams: 10 },
    Carriage::Sctp { streams: 3 },
    Carriage::Tcp { connections: 1, pipelined: true },
    Carriage::Tcp { connections: 6, pipelined: false },
    Carriage::Http3 { congestion: QuicCongestion::Cubic },
    Carriage::Http3 { congestion: QuicCongestion::NewReno },
];

#[test]
fn all_bytes_come_whatever_carries_them_and_whatever_is_lost() {
    let site = Site::uniform(10, 10_000, 1000);
    for carriage in CARRIAGES {
        for per_mille in [0, 43] {
            let mut load = slow(site.clone(), carriage, per_mille, 3);
            load.keep = true;
            let loaded = load.run().unwrap();
            assert!(loaded.page.is_complete(), "{carriage:?}: {loaded:?}");
            assert_eq!(loaded.page.objects.len(), 10);
            for object in loaded.page.objects.iter().chain([&loaded.page.index]) {
                assert_eq!(object.body.as_ref(), site.file(&object.target), "{carriage:?}");
            }
            let lost = loaded.links.iter().map(|link| link.lost_model).sum::<u64>();
            assert_eq!(lost > 0, per_mille > 0, "{carriage:?}: {lost}");
            // 101 KB at 56 kb/s without headers, and a round trip for each of the two requests.
            let least = Duration::from_secs_f64(101_000.0 * 8.0 / 56_000.0 + 2.0 * 1.08);
            assert!(loaded.page.page_time() > Some(least), "{carriage:?}: {loaded:?}");
        }
    }
}

#[test]
fn the_same_seed_gives_the_same_packets_and_another_one_others() {
    let site = Site::uniform(5, 3000, 500);
    for carriage in CARRIAGES {
        let run = |seed| slow(site.clone(), carriage, 30, seed).run().unwrap();
        let first = run(5);
        // Concurrently, and in sequence.
        let beside: Vec<_> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..2).map(|_| scope.spawn(|| run(5))).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        assert!(beside.iter().all(|again| *again == first), "{carriage:?}");
        assert_ne!(run(6).trace, first.trace);
    }
}

#[test]
fn times_are_those_of_the_links_to_the_nanosecond() {
    let mut load =
        Load::new(Site::uniform(0, 0, 100), Carriage::Tcp { connections: 1, pipelined: true });
    let link = LinkConfig::new().delay(Duration::from_nanos(123_456_789));
    (load.up, load.down) = (link.clone(), link);
    let loaded = load.run().unwrap();
    assert_eq!(loaded.connecting, Duration::from_nanos(2 * 123_456_789));
    assert_eq!(loaded.page.page_time(), Some(Duration::from_nanos(2 * 123_456_789)));
    load.carriage = Carriage::Sctp { streams: 1 };
    let loaded = load.run().unwrap();
    assert_eq!(loaded.connecting, Duration::from_nanos(4 * 123_456_789));
    assert_eq!(loaded.page.page_time(), Some(Duration::from_nanos(2 * 123_456_789)));
    // QUIC's handshake includes that of TLS.
    load.carriage = Carriage::Http3 { congestion: QuicCongestion::default() };
    let loaded = load.run().unwrap();
    assert_eq!(loaded.connecting, Duration::from_nanos(2 * 123_456_789));
    assert_eq!(loaded.page.page_time(), Some(Duration::from_nanos(2 * 123_456_789)));
}

#[test]
fn a_path_that_carries_nothing_is_given_up() {
    for carriage in [CARRIAGES[0], CARRIAGES[2], CARRIAGES[4]] {
        let mut load = slow(Site::uniform(1, 100, 100), carriage, 1000, 1);
        load.limit = Duration::from_secs(10);
        assert!(matches!(load.run(), Err(LoadError::Limit(_))), "{carriage:?}");
    }
}

#[test]
fn messages_longer_than_a_packet_hold_up_other_streams() {
    let site = Site::uniform(10, 10_000, 1000);
    let parts = |pieces| {
        let mut load = slow(site.clone(), Carriage::Sctp { streams: 10 }, 0, 1);
        load.sctp_server.sending.pieces = pieces;
        let page = load.run().unwrap().page;
        let seconds = |time: Option<Duration>| time.unwrap().as_secs_f64();
        (seconds(page.ppage(25)), seconds(page.page_time()))
    };
    let ((quarter, all), (late, as_late)) = (parts(Pieces::Auto), parts(Pieces::Long));
    assert!(quarter < 0.5 * all, "{quarter} {all}");
    assert!(late > 0.95 * as_late && quarter < 0.5 * late, "{late} {as_late}");
}

/// A page over QUIC, on links of 1 Mb/s with a round trip of 350 ms.
fn over_quic(congestion: QuicCongestion) -> Load {
    Load::new(Site::uniform(10, 10_000, 1000), Carriage::Http3 { congestion })
}

#[test]
fn quic_takes_turns_among_streams_and_counts_headers() {
    let loaded = over_quic(QuicCongestion::default()).run().unwrap();
    let seconds = |time: Option<Duration>| time.unwrap().as_secs_f64();
    let (quarter, all) = (seconds(loaded.page.ppage(25)), seconds(loaded.page.page_time()));
    assert!(quarter < 0.7 * all, "{quarter} {all}");
    for end in loaded.transport {
        let none = Transport { timeouts: None, ..Transport::default() };
        assert_eq!(end, none);
    }
    // ClientHello and the server's answer up to Finished take a datagram of 1,200 bytes each.
    let initial = Duration::from_micros((1200 + 8 + 20) * 8);
    assert_eq!(loaded.connecting, Duration::from_millis(350) + 2 * initial);
    // No packet is longer than those of the other transports.
    let [_, down] = loaded.links;
    assert!(down.offered_bytes <= 1500 * down.offered && down.offered_bytes > 101_000);
}

#[test]
fn the_congestion_control_of_quic_is_chosen() {
    let run = |congestion| {
        let mut load = over_quic(congestion);
        load.down = load.down.clone().loss(Loss::Uniform(Probability::per_million(30_000)));
        load.run().unwrap()
    };
    let [cubic, reno] = [QuicCongestion::Cubic, QuicCongestion::NewReno].map(run);
    assert_ne!(cubic.trace, reno.trace);
    assert!(cubic.transport[1].fast_retransmits > 0 && reno.transport[1].fast_retransmits > 0);
}

#[test]
fn a_spoiled_datagram_of_quic_is_dropped() {
    let run = || {
        let mut load = over_quic(QuicCongestion::default());
        load.down = load.down.clone().corrupt(Probability::per_million(30_000));
        load.run().unwrap()
    };
    let loaded = run();
    assert!(loaded.links[1].corrupted > 0 && loaded.page.is_complete(), "{loaded:?}");
    assert!(loaded.transport[1].fast_retransmits > 0, "{loaded:?}");
    assert_eq!(run(), loaded);
}

#[test]
fn an_object_that_is_not_there_takes_no_other_with_it() {
    let index = "<img src=1.jpg><img src=2.jpg><img src=3.jpg>";
    let files = [("/index.html", index.as_bytes()), ("/1.jpg", b"one"), ("/3.jpg", b"three")];
    let site = |files: &[(&str, &'static [u8])]| {
        Site::new(files.iter().map(|(path, body)| ((*path).to_owned(), (*body).into())))
    };
    for carriage in [CARRIAGES[0], CARRIAGES[4]] {
        let loaded = Load::new(site(&files), carriage).run().unwrap();
        let objects = &loaded.page.objects;
        let bytes: Vec<_> = objects.iter().map(|o| o.completed.map(|_| o.bytes())).collect();
        assert_eq!(bytes, [Some(3), None, Some(5)], "{carriage:?}");
        assert_eq!(objects[1].status, Some(404));
        assert!(objects[1].error.as_ref().unwrap().contains("404"), "{objects:?}");
        assert!(!loaded.page.is_complete());
        let none = Load::new(site(&files[1..]), carriage).run();
        assert!(matches!(none, Err(LoadError::Fetch(_))), "{carriage:?}: {none:?}");
    }
}

#[test]
fn one_stream_fills_a_long_path_as_its_buffers_grow() {
    let time = |fixed: Option<usize>| {
        let mut load = Load::new(Site::uniform(0, 0, 60_000_000), Carriage::Sctp { streams: 1 });
        let mut config = AssociationConfig::default();
        if let Some(size) = fixed {
            (config.sending.send_buffer, config.receiving.receive_buffer) = (size, size);
            (config.sending.send_buffer_start, config.receiving.receive_buffer_start) =
                (None, None);
        }
        (load.sctp_server, load.sctp_client) = (config.clone(), config);
        let link = LinkConfig::new().delay(Duration::from_millis(25));
        (load.up, load.down) = (link.clone(), link);
        load.run().unwrap().page.page_time().unwrap().as_secs_f64()
    };
    let (small, grown, large) = (time(Some(1 << 20)), time(None), time(Some(16 << 20)));
    println!("{small} s with 1 MiB, {grown} s from 1 MiB on, {large} s with 16 MiB");
    assert!(grown < 1.75 * large, "{grown} {large}");
    assert!(2.0 * grown < small, "{grown} {small}");
}
