//! Options of the association. Names are those of the command line, with underscores.

use std::fmt::Display;
use std::str::FromStr;

use anabranch_proto::{
    AssociationConfig, BurstControl, HeartbeatRetry, InitialCwnd, LossDetection, MtuConfig,
    MultipathMode,
};

use crate::tree::{Checked, Fields, problem};
use crate::units::{Kind, duration};

const MAX_TIMER: f64 = 3600e9;
const MAX_BUFFER: f64 = 2_147_483_648.0;

/// Reads a table of options over those of another association, or over its profile.
pub(super) fn read(
    root: &Fields<'_>,
    table: &'static str,
    base: Option<&AssociationConfig>,
) -> Checked<AssociationConfig> {
    let fields = root.table(table)?;
    let mut config = match (base, &fields) {
        (Some(base), _) => base.clone(),
        (None, Some(fields)) => {
            let name = fields.required_text("profile")?;
            match AssociationConfig::profile(name) {
                Some(config) => config,
                None => {
                    return problem(
                        fields.line_of("profile"),
                        format!(
                            "there is no profile \"{name}\": default, rfc9260, rfc4960, rfc2960"
                        ),
                    );
                }
            }
        }
        (None, None) => return problem(1, format!("there is no [{table}]")),
    };
    let Some(fields) = fields else { return Ok(config) };
    apply(&fields, &mut config)?;
    let line = fields.line();
    fields.finish()?;
    match config.validate() {
        Ok(()) => Ok(config),
        Err(error) => problem(line, error.to_string()),
    }
}

fn apply(fields: &Fields<'_>, config: &mut AssociationConfig) -> Checked<()> {
    let time = |key| fields.quantity(key, Kind::Time, 0.0, MAX_TIMER).map(|t| t.map(duration));
    let count = |key, least, most| fields.count(key, least, most).map(|n| n.map(|n| n as u32));
    let size = |key| {
        fields.quantity(key, Kind::Size, 1.0, MAX_BUFFER).map(|n| n.map(|bytes| bytes as usize))
    };
    multipath(fields, config)?;
    set(&mut config.rto_initial, time("rto_initial")?);
    set(&mut config.rto_min, time("rto_min")?);
    set(&mut config.rto_max, time("rto_max")?);
    set(&mut config.sack_delay, time("sack_delay")?);
    set(&mut config.sack_frequency, count("sack_frequency", 1, 1000)?);
    set(&mut config.path_max_retrans, count("pmr", 0, 1_000_000)?);
    set(&mut config.association_max_retrans, count("association_max_retrans", 0, 1_000_000)?);
    set(&mut config.max_init_retransmits, count("max_init_retransmits", 0, 1_000_000)?);
    set(&mut config.missing_reports, count("missing_reports", 1, 255)?);
    set(&mut config.min_ssthresh_mtus, count("min_ssthresh_mtus", 1, 1000)?);
    set(&mut config.slow_start_limit_mtus, count("slow_start_limit_mtus", 1, 1000)?);
    set(&mut config.initial_cwnd, count("initial_cwnd_mtus", 1, 1000)?.map(InitialCwnd::Mtus));
    set(&mut config.receive_buffer, size("receive_buffer")?);
    set(&mut config.send_buffer, size("send_buffer")?);
    set(&mut config.multiple_fast_retransmit, fields.flag("mfr")?);
    set(&mut config.fill_packets, fields.flag("fill_packets")?);
    set(&mut config.nagle, fields.flag("nagle")?);
    heartbeats(fields, config)?;
    named(fields, "retransmission", &mut config.retransmission)?;
    named(fields, "retransmission_precedence", &mut config.retransmission_precedence)?;
    named(fields, "dormant", &mut config.dormant)?;
    named(fields, "initiation", &mut config.initiation)?;
    set(&mut config.one_packet_after_timeout, fields.flag("one_packet_after_timeout")?);
    set(&mut config.heartbeat_after_rto, fields.flag("har")?);
    set(&mut config.timestamps, fields.flag("timestamps")?);
    set(&mut config.nr_sack, fields.flag("nr_sack")?);
    set(&mut config.never_renege, fields.flag("never_renege")?);
    set(&mut config.informed_failover, fields.flag("informed")?);
    set(&mut config.loss_probe_interval, time("loss_probe_interval")?);
    set(&mut config.credit_retransmissions, fields.flag("credit_retransmissions")?);
    for (key, field) in [
        ("pf", &mut config.potentially_failed_max_retrans),
        ("cpt", &mut config.change_primary_threshold),
    ] {
        if fields.node(key).is_some_and(|node| node.text() == "off") {
            *field = None;
        } else if let Some(threshold) = count(key, 0, 1_000_000)? {
            *field = Some(threshold);
        }
    }
    let retries = [("interval", HeartbeatRetry::Interval), ("at-once", HeartbeatRetry::AtOnce)];
    set(&mut config.heartbeat_retry, fields.choice("heartbeat_retry", &retries)?);
    let detections = [
        ("missing-reports", LossDetection::MissingReports),
        ("packet-threshold", LossDetection::PacketThreshold),
    ];
    set(&mut config.loss_detection, fields.choice("loss_detection", &detections)?);
    let (packets, cuts) = match config.burst {
        BurstControl::MaxBurstCutsCwnd(packets) => (Some(packets), true),
        BurstControl::MaxBurst(packets) => (Some(packets), false),
        BurstControl::Pacing { .. } | BurstControl::Unlimited => (None, false),
    };
    if let Some(packets) = count("max_burst", 1, 1000)?.or(packets) {
        config.burst = if fields.flag("burst_cuts_cwnd")?.unwrap_or(cuts) {
            BurstControl::MaxBurstCutsCwnd(packets)
        } else {
            BurstControl::MaxBurst(packets)
        };
    }
    // Paths of these networks carry 1500 bytes unless the file says otherwise, and no probe for
    // more disturbs what is measured.
    let mtu = fields.quantity("mtu", Kind::Size, 576.0, 65_532.0)?;
    match (mtu, fields.flag("mtu_discovery")?) {
        (mtu, Some(true)) => set(&mut config.mtu.max, mtu.map(|mtu| mtu as u16)),
        (mtu, _) => config.mtu = MtuConfig::fixed(mtu.unwrap_or(1500.0) as u16),
    }
    Ok(())
}

