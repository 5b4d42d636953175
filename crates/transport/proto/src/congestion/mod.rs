//! Congestion control (RFC 9260 section 7).
//!
//! A [`Controller`] decides how much may be in flight on one path. [`CongestionControl`] lists
//! the named ones; a program can supply its own as a [`ControllerChoice`].

mod built_in;
mod config;
mod controller;
mod coupling;
mod hystart;
mod pacer;
mod prr;
mod rate;
mod window;

pub use built_in::CongestionControl;
pub use config::{BurstControl, CongestionConfig, IdleCwnd, InitialCwnd, SlowStart};
pub use controller::{
    Acked, CongestionEvent, Controller, ControllerChoice, ControllerFactory, Idle, Loss, LostData,
    Needs, NewPath, Rtt, Sent,
};
pub(crate) use coupling::PathView;
pub use coupling::{Coupled, Coupling};
pub use pacer::Pacer;
pub use rate::{LossSample, RateSample, RateSampler};
