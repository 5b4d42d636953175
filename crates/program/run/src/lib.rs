//! The engine of unmodified programs: their SCTP sockets, outside of them. Linux only.
//!
//! `docs/run.md` describes the protocol. An [`Engine`] waits for calls at an abstract name, or in a directory, that programs
//! find in their environment. Each socket of a program is an `Open`: a socket of `anabranch-sockets`, and the engine's end of a
//! channel whose other end is the program's descriptor.
//!
//! | module | what it does |
//! |---|---|
//! | `engine` | accepts calls, keeps the table of sockets |
//! | `answer` | carries out a call |
//! | `open` | moves records between a channel and a socket |
//! | `place` | where programs find the engine |
//! | `outbox` | records that wait for the program |
//! | `recall` | takes records back from the program's queue |
//! | `sending` | messages from the program |
//! | `tcp` | TCP connections of programs over SCTP |
//! | `trap` | programs that make system calls without the C library |
//! | `transfer` | reads and writes records |
//! | `obstacle` | programs that cannot use the library |
//! | `program` | starts a program, and stays until its last process has ended |
//!
//! All tasks run on the thread of the endpoints and never block it. Calls that may wait for a UDP port run on threads
//! for blocking calls.
#![cfg(target_os = "linux")]
#![forbid(unsafe_code)]

mod answer;
mod engine;
mod lock;
mod obstacle;
mod open;
mod outbox;
mod place;
mod program;
mod recall;
mod sending;
mod tcp;
mod transfer;
mod trap;

pub use anabranch_channel::name::VARIABLE;
pub use anabranch_notify::Listener;
pub use anabranch_sockets::{Hooks, Local};
pub use engine::{Engine, Settings};
pub use obstacle::Obstacle;
pub use place::check;
pub use program::Program;
pub use tcp::{HostList, TcpSettings, WrongHost};
