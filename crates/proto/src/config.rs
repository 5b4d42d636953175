//! Options of endpoints and associations, and the profiles that set them all.
//!
//! Fields carry the protocol parameter's name of RFC 9260 section 16 where there is one.

use std::fmt;
use std::net::IpAddr;
use std::time::Duration;

use crate::policy::{
    DormantBehaviour, InitiationOrder, Multipath, MultipathMode, RetransmissionPolicy,
    RetransmissionPrecedence,
};
use crate::recovery::LossDetection;
use crate::send::SchedulerKind;
use crate::tag_mark::TagMark;

/// Options of an [`Endpoint`](crate::Endpoint).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct EndpointConfig {
    /// How SCTP packets travel; decides what an IP packet's headers take from the path MTU.
    pub encapsulation: Encapsulation,
    /// Valid.Cookie.Life: how long a State Cookie may be used. 60 s.
    pub valid_cookie_life: Duration,
    /// A fresh cookie secret is made this often; the one before stays valid. 10 minutes.
    pub cookie_secret_lifetime: Duration,
    /// Associations this endpoint holds at the most. 65,536; a quiet one takes less than 4 KiB. When
    /// there are as many, one that comes takes the place of one on which nothing moves and nothing
    /// ever did, or whose peer does not take what it asked for; of addresses with more than a quarter
    /// of all also a quiet one. If there is none, it is refused.
    pub max_associations: usize,
    /// Bytes that the receive and send buffers of all associations may take together, at least
    /// 65,536. 16 KiB of them (or a sixteenth, if that is less) are each association's own, and an
    /// eighth is kept for those who come. Once the rest is used up, windows are closed and sends are
    /// refused beyond that. A second later, what waits behind a hole and was not promised to be kept
    /// is dropped, for those on which nothing moves first; if that is not enough, associations on
    /// which nothing has moved for three RTOs (10 s at least, 60 s at the most) are ended, those who
    /// hold most first. For an association with gaps, what closes them may come on top. 1 GiB.
    pub memory_limit: usize,
    /// Answers to packets without an association (INIT ACK, ABORT, SHUTDOWN COMPLETE) that may
    /// wait for the driver; what comes beyond is dropped. 1,024.
    pub max_stateless_replies: usize,
    /// Whether out-of-the-blue packets are answered (RFC 9260 section 8.4).
    pub out_of_the_blue: OutOfTheBlue,
    /// Whether the CRC32c of packets is computed and checked. Only simulators switch it off, to
    /// save time; drivers of real sockets switch it on, whatever they are given. This is not the
    /// zero checksum of RFC 9653, which two ends agree on.
    pub checksum: bool,
    /// Which local addresses reach which remote ones.
    pub routes: Routes,
    /// The first TSN of every association, for simulations of what happens when TSNs wrap.
    /// `None` draws a random one, as it must be on a network.
    pub initial_tsn: Option<u32>,
    /// Verification tags are marked with this, so that a driver can have them told from others
    /// before packets reach it. `None`, the default, draws all 32 bits at random.
    pub tag_mark: Option<TagMark>,
    /// Rare but allowed behaviour (packets that are not filled, acknowledgements that travel
    /// alone or at once, data that is dropped for want of memory) occurs one time in so many;
    /// 0 is never. For simulations.
    #[cfg(feature = "invariants")]
    pub buggify: u32,
    /// Bytes that one association may put on the wire before the next one has its turn. 65,536.
    pub quantum: usize,
}

impl Default for EndpointConfig {
    fn default() -> Self {
        Self {
            encapsulation: Encapsulation::Udp,
            valid_cookie_life: Duration::from_secs(60),
            cookie_secret_lifetime: Duration::from_secs(600),
            max_associations: 65_536,
            memory_limit: 1 << 30,
            max_stateless_replies: 1_024,
            out_of_the_blue: OutOfTheBlue::Answer,
            checksum: true,
            routes: Routes::Any,
            initial_tsn: None,
            tag_mark: None,
            #[cfg(feature = "invariants")]
            buggify: 0,
            quantum: 65_536,
        }
    }
}

