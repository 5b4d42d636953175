//! The figures: what each of them runs, and its target.

use anabranch_bench::suite::Target;
use anabranch_bench::suite::single::Single;

use crate::{files, page, requests, streams};

pub(crate) const ALL: &[Single] = &[
    Single {
        key: "requests_vs_h2",
        title: "requests a second for 5 KB, 32 at a time: serve over SCTP/UDP, and nginx over HTTP/2 without TLS",
        unit: "ratio",
        target: Target::Aim(0.6),
        measure: requests::vs_h2,
    },
    Single {
        key: "requests_vs_h3",
        title: "requests a second for 5 KB, 32 at a time: serve over SCTP/UDP, and h3 over quinn",
        unit: "ratio",
        target: Target::Aim(1.0),
        measure: requests::vs_h3,
    },
    Single {
        key: "file_vs_perf",
        title: "a file of 1 GB from serve to get, and the same many bytes from perf client to perf server",
        unit: "ratio",
        target: Target::Aim(0.9),
        measure: files::vs_perf,
    },
    Single {
        key: "stream_bytes",
        title: "bytes that a server holds for one more idle stream; in user space for one more TCP connection",
        unit: "bytes",
        target: Target::None,
        measure: streams::bytes,
    },
    Single {
        key: "page_cpu_ms",
        title: "CPU time of loading a page of ten objects of 10 kB over SCTP in virtual time",
        unit: "ms",
        target: Target::AtMost(10.0),
        measure: page::cpu,
    },
];
