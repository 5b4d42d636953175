//! Where an experiment runs, and the transport of its transfers.

use anabranch_sim::{
    ForwardRto, LossDetection, MetricCache, Reordering, SlowStartLimit, TcpConfig, TcpCongestion,
    TcpProfile, Undo,
};

use crate::tree::{Checked, Fields, Value, problem};
use crate::units::{Kind, duration};

/// Maximum of TCP's timers in nanoseconds: an hour.
const MAX_TIMER: f64 = 3600e9;

/// Where an experiment runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Platform {
    /// In virtual time, with the engines of this project.
    #[default]
    Simulator,
    /// In real time, with real sockets in namespaces, over the same links.
    Emulator,
}

impl Platform {
    /// Their names in files.
    pub const NAMES: [(&'static str, Self); 2] =
        [("simulator", Self::Simulator), ("emulator", Self::Emulator)];
}

/// The transport of a transfer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Over {
    /// An association of this project's engine.
    #[default]
    Sctp,
    /// A TCP connection: this project's in the simulator, the kernel's in the emulator.
    Tcp,
    /// A program of the scenario, by its index, in the emulator.
    Program(usize),
}

impl Over {
    /// Names in files, except for programs.
    pub const NAMES: [(&'static str, Self); 2] = [("sctp", Self::Sctp), ("tcp", Self::Tcp)];
}

/// Options of transfers over TCP.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tcp {
    /// All options.
    pub config: TcpConfig,
    /// Metrics that connections reuse from earlier ones.
    pub metric_cache: MetricCache,
    /// Options that the file sets, with their lines. A kernel has its own values for all others,
    /// and some of these cannot be set in a kernel.
    pub given: Vec<(&'static str, usize)>,
}

impl Tcp {
    /// Options that exist only in the simulator's TCP.
    pub const OF_SIMULATIONS: [&'static str; 20] = [
        "window_start",
        "ecn",
        "handshake_rtt",
        "rearm_in_recovery",
        "rto_granularity",
        "keep_back_off",
        "packet_counting",
        "slow_start_limit",
        "window_update",
        "quick_acks",
        "loss_detection",
        "reordering",
        "early_retransmit",
        "rto_restart",
        "tail_probe",
        "undo",
        "f_rto",
        "dsack",
        "timestamps",
        "metric_cache",
    ];

    /// The kernel's name of the congestion control that the file sets, if it does. A kernel has one Reno.
    pub fn congestion_of_kernels(&self) -> Option<&'static str> {
        let wanted = self.is_given("congestion") || self.is_given("profile");
        wanted.then_some(match self.config.congestion {
            TcpCongestion::Cubic => "cubic",
            TcpCongestion::Bbr => "bbr",
            _ => "reno",
        })
    }

    /// Whether the file sets an option.
    pub fn is_given(&self, key: &str) -> bool {
        self.given.iter().any(|(given, _)| *given == key)
    }
}

/// Reads `[tcp]`.
pub(super) fn tcp(root: &Fields<'_>) -> Checked<Tcp> {
    let mut tcp = Tcp::default();
    let Some(fields) = root.table("tcp")? else { return Ok(tcp) };
    tcp.config = TcpConfig::of(fields.choice("profile", TcpProfile::NAMES)?.unwrap_or_default());
    let (config, given) = (&mut tcp.config, &mut tcp.given);
    let mut note = |key: &'static str| {
        if fields.node(key).is_some() {
            given.push((key, fields.line_of(key)));
        }
    };
    for key in [
        "profile",
        "segment",
        "sack",
        "receive_buffer",
        "send_buffer",
        "initial_window",
        "congestion",
        "ack_delay",
        "limited_transmit",
        "rto_initial",
        "rto_min",
        "rto_max",
    ]
    .into_iter()
    .chain(Tcp::OF_SIMULATIONS)
    {
        note(key);
    }
    let size = |key, least, most| fields.quantity(key, Kind::Size, least, most);
    let time = |key, least| {
        fields.quantity(key, Kind::Time, least, MAX_TIMER).map(|time| time.map(duration))
    };
    if let Some(segment) = size("segment", 64.0, 65_495.0)? {
        config.mss = segment as u16;
    }
    config.sack = fields.flag("sack")?.unwrap_or(config.sack);
    let buffer = |key| size(key, 1460.0, 1e9).map(|size| size.map(|size| size as u32));
    config.receive_buffer = buffer("receive_buffer")?.unwrap_or(config.receive_buffer);
    config.send_buffer = buffer("send_buffer")?.unwrap_or(config.send_buffer);
    config.window_start = buffer("window_start")?.unwrap_or(config.window_start);
    if let Some(window) = fields.count("initial_window", 1, 1000)? {
        config.initial_window = window as u32;
    }
    config.ack_delay = time("ack_delay", 0.0)?.unwrap_or(config.ack_delay);
    config.limited_transmit = fields.flag("limited_transmit")?.unwrap_or(config.limited_transmit);
    config.ecn = fields.flag("ecn")?.unwrap_or(config.ecn);
    config.rto_initial = time("rto_initial", 1e6)?.unwrap_or(config.rto_initial);
    config.rto_min = time("rto_min", 1e6)?.unwrap_or(config.rto_min);
    config.rto_max = time("rto_max", 1e6)?.unwrap_or(config.rto_max);
    config.rto_granularity = time("rto_granularity", 0.0)?.unwrap_or(config.rto_granularity);
    if config.rto_min > config.rto_max {
        return problem(fields.line(), "tcp.rto_min is above rto_max");
    }
    acknowledging(&fields, config)?;
    config.keep_back_off = fields.flag("keep_back_off")?.unwrap_or(config.keep_back_off);
    let rearms = fields.flag("rearm_in_recovery")?;
    config.rearm_in_recovery = rearms.unwrap_or(config.rearm_in_recovery);
    recovery(&fields, config)?;
    let cache = fields.choice("metric_cache", MetricCache::NAMES)?;
    tcp.metric_cache = cache.unwrap_or(tcp.metric_cache);
    fields.finish()?;
    Ok(tcp)
}

/// Reads how receivers acknowledge, and how the window grows by it.
fn acknowledging(fields: &Fields<'_>, config: &mut TcpConfig) -> Checked<()> {
    if let Some(segments) = fields.count("window_update", 1, 100)? {
        config.window_update = segments as u32;
    }
    if let Some(segments) = fields.count("quick_acks", 0, 1000)? {
        config.quick_acks = segments as u32;
    }
    let congestion = fields.choice("congestion", TcpCongestion::NAMES)?;
    config.congestion = congestion.unwrap_or(config.congestion);
    config.packet_counting = fields.flag("packet_counting")?.unwrap_or(config.packet_counting);
    if let Some(node) = fields.node("slow_start_limit") {
        let text = node.text();
        match SlowStartLimit::NAMES.iter().find(|(name, _)| *name == text) {
            Some((_, limit)) => config.slow_start_limit = *limit,
            None => {
                let reason = format!("tcp.slow_start_limit is {text}; it may be 1, 2 or \"none\"");
                return problem(node.line, reason);
            }
        }
    }
    Ok(())
}

/// Reads the options of loss detection and undo, which have the names of the engine's options.
fn recovery(fields: &Fields<'_>, config: &mut TcpConfig) -> Checked<()> {
    let word = |found: Option<_>, now| found.unwrap_or(now);
    config.loss_detection =
        fields.choice("loss_detection", LossDetection::NAMES)?.unwrap_or(config.loss_detection);
    config.reordering =
        fields.choice("reordering", Reordering::NAMES)?.unwrap_or(config.reordering);
    config.undo = fields.choice("undo", Undo::NAMES)?.unwrap_or(config.undo);
    config.f_rto = fields.choice("f_rto", ForwardRto::NAMES)?.unwrap_or(config.f_rto);
    config.handshake_rtt = word(fields.flag("handshake_rtt")?, config.handshake_rtt);
    config.early_retransmit = word(fields.flag("early_retransmit")?, config.early_retransmit);
    config.rto_restart = word(fields.flag("rto_restart")?, config.rto_restart);
    config.tail_probe = word(fields.flag("tail_probe")?, config.tail_probe);
    config.dsack = word(fields.flag("dsack")?, config.dsack);
    config.timestamps = word(fields.flag("timestamps")?, config.timestamps);
    let by_engine = matches!(config.congestion, TcpCongestion::Cubic | TcpCongestion::Bbr);
    let needs = [
        ("reordering", by_engine && config.reordering.is_ncr(), "congestion = \"reno\""),
        ("packet_counting", by_engine && config.packet_counting, "congestion = \"reno\""),
        ("undo", config.undo.by_duplicates() && !config.dsack, "dsack = true"),
        ("undo", config.undo.by_timestamps() && !config.timestamps, "timestamps = true"),
        ("dsack", config.dsack && !config.sack, "sack = true"),
        ("tail_probe", config.tail_probe && !config.sack, "sack = true"),
        ("f_rto", config.f_rto == ForwardRto::Sack && !config.sack, "sack = true"),
        ("reordering", config.reordering != Reordering::Fixed && !config.sack, "sack = true"),
        (
            "loss_detection",
            config.loss_detection == LossDetection::TimeThreshold && !config.sack,
            "sack = true",
        ),
    ];
    match needs.into_iter().find(|(_, missing, _)| *missing) {
        Some((key, _, other)) => problem(fields.line(), format!("tcp.{key} needs tcp.{other}")),
        None => Ok(()),
    }
}

/// Reads `[sysctl]`: settings of both hosts' kernels below `net.ipv4`.
pub(super) fn sysctl(root: &Fields<'_>, on: Platform) -> Checked<Vec<(String, String)>> {
    let Some(fields) = root.table("sysctl")? else { return Ok(Vec::new()) };
    let mut settings = Vec::new();
    for (key, node) in fields.entries() {
        let name = fields.name(key);
        if !key.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_') {
            return problem(node.line, format!("{name} is not a setting like tcp_reordering"));
        }
        match &node.value {
            Value::Text(_) | Value::Integer(_) => {}
            _ => return problem(node.line, format!("{name} is a whole number or a text")),
        }
        if on == Platform::Simulator {
            let reason = format!("{name} is of a kernel: it takes run.on = \"emulator\"");
            return problem(node.line, reason);
        }
        settings.push((key.clone(), node.text()));
    }
    Ok(settings)
}