impl EndpointConfig {
    /// Checks every option against its range.
    ///
    /// # Errors
    /// The first option that is out of range.
    pub fn validate(&self) -> Result<(), ConfigError> {
        let check = |ok: bool, option: &'static str, reason: &'static str| {
            if ok { Ok(()) } else { Err(ConfigError { option, reason }) }
        };
        check(
            self.valid_cookie_life >= Duration::from_millis(1),
            "valid_cookie_life",
            "must be at least 1 ms",
        )?;
        // The secret before the current one is the last that is known.
        check(
            self.cookie_secret_lifetime >= self.valid_cookie_life,
            "cookie_secret_lifetime",
            "must not be below valid_cookie_life",
        )?;
        check(
            (1..=1 << 24).contains(&self.max_associations),
            "max_associations",
            "must lie between 1 and 16777216",
        )?;
        check(self.memory_limit >= 65_536, "memory_limit", "must be at least 65536 bytes")?;
        check(
            (1..=1 << 20).contains(&self.max_stateless_replies),
            "max_stateless_replies",
            "must lie between 1 and 1048576",
        )?;
        check((1..=1 << 30).contains(&self.quantum), "quantum", "must lie between 1 byte and 1 GiB")
    }
}

/// What carries SCTP packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encapsulation {
    /// IP protocol 132.
    Ip,
    /// UDP (RFC 6951).
    Udp,
}

impl Encapsulation {
    /// Bytes of an IP packet to `remote` that are not SCTP's.
    pub const fn overhead(self, remote: IpAddr) -> usize {
        let ip = if remote.is_ipv4() { 20 } else { 40 };
        match self {
            Self::Ip => ip,
            Self::Udp => ip + 8,
        }
    }
}

/// What happens to packets that belong to no association.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutOfTheBlue {
    /// Answered as RFC 9260 section 8.4 says.
    Answer,
    /// Only INIT for a listening port, COOKIE ECHO and SHUTDOWN ACK are answered: a host that
    /// shares its addresses with another stack does not destroy that stack's associations.
    Silent,
}

/// Which local addresses reach which remote ones.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Routes {
    /// Every local address reaches every remote address of its family and scope.
    Any,
    /// Only these pairs (local, remote).
    Pairs(Vec<(IpAddr, IpAddr)>),
}

impl Routes {
    /// Whether packets from `local` can reach `remote`.
    ///
    /// Loopback addresses reach loopback only, link-local ones link-local only.
    pub fn reaches(&self, local: IpAddr, remote: IpAddr) -> bool {
        match self {
            Self::Any => crate::path::address::same_scope(local, remote),
            Self::Pairs(pairs) => pairs.contains(&(local, remote)),
        }
    }
}

