//! Options of associations.

use std::time::Duration;

use anabranch_impair::Rng;
use anabranch_proto::config::{CongestionControl, Coupling};
use anabranch_proto::{AssociationConfig, MultipathMode};

use super::{Draw, by_kind};

/// Options of one end. Each option has separate draws, so that a new option does not change the others of a seed.
pub(super) fn association(seed: u64, end: u64) -> AssociationConfig {
    let mut d = Draw(Rng::stream(seed, 9260 + end));
    // The other profiles differ from these only in options that are drawn one by one.
    let (_, profile) = d.of(&AssociationConfig::PROFILES[..4]);
    // A third of the ends start with the default instead of an RFC's profile.
    let mut config = if d.one_in(3) { AssociationConfig::default() } else { profile() };
    timeouts(&mut d, &mut config);
    packets(&mut d, &mut config);
    for option in AssociationConfig::options() {
        let name = option
            .name
            .bytes()
            .fold(end, |sum, byte| (sum ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
        let d = &mut Draw(Rng::stream(seed, name));
        let text = match special(option.name, d) {
            Special::No if d.one_in(2) => by_kind::value(d, &option),
            Special::No => None,
            Special::Is(text) => text,
        };
        let Some(text) = text else { continue };
        let before = config.clone();
        let done = option.set(&mut config, &text);
        done.unwrap_or_else(|error| panic!("the drawn value is invalid: {error}"));
        // Discard a value that contradicts another option.
        if config.validate().is_err() {
            config = before;
        }
    }
    config
}

/// Has both ends of some runs agree on changes of addresses, which needs the same options of both.
pub(super) fn readdressing(d: &mut Draw, configs: &mut [AssociationConfig; 2]) {
    if !d.one_in(4) {
        return;
    }
    for config in configs {
        config.authentication.authentication = true;
        config.addresses.address_reconfiguration = true;
        config.addresses.roam |= d.one_in(2);
    }
}

/// Options that are not drawn by their kind.
enum Special {
    No,
    /// `None` keeps the profile's value.
    Is(Option<String>),
}

/// Options whose values decide whether a run tests anything. Most are drawn far below their usual value, so that
/// windows close, streams run out and associations give up within a run.
fn special(name: &str, d: &mut Draw) -> Special {
    let mut sometimes = |one_in: u64, low: u64, high: u64, unit: &str| {
        d.one_in(one_in).then(|| format!("{} {unit}", d.scale(low, high)))
    };
    let text = match name {
        // Drawn together with the options on which they depend.
        "rto_min" | "rto_max" | "rto_initial" | "mtu_discovery" | "mtu_base" | "mtu_max" => None,
        "multipath" => None,
        // The other end would have to offer it.
        "require_authentication" => None,
        // They need authentication, which is drawn before.
        "address_reconfiguration" | "roam" => (!d.one_in(3)).then(|| "on".to_owned()),
        // It needs both ends and a link that marks.
        "ecn" => (!d.one_in(3)).then(|| "on".to_owned()),
        // Streams below and above it are in use.
        "class_from" => d.one_in(3).then(|| d.between(0, 8).to_string()),
        "copies_up_to" => sometimes(3, 1, 2000, "B"),
        "autoclose" => sometimes(12, 100, 60_000, "ms"),
        "mtu_raise_interval" => sometimes(4, 100, 60_000, "ms"),
        "receive_buffer" => sometimes(1, 1500, 1 << 20, "B"),
        "send_buffer" => sometimes(1, 1, 1 << 20, "B"),
        "receive_buffer_start" => sometimes(3, 1500, 1 << 18, "B"),
        "send_buffer_start" => sometimes(3, 1, 1 << 18, "B"),
        "stream_send_buffer" => sometimes(4, 1, 1 << 16, "B"),
        "partial_delivery_point" => sometimes(3, 1, 1 << 18, "B"),
        "outbound_streams" => Some(d.of(&[1, 2, 10, 64, 1024, 65_535]).to_string()),
        "inbound_streams" => Some(d.of(&[1, 2, 10, 1024, 65_535]).to_string()),
        "association_max_retrans" | "max_init_retransmits" => {
            d.one_in(2).then(|| d.between(2, 20).to_string())
        }
        // With zero, no path would ever be verified.
        "hb_max_burst" => d.one_in(2).then(|| d.between(1, 4).to_string()),
        "heartbeat_interval" => {
            d.one_in(3).then(|| d.of(&["off", "10 ms", "1 s", "5 s"]).to_owned())
        }
        "potentially_failed_max_retrans" => {
            d.one_in(3).then(|| d.of(&["off", "0", "0", "1", "3"]).to_owned())
        }
        "change_primary_threshold" => {
            d.one_in(2).then(|| d.of(&["off", "off", "0", "1", "5"]).to_owned())
        }
        "adaptation_indication" => d.one_in(8).then(|| d.0.below(1 << 32).to_string()),
        _ => return Special::No,
    };
    Special::Is(text)
}

fn timeouts(d: &mut Draw, config: &mut AssociationConfig) {
    if d.one_in(2) {
        let timers = &mut config.timers;
        timers.rto_min = d.millis(1, 2000);
        timers.rto_max = timers.rto_min + d.millis(200, 60_000);
        let room = (timers.rto_max - timers.rto_min).as_micros() as u64;
        timers.rto_initial = timers.rto_min + Duration::from_micros(d.0.below(room + 1));
    }
}

fn packets(d: &mut Draw, config: &mut AssociationConfig) {
    if d.one_in(3) {
        config.mtu.discovery = d.one_in(2);
        config.mtu.base = d.of(&[576, 600, 1200, 1280]);
        config.mtu.max = d.of(&[1280, 1400, 1500, 9000]);
    }
}

/// Receive windows smaller than a packet, in an eighth of the runs.
pub(super) fn small_windows(d: &mut Draw, configs: &mut [AssociationConfig; 2]) {
    if !d.one_in(8) {
        return;
    }
    for config in configs {
        config.mtu.discovery = true;
        config.mtu.base = 1280;
        config.mtu.max = 9000;
        config.receiving.receive_buffer = d.scale(1500, 9000) as usize;
    }
}

/// Concurrent multipath transfer in a third of the runs, at one or both ends, with all options that can be combined
/// with it.
pub(super) fn multipath(d: &mut Draw, configs: &mut [AssociationConfig; 2]) {
    if !d.one_in(3) {
        return;
    }
    for config in configs {
        let mode = d.of(&[MultipathMode::Off, MultipathMode::Cmt, MultipathMode::Cmt]);
        if mode != MultipathMode::Off {
            concurrent(d, config, mode);
        }
    }
}

/// Concurrent multipath transfer at both ends.
pub(super) fn all_paths(d: &mut Draw, configs: &mut [AssociationConfig; 2]) {
    for config in configs {
        concurrent(d, config, MultipathMode::Cmt);
    }
}

fn concurrent(d: &mut Draw, config: &mut AssociationConfig, mode: MultipathMode) {
    // The treatment of a potentially failed path was drawn before. The options that the mode sets are drawn again.
    *config = config.clone().with_multipath(mode);
    for option in AssociationConfig::options() {
        let again = option.section == "multipath" && option.name != "multipath"
            || ["retransmission", "retransmission_precedence"].contains(&option.name);
        if again && let Some(text) = by_kind::value(d, &option) {
            let done = option.set(config, &text);
            done.unwrap_or_else(|error| panic!("the drawn value is invalid: {error}"));
        }
    }
    config.recovery.one_packet_after_timeout = d.one_in(8);
    let control = &mut config.congestion.congestion_control;
    // Couplings apply only to RFC 9260's congestion control, except for one.
    if !matches!(
        (config.multipath.coupling, *control),
        (Coupling::Uncoupled, _) | (Coupling::Lia, CongestionControl::Cubic)
    ) {
        *control = CongestionControl::Rfc9260;
    }
}
