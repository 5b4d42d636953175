//! A sans-IO TCP. The laboratory uses it as the baseline for SCTP and as greedy cross-traffic. It is not meant for real
//! networks.
//!
//! It implements what the literature calls "SACK TCP with NewReno": connections as in RFC 9293, congestion control as
//! in RFC 5681 with limited transmit (RFC 3042), loss recovery with selective acknowledgements (RFC 6675) or without
//! them (RFC 6582), the timer of RFC 6298 with Karn's algorithm, and window scaling (RFC 7323). Receivers acknowledge
//! as hosts do: quickly at first, then every second segment. Urgent data, PAWS and TIME-WAIT are not implemented.
//!
//! Options of [`Config`], all off by default, add later extensions for thin flows and for networks that reorder: early
//! retransmit, RTO restart, RACK-TLP, D-SACK and timestamps with undo, F-RTO, Linux's threshold, TCP-NCR, and ECN.
//! CUBIC and BBR are those of the SCTP engine. A [`Cache`] passes on the metrics of earlier connections.
//!
//! ```
//! use anabranch_units::Instant;
//! use anabranch_tcp::{Config, Connection};
//!
//! let now = Instant::ZERO;
//! let mut client = Connection::connect(Config::default(), (1024, 80), 7);
//! let mut server = Connection::accept(Config::default(), 80, 9);
//! client.write(b"a request".as_slice().into());
//! client.finish();
//! // A perfect network without delay.
//! loop {
//!     let (request, answer) = (client.poll_transmit(now), server.poll_transmit(now));
//!     if request.is_none() && answer.is_none() {
//!         break;
//!     }
//!     request.into_iter().for_each(|segment| server.handle(now, segment));
//!     answer.into_iter().for_each(|segment| client.handle(now, segment));
//! }
//! assert_eq!(server.read().as_deref(), Some(&b"a request"[..]));
//! assert!(server.is_at_end());
//! ```
#![forbid(unsafe_code)]

mod cache;
mod config;
mod congestion;
mod connection;
mod ecn;
mod options;
mod quick_acks;
mod receiver;
mod recovery;
mod rto;
mod scoreboard;
mod segment;
mod sender;
mod sequence;
mod timestamps;

pub use cache::{Cache, Metrics};
pub use config::Config;
pub use connection::{Connection, Stats};
pub use options::{
    Congestion, ForwardRto, LossDetection, MetricCache, Profile, Reordering, SlowStartLimit, Undo,
};
pub use segment::HEADER;

#[cfg(test)]
mod tests;