/// Options of an association. `Default` is for bulk and interactive use over the Internet; the
/// RFCs' own values are [`rfc9260`](Self::rfc9260), [`rfc4960`](Self::rfc4960) and
/// [`rfc2960`](Self::rfc2960).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct AssociationConfig {
    /// RTO.Initial, 1 s.
    pub rto_initial: Duration,
    /// RTO.Min, 1 s; 300 ms by default, counted as [`rto_floor`](Self::rto_floor) says.
    pub rto_min: Duration,
    /// What RTO.Min is the least value of.
    pub rto_floor: RtoFloor,
    /// RTO.Max, 60 s.
    pub rto_max: Duration,
    /// HB.interval, 30 s; `None` sends heartbeats for path verification only.
    pub heartbeat_interval: Option<Duration>,
    /// Path.Max.Retrans: a path is inactive when its error count exceeds this. 5.
    pub path_max_retrans: u32,
    /// PFMR, PotentiallyFailed.Max.Retrans: a path is potentially failed when its error count
    /// exceeds this, and data takes an active path then (RFC 7829 section 3). 0, the default, leaves a
    /// path at the first timeout, as the RFC recommends; `path_max_retrans` and more never take
    /// effect. `None`, as in the profiles of RFCs, is without that state.
    pub potentially_failed_max_retrans: Option<u32>,
    /// Association.Max.Retrans: the association ends when more retransmissions in a row than
    /// this went unanswered, whatever the path. 10.
    pub association_max_retrans: u32,
    /// Max.Init.Retransmits, for INIT and for COOKIE ECHO. 8.
    pub max_init_retransmits: u32,
    /// Longest delay of an acknowledgement, at most 500 ms. 200 ms.
    pub sack_delay: Duration,
    /// An acknowledgement for every so many packets with data. 2.
    pub sack_frequency: u32,
    /// How bursts are bounded.
    pub burst: BurstControl,
    /// Initial congestion window.
    pub initial_cwnd: InitialCwnd,
    /// Smallest slow-start threshold after a loss, in PMDCS. 4 (RFC 2960: 2).
    pub min_ssthresh_mtus: u32,
    /// L of RFC 9260 section 7.2.1: growth of cwnd in slow start for one SACK, in PMDCS.
    pub slow_start_limit_mtus: u32,
    /// What idle time does to cwnd.
    pub idle_cwnd: IdleCwnd,
    /// Whose word counts where the RFCs differ in rules that nobody tunes.
    pub revision: Revision,
    /// What makes a chunk lost before its timer expires.
    pub loss_detection: LossDetection,
    /// Missing reports (or later packets) that make a chunk lost. 3 (RFC 2960: 4).
    pub missing_reports: u32,
    /// MFR: a fast-retransmitted chunk may be fast-retransmitted again (caro 2.4.3).
    pub multiple_fast_retransmit: bool,
    /// Which path carries a retransmission.
    pub retransmission: RetransmissionPolicy,
    /// Which new data waits for pending retransmissions.
    pub retransmission_precedence: RetransmissionPrecedence,
    /// When T3-rtx expires one packet leaves, and all else, also on other paths, waits for a SACK
    /// as in the studies of multihoming (RFC 2960 section 6.3.3 has "normally when a SACK
    /// arrives"). Otherwise it leaves as soon as cwnd allows.
    pub one_packet_after_timeout: bool,
    /// HAR: when T3-rtx expires, a heartbeat follows at once on the path that timed out, if there
    /// is another one for the data (caro 2.4.1). Means nothing to AllRtxSame.
    pub heartbeat_after_rto: bool,
    /// TS: packets with data or acknowledgements carry timestamps if the peer wants them too, so
    /// that retransmissions are measured as well (caro 2.4.2). 12 bytes a packet.
    pub timestamps: bool,
    /// Acknowledgements travel in NR-SACK chunks if the peer wants them too
    /// (draft-natarajan-tsvwg-sctp-nrsack): they tell what the receiver will never drop, and the
    /// sender frees its memory before the data is acknowledged cumulatively. Off.
    pub nr_sack: bool,
    /// Data that was acknowledged is never dropped, so that NR-SACKs report all of it as
    /// non-renegable; without NR-SACKs only when the endpoint's `memory_limit` is used up. Otherwise data whose message waits for others may be dropped for want of
    /// memory to make room for lower TSNs (RFC 9260 section 6.2), and only what can be delivered
    /// is non-renegable. On.
    pub never_renege: bool,
    /// An acknowledged retransmission counts for the path that carried it last, although its
    /// first transmission on another path may have arrived (RFC 9260 section 8.2 allows both).
    pub credit_retransmissions: bool,
    /// Concurrent multipath transfer: all active paths carry new data. `None`, the default, sends
    /// new data on one path. [`with_multipath`](Self::with_multipath) switches it on with what
    /// belongs to it.
    pub multipath: Option<Multipath>,
    /// When an unanswered heartbeat is repeated.
    pub heartbeat_retry: HeartbeatRetry,
    /// How soon trouble is looked into, so that a path that is back, or a peer that is gone, is
    /// noticed in seconds. `None`, as in the profiles of RFCs, leaves it to HB.interval and to timers
    /// that have backed off.
    pub vigilance: Option<Vigilance>,
    /// CPT: failover to another path is permanent, so that it becomes the primary one, when the
    /// primary path's error count exceeds this (caro 3.4); 0 makes it permanent as soon as there is
    /// a failover. `None` returns to the primary path whenever it answers. This is
    /// Primary.Switchover.Max.Retrans (RFC 7829 section 5), and must not be below
    /// `potentially_failed_max_retrans`; a value below `path_max_retrans` without that state takes
    /// effect with the failover.
    pub change_primary_threshold: Option<u32>,
    /// Failover is made permanent only if loss and RTT of both paths promise a higher throughput
    /// on the other one (caro 3.4.2). Idle paths are probed for their loss then. Means nothing
    /// without `change_primary_threshold`.
    pub informed_failover: bool,
    /// Time between probes for the loss of an idle path, for `informed_failover`. 1 s.
    pub loss_probe_interval: Duration,
    /// Where data goes while no path is active.
    pub dormant: DormantBehaviour,
    /// When ICMP 'protocol unreachable' ends an association that is up.
    pub protocol_unreachable: ProtocolUnreachable,
    /// In which order the addresses of a peer are asked for an association.
    pub initiation: InitiationOrder,
    /// HB.Max.Burst: heartbeats that verify paths sent in one RTO. 1.
    pub hb_max_burst: u32,
    /// Outbound streams asked for, 1 to 65,535. 1,024.
    pub outbound_streams: u16,
    /// Inbound streams allowed, 1 to 65,535. 65,535.
    pub inbound_streams: u16,
    /// Which stream sends next.
    pub scheduler: SchedulerKind,
    /// Receive buffer in bytes of true memory; its free part is what a_rwnd announces. 1 MiB.
    pub receive_buffer: usize,
    /// Send buffer in bytes of true memory; beyond it sends are refused. 1 MiB.
    pub send_buffer: usize,
    /// Send buffer that one stream may take. No limit.
    pub stream_send_buffer: usize,
    /// Longest message that may be sent. 256 MiB.
    pub max_message_size: usize,
    /// A message being received is handed on in parts once so many bytes of it have come and it
    /// is not whole. Half of the receive buffer at the most.
    pub partial_delivery_point: usize,
    /// Fragments of a message that would fit into a packet of its own fill the rest of the
    /// packet before, so that bulk data leaves full packets.
    pub fill_packets: bool,
    /// Small messages wait for the acknowledgement of outstanding data (the opposite of
    /// SCTP_NODELAY). Off.
    pub nagle: bool,
    /// Path MTU discovery.
    pub mtu: MtuConfig,
    /// Adaptation Layer Indication to announce (RFC 5061 section 4.2.6).
    pub adaptation_indication: Option<u32>,
    /// Ends the association after this time without user data in either direction. Never.
    pub autoclose: Option<Duration>,
}

