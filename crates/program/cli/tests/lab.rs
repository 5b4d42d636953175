//! `anabranch lab` on the command line.

mod common;

use std::fs;
use std::process::{Command, Output};

use sha2::{Digest, Sha256};

const SCENARIO: &str = r#"
title = "Small"
[run]
seeds = 3
budget = 40
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
size = "100 kB"
message = "1452 B"
[axis.loss]
set = "path.primary.loss"
values = ["0 %", "5 %"]
[[claim]]
id = "slower"
kind = "order"
text = "losses take time"
formula = "transfer_time_s[loss=5 %] - transfer_time_s[loss=0 %]"
unit = "s"
at_least = 0.1
source = "common sense"
"#;

fn lab(dir: &std::path::Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_anabranch"))
        .current_dir(dir)
        .arg("lab")
        .args(arguments)
        .output()
        .unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// One run, packet for packet. A deliberate change to the packets of the engine or of the simulator changes
/// this number, and with it the one in docs/lab.md.
#[test]
fn a_run_of_the_study_has_the_packets_that_it_had() {
    let root = std::path::Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../.."));
    let trace = text(&lab(root, &["trace", "caro/2.5"]).stdout);
    let told = "fingerprint of all packets: 3b5305f58def9f41";
    assert!(trace.trim_end().ends_with(told), "{trace}");
    assert!(fs::read_to_string(root.join("docs/lab.md")).unwrap().contains(told));
}

#[test]
fn a_file_becomes_curves_verdicts_a_page_and_a_trace() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("my.toml");
    fs::write(&file, SCENARIO).unwrap();
    let shown = lab(dir.path(), &["show", "my.toml"]);
    assert!(text(&shown.stdout).contains("losses take time"), "{shown:?}");
    let run = |jobs: &str| {
        let run =
            lab(dir.path(), &["run", "my.toml", "--jobs", jobs, "--json", "-", "--out", "kept"]);
        assert!(run.status.success(), "{run:?}");
        run.stdout
    };
    let first = run("1");
    // The second run uses the results kept by the first one, and says so.
    assert_eq!(run("4"), first);
    let resumed = lab(dir.path(), &["run", "my.toml", "--out", "kept"]);
    assert_eq!(text(&resumed.stderr), "my: 6 runs are there already\n");
    let json: serde_json::Value = serde_json::from_slice(&first).unwrap();
    assert_eq!(json["scenario"], "my");
    assert_eq!(json["points"][1]["params"]["loss"], "5 %");
    assert_eq!(json["points"][1]["metrics"]["transfer_time_s"]["n"], 3);
    let hash = json["scenario_sha256"].as_str().unwrap().to_owned();
    let seed = json["points"][0]["seeds"][0].clone();

    let checked = lab(dir.path(), &["check", "my.toml", "--json", "-"]);
    assert_eq!(checked.status.code(), Some(1));
    let advice = "anabranch lab expect my.toml --why";
    assert!(text(&checked.stderr).contains(advice), "{checked:?}");
    let logged = lab(dir.path(), &["expect", "my.toml", "--why", "a test"]);
    assert_eq!(text(&logged.stdout), "1 expectation written\n");
    let checked = lab(dir.path(), &["check", "my.toml", "--json", "-"]);
    assert!(checked.status.success(), "{checked:?}");
    let json: serde_json::Value = serde_json::from_slice(&checked.stdout).unwrap();
    assert_eq!(json["claims"][0]["verdict"], "holds");
    assert_eq!(json["mode"], "sequential");
    assert_eq!(json["claims"][0]["kind"], "order");
    assert_eq!((&json["verdicts"]["holds"], &json["bounds_changed"]), (&1.into(), &0.into()));
    assert_eq!(json["wrong_by_chance"]["decided"], 1);
    let identity = serde_json::json!({"scenario": "my", "sha256": hash, "first_seed": seed});
    assert_eq!(json["scenarios"], serde_json::json!([identity]));
    let written = lab(dir.path(), &["check", "my.toml", "--markdown", "verdicts.md"]);
    assert!(written.status.success(), "{written:?}");
    let document = fs::read_to_string(dir.path().join("verdicts.md")).unwrap();
    assert!(document.contains("| my/slower | order | at least 0.1 s |"), "{document}");

    let report = lab(dir.path(), &["report", "my.toml", "--html", "r.html"]);
    assert!(report.status.success(), "{report:?}");
    let page = fs::read_to_string(dir.path().join("r.html")).unwrap();
    assert!(page.contains("<svg") && page.contains(&hash), "{page}");
    let trace = lab(
        dir.path(),
        &["trace", "my.toml", "--set", "loss=5 %", "--pcap", "t.pcapng", "--html", "t.html"],
    );
    assert!(text(&trace.stdout).contains("fingerprint"), "{trace:?}");
    assert!(fs::metadata(dir.path().join("t.pcapng")).unwrap().len() > 10_000);
    // Pages show the command that generates them.
    let page = fs::read_to_string(dir.path().join("t.html")).unwrap();
    assert!(page.contains("anabranch lab trace my.toml --seed 0"), "{page}");
}

