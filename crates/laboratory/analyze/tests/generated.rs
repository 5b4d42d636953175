//! Captures of every link type, file type and behaviour: our counts, compared with those of tshark.

mod captures;

use std::collections::BTreeSet;
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use anabranch_analyze::track::Class;
use anabranch_analyze::{Analysis, Report, Signal, Stopped};
use captures::cases::{Case, Counts, all};

fn read(file: &[u8]) -> Report {
    let mut analysis = Analysis::new();
    assert_eq!(analysis.read(file), Ok(Stopped::End));
    analysis.finish()
}

fn counts(report: &Report) -> Counts {
    let signal = |signal: Signal| report.signals.get(signal.name()).copied().unwrap_or(0);
    let again: u64 =
        Class::ALL.iter().filter_map(|class| report.out_of_sequence.get(class.name())).sum();
    Counts {
        tcp: report.flows.get("tcp").copied().unwrap_or(0),
        sctp: report.flows.get("sctp").copied().unwrap_or(0),
        again: again + signal(Signal::HandshakeAgain),
        keep_alives: signal(Signal::KeepAlive),
        window_probes: signal(Signal::WindowProbe),
        window_updates: signal(Signal::WindowUpdate),
        duplicate_acks: signal(Signal::DuplicateAck),
    }
}

#[test]
fn generated_captures_are_read_to_the_last_packet() {
    let mut wrong = Vec::new();
    for case in all() {
        let report = read(&case.file);
        let counts = counts(&report);
        if counts != case.counts || report.others != case.left_out || report.packets == 0 {
            let (packets, others) = (report.packets, &report.left_out);
            wrong.push(format!("{}: {counts:?}, {packets} packets, {others:?}", case.name));
        }
        assert_eq!(report.left_out.values().sum::<u64>(), report.others, "{}", case.name);
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The causes of retransmissions in a whole connection are equal on every link type.
#[test]
fn what_comes_again_has_its_cause() {
    let is_whole = |case: &Case| case.counts.again == 2 && case.counts.window_probes == 3;
    for case in all().iter().filter(|case| is_whole(case) && case.name != "simple-packet-blocks") {
        let report = read(&case.file);
        let class = |class: Class| report.out_of_sequence.get(class.name()).copied();
        assert_eq!(class(Class::Fast), Some(1), "{}: {report:?}", case.name);
        assert_eq!(class(Class::Timeout), Some(1), "{}: {report:?}", case.name);
        assert_eq!(report.complete, 1, "{}", case.name);
    }
}

#[test]
fn whatever_is_damaged_or_cut_is_counted_and_nothing_panics() {
    let mut seed = 1_u64;
    let mut draw = |below: usize| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) as usize % below
    };
    for case in all() {
        let most = read(&case.file).packets;
        for _ in 0..8 {
            let mut file = case.file.clone();
            for _ in 0..=draw(4) {
                let at = 24 + draw(file.len() - 24);
                file[at] = [0, 1, 0x7f, 0x80, 0xff, draw(256) as u8][draw(6)];
            }
            if draw(3) == 0 {
                file.truncate(24 + draw(file.len() - 24));
            }
            let mut analysis = Analysis::new();
            if analysis.read(&file[..]).is_ok() {
                let report = analysis.finish();
                assert_eq!(report.left_out.values().sum::<u64>(), report.others, "{}", case.name);
                assert!(
                    report.others <= report.packets && report.packets <= 2 * most,
                    "{}",
                    case.name
                );
            }
        }
    }
}

#[test]
fn files_may_be_compressed() {
    use std::io::Write as _;

    let case = all().remove(0);
    let compressed = |part: &[u8]| {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
        encoder.write_all(part).unwrap();
        encoder.finish().unwrap()
    };
    assert_eq!(counts(&read(&compressed(&case.file))), case.counts);
    // Several gzip members, as when compressed files are concatenated.
    let (first, second) = case.file.split_at(999);
    let mut both = [compressed(first), compressed(second)].concat();
    assert_eq!(counts(&read(&both)), case.counts);
    // Truncated in the checksum at the end, in the data, and in the header of the second member.
    for length in [both.len() - 1, both.len() - 20, compressed(first).len() + 5] {
        both.truncate(length);
        let mut analysis = Analysis::new();
        let stopped = analysis.read(&both[..]);
        assert!(matches!(stopped, Ok(Stopped::Damaged(900.., _))), "{length}: {stopped:?}");
        assert!(analysis.finish().packets > 5, "{length}");
    }
    let zstd = [0x28, 0xb5, 0x2f, 0xfd, 0, 0, 0, 0];
    let refused = Analysis::new().read(&zstd[..]).unwrap_err().to_string();
    assert!(refused.contains("compressed by zstd"), "{refused}");
}

