//! A program that depends on this crate only can set every option and name every type that public items
//! mention. So this test uses nothing but `anabranch`.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::time::Duration;

use anabranch::config::{
    AckConfig, AssociationConfig, Bundling, BurstControl, ChunkTypes, ClassPaths, ConfigError,
    CongestionConfig, Coupling, DataPath, DormantBehaviour, Encapsulation, EndpointConfig,
    Handover, HeartbeatRetry, HmacAlgorithm, IdleCwnd, InitialCwnd, InitiationOrder, Kind,
    LossDetection, MetricCache, MtuConfig, MultipathConfig, MultipathMode, NewPathWindow,
    OptionInfo, OutOfTheBlue, PathChoice, PathConfig, Pieces, ProtocolUnreachable, ReceiveConfig,
    RecoveryConfig, Reordering, RetransmissionPolicy, RetransmissionPrecedence, Revision, Routes,
    RtoFloor, SchedulerKind, SendConfig, SetError, SlowPaths, TimerConfig, Undo, UnknownName,
    Vigilance, units,
};
use anabranch::congestion::{
    Acked, CongestionControl, CongestionEvent, Controller, ControllerChoice, ControllerFactory,
    Instant, NewPath, SlowStart,
};
use anabranch::{
    Association, AssociationState, Builder, ConnectError, Counters, Endpoint, ListenError,
    NoSuchPath, Notification, PathId, PathStatistics, Payload, Ppid, Reliability, Statistics,
};

/// Names of fields, each with a function that gives it a value that no profile has.
macro_rules! settings {
    ($config:ty: $($($field:ident).+ = $value:expr;)*) => {
        [$((
            stringify!($($field).+),
            (|config: &mut $config| config.$($field).+ = $value) as fn(&mut $config),
        )),*]
    };
}

const ODD: Duration = Duration::from_millis(321);

