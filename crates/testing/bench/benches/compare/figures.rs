//! The figures: the entries of each of them, and its target.

use std::process::Command;

use anabranch_bench::suite::{Options, Target};
use anabranch_peers::transfer::Load;
use anabranch_peers::{Config, Kind, Network, Tuning};
use anabranch_proto::MultipathMode;

use crate::abandon;
use crate::copies;
use crate::cpu::Stopwatch;
use crate::ends::{self, Ends, MANY, SHARED, Task};
use crate::engine;
use crate::handover;
use crate::hashes;
use crate::interleave;
use crate::measure::{self, Copies, Sample};

/// One figure.
#[derive(Debug)]
pub(crate) struct Figure {
    /// Its key in the JSON output.
    pub(crate) key: &'static str,
    /// A description in one line.
    pub(crate) title: &'static str,
    /// The unit of the values.
    pub(crate) unit: &'static str,
    /// The entries. The figure is the ratio of the first to the second one, or the value of the
    /// only one.
    pub(crate) entries: &'static [Entry],
    /// The target of the figure.
    pub(crate) target: Target,
    what: What,
}

/// An entry of a figure.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    /// Its name in the table.
    pub(crate) name: &'static str,
    subject: Subject,
}

#[derive(Clone, Debug)]
enum Subject {
    Engine(Engine),
    Ends(Ends),
    /// anabranch with or without what the figure is about.
    With(bool),
    /// anabranch over this many paths.
    Paths(u8, MultipathMode),
    /// The MACs of the packets alone.
    Hashes,
}

/// An engine with its settings.
#[derive(Clone, Debug)]
struct Engine {
    kind: Kind,
    tuning: Tuning,
    /// RTO.Min in milliseconds, if the engine has this option.
    rto_min: u64,
    /// Receive window in bytes.
    window: usize,
    ordered: bool,
}

/// An entry with the setting of the in-memory figures.
const fn plain(kind: Kind) -> Entry {
    Entry { name: kind.name(), subject: Subject::Engine(setting(kind)) }
}

const fn setting(kind: Kind) -> Engine {
    Engine { kind, tuning: Tuning::Unpaced, rto_min: 1000, window: 1 << 20, ordered: true }
}

/// anabranch with or without what the figure is about.
const fn with(name: &'static str, on: bool) -> Entry {
    Entry { name, subject: Subject::With(on) }
}

/// anabranch over this many paths.
const fn over(name: &'static str, paths: u8, mode: MultipathMode) -> Entry {
    Entry { name, subject: Subject::Paths(paths, mode) }
}

/// An entry of two processes.
const fn two(name: &'static str, ends: Ends) -> Entry {
    Entry { name, subject: Subject::Ends(ends) }
}

const ANABRANCH: Entry = two("anabranch", Ends::Wire("anabranch"));
const QUINN: Entry = two("quinn", Ends::Wire("quinn"));
const USRSCTP: Entry = two("usrsctp", Ends::Usrsctp);
const TCP: Entry = two("kernel TCP", Ends::Wire("tcp"));
const LIMIT: Entry = two("UDP limit", Ends::Wire("limit"));
const UDP: Entry = two("blocking UDP", Ends::Wire("udp"));
const TOKIO_UDP: Entry = two("tokio UDP", Ends::Wire("tokio-udp"));

/// An engine with an RTO.Min of 0.4 s if it has this option, and otherwise with its own defaults.
const fn quick_rto(kind: Kind) -> Entry {
    let engine = Engine { rto_min: 400, tuning: Tuning::Default, ..setting(kind) };
    Entry { name: kind.name(), subject: Subject::Engine(engine) }
}

/// anabranch with a congestion window fixed at the receive window.
const fn windowed(name: &'static str, window: usize, ordered: bool) -> Entry {
    let tuning = Tuning::FixedWindow;
    let engine = Engine { tuning, window, ordered, ..setting(Kind::Anabranch) };
    Entry { name, subject: Subject::Engine(engine) }
}

/// anabranch with other options and an RTO.Min of 1 s.
const fn by_the_book(name: &'static str, tuning: Tuning) -> Entry {
    let engine = Engine { tuning, ..setting(Kind::Anabranch) };
    Entry { name, subject: Subject::Engine(engine) }
}

