//! The library that `anabranch run` loads into unmodified programs (LD_PRELOAD). It translates the calls of libc and
//! libsctp that have a meaning in SCTP, and leaves all others to the C library. `docs/run.md` describes the protocol.
//!
//! The code runs in any program, at any moment: in signal handlers, after `fork` in a thread, between `vfork` and
//! `exec`, in threads with small stacks. So it has no threads and no locks, it does not allocate (except the lists of
//! `sctp_getpaddrs` and `sctp_getladdrs`, which callers free), and it keeps no state about sockets. What it remembers
//! are hints, and the kernel or the engine checks them.
//!
//! | module | what it does |
//! |---|---|
//! | `next` | the functions of the next library, usually libc |
//! | `known` | hints about descriptors |
//! | `ours` | whether a descriptor is an SCTP socket |
//! | `engine` | calls to the engine |
//! | `records` | system calls on a channel |
//! | `sending`, `receiving`, `accepting` | messages and associations |
//! | `options` | `getsockopt` and `setsockopt` |
//! | `tcp` | TCP sockets under `--tcp` |
//! | `posix`, `descriptors`, `libsctp` | the functions that programs call |
#![cfg(target_os = "linux")]
#![deny(unsafe_op_in_unsafe_fn)]
#![warn(clippy::undocumented_unsafe_blocks)]
#![cfg_attr(test, allow(dead_code, reason = "the functions that programs call are left out"))]

mod accepting;
mod arguments;
mod engine;
mod known;
mod next;
mod options;
mod ours;
mod receiving;
mod records;
mod sending;
mod tcp;

// In a test, these functions would replace those of the test's own process.
#[cfg(not(test))]
mod descriptors;
#[cfg(not(test))]
mod libsctp;
#[cfg(not(test))]
mod posix;

/// Runs when the library is loaded, before the program and before its threads.
extern "C" fn start() {
    next::resolve();
    engine::find();
    tcp::find();
    known::start();
}

// SAFETY: the dynamic linker calls the functions in this section, in this order of arguments, when it has loaded the
// library and those that it needs.
#[unsafe(link_section = ".init_array")]
#[used]
static START: extern "C" fn() = start;