/// A page of verdicts has a command for the numbers of every reason.
#[test]
fn a_reason_has_a_command() {
    let dir = tempfile::tempdir().unwrap();
    let verdicts = |reason: &str| {
        let claim = SCENARIO.replace("at_least = 0.1", "at_least = 1000");
        fs::write(dir.path().join("my.toml"), format!("{claim}reason = \"{reason}\"\n")).unwrap();
        let logged = lab(dir.path(), &["expect", "my.toml", "--why", "a test"]);
        assert!(logged.status.success(), "{logged:?}");
        let checked = lab(dir.path(), &["check", "my.toml", "--markdown", "verdicts.md"]);
        assert!(checked.status.success(), "{checked:?}");
        fs::read_to_string(dir.path().join("verdicts.md")).unwrap()
    };
    let own = verdicts("0.3 s is less.");
    assert!(own.contains("0.3 s is less. (`anabranch lab run my --seeds 3`)"), "{own}");
    let named = verdicts("0.3 s (`anabranch lab run my`) is less.");
    assert!(named.contains("0.3 s (`anabranch lab run my`) is less.\n"), "{named}");
}

/// A result names the program, the commit, the scenario and the command, and the hash can be computed again.
#[test]
fn results_name_what_made_them() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("my.toml"), SCENARIO).unwrap();
    let ok = |arguments: &[&str]| {
        let ended = lab(dir.path(), arguments);
        assert!(ended.status.success(), "{arguments:?}: {ended:?}");
        text(&ended.stdout)
    };
    let version = Command::new(env!("CARGO_BIN_EXE_anabranch")).arg("--version").output().unwrap();
    let version = text(&version.stdout);
    let commit = version.lines().find_map(|line| line.strip_prefix("commit ")).unwrap();
    let hash = |changes: &[&str]| {
        let resolved = ok(&[&["show", "my.toml", "--resolved"], changes].concat());
        let digest = Sha256::digest(resolved);
        digest.iter().map(|byte| format!("{byte:02x}")).collect::<String>()
    };
    let run = ["run", "my.toml", "--set", "loss=5 %", "--seeds", "2", "--jobs", "1", "--quiet"];
    let json = ok(&[&run[..], &["--json", "-", "--csv", "r.csv"]].concat());
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["scenario_sha256"], hash(&["--set", "loss=5 %"]));
    assert_ne!(json["scenario_sha256"], hash(&[]));
    let made = &json["made_by"];
    let command = "anabranch lab run my.toml --set 'loss=5 %' --seeds 2";
    assert_eq!(made["commit"], commit);
    assert_eq!(made["command"], command);
    assert_eq!(Some(made["program"].as_str().unwrap()), version.lines().next());
    // Each row of a table, too; a run over time also has its seed.
    let of = |key: &str| json[key].as_str().unwrap().to_owned();
    let end = format!("{},{commit},{},", made["program"].as_str().unwrap(), of("scenario_sha256"));
    let rows = fs::read_to_string(dir.path().join("r.csv")).unwrap();
    assert!(rows.lines().next().unwrap().ends_with(",program,commit,scenario_sha256,command"));
    assert!(rows.lines().skip(1).all(|row| row.ends_with(&format!("{end}{command}"))), "{rows}");
    ok(&["trace", "my.toml", "--set", "loss=5 %", "--seed", "1", "--csv", "t.csv"]);
    let series = fs::read_to_string(dir.path().join("t.csv")).unwrap();
    let seed = json["points"][0]["seeds"][1].as_str().unwrap();
    let command = "anabranch lab trace my.toml --seed 1 --set 'loss=5 %'";
    let end = format!(",{seed},{end}{command}");
    assert!(series.lines().skip(1).all(|row| row.ends_with(&end)), "{end}: {series}");
}

