//! Captures and their true counts.

use super::files::{Frame, LINKS, Ng, Wrap, cooked2, frames, pcap, without_length};
use super::packets::{Sctp, Talk, Tcp, Timed, chunk, ip4, ip6};

/// The counts of a capture.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) tcp: u64,
    pub(crate) sctp: u64,
    /// Data, SYNs and FINs that were retransmitted or reordered.
    pub(crate) again: u64,
    pub(crate) keep_alives: u64,
    pub(crate) window_probes: u64,
    pub(crate) window_updates: u64,
    pub(crate) duplicate_acks: u64,
}

impl Counts {
    pub(crate) const NAMES: [&'static str; 7] = [
        "tcp",
        "sctp",
        "again",
        "keep-alives",
        "window probes",
        "window updates",
        "duplicate acks",
    ];

    pub(crate) fn all(&self) -> [u64; 7] {
        [
            self.tcp,
            self.sctp,
            self.again,
            self.keep_alives,
            self.window_probes,
            self.window_updates,
            self.duplicate_acks,
        ]
    }
}

/// A capture.
pub(crate) struct Case {
    pub(crate) name: String,
    pub(crate) file: Vec<u8>,
    pub(crate) counts: Counts,
    /// Counts that differ in tshark: the name of the count, and the reason.
    pub(crate) differs: Vec<(&'static str, &'static str)>,
    /// Packets that are part of no flow.
    pub(crate) left_out: u64,
}

const WHOLE: Counts = Counts {
    tcp: 1,
    sctp: 0,
    again: 2,
    keep_alives: 2,
    window_probes: 3,
    window_updates: 1,
    duplicate_acks: 4,
};
const ASSOCIATION: Counts = Counts {
    tcp: 0,
    sctp: 1,
    again: 2,
    keep_alives: 0,
    window_probes: 0,
    window_updates: 0,
    duplicate_acks: 0,
};
const CONNECTION: Counts = Counts {
    tcp: 1,
    sctp: 0,
    again: 0,
    keep_alives: 0,
    window_probes: 0,
    window_updates: 0,
    duplicate_acks: 0,
};

fn case(name: &str, file: Vec<u8>, counts: Counts) -> Case {
    Case { name: name.to_owned(), file, counts, differs: Vec::new(), left_out: 0 }
}

impl Case {
    fn but(mut self, what: &'static str, why: &'static str) -> Self {
        self.differs.push((what, why));
        self
    }

    fn left_out(mut self, packets: u64) -> Self {
        self.left_out = packets;
        self
    }
}

const ETHERNET: Wrap = LINKS[0].2;

fn ethernet(packets: &[Timed]) -> Vec<u8> {
    pcap(1, &frames(packets, ETHERNET))
}

/// Every link type and tunnel with IPv4 and IPv6, TCP and SCTP.
fn links() -> Vec<Case> {
    let mut cases = Vec::new();
    for (name, link, wrap) in LINKS {
        for v6 in [false, true] {
            let family = if v6 { "ipv6" } else { "ipv4" };
            let tcp = pcap(*link, &frames(&Tcp::new(Talk::new(v6)).whole(), *wrap));
            let sctp = pcap(*link, &frames(&Sctp::new(Talk::new(v6)).whole(), *wrap));
            cases.push(case(&format!("{name}-tcp-{family}"), tcp, WHOLE));
            cases.push(case(&format!("{name}-sctp-{family}"), sctp, ASSOCIATION));
        }
    }
    cases
}

/// Other file types with the same packets.
fn kinds_of_files() -> Vec<Case> {
    let packets = Tcp::new(Talk::new(false)).whole();
    let all = frames(&packets, ETHERNET);
    let mut cases = Vec::new();
    let mut add = |name: &str, file: Vec<u8>| cases.push(case(name, file, WHOLE));
    for (big, name) in [(false, "pcapng"), (true, "pcapng-big-endian")] {
        let mut ng = Ng::new(big, &[1]);
        all.iter().for_each(|frame| ng.enhanced(frame));
        add(name, ng.file);
    }
    for (big, name) in [(false, "old-packet-blocks"), (true, "old-packet-blocks-big-endian")] {
        let mut ng = Ng::new(big, &[1]);
        all.iter().for_each(|frame| ng.old(frame));
        add(name, ng.file);
    }
    let mut ng = Ng::new(false, &[1]);
    for (index, frame) in all.iter().enumerate() {
        match index % 2 {
            0 => ng.enhanced(frame),
            _ => ng.old(frame),
        }
    }
    add("blocks-old-and-new", ng.file);
    let mut ng = Ng::new(true, &[1]);
    for (index, frame) in all.iter().enumerate() {
        if index == 8 {
            ng.section(false, &[1]);
        }
        ng.enhanced(frame);
    }
    add("two-sections", ng.file);
    // Without times a timeout cannot be recognised, but it is still a retransmission.
    let mut ng = Ng::new(false, &[1]);
    all.iter().for_each(|frame| ng.simple(frame));
    add("simple-packet-blocks", ng.file);
    cases
}