/// How a figure is measured.
#[derive(Debug)]
enum What {
    /// Megabytes per CPU second.
    Megabytes { message: usize, network: Wire },
    /// Messages per CPU second.
    Messages { message: usize, network: Wire },
    /// CPU nanoseconds per packet that the sender sends, not counting a network that copies.
    PerPacket { message: usize, network: Wire },
    /// Megabytes per virtual second.
    Rate { message: usize },
    /// Two processes on the loopback interface.
    Ends(Task),
    /// Virtual milliseconds that a short message waits.
    ShortMessage,
    /// CPU nanoseconds of the sender for each message that is given.
    GivenMessage,
    /// DATA packets per CPU second over several paths.
    Paths,
    /// Virtual milliseconds without a delivery while a host changes networks.
    Handover,
    /// Virtual milliseconds that small messages need over two lossy paths.
    CopiedMessage,
    /// The part of a bulk transfer that copies beside it take.
    CopiesCost,
    /// The output of the program `idle-bytes`. It is a separate program because its allocator
    /// counts, which would slow down engines in proportion to their allocations.
    IdleBytes,
}

/// The network of a figure.
#[derive(Debug)]
struct Wire {
    loss: f64,
    burst: usize,
}

/// Without loss, the engines are asked for packets to send after every 64 packets that arrived at
/// one instant, like a driver with receive offload. This is the fastest setting for all of them.
/// With loss, 8 is the fastest for rtc-sctp.
const CLEAN: Wire = Wire { loss: 0.0, burst: 64 };
const LOSSY: Wire = Wire { loss: 0.01, burst: 8 };
const LOSSY_OFFLOAD: Wire = Wire { loss: 0.01, burst: 64 };

const IN_MEMORY: &[Entry] =
    &[plain(Kind::Anabranch), plain(Kind::RtcSctp), plain(Kind::DcSctp), plain(Kind::SctpProto)];

const ON_AND_OFF: &[Entry] =
    &[by_the_book("all on", Tuning::RecoveryOn), by_the_book("all off", Tuning::RecoveryOff)];

const I_DATA_AND_DATA: &[Entry] =
    &[by_the_book("I-DATA", Tuning::Interleaved), by_the_book("DATA", Tuning::Unpaced)];

const EXTENSIONS: &[Entry] =
    &[by_the_book("agreed on", Tuning::Unpaced), by_the_book("none", Tuning::NoExtensions)];

const AUTH_OF_REQUESTS: &[Entry] = &[
    by_the_book("requests authenticated", Tuning::AuthenticatedRequests),
    by_the_book("nothing", Tuning::Unpaced),
];

const AUTH_OF_DATA: &[Entry] = &[
    by_the_book("data authenticated", Tuning::AuthenticatedData),
    by_the_book("nothing", Tuning::Unpaced),
    Entry { name: "MACs alone", subject: Subject::Hashes },
];

const PATHS: &[Entry] = &[
    over("two, CMT", 2, MultipathMode::Cmt),
    over("one path", 1, MultipathMode::Off),
    over("two, CMT-PF", 2, MultipathMode::CmtPf),
];

/// Names for several figures.
pub(crate) const GROUPS: &[(&str, &[&str])] = &[(
    "addresses",
    &[
        "engine_1k",
        "idle_bytes",
        "auth_idle",
        "auth_data_16k",
        "handover_gap",
        "copies_p99",
        "copies_cost",
        "multipath",
    ],
)];