#[cfg(test)]
mod tests {
    use super::super::tests::{SMALL, read};
    use super::*;
    use crate::tree::tests::refused;

    #[test]
    fn stacks_are_chosen_by_the_file() {
        let setup = read(SMALL).unwrap();
        assert_eq!((setup.on, setup.transfers[0].over), (Platform::Simulator, Over::Sctp));
        assert_eq!((setup.tcp, setup.sysctl), (Tcp::default(), Vec::new()));
        // No association is needed if all transfers use TCP.
        let text = SMALL.replace("[association]\nprofile = \"rfc2960\"\n", "");
        let text =
            format!("{text}over = \"tcp\"\n[tcp]\ninitial_window = 10\nrto_min = \"200 ms\"\n");
        let setup = read(&text).unwrap();
        assert_eq!(setup.transfers[0].over, Over::Tcp);
        assert_eq!((setup.tcp.config.initial_window, setup.tcp.given.len()), (10, 2));
        assert!(setup.tcp.is_given("rto_min") && !setup.tcp.is_given("rto_max"));
        let acknowledging = "slow_start_limit = \"none\"\nquick_acks = 0\nwindow_update = 3\n";
        let config = read(&format!("{text}{acknowledging}")).unwrap().tcp.config;
        assert_eq!(config.slow_start_limit, SlowStartLimit::Unlimited);
        assert_eq!((config.quick_acks, config.window_update), (0, 3));
        let linux = read(&format!("{text}congestion = \"linux-reno\"\n")).unwrap().tcp;
        assert_eq!(linux.config.congestion, TcpCongestion::LinuxReno);
        assert_eq!(linux.congestion_of_kernels(), Some("reno"));
        let bbr = read(&format!("{text}congestion = \"bbr\"\n")).unwrap().tcp;
        assert_eq!(bbr.config.congestion, TcpCongestion::Bbr);
        assert_eq!(bbr.congestion_of_kernels(), Some("bbr"));
        assert_eq!(setup.tcp.congestion_of_kernels(), None);
        let begun = text.replace("initial_window = 10", "profile = \"linux\"");
        let tcp = read(&begun).unwrap().tcp;
        assert_eq!(tcp.config, TcpConfig::linux());
        assert_eq!(tcp.congestion_of_kernels(), Some("cubic"));
        let limited = read(&format!("{text}slow_start_limit = 2\n")).unwrap().tcp.config;
        assert_eq!(limited.slow_start_limit, SlowStartLimit::Two);
        let more = "[run]\non = \"emulator\"\n[sysctl]\ntcp_sack = 0\n";
        let setup = read(&format!("{text}{more}")).unwrap();
        assert_eq!(setup.on, Platform::Emulator);
        assert_eq!(setup.sysctl, [("tcp_sack".to_owned(), "0".to_owned())]);
        let simulated = format!("{text}{}", more.replace("emulator", "simulator"));
        for (text, line, reason) in [
            (format!("{SMALL}[measure]\nfates = 7\n"), 19, "measure.fates"),
            (format!("{SMALL}[measure]\nanalysis = 7\n"), 19, "measure.analysis"),
            (text.replace("loss = \"3 %\"", "lose_data = -1"), 10, "lists positions from 1"),
            (text.replace("loss = \"3 %\"", "displace_data = 3"), 10, "needs a"),
            (text.replace("\"tcp\"", "\"quic\""), 16, "traffic.file.over"),
            (format!("{text}undo = \"both\"\n"), 17, "tcp.undo needs tcp.dsack = true"),
            (format!("{text}tail_probe = true\nsack = false\n"), 17, "tail_probe needs"),
            (format!("{text}reordering = \"never\"\n"), 20, "tcp.reordering"),
            (text.replace("initial_window = 10", "profile = \"bsd\""), 18, "tcp.profile"),
            (format!("{text}congestion = \"vegas\"\n"), 20, "tcp.congestion"),
            (
                format!("{text}congestion = \"cubic\"\nreordering = \"ncr-careful\"\n"),
                17,
                "tcp.reordering needs tcp.congestion",
            ),
            (
                format!("{text}congestion = \"bbr\"\npacket_counting = true\n"),
                17,
                "tcp.packet_counting needs tcp.congestion",
            ),
            (text.replace("200 ms", "200 s"), 17, "tcp.rto_min is above rto_max"),
            (text.replace("initial_window", "window"), 18, "unknown key 'tcp.window'"),
            (format!("{text}slow_start_limit = 3\n"), 20, "may be 1, 2 or \"none\""),
            (format!("{text}quick_acks = -1\n"), 20, "tcp.quick_acks is -1, outside 0 to 1000"),
            (simulated, 23, "sysctl.tcp_sack is of a kernel"),
            (format!("{SMALL}[run]\non = \"paper\"\n"), 19, "run.on"),
        ] {
            refused(read(&text), line, reason);
        }
    }
}