/// With `--set` the claims of the file are checked with a change to every point.
#[test]
fn claims_are_checked_with_another_option() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("my.toml"), SCENARIO).unwrap();
    assert!(lab(dir.path(), &["expect", "my.toml", "--why", "a test"]).status.success());
    let check =
        |change: &str| lab(dir.path(), &["check", "my.toml", "--json", "-", "--set", change]);
    let checked = check("association.interleaving=true");
    assert!(checked.status.success(), "{checked:?}");
    let json: serde_json::Value = serde_json::from_slice(&checked.stdout).unwrap();
    assert_eq!(json["claims"][0]["verdict"], "holds");
    assert!(json["made_by"].to_string().contains("association.interleaving=true"), "{json}");
    let restricted = check("loss=5 %");
    assert_eq!(restricted.status.code(), Some(2));
    assert!(text(&restricted.stderr).contains("a change restricts an axis"), "{restricted:?}");
}

/// The table of claims in the documents matches the output of the program.
#[test]
fn the_table_of_claims_is_up_to_date() {
    let root = std::path::Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../.."));
    let listed = text(&lab(root, &["list", "--claims"]).stdout);
    assert!(listed.lines().count() > 300, "{listed}");
    let document = fs::read_to_string(root.join("docs/claims.md")).unwrap();
    let told = document.split_once("| claim |").map(|(_, table)| format!("| claim |{table}"));
    assert!(told == Some(listed), "docs/claims.md: write what 'lab list --claims' says into it");
}

#[test]
fn runs_can_be_taken_away_as_rows() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("my.toml"), SCENARIO).unwrap();
    let csv = lab(dir.path(), &["run", "my.toml", "--csv", "-", "--jobs", "1"]);
    assert!(csv.status.success(), "{csv:?}");
    assert_eq!(
        lab(dir.path(), &["run", "my.toml", "--csv", "-", "--jobs", "2"]).stdout,
        csv.stdout
    );
    let rows = text(&csv.stdout);
    let heading: Vec<&str> = rows.lines().next().unwrap().split(',').collect();
    assert_eq!(heading[..4], ["loss (%)", "run", "seed", "transfer_time_s"]);
    assert!(heading.contains(&"packets_sent_path2"), "{heading:?}");
    assert_eq!(rows.lines().count(), 1 + 2 * 3);
    assert!(rows.lines().skip(1).all(|row| row.split(',').count() == heading.len()));
    // The same as Parquet; scripts/three-paths compares what pandas reads from both.
    let files = ["--csv", "r.csv", "--parquet", "r.parquet", "--json", "r.json"];
    let written = lab(dir.path(), &[&["run", "my.toml"], &files[..]].concat());
    assert!(written.status.success(), "{written:?}");
    assert_eq!(fs::read(dir.path().join("r.csv")).unwrap(), csv.stdout);
    let parquet = fs::read(dir.path().join("r.parquet")).unwrap();
    assert!(parquet.starts_with(b"PAR1") && parquet.ends_with(b"PAR1"));
    let name = b"loss (%)";
    assert!(parquet.windows(name.len()).any(|bytes| bytes == name));
    assert!(fs::metadata(dir.path().join("r.json")).unwrap().len() > 1000);
    let twice = lab(dir.path(), &["run", "my.toml", "--csv", "-", "--json", "-"]);
    assert_eq!(twice.status.code(), Some(2), "{twice:?}");
    let trace = lab(dir.path(), &["trace", "my.toml", "--csv", "t.csv"]);
    assert!(trace.status.success(), "{trace:?}");
    let series = fs::read_to_string(dir.path().join("t.csv")).unwrap();
    assert!(series.contains(",cwnd_bytes,primary,") && series.contains(",acknowledged,,"));
}

/// Without a checkout, the program uses its embedded scenarios; `lab new` writes a scenario that runs.
#[test]
fn the_laboratory_works_anywhere() {
    let dir = tempfile::tempdir().unwrap();
    let shown = lab(dir.path(), &["show", "caro/2.5"]);
    assert!(text(&shown.stdout).contains("caro/2.5/5-best (effect)"), "{shown:?}");
    // The temporary path to which they are unpacked is not shown.
    assert!(text(&shown.stdout).contains("\nfile: caro/2.5.toml in the program\n"), "{shown:?}");
    let listed = text(&lab(dir.path(), &["list"]).stdout);
    assert!(listed.lines().all(|line| line.chars().count() <= 80), "{listed}");
    assert!(listed.contains("  AllRtxAlt against\n"), "{listed}");
    let new = lab(dir.path(), &["new", "three"]);
    assert!(text(&new.stdout).contains("anabranch lab run three.toml"), "{new:?}");
    // An existing file is not overwritten.
    assert_eq!(lab(dir.path(), &["new", "three.toml"]).status.code(), Some(1));
    assert_eq!(lab(dir.path(), &["new", "three.txt"]).status.code(), Some(2));
    let run = lab(
        dir.path(),
        &["run", "three.toml", "--seeds", "1", "--set", "traffic.file.size=500 kB"],
    );
    assert!(run.status.success(), "{run:?}");
    let tables = text(&run.stdout);
    assert!(tables.contains("packets_sent_path_satellite: Packets sent, on path 3"), "{tables}");
}

