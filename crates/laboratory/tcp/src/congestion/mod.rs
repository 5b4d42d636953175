//! Congestion control: how the window changes.
//!
//! [`Reno`] follows the acknowledgements that advance, as RFC 5681 describes it. The controllers of the SCTP engine
//! ([`Engine`]) follow the data that arrives, is sent and is lost. [`Control`] is either.

mod engine;
mod pacing;
mod reno;

use std::time::Duration;

use anabranch_proto::config::CongestionControl;
use anabranch_units::Instant;

use crate::config::Config;
use crate::options::Congestion;
use engine::Engine;
pub(crate) use reno::{Growth, Reno, initial_segments};

/// A segment with data that is sent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Departure {
    pub(crate) now: Instant,
    /// Transmissions are numbered in sending order.
    pub(crate) number: u64,
    pub(crate) bytes: u64,
    /// Bytes in the network with it.
    pub(crate) in_network: u64,
    /// There is nothing more to send.
    pub(crate) limited: bool,
}

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
    /// The latest transmission among those that it acknowledges for the first time.
    pub(crate) latest: Option<u64>,
    /// The oldest transmission that is not known to have arrived, if the control
    /// [samples the rate](Control::samples_rate).
    pub(crate) oldest: Option<u64>,
}

/// Data that is considered lost.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lost {
    pub(crate) now: Instant,
    pub(crate) cause: Cause,
    pub(crate) bytes: u64,
    /// Bytes that are still in the network.
    pub(crate) in_network: u64,
    /// The latest transmission that is lost.
    pub(crate) latest: Option<u64>,
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
            Congestion::Cubic => Self::Engine(Engine::new(config, CongestionControl::Cubic, mss)),
            Congestion::Bbr => Self::Engine(Engine::new(config, CongestionControl::Bbr, mss)),
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

    /// A controller of the engine, if it is one.
    fn engine(&self) -> Option<&Engine> {
        match self {
            Self::Reno(_) => None,
            Self::Engine(engine) => Some(engine),
        }
    }

    /// Whether it measures the delivery rate.
    pub(crate) fn samples_rate(&self) -> bool {
        self.engine().is_some_and(Engine::samples_rate)
    }

    /// Whether it spreads segments over time.
    pub(crate) fn paces(&self) -> bool {
        self.engine().is_some_and(Engine::paces)
    }

    /// Whether pacing holds back a segment now. Then [`paced_until`](Self::paced_until) says how long.
    pub(crate) fn holds_back(&mut self, now: Instant, smoothed: Option<Duration>) -> bool {
        match self {
            Self::Reno(_) => false,
            Self::Engine(engine) => engine.holds_back(now, smoothed),
        }
    }

    /// Until when pacing holds back segments.
    pub(crate) fn paced_until(&self) -> Option<Instant> {
        self.engine().and_then(Engine::paced_until)
    }

    /// Time has passed.
    pub(crate) fn handle_timeout(&mut self, now: Instant) {
        if let Self::Engine(engine) = self {
            engine.handle_timeout(now);
        }
    }

    /// The handshake took this time.
    pub(crate) fn on_handshake(&mut self, now: Instant, rtt: Duration) {
        if let Self::Engine(engine) = self {
            engine.on_handshake(now, rtt);
        }
    }

    /// A segment with data was sent.
    pub(crate) fn on_sent(&mut self, departure: &Departure) {
        if let Self::Engine(engine) = self {
            engine.on_sent(departure);
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

    /// Data is considered lost.
    pub(crate) fn on_lost(&mut self, lost: &Lost) {
        if let Self::Engine(engine) = self
            && lost.bytes > 0
        {
            engine.on_lost(lost);
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
