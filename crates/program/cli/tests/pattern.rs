//! Patterns: creating, showing, converting and checking them.

mod common;

use common::{Ended, Site, run};

fn pattern(site: &Site, arguments: &[&str]) -> Ended {
    run(&[&["pattern"], arguments].concat(), &site.path())
}

fn write(site: &Site, name: &str, text: &str) {
    std::fs::write(site.path().join(name), text).unwrap();
}

#[test]
fn rules_make_patterns() {
    let site = Site::new(&[]);
    write(&site, "d.csv", "n,delay\n1,20 ms\n2,\n");
    write(&site, "m.trace", "1\n1\n3\n");
    for (arguments, expected) in [
        (
            &["loss", "--positions", "3,17-18"][..],
            "pattern loss per packet\nvalues\n  .. x 13*. xx\n",
        ),
        (
            &["loss", "--every", "4", "--count", "10", "--end", "repeat", "--name", "a"],
            "pattern loss per packet\nname a\nend repeat\nvalues\n  ... x ... x ..\n",
        ),
        (
            &["displace", "--value", "3", "--every", "2", "--count", "4", "--filter", "tcp"],
            "pattern displace per packet\nfilter tcp\nvalues\n  . 3 . 3\n",
        ),
        (
            &["delay", "--csv", "d.csv", "--column", "2", "--overtake"],
            "pattern delay per packet\novertake yes\nvalues\n  20ms .\n",
        ),
        (&["--mahimahi", "m.trace"], "pattern rate per ms\nvalues\n  24Mb/s 0 12Mb/s\n"),
        (
            &["corrupt", "--value", "9+-1", "--constant", "--count", "2k"],
            "pattern corrupt per packet\nvalues\n  2000*9+-1\n",
        ),
        (&["rate", "--value", "0", "--per", "ms", "--constant"], "values\n  10000*0\n"),
    ] {
        let ended = pattern(&site, &[&["new"], arguments].concat());
        assert_eq!(ended.code, Some(0), "{}", ended.stderr);
        assert!(ended.stdout.ends_with(expected), "{}", ended.stdout);
    }
    let random = ["new", "loss", "--random", "1%", "--count", "100k", "--out"];
    assert_eq!(pattern(&site, &[&random[..], &["r.bin"]].concat()).code, Some(0));
    assert_eq!(pattern(&site, &[&random[..], &["r.pattern"]].concat()).code, Some(0));
    let text = pattern(&site, &["convert", "r.bin"]).stdout;
    assert_eq!(text, std::fs::read_to_string(site.path().join("r.pattern")).unwrap());
    let lost: usize = text.matches('x').count();
    assert!((900..1100).contains(&lost), "{lost}");
    assert!(std::fs::metadata(site.path().join("r.bin")).unwrap().len() < 5000);
    for preset in ["geo-satellite", "leo-satellite", "mobile", "train"] {
        let made = pattern(&site, &["new", "--preset", preset, "--out", "p.pattern"]);
        assert_eq!(made.code, Some(0), "{}", made.stderr);
        assert_eq!(pattern(&site, &["check", "p.pattern"]).code, Some(0));
    }
}

#[test]
fn patterns_are_drawn() {
    let site = Site::new(&[]);
    write(&site, "a.pattern", "anabranch pattern 1\npattern loss per packet\nvalues\n32*. 32*x\n");
    let shown = pattern(&site, &["show", "a.pattern"]).stdout;
    let row = format!("|{}{}|", ".".repeat(32), "#".repeat(32));
    assert!(shown.contains(&row) && shown.contains("50.000 %"), "{shown}");
    let window = pattern(&site, &["show", "a.pattern", "--from", "31", "--count", "4"]).stdout;
    assert!(window.contains("|..##|"), "{window}");
    assert_eq!(pattern(&site, &["show", "a.pattern", "--svg", "a.svg"]).code, Some(0));
    let svg = std::fs::read_to_string(site.path().join("a.svg")).unwrap();
    assert!(svg.starts_with("<svg") && svg.ends_with("</svg>\n"));
}

#[test]
fn the_picture_of_the_documentation_is_up_to_date() {
    let docs = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../docs");
    let site = Site::new(&[]);
    let file = docs.join("patterns-example.pattern");
    let shown = ["show", file.to_str().unwrap(), "--svg", "now.svg"];
    assert_eq!(pattern(&site, &shown).code, Some(0));
    let now = std::fs::read_to_string(site.path().join("now.svg")).unwrap();
    assert_eq!(now, std::fs::read_to_string(docs.join("patterns.svg")).unwrap());
    // The first example in the documentation is up to date as well.
    let text = std::fs::read_to_string(docs.join("patterns.md")).unwrap();
    let example = text.split("```\n").nth(1).unwrap();
    write(&site, "first.pattern", example);
    let checked = pattern(&site, &["check", "first.pattern"]);
    assert_eq!(checked.code, Some(0), "{}", checked.stderr);
}