/// Path MTU discovery (RFC 8899).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct MtuConfig {
    /// Whether larger packets are searched for with probes.
    pub discovery: bool,
    /// IP packet size that every path is expected to carry (BASE_PLPMTU), at least 576. 1,200.
    pub base: u16,
    /// Largest IP packet size ever tried, at most 65,532. 1,500; drivers lower it to the
    /// interface's MTU.
    pub max: u16,
    /// The search is made anew after this time (PMTU_RAISE_TIMER). 600 s.
    pub raise_interval: Duration,
}

impl Default for MtuConfig {
    fn default() -> Self {
        // req: rfc8899 5.1.2 "default BASE_PLPMTU of 1200 bytes is RECOMMENDED"
        Self { discovery: true, base: 1200, max: 1500, raise_interval: Duration::from_secs(600) }
    }
}

impl MtuConfig {
    /// A fixed path MTU, the size of IP packets in bytes. When a router says that it forwards less,
    /// that counts instead for [`raise_interval`](Self::raise_interval).
    pub fn fixed(mtu: u16) -> Self {
        Self { discovery: false, base: mtu, max: mtu, ..Self::default() }
    }
}

/// How bursts of packets are bounded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BurstControl {
    /// Max.Burst: so many packets more than what is in flight when the time comes to send
    /// (RFC 9260 section 6.1 D).
    MaxBurst(u32),
    /// The same, but cwnd itself is cut, and stays so (RFC 4960 section 6.1 D).
    MaxBurstCutsCwnd(u32),
    /// Packets leave at a little above cwnd per smoothed RTT, in quanta of so many packets.
    Pacing {
        /// Packets that may leave back to back.
        quantum: u32,
    },
    /// Nothing but cwnd bounds a burst.
    Unlimited,
}

/// Initial congestion window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InitialCwnd {
    /// So many PMDCS (RFC 2960: 2).
    Mtus(u32),
    /// min(4 * PMDCS, max(2 * PMDCS, this many bytes)): 4,380 in RFC 4960, 4,404 in RFC 9260.
    Bytes(u32),
}

/// What idle time does to cwnd.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IdleCwnd {
    /// cwnd = max(cwnd / 2, 4 * PMDCS) once per RTO without data (RFC 4960 and 9260, 7.2.1).
    HalvePerRto,
    /// cwnd = max(cwnd / 2, 2 * PMDCS) once per RTO without data (RFC 2960 section 7.2.1).
    HalvePerRtoToTwo,
    /// Kept.
    Keep,
}

/// A revision of the protocol, for small rules in which the RFCs differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Revision {
    /// RFC 2960: cwnd changes only with SACKs that advance the Cumulative TSN Ack Point, every
    /// fast retransmission sends one packet at once whatever cwnd says, and every SACK with gaps
    /// is a missing report for all that it shows to be missing. The packet that fills the last
    /// gap may wait for its SACK.
    Rfc2960,
    /// RFC 4960: the same, but a SACK is a missing report only for what is below the TSNs that it
    /// newly acknowledges (Highest TSN Newly Acknowledged). Idle time lowers cwnd and leaves
    /// ssthresh alone.
    Rfc4960,
    /// RFC 9260: cwnd grows with every SACK that acknowledges something new, and only the
    /// beginning of fast recovery sends a packet whatever cwnd says. The packet that fills a gap
    /// is acknowledged at once. Before idle time lowers cwnd, ssthresh becomes what cwnd was.
    Rfc9260,
}

