//! Options of several paths: when one has failed, and which one is taken.

use std::time::Duration;

use super::{
    ClassPaths, DataPath, DormantBehaviour, InitiationOrder, MetricCache, RetransmissionPolicy,
    RetransmissionPrecedence,
};
use crate::named::named;
use crate::options::{section, words};

/// A number of errors that is never reached.
const NEVER: u64 = 1_000_000_000;

section! {
    /// When a path has failed, and what happens then.
    pub struct PathConfig {
        /// Path.Max.Retrans: a path is inactive when its error count exceeds this; 0 fails over at the
        /// first timeout. 5.
        path_max_retrans ["pmr"]: u32 = 5, Kind::count(0, NEVER), live;
        /// PFMR, PotentiallyFailed.Max.Retrans: a path is potentially failed when its error count
        /// exceeds this, and data takes an active path then (RFC 7829 section 3). 0 leaves a path at the
        /// first timeout, as the RFC recommends; `path_max_retrans` and more never take effect. Off is
        /// without that state.
        // exempt: rfc7829 6 "The following protocol parameter is RECOMMENDED" RFC 9260 knows no such state, and its profile keeps to the letter; the default profile has 0
        // exempt: rfc7829 3.2 "The RECOMMENDED value of PFMR is 0" the same
        potentially_failed_max_retrans ["pf"]: Option<u32> = None, Kind::count(0, NEVER), live;
        /// Association.Max.Retrans: the association ends when more consecutive retransmissions than
        /// this were not answered, on any path. 10.
        association_max_retrans: u32 = 10, Kind::count(0, NEVER), live;
        /// Max.Init.Retransmits, for INIT and for COOKIE ECHO. 8.
        max_init_retransmits: u32 = 8, Kind::count(0, NEVER), live;
        /// Which path carries a retransmission.
        retransmission: RetransmissionPolicy =
            RetransmissionPolicy::FrSameRtoAlt, Kind::Word(RetransmissionPolicy::NAMES);
        /// Which new data waits for pending retransmissions.
        retransmission_precedence: RetransmissionPrecedence =
            RetransmissionPrecedence::AllPaths, Kind::Word(RetransmissionPrecedence::NAMES);
        /// HAR: when T3-rtx expires, a heartbeat follows immediately on the path that timed out, if
        /// there is another one for the data (caro 2.4.1). Means nothing to AllRtxSame. Off.
        heartbeat_after_rto ["har"]: bool = false, Kind::Switch;
        /// When an unanswered heartbeat is repeated.
        heartbeat_retry: HeartbeatRetry = HeartbeatRetry::Interval, Kind::Word(HeartbeatRetry::NAMES);
        /// Longest time between heartbeats on a path while something is amiss ([`Vigilance`]). Off, as in
        /// the profiles of RFCs, leaves all of it to HB.interval and to timers that have backed off.
        vigilance: Option<Duration> = None, Kind::millis(100, 3_600_000);
        /// How long every path has to be refused by ICMP before the association ends ([`Vigilance`]).
        /// 2 s.
        refused_after: Duration = Duration::from_secs(2), Kind::millis(0, 3_600_000);
        /// HB.Max.Burst: heartbeats that verify paths sent in one RTO. 1.
        hb_max_burst: u32 = 1, Kind::count(0, 1000);
        /// CPT: failover to another path becomes permanent, which makes it the primary path, when the
        /// primary path's error count exceeds this (caro 3.4); 0 makes it permanent as soon as there is
        /// a failover. Off returns to the primary path whenever it answers. This is
        /// Primary.Switchover.Max.Retrans (RFC 7829 section 5), and must not be below
        /// `potentially_failed_max_retrans`; a value below `path_max_retrans` without that state takes
        /// effect with the failover.
        change_primary_threshold ["cpt"]: Option<u32> = None, Kind::count(0, NEVER), live;
        /// Failover is made permanent only if loss and RTT of both paths promise a higher throughput
        /// on the other one (caro 3.4.2). Idle paths are probed for their loss then. Means nothing
        /// without `change_primary_threshold`. Off.
        informed_failover ["informed"]: bool = false, Kind::Switch;
        /// Time between probes for the loss of an idle path, for `informed_failover`. 1 s.
        loss_probe_interval: Duration = Duration::from_secs(1), Kind::millis(1, 3_600_000);
        /// Which path carries new data while several are active, without concurrent multipath transfer.
        data_path: DataPath = DataPath::Primary, Kind::Word(DataPath::NAMES);
        /// Messages of up to this many bytes, if they fit into a packet, are sent on a second path as well,
        /// and the copy that arrives first counts. While an association is up, it may go on or off only with
        /// concurrent multipath transfer, or where latency or classes choose paths anyway. Off.
        copies_up_to: Option<usize> = None, Kind::size(1, 65_535), live;
        /// Largest share of a path's congestion window that copies may take, in percent; one packet is always
        /// permitted. What exceeds it is sent once. 25.
        copies_share: u32 = 25, Kind::count(1, 100);
        /// Time between heartbeats that measure a path without data, if latency decides: with `data_path`
        /// lowest-latency, or with copies. 500 ms.
        latency_probe_interval: Duration = Duration::from_millis(500), Kind::millis(1, 3_600_000);
        /// The first stream of a class: streams from this number on take the paths that `class_paths` names, and
        /// a full path of one class does not hold up the other one. Off.
        class_from: Option<u32> = None, Kind::count(0, 65_535);
        /// The paths of the streams from `class_from` on; all other streams take the path in use.
        class_paths: ClassPaths = ClassPaths::Others, Kind::Word(ClassPaths::NAMES);
        /// The streams from `class_from` on wait while their paths are full or potentially failed, and leave
        /// them only at failover. Otherwise they take another path then. Off.
        class_bound: bool = false, Kind::Switch;
        /// Where data goes while no path is active.
        dormant: DormantBehaviour = DormantBehaviour::Hop, Kind::Word(DormantBehaviour::NAMES);
        /// When ICMP 'protocol unreachable' ends an established association.
        protocol_unreachable: ProtocolUnreachable =
            ProtocolUnreachable::Aborts, Kind::Word(ProtocolUnreachable::NAMES);
        /// The order in which INITs are sent to the addresses of a peer.
        initiation: InitiationOrder =
            InitiationOrder::Sequential, Kind::Word(InitiationOrder::NAMES);
        /// Metrics that a new association adopts from earlier ones between the same addresses, and
        /// stores for later ones: `full` as kernels do, `selective` nothing of congestion, `informed`
        /// with ssthresh of long transfers only, for a minute (RFC 9040). Off.
        metric_cache: MetricCache = MetricCache::Off, Kind::Word(MetricCache::NAMES);
    }
}

