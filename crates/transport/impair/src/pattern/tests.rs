use super::*;

const ALL: &str = "anabranch pattern 1
# Every kind, with every key.

pattern loss per packet
name fade
filter tcp and payload > 0
start packet 3
end repeat
values
  ...x..x 100*. 3*x   # a comment

pattern corrupt per packet
filter udp
values
  . 12+-1 12+-1 5

pattern duplicate per ms
start at 1500ms
end hold
values
  10*. 2

pattern delay per ms
overtake yes
values
  100*20ms 5*. 300us

pattern rate per ms
end repeat
values
  10*5Mb/s 3*0 1500kb/s

pattern displace per packet
name swap
wait 100ms
values
  9*. 3 .

pattern displace per packet
name worse
start switch
values
  5 5

pattern trigger per packet
values
  500 cut
  600 repair
  700 switch worse
  800 run touch \"#1\"

pattern trigger per ms
start at 2s
values
  0ns cut
  2.5 s repair
";

#[test]
fn both_formats_keep_everything() {
    let patterns = Patterns::read(ALL.as_bytes()).unwrap();
    assert_eq!(patterns.list().len(), 9);
    let again = Patterns::read(patterns.to_text().as_bytes()).unwrap();
    assert_eq!(again, patterns, "{}", patterns.to_text());
    let binary = patterns.to_binary();
    assert_eq!(Patterns::read(&binary).unwrap(), patterns);
    let fade = &patterns.list()[0];
    let runs: Vec<_> = fade.values.iter().collect();
    assert_eq!(runs, [(0, 3), (1, 1), (0, 2), (1, 1), (0, 100), (1, 3)]);
    assert_eq!(patterns.list()[7].triggers[3].action, Action::Run("touch \"#1\"".into()));
    assert_eq!(patterns.list()[8].triggers[1].at, 2_500_000_000);
    assert!(patterns.run_commands());
}

#[test]
fn each_mistake_has_its_line() {
    let head = "anabranch pattern 1\n";
    let loss = "pattern loss per packet\n";
    for (text, expected) in [
        (String::new(), "line 1: the file is empty"),
        ("[[path]]\n".into(), "line 1: a pattern begins with the line 'anabranch pattern 1'"),
        (head.into(), "line 1: the file has no pattern in it"),
        (format!("{head}values\n"), "line 2: a pattern begins with a line such as"),
        (format!("{head}pattern loss\n"), "line 2: the form is 'pattern KIND per packet'"),
        (format!("{head}pattern los per ms\n"), "line 2: 'los' is not a kind of pattern: loss,"),
        (
            format!("{head}{loss}values\n"),
            "line 2: pattern 1 (loss): the loss pattern is too short",
        ),
        (format!("{head}{loss}"), "line 2: pattern 1 (loss): the loss pattern is too short"),
        (format!("{head}{loss}values\n\n..y\n"), "line 5: '..y' is not a value of a loss pattern"),
        (format!("{head}{loss}values\n20ms\n"), "line 4: '20ms' is not a value of a loss pattern"),
        (format!("{head}{loss}values\n0*x\n"), "line 4: '0' in '0*x' is not a count from 1"),
        (format!("{head}{loss}overtake yes\n"), "line 3: a loss pattern has no 'overtake'"),
        (format!("{head}{loss}wait 1s\n"), "line 3: a loss pattern has no 'wait'"),
        (format!("{head}{loss}end never\n"), "line 3: end is stop, hold or repeat"),
        (format!("{head}{loss}start packet 0\n"), "line 3: '0' is not the number of a packet"),
        (format!("{head}{loss}filter tcp udp\n"), "line 3: 'tcp udp' is not a filter term"),
        (format!("{head}{loss}speed 5\n"), "line 3: 'speed 5' is not known"),
        (format!("{head}{loss}start at 5s\nstart packet 4\n"), "line 4: 'start' is there twice"),
        (format!("{head}{loss}filter tcp and\n"), "line 3: a filter term is missing"),
        (
            format!("{head}{loss}values\nx\n{loss}values\nx\n"),
            "line 5: pattern 2 (loss): contradiction: a loss pattern above is for all packets",
        ),
        (
            format!("{head}{loss}name a\nfilter tcp\nvalues\nx\n{loss}name a\nvalues\nx\n"),
            "line 2: pattern 1 (a): two patterns have this name",
        ),
        (
            format!("{head}pattern trigger per packet\nvalues\n5 switch b\n"),
            "line 2: pattern 1 (trigger): there is no pattern named 'b' to switch to",
        ),
        (
            format!("{head}pattern trigger per packet\nvalues\n5 cut\n4 repair\n"),
            "line 5: '4 repair' stands after what comes later",
        ),
        (format!("{head}pattern trigger per ms\nvalues\n5 cut\n"), "line 4: '5 cut': the form is"),
        (
            format!("{head}pattern trigger per packet\nvalues\n5 explode\n"),
            "line 4: 'explode' is nothing",
        ),
        (
            format!("{head}pattern displace per ms\nvalues\n5\n"),
            "line 2: pattern 1 (displace): displacements count packets",
        ),
        (
            format!("{head}pattern rate per packet\nvalues\n0\n"),
            "line 4: a packet with a rate of 0 would never leave",
        ),
    ] {
        let error = Patterns::read(text.as_bytes()).unwrap_err().to_string();
        assert!(error.starts_with(expected), "{text:?}: {error}");
    }
    assert!(Patterns::read(&[b'a', 0xff]).unwrap_err().to_string().starts_with("byte 1: "));
}

#[test]
fn damaged_binaries_are_refused_wherever_the_damage_is() {
    let whole = Patterns::read(ALL.as_bytes()).unwrap().to_binary();
    for length in 4..whole.len() {
        let error = Patterns::read(&whole[..length]).unwrap_err();
        assert!(matches!(error.place(), Place::Byte(_)), "{length}: {error}");
    }
    for index in 4..whole.len() {
        let mut bytes = whole.clone();
        bytes[index] ^= 0x10;
        assert!(Patterns::read(&bytes).is_err(), "{index}");
    }
    let mut longer = whole;
    longer.push(0);
    assert!(Patterns::read(&longer).is_err());
}

#[test]
fn a_picture_shows_where_something_happens() {
    let text = "anabranch pattern 1\npattern loss per packet\nvalues\n30*. 10*x 24*.\n\
                pattern delay per ms\nvalues\n32*10ms 32*20ms\n";
    let patterns = Patterns::read(text.as_bytes()).unwrap();
    let drawn = draw_text(&patterns, &Drawing::default());
    let row = format!("|{}{}{}|", ".".repeat(30), "#".repeat(10), ".".repeat(24));
    assert!(drawn.contains(&row), "{drawn}");
    assert!(drawn.contains("10 of them (15.625 %) marked"), "{drawn}");
    let half = format!("|{}{}| 20ms", " ".repeat(32), "#".repeat(32));
    assert!(drawn.contains(&half), "{drawn}");
    let svg = draw_svg(&patterns, &Drawing::default());
    assert!(svg.starts_with("<svg") && svg.matches("#b3402e").count() == 10, "{svg}");
    // A window of ten packets, with a letter for each.
    let window = Drawing { from: 25, count: Some(10), columns: 64 };
    assert!(draw_text(&patterns, &window).contains("|.....#####|"));
}