fn heartbeats(fields: &Fields<'_>, config: &mut AssociationConfig) -> Checked<()> {
    if fields.node("heartbeat_interval").is_some_and(|node| node.text() == "off") {
        config.heartbeat_interval = None;
        return Ok(());
    }
    let interval = fields.quantity("heartbeat_interval", Kind::Time, 1e6, MAX_TIMER)?;
    if let Some(interval) = interval {
        config.heartbeat_interval = Some(duration(interval));
    }
    Ok(())
}

/// Concurrent multipath transfer; it sets the defaults of some other options.
fn multipath(fields: &Fields<'_>, config: &mut AssociationConfig) -> Checked<()> {
    let mut mode = MultipathMode::Off;
    named(fields, "multipath", &mut mode)?;
    if fields.node("multipath").is_some() {
        *config = config.clone().with_multipath(mode);
    }
    let mut options = config.multipath.unwrap_or_default();
    named(fields, "path_choice", &mut options.path_choice)?;
    named(fields, "coupling", &mut options.coupling)?;
    set(&mut options.buffer_split, fields.flag("buffer_split")?);
    set(&mut options.delayed_acks, fields.flag("delayed_acks")?);
    let cwnd = fields.count("recovered_cwnd_mtus", 1, 10)?;
    set(&mut options.recovered_cwnd_mtus, cwnd.map(|n| n as u32));
    if let Some(multipath) = &mut config.multipath {
        *multipath = options;
    }
    Ok(())
}

/// One of the names that the engine gives its algorithms.
fn named<V>(fields: &Fields<'_>, key: &'static str, field: &mut V) -> Checked<()>
where
    V: FromStr<Err: Display>,
{
    if let Some(name) = fields.text(key)? {
        match name.parse() {
            Ok(value) => *field = value,
            Err(error) => {
                return problem(fields.line_of(key), format!("{}: {error}", fields.name(key)));
            }
        }
    }
    Ok(())
}

fn set<V>(field: &mut V, value: Option<V>) {
    if let Some(value) = value {
        *field = value;
    }
}