/// A SYN forged by an attacker is not answered, and the old connection continues.
#[test]
fn a_made_up_syn_does_not_end_a_connection() {
    use captures::files::{LINKS, frames, pcap};
    use captures::packets::{Talk, Tcp};

    let mut tcp = Tcp::new(Talk::new(false));
    tcp.open();
    tcp.send(3);
    for number in [2_000_000_000, 3_000_000_000] {
        let own = std::mem::replace(&mut tcp.initial.0, number);
        tcp.segment(false, 2, -1, 0, 65_535, &[]);
        tcp.initial.0 = own;
        tcp.send(3);
    }
    tcp.close();
    let report = read(&pcap(1, &frames(&tcp.talk.packets, LINKS[0].2)));
    assert_eq!((report.data, report.complete), (9, 1), "{report:?}");
    assert!(report.out_of_sequence.is_empty(), "{report:?}");
}

/// Two captures of one connection, one after the other on the command line.
#[test]
fn a_second_capture_of_the_same_time_has_flows_of_its_own() {
    let case = all().remove(0);
    let mut analysis = Analysis::new();
    analysis.read(&case.file[..]).unwrap();
    analysis.read(&case.file[..]).unwrap();
    let report = analysis.finish();
    assert_eq!((report.flows["tcp"], report.distinct["tcp"], report.complete), (2, 1, 2));
    assert_eq!(counts(&report).again, 2 * case.counts.again);
}

/// Captures from the emulator have the interfaces of both hosts, named `host:link`.
#[test]
fn both_ends_of_two_paths_are_two_flows_of_one_association() {
    use captures::files::{Frame, Ng};
    use captures::packets::{Sctp, Talk};

    let mut sctp = Sctp::new(Talk::new(false));
    let first = sctp.talk.hosts;
    sctp.open_at([&[0, 5, 0, 8, 10, 1, 0, 1], &[0, 5, 0, 8, 10, 1, 0, 2]]);
    sctp.send(3);
    sctp.talk.hosts = [[10, 1, 0, 1].into(), [10, 1, 0, 2].into()];
    // The first packet on the other path comes from the server.
    sctp.sack(sctp.next - 1, 60_000, &[]);
    sctp.talk.wait(20);
    sctp.send(3);
    sctp.talk.hosts = first;
    sctp.send(3);
    let mut ng = Ng::new(false, &[]);
    for name in ["a:0", "a:1", "b:0", "b:1"] {
        let option = [&[2, 0, 3, 0][..], name.as_bytes(), &[0]].concat();
        ng.interface(101, &option);
    }
    let mut frames = Vec::new();
    for (time, back, ip) in &sctp.talk.packets {
        let link = u32::from(ip[13]);
        for (later, host) in [(0, u32::from(*back)), (9000, u32::from(!*back))] {
            let interface = host * 2 + link;
            let captured = ip.len();
            frames.push(Frame { time: time + later, interface, captured, bytes: ip.clone() });
        }
    }
    frames.sort_by_key(|frame| frame.time);
    frames.iter().for_each(|frame| ng.enhanced(frame));
    let report = read(&ng.file);
    assert_eq!((report.flows["sctp"], report.distinct["sctp"], report.paths), (2, 1, 4));
    assert!(report.out_of_sequence.is_empty(), "{report:?}");
    let text = anabranch_analyze::text(&report);
    assert!(text.contains("of 1 association, each counted at every interface"), "{text}");
    assert!(text.lines().all(|line| line.len() <= 80), "{text}");
}