#[test]
fn mistakes_have_their_line_or_byte() {
    let site = Site::new(&[]);
    write(&site, "bad.pattern", "anabranch pattern 1\npattern loss per packet\nvalues\n..y\n");
    write(&site, "good.pattern", "anabranch pattern 1\npattern loss per packet\nvalues\nx\n");
    let checked = pattern(&site, &["check", "good.pattern", "bad.pattern"]);
    checked.failed_with(1, "bad.pattern, line 4: '..y' is not a value of a loss pattern");
    assert!(checked.stdout.contains("good.pattern: 1 pattern, 1 run"));
    let json = pattern(&site, &["check", "bad.pattern", "--json"]);
    let json: serde_json::Value = serde_json::from_str(&json.stdout).unwrap();
    assert_eq!((&json["valid"], &json["line"]), (&false.into(), &4.into()));
    pattern(&site, &["show", "bad.pattern"]).failed_with(1, "bad.pattern, line 4");
    assert_eq!(pattern(&site, &["convert", "good.pattern", "good.bin"]).code, Some(0));
    let whole = std::fs::read(site.path().join("good.bin")).unwrap();
    std::fs::write(site.path().join("cut.bin"), &whole[..whole.len() - 3]).unwrap();
    pattern(&site, &["check", "cut.bin"]).failed_with(1, "cut.bin, byte ");
    for (arguments, code, part) in [
        (&["new", "loss"][..], 2, "required"),
        (&["new", "delay", "--every", "5"], 2, "--value says what a delay pattern does"),
        (&["new", "loss", "--value", "20ms", "--every", "5"], 2, "'20ms' is not a value"),
        (&["new", "trigger", "--every", "5"], 2, "loss, corrupt"),
        (&["new", "loss", "--random", "120%"], 2, "a share"),
        (&["new", "loss", "--positions", "0"], 2, "is not a range of positions"),
        (&["new", "--preset", "maglev"], 2, "'maglev' is not a preset: geo-satellite"),
        (&["new", "loss", "--random", "1%", "--filter", "tcp udp"], 2, "is not a filter term"),
        (&["show", "nothing"], 1, "nothing cannot be read"),
    ] {
        pattern(&site, arguments).failed_with(code, part);
    }
}

#[test]
fn impairment_files_take_patterns_from_beside_them() {
    let site = Site::new(&[]);
    std::fs::create_dir(site.path().join("net")).unwrap();
    write(&site, "net/a.toml", "[[path]]\ndelay_ms = 1\npattern = \"a.pattern\"\n");
    let serve = ["echo", "--listen", "127.0.0.1:7", "--udp-port", "0", "--impair", "net/a.toml"];
    run(&serve, &site.path()).failed_with(1, "net/a.toml, line 3: a.pattern: it cannot be read");
    write(&site, "net/a.pattern", "anabranch pattern 1\npattern los per packet\n");
    run(&serve, &site.path()).failed_with(1, "line 3: a.pattern: line 2: 'los' is not a kind");
}

/// A capture of IPv4 packets: interface, milliseconds, sender, and identification.
fn capture(packets: &[(u32, u64, u8, u8)]) -> Vec<u8> {
    let mut file = Vec::new();
    anabranch_pcapng::section_header(&mut file);
    for name in ["a", "b"] {
        anabranch_pcapng::interface_description(&mut file, name);
    }
    for &(interface, ms, sender, id) in packets {
        let mut packet = vec![0x45, 0, 0, 24, 0, id, 0, 0, 64, 17, 0, 0];
        packet.extend_from_slice(&[10, 0, 0, sender, 10, 0, 0, 3 - sender, 0, 9, 0, 9]);
        anabranch_pcapng::raw_packet(&mut file, interface, ms * 1_000_000, &packet, "");
    }
    file
}

#[test]
fn two_captures_of_a_transfer_are_patterns() {
    let site = Site::new(&[]);
    // The second packet is lost, the fourth overtakes the third, and the other side answers.
    let sent = [(0, 10, 1, 1), (0, 11, 1, 2), (0, 12, 1, 3), (0, 50, 2, 1), (0, 51, 1, 4)];
    let came = [(1, 30, 1, 1), (1, 40, 2, 1), (1, 61, 1, 4), (1, 62, 1, 3)];
    std::fs::write(site.path().join("sent.pcapng"), capture(&sent)).unwrap();
    std::fs::write(site.path().join("came.pcapng"), capture(&came)).unwrap();
    std::fs::write(site.path().join("both.pcapng"), capture(&[&sent[..], &came].concat())).unwrap();
    let two = "pattern loss per packet\nvalues\n  . x ..\n\npattern delay per packet\novertake yes\n\
        values\n  20ms . 50ms 10ms\n";
    for arguments in [
        &["new", "--captures", "sent.pcapng", "came.pcapng"][..],
        &["new", "--captures", "both.pcapng:0", "both.pcapng:1"],
        &[
            "new",
            "--captures",
            "sent.pcapng",
            "came.pcapng",
            "--from",
            "10.0.0.1",
            "--least",
            "10ms",
        ],
    ] {
        let ended = pattern(&site, arguments);
        assert_eq!(ended.code, Some(0), "{}", ended.stderr);
        assert!(ended.stdout.ends_with(two), "{}", ended.stdout);
    }
    let shifted = ["new", "delay", "--captures", "sent.pcapng", "came.pcapng", "--least", "1s"];
    let ended = pattern(&site, &shifted);
    assert!(ended.stdout.ends_with("values\n  1010ms . 1040ms 1s\n"), "{}", ended.stdout);
    for (arguments, code, reason) in [
        (&["--captures", "came.pcapng", "sent.pcapng"][..], 1, "the wrong way round"),
        (&["--captures", "sent.pcapng:7", "came.pcapng"], 1, "has no packet of the sender"),
        (
            &["--captures", "sent.pcapng", "came.pcapng", "--from", "10.0.0.9"],
            1,
            "has no packet of the sender",
        ),
        (
            &["--captures", "sent.pcapng", "came.pcapng:0"],
            1,
            "no packet of 10.0.0.1 in sent.pcapng is in",
        ),
        (
            &["rate", "--captures", "sent.pcapng", "came.pcapng"],
            2,
            "captures only give loss and delay",
        ),
    ] {
        pattern(&site, &[&["new"], arguments].concat()).failed_with(code, reason);
    }
    let none = pattern(&site, &["new", "--captures", "none.pcapng", "came.pcapng"]);
    none.failed_with(1, "none.pcapng cannot be read");
}
