//! One experiment described by a scenario file, checked and in base units: the network, the association, the traffic
//! and the events.
//!
//! Reading is separate from running. A [`Setup`] is plain data, and every error is reported before anything runs.

mod addresses;
mod association;
mod cross;
mod events;
mod grid;
mod network;
mod page;
mod program;
mod queue;
mod stack;
mod traffic;
mod ways;
mod wire;

use std::time::Duration;

use anabranch_proto::AssociationConfig;

pub use addresses::{AddressAction, AddressEvent, is_there_at_first};
pub use cross::{Cross, CrossKind, Edges, Mix};
pub use events::{Change, Event, RouteCache, When};
pub use network::{Channel, Link, Network, Path, Way};
pub use page::{Carriage, Page};
pub use program::Program;
pub use queue::Queue;
pub use stack::{Over, Platform, Tcp};
pub use traffic::{Drawn, Flow, Transfer};
pub use wire::Faults;

use crate::tree::{Checked, Fields, problem};
use crate::units::{Kind, duration};

/// Maximum simulated time of a run in nanoseconds: ten years.
const MAX_TIME_LIMIT: f64 = 3.2e17;
/// Maximum time of an event or a pause in nanoseconds: a year.
const MAX_TIME: f64 = 3.2e16;

/// Default limits of a run, in simulated and in real time.
const SIMULATED_LIMIT: Duration = Duration::from_secs(24 * 3600);
const REAL_LIMIT: Duration = Duration::from_secs(600);

/// One experiment.
#[derive(Clone, Debug)]
pub struct Setup {
    /// Where it runs.
    pub on: Platform,
    /// Nodes, links and paths.
    pub network: Network,
    /// Options of the sending host.
    pub sender: AssociationConfig,
    /// Options of the receiving host.
    pub receiver: AssociationConfig,
    /// Options of transfers over TCP.
    pub tcp: Tcp,
    /// Programs for transfers.
    pub programs: Vec<Program>,
    /// Settings of the hosts' kernels below `net.ipv4`, by name.
    pub sysctl: Vec<(String, String)>,
    /// The traffic of the sender, one association or connection for each.
    pub transfers: Vec<Transfer>,
    /// A page that is loaded instead of transfers.
    pub page: Option<Page>,
    /// Cross-traffic on the network.
    pub cross: Vec<Cross>,
    /// The scheduled events, in the order of the file.
    pub events: Vec<Event>,
    /// Addresses that come and go, in the order of the file.
    pub addresses: Vec<AddressEvent>,
    /// Routes that must be discovered before they carry packets.
    pub route_cache: Option<RouteCache>,
    /// The run ends after this simulated time, even if it is incomplete.
    pub time_limit: Duration,
    /// End of the warm-up, which is excluded from queues, timeouts and throughput.
    pub measure_from: Duration,
    /// Messages are in time if they are delivered within this time.
    pub in_time: Option<Duration>,
    /// Whether the fates of packets are compared between runs; only in the emulator.
    pub fates: bool,
    /// Whether the receiver's capture is analysed and compared with the log; only in the emulator.
    pub analysis: bool,
    /// Whether gauges such as the RTO are read during the run. This makes runs slower.
    pub gauges: bool,
}

