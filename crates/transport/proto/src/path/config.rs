//! Options of a path: its timers and its MTU.

use std::time::Duration;

use crate::named::named;
use crate::options::{Kind, section, words};

/// Maximum time for options.
const HOUR: u64 = 3_600_000;

section! {
    /// Retransmission timer, heartbeats, and the end of idle associations.
    pub struct TimerConfig {
        /// RTO.Initial. Must lie between `rto_min` and `rto_max`. 1 s.
        rto_initial: Duration = Duration::from_secs(1), TIME, live;
        /// RTO of a path whose handshake took longer than RTO.Initial, so that it was repeated and measured
        /// nothing, until something is measured: as RFC 6298 section 5.7 has it for TCP, with 3 s. Kept
        /// within RTO.Initial and RTO.Max. Off, which is RFC 9260, has RTO.Initial. Off.
        rto_slow_handshake: Option<Duration> = None, Kind::millis(1, HOUR), live;
        /// RTO.Min, counted as `rto_floor` says. 1 s.
        rto_min: Duration = Duration::from_secs(1), TIME, live;
        /// What RTO.Min is the least value of.
        rto_floor: RtoFloor = RtoFloor::Rto, Kind::Word(RtoFloor::NAMES);
        /// RTO.Max. 60 s.
        rto_max: Duration = Duration::from_secs(60), TIME, live;
        /// HB.interval, the time between heartbeats on a path without data; off sends heartbeats for
        /// path verification only. 30 s.
        heartbeat_interval: Option<Duration> = Some(Duration::from_secs(30)), Kind::millis(1, HOUR),
            live;
        /// Ends the association after this time without user data in either direction. Off.
        autoclose: Option<Duration> = None, Kind::millis(1, 1000 * HOUR), live;
    }
}

const TIME: Kind = Kind::Time { least: Duration::from_nanos(1), most: Duration::from_millis(HOUR) };

section! {
    /// Path MTU discovery (RFC 8899).
    // req: rfc8899 5.1.2 "default BASE_PLPMTU of 1200 bytes is RECOMMENDED"
    #[derive(Copy)]
    pub struct MtuConfig {
        /// Whether larger packets are searched for with probes. On.
        discovery as "mtu_discovery": bool = true, Kind::Switch;
        /// IP packet size in bytes that every path is expected to carry (BASE_PLPMTU). 1,200.
        base as "mtu_base": u16 = 1200, Kind::size(576, 65_532);
        /// Largest IP packet size in bytes that is ever tried, not below `mtu_base`. 1,500; drivers
        /// lower it to the interface's MTU.
        max as "mtu_max": u16 = 1500, Kind::size(576, 65_532);
        /// The search is repeated after this time (PMTU_RAISE_TIMER). 10 min.
        raise_interval as "mtu_raise_interval": Duration = Duration::from_secs(600), TIME;
    }
}

impl MtuConfig {
    /// A fixed path MTU, the size of IP packets in bytes. When a router says that it forwards less,
    /// that counts instead for [`raise_interval`](Self::raise_interval).
    pub fn fixed(mtu: u16) -> Self {
        Self { discovery: false, base: mtu, max: mtu, ..Self::default() }
    }
}

/// The value that RTO.Min limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RtoFloor {
    /// Of the RTO (RFC 9260 section 6.3.1, C6).
    Rto,
    /// The part of the RTO above the smoothed round-trip time, as in Linux' TCP. A peer may delay its
    /// acknowledgement by 200 ms and more; a minimum for the RTO itself covers that on short paths
    /// only, or costs a second everywhere.
    AboveSrtt,
}

named!(RtoFloor { Rto = "rto", AboveSrtt = "above-srtt", });
words!(RtoFloor);
