//! Congestion control: how the window changes.
//!
//! [`Reno`] follows the acknowledgements that advance, as RFC 5681 describes it. The controllers of the SCTP engine
//! ([`Engine`]) follow the data that arrives, is sent and is lost. [`Control`] is either.

mod engine;
mod reno;

use std::time::Duration;

use anabranch_units::Instant;

use crate::config::Config;
use crate::options::Congestion;
use engine::Engine;
pub(crate) use reno::{Growth, Reno, initial_segments};

/// What an acknowledgement says about the data in the network.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arrival {
    pub(crate) now: Instant,
    /// Bytes that it acknowledges for the first time, by position or by a block.
    pub(crate) bytes: u64,
    /// Bytes in the network before and after it, without regard to the losses that it shows.
    pub(crate) before: u64,
    pub(crate) after: u64,
    /// Nothing is outstanding any more.
    pub(crate) all: bool,
    /// The cumulative acknowledgement advances.
    pub(crate) advanced: bool,
    /// A recovery goes on after it.
    pub(crate) in_recovery: bool,
    /// Its measurement of the round-trip time, from segments sent once, and the smoothed one.
    pub(crate) rtt: Option<Duration>,
    pub(crate) smoothed: Option<Duration>,
}

/// What reduces the window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cause {
    Loss,
    /// A mark of the network (RFC 3168).
    Mark,
    /// The timer expired; whether it is the first time since data was acknowledged.
    Timeout {
        first: bool,
    },
}

/// The congestion control of a connection.
#[derive(Debug)]
pub(crate) enum Control {
    Reno(Reno),
    Engine(Engine),
}

impl Control {
    pub(crate) fn new(config: &Config, mss: u64) -> Self {
        match config.congestion {
            Congestion::Reno | Congestion::LinuxReno => Self::Reno(Reno::new(config, mss)),
            Congestion::Cubic => Self::Engine(Engine::new(config, mss)),
        }
    }

    /// Bytes that may be in the network.
    pub(crate) fn window(&self) -> u64 {
        match self {
            Self::Reno(reno) => reno.window(),
            Self::Engine(engine) => engine.window(),
        }
    }

    /// Slow start threshold in bytes; `u64::MAX` before the first loss.
    pub(crate) fn threshold(&self) -> u64 {
        match self {
            Self::Reno(reno) => reno.threshold(),
            Self::Engine(engine) => engine.threshold(),
        }
    }

    /// Window and threshold.
    pub(crate) fn windows(&self) -> (u64, u64) {
        (self.window(), self.threshold())
    }

    /// Reno, if it is Reno.
    pub(crate) fn reno(&mut self) -> Option<&mut Reno> {
        match self {
            Self::Reno(reno) => Some(reno),
            Self::Engine(_) => None,
        }
    }

    /// Data was sent: `bytes`, after which `in_network` bytes are in the network. `limited`: there is nothing more to
    /// send.
    pub(crate) fn on_sent(&mut self, now: Instant, bytes: u64, in_network: u64, limited: bool) {
        if let Self::Engine(engine) = self {
            engine.on_sent(now, bytes, in_network, limited);
        }
    }

    /// Data arrived. Reno grows by [`Reno::acknowledged`] instead.
    pub(crate) fn on_arrived(&mut self, arrival: &Arrival) {
        if let Self::Engine(engine) = self {
            engine.on_arrived(arrival);
        }
    }

    /// Reduces the window. `flight` bytes are outstanding, and `before` were in the network when it was found out.
    pub(crate) fn on_congestion(&mut self, now: Instant, cause: Cause, flight: u64, before: u64) {
        match (self, cause) {
            (Self::Reno(reno), Cause::Timeout { first }) => reno.timeout(flight, first),
            (Self::Reno(reno), _) => reno.loss(flight),
            (Self::Engine(engine), _) => engine.on_congestion(now, cause, before),
        }
    }

    /// `bytes` are considered lost, `in_network` are still in the network.
    pub(crate) fn on_lost(&mut self, now: Instant, cause: Cause, bytes: u64, in_network: u64) {
        if let Self::Engine(engine) = self
            && bytes > 0
        {
            engine.on_lost(now, cause, bytes, in_network);
        }
    }

    /// Undoes the last reduction, which was needless: `windows` is what there was before. After a timeout, with
    /// `in_network` bytes in the network.
    pub(crate) fn undo(&mut self, now: Instant, in_network: Option<u64>, windows: (u64, u64)) {
        match (self, in_network) {
            // req: rfc4015 3.1 "If the Eifel response algorithm is used, the following steps MUST be"
            (Self::Reno(reno), Some(in_network)) => reno.resume(in_network, windows),
            (Self::Reno(reno), None) => reno.restore(windows),
            (Self::Engine(engine), _) => engine.undo(now),
        }
    }

    /// Nothing was sent for this number of retransmission timeouts.
    pub(crate) fn on_idle(&mut self, now: Instant, timeouts: u32, initial_segments: u32) {
        match self {
            Self::Reno(reno) => reno.restart(initial_segments),
            Self::Engine(engine) => engine.on_idle(now, timeouts),
        }
    }

    /// Limits the window to a number of segments.
    pub(crate) fn limit(&mut self, now: Instant, segments: u32, mss: u64) {
        match self {
            Self::Reno(reno) => reno.limit(u64::from(segments) * mss),
            Self::Engine(engine) => engine.limit(now, segments),
        }
    }

    /// Starts with the threshold of an earlier connection.
    pub(crate) fn assume_threshold(&mut self, threshold: u64) {
        match self {
            Self::Reno(reno) => reno.assume_threshold(threshold),
            Self::Engine(engine) => engine.assume_threshold(threshold),
        }
    }
}