/// An option's field, and a function that gives it an unusual value.
type Setting = (&'static str, fn(&mut AssociationConfig));

/// Options about paths, congestion and losses.
fn path_settings() -> impl IntoIterator<Item = Setting> {
    settings! { AssociationConfig:
        revision = Revision::Rfc2960;
        adaptation_indication = Some(7);
        timers.rto_initial = ODD;
        timers.rto_slow_handshake = Some(ODD);
        timers.rto_min = ODD;
        timers.rto_floor = RtoFloor::Rto;
        timers.rto_max = ODD;
        timers.heartbeat_interval = Some(ODD);
        timers.autoclose = Some(ODD);
        paths.path_max_retrans = 77;
        paths.potentially_failed_max_retrans = Some(7);
        paths.association_max_retrans = 77;
        paths.max_init_retransmits = 77;
        paths.retransmission = RetransmissionPolicy::RtxAsap;
        paths.retransmission_precedence = RetransmissionPrecedence::SamePath;
        paths.heartbeat_after_rto = true;
        paths.heartbeat_retry = HeartbeatRetry::Interval;
        paths.vigilance = Some(ODD);
        paths.metric_cache = MetricCache::Informed;
        paths.refused_after = ODD;
        paths.hb_max_burst = 77;
        paths.change_primary_threshold = Some(77);
        paths.informed_failover = true;
        paths.loss_probe_interval = ODD;
        paths.data_path = DataPath::LowestLatency;
        paths.copies_up_to = Some(77);
        paths.copies_share = 77;
        paths.class_from = Some(77);
        paths.class_paths = ClassPaths::Primary;
        paths.class_bound = true;
        paths.latency_probe_interval = ODD;
        paths.dormant = DormantBehaviour::Primary;
        paths.protocol_unreachable = ProtocolUnreachable::Aborts;
        paths.initiation = InitiationOrder::Parallel;
        congestion.congestion_control = CongestionControl::Cubic;
        congestion.slow_start = SlowStart::HyStart;
        congestion.burst = BurstControl::Unlimited;
        congestion.initial_cwnd = InitialCwnd::Mtus(77);
        congestion.min_ssthresh_mtus = 77;
        congestion.slow_start_limit_mtus = 77;
        congestion.idle_cwnd = IdleCwnd::Keep;
        congestion.hold_ssthresh = false;
        congestion.ecn = true;
        recovery.loss_detection = LossDetection::MissingReports;
        recovery.missing_reports = 77;
        recovery.reordering = Reordering::NcrCareful;
        recovery.early_retransmit = true;
        recovery.f_rto = false;
        recovery.rto_restart = true;
        recovery.tail_probe = false;
        recovery.undo = Undo::Both;
        recovery.multiple_fast_retransmit = false;
        recovery.one_packet_after_timeout = true;
        recovery.timestamps = true;
        recovery.credit_retransmissions = true;
        multipath.mode = MultipathMode::Cmt;
        multipath.path_choice = PathChoice::LowestRtt;
        multipath.coupling = Coupling::Olia;
        multipath.buffer_split = false;
        multipath.slow_paths = SlowPaths::AsOthers;
        multipath.delayed_acks = false;
        multipath.recovered_cwnd_mtus = 7;
    }
}

/// Options about data.
fn data_settings() -> impl IntoIterator<Item = Setting> {
    settings! { AssociationConfig:
        acknowledging.sack_delay = ODD;
        acknowledging.sack_frequency = 77;
        acknowledging.nr_sack = true;
        receiving.inbound_streams = 77;
        receiving.receive_buffer = 77_777;
        receiving.receive_buffer_start = Some(7_777);
        receiving.partial_delivery_point = 77;
        receiving.fragment_interleave = false;
        receiving.never_renege = false;
        receiving.accept_stream_resets = false;
        receiving.accept_association_resets = true;
        receiving.accept_added_streams = false;
        sending.outbound_streams = 77;
        sending.scheduler = SchedulerKind::Priority;
        sending.pieces = Pieces::Packet;
        sending.send_buffer = 77_777;
        sending.send_buffer_start = Some(7_777);
        sending.partial_reliability = false;
        sending.stream_reconfiguration = false;
        sending.interleaving = true;
        sending.max_outbound_streams = 77;
        sending.reliability = Reliability::Retransmissions(7);
        sending.stream_send_buffer = 77;
        sending.max_message_size = 77;
        sending.fill_packets = false;
        sending.bundling = Bundling::Minshall;
        mtu.discovery = false;
        mtu.base = 777;
        mtu.max = 7777;
        mtu.raise_interval = ODD;
        addresses.address_reconfiguration = true;
        addresses.roam = true;
        addresses.roam_patience = ODD;
        addresses.handover = Handover::AtOnce;
        addresses.new_path_window = NewPathWindow::HalfOfOld;
        authentication.authentication = true;
        authentication.require_authentication = true;
        authentication.authenticated_chunks = ChunkTypes::of(&[0, 77]);
        authentication.authentication_hmac = HmacAlgorithm::Sha1;
    }
}

#[test]
fn every_option_of_associations_is_a_field() {
    let default = AssociationConfig::default();
    let mut covered = BTreeSet::new();
    for (field, set) in path_settings().into_iter().chain(data_settings()) {
        let changed = default.clone().with(set);
        let differs = |option: &OptionInfo| option.get(&changed) != option.get(&default);
        let names: Vec<_> = AssociationConfig::options().filter(differs).map(|o| o.name).collect();
        let [name] = names[..] else { panic!("{field} sets {names:?}") };
        assert!(covered.insert(name), "{name} is set twice");
        // Setting it by name has the same result.
        let text = changed.get(name).unwrap();
        let option = AssociationConfig::option(name).unwrap();
        let mut by_name = default.clone();
        option.set(&mut by_name, &text).unwrap();
        assert_eq!(by_name, changed, "{name} = {text}");
    }
    let missing: Vec<_> = AssociationConfig::options()
        .map(|o| o.name)
        .filter(|name| !covered.contains(name))
        .collect();
    assert!(missing.is_empty(), "set these here, too: {missing:?}");
    assert_eq!(covered.len(), AssociationConfig::options().count());
}

/// A factory of controllers has no text, and secrets are not for command lines, so they have no row in the table.
#[test]
fn the_controller_and_the_keys_are_the_fields_of_associations_without_a_name() {
    #[derive(Debug)]
    struct Factory;

    impl ControllerFactory for Factory {
        fn build(&self, path: &NewPath<'_>) -> Box<dyn Controller> {
            #[derive(Debug)]
            struct Still(usize);
            impl Controller for Still {
                fn cwnd(&self) -> usize {
                    self.0
                }
                fn on_acked(&mut self, _: &Acked<'_>) {}
                fn on_congestion_event(&mut self, _: &CongestionEvent<'_>) {}
                fn on_pmdcs_change(&mut self, _: Instant, pmdcs: usize) {
                    self.0 = pmdcs;
                }
                fn reinitialize(&mut self, _: Instant) {}
            }
            Box::new(Still(path.pmdcs))
        }
    }

    let default = AssociationConfig::default();
    let changed = default.clone().with(|c| c.controller = ControllerChoice::new(Factory));
    assert_ne!(changed, default);
    let differs = |option: &OptionInfo| option.get(&changed) != option.get(&default);
    assert_eq!(AssociationConfig::options().filter(differs).count(), 0);
    // A line of `{:#?}` for each field.
    let text = format!("{default:#?}");
    let fields: BTreeSet<&str> = (text.lines())
        .filter_map(|line| line.strip_prefix("    ").filter(|line| !line.starts_with(' ')))
        .filter_map(|line| line.split_once(": ").map(|(field, _)| field))
        .collect();
    let named: BTreeSet<&str> = [
        ["revision", "adaptation_indication", "timers", "paths", "congestion"],
        ["recovery", "multipath", "acknowledging", "receiving", "sending"],
    ]
    .concat()
    .into_iter()
    .chain(["mtu", "addresses", "authentication", "keys", "controller"])
    .collect();
    assert_eq!(fields, named);
}

#[test]
fn every_option_of_endpoints_is_a_field() {
    let local: IpAddr = [192, 0, 2, 1].into();
    assert_eq!(Routes::Pairs(vec![(local, local)]), Routes::Pairs(vec![(local, local)]));
    let settings = settings! { EndpointConfig:
        encapsulation = Encapsulation::Ip;
        valid_cookie_life = ODD;
        cookie_secret_lifetime = ODD;
        max_associations = 77;
        memory_limit = 77_777;
        max_stateless_replies = 77;
        metric_cache_entries = 77;
        metric_cache_life = ODD;
        out_of_the_blue = OutOfTheBlue::Silent;
        checksum = false;
        shim = 77;
        routes = Routes::Pairs(Vec::new());
        initial_tsn = Some(77);
        tag_mark = Some(anabranch::runtime::TagMark::from_seed(&[7; 32]));
        quantum = 77;
    };
    // A line of `{:#?}` for each field: there is no table of these options.
    let lines = |config: &EndpointConfig| -> BTreeSet<String> {
        let text = format!("{config:#?}");
        let fields = text.lines().filter(|l| l.starts_with("    ") && !l.starts_with("     "));
        fields.filter(|line| line.contains(": ")).map(str::to_owned).collect()
    };
    let default = lines(&EndpointConfig::default());
    let mut covered = BTreeSet::new();
    for (field, set) in settings {
        let changed = lines(&EndpointConfig::default().with(set));
        let differing: Vec<_> = default.difference(&changed).collect();
        let [line] = differing[..] else { panic!("{field} sets {differing:?}") };
        assert!(line.trim_start().starts_with(&format!("{field}: ")), "{field} sets {line}");
        covered.insert(line.clone());
    }
    // Simulators have one more, which is there with the engine's feature `invariants`.
    let missing: Vec<_> =
        default.difference(&covered).filter(|line| !line.contains("buggify")).collect();
    assert!(missing.is_empty(), "set these here, too: {missing:?}");
}

/// Never called: it compiles if all these types, and those that they mention, can be named.
#[allow(dead_code)]
fn everything_has_a_name(association: &Association, statistics: &Statistics) {
    type Sections = (
        (TimerConfig, PathConfig, CongestionConfig, RecoveryConfig, MultipathConfig),
        (AckConfig, ReceiveConfig, SendConfig, MtuConfig),
    );
    let _: Option<(Sections, Vigilance, Kind, Payload, Ppid, Counters, Builder)> = None;
    let _: Option<(ConnectError, ListenError, SetError, UnknownName)> = None;
    let _: Result<(), NoSuchPath> = association.set_primary([127, 0, 0, 1].into());
    let _: Result<(), ConfigError> =
        association.reconfigure(|config| config.sending.bundling = Bundling::Nagle);
    let _: AssociationState = statistics.state;
    let _: fn(&str) -> Option<Duration> = units::parse_time;
    let path: fn(Notification) -> Option<PathId> = |notification| match notification {
        Notification::PathChanged { path, .. }
        | Notification::ActivePathChanged { path, .. }
        | Notification::Recovered { path, .. }
        | Notification::FailedOver { to: path, .. } => Some(path),
        _ => None,
    };
    let _: Option<&PathStatistics> =
        path(Notification::Dormant).and_then(|path| statistics.path(path));
    let _ = Endpoint::builder().config(EndpointConfig::default());
}
