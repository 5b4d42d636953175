//! Files over two paths that are cut.

use std::time::Duration;

use anabranch::config::{MtuConfig, MultipathMode};

use super::*;

/// A file of 2 MB over 10 Mb/s with 40 ms and 5 Mb/s with 60 ms: 1.6 s over the first path.
fn download(carrier: Carrier) -> Download {
    let link = |rate, rtt: u64| {
        LinkConfig::new()
            .rate(rate)
            .delay(Duration::from_millis(rtt / 2))
            .queue(QueueLimit::Packets(80))
    };
    let paths = [link(10_000_000, 40), link(5_000_000, 60)];
    Download {
        bytes: 2_000_000,
        carrier,
        paths: paths.map(|link| [link.clone(), link]).to_vec(),
        seed: 1,
        limit: Duration::from_secs(60),
        interval: Duration::from_millis(50),
    }
}

/// The same with the first path cut at 0.7 s, until a time.
fn cut(carrier: Carrier, until: Option<u64>) -> Download {
    let mut download = download(carrier);
    for link in &mut download.paths[0] {
        *link = link.clone().cut(700_000_000, until);
    }
    download
}

fn sctp(config: AssociationConfig) -> Carrier {
    let mut config = config;
    config.mtu = MtuConfig::fixed(1500);
    Carrier::Sctp(Box::new(config))
}

fn on_both_paths() -> Carrier {
    sctp(AssociationConfig::default().with_multipath(MultipathMode::CmtPf))
}

fn carriers() -> [Carrier; 4] {
    let tcp = Carrier::Tcp(Box::new(tcp_of_today()));
    let http3 = Carrier::Http3(QuicCongestion::default());
    [sctp(AssociationConfig::default()), on_both_paths(), tcp, http3]
}

fn longest(done: &Downloaded) -> Duration {
    done.record_pauses().last().map_or(Duration::ZERO, |(from, to)| *to - *from)
}

#[test]
fn each_file_arrives_in_the_time_of_its_paths() {
    for (carrier, rate) in carriers().into_iter().zip([10e6, 15e6, 10e6, 10e6]) {
        let download = download(carrier);
        let done = download.run().unwrap();
        assert_eq!(done, download.run().unwrap());
        let (time, least) = (done.completed.unwrap().as_secs_f64(), 16e6 / rate);
        assert!(time > least && time < 1.7 * least, "{:?}: {time} {least}", download.carrier);
        assert_eq!(done.arrivals.last().map(|(_, bytes)| *bytes), Some(2_000_000));
        assert!(longest(&done) < Duration::from_millis(200), "{:?}", done.record_pauses());
    }
}

#[test]
fn before_a_cut_nothing_depends_on_it() {
    for carrier in carriers() {
        let (whole, cut) =
            (download(carrier.clone()).run().unwrap(), cut(carrier, None).run().unwrap());
        let at = Duration::from_millis(700);
        let before = |done: &Downloaded| {
            done.arrivals.iter().take_while(|(time, _)| *time < at).copied().collect::<Vec<_>>()
        };
        assert!(before(&whole).len() > 20, "{}", before(&whole).len());
        assert_eq!(before(&whole), before(&cut));
        assert_eq!(whole.carried[0][..14], cut.carried[0][..14]);
        assert_eq!(whole.bytes_at(at), cut.bytes_at(at));
        assert_ne!(whole.trace, cut.trace);
    }
}

#[test]
fn an_association_goes_on_over_the_other_path() {
    for carrier in [sctp(AssociationConfig::default()), on_both_paths()] {
        let done = cut(carrier, None).run().unwrap();
        assert!(done.completed.is_some(), "{done:?}");
        let pause = longest(&done);
        assert!(pause < Duration::from_secs(1), "{pause:?}");
        // Nothing arrives over the first path any more, and the rest over the second.
        assert!(done.carried[0].len() <= 15 && done.carried[1].len() > 30, "{:?}", done.carried);
    }
    // By RFC 9260, the path fails after six timeouts: 1 + 2 + 4 + 8 + 16 + 32 s.
    let mut slow = cut(sctp(AssociationConfig::rfc9260()), None);
    slow.limit = Duration::from_secs(120);
    let done = slow.run().unwrap();
    assert!(longest(&done) > Duration::from_secs(30), "{:?}", done.record_pauses());
}

#[test]
fn tcp_and_quic_stop_until_the_repair() {
    let [.., tcp, http3] = carriers();
    for carrier in [tcp.clone(), http3.clone()] {
        let done = cut(carrier, Some(3_000_000_000)).run().unwrap();
        assert!(done.completed > Some(Duration::from_secs(3)), "{done:?}");
        let (from, to) = *done.record_pauses().last().unwrap();
        assert!(
            from < Duration::from_millis(750) && to > Duration::from_secs(3),
            "{from:?} {to:?}"
        );
    }
    let done = cut(tcp, None).run().unwrap();
    assert_eq!((done.completed, done.failed, done.ended), (None, None, Duration::from_secs(60)));
    let done = cut(http3, None).run().unwrap();
    let (at, _) = done.failed.unwrap();
    assert!((30..35).contains(&at.as_secs()), "{at:?}");
    assert!(done.arrivals.last().unwrap().1 < 1_500_000);
}