#[test]
fn the_null_test_names_what_needs_no_effect() {
    let dir = tempfile::tempdir().unwrap();
    let null = |more: &str| {
        let axis = "[axis.way.variants]\nplain = { association.mfr = false }\n\
                    mfr = { association.mfr = true }\n";
        let claim = "[[claim]]\nid = 'alike'\nkind = 'likeness'\ntext = 't'\nsource = 's'\n\
                     formula = 'transfer_time_s[way=mfr] - transfer_time_s[way=plain]'\n\
                     at_least = -1\nat_most = 1\n";
        fs::write(dir.path().join("my.toml"), format!("{SCENARIO}{axis}{claim}{more}")).unwrap();
        lab(dir.path(), &["check", "my.toml", "--null", "--seeds", "2"])
    };
    let unlisted = null("");
    assert_eq!(unlisted.status.code(), Some(1), "{unlisted:?}");
    assert!(text(&unlisted.stderr).contains("should not hold"), "{unlisted:?}");
    assert!(text(&unlisted.stderr).trim_end().ends_with(": my/alike"), "{unlisted:?}");
    let listed = null("[null]\nsurvive = ['alike']\n");
    assert!(listed.status.success(), "{listed:?}");
    assert!(text(&listed.stdout).contains("1 hold, 1 of them as they should"), "{listed:?}");
}

#[test]
fn what_makes_no_sense_is_one_sentence_and_nothing_is_run() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("my.toml");
    let broken = SCENARIO.replace("\"10 ms\"", "\"-10 ms\"");
    fs::write(&file, broken).unwrap();
    let failed = lab(dir.path(), &["run", "my.toml"]);
    assert_eq!(failed.status.code(), Some(1));
    let sentence = text(&failed.stderr);
    assert!(sentence.starts_with("anabranch: my.toml:11: network.edge_delay is"), "{sentence}");
    assert_eq!(sentence.lines().count(), 1);
    fs::write(&file, SCENARIO).unwrap();
    let cases: [&[&str]; 5] = [
        &["run", "caro/9.9"],
        &["run", "my.toml", "--seeds", "0"],
        &["run", "my.toml", "--set", "pmr"],
        &["run", "my.toml", "--set", "loss=x"],
        &["show", "none.toml"],
    ];
    for arguments in cases {
        let failed = lab(dir.path(), arguments);
        assert!(!failed.status.success(), "{arguments:?}");
        assert_eq!(text(&failed.stderr).lines().count(), 1, "{failed:?}");
    }
}

#[test]
fn the_region_of_gain_is_searched() {
    let dir = tempfile::tempdir().unwrap();
    let conditions = ["--rate", "100Mb/s", "--delay", "5ms", "--buffer", "33kB"];
    let gain = |more: &[&str]| {
        let arguments = [&["gain"], &conditions[..], &["--size", "500kB", "--seeds", "2"], more];
        lab(dir.path(), &arguments.concat())
    };
    let told = gain(&[]);
    assert!(told.status.success(), "{}", text(&told.stderr));
    assert!(text(&told.stdout).contains("NR-SACKs gain at least 5 % at losses from "), "{told:?}");
    let report: serde_json::Value = serde_json::from_slice(&gain(&["--json", "-"]).stdout).unwrap();
    let edge = |name: &str| report["region"][name].as_f64().unwrap();
    assert!(edge("from_percent") < edge("to_percent") && edge("to_percent") < 60.0, "{report}");
    let gains = report["gains"].as_array().unwrap();
    assert!(gains.len() > 17 && gains.iter().all(|gain| gain["n"] == 2), "{report}");
    // The gain never reaches this value.
    let none = gain(&["--least", "1000%", "--json", "-"]);
    let report: serde_json::Value = serde_json::from_slice(&none.stdout).unwrap();
    assert!(report["region"].is_null() && report["gains"].as_array().unwrap().len() == 17);
    let wrong = lab(dir.path(), &["gain", "--rate", "45ms", "--delay", "5ms", "--buffer", "33kB"]);
    assert_eq!(wrong.status.code(), Some(2), "{wrong:?}");
}

