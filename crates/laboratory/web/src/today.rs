//! TCP as hosts have it today.

use std::time::Duration;

use anabranch_tcp::{Config, ForwardRto, LossDetection, Undo};

/// TCP with the options of a current Linux kernel: an initial window of ten segments (RFC 6928), RACK-TLP (RFC 8985),
/// a minimum RTO of 200 ms, selective acknowledgements, D-SACKs, timestamps, F-RTO and undo of spurious recoveries, in
/// IP packets of at most 1,500 bytes. Only its congestion control is older: NewReno instead of CUBIC.
///
/// With these options it behaves like the kernel's TCP in the cases of `docs/tcp-kernel.md`.
pub fn tcp_of_today() -> Config {
    let mut config = Config::default();
    config.mss = 1448;
    config.initial_window = 10;
    config.window_update = 2;
    config.rto_min = Duration::from_millis(200);
    config.rto_granularity = Duration::from_millis(200);
    config.rearm_in_recovery = true;
    config.handshake_rtt = true;
    config.loss_detection = LossDetection::TimeThreshold;
    config.tail_probe = true;
    config.dsack = true;
    config.timestamps = true;
    config.undo = Undo::Both;
    config.f_rto = ForwardRto::Sack;
    config
}
