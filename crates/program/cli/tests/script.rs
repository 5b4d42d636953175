//! `anabranch script run`: its output and its exit code.

use std::path::Path;
use std::process::Command;

fn run(arguments: &[&str]) -> (Option<i32>, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_anabranch"));
    let output = command.args(["script", "run"]).args(arguments).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

fn script(folder: &Path, name: &str, text: &str) -> String {
    let path = folder.join(name);
    std::fs::write(&path, text).unwrap();
    path.display().to_string()
}

#[test]
fn scripts_pass_fail_or_cannot_be_read() {
    let folder = tempfile::tempdir().unwrap();
    let good =
        script(folder.path(), "good.pkt", "+0 < sctp(tag=9): SHUTDOWN_ACK[]\n+0 > sctp: ...\n");
    let bad = script(folder.path(), "bad.pkt", "+0 < sctp(tag=9): SHUTDOWN_ACK[]\n+1 quiet\n");
    let broken = script(folder.path(), "broken.pkt", "+0 < sctp: NOTHING[]\n");

    let (code, out, err) = run(&[&good]);
    assert_eq!((code, err.as_str()), (Some(0), ""));
    assert!(out.starts_with("1 script: 1 passed, 0 failed, 0 not readable; "), "{out}");

    let (code, out, err) = run(&[&good, &bad]);
    assert_eq!(code, Some(1), "{err}");
    assert!(out.contains("bad.pkt:2:1: before this a packet was sent"), "{out}");
    assert!(out.contains("SHUTDOWN_COMPLETE[flgs=T]"), "{out}");

    let (code, out, err) = run(&[&good, &bad, &broken]);
    assert_eq!(code, Some(1), "{err}");
    assert!(
        out.contains("broken.pkt:1:12: no chunk, parameter or cause is called NOTHING"),
        "{out}"
    );

    let (code, out, _) = run(&["--json", &folder.path().display().to_string()]);
    assert_eq!(code, Some(1));
    // The failure has a separate document after the report.
    let documents: Vec<serde_json::Value> =
        out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let report = &documents[0];
    assert_eq!(report["scripts"], 3);
    assert_eq!((&report["passed"], &report["failed"]), (&1.into(), &1.into()));
    assert_eq!(report["results"][0]["outcome"], "failed", "in the order of their names");
    assert_eq!(report["results"][0]["line"], 2);

    let empty = tempfile::tempdir().unwrap();
    let (code, out, err) = run(&[&empty.path().display().to_string()]);
    assert_eq!((code, out.as_str()), (Some(1), ""));
    assert!(err.contains("has no scripts: their names end in .pkt"), "{err}");

    let (code, _, err) = run(&["/nowhere/at/all.pkt"]);
    assert_eq!(code, Some(1));
    assert!(err.starts_with("anabranch: /nowhere/at/all.pkt: "), "{err}");
}