/// A built-in scenario can be copied to a file; lists and reports accept the same arguments as runs.
#[test]
fn scenarios_are_copied_listed_and_changed() {
    let dir = tempfile::tempdir().unwrap();
    let ok = |arguments: &[&str]| {
        let ended = lab(dir.path(), arguments);
        assert!(ended.status.success(), "{arguments:?}: {ended:?}");
        text(&ended.stdout)
    };
    ok(&["new", "--from", "caro/2.5", "mine.toml"]);
    let copy = fs::read_to_string(dir.path().join("mine.toml")).unwrap();
    assert!(
        copy.starts_with("# Copied from caro/2.5.\n") && !copy.contains("reference/2.5.csv"),
        "{copy}"
    );
    // The copy has the points and claims of the original, and can be copied again.
    let original = ok(&["show", "caro/2.5"]);
    let points = original.lines().find(|line| line.starts_with("runs: ")).unwrap();
    assert!(ok(&["show", "mine.toml"]).contains(points));
    ok(&["new", "--from", "mine.toml", "again"]);
    let refused = |arguments: &[&str], code: i32, reason: &str| {
        let ended = lab(dir.path(), arguments);
        assert_eq!(ended.status.code(), Some(code), "{ended:?}");
        assert!(text(&ended.stderr).contains(reason), "{ended:?}");
    };
    refused(&["new", "--from", "caro", "x.toml"], 2, "name one of them");
    refused(&["new", "--from", "caro/99", "x.toml"], 2, "no scenario");
    refused(&["new", "--from", "caro/2.5", "mine.toml"], 1, "exists");
    assert!(!dir.path().join("x.toml").exists());

    let all = ok(&["list", "--json"]);
    let of = |arguments: &[&str]| -> Vec<String> {
        let document: serde_json::Value =
            serde_json::from_str(&ok(&[&["list", "--json"], arguments].concat())).unwrap();
        let list = document["scenarios"].as_array().unwrap().clone();
        list.iter().map(|one| one["scenario"].as_str().unwrap().to_owned()).collect()
    };
    assert!(of(&["hurtig"]).iter().all(|id| id.starts_with("hurtig/")));
    assert_eq!(of(&["caro/2.5", "hurtig/III"]), ["caro/2.5", "hurtig/III"]);
    assert!(all.contains("caro/2.5") && !ok(&["list", "hurtig"]).contains("caro/2.5"));
    assert!(
        ok(&["list", "hurtig", "--claims"]).lines().skip(2).all(|line| line.contains("hurtig/"))
    );
    refused(&["list", "hurtigs"], 2, "no scenario");

    fs::write(dir.path().join("my.toml"), SCENARIO).unwrap();
    let set = ["--set", "loss=5 %", "--set", "run.seeds=2", "--html", "r.html"];
    ok(&[&["report", "my.toml"], &set[..]].concat());
    let page = fs::read_to_string(dir.path().join("r.html")).unwrap();
    // The table in the page only has the rows of that loss rate.
    assert!(page.contains("%0A5,") && !page.contains("%0A0,"), "{page}");
    refused(&["report", "my.toml", "--set", "nonsense=1"], 2, "nonsense");
}

/// A metric is shown once, with the scenario's names for its paths.
#[test]
fn metrics_are_shown_once_and_by_name() {
    let dir = tempfile::tempdir().unwrap();
    let figure = "[figure]\ny = \"packets_sent_path_primary\"\nx = \"loss\"\n\
                  metrics = [\"packets_sent_path1\", \"timeouts\", \"timeouts\"]\n";
    fs::write(dir.path().join("my.toml"), format!("{SCENARIO}{figure}")).unwrap();
    let run = lab(dir.path(), &["run", "my.toml", "--seeds", "2"]);
    let shown = text(&run.stdout);
    let titles: Vec<_> = shown
        .lines()
        .filter_map(|line| line.split_once(": "))
        .map(|(name, _)| name)
        .skip(1)
        .collect();
    assert_eq!(titles, ["packets_sent_path_primary", "timeouts"], "{run:?}");
}

