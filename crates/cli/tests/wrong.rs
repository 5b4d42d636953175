//! Wrong inputs: each has its exit code and one sentence.

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
    assert!(table.lines().count() >= 103);
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), before, "nothing was made");
}
