//! The file server beside HTTP/2 and HTTP/3, a large file beside a plain transfer, and what idle streams and pages in
//! virtual time cost.
//!
//! `cargo bench -p anabranch-bench --bench web -- [--only KEY,...] [--runs N] [--quick] [--json FILE] [--program FILE] [--list]`
//!
//! Builds the program, unless one is given, and has it serve files on the loopback interface. The peers of a figure
//! run in turn with it; its value is the ratio within a turn, or what its unit says. HTTP/2 is nginx and h2load
//! (packages `nginx-light` and `nghttp2-client` of Debian), HTTP/3 is h3 over quinn; what is not installed is named and
//! left out.
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