/// A results file is validated before it is used; a damaged one is named.
#[test]
fn damaged_results_are_named_and_run_again() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("my.toml"), SCENARIO).unwrap();
    let run = || {
        let run = lab(dir.path(), &["run", "my.toml", "--json", "-", "--out", "kept", "--quiet"]);
        assert!(run.status.success(), "{run:?}");
        (run.stdout, text(&run.stderr))
    };
    let (first, said) = run();
    assert_eq!(said, "");
    let mut files: Vec<_> = fs::read_dir(dir.path().join("kept/my"))
        .unwrap()
        .map(|file| file.unwrap().path())
        .collect();
    files.sort();
    let whole = fs::read_to_string(&files[0]).unwrap();
    let time = whole.split("\"transfer_time_s\":[").nth(1).unwrap().split(',').next().unwrap();
    for (from, to) in [
        ("\"runs\":3", "\"runs\":1000000000000"),
        ("\"runs\":3", "\"runs\":18446744073709551615"),
        ("\"runs\":3", "\"runs\":10"),
        (time, "99.5"),
        (time, "1e308"),
        ("}", ""),
    ] {
        assert!(whole.contains(from));
        fs::write(&files[0], whole.replacen(from, to, 1)).unwrap();
        let (again, said) = run();
        assert_eq!(again, first);
        let name = files[0].file_name().unwrap().to_str().unwrap();
        assert!(said.contains(name) && said.contains("damaged and not used"), "{said}");
        assert_eq!(fs::read_to_string(&files[0]).unwrap(), whole);
    }
}

const REAL: &str = r#"
title = "Real sockets"
[run]
on = "emulator"
seeds = 1
[network]
shape = "dumbbells"
core_rate = "20 Mb/s"
core_delay = "3 ms"
edge_rate = "100 Mb/s"
edge_delay = "1 ms"
queue = "100 packets"
[path.only]
[association]
profile = "rfc9260"
[traffic.file]
size = "60 kB"
message = "1452 B"
over = "tcp"
[sysctl]
tcp_sack = 0
[measure]
fates = true
time_limit = "60 s"
[axis.over]
set = "traffic.file.over"
values = ["tcp", "sctp"]
[axis.lost]
set = "path.only.lose_data"
values = [0, 12]
"#;

/// Real sockets of both kinds run over links as described in the file, in any number of links. Without
/// namespaces, an error says what is missing.
#[test]
#[cfg(target_os = "linux")]
fn a_scenario_runs_with_real_sockets() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("real.toml"), REAL).unwrap();
    let run = lab(dir.path(), &["run", "real.toml", "--json", "-", "--jobs", "2", "--seeds", "2"]);
    let said = text(&run.stderr);
    if ["does not allow", "cannot be made"].iter().any(|what| said.contains(what)) {
        return common::skip("TUN devices, or user namespaces and not root");
    }
    assert!(run.status.success(), "{said}");
    let document: serde_json::Value = serde_json::from_slice(&run.stdout).unwrap();
    for (index, (over, lost)) in
        [("tcp", 0.0), ("tcp", 1.0), ("sctp", 0.0), ("sctp", 1.0)].into_iter().enumerate()
    {
        let point = &document["points"][index];
        assert_eq!(point["params"]["over"], over, "{point}");
        let of = |name: &str| point["metrics"][name]["mean"].as_f64();
        assert_eq!((of("complete"), of("lost_path1")), (Some(1.0), Some(lost)), "{over}: {point}");
        // The packet at each position has the same fate as in the first run: two runs give a single
        // comparison.
        assert_eq!(of("fates_different"), Some(0.0), "{over}: {point}");
        assert_eq!(of("fates_compared").is_some_and(|n| n > 40.0), lost > 0.0, "{over}: {point}");
        let repaired =
            of("fast_retransmitted_chunks").unwrap() + of("timeout_retransmitted_chunks").unwrap();
        assert!(lost == 0.0 || over == "tcp" || repaired >= 1.0, "{point}");
        assert!(
            of("transfer_time_s").unwrap() > 0.02 && of("packets_sent_path1").unwrap() > 40.0,
            "{point}"
        );
        assert_eq!(of("nr_sacks_sent").is_some(), over == "sctp", "{point}");
    }
}

/// A mobile host whose kernel gets and loses addresses; the library follows them, or does not.
const MOVING: &str = r#"
title = "A host that moves"
[run]
on = "emulator"
seeds = 1
[network]
shape = "links"
hosts = ["mobile", "server"]
[link.one]
ends = ["mobile", "server"]
rate = "10 Mb/s"
delay = "5 ms"
queue = "50 packets"
[link.two]
ends = ["mobile", "server"]
rate = "10 Mb/s"
delay = "5 ms"
queue = "50 packets"
[path.one]
links = ["one"]
[path.two]
links = ["two"]
[association]
profile = "rfc9260"
authentication = true
address_reconfiguration = true
[traffic.file]
size = "2 MB"
message = "1452 B"
[event.comes]
at = "500 ms"
appears = "two"
[event.goes]
at = "1 s"
disappears = "one"
[measure]
time_limit = "15 s"
[axis.roam]
set = "association.roam"
values = [true, false]
"#;

