use std::time::Duration;

use super::*;
use crate::{
    BurstsInTime, Cut, GilbertElliott, Loss, Pattern, Probability, QueueLimit, SendOutcome,
};

fn read(text: &str) -> ImpairmentFile {
    text.parse().unwrap()
}

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

/// The configuration of a file that has one path with these keys.
fn config(keys: &str) -> LinkConfig {
    read(&format!("[[path]]\n{keys}")).paths.remove(0).config
}

#[test]
fn a_value_may_have_its_unit() {
    let with_units = r#"
        rate = "2.5 Mb/s"
        queue = "64 kB"
        overhead = "28 B"
        mtu = "1500 B"
        delay = "250us"
        jitter = "5 ms"
        loss = "0.1 %"
        duplicate = "2 %"
        reorder = "3%"
        reorder_delay = "0.01 s"
        corrupt = "4 %"
        cut_at = "1500 ms"
        repair_at = "1 min"
        "#;
    let plain = r#"
        rate_kbit = 2500
        queue_bytes = 64_000
        overhead_bytes = 28
        mtu_bytes = 1500
        delay_ms = 0.25
        jitter_ms = 5
        loss_percent = 0.1
        duplicate_percent = 2
        reorder_percent = 3
        reorder_delay_ms = 10
        corrupt_percent = 4
        cut_at_s = 1.5
        repair_at_s = 60
        "#;
    assert_eq!(config(with_units), config(plain));
    let packets = config("rate = '1 Gb/s'\nqueue = '50 packets'");
    assert_eq!(packets, config("rate_mbit = 1000\nqueue_packets = 50"));
}

#[test]
fn every_key_is_read() {
    let file = read(
        r#"
        seed = 7
        [[path]]
        name = "radio"
        local = "10.0.0.1"
        remote = "2001:db8::1"
        direction = "receive"
        rate_mbit = 2.5
        queue_bytes = 64_000
        overhead_bytes = 28
        mtu_bytes = 1500
        mtu_blackhole = true
        delay_ms = 0.25
        jitter_ms = 5
        keep_order = true
        loss_percent = 0.1
        duplicate_percent = 2
        reorder_percent = 3
        reorder_delay_ms = 10
        corrupt_percent = 4
        cut_at_s = 1.5
        repair_at_s = 2
        "#,
    );
    let config = LinkConfig::new()
        .rate(2_500_000)
        .queue(QueueLimit::Bytes(64_000))
        .overhead(28)
        .mtu(1500)
        .mtu_blackhole(true)
        .delay(Duration::from_micros(250))
        .jitter(Duration::from_millis(5))
        .keep_order(true)
        .loss(Loss::Uniform(Probability::per_million(1000)))
        .duplicate(Probability::percent(2))
        .reorder(Probability::percent(3), Duration::from_millis(10))
        .corrupt(Probability::percent(4))
        .cut(1_500_000_000, Some(2_000_000_000));
    let entry = PathEntry {
        name: Some("radio".into()),
        local: Some(ip("10.0.0.1")),
        remote: Some(ip("2001:db8::1")),
        direction: Some(Direction::Receive),
        config,
    };
    assert_eq!(file.seed, Some(7));
    assert_eq!(file.paths, [entry]);
}

#[test]
fn the_example_of_the_documentation_reads() {
    let source = include_str!("mod.rs");
    let example: String = source
        .lines()
        .skip_while(|line| *line != "//! ```toml")
        .skip(1)
        .take_while(|line| *line != "//! ```")
        .map(|line| format!("{}\n", line.trim_start_matches("//!")))
        .collect();
    assert_eq!(read(&example).paths.len(), 2);
}

#[test]
fn alternatives_are_read() {
    assert_eq!(config(""), LinkConfig::new());
    assert_eq!(config("rate_kbit = 64.5").rate, Some(64_500));
    let held = Duration::from_millis(20);
    let none = LinkConfig::new().reorder(Probability::ZERO, held);
    assert_eq!(config("reorder = '0 %'\nreorder_delay = '20 ms'"), none);
    let at_once = LinkConfig::new().reorder(Probability::percent(3), Duration::ZERO);
    assert_eq!(config("reorder = '3 %'\nreorder_delay = '0 s'"), at_once);
    assert_eq!(config("rate_kbit = 64\nqueue_packets = 0").queue, QueueLimit::Packets(0));
    assert_eq!(config("lose_packets = [3, 1]").loss, Loss::positions([1, 3]));
    let pattern = Pattern { lost: vec![false, true, true], repeat: true };
    assert_eq!(
        config("loss_pattern = '.x x'\nloss_pattern_repeat = true").loss,
        Loss::Pattern(pattern)
    );
    assert_eq!(
        config("cuts = [{ cut_at_s = 1, repair_at_s = 2 }, { cut_at_s = 2 }]").cuts,
        [
            Cut { at: 1_000_000_000, until: Some(2_000_000_000) },
            Cut { at: 2_000_000_000, until: None }
        ]
    );
}