/// Every figure, in the order of execution.
pub(crate) const ALL: &[Figure] = &[
    Figure {
        key: "engine_1k",
        title: "1 KB messages in memory, no loss",
        unit: "MB per CPU second",
        entries: IN_MEMORY,
        target: Target::AtLeast(1.3),
        what: What::Megabytes { message: 1024, network: CLEAN },
    },
    Figure {
        key: "engine_16k",
        title: "16 KB messages in memory, no loss",
        unit: "MB per CPU second",
        entries: IN_MEMORY,
        target: Target::AtLeast(1.3),
        what: What::Megabytes { message: 16384, network: CLEAN },
    },
    Figure {
        key: "engine_64",
        title: "64-byte messages in memory, no loss",
        unit: "messages per CPU second",
        entries: IN_MEMORY,
        target: Target::AtLeast(1.3),
        what: What::Messages { message: 64, network: CLEAN },
    },
    Figure {
        key: "engine_1k_loss",
        title: "1 KB messages in memory, 1 % loss",
        unit: "MB per CPU second",
        entries: IN_MEMORY,
        target: Target::AtLeast(1.0),
        what: What::Megabytes { message: 1024, network: LOSSY },
    },
    Figure {
        key: "window_cost",
        title: "16 MB window against 64 KB, 1 % loss",
        unit: "CPU ns per packet",
        // The congestion window is fixed at the receive window: otherwise it would never come near
        // 16 MB at this loss rate. Messages are unordered, to count the work of sending,
        // acknowledging and repairing, but not that of holding messages back for their order, which
        // the other entries show.
        entries: &[
            windowed("16 MB", 16 << 20, false),
            windowed("64 KB", 64 << 10, false),
            windowed("16 MB, ordered", 16 << 20, true),
            windowed("64 KB, ordered", 64 << 10, true),
        ],
        target: Target::AtMost(1.3),
        what: What::PerPacket { message: 1024, network: LOSSY_OFFLOAD },
    },
    Figure {
        key: "idle_bytes",
        title: "one idle association and side: two paths, 1024 streams, 1 MB each way before",
        unit: "allocator bytes",
        entries: &[plain(Kind::Anabranch)],
        target: Target::AtMost(4096.0),
        what: What::IdleBytes,
    },
    Figure {
        key: "recovery_cost_1k",
        title: "recovery of thin flows, bundling and cache: all on and all off, 1 KB messages, no loss",
        unit: "MB per CPU second",
        entries: ON_AND_OFF,
        target: Target::AtLeast(0.97),
        what: What::Megabytes { message: 1024, network: CLEAN },
    },
    Figure {
        key: "recovery_cost_16k",
        title: "the same with 16 KB messages",
        unit: "MB per CPU second",
        entries: ON_AND_OFF,
        target: Target::AtLeast(0.97),
        what: What::Megabytes { message: 16384, network: CLEAN },
    },
    Figure {
        key: "recovery_cost_loss1",
        title: "the same with 1 KB messages and 1 % loss",
        unit: "MB per CPU second",
        entries: ON_AND_OFF,
        target: Target::AtLeast(0.97),
        what: What::Megabytes { message: 1024, network: LOSSY },
    },
    Figure {
        key: "idata_1k",
        title: "1 KB messages in I-DATA against DATA",
        unit: "MB per CPU second",
        entries: I_DATA_AND_DATA,
        target: Target::AtLeast(0.95),
        what: What::Megabytes { message: 1024, network: CLEAN },
    },
    Figure {
        key: "idata_16k",
        title: "16 KB messages in I-DATA against DATA",
        unit: "MB per CPU second",
        entries: I_DATA_AND_DATA,
        target: Target::AtLeast(0.95),
        what: What::Megabytes { message: 16384, network: CLEAN },
    },
    Figure {
        key: "extensions_idle",
        title: "1 KB messages, partial reliability and stream reset agreed on and not used",
        unit: "MB per CPU second",
        entries: EXTENSIONS,
        target: Target::AtLeast(0.99),
        what: What::Megabytes { message: 1024, network: CLEAN },
    },
    Figure {
        key: "auth_idle",
        title: "1 KB messages, authentication agreed on for requests",
        unit: "MB per CPU second",
        entries: AUTH_OF_REQUESTS,
        target: Target::AtLeast(0.99),
        what: What::Megabytes { message: 1024, network: CLEAN },
    },
    Figure {
        key: "auth_data_16k",
        title: "16 KB messages, all data authenticated with SHA-256",
        unit: "MB per CPU second",
        entries: AUTH_OF_DATA,
        target: Target::AtLeast(0.45),
        what: What::Megabytes { message: 16384, network: CLEAN },
    },
    Figure {
        key: "handover_gap",
        title: "longest gap while a host changes from a network of 20 ms to one of 60 ms, 20 Mb/s",
        unit: "virtual ms",
        entries: &[with("make first", true)],
        // Two round trips of the new network.
        target: Target::AtMost(120.0),
        what: What::Handover,
    },
    Figure {
        key: "copies_p99",
        title: "256 bytes over paths of 20 and 30 ms that lose 3 %, copied or on the better one: slowest of a hundred",
        unit: "virtual ms",
        entries: &[with("copies", true), with("better path", false)],
        target: Target::AtMost(0.35),
        what: What::CopiedMessage,
    },
    Figure {
        key: "copies_cost",
        title: "part that a bulk transfer beside them loses, at most the share that is set for copies",
        unit: "",
        entries: &[with("copies", true)],
        target: Target::AtMost(0.25),
        what: What::CopiesCost,
    },
    Figure {
        key: "multipath",
        title: "messages of 1,400 bytes in memory over two paths and over one",
        unit: "packets per CPU second",
        entries: PATHS,
        target: Target::AtLeast(0.7),
        what: What::Paths,
    },
    Figure {
        key: "interleave_p99",
        title: "100 bytes beside 64 MB in messages of 1 MB, 10 Mb/s, 40 ms, priority: slowest of a hundred",
        unit: "virtual ms",
        entries: &[with("I-DATA", true), with("DATA", false)],
        target: Target::AtMost(0.1),
        what: What::ShortMessage,
    },
    Figure {
        key: "abandon_cpu",
        title: "a sender that gives up 99 % of its messages of 1 KB, and one that delivers all",
        unit: "CPU ns per message",
        entries: &[with("given up", true), with("delivered", false)],
        target: Target::AtMost(2.0),
        what: What::GivenMessage,
    },
    Figure {
        key: "recovery_loss1",
        title: "1 % loss, RTT 1 ms, RTO.Min 0.4 s (rtc-sctp has 1 s)",
        unit: "MB per virtual second",
        entries: &[
            quick_rto(Kind::Anabranch),
            quick_rto(Kind::DcSctp),
            quick_rto(Kind::RtcSctp),
            quick_rto(Kind::SctpProto),
            by_the_book("RFC 9260", Tuning::Rfc9260),
            by_the_book("the same, MFR", Tuning::Rfc9260MultipleFastRetransmit),
        ],
        target: Target::AtLeast(1.0),
        what: What::Rate { message: 1024 },
    },
    Figure {
        key: "loopback_vs_quinn",
        title: "two processes on loopback, 16 KB messages, IP packets of 1500 bytes",
        unit: "MB/s",
        entries: &[ANABRANCH, QUINN],
        target: Target::AtLeast(2.0),
        what: What::Ends(Task::Bulk { message: 16384 }),
    },
    Figure {
        key: "loopback_vs_usrsctp",
        title: "the same compared with usrsctp",
        unit: "MB/s",
        entries: &[ANABRANCH, USRSCTP],
        target: Target::AtLeast(10.0),
        what: What::Ends(Task::Bulk { message: 16384 }),
    },
    Figure {
        key: "share_of_limit",
        title: "the same compared with UDP batches with one copy and one CRC for each packet and side",
        unit: "MB/s",
        entries: &[ANABRANCH, LIMIT],
        target: Target::Aim(0.58),
        what: What::Ends(Task::Bulk { message: 16384 }),
    },
    Figure {
        key: "share_of_tcp",
        title: "the same compared with the kernel's TCP with writes of 16 KB",
        unit: "MB/s",
        entries: &[ANABRANCH, TCP],
        target: Target::Aim(1.8),
        what: What::Ends(Task::Bulk { message: 16384 }),
    },
    Figure {
        key: "loopback_1k",
        title: "two processes on loopback, 1 KB messages",
        unit: "MB/s",
        entries: &[ANABRANCH, QUINN, USRSCTP, TCP],
        target: Target::None,
        what: What::Ends(Task::Bulk { message: 1024 }),
    },
    Figure {
        key: "loopback_64",
        title: "two processes on loopback, 64-byte messages",
        unit: "MB/s",
        entries: &[ANABRANCH, QUINN, USRSCTP, TCP],
        target: Target::None,
        what: What::Ends(Task::Bulk { message: 64 }),
    },
    Figure {
        key: "loopback_native",
        title: "16 KB messages over IP protocol 132 (needs CAP_NET_RAW)",
        unit: "MB/s",
        entries: &[two("IP protocol 132", Ends::Wire("native")), ANABRANCH],
        target: Target::None,
        what: What::Ends(Task::Bulk { message: 16384 }),
    },
    Figure {
        key: "ping_p50",
        title: "round trip of 64 bytes, median, each process on a CPU of its own",
        unit: "us",
        entries: &[ANABRANCH, UDP, TOKIO_UDP],
        target: Target::AtMost(1.4),
        what: What::Ends(Task::Ping { slowest: false }),
    },
    Figure {
        key: "ping_p99",
        title: "the same, slowest of a hundred",
        unit: "us",
        entries: &[ANABRANCH, UDP, TOKIO_UDP],
        target: Target::AtMost(1.6),
        what: What::Ends(Task::Ping { slowest: true }),
    },
    Figure {
        key: "ping_busy",
        title: "median round trip of 64 bytes with busy polling, each process on a CPU of its own",
        unit: "us",
        entries: &[two("anabranch", Ends::Wire("anabranch-busy")), UDP],
        target: Target::AtMost(0.6),
        what: What::Ends(Task::Ping { slowest: false }),
    },
    Figure {
        key: "ping_multi",
        title: "median round trip of 64 bytes on a runtime of several threads",
        unit: "us",
        entries: &[
            two("anabranch", Ends::WireMulti("anabranch")),
            two("tokio UDP", Ends::WireMulti("tokio-udp")),
        ],
        target: Target::None,
        what: What::Ends(Task::Ping { slowest: false }),
    },
    Figure {
        key: "many_seconds",
        title: "10,000 associations on one endpoint connect and move 10 KB each way",
        unit: "s",
        entries: &[two("anabranch", Ends::Crowded(MANY))],
        target: Target::None,
        what: What::Ends(Task::ManySeconds),
    },
    Figure {
        key: "many_rss",
        title: "memory of the process with 10,000 associations",
        unit: "MB",
        entries: &[two("anabranch", Ends::Crowded(MANY))],
        target: Target::None,
        what: What::Ends(Task::ManyMemory),
    },
    Figure {
        key: "ping_with_idle",
        title: "median round trip of 64 bytes beside 10,000 idle associations",
        unit: "us",
        entries: &[two("beside 10,000", Ends::Crowded(MANY)), two("alone", Ends::Crowded(1))],
        target: Target::AtMost(1.1),
        what: What::Ends(Task::Ping { slowest: false }),
    },
    Figure {
        key: "fairness",
        title: "Jain's index of 100 bulk associations over one loopback interface",
        unit: "",
        entries: &[two("anabranch", Ends::Crowded(SHARED))],
        target: Target::AtLeast(0.95),
        what: What::Ends(Task::Fairness),
    },
];

