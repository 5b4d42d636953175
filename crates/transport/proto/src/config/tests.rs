use std::time::Duration;

use super::*;
use std::net::IpAddr;

/// As with SO_RCVBUF and SO_SNDBUF, a size that is set is the size from the start.
#[test]
fn buffers_that_are_set_by_name_do_not_grow() {
    let mut config = AssociationConfig::default();
    let first = |config: &AssociationConfig| {
        [config.receiving.first_receive_buffer(), config.sending.first_send_buffer()]
    };
    assert_eq!(first(&config), [1 << 20; 2]);
    (config.receiving.receive_buffer, config.sending.send_buffer) = (2000, 3000);
    assert_eq!(first(&config), [2000, 3000], "never more than the whole buffer");
    config.set("receive-buffer", "8 MiB").unwrap();
    config.set("send-buffer", "9 MiB").unwrap();
    assert_eq!(first(&config), [8 << 20, 9 << 20]);
    config.set("receive-buffer-start", "4 kB").unwrap();
    config.set("send-buffer-start", "5 kB").unwrap();
    assert_eq!(first(&config), [4000, 5000]);
    for rfc in
        [AssociationConfig::rfc9260(), AssociationConfig::rfc4960(), AssociationConfig::rfc2960()]
    {
        assert_eq!(
            (rfc.receiving.receive_buffer_start, rfc.sending.send_buffer_start),
            (None, None)
        );
        assert_eq!(first(&rfc), [1 << 20; 2]);
    }
}

#[test]
fn profiles_are_valid() {
    for (name, _) in AssociationConfig::PROFILES {
        AssociationConfig::profile(name).unwrap().validate().unwrap();
    }
    assert!(AssociationConfig::profile("rfc1").is_none());
    assert_eq!(AssociationConfig::rfc2960().recovery.missing_reports, 4);
    assert_eq!(AssociationConfig::rfc2960().congestion.initial_cwnd, InitialCwnd::Mtus(2));
    assert_eq!(AssociationConfig::rfc4960().timers.rto_initial, Duration::from_secs(3));
}

/// Profiles have their own values, listed next to the documentation of an option.
#[test]
fn help_is_without_the_value_of_one_profile() {
    let help = |name| AssociationConfig::options().find(|o| o.name == name).unwrap().help();
    assert_eq!(help("rto_min"), "RTO.Min, counted as `rto_floor` says.");
    assert!(help("rto_slow_handshake").ends_with("Off, which is RFC 9260, has RTO.Initial."));
    assert!(help("timestamps").ends_with(" 12 bytes a packet."));
    assert!(help("mtu_max").contains(" 1,500; drivers lower it "));
}

#[test]
// test: rfc9260 6.2 "MUST NOT allow the maximum delay (protocol parameter"
// test: rfc9260 3.3.2 "Credit MUST NOT be smaller than 1500"
// test: rfc9260 3.3.3 "Credit MUST NOT be smaller than 1500"
// test: rfc9260 3.3.2 "The value 0 MUST NOT be used"
// test: rfc9260 3.3.3 "The value 0 MUST NOT be used"
// test: rfc9260 6.2 "MUST NOT raise it above 500 ms"
fn values_out_of_range_are_named() {
    let refused = |change: fn(&mut AssociationConfig)| {
        let mut config = AssociationConfig::default();
        change(&mut config);
        config.validate().unwrap_err().option
    };
    assert_eq!(refused(|c| c.acknowledging.sack_delay = Duration::from_millis(501)), "sack_delay");
    assert_eq!(refused(|c| c.timers.rto_min = Duration::ZERO), "rto_min");
    assert_eq!(refused(|c| c.timers.rto_max = Duration::from_millis(1)), "rto_min");
    assert_eq!(refused(|c| c.timers.rto_initial = Duration::from_secs(61)), "rto_initial");
    assert_eq!(refused(|c| c.receiving.receive_buffer = 1499), "receive_buffer");
    assert_eq!(refused(|c| c.mtu.base = 500), "mtu_base");
    assert_eq!(refused(|c| c.congestion.burst = BurstControl::MaxBurst(0)), "burst");
    assert_eq!(refused(|c| c.sending.outbound_streams = 0), "outbound_streams");
    // test: rfc7829 5 "the PSMR MUST be set greater than or equal to the PFMR value"
    // test: rfc7829 5 "MUST reject any other values of PSMR"
    let below = |c: &mut AssociationConfig| {
        c.paths.potentially_failed_max_retrans = Some(2);
        c.paths.change_primary_threshold = Some(1);
    };
    assert_eq!(refused(below), "change_primary_threshold");
    let refused = |change: fn(&mut EndpointConfig)| {
        let mut config = EndpointConfig::default();
        assert_eq!(config.validate(), Ok(()));
        change(&mut config);
        config.validate().unwrap_err().option
    };
    assert_eq!(refused(|c| c.valid_cookie_life = Duration::ZERO), "valid_cookie_life");
    assert_eq!(
        refused(|c| c.cookie_secret_lifetime = Duration::from_secs(59)),
        "cookie_secret_lifetime"
    );
    assert_eq!(refused(|c| c.max_associations = 0), "max_associations");
    assert_eq!(refused(|c| c.memory_limit = 65_535), "memory_limit");
    assert_eq!(refused(|c| c.max_stateless_replies = 0), "max_stateless_replies");
    assert_eq!(refused(|c| c.quantum = 0), "quantum");
    let error = ConfigError::new("x", "must be y");
    assert_eq!(error.to_string(), "x must be y");
}

#[test]
fn headers_are_counted() {
    let v4 = IpAddr::from([127, 0, 0, 1]);
    let v6 = IpAddr::from([0u16, 0, 0, 0, 0, 0, 0, 1]);
    assert_eq!(Encapsulation::Udp.overhead(v4), 28);
    assert_eq!(Encapsulation::Ip.overhead(v6), 40);
    let sealed = Headers { encapsulation: Encapsulation::Udp, shim: 28 };
    assert_eq!((sealed.overhead(v4), sealed.overhead(v6)), (56, 76));
}

#[test]
fn numbered_routes_join_equal_numbers() {
    let v6 = |host: u16, number| IpAddr::from([0xfd00, 0, 0, 0, 0, 0, host, number]);
    assert!(Routes::Numbered.reaches(v6(1, 3), v6(2, 3)));
    assert!(!Routes::Numbered.reaches(v6(1, 3), v6(2, 4)));
    let v4 = IpAddr::from([10, 0, 0, 3]);
    assert!(!Routes::Numbered.reaches(v4, v4) && !Routes::Numbered.reaches(v6(1, 3), v4));
}

#[test]
fn every_feature_can_be_asked_for() {
    let mut config = AssociationConfig::default();
    config.recovery.timestamps = true;
    config.acknowledging.nr_sack = true;
    config.sending.interleaving = true;
    config.congestion.ecn = true;
    config.authentication.authentication = true;
    config.addresses.address_reconfiguration = true;
    assert_eq!(config.features(), Features::from_bits(u32::MAX));
}