impl PathConfig {
    /// How soon trouble is looked into, if it is.
    pub fn vigilance(&self) -> Option<Vigilance> {
        let refused_after = self.refused_after;
        self.vigilance.map(|interval| Vigilance { interval, refused_after })
    }
}

/// How soon trouble is checked.
///
/// - While data waits and no path is active, heartbeats follow one another with the RTO, but not
///   later than `interval`. Without anything to send they back off up to RTO.Max.
/// - When a path answers again, what was in flight before leaves at once; a timer that has backed off
///   meanwhile is not waited for. A path that timed out is probed when anything comes on it.
/// - RTX-ASAP, RTX-CWND, RTX-SSTHRESH and RTX-LOSSRATE choose no path that has timed out since it answered
///   last while another one has not, whatever their measure says.
/// - When data was coming and stops (64 KiB since the last silence, or with something missing or a
///   message unfinished), each path is asked once, two RTOs later. That opens a new mapping in a
///   translator that forgot the old one, and a peer that lost its state says so.
/// - ICMP 'port unreachable' is a hint (RFC 6951 section 5.5): when each path that works was refused in
///   this way, three packets at least, for `refused_after` without a packet of the peer in between, the
///   association ends. A sender of data waits four times as long, since only the other end can open a new
///   mapping.
/// - Association.Max.Retrans does not end the association before the timeouts of one path alone would
///   have reached that number: an association with several paths must not live shorter than one with a
///   single path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Vigilance {
    /// Longest time between heartbeats on a path while something is amiss, at least 100 ms. 2 s.
    pub interval: Duration,
    /// How long the first path that was refused has to have been, when the last one is. 2 s.
    pub refused_after: Duration,
}

words!(DormantBehaviour, InitiationOrder, RetransmissionPolicy, RetransmissionPrecedence);

/// When an unanswered heartbeat is repeated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeartbeatRetry {
    /// After HB.interval like any other (RFC 9260 section 8.3).
    Interval,
    /// At once, RTO after RTO; a path that becomes inactive is probed at once as well, so that
    /// a failover that was a mistake ends soon (caro 3.3.7).
    AtOnce,
}

named!(HeartbeatRetry { Interval = "interval", AtOnce = "at-once", });
words!(HeartbeatRetry);

/// When ICMP 'protocol unreachable' about another packet than an INIT, with the right verification
/// tag, ends the association.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProtocolUnreachable {
    /// At once, as an ABORT does (RFC 9260 section 10, ICMP8).
    Aborts,
    /// When it comes again, an RTO after the first one or later, without a packet of the peer in
    /// between: a host whose SCTP is a process may send it for a packet that found the raw socket
    /// of that process full, as Linux does.
    AbortsWhenRepeated,
}

named!(ProtocolUnreachable { Aborts = "aborts", AbortsWhenRepeated = "aborts-when-repeated" | "repeated", });
words!(ProtocolUnreachable);