/// When an unanswered heartbeat is repeated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeartbeatRetry {
    /// After HB.interval like any other (RFC 9260 section 8.3).
    Interval,
    /// At once, RTO after RTO; a path that becomes inactive is probed at once as well, so that
    /// a failover that was a mistake ends soon (caro 3.3.7).
    AtOnce,
}

/// What RTO.Min is the least value of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RtoFloor {
    /// Of the RTO (RFC 9260 section 6.3.1, C6).
    Rto,
    /// Of what the RTO has above the smoothed round-trip time, as in Linux' TCP. A peer may keep its
    /// acknowledgement back for 200 ms and more; a least value of the RTO itself covers that on short
    /// paths only, or costs a second everywhere.
    AboveSrtt,
}

/// How soon trouble is looked into.
///
/// - While data waits and no path is active, heartbeats follow one another with the RTO, but not
///   later than `interval`. Without anything to send they back off up to RTO.Max.
/// - When a path answers again, what was in flight before leaves at once; a timer that has backed off
///   meanwhile is not waited for. A path that timed out is probed when anything comes on it.
/// - When data was coming and stops (64 KiB since the last silence, or with something missing or a
///   message unfinished), each path is asked once, two RTOs later. That opens a new mapping in a
///   translator that forgot the old one, and a peer that lost its state says so.
/// - ICMP 'port unreachable' is a hint (RFC 6951 section 5.5): when all paths that work are refused in
///   this way three times, for `refused_after`, with nothing heard of the peer in between, the
///   association ends. A sender of data waits four times as long, since only the other end can open a
///   new mapping.
/// - Association.Max.Retrans ends the association not before the timeouts of one path alone would have
///   come to that number: several paths must not make it shorter-lived than one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Vigilance {
    /// Longest time between heartbeats on a path while something is amiss, at least 100 ms. 2 s.
    pub interval: Duration,
    /// How long every path has to be refused. 2 s.
    pub refused_after: Duration,
}

impl Default for Vigilance {
    fn default() -> Self {
        Self { interval: Duration::from_secs(2), refused_after: Duration::from_secs(2) }
    }
}

/// When ICMP 'protocol unreachable' about another packet than an INIT, with the right verification
/// tag, ends the association.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProtocolUnreachable {
    /// At once, as an ABORT does (RFC 9260 section 10, ICMP8).
    Aborts,
    /// When it comes again, an RTO after the first one or later, and nothing was heard of the peer
    /// in between: a host whose SCTP is a process may send it for a packet that found the raw
    /// socket of that process full, as Linux does.
    AbortsWhenRepeated,
}

impl AssociationConfig {
    /// RFC 9260 to the letter, with the values of its section 16.
    // req: rfc9260 16 "The following protocol parameters are RECOMMENDED"
    pub fn rfc9260() -> Self {
        Self {
            rto_initial: Duration::from_secs(1),
            rto_min: Duration::from_secs(1),
            rto_floor: RtoFloor::Rto,
            rto_max: Duration::from_secs(60),
            heartbeat_interval: Some(Duration::from_secs(30)),
            path_max_retrans: 5,
            // exempt: rfc7829 6 "The following protocol parameter is RECOMMENDED" RFC 9260 knows no such state, and this profile keeps to its letter; the default profile has 0
            // exempt: rfc7829 3.2 "The RECOMMENDED value of PFMR is 0" the same
            potentially_failed_max_retrans: None,
            association_max_retrans: 10,
            max_init_retransmits: 8,
            sack_delay: Duration::from_millis(200),
            sack_frequency: 2,
            burst: BurstControl::MaxBurst(4),
            initial_cwnd: InitialCwnd::Bytes(4404),
            min_ssthresh_mtus: 4,
            slow_start_limit_mtus: 1,
            idle_cwnd: IdleCwnd::HalvePerRto,
            revision: Revision::Rfc9260,
            loss_detection: LossDetection::MissingReports,
            missing_reports: 3,
            multiple_fast_retransmit: false,
            retransmission: RetransmissionPolicy::FrSameRtoAlt,
            retransmission_precedence: RetransmissionPrecedence::AllPaths,
            one_packet_after_timeout: false,
            heartbeat_after_rto: false,
            timestamps: false,
            nr_sack: false,
            never_renege: true,
            credit_retransmissions: false,
            multipath: None,
            heartbeat_retry: HeartbeatRetry::Interval,
            vigilance: None,
            change_primary_threshold: None,
            informed_failover: false,
            loss_probe_interval: Duration::from_secs(1),
            dormant: DormantBehaviour::Hop,
            protocol_unreachable: ProtocolUnreachable::Aborts,
            initiation: InitiationOrder::Sequential,
            hb_max_burst: 1,
            outbound_streams: 1024,
            inbound_streams: u16::MAX,
            scheduler: SchedulerKind::Fifo,
            receive_buffer: 1 << 20,
            send_buffer: 1 << 20,
            stream_send_buffer: usize::MAX,
            max_message_size: 256 << 20,
            partial_delivery_point: usize::MAX,
            fill_packets: false,
            nagle: false,
            mtu: MtuConfig::default(),
            adaptation_indication: None,
            autoclose: None,
        }
    }

