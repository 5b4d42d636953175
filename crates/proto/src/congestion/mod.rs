//! Congestion control: how much may be in flight on a path.
//!
//! [`Controller`] is the trait, with [`ControllerChoice`] in the options; a file for each algorithm
//! that comes with this crate. How the windows of several paths depend on each other is in
//! `coupling`.

mod config;
mod controller;
mod coupling;
mod rfc9260;

pub use config::{BurstControl, CongestionConfig, IdleCwnd, InitialCwnd};
pub use controller::{Acked, Controller, ControllerChoice, ControllerFactory, Loss, NewPath};
pub(crate) use coupling::PathView;
pub use coupling::{Coupled, Coupling};
