//! Whole pages.

use std::time::Duration;

use anabranch::config::Pieces;

use super::*;

/// The last hop of 56 kb/s with 1,080 ms of the progressive images, which loses so much.
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

const CARRIAGES: [Carriage; 4] = [
    Carriage::Sctp { streams: 10 },
    Carriage::Sctp { streams: 3 },
    Carriage::Tcp { connections: 1, pipelined: true },
    Carriage::Tcp { connections: 6, pipelined: false },
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
            // 101 KB at 56 kb/s, headers not counted, and a round trip for each of the two requests.
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
        // Beside each other and one after the other.
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
}

#[test]
fn a_path_that_carries_nothing_is_given_up() {
    for carriage in [CARRIAGES[0], CARRIAGES[2]] {
        let mut load = slow(Site::uniform(1, 100, 100), carriage, 1000, 1);
        load.limit = Duration::from_secs(10);
        assert!(matches!(load.run(), Err(LoadError::Limit(_))), "{carriage:?}");
    }
}

#[test]
fn messages_longer_than_a_packet_hold_up_other_streams() {
    let site = Site::uniform(10, 10_000, 1000);
    let parts = |piece, pieces| {
        let mut load = slow(site.clone(), Carriage::Sctp { streams: 10 }, 0, 1);
        load.piece = piece;
        load.sctp_server.sending.pieces = pieces;
        let page = load.run().unwrap().page;
        let seconds = |time: Option<Duration>| time.unwrap().as_secs_f64();
        (seconds(page.ppage(25)), seconds(page.page_time()))
    };
    let ((quarter, all), (late, as_late)) =
        (parts(1400, Pieces::Long), parts(16 * 1024, Pieces::Long));
    assert!(quarter < 0.5 * all, "{quarter} {all}");
    assert!(late > 0.95 * as_late && quarter < 0.5 * late, "{late} {as_late}");
    // Unless told otherwise, the library cuts bytes where packets end as long as others wait.
    let (early, _) = parts(16 * 1024, Pieces::Auto);
    assert!(early < 0.5 * late, "{early} {late}");
}