    /// RFC 4960 with RTO.Initial of 3 s. What the RFC leaves open is as in the studies of
    /// multihoming that it is compared with (caro 2.6.1, 3.3.7).
    pub fn rfc4960() -> Self {
        Self {
            revision: Revision::Rfc4960,
            one_packet_after_timeout: true,
            credit_retransmissions: true,
            heartbeat_retry: HeartbeatRetry::AtOnce,
            rto_initial: Duration::from_secs(3),
            initial_cwnd: InitialCwnd::Bytes(4380),
            burst: BurstControl::MaxBurstCutsCwnd(4),
            ..Self::rfc9260()
        }
    }

    /// RFC 2960: four missing reports, initial cwnd and smallest ssthresh of two MTU, and all
    /// retransmissions to an alternate path. The RFC has no Max.Burst; it bounds bursts here, as
    /// in the study's simulator, but leaves cwnd alone.
    pub fn rfc2960() -> Self {
        Self {
            revision: Revision::Rfc2960,
            initial_cwnd: InitialCwnd::Mtus(2),
            min_ssthresh_mtus: 2,
            idle_cwnd: IdleCwnd::HalvePerRtoToTwo,
            missing_reports: 4,
            burst: BurstControl::MaxBurst(4),
            retransmission: RetransmissionPolicy::AllRtxAlt,
            ..Self::rfc4960()
        }
    }

    /// The profile of this name: `default`, `rfc9260`, `rfc4960` or `rfc2960`.
    pub fn profile(name: &str) -> Option<Self> {
        match name {
            "default" => Some(Self::default()),
            "rfc9260" => Some(Self::rfc9260()),
            "rfc4960" => Some(Self::rfc4960()),
            "rfc2960" => Some(Self::rfc2960()),
            _ => None,
        }
    }

    /// These options with concurrent multipath transfer and what belongs to it: retransmissions take
    /// the path with the largest slow-start threshold (RTX-SSTHRESH), what waits on one path does
    /// not hold up the others, and for CMT-PF a path is potentially failed at its first timeout; CMT
    /// is without that state.
    #[must_use]
    pub fn with_multipath(self, mode: MultipathMode) -> Self {
        let potentially_failed_max_retrans = match mode {
            MultipathMode::Off => return Self { multipath: None, ..self },
            MultipathMode::Cmt => None,
            MultipathMode::CmtPf => Some(0),
        };
        Self {
            multipath: Some(self.multipath.unwrap_or_default()),
            retransmission: RetransmissionPolicy::RtxSsthresh,
            retransmission_precedence: RetransmissionPrecedence::SamePath,
            one_packet_after_timeout: false,
            potentially_failed_max_retrans,
            ..self
        }
    }