/// The results of a figure: for each entry the samples, in the order of the rounds.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) samples: Vec<Vec<Sample>>,
}

impl Outcome {
    /// The ratio of an entry to the second one, the baseline, in each round.
    pub(crate) fn ratios(&self, entry: usize) -> Vec<f64> {
        let (Some(samples), Some(baseline)) = (self.samples.get(entry), self.samples.get(1)) else {
            return Vec::new();
        };
        samples.iter().zip(baseline).map(|(a, b)| a.value / b.value).collect()
    }
}

impl Figure {
    /// Measures the figure.
    pub(crate) fn measure(&self, options: &Options) -> Result<Outcome, String> {
        let mut samples: Vec<Vec<Sample>> = self.entries.iter().map(|_| Vec::new()).collect();
        match self.what {
            What::Rate { message } => {
                for (entry, samples) in self.entries.iter().zip(&mut samples) {
                    *samples = rates(entry.engine()?, message, options)?;
                }
            }
            What::Ends(task) => {
                for _ in 0..options.runs {
                    for (entry, samples) in self.entries.iter().zip(&mut samples) {
                        samples.push(ends::sample(entry.ends()?, task, options)?);
                    }
                }
            }
            What::ShortMessage => {
                for (entry, samples) in self.entries.iter().zip(&mut samples) {
                    let value = interleave::slowest(entry.with()?)?;
                    samples.push(Sample { value, cpu: 0.0, notes: Vec::new() });
                }
            }
            What::GivenMessage => {
                for _ in 0..options.runs {
                    for (entry, samples) in self.entries.iter().zip(&mut samples) {
                        samples.push(abandon::cost(entry.with()?, options.quick)?);
                    }
                }
            }
            What::IdleBytes => samples = vec![vec![idle_bytes()?]],
            What::Handover => samples = vec![vec![handover::gap()?]],
            What::CopiesCost => samples = vec![vec![copies::cost(options.quick)?]],
            What::CopiedMessage => {
                for (entry, samples) in self.entries.iter().zip(&mut samples) {
                    let value = copies::p99(entry.with()?, options.quick)?;
                    samples.push(Sample { value, cpu: 0.0, notes: Vec::new() });
                }
            }
            What::Paths => samples = over_paths(self.entries, options)?,
            _ => {
                // The first round does not count: it lets the allocator get its memory.
                for turn in 0..=options.runs {
                    for (entry, samples) in self.entries.iter().zip(&mut samples) {
                        let sample = match entry.subject {
                            Subject::Hashes => hashes::rate(cpu_seconds(options))?,
                            _ => self.sample(entry.engine()?, options)?,
                        };
                        if turn > 0 {
                            samples.push(sample);
                        }
                    }
                }
            }
        }
        Ok(Outcome { samples })
    }

