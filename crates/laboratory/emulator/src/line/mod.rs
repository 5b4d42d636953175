//! Lines between TUN devices in namespaces that exist already.

mod address;
#[cfg(target_os = "linux")]
mod device;
#[cfg(target_os = "linux")]
mod forwarder;

pub use address::{EndAddress, LineAddress};
#[cfg(target_os = "linux")]
pub use forwarder::Forwarder;
