//! Network impairment models: loss, delay, rate, queues, reordering.
//!
//! A [`Link`] is one direction of one path. It does no I/O and reads no clock: a driver offers packets with
//! [`Link::send`], waits until [`Link::next_deadline`] and takes arrived packets with [`Link::poll`]. Time is a `u64`
//! of nanoseconds since an arbitrary start, so the same model serves a test in virtual time and a forwarder on real
//! sockets. With the same seed and the same calls a link behaves the same on every machine.
//!
//! ```
//! use std::time::Duration;
//! use anabranch_impair::{Link, LinkConfig, Loss, Probability};
//!
//! let config = LinkConfig::new()
//!     .rate(1_000_000)
//!     .delay(Duration::from_millis(20))
//!     .loss(Loss::Uniform(Probability::percent(1)));
//! let mut link: Link<Vec<u8>> = Link::new(config, 7)?;
//! link.send(0, vec![0; 1250]);
//! while let Some(deadline) = link.next_deadline() {
//!     if let Some(packet) = link.poll(deadline) {
//!         assert_eq!((deadline, packet.len()), (30_000_000, 1250));
//!     }
//! }
//! # Ok::<(), anabranch_impair::ConfigError>(())
//! ```
//!
//! A packet passes these stages of a link:
//!
//! 1. The entrance ([`Link::send`]). A packet is refused if it is too large for the MTU, if the link is down, if the
//!    queue has no room, or if RED drops it; the outcome reports which.
//! 2. The transmitter. Packets are sent one after another at the configured rate. Without a rate they are sent
//!    immediately, and nothing ever waits. CoDel drops packets when they reach the head of the queue.
//! 3. The wire. Packets that the loss model selects are lost here, after using the queue and the rate, as on a real
//!    link. The others may be corrupted or duplicated, and arrive after delay, jitter and the extra delay of those
//!    held back.
//!
//! In addition to these models, patterns ([`pattern`]) determine the fate of single packets. They are evaluated at
//! the entrance and take effect in the later stages.
#![forbid(unsafe_code)]

mod config;
mod discipline;
#[cfg(feature = "file")]
pub mod file;
mod link;
mod loss;
mod packet;
pub mod pattern;
mod random;
mod record;
mod stats;
mod transmitter;
mod wire;

pub use config::{ConfigError, Cut, LinkConfig, MAX_RATE, MAX_SPAN, QueueLimit};
pub use discipline::{CoDel, Discipline, Red};
pub use link::{Link, LossCause, SendOutcome};
pub use loss::{BurstsInTime, GilbertElliott, Loss, Pattern};
pub use packet::{Packet, flip};
pub use random::{Probability, Rng};
pub use record::{Cause, Effects, Fate, Record};
pub use stats::LinkStats;
pub use transmitter::QueueIntegral;
