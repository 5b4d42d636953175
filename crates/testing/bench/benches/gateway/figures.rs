//! The figures: what each of them runs, and its target.

use anabranch_bench::suite::Target;
use anabranch_bench::suite::single::Single;

use crate::{proxied, sealed};

pub(crate) const ALL: &[Single] = &[
    Single {
        key: "sealed_share",
        title: "messages of 16 KB over sealed paths, and over plain ones",
        unit: "ratio",
        target: Target::AtLeast(0.55),
        measure: sealed::share,
    },
    Single {
        key: "sealed_vs_quinn",
        title: "messages of 16 KB over sealed paths, and the same bytes over QUIC with quinn",
        unit: "ratio",
        target: Target::AtLeast(1.4),
        measure: sealed::vs_quinn,
    },
    Single {
        key: "gateway_vs_ss",
        title: "1 GB by curl over SOCKS5 through the gateway, and through Shadowsocks",
        unit: "ratio",
        target: Target::AtLeast(1.0),
        measure: proxied::download_vs_ss,
    },
    Single {
        key: "added_p50_vs_ss",
        title: "what the gateway adds to the median round trip of 64 bytes, and what Shadowsocks adds",
        unit: "ratio",
        target: Target::AtMost(1.0),
        measure: proxied::added_vs_ss,
    },
    Single {
        key: "stream_bytes",
        title: "memory of both sides of the gateway for each of 1,000 connections at once",
        unit: "bytes",
        target: Target::None,
        measure: proxied::stream_bytes,
    },
];