#[test]
fn bursts_keep_the_share_of_losses() {
    // A fifth is lost in bursts of 4, so the gaps are 16: one packet in 16 starts a burst.
    let expected = GilbertElliott {
        good_to_bad: Probability::per_million(62_500),
        bad_to_good: Probability::percent(25),
        loss_good: Probability::ZERO,
        loss_bad: Probability::ONE,
    };
    assert_eq!(
        config("loss_percent = 20\nloss_burst_packets = 4").loss,
        Loss::GilbertElliott(expected)
    );
    assert_eq!(
        config("gilbert_elliott = { good_to_bad_percent = 6.25, bad_to_good_percent = 25 }").loss,
        Loss::GilbertElliott(expected)
    );
}

#[test]
fn bursts_may_last_for_a_time() {
    let expected =
        BurstsInTime { between: Duration::from_millis(1800), length: Duration::from_millis(200) };
    for text in [
        "loss_percent = 10\nloss_burst_ms = 200",
        "loss = '10 %'\nloss_burst = '200 ms'",
        "loss = '10 %'\nloss_burst = '0.2 s'",
    ] {
        assert_eq!(config(text).loss, Loss::BurstsInTime(expected), "{text}");
    }
    let packets = config("loss = '20 %'\nloss_burst = '4 packets'").loss;
    assert_eq!(packets, config("loss_percent = 20\nloss_burst_packets = 4").loss);
    // Shares of 0 and 100 % have no bursts.
    assert_eq!(config("loss = '0 %'\nloss_burst = '1 s'").loss, Loss::Uniform(Probability::ZERO));
}

