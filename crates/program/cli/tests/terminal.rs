//! Text in files must not control the terminal.

mod common;

use std::path::Path;

use common::run;

/// A window title, a cleared screen, right-to-left text, and invisible characters.
const HOSTILE: &str = "\x1b]0;owned\x07\u{9b}2J\u{202e}exe\u{2066}\0\x7f\r\u{200b}";
/// The same as a string in TOML and JSON.
const ESCAPED: &str = r"\u001b]0;owned\u0007\u009b2J\u202eexe\u2066\u0000\u007f\r\u200b";

/// Characters that control a terminal or are invisible.
fn obeyed(text: &str) -> Vec<char> {
    let hidden = |c: &char| {
        (c.is_control() && !matches!(c, '\n' | '\t'))
            || matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}')
    };
    text.chars().filter(hidden).collect()
}

/// A scenario whose texts are hostile.
fn scenario() -> String {
    format!(
        r#"
title = "a {ESCAPED}"
source = "b {ESCAPED}"
notes = "c {ESCAPED}"
[run]
seeds = 2
[network]
shape = "dumbbells"
core_rate = "10 Mb/s"
core_delay = "25 ms"
edge_rate = "100 Mb/s"
edge_delay = "10 ms"
queue = "2 BDP"
[path.primary]
[path.alternate]
[association]
profile = "rfc9260"
[traffic.file]
size = "10 kB"
message = "1452 B"
[axis.loss]
set = "path.primary.loss"
values = ["0 %", "5 %"]
[[claim]]
id = "slower"
kind = "order"
text = "d {ESCAPED}"
formula = "transfer_time_s[loss=5 %] - transfer_time_s[loss=0 %]"
unit = "s"
at_least = 0.1
source = "e {ESCAPED}"
"#
    )
}

/// Commands that print text from these files, their names or arguments. `NAMED` is such a name,
/// `MISSING` one without a file.
const COMMANDS: &[&[&str]] = &[
    &["lab", "show", "s.toml"],
    &["lab", "run", "s.toml", "--seeds", "1"],
    &["lab", "run", "s.toml", "--seeds", "1", "--json", "-"],
    &["lab", "check", "s.toml"],
    &["lab", "show", "raw.toml"],
    &["lab", "show", "key.toml"],
    &["lab", "run", "NAMED"],
    &["lab", "run", "MISSING"],
    &["lab", "show", "MISSING"],
    &["lab", "run", "s.toml", "--set", "MISSING"],
    &["pattern", "show", "name.pattern"],
    &["pattern", "check", "name.pattern"],
    &["pattern", "check", "word.pattern"],
    &["pattern", "check", "filter.pattern"],
    &["pattern", "check", "raw.txt", "NAMED"],
    &["pattern", "convert", "word.pattern"],
    &["emulate", "raw.toml", "--", "true"],
    &["emulate", "name.toml", "--", "true"],
    &["emulate", "key.toml", "--", "true"],
    &["emulate", "MISSING", "--", "true"],
    &["get", "sctp://127.0.0.1:9/", "--impair", "value.toml"],
    &["get", "sctp://127.0.0.1:9/", "--impair", "raw.toml"],
    &["get", "sctp://127.0.0.1:9/", "--impair", "MISSING"],
    &["get", "sctp://127.0.0.1:9/", "--config", "key.toml"],
    &["serve", ".", "--listen", "127.0.0.1:9", "--config", "raw.toml"],
    &["advise", "--statistics", "doc.json"],
    &["advise", "--statistics", "raw.txt"],
    &["script", "run", "script.pkt"],
    &["script", "run", "word.pkt"],
    &["script", "run", "MISSING"],
    &["analyze", "raw.txt"],
    &["analyze", "NAMED"],
    &["analyze", "MISSING"],
    &["qlog", "q.qlog"],
    &["qlog", "raw.txt"],
    &["perf", "chart", "log.json", "--svg", "x.svg"],
    &["options", "MISSING"],
    &["MISSING"],
];

/// Files of all kinds with hostile text in them.
fn write_files(directory: &Path) {
    let write = |name: &str, text: &str| std::fs::write(directory.join(name), text).unwrap();
    write("s.toml", &scenario());
    write("raw.toml", &format!("title = '{HOSTILE}'\n"));
    write("key.toml", &format!("\"{ESCAPED}\" = 1\n"));
    write(
        "name.toml",
        &format!("[[host]]\nname = \"{ESCAPED}\"\n[[host]]\nname = \"{ESCAPED}\"\n"),
    );
    write("value.toml", &format!("[[path]]\nrate = \"{ESCAPED}\"\n"));
    write("raw.txt", HOSTILE);
    write(
        "name.pattern",
        &format!("anabranch pattern 1\npattern loss per packet\nname {HOSTILE}\nvalues\n  x\n"),
    );
    write(
        "word.pattern",
        &format!("anabranch pattern 1\npattern loss per packet\nvalues\n  {HOSTILE}\n"),
    );
    write(
        "filter.pattern",
        &format!("anabranch pattern 1\npattern loss per packet\nfilter {HOSTILE}\nvalues\n  x\n"),
    );
    write("log.json", &format!("{{\"fate\": \"{ESCAPED}\"}}\n"));
    write("doc.json", &format!("{{\"schema\": \"{ESCAPED}\", \"paths\": \"{ESCAPED}\"}}\n"));
    write("script.pkt", &format!("// a {HOSTILE}\n+0 {HOSTILE}\n"));
    write("word.pkt", &format!("0.0 `echo {HOSTILE}`\n+0 < sctp: \"{HOSTILE}\"\n"));
    write("q.qlog", &format!("\u{1e}{{\"qlog_format\":\"{ESCAPED}\",\"title\":\"{ESCAPED}\"}}\n"));
}

#[test]
fn no_command_lets_the_text_of_a_file_through() {
    let dir = tempfile::tempdir().unwrap();
    write_files(dir.path());
    let named = format!("{}.toml", HOSTILE.replace('\0', ""));
    std::fs::write(dir.path().join(&named), "x = ").unwrap();
    let missing = format!("no{}.toml", HOSTILE.replace('\0', ""));
    for command in COMMANDS {
        let words = command.iter().map(|word| match *word {
            "NAMED" => named.as_str(),
            "MISSING" => missing.as_str(),
            word => word,
        });
        let ended = run(&words.collect::<Vec<_>>(), dir.path());
        for said in [&ended.stdout, &ended.stderr] {
            assert_eq!(obeyed(said), [], "{command:?} says {said:?}");
        }
        let all = ended.stdout + &ended.stderr;
        assert!(!all.is_empty() && all.len() < 100_000, "{command:?}");
    }
    // Their text is not lost, but readable.
    let shown = run(&["lab", "show", "s.toml"], dir.path()).stdout;
    for word in ["a", "b", "c", "d"] {
        let text = format!(r"{word} \u{{1b}}]0;owned\u{{7}}\u{{9b}}2J\u{{202e}}exe\u{{2066}}");
        assert!(shown.contains(&text), "{text} is not in {shown}");
    }
}