/// The file arrives over the address that came, and only because the host told its peer.
#[test]
#[cfg(target_os = "linux")]
fn addresses_come_and_go_on_real_hosts() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("moving.toml"), MOVING).unwrap();
    let run = lab(dir.path(), &["run", "moving.toml", "--json", "-", "--jobs", "2"]);
    let said = text(&run.stderr);
    if ["does not allow", "cannot be made"].iter().any(|what| said.contains(what)) {
        return common::skip("TUN devices, or user namespaces and not root");
    }
    assert!(run.status.success(), "{said}");
    let document: serde_json::Value = serde_json::from_slice(&run.stdout).unwrap();
    for (index, complete) in [1.0, 0.0].into_iter().enumerate() {
        let point = &document["points"][index];
        assert_eq!(point["metrics"]["complete"]["mean"].as_f64(), Some(complete), "{point}");
    }
}

/// A pair of programs that acts as a stack of its own.
const OWN_STACK: &str = r#"
import os, socket, sys, time
def say(what):
    print(time.monotonic_ns(), what, flush=True)
local, remote, port = os.environ["LOCAL"], os.environ["REMOTE"], int(os.environ["PORT"])
if sys.argv[1] == "receive":
    listener = socket.create_server((local, port))
    say("ready")
    connection, _ = listener.accept()
    while data := connection.recv(65536):
        say(f"arrived {len(data)}")
else:
    say("started")
    connection = socket.create_connection((remote, port), source_address=(local, 0))
    say("connected")
    connection.sendall(bytes(int(os.environ["SIZE"])))
    sys.stdin.read()
    say("told timeouts 7")
"#;

/// Transfers may be carried out by programs, which report their counters.
#[test]
#[cfg(target_os = "linux")]
fn a_program_is_a_stack() {
    if std::process::Command::new("python3").arg("--version").output().is_err() {
        return common::skip("python3");
    }
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("own.py"), OWN_STACK).unwrap();
    let program = dir.path().join("own.py").display().to_string();
    let file = REAL.replace("fates = true\n", "").replace("[sysctl]\ntcp_sack = 0\n", "");
    let file = file.replace("[\"tcp\", \"sctp\"]", "[\"own\"]").replace("= \"tcp\"", "= \"own\"");
    let file = format!(
        "{file}[program.own]\nreceiver = \"python3 '{program}' receive\"\n\
         sender = \"python3 '{program}' send\"\nmade_by = \"make own\"\n"
    );
    let run = |file: &str, reason: &str| {
        fs::write(dir.path().join("own.toml"), file).unwrap();
        let run = lab(dir.path(), &["run", "own.toml", "--json", "-", "--quiet"]);
        let said = text(&run.stderr).to_owned();
        let missing = said.contains("does not allow") || said.contains("cannot be made");
        assert!(missing || run.status.success() != said.contains("anabranch:"), "{said}");
        assert!(missing || said.contains(reason), "{reason}: {said}");
        (!missing).then_some(run.stdout)
    };
    let Some(out) = run(&file, "") else {
        return common::skip("TUN devices, or user namespaces and not root");
    };
    let document: serde_json::Value = serde_json::from_slice(&out).unwrap();
    for (index, lost) in [0.0, 1.0].into_iter().enumerate() {
        let point = &document["points"][index];
        let of = |name: &str| point["metrics"][name]["mean"].as_f64();
        assert_eq!((of("complete"), of("lost_path1")), (Some(1.0), Some(lost)), "{point}");
        assert_eq!((of("timeouts"), of("fast_retransmitted_chunks")), (Some(7.0), None), "{point}");
        // At least the time for the handshake and the slow start on this line.
        assert!(of("transfer_time_s").is_some_and(|time| time > 0.02), "{point}");
        assert!(of("packets_sent_path1").is_some_and(|packets| packets > 40.0), "{point}");
    }
    let instead = |line: &str| file.replace(&format!("python3 '{program}' send"), line);
    run(&instead("no-such-stack"), "there is no program for 'no-such-stack'; 'make own' makes it");
    run(&instead("exit 3"), "program.own.sender: 'exit 3' has failed: exit status: 3");
    run(&instead("echo hello"), "program.own.sender: it says 'hello', which is not a valid line");
    run(&instead("echo 5 ready"), "says '5 ready', which is not for it to say");
}

/// One link with TCP; one of its packets is lost, and each twelfth is overtaken.
const ANALYSED: &str = r#"
title = "What the analysis tells"
[run]
on = "emulator"
seeds = 1
[network]
shape = "links"
hosts = ["S", "R"]
[link.line]
ends = ["S", "R"]
rate = "20 Mb/s"
delay = "5 ms"
queue = "1000 packets"
lose_data = 40
displace_data = 1
displace_every = 12
[path.only]
links = ["line"]
[traffic.file]
size = "200 kB"
message = "1448 B"
over = "tcp"
[measure]
analysis = true
time_limit = "60 s"
[axis.only.variants]
one = {}
"#;