#[test]
#[expect(clippy::too_many_lines, reason = "a table of mistakes")]
fn mistakes_are_refused_with_line_and_reason() {
    let cases = [
        ("[[path]]\n\nrate_mbits = 3", 3, "unknown field `rate_mbits`"),
        ("paths = 3", 1, "unknown field `paths`"),
        ("seed = 1", 1, "no [[path]]"),
        ("[[path]]\nrate_mbit = ", 2, ""),
        ("[[path]]\nlocal = 'host'", 2, "IP address"),
        ("[[path]]\ndirection = 'up'", 2, "unknown variant `up`"),
        ("[[path]]\nrate_mbit = 0", 2, "rate_mbit = 0 is outside 1 bit/s"),
        ("[[path]]\nrate_kbit = 1e10", 2, "outside 1 bit/s to 1 Tbit/s"),
        ("[[path]]\nrate_kbit = 1\nrate_mbit = 1", 3, "give only one"),
        ("[[path]]\nrate_kbit = 1\nqueue_packets = 1\nqueue_bytes = 1", 4, "give only one"),
        ("[[path]]\nqueue_packets = 1", 2, "queue_packets has no effect without a rate"),
        ("[[path]]\nrate_kbit = 1\nqueue_packets = -1", 3, "-1"),
        ("[[path]]\nmtu_bytes = 67", 2, "mtu_bytes = 67 is outside 68 to 65535"),
        ("[[path]]\nmtu_bytes = 70000", 2, "outside 68 to 65535"),
        ("[[path]]\nmtu_blackhole = true", 2, "without mtu_bytes"),
        ("[[path]]\noverhead_bytes = 5000", 2, "outside 0 to 1000"),
        ("#\n[[path]]\nmtu_bytes = 68\noverhead_bytes = 68", 2, "leaves no room"),
        ("[[path]]\ndelay_ms = -1", 2, "delay_ms = -1 is outside 0 to 3600000"),
        ("[[path]]\ndelay_ms = 3600001", 2, "outside 0 to 3600000"),
        ("[[path]]\ndelay = '2 h'", 2, "delay is \"2 h\", outside 0 ns to 1 h"),
        ("[[path]]\ndelay = '5'", 2, "and not a time with its unit"),
        ("[[path]]\ndelay = 5", 2, "invalid type"),
        ("[[path]]\nloss = '101 %'", 2, "loss is \"101 %\", outside 0 % to 100 %"),
        ("[[path]]\nmtu = '0.5 kB'\nmtu_bytes = 7", 2, "give only one"),
        ("[[path]]\noverhead = '1.5 B'", 2, "overhead is not a whole number"),
        ("[[path]]\nrate = '1 Mb/s'\nqueue = '1.5 packets'", 3, "queue is not a whole number"),
        ("[[path]]\nqueue = '1 packet'", 2, "without a rate"),
        ("[[path]]\ndelay_ms = nan", 2, "delay_ms = NaN"),
        ("[[path]]\njitter_ms = inf", 2, "jitter_ms = inf"),
        ("[[path]]\ndelay_ms = '5'", 2, "invalid type"),
        ("[[path]]\nkeep_order = true", 2, "without jitter_ms"),
        ("[[path]]\nloss_percent = 101", 2, "loss_percent = 101 is outside 0 to 100"),
        ("[[path]]\nloss_burst_packets = 3", 2, "without loss_percent"),
        ("[[path]]\nloss_percent = 1\nloss_burst_packets = 0.5", 3, "outside 1 to 1000000"),
        ("[[path]]\nloss_percent = 90\nloss_burst_packets = 2", 3, "cannot lose that many"),
        ("[[path]]\nloss_percent = 100\nloss_burst_packets = 2", 3, "cannot lose that many"),
        ("[[path]]\nloss_burst_ms = 3", 2, "without loss_percent"),
        ("[[path]]\nloss_percent = 1\nloss_burst_ms = 0", 3, "outside 0.001 to 3600000"),
        ("[[path]]\nloss_percent = 1\nloss_burst = '3 kB'", 3, "loss_burst is"),
        (
            "[[path]]\nloss_percent = 1\nloss_burst_ms = 3\nloss_burst_packets = 3",
            3,
            "give only one",
        ),
        (
            "[[path]]\nlose_packets = [1]\nloss_percent = 1",
            2,
            "loss_percent and lose_packets are different loss models",
        ),
        ("[[path]]\nlose_packets = [0]", 2, "counts from 1"),
        ("[[path]]\nloss_pattern = '..y'", 2, "loss_pattern is made of"),
        ("[[path]]\nloss_pattern = ''", 2, "loss_pattern is made of"),
        ("[[path]]\nloss_pattern_repeat = true", 2, "without loss_pattern"),
        (
            "[[path]]\ngilbert_elliott = { good_to_bad_percent = 1 }",
            2,
            "missing field `bad_to_good_percent`",
        ),
        (
            "[[path]]\n[path.gilbert_elliott]\ngood_to_bad_percent = 1\nbad_to_good_percent = 200",
            4,
            "bad_to_good_percent = 200 is outside",
        ),
        ("[[path]]\nreorder_percent = 1", 2, "without reorder_delay_ms"),
        ("[[path]]\nreorder_delay_ms = 1", 2, "without reorder_percent"),
        ("[[path]]\nrepair_at_s = 1", 2, "without cut_at_s"),
        ("[[path]]\ncut_at_s = 2\nrepair_at_s = 2", 3, "repair_at_s is not after cut_at_s"),
        ("[[path]]\ncut_at_s = 1e9", 2, "outside 0 to 31536000"),
        ("[[path]]\ncut_at_s = 1\ncuts = []", 3, "give only one"),
        (
            "[[path]]\ncuts = [\n{ cut_at_s = 1, repair_at_s = 3 },\n{ cut_at_s = 2 }]",
            4,
            "begins before",
        ),
        ("[[path]]\ncuts = [\n{ cut_at_s = 1 },\n{ cut_at_s = 2 }]", 4, "begins before"),
        (
            "[[path]]\nremote = '10.0.0.1'\n[[path]]\n[[path]]\ndirection = 'send'",
            4,
            "number 2 above matches",
        ),
    ];
    for (text, line, reason) in cases {
        let error = text.parse::<ImpairmentFile>().unwrap_err();
        assert_eq!(error.line, line, "{text}\n{error}");
        assert!(error.reason.contains(reason), "{text}\n{error}");
        assert!(!error.reason.is_empty(), "{text}");
    }
}

#[test]
fn errors_read_well() {
    let error = "[[path]]\ndelay_ms = -1".parse::<ImpairmentFile>().unwrap_err();
    assert_eq!(error.to_string(), "line 2: delay_ms = -1 is outside 0 to 3600000");
}

#[test]
fn the_first_match_counts() {
    let file = read(
        "[[path]]
         name = 'both ends'
         local = '10.0.0.1'
         remote = '10.0.1.1'
         [[path]]
         name = 'to one remote'
         remote = '10.0.1.1'
         direction = 'send'
         [[path]]
         name = 'from anywhere'
         direction = 'receive'",
    );
    let name = |local, remote, direction| {
        file.find(ip(local), ip(remote), direction).and_then(|entry| entry.name.as_deref())
    };
    use Direction::{Receive, Send};
    assert_eq!(name("10.0.0.1", "10.0.1.1", Send), Some("both ends"));
    assert_eq!(name("10.0.0.1", "10.0.1.1", Receive), Some("both ends"));
    assert_eq!(name("10.0.0.2", "10.0.1.1", Send), Some("to one remote"));
    assert_eq!(name("10.0.0.2", "10.0.1.1", Receive), Some("from anywhere"));
    assert_eq!(name("::1", "::2", Receive), Some("from anywhere"));
    assert_eq!(name("::1", "::2", Send), None);
}