impl Setup {
    /// Reads the sections of a file that describe the experiment.
    ///
    /// # Errors
    /// Returns the first error.
    pub(crate) fn read(root: &Fields<'_>) -> Checked<Self> {
        let network = network::read(root)?;
        let on = match root.table("run")? {
            Some(run) => run.choice("on", &Platform::NAMES)?.unwrap_or_default(),
            None => Platform::default(),
        };
        let (tcp, sysctl) = (stack::tcp(root)?, stack::sysctl(root, on)?);
        let programs = program::read_programs(root)?;
        let transfers = traffic::read_transfers(root, &programs, on)?;
        let page = page::read(root, &network, on)?;
        let carried = page.as_ref().map(|page| page.carriage == Carriage::Sctp);
        let no_association = carried == Some(false)
            || !transfers.is_empty() && transfers.iter().all(|t| t.over != Over::Sctp);
        let base = AssociationConfig::default();
        let base = Some(&base).filter(|_| no_association && root.node("association").is_none());
        let sender = association::read(root, "association", base)?;
        let receiver = association::read(root, "receiver", Some(&sender))?;
        let cross = cross::read(root, &network)?;
        let (events, addresses) = events::read(root, &network)?;
        addresses::check((&addresses, root), &network, [&sender, &receiver])?;
        let route_cache = events::read_route_cache(root)?;
        let measured = Measured::read(root)?;
        let usual = match on {
            Platform::Simulator => SIMULATED_LIMIT,
            Platform::Emulator => REAL_LIMIT,
        };
        if measured.in_time.is_some() && on == Platform::Emulator {
            let line = root.line_of("measure");
            return problem(line, "in_time is measured in the simulator only");
        }
        if page.is_none() && transfers.is_empty() {
            return problem(1, "nothing is sent: there is neither [traffic.NAME] nor [page]");
        }
        let is_eventful = !(events.is_empty() && addresses.is_empty());
        if page.is_some() && (is_eventful || !(transfers.is_empty() && cross.is_empty())) {
            let line = root.line_of("page");
            return problem(line, "[page] excludes traffic, cross-traffic and events");
        }
        Ok(Self {
            on,
            network,
            sender,
            receiver,
            tcp,
            programs,
            sysctl,
            transfers,
            page,
            cross,
            events,
            addresses,
            route_cache,
            time_limit: measured.time_limit.map_or(usual, duration),
            measure_from: duration(measured.from),
            in_time: measured.in_time.map(duration),
            fates: measured.fates,
            analysis: measured.analysis,
            gauges: measured.gauges,
        })
    }
}

/// The section `[measure]`; times in nanoseconds.
#[derive(Default)]
struct Measured {
    time_limit: Option<f64>,
    from: f64,
    in_time: Option<f64>,
    gauges: bool,
    fates: bool,
    analysis: bool,
}