    fn sample(&self, entry: &Engine, options: &Options) -> Result<Sample, String> {
        let (message, wire) = match &self.what {
            What::Megabytes { message, network }
            | What::Messages { message, network }
            | What::PerPacket { message, network } => (*message, network),
            What::Rate { .. }
            | What::IdleBytes
            | What::Ends(_)
            | What::ShortMessage
            | What::GivenMessage
            | What::Paths
            | What::Handover
            | What::CopiedMessage
            | What::CopiesCost => {
                return Err("is not measured in CPU time".into());
            }
        };
        let network = Network { loss: wire.loss, burst: wire.burst, ..Network::default() };
        let mut config = entry.config();
        if message < 256 {
            // rtc-sctp is a third faster if fewer small messages wait in its queues; for longer
            // messages it makes no difference.
            config.send_buffer = 256 << 10;
        }
        let load = Load { ordered: entry.ordered, ..Load::messages_of(message) };
        let seconds = cpu_seconds(options);
        let copies = match self.what {
            What::PerPacket { .. } => Copies::Uncounted,
            _ => Copies::None,
        };
        let work = measure::work(entry.kind, &config, network, copies, &load, seconds)?;
        let mut notes = Vec::new();
        if copies == Copies::Uncounted {
            notes.push(("copying_ns", work.copying * 1e9 / work.packets as f64));
        }
        let value = match self.what {
            What::Messages { .. } => work.messages as f64 / work.cpu,
            What::PerPacket { .. } => work.cpu * 1e9 / work.packets as f64,
            _ => work.bytes as f64 / 1e6 / work.cpu,
        };
        Ok(Sample { value, cpu: work.cpu, notes })
    }
}