/// The packets that a link loses out of 64.
fn victims(file: &ImpairmentFile, local: &str, direction: Direction, seed: u64) -> Vec<u64> {
    let mut link: Link<Vec<u8>> =
        file.link(ip(local), ip("10.0.1.1"), direction, seed).unwrap().unwrap();
    (0..64).filter(|t| link.send(*t, vec![0]) != SendOutcome::Accepted).collect()
}

#[test]
fn links_have_seeds_of_their_own() {
    let file = read("[[path]]\nloss_percent = 50");
    use Direction::{Receive, Send};
    let first = victims(&file, "10.0.0.1", Send, 1);
    assert_eq!(victims(&file, "10.0.0.1", Send, 1), first);
    assert_ne!(victims(&file, "10.0.0.1", Receive, 1), first);
    assert_ne!(victims(&file, "10.0.0.2", Send, 1), first);
    assert_ne!(victims(&file, "10.0.0.1", Send, 2), first);
    let seeded = read("seed = 1\n[[path]]\nloss_percent = 50");
    assert_eq!(victims(&seeded, "10.0.0.1", Send, 2), first);
}

#[test]
fn paths_without_entry_have_no_link() {
    let file = read("[[path]]\nremote = '10.0.1.1'");
    let link: Option<Link<Vec<u8>>> =
        file.link(ip("10.0.0.1"), ip("10.0.1.2"), Direction::Send, 1).unwrap();
    assert!(link.is_none());
}

#[test]
fn queues_have_disciplines() {
    let read =
        |lines: &str| format!("[[path]]\nrate = \"5 Mb/s\"\n{lines}\n").parse::<ImpairmentFile>();
    let of = |lines: &str| read(lines).unwrap().paths[0].config.discipline;
    assert_eq!(of("discipline = \"codel\""), crate::Discipline::CoDel(crate::CoDel::default()));
    let codel = of("discipline = \"codel\"\ncodel = { target = \"10 ms\" }");
    let expected = crate::CoDel { target: Duration::from_millis(10), ..crate::CoDel::default() };
    assert_eq!(codel, crate::Discipline::CoDel(expected));
    let red = of(
        "discipline = \"red\"\nred = { min = \"4 packets\", max = \"9 packets\", max_drop = \"2 %\" }",
    );
    let expected = crate::Red {
        min_threshold: 4,
        max_threshold: 9,
        max_probability: Probability::percent(2),
        ..crate::Red::default()
    };
    assert_eq!(red, crate::Discipline::Red(expected));
    for (lines, line, reason) in [
        ("discipline = \"fq\"", 3, "discipline is \"drop-tail\""),
        ("discipline = \"red\"", 3, "red needs its thresholds"),
        (
            "discipline = \"red\"\nred = { min = \"4 packets\" }",
            4,
            "red.max is missing, in packets",
        ),
        ("discipline = \"red\"\nred = { min = \"4 kB\", max = \"9 kB\" }", 4, "red.min"),
        ("codel = {}", 3, "codel has no effect without discipline"),
        (
            "queue = \"64 KiB\"\ndiscipline = \"red\"\nred = { min = \"9 kB\", max = \"4 kB\" }",
            1,
            "min_threshold below max_threshold",
        ),
    ] {
        let error = read(lines).unwrap_err();
        assert_eq!(error.line, line, "{error}");
        assert!(error.reason.contains(reason), "{error}");
    }
    let error = "[[path]]\ndiscipline = \"codel\"".parse::<ImpairmentFile>().unwrap_err();
    assert!(error.reason.contains("without a rate"), "{error}");
}

#[test]
fn patterns_are_loaded_by_name() {
    let text = "[[path]]\npattern = \"a.pattern\"\nqueue = \"9 packets\"\n";
    let mut load = |name: &str| {
        assert_eq!(name, "a.pattern");
        Ok(b"anabranch pattern 1\npattern loss per packet\nvalues\nx\n".to_vec())
    };
    let file = ImpairmentFile::read(text, &mut load).unwrap();
    assert_eq!(file.paths[0].config.patterns.list().len(), 1);
    let error = ImpairmentFile::read(text, &mut |_| Ok(b"pattern\n".to_vec())).unwrap_err();
    assert_eq!(error.line, 2);
    assert!(error.reason.starts_with("a.pattern: line 1: a pattern begins"), "{error}");
    let error = ImpairmentFile::read(text, &mut |_| Err("no such file".into())).unwrap_err();
    assert_eq!(error.to_string(), "line 2: a.pattern: no such file");
    let error = text.parse::<ImpairmentFile>().unwrap_err();
    assert!(error.reason.contains("a file of its own"), "{error}");
}
