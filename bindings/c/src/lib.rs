//! The library `anabranch` for C: the socket calls of RFC 6458, in user space.
//!
//! `include/anabranch.h` has the interface and `docs/c.md` describes it. [`ffi`] is what C calls:
//! it checks pointers and lengths, catches panics, and calls the safe `socket` of
//! `anabranch-sockets`. `descriptor` there makes descriptors that `poll` can wait for.
//!
//! Sockets share a `host`: one thread that runs all endpoints of the process. With the feature
//! `packetdrill` there is a second host, driven by packetdrill instead of the network. Linux only:
//! structures, constants and descriptors are those of Linux.
#![cfg(target_os = "linux")]
#![deny(unsafe_op_in_unsafe_fn)]
#![warn(clippy::undocumented_unsafe_blocks)]

mod abi;
mod address;
mod errno;
pub mod ffi;
mod notifications;
#[cfg(feature = "packetdrill")]
pub mod packetdrill;
mod values;
mod world;

pub use ffi::layout;