/// Captures with unusual lengths.
fn lengths() -> Vec<Case> {
    const CUT: &str = "tshark does not analyze a segment or chunk that is cut off in its header";
    let mut cases = Vec::new();
    let mut tcp = Tcp::new(Talk::new(false));
    tcp.options = [&[1, 1, 8, 10][..], &[0, 0, 0, 1, 0, 0, 0, 1]].concat();
    let packets = tcp.whole();
    for snapshot in [54, 60, 70, 100] {
        let mut cut = frames(&packets, ETHERNET);
        cut.iter_mut().for_each(|frame| frame.captured = frame.captured.min(snapshot));
        let mut case = case(&format!("snapshot-{snapshot}"), pcap(1, &cut), WHOLE);
        if snapshot < 66 {
            let names = &Counts::NAMES[2..];
            case.differs.extend(names.iter().map(|name| (*name, CUT)));
        }
        cases.push(case);
    }
    let mut cut = frames(&Sctp::new(Talk::new(false)).whole(), ETHERNET);
    cut.iter_mut().for_each(|frame| frame.captured = frame.captured.min(78));
    cases.push(case("snapshot-sctp", pcap(1, &cut), ASSOCIATION).but("again", CUT));
    let mut packets = Tcp::new(Talk::new(false)).whole();
    without_length(&mut packets);
    cases.push(case("offload-ipv4", ethernet(&packets), WHOLE));
    let mut tcp = Tcp::new(Talk::new(true));
    tcp.open();
    for _ in 0..3 {
        let (at, head) = (tcp.talk.packets.len(), [6, 0, 0xc2, 4]);
        tcp.data(tcp.next, 70_000);
        let ip = &mut tcp.talk.packets[at].2;
        let length = (ip.len() - 40 + 8) as u32;
        let payload = ip.split_off(40);
        ip.extend(head);
        ip.extend(length.to_be_bytes());
        ip.extend(payload);
        ip[4..7].copy_from_slice(&[0, 0, 0]);
        tcp.next += 70_000;
        tcp.talk.wait(20);
        tcp.ack(tcp.next, 65_535);
    }
    cases.push(case("jumbograms", ethernet(&tcp.talk.packets), CONNECTION));
    cases
}

/// Cuts IP packets into fragments of 48 bytes of payload.
fn cut(packets: &[Timed]) -> Vec<Timed> {
    let mut cut = Vec::new();
    for (index, (time, back, ip)) in packets.iter().enumerate() {
        let is_v6 = ip[0] >> 4 == 6;
        let head = if is_v6 { 40 } else { 20 };
        let (payload, id) = (&ip[head..], index as u16 + 1);
        let parts = payload.chunks(48).count();
        for (number, part) in payload.chunks(48).enumerate() {
            let (offset, more) = (number * 48, number + 1 < parts);
            let fragment = if is_v6 {
                let place = (offset as u16 | u16::from(more)).to_be_bytes();
                let head = [&[ip[6], 0], &place[..], &[0, 0], &id.to_be_bytes()].concat();
                let ends = (ip[8..24].try_into().unwrap(), ip[24..40].try_into().unwrap());
                ip6(ends, 44, &[&head, part].concat())
            } else {
                let flags = (offset as u16 / 8) | if more { 0x2000 } else { 0 };
                let ends = (ip[12..16].try_into().unwrap(), ip[16..20].try_into().unwrap());
                ip4(ends, ip[9], id, flags, part)
            };
            cut.push((*time + number as u64, *back, fragment));
        }
    }
    cut
}

