//! Wrong input: each kind has an exit code and one sentence.

mod common;

use common::run;

#[test]
fn wrong_inputs_have_a_sentence_and_an_exit_code() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::create_dir(directory.path().join("site")).unwrap();
    std::fs::write(directory.path().join("site/file"), "x\n").unwrap();
    let before = std::fs::read_dir(directory.path()).unwrap().count();
    let table = include_str!("wrong-inputs.txt");
    for line in table.lines() {
        let fields: Vec<_> = line.split(" | ").collect();
        let [code, command, sentence] = fields[..] else { panic!("three fields: {line}") };
        let arguments: Vec<_> = command.split_whitespace().collect();
        let ended = run(&arguments, directory.path());
        ended.failed_with(code.parse().unwrap(), sentence);
        assert!(command.contains("--json") || ended.stdout.is_empty(), "{command}");
        assert!(!ended.stderr.contains("panicked"), "{command}: {}", ended.stderr);
    }
    assert!(table.lines().count() >= 149);
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), before, "nothing was made");
}

/// Output for people fits a terminal with 80 columns.
#[test]
fn lines_fit_on_a_terminal() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..");
    for command in [
        "pattern show docs/patterns-example.pattern",
        "lab trace caro/2.5",
        "lab check caro/2.3 --seeds 1 --quiet",
    ] {
        let arguments: Vec<_> = command.split(' ').collect();
        let ended: common::Ended =
            common::anabranch(&arguments, &root).env("COLUMNS", "80").output().unwrap().into();
        let wide = ended.stdout.lines().find(|line| line.chars().count() > 80);
        assert_eq!(wide, None, "{command}: {}", ended.stderr);
        assert!(ended.stdout.lines().count() > 5, "{command}: {}", ended.stderr);
    }
}

/// Terminals of all widths, no locale, no home, a closed or full standard output.
#[test]
fn surroundings_may_be_odd() {
    let directory = tempfile::tempdir().unwrap();
    let commands = ["options rto-min", "lab list", "advise", "lab show caro/2.5", "get --help=all"];
    let odd = [
        ("COLUMNS=40 \"$0\" \"$@\"", 0),
        ("COLUMNS=300 \"$0\" \"$@\"", 0),
        ("COLUMNS=none \"$0\" \"$@\"", 0),
        ("env -i \"$0\" \"$@\"", 0),
        ("LC_ALL=nowhere HOME=/proc/none XDG_RUNTIME_DIR=/proc \"$0\" \"$@\"", 0),
        ("\"$0\" \"$@\" >&-", 0),
        ("\"$0\" \"$@\" >/dev/full", 1),
    ];
    for command in commands {
        for (script, code) in odd {
            let ended: common::Ended = std::process::Command::new("sh")
                .args(["-c", script, env!("CARGO_BIN_EXE_anabranch")])
                .args(command.split(' '))
                .current_dir(directory.path())
                .output()
                .unwrap()
                .into();
            // clap's own output, the help, is lost silently.
            if code == 1 && !command.contains("help") {
                ended.failed_with(1, "standard output cannot be written: No space left on device");
                continue;
            }
            assert_eq!(ended.code, Some(0), "{command}, {script}: {}", ended.stderr);
            assert_eq!(ended.stderr, "", "{command}, {script}");
            let wide = ended.stdout.lines().map(|line| line.chars().count()).max().unwrap_or(0);
            // Claims and examples in a table may contain longer words.
            assert!(!script.contains("=40") || wide <= 100, "{command}: {wide} columns");
        }
    }
}
