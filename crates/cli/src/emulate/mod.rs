//! `emulate`: networks in namespaces, lines between TUN devices, relays for UDP.

#[cfg(target_os = "linux")]
mod device;
#[cfg(target_os = "linux")]
pub(crate) mod experiment;
#[cfg(target_os = "linux")]
mod line;
#[cfg(target_os = "linux")]
mod lines;
#[cfg(target_os = "linux")]
pub(crate) mod network;
pub(crate) mod relay;
mod report;

#[cfg(target_os = "linux")]
pub(crate) use self::lines::{Emulation, EndAddress, LineAddress};
