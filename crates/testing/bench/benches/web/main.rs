//! Compares the file server with HTTP/2 and HTTP/3, and a large file with a plain transfer. Measures the cost of idle
//! streams, and of pages in virtual time.
//!
//! `cargo bench -p anabranch-bench --bench web -- [--only KEY,...] [--runs N] [--quick] [--json FILE] [--program FILE] [--list]`
//!
//! Builds the program unless one is given, and lets it serve files on the loopback interface. The peers of a figure run
//! alternately with it; the value is the ratio within a round, or has the given unit. HTTP/2 is nginx and h2load
//! (Debian packages `nginx-light` and `nghttp2-client`), HTTP/3 is h3 over quinn. Figures whose programs are not
//! installed are listed and skipped.
#![forbid(unsafe_code)]

mod figures;
mod files;
mod page;
mod requests;
mod streams;

use std::process::ExitCode;

use anabranch_bench::suite::Suite;

fn main() -> ExitCode {
    let suite =
        Suite { name: "web", figures: figures::ALL, groups: &[], runs: 5, takes_program: true };
    suite.main(std::env::args_os().skip(1))
}