fn fragments() -> Vec<Case> {
    let mut cases = Vec::new();
    for (v6, family) in [(false, "ipv4"), (true, "ipv6")] {
        let tcp = cut(&Tcp::new(Talk::new(v6)).whole());
        let sctp = cut(&Sctp::new(Talk::new(v6)).whole());
        cases.push(case(&format!("fragments-tcp-{family}"), ethernet(&tcp), WHOLE));
        cases.push(case(&format!("fragments-sctp-{family}"), ethernet(&sctp), ASSOCIATION));
    }
    let mut lost = cut(&Sctp::new(Talk::new(false)).whole());
    // The second fragment of the first DATA chunk never arrives: only the retransmission would show the chunk, and it
    // is not in this capture.
    let second = lost.iter().position(|(.., ip)| ip.len() > 60 && ip[7] != 0).unwrap();
    lost.remove(second);
    lost.truncate(second);
    let packets = lost.len() as u64;
    let read = ethernet(&lost);
    let left_out = packets - 4;
    let counts = Counts { sctp: 1, ..Counts::default() };
    cases.push(case("fragments-missing", read, counts).left_out(left_out));
    cases
}

/// Ports and addresses that are reused, and the same ones at several places.
fn flows() -> Vec<Case> {
    let mut cases = Vec::new();
    let two = |second: fn(&mut Tcp)| {
        let mut tcp = Tcp::new(Talk::new(false));
        tcp.open();
        tcp.send(5);
        second(&mut tcp);
        tcp.next = 0;
        tcp.open();
        tcp.send(5);
        ethernet(&tcp.talk.packets)
    };
    let counts = Counts { tcp: 2, ..CONNECTION };
    let file = two(|tcp| {
        tcp.close();
        tcp.initial = (2_000_000, 3_000_000_000);
    });
    cases.push(case("ports-again-after-fin", file, counts));
    let file = two(|tcp| tcp.initial = (4_000_000_000, 7));
    cases.push(case("ports-again-without-end", file, counts));
    let mut tcp = Tcp::new(Talk::new(false));
    tcp.segment(false, 2, -1, 0, 65_535, &[]);
    tcp.talk.wait(1000);
    tcp.open();
    tcp.send(5);
    let counts = Counts { again: 1, ..CONNECTION };
    cases.push(case("syn-again", ethernet(&tcp.talk.packets), counts));

    let association = |end: fn(&mut Sctp)| {
        let mut sctp = Sctp::new(Talk::new(false));
        sctp.open();
        sctp.send(5);
        end(&mut sctp);
        sctp.next = 2_000_000_000;
        sctp.tags = (0x1111_2222, 0x3333_4444);
        sctp.open();
        sctp.send(5);
        ethernet(&sctp.talk.packets)
    };
    let counts = Counts { sctp: 2, ..Counts::default() };
    cases.push(case("association-again", association(Sctp::close), counts));
    cases.push(case(
        "association-after-abort",
        association(|s| s.say(false, &[chunk(6, 0, &[])])),
        counts,
    ));
    cases.push(case("association-restarts", association(|_| ()), counts));
    cases.extend(places());
    cases
}