impl Entry {
    fn engine(&self) -> Result<&Engine, String> {
        match &self.subject {
            Subject::Engine(engine) => Ok(engine),
            _ => Err(format!("{} is not an engine", self.name)),
        }
    }

    fn ends(&self) -> Result<Ends, String> {
        match &self.subject {
            Subject::Ends(ends) => Ok(*ends),
            _ => Err(format!("{} is not a pair of processes", self.name)),
        }
    }

    fn with(&self) -> Result<bool, String> {
        match &self.subject {
            Subject::With(on) => Ok(*on),
            _ => Err(format!("{} is nothing to turn on or off", self.name)),
        }
    }
}

impl Engine {
    fn config(&self) -> Config {
        Config {
            anabranch: self.tuning,
            rto_min: self.rto_min,
            receive_window: self.window,
            send_buffer: 2 * self.window,
            ..Config::default()
        }
    }
}

/// CPU seconds of a run.
fn cpu_seconds(options: &Options) -> f64 {
    if options.quick { 0.05 } else { 0.5 }
}

fn over_paths(entries: &[Entry], options: &Options) -> Result<Vec<Vec<Sample>>, String> {
    let pair = |entry: &Entry| match entry.subject {
        Subject::Paths(paths, mode) => engine::Pair::new(paths, mode),
        _ => Err(format!("{} is not a number of paths", entry.name)),
    };
    let mut pairs = entries.iter().map(pair).collect::<Result<Vec<_>, _>>()?;
    let mut samples = vec![Vec::new(); pairs.len()];
    for _ in 0..options.runs {
        for (pair, samples) in pairs.iter_mut().zip(&mut samples) {
            let watch = Stopwatch::start();
            let value = engine::measure(pair, options.quick)?;
            let notes = vec![("first_path", pair.first_share().unwrap_or(0.0))];
            samples.push(Sample { value, cpu: watch.seconds(), notes });
        }
    }
    Ok(samples)
}

fn rates(entry: &Engine, message: usize, options: &Options) -> Result<Vec<Sample>, String> {
    let (seconds, seeds) = if options.quick { (10, 3) } else { (100, 10) };
    let seeds: Vec<u64> = (1..=seeds).collect();
    let network = Network { loss: 0.01, ..Network::default() };
    let load = Load::messages_of(message);
    measure::rates(entry.kind, &entry.config(), &network, &load, seconds, &seeds)
}

fn idle_bytes() -> Result<Sample, String> {
    let program = env!("CARGO_BIN_EXE_idle-bytes");
    let output = Command::new(program).output().map_err(|e| format!("{program}: {e}"))?;
    let text = String::from_utf8_lossy(&output.stdout);
    match text.trim().parse() {
        Ok(value) if output.status.success() => Ok(Sample { value, cpu: 0.0, notes: Vec::new() }),
        _ => Err(format!("{program}: {}", String::from_utf8_lossy(&output.stderr).trim())),
    }
}
