//! Congestion control: how much data may be in flight on a path, and how it is paced.
//!
//! The option [`congestion_control`](CongestionConfig::congestion_control) chooses a built-in controller
//! by name ([`CongestionControl`]). A program can supply its own [`Controller`]:
//! [`AssociationConfig::controller`](crate::AssociationConfig::controller) takes its factory, and
//! `examples/own-controller` has one that measures the delivery rate of the path.
//!
//! The options are in [`AssociationConfig::congestion`](crate::AssociationConfig::congestion), except
//! [`Coupling`], which defines how the windows of several paths depend on each other and is in
//! [`MultipathConfig::coupling`](crate::config::MultipathConfig::coupling).
//!
//! ```
//! use anabranch::AssociationConfig;
//! use anabranch::congestion::{BurstControl, IdleCwnd, InitialCwnd};
//!
//! let config = AssociationConfig::default().with(|config| {
//!     config.congestion.initial_cwnd = InitialCwnd::Mtus(10);
//!     config.congestion.burst = BurstControl::Pacing { quantum: 4 };
//!     config.congestion.idle_cwnd = IdleCwnd::Keep;
//! });
//! assert!(config.validate().is_ok());
//! ```

#[doc(no_inline)]
pub use anabranch_proto::Instant;
#[doc(no_inline)]
pub use anabranch_proto::config::{
    BurstControl, CongestionConfig, CongestionControl, Coupling, IdleCwnd, InitialCwnd, SlowStart,
};
#[doc(no_inline)]
pub use anabranch_proto::congestion::{
    Acked, CongestionEvent, Controller, ControllerChoice, ControllerFactory, Coupled, Idle, Loss,
    LossSample, LostData, Needs, NewPath, RateSample, Rtt, Sent,
};
