//! The file server compared with HTTP/2 and HTTP/3, a large file with a plain transfer, and the cost of idle streams
//! and of pages in virtual time.
//!
//! `cargo bench -p anabranch-bench --bench web -- [--only KEY,...] [--runs N] [--quick] [--json FILE] [--program FILE] [--list]`
//!
//! Builds the program, unless one is given, and has it serve files on the loopback interface. The peers of a figure run
//! alternately with it; its value is the ratio within a round, or has the given unit. HTTP/2 is nginx and h2load
//! (packages `nginx-light` and `nghttp2-client` of Debian), HTTP/3 is h3 over quinn; figures whose programs are not
//! installed are named and left out.
#![forbid(unsafe_code)]

mod children;
mod figures;
mod files;
mod page;
mod requests;
mod streams;

use std::process::ExitCode;

use anabranch_bench::suite::Suite;

fn main() -> ExitCode {
    let suite = Suite { name: "web", figures: figures::ALL, runs: 5, takes_program: true };
    suite.main(std::env::args_os().skip(1))
}