fn places() -> Vec<Case> {
    const NO_PLACES: &str = "tshark tells connections apart by addresses and ports alone";
    const NO_TAGS: &str =
        "tshark tells associations apart by ports and tags alone, wherever they are";
    let mut cases = Vec::new();
    let mut tcp = Tcp::new(Talk::new(false));
    tcp.open();
    tcp.send(10);
    tcp.close();
    let packets = &tcp.talk.packets;
    let twice = |place: fn(&mut Frame, &[u8], bool)| {
        let mut all = Vec::new();
        for (time, back, ip) in packets {
            for (copy, mut frame) in
                frames(&[(*time, *back, ip.clone())], ETHERNET).into_iter().cycle_twice()
            {
                frame.time += copy;
                frame.interface = copy as u32;
                if copy == 1 {
                    place(&mut frame, ip, *back);
                }
                all.push(frame);
            }
        }
        all
    };
    let counts = Counts { tcp: 2, ..CONNECTION };
    let mut ng = Ng::new(false, &[1, 1]);
    twice(|_, _, _| ()).iter().for_each(|frame| ng.enhanced(frame));
    let differs = |case: Case| {
        case.but("tcp", NO_PLACES).but("again", NO_PLACES).but("duplicate acks", NO_PLACES)
    };
    cases.push(differs(case("two-interfaces", ng.file, counts)));
    let vlan = twice(|frame, ip, back| {
        frame.bytes = (LINKS[3].2)(ip, back);
        frame.captured = frame.bytes.len();
    });
    cases.push(differs(case("two-vlans", pcap(1, &vlan), counts)));
    let mut devices = Vec::new();
    for (time, back, ip) in packets {
        for device in [2, 3] {
            let bytes = cooked2(device, &[8, 0], ip, *back);
            let time = time + u64::from(device);
            devices.push(Frame { time, interface: 0, captured: bytes.len(), bytes });
        }
    }
    cases.push(differs(case("two-devices", pcap(276, &devices), counts)));

    let encapsulated = |port: u16, tags: (u32, u32), next: u32| {
        let mut sctp = Sctp::new(Talk::new(false));
        (sctp.ports, sctp.tags, sctp.next) = ((5000, 5000), tags, next);
        sctp.talk.udp = Some((port, 9899));
        sctp.talk.now += u64::from(port);
        sctp.open();
        sctp.send(5);
        sctp.talk.packets
    };
    let mut both = encapsulated(40_001, (7, 8), 3_000_000_000);
    both.extend(encapsulated(40_002, (9, 10), 1_000_000));
    both.sort_by_key(|(time, ..)| *time);
    let counts = Counts { sctp: 2, ..Counts::default() };
    cases.push(case("two-udp-ports", ethernet(&both), counts));
    let mut both = encapsulated(40_001, (7, 8), 3_000_000_000);
    both.extend(encapsulated(40_002, (7, 8), 1_000_000));
    both.sort_by_key(|(time, ..)| *time);
    cases.push(case("two-udp-ports-same-tags", ethernet(&both), counts).but("sctp", NO_TAGS));
    cases
}

trait CycleTwice: Iterator + Sized {
    fn cycle_twice(self) -> impl Iterator<Item = (u64, Frame)>;
}

impl<I: Iterator<Item = Frame>> CycleTwice for I {
    fn cycle_twice(self) -> impl Iterator<Item = (u64, Frame)> {
        self.flat_map(|frame| {
            let Frame { time, interface, ref bytes, captured } = frame;
            let copy = Frame { time, interface, bytes: bytes.clone(), captured };
            [(0, frame), (1, copy)]
        })
    }
}

/// An association with two paths, at one interface or each at a separate one.
fn paths() -> Vec<Case> {
    let mut cases = Vec::new();
    for (interfaces, name) in [(1, "two-paths"), (2, "two-paths-two-interfaces")] {
        let mut sctp = Sctp::new(Talk::new(false));
        sctp.open_at([&[0, 5, 0, 8, 10, 1, 0, 1], &[0, 5, 0, 8, 10, 1, 0, 2]]);
        let first = sctp.talk.hosts;
        for _ in 0..5 {
            sctp.send(1);
            sctp.talk.hosts = [[10, 1, 0, 1].into(), [10, 1, 0, 2].into()];
            sctp.send(1);
            sctp.talk.hosts = first;
        }
        let mut all = frames(&sctp.talk.packets, ETHERNET);
        let mut ng = Ng::new(false, &vec![1; interfaces]);
        for (frame, (.., ip)) in all.iter_mut().zip(&sctp.talk.packets) {
            frame.interface = u32::from(interfaces == 2 && ip[13] == 1);
            ng.enhanced(frame);
        }
        cases.push(case(name, ng.file, Counts { sctp: 1, ..Counts::default() }));
    }
    cases
}

/// A connection with some data, and the packets after it.
fn after_data(name: &str, talk: fn(&mut Tcp), counts: Counts) -> Case {
    let mut tcp = Tcp::new(Talk::new(false));
    tcp.open();
    tcp.send(2);
    talk(&mut tcp);
    case(name, ethernet(&tcp.talk.packets), counts)
}

fn keep_alives() -> Vec<Case> {
    let counts = Counts { keep_alives: 5, ..CONNECTION };
    let timeout = |tcp: &mut Tcp| {
        (0..5).for_each(|_| tcp.keep_alive(0));
        tcp.talk.wait(10_000);
        tcp.time_out();
    };
    vec![
        after_data("keep-alives-empty", |tcp| (0..5).for_each(|_| tcp.keep_alive(0)), counts),
        after_data("keep-alives-byte", |tcp| (0..5).for_each(|_| tcp.keep_alive(1)), counts),
        after_data("keep-alives-then-timeout", timeout, Counts { again: 1, ..counts }),
    ]
}