/// A server answers each copy of an INIT with another tag; the COOKIE ECHO selects one.
#[test]
fn several_answers_to_one_init_are_one_association() {
    use captures::files::{LINKS, frames, pcap};
    use captures::packets::{Sctp, Talk, chunk};

    let mut sctp = Sctp::new(Talk::new(false));
    for _ in 0..3 {
        sctp.packet(false, 0, &[sctp.init(1, sctp.tags.0, sctp.next, &[])]);
        sctp.talk.wait(1000);
    }
    for (tag, tsn) in [(7, 500), (sctp.tags.1, 50), (9, 900)] {
        sctp.say(true, &[sctp.init(2, tag, tsn, &[0, 7, 0, 8, 1, 2, 3, 4])]);
    }
    sctp.say(false, &[chunk(10, 0, b"cook")]);
    sctp.say(true, &[chunk(11, 0, &[])]);
    sctp.send(5);
    sctp.close();
    // The tag is one of these; late copies do not belong to another association.
    sctp.say(true, &[sctp.init(2, 11, 1, &[0, 7, 0, 8, 1, 2, 3, 4])]);
    let report = read(&pcap(1, &frames(&sctp.talk.packets, LINKS[0].2)));
    assert_eq!((report.flows["sctp"], report.data, report.complete), (1, 5, 1), "{report:?}");
    assert!(report.out_of_sequence.is_empty(), "{report:?}");
}

/// The counts of tshark for a file, parsed from its output of one line of fields per packet.
fn tshark(path: &str) -> Counts {
    const FIELDS: [&str; 11] = [
        "tcp.stream",
        "sctp.assoc_index",
        "tcp.analysis.retransmission",
        "tcp.analysis.fast_retransmission",
        "tcp.analysis.spurious_retransmission",
        "tcp.analysis.out_of_order",
        "sctp.retransmission",
        "tcp.analysis.keep_alive",
        "tcp.analysis.zero_window_probe",
        "tcp.analysis.window_update",
        "tcp.analysis.duplicate_ack",
    ];
    let mut command = Command::new("tshark");
    command.args(["-r", path, "-T", "fields", "-E", "separator=;", "-E", "occurrence=l"]);
    command.args(["-o", "sctp.association_index:TRUE"]);
    FIELDS.iter().for_each(|field| {
        command.args(["-e", field]);
    });
    let output = command.output().unwrap();
    assert!(output.status.success(), "{path}: {}", String::from_utf8_lossy(&output.stderr));
    let (mut counts, mut streams, mut associations) =
        (Counts::default(), BTreeSet::new(), BTreeSet::new());
    for line in String::from_utf8(output.stdout).unwrap().lines() {
        let fields: Vec<&str> = line.split(';').collect();
        let has = |index: usize| fields.get(index).is_some_and(|field| !field.is_empty());
        for (index, all) in [(0, &mut streams), (1, &mut associations)] {
            if has(index) {
                all.insert(fields[index].to_owned());
            }
        }
        counts.again += u64::from((2..7).any(has));
        counts.keep_alives += u64::from(has(7));
        counts.window_probes += u64::from(has(8));
        counts.window_updates += u64::from(has(9));
        counts.duplicate_acks += u64::from(has(10));
    }
    counts.tcp = streams.len() as u64;
    counts.sctp = associations.len() as u64;
    counts
}

/// Differences from tshark's counts without a known reason, and known reasons without a difference.
fn compare(case: &Case, folder: &std::path::Path) -> Vec<String> {
    let path = folder.join(format!("{}.pcap", case.name));
    std::fs::write(&path, &case.file).unwrap();
    let theirs = tshark(path.to_str().unwrap());
    let mut wrong = Vec::new();
    let both = case.counts.all().into_iter().zip(theirs.all());
    for (name, (own, their)) in Counts::NAMES.iter().zip(both) {
        let reason = case.differs.iter().find(|(what, _)| what == name);
        if (own != their) != reason.is_some() {
            wrong.push(format!("{}: {name}: {own}, tshark {their}, {reason:?}", case.name));
        }
    }
    wrong
}

#[test]
fn tshark_counts_the_same() {
    if Command::new("tshark").arg("--version").output().is_err() {
        let required = std::env::var("ANABRANCH_REQUIRE_ALL").is_ok_and(|all| all == "1");
        assert!(!required, "missing: tshark");
        return eprintln!("skipped, because missing: tshark");
    }
    // For each link type only IPv4 with TCP and IPv6 with SCTP, because a run of tshark takes a while.
    let is_other =
        |case: &Case| case.name.ends_with("tcp-ipv6") || case.name.ends_with("sctp-ipv4");
    let mut cases = all();
    cases.retain(|case| !is_other(case));
    assert!(cases.len() >= 60, "{}", cases.len());
    let folder = tempfile::tempdir().unwrap();
    let (next, wrong) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while let Some(case) = cases.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let found = compare(case, folder.path());
                    wrong.lock().unwrap().extend(found);
                }
            });
        }
    });
    let wrong = wrong.into_inner().unwrap();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