impl Measured {
    fn read(root: &Fields<'_>) -> Checked<Self> {
        let Some(measure) = root.table("measure")? else { return Ok(Self::default()) };
        let measured = Self {
            time_limit: measure.quantity("time_limit", Kind::Time, 1e6, MAX_TIME_LIMIT)?,
            from: measure.quantity("from", Kind::Time, 0.0, MAX_TIME_LIMIT)?.unwrap_or(0.0),
            in_time: measure.quantity("in_time", Kind::Time, 1e3, MAX_TIME_LIMIT)?,
            gauges: measure.flag("gauges")?.unwrap_or(false),
            fates: measure.flag("fates")?.unwrap_or(false),
            analysis: measure.flag("analysis")?.unwrap_or(false),
        };
        measure.finish()?;
        Ok(measured)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::tree::Node;
    use crate::tree::tests::refused;

    pub(crate) const SMALL: &str = r#"
[network]
shape = "dumbbells"
core_rate = "10 Mb/s"
core_delay = "25 ms"
edge_rate = "100 Mb/s"
edge_delay = "10 ms"
queue = "2 BDP"
[path.primary]
loss = "3 %"
[path.alternate]
core_delay = "85 ms"
[association]
profile = "rfc2960"
[traffic.file]
size = "4 MiB"
message = "1452 B"
"#;

    pub(crate) fn read(text: &str) -> Checked<Setup> {
        let tree = Node::parse(text)?;
        let root = tree.fields("")?;
        let setup = Setup::read(&root)?;
        root.finish()?;
        Ok(setup)
    }

    #[test]
    fn the_dumbbells_are_built() {
        let setup = read(SMALL).unwrap();
        let network = &setup.network;
        assert_eq!(network.nodes.len(), 2 + 2 * 2);
        assert_eq!(network.links.len(), 2 * 3);
        assert_eq!(network.paths.len(), 2);
        assert_eq!(network.rtt(&network.paths[0]), Duration::from_millis(90));
        assert_eq!(network.rtt(&network.paths[1]), Duration::from_millis(210));
        let core = &network.links[network.paths[0].core];
        assert_eq!(core.name, "primary.core");
        // Twice 10 Mb/s times 90 ms.
        assert_eq!(core.forward.queue, Queue::Bytes(225_000));
        assert_eq!(setup.sender.recovery.missing_reports, 4);
        assert_eq!(setup.transfers[0].messages(), 2889);
    }

    #[test]
    fn links_may_be_given_one_by_one() {
        let text = r#"
[network]
shape = "links"
hosts = ["S", "D"]
routers = ["A"]
[link.in]
ends = ["S", "A"]
rate = "1 Mb/s"
delay = "5 ms"
queue = "10 packets"
[link.out]
ends = ["D", "A"]
rate = "2 Mb/s"
rate_back = "1 Mb/s"
delay = "7 ms"
queue = "10 packets"
[path.only]
links = ["in", "out"]
[association]
profile = "rfc9260"
[traffic.file]
size = "1 MB"
message = "1 kB"
"#;
        let setup = read(text).unwrap();
        assert_eq!(setup.network.rtt(&setup.network.paths[0]), Duration::from_millis(24));
        let out = &setup.network.links[1];
        assert_eq!((out.forward.rate, out.backward.rate), (2_000_000, 1_000_000));
        let cases = [
            ("[\"in\", \"out\"]", "[\"in\", \"up\"]", "names 'up', which is not a link"),
            ("[\"in\", \"out\"]", "[\"in\"]", "ends at 'A', not at the receiver 'D'"),
            ("[\"in\", \"out\"]", "[\"out\", \"in\"]", "link 'out' does not begin at 'S'"),
            ("[\"D\", \"A\"]", "[\"D\", \"B\"]", "'B' is neither in hosts nor in routers"),
            ("[\"D\", \"A\"]", "[\"D\", \"D\"]", "two different ends"),
            ("routers = [\"A\"]", "routers = [\"A\", \"S\"]", "'S' is there twice"),
            ("routers = [\"A\"]", "routers = [\"A\", \"Q\"]", "no link leads to 'Q'"),
        ];
        for (from, to, reason) in cases {
            let error = read(&text.replace(from, to)).unwrap_err();
            assert!(error.reason.contains(reason), "{to}: {error:?}");
        }
    }

    #[test]
    fn mistakes_are_refused_with_line_and_reason() {
        let cases = [
            ("loss = \"3 %\"", "loss = \"103 %\"", 10, "path.primary.loss is \"103 %\", outside"),
            ("loss = \"3 %\"", "loss = 3", 10, "as in \"3 %\""),
            ("loss = \"3 %\"", "los = \"3 %\"", 10, "unknown key 'path.primary.los'"),
            ("\"25 ms\"", "\"-25 ms\"", 5, "network.core_delay is \"-25 ms\", outside"),
            ("\"10 Mb/s\"", "\"0 b/s\"", 4, "network.core_rate is \"0 b/s\", outside"),
            ("\"rfc2960\"", "\"rfc1\"", 14, "there is no profile"),
            ("\"4 MiB\"", "\"0 B\"", 16, "traffic.file.size is \"0 B\", outside"),
            ("\"dumbbells\"", "\"ring\"", 3, "network.shape is \"ring\""),
            (
                "[path.alternate]",
                "[event.e]\nat = \"1 s\"\ncut = \"x\"\n[path.alternate]",
                13,
                "'x'",
            ),
        ];
        for (from, to, line, reason) in cases {
            refused(read(&SMALL.replace(from, to)), line, reason);
        }
    }

    #[test]
    fn hosts_of_cross_traffic_may_be_given_by_their_delays() {
        let cross = "[cross.mix]\npath = \"primary\"\nkind = \"mix\"\nweb = 2.5\n\
                     edge_delays = [\"0 ms\", \"12 ms\"]\nedge_delays_far = \"2 ms\"\n";
        let setup = read(&format!("{SMALL}{cross}")).unwrap();
        let [Cross { kind: CrossKind::Mix(mix), edges, .. }] = &setup.cross[..] else {
            panic!("{:?}", setup.cross)
        };
        assert_eq!((mix.web, mix.videos, mix.bulk, mix.bulk_window), (2.5, 0, 0, 65_535));
        let ms = Duration::from_millis;
        assert_eq!(*edges, Edges::Given(vec![ms(0), ms(12)], vec![ms(2)]));
        let cases = [
            ("edge_delays_far = \"2 ms\"\n", "", "delays of the hosts at one end of the core only"),
            ("\"12 ms\"", "\"12 kB\"", "cross.mix.edge_delays"),
            ("web = 2.5", "web = -1", "cross.mix.web"),
        ];
        for (from, to, reason) in cases {
            let error = read(&format!("{SMALL}{}", cross.replace(from, to))).unwrap_err();
            assert!(error.reason.contains(reason), "{to}: {error:?}");
        }
    }
}