    /// Checks every option against its range.
    ///
    /// # Errors
    /// The first option that is out of range.
    pub fn validate(&self) -> Result<(), ConfigError> {
        let check = |ok: bool, option: &'static str, reason: &'static str| {
            if ok { Ok(()) } else { Err(ConfigError { option, reason }) }
        };
        check(
            self.multipath.is_none_or(|m| (1..=10).contains(&m.recovered_cwnd_mtus)),
            "multipath.recovered_cwnd_mtus",
            "must lie between 1 and 10",
        )?;
        check(!self.rto_min.is_zero(), "rto_min", "must be above zero")?;
        check(self.rto_min <= self.rto_max, "rto_min", "must not exceed rto_max")?;
        check(
            (self.rto_min..=self.rto_max).contains(&self.rto_initial),
            "rto_initial",
            "must lie between rto_min and rto_max",
        )?;
        check(
            self.heartbeat_interval.is_none_or(|i| i >= Duration::from_millis(1)),
            "heartbeat_interval",
            "must be at least 1 ms",
        )?;
        // req: rfc9260 6.2 "MUST NOT allow the maximum delay (protocol parameter"
        check(
            // req: rfc9260 6.2 "MUST NOT raise it above 500 ms"
            self.sack_delay <= Duration::from_millis(500),
            "sack_delay",
            "must be at most 500 ms",
        )?;
        check(
            self.loss_probe_interval >= Duration::from_millis(1),
            "loss_probe_interval",
            "must be at least 1 ms",
        )?;
        // req: rfc7829 5 "the PSMR MUST be set greater than or equal to the PFMR value"
        // req: rfc7829 5 "MUST reject any other values of PSMR"
        check(
            self.change_primary_threshold >= self.potentially_failed_max_retrans
                || self.change_primary_threshold.is_none(),
            "change_primary_threshold",
            "must not be below potentially_failed_max_retrans",
        )?;
        check(self.sack_frequency >= 1, "sack_frequency", "must be at least 1")?;
        check(
            (1..=255).contains(&self.missing_reports),
            "missing_reports",
            "must lie between 1 and 255",
        )?;
        check(self.slow_start_limit_mtus >= 1, "slow_start_limit_mtus", "must be at least 1")?;
        check(self.min_ssthresh_mtus >= 1, "min_ssthresh_mtus", "must be at least 1")?;
        // req: rfc9260 3.3.2 "The value 0 MUST NOT be used"
        // req: rfc9260 3.3.3 "The value 0 MUST NOT be used"
        check(self.outbound_streams >= 1, "outbound_streams", "must be at least 1")?;
        check(self.inbound_streams >= 1, "inbound_streams", "must be at least 1")?;
        // req: rfc9260 3.3.2 "Credit MUST NOT be smaller than 1500"
        // req: rfc9260 3.3.3 "Credit MUST NOT be smaller than 1500"
        check(
            (1500..=1 << 31).contains(&self.receive_buffer),
            "receive_buffer",
            "must lie between 1500 bytes and 2 GiB",
        )?;
        check(self.send_buffer >= 1, "send_buffer", "must be at least 1")?;
        check(self.stream_send_buffer >= 1, "stream_send_buffer", "must be at least 1")?;
        check(self.max_message_size >= 1, "max_message_size", "must be at least 1")?;
        check(
            self.vigilance.is_none_or(|v| v.interval >= Duration::from_millis(100)),
            "vigilance.interval",
            "must be at least 100 ms",
        )?;
        check(self.mtu.base >= 576, "mtu.base", "must be at least 576")?;
        check(self.mtu.max >= self.mtu.base, "mtu.max", "must not be below mtu.base")?;
        check(self.mtu.max <= 65_532, "mtu.max", "must be at most 65532")?;
        check(
            !matches!(
                self.burst,
                BurstControl::MaxBurst(0)
                    | BurstControl::MaxBurstCutsCwnd(0)
                    | BurstControl::Pacing { quantum: 0 }
            ),
            "burst",
            "must allow at least one packet",
        )?;
        check(
            !matches!(self.initial_cwnd, InitialCwnd::Mtus(0)),
            "initial_cwnd",
            "must allow at least one packet",
        )
    }
}

impl Default for AssociationConfig {
    /// RFC 9260 with what two decades have taught: pacing in place of Max.Burst, an initial
    /// window of ten packets, lost retransmissions repaired without a timeout, failed paths
    /// probed at once, packets filled by fragments, no word of ICMP believed against the peer's;
    /// a path left at its first timeout, which comes after 300 ms and a round trip, and trouble
    /// looked into at once ([`Vigilance`]).
    fn default() -> Self {
        // exempt: rfc9260 10 "MUST treat this message as an abort with" these defaults wait for a second one, because hosts send it for packets that found the raw socket of their SCTP full; `rfc9260` keeps to the letter
        // With a floor of 300 ms above the SRTT a path that is cut costs 0.3 s and a round trip, and an
        // acknowledgement that a peer keeps back for 200 ms does not look like a loss (docs/cuts.md has
        // the measurements).
        // exempt: rfc9260 16 "The following protocol parameters are RECOMMENDED" these defaults have an RTO.Min of 300 ms, counted above the smoothed round-trip time; `rfc9260` keeps to the letter
        // exempt: rfc9260 7.2 "MUST NOT be more aggressive than the following" these defaults begin with ten packets as TCP does (RFC 6928); `rfc9260` keeps to the letter
        Self {
            rto_min: Duration::from_millis(300),
            rto_floor: RtoFloor::AboveSrtt,
            // req: rfc7829 6 "The following protocol parameter is RECOMMENDED"
            // req: rfc7829 3.2 "The RECOMMENDED value of PFMR is 0"
            potentially_failed_max_retrans: Some(0),
            vigilance: Some(Vigilance::default()),
            burst: BurstControl::Pacing { quantum: 16 },
            initial_cwnd: InitialCwnd::Mtus(10),
            slow_start_limit_mtus: 8,
            loss_detection: LossDetection::PacketThreshold,
            multiple_fast_retransmit: true,
            heartbeat_retry: HeartbeatRetry::AtOnce,
            protocol_unreachable: ProtocolUnreachable::AbortsWhenRepeated,
            fill_packets: true,
            ..Self::rfc9260()
        }
    }
}

