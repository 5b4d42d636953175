//! Real programs and sockets on networks with the links of [`anabranch_impair`], in real time.
//!
//! | what | type | needs |
//! |---|---|---|
//! | hosts, routers and links in namespaces | [`Emulation`] | Linux, user namespaces |
//! | lines between TUN devices in namespaces that exist | [`Forwarder`] | Linux, CAP_NET_ADMIN |
//! | UDP relayed between addresses | [`Relay`] | nothing |
//! | runs of the laboratory with real sockets | [`Anywhere`] | Linux, user namespaces |
//!
//! Nothing here prints, catches signals or ends the process. A run takes a receiver that stops it when it becomes
//! `true`, and returns what happened. Notices during the run go to a callback ([`Notify`]). [`isolation`] is the
//! exception: it starts the calling program again inside new namespaces.
#![forbid(unsafe_code)]

mod anywhere;
mod error;
#[cfg(target_os = "linux")]
mod experiment;
#[cfg(target_os = "linux")]
pub mod isolation;
mod line;
#[cfg(target_os = "linux")]
mod network;
mod notice;
mod relay;
mod report;
mod stop;

pub use anywhere::Anywhere;
pub use error::Error;
#[cfg(target_os = "linux")]
pub use line::Forwarder;
pub use line::{EndAddress, LineAddress};
#[cfg(target_os = "linux")]
pub use network::{
    Capture, Emulation, Ended, FateLog, Form, Observers, Outcome, Programs, Replay, Summary,
    Topology, Way,
};
pub use notice::{Notice, Notify};
pub use relay::{Relay, RelayAddress};
pub use report::LinkReport;
