//! Hands the socket calls of a program to another process: seccomp user notification (seccomp_unotify(2)). Linux 5.14
//! or later, without privileges.
//!
//! [`spawn`] starts a program that waits, in each of the calls of [`Call`], until the owner of the [`Listener`] has
//! answered. Its children do so as well. Other calls are the kernel's, and so is `socket` unless it asks for SCTP.
//!
//! A notification ends when its thread dies or gets a signal. The number of that thread may then be another's. So
//! to look at the thread's process, first open what is needed (its memory, its descriptors), and then ask
//! [`Listener::is_valid`]: if the answer is yes, it was the right process.
//!
//! | module | what it does |
//! |---|---|
//! | `filter` | the program that the kernel runs for each call |
//! | `listener` | notifications and their answers |
//! | `queue` | what the other end of a socket has not read |
//! | `spawn` | starts a program with the filter |
#![cfg(target_os = "linux")]
#![deny(unsafe_op_in_unsafe_fn)]
#![warn(clippy::undocumented_unsafe_blocks)]

mod filter;
mod listener;
mod queue;
mod spawn;

pub use filter::Call;
pub use listener::{Listener, Notification, Reply};
pub use queue::is_read;
pub use spawn::spawn;