/// An option that is out of its range.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigError {
    /// The option's name.
    pub option: &'static str,
    /// What is wrong with it.
    pub reason: &'static str,
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "option {}: {}", self.option, self.reason)
    }
}

impl std::error::Error for ConfigError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn profiles_are_valid() {
        for name in ["default", "rfc9260", "rfc4960", "rfc2960"] {
            AssociationConfig::profile(name).unwrap().validate().unwrap();
        }
        assert!(AssociationConfig::profile("rfc1").is_none());
        assert_eq!(AssociationConfig::rfc2960().missing_reports, 4);
        assert_eq!(AssociationConfig::rfc2960().initial_cwnd, InitialCwnd::Mtus(2));
        assert_eq!(AssociationConfig::rfc4960().rto_initial, Duration::from_secs(3));
    }

    #[test]
    // test: rfc9260 6.2 "MUST NOT allow the maximum delay (protocol parameter"
    // test: rfc9260 3.3.2 "Credit MUST NOT be smaller than 1500"
    // test: rfc9260 3.3.3 "Credit MUST NOT be smaller than 1500"
    // test: rfc9260 3.3.2 "The value 0 MUST NOT be used"
    // test: rfc9260 3.3.3 "The value 0 MUST NOT be used"
    // test: rfc9260 6.2 "MUST NOT raise it above 500 ms"
    fn values_out_of_range_are_named() {
        let refused = |change: fn(&mut AssociationConfig)| {
            let mut config = AssociationConfig::default();
            change(&mut config);
            config.validate().unwrap_err().option
        };
        assert_eq!(refused(|c| c.sack_delay = Duration::from_millis(501)), "sack_delay");
        assert_eq!(refused(|c| c.rto_min = Duration::ZERO), "rto_min");
        assert_eq!(refused(|c| c.rto_max = Duration::from_millis(1)), "rto_min");
        assert_eq!(refused(|c| c.rto_initial = Duration::from_secs(61)), "rto_initial");
        assert_eq!(refused(|c| c.receive_buffer = 1499), "receive_buffer");
        assert_eq!(refused(|c| c.mtu.base = 500), "mtu.base");
        assert_eq!(refused(|c| c.burst = BurstControl::MaxBurst(0)), "burst");
        assert_eq!(refused(|c| c.outbound_streams = 0), "outbound_streams");
        // test: rfc7829 5 "the PSMR MUST be set greater than or equal to the PFMR value"
        // test: rfc7829 5 "MUST reject any other values of PSMR"
        let below = |c: &mut AssociationConfig| {
            c.potentially_failed_max_retrans = Some(2);
            c.change_primary_threshold = Some(1);
        };
        assert_eq!(refused(below), "change_primary_threshold");
        let refused = |change: fn(&mut EndpointConfig)| {
            let mut config = EndpointConfig::default();
            assert_eq!(config.validate(), Ok(()));
            change(&mut config);
            config.validate().unwrap_err().option
        };
        assert_eq!(refused(|c| c.valid_cookie_life = Duration::ZERO), "valid_cookie_life");
        assert_eq!(
            refused(|c| c.cookie_secret_lifetime = Duration::from_secs(59)),
            "cookie_secret_lifetime"
        );
        assert_eq!(refused(|c| c.max_associations = 0), "max_associations");
        assert_eq!(refused(|c| c.memory_limit = 65_535), "memory_limit");
        assert_eq!(refused(|c| c.max_stateless_replies = 0), "max_stateless_replies");
        assert_eq!(refused(|c| c.quantum = 0), "quantum");
        let error = ConfigError { option: "x", reason: "must be y" };
        assert_eq!(error.to_string(), "option x: must be y");
    }

    #[test]
    fn headers_are_counted() {
        let v4 = IpAddr::from([127, 0, 0, 1]);
        let v6 = IpAddr::from([0u16, 0, 0, 0, 0, 0, 0, 1]);
        assert_eq!(Encapsulation::Udp.overhead(v4), 28);
        assert_eq!(Encapsulation::Ip.overhead(v6), 40);
    }
}