fn windows() -> Vec<Case> {
    const LINUX: &str =
        "Linux probes a window with an empty segment, which tshark takes for a keep-alive";
    let taken = |tcp: &mut Tcp| {
        tcp.ack(tcp.next, 0);
        tcp.talk.wait(300);
        tcp.data(tcp.next, 1);
        tcp.talk.wait(20);
        tcp.next += 1;
        tcp.ack(tcp.next, 65_535);
        tcp.send(3);
    };
    let updates = |tcp: &mut Tcp| {
        for n in 1..4 {
            tcp.talk.wait(5);
            tcp.ack(tcp.next, 10_000 * n);
        }
        tcp.send(1);
    };
    let linux = |tcp: &mut Tcp| {
        tcp.ack(tcp.next, 0);
        for _ in 0..3 {
            tcp.talk.wait(300);
            tcp.segment(false, 16, i64::from(tcp.next) - 1, 0, 65_535, &[]);
            tcp.talk.wait(20);
            tcp.ack(tcp.next, 0);
        }
        tcp.ack(tcp.next, 65_535);
        tcp.send(1);
    };
    let counts =
        |window_probes, window_updates| Counts { window_probes, window_updates, ..CONNECTION };
    vec![
        after_data("window-probes", |tcp| tcp.probe(4), counts(4, 1)),
        after_data("window-probe-taken", taken, counts(1, 0)),
        after_data("window-updates", updates, counts(0, 3)),
        after_data("window-probes-of-linux", linux, counts(3, 1))
            .but("keep-alives", LINUX)
            .but("window probes", LINUX),
        window_probes_of_sctp(),
    ]
}

fn window_probes_of_sctp() -> Case {
    const NO_PROBES: &str = "tshark has no name for window probes of SCTP";
    let mut sctp = Sctp::new(Talk::new(false));
    sctp.open();
    sctp.send(4);
    sctp.sack(sctp.next - 1, 0, &[]);
    for n in 0..4 {
        sctp.talk.wait(1000 << n);
        sctp.data(sctp.next);
        sctp.talk.wait(20);
        sctp.sack(sctp.next - 1, 0, &[]);
    }
    let counts = Counts { sctp: 1, window_probes: 4, ..Counts::default() };
    let probes = case("window-probes-sctp", ethernet(&sctp.talk.packets), counts);
    probes.but("again", NO_PROBES).but("window probes", NO_PROBES)
}

fn acknowledgements() -> Vec<Case> {
    const ALWAYS: &str =
        "without outstanding data it is no duplicate acknowledgement (RFC 5681 section 2)";
    let lost = Counts { again: 1, duplicate_acks: 4, ..CONNECTION };
    let idle = |tcp: &mut Tcp| (0..3).for_each(|_| tcp.ack(tcp.next, 65_535));
    vec![
        after_data("fast-retransmission", Tcp::lose, lost),
        after_data("repeated-without-data", idle, CONNECTION).but("duplicate acks", ALWAYS),
    ]
}

/// Sequence numbers that begin or continue in unusual ways.
fn numbers() -> Vec<Case> {
    let mut fast = Tcp::new(Talk::new(false));
    fast.segment(false, 2, -1, 0, 65_535, &[b'x'; 300]);
    fast.talk.wait(20);
    fast.segment(true, 18, -1, 300, 65_535, &[]);
    fast.segment(false, 16, 300, 0, 65_535, &[]);
    fast.next = 300;
    fast.send(3);
    let mut tcp = Tcp::new(Talk::new(false));
    tcp.initial = (u32::MAX - 500, 5000);
    tcp.open();
    tcp.send(10);
    let mut sctp = Sctp::new(Talk::new(false));
    sctp.next = u32::MAX - 5;
    vec![
        case("fast-open", ethernet(&fast.talk.packets), CONNECTION),
        case("sequence-wraps", ethernet(&tcp.talk.packets), CONNECTION),
        case("tsn-wraps", ethernet(&sctp.whole()), ASSOCIATION),
    ]
}

/// All captures.
pub(crate) fn all() -> Vec<Case> {
    let packets = [links(), kinds_of_files(), lengths(), fragments(), flows(), paths()];
    let signals = [keep_alives(), windows(), acknowledgements(), numbers()];
    packets.into_iter().chain(signals).flatten().collect()
}