/// Checks the analysis of the receiver's capture against the log, packet by packet.
#[test]
#[cfg(target_os = "linux")]
fn an_analysis_is_held_against_the_emulators_log() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("analysed.toml"), ANALYSED).unwrap();
    let run = lab(dir.path(), &["run", "analysed.toml", "--json", "-"]);
    let said = text(&run.stderr);
    if ["does not allow", "cannot be made"].iter().any(|what| said.contains(what)) {
        return common::skip("TUN devices, or user namespaces and not root");
    }
    assert!(run.status.success(), "{said}");
    let document: serde_json::Value = serde_json::from_slice(&run.stdout).unwrap();
    let point = &document["points"][0];
    let of = |name: &str| point["metrics"][name]["mean"].as_f64().unwrap_or(f64::NAN);
    assert!(of("again_as_again") >= 1.0 && of("reordered_as_reordered") >= 5.0, "{point}");
    assert!(of("ordered_as_ordered") > 100.0, "{point}");
    let wrong = ["ordered_as_again", "reordered_as_again", "again_as_reordered"];
    assert_eq!(wrong.map(of), [0.0; 3], "{point}");
    let connections = ["connections", "connections_out_of_order", "connections_told"];
    assert_eq!(connections.map(of), [1.0; 3], "{point}");
}

/// Every fifth message is as long as the scenario says, and the transfer completes.
#[test]
#[cfg(target_os = "linux")]
fn large_messages_are_sent_whole_by_real_sockets() {
    let dir = tempfile::tempdir().unwrap();
    let traffic = "count = 10\ninterval = \"20 ms\"\nmessage = \"100 B\"\nlarge = \"50 kB\"\nlarge_every = 5\n";
    let large = REAL
        .replace("size = \"60 kB\"\nmessage = \"1452 B\"\nover = \"tcp\"\n", traffic)
        .replace("[sysctl]\ntcp_sack = 0\n", "")
        .replace("[axis.over]\nset = \"traffic.file.over\"\nvalues = [\"tcp\", \"sctp\"]\n", "")
        .replace("fates = true\ntime_limit = \"60 s\"", "time_limit = \"20 s\"")
        .replace("values = [0, 12]", "values = [0]");
    fs::write(dir.path().join("large.toml"), &large).unwrap();
    let run = lab(dir.path(), &["run", "large.toml", "--json", "-"]);
    let said = text(&run.stderr);
    if ["does not allow", "cannot be made"].iter().any(|what| said.contains(what)) {
        return common::skip("TUN devices, or user namespaces and not root");
    }
    assert!(run.status.success(), "{said}");
    let document: serde_json::Value = serde_json::from_slice(&run.stdout).unwrap();
    assert_eq!(document["points"][0]["metrics"]["complete"]["mean"], 1.0, "{document}");
}

/// Unsupported features of the emulator are reported with the reason, before or at the start of a run.
#[test]
#[cfg(target_os = "linux")]
fn what_real_sockets_cannot_do_is_one_sentence() {
    let dir = tempfile::tempdir().unwrap();
    let refused = |file: &str, reason: &str| {
        fs::write(dir.path().join("real.toml"), file).unwrap();
        let run = lab(dir.path(), &["run", "real.toml", "--quiet"]);
        let said = text(&run.stderr);
        if said.contains("does not allow") || said.contains("/dev/net/tun") {
            return common::skip("TUN devices, or user namespaces and not root");
        }
        assert!(!run.status.success() && said.contains(reason), "{reason}: {said}");
        assert_eq!(said.lines().count(), 1, "{said}");
    };
    let cross = "[cross.more]\npath = \"only\"\nkind = \"tcp\"\n";
    refused(&format!("{REAL}{cross}"), "cross.more is simulated traffic");
    refused(&REAL.replace("tcp_sack = 0", "tcp_sacks = 0"), "net.ipv4.tcp_sacks");
    refused(&REAL.replace("tcp_sack = 0", "tcp_sack = 500"), "net.ipv4.tcp_sack");
    let initial = format!("{REAL}[tcp]\nrto_initial = \"2 s\"\n");
    refused(&initial, "tcp.rto_initial cannot be changed in a kernel");
    refused(&REAL.replace("fates", "analysis"), "measure.analysis takes one link");
    refused(&REAL.replace("\"emulator\"", "\"simulator\""), "sysctl.tcp_sack is of a kernel");
}
