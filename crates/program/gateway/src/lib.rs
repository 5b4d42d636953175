//! A proxy in two halves, with one SCTP association between them.
//!
//! [`Near`] runs beside the programs that want to reach the network: it is a proxy for HTTP and SOCKS5. [`Far`] runs
//! where the network is good: it resolves names and connects to targets. Each connection is a byte stream of one
//! [`Association`](anabranch::Association), so all of them share its paths, its congestion control and its failover,
//! and none waits for the losses or the readers of another.
//!
//! Datagrams of UDP are messages of it with a limited lifetime. On Linux, `Command` is a program whose whole network is
//! the near side.
//!
//! The crate is thin over the library: the caller brings endpoints and associations. docs/gateway.md describes the
//! protocol between the two.
#![forbid(unsafe_code)]

mod access;
mod accounts;
mod dial;
mod far;
#[cfg(any(fuzzing, test))]
#[cfg_attr(not(fuzzing), allow(unreachable_pub, reason = "the fuzz targets use it from outside"))]
mod fuzzing;
mod limit;
mod near;
mod prometheus;
mod protocol;
mod public;
mod reading;
mod relay;
mod rules;
mod status;
mod stream;
mod target;
mod traffic;
mod udp;
mod uplinks;
mod urgency;
mod usage;

pub use access::{Access, Asked, Log};
pub use accounts::{Account, Accounts, Allowance, Allowances, NoAllowance};
pub use far::{Far, FarOptions};
#[cfg(fuzzing)]
#[doc(hidden)]
pub use fuzzing::{proxy as check_proxy, socks5 as check_socks5};
pub use limit::{Limit, LimitState, NoLimit};
#[cfg(target_os = "linux")]
pub use near::command::{Command, Inside, inside};
pub use near::{Connect, Link, LinkEvent, Near, NearOptions, Page};
pub use prometheus::prometheus_of_pictures;
pub use public::is_public;
pub use rules::{NoRule, Rule, Rules};
pub use status::{Refusal, Status};
pub use target::{Host, Target};
pub use traffic::{Amount, HostTraffic, Traffic};
pub use udp::counters::UdpStatistics;
pub use uplinks::{NoUplink, UplinkSpec, UplinkState, Uplinks};
