//! The output of `--json` matches docs/schemas: in every document of every command, no key is missing, and
//! no key is unknown to the schema.

mod common;

use std::path::{Path, PathBuf};

use common::{Server, Site, interrupt, run};
use serde_json::Value;

fn schemas() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../docs/schemas")
}

/// One of the schema files.
fn read(name: &str) -> Value {
    let text = std::fs::read_to_string(schemas().join(name)).unwrap();
    serde_json::from_str(&text).unwrap()
}

/// The target of a reference in the schema file `here`, and the file that contains it.
fn resolve(reference: &str, here: &str) -> (Value, String) {
    let (file, pointer) = reference.split_once('#').unwrap();
    let file = if file.is_empty() { here } else { file };
    let found = read(file).pointer(pointer).cloned();
    (found.unwrap_or_else(|| panic!("{file} has no {pointer}")), file.to_owned())
}

fn is_of(value: &Value, kind: &str) -> bool {
    match kind {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        "string" => value.is_string(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        _ => panic!("'{kind}' is not a type"),
    }
}

/// Why a value does not match a schema, for the keywords of JSON Schema that these schemas use. Unknown
/// keys are errors here, although readers of documents may ignore them.
fn differs(value: &Value, schema: &Value, here: &str, at: &str) -> Result<(), String> {
    let wrong = |what: &str| Err(format!("{at}: {what}: {value}"));
    if let Some(reference) = schema["$ref"].as_str() {
        let (schema, file) = resolve(reference, here);
        return differs(value, &schema, &file, at);
    }
    if let Some(choices) = schema["anyOf"].as_array() {
        let reasons: Vec<_> =
            choices.iter().filter_map(|choice| differs(value, choice, here, at).err()).collect();
        return match reasons.len() < choices.len() {
            true => Ok(()),
            false => Err(reasons.join("\n  or ")),
        };
    }
    if schema.get("const").is_some_and(|only| only != value) {
        return wrong("another value is required");
    }
    if schema["enum"].as_array().is_some_and(|values| !values.contains(value)) {
        return wrong("none of the values");
    }
    let kinds = match &schema["type"] {
        Value::String(kind) => vec![kind.clone()],
        Value::Array(kinds) => kinds.iter().map(|kind| kind.as_str().unwrap().to_owned()).collect(),
        _ => Vec::new(),
    };
    if !kinds.is_empty() && !kinds.iter().any(|kind| is_of(value, kind)) {
        return wrong("another type");
    }
    if let Some(items) = value.as_array() {
        for (index, item) in items.iter().enumerate() {
            differs(item, &schema["items"], here, &format!("{at}/{index}"))?;
        }
    }
    if let (Some(object), Some(properties)) = (value.as_object(), schema["properties"].as_object())
    {
        for (key, value) in object {
            match properties.get(key) {
                Some(schema) => differs(value, schema, here, &format!("{at}/{key}"))?,
                None => return Err(format!("{at}: the key '{key}' is not in the schema")),
            }
        }
        for key in schema["required"].as_array().into_iter().flatten() {
            if !object.contains_key(key.as_str().unwrap()) {
                return Err(format!("{at}: the key {key} is missing"));
            }
        }
    } else if let Some(object) = value.as_object()
        && schema.get("additionalProperties").is_some()
    {
        for (key, value) in object {
            differs(value, &schema["additionalProperties"], here, &format!("{at}/{key}"))?;
        }
    }
    Ok(())
}

/// Asserts that all documents in `text` match the command's schema; returns their events.
fn check(command: &str, text: &str) -> Vec<String> {
    let schema = read(&format!("{command}.json"));
    let documents = serde_json::Deserializer::from_str(text).into_iter::<Value>();
    let documents: Vec<Value> = documents.map(Result::unwrap).collect();
    assert!(!documents.is_empty(), "{command} printed nothing");
    let events = documents.iter().map(|document| {
        assert!(document.get("schema").is_none_or(|schema| schema == command), "{document}");
        if let Err(reason) = differs(document, &schema, &format!("{command}.json"), "") {
            panic!("{command}: {reason}");
        }
        document["event"].as_str().unwrap_or_default().to_owned()
    });
    events.collect()
}

/// Runs a command and checks its documents against its schema.
fn checked(command: &[&str], arguments: &[&str], directory: &Path) -> Vec<String> {
    let ended = run(&[command, arguments].concat(), directory);
    check(&command.join("-"), &ended.stdout)
}

#[test]
fn transfers_and_measurements() {
    let site = Site::new(&[30_000]);
    let here = &site.copy();
    let servers = [("serve", "127.0.0.1,127.0.0.2:80"), ("perf server", "127.0.0.1,127.0.0.2:81")];
    let plain = [("echo", "127.0.0.1:82"), ("discard", "127.0.0.1:83")];
    let mut running: Vec<(String, Server)> = Vec::new();
    for (command, listen) in servers.into_iter().chain(plain) {
        let mut words: Vec<_> = command.split(' ').collect();
        words.extend((command == "serve").then_some("."));
        let options = ["--listen", listen, "--udp-port", "0"];
        let server = Server::start_command(&words, &options, &site.path());
        running.push((command.replace(' ', "-"), server));
    }
    let key = site.path().join("key");
    let sealed =
        ["--listen", "127.0.0.1:84", "--udp-port", "0", "--sealed", "--key", key.to_str().unwrap()];
    let sealed = Server::start_command(&["perf", "server"], &sealed, &site.path());
    let line = sealed.listening["invitation"].as_str().unwrap().to_owned();
    running.push(("perf-server".to_owned(), sealed));
    let at: Vec<String> = running.iter().map(|(_, server)| server.udp_port()).collect();
    let base = format!("sctp://127.0.0.1,127.0.0.2:80;udp={}", at[0]);
    let files = ["file%200.bin", "missing"].map(|name| format!("{base}/{name}"));
    checked(&["get"], &[&files[0], &files[1], "--json"], here);
    std::fs::write(site.path().join("page.html"), "<img src=file%200.bin>").unwrap();
    let page = format!("{base}/page.html");
    checked(&["get"], &["--page", &page, "--json", "--filmstrip", "film"], here);
    let nobody = format!("sctp://127.0.0.1:9;udp={}/x", at[0]);
    checked(&["get"], &[&nobody, "--json"], here);

    let peers = [81, 82, 83].map(|port| format!("127.0.0.1:{port};udp={}", at[port - 80]));
    let ask = |peer: usize, options: &[&str]| {
        checked(&["perf", "client"], &[&[&peers[peer], "--json"], options].concat(), here)
    };
    for mode in ["send", "receive", "both", "ping"] {
        let bytes = if mode == "ping" { "640" } else { "300k" };
        let events = ask(0, &["--mode", mode, "--bytes", bytes, "--interval", "10ms"]);
        assert_eq!((events[0].as_str(), events.last().unwrap().as_str()), ("connected", "summary"));
    }
    ask(1, &["--plain", "--mode", "ping", "--bytes", "640"]);
    ask(2, &["--plain", "--bytes", "64k"]);
    assert_eq!(ask(2, &["--mode", "fast"]), ["error"]);
    checked(&["perf", "client"], &[&line, "--json", "--bytes", "64k"], here);

    for (command, server) in &mut running {
        check(command, &server.listening.to_string());
        loop {
            let line = server.line();
            if check(command, &line.to_string()) == ["ended"] {
                break;
            }
        }
    }
    for (_, server) in running {
        assert_eq!(server.interrupt(), Some(0));
    }
}

/// TCP reports less about a path, and has no UDP port.
#[test]
fn transfers_over_tcp() {
    let site = Site::new(&[30_000]);
    let alone = ["--listen", "127.0.0.1:0", "--transport", "tcp"];
    let both = ["--listen", "127.0.0.1:80", "--udp-port", "0", "--tcp", "127.0.0.1:0"];
    for (options, servers) in [(&alone[..], 1), (&both, 2)] {
        let mut server = Server::start(options, &site.path());
        let mut listening = vec![server.listening.clone()];
        listening.extend((1..servers).map(|_| server.line()));
        let tcp = listening.iter().find(|line| line["transport"] == "tcp").unwrap();
        assert!(tcp.get("udp_port").is_none_or(Value::is_null), "{tcp}");
        let port = tcp["listen"].as_str().unwrap().rsplit_once(':').unwrap().1;
        let base = format!("http://127.0.0.1:{port}");
        checked(&["get"], &[&site.urls(&base)[0], "--json"], &site.copy());
        for line in &listening {
            assert_eq!(check("serve", &line.to_string()), ["listening"]);
        }
        for event in ["request", "ended"] {
            assert_eq!(check("serve", &server.line().to_string()), [event]);
        }
        checked(&["put"], &["file 0.bin", &format!("{base}/"), "--json"], &site.path());
        assert_eq!(server.interrupt(), Some(0));
    }
}

#[test]
fn files_for_one_person() {
    let here = tempfile::tempdir().unwrap();
    std::fs::write(here.path().join("f"), "abc").unwrap();
    let mut sender =
        Server::start_command(&["send"], &["--listen", "127.0.0.1:0", "f"], here.path());
    check("send", &sender.listening.to_string());
    let line = sender.listening["invitation"].as_str().unwrap().to_owned();
    std::fs::create_dir(here.path().join("to")).unwrap();
    let arguments = ["receive", &line, "--key", "key", "--directory", "to", "--json"];
    let received = run(&arguments, here.path());
    let events = check("receive", &received.stdout);
    assert_eq!(events, ["connected", "listed", "began", "file", "done"]);
    for event in ["connected", "done"] {
        assert_eq!(check("send", &sender.line().to_string()), [event]);
    }
    assert_eq!(sender.wait(), Some(0));
    check("receive", &run(&["receive", "x", "--json"], here.path()).stdout);
}

#[test]
fn the_gateway_and_its_status() {
    let keys = tempfile::tempdir().unwrap();
    let arguments = ["--listen", "127.0.0.1:0", "--key", "far.key"];
    let mut far = Server::start_command(&["gateway", "far"], &arguments, keys.path());
    check("gateway-far", &far.listening.to_string());
    let line = far.listening["invitation"].as_str().unwrap().to_owned();
    let arguments =
        ["--listen", "127.0.0.1:0", "--key", "near.key", "--uplink", "127.0.0.2:limit=1GB/d"];
    let mut near = Server::start_command(&["gateway", "near", &line], &arguments, keys.path());
    check("gateway-near", &near.listening.to_string());
    assert_eq!(check("gateway-near", &near.line().to_string()), ["connected"]);
    assert_eq!(check("gateway-far", &far.line().to_string()), ["accepted"]);
    let ask = |path: &str| {
        use std::io::{Read as _, Write as _};
        let host = near.listening["listen"].as_str().unwrap();
        let mut tcp = std::net::TcpStream::connect(host).unwrap();
        write!(tcp, "GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n").unwrap();
        let mut answer = String::new();
        tcp.read_to_string(&mut answer).unwrap();
        answer.split_once("\r\n\r\n").unwrap().1.to_owned()
    };
    let (_, path) = near.listening["status"].as_str().unwrap().split_once("/status").unwrap();
    let status = ask(&format!("/status.json{path}"));
    check("gateway-status", &status);
    ask("http://no.such.name.invalid/");
    let connection = loop {
        let line = near.line();
        if line["event"] == "connection" {
            break line;
        }
    };
    check("gateway-near", &connection.to_string());
    assert_eq!(near.interrupt(), Some(0));
    assert_eq!(far.interrupt(), Some(0));
}

#[test]
fn endpoints_that_run() {
    let site = Site::new(&[]);
    let control = site.path().join("control");
    let control = control.to_str().unwrap();
    let listen = ["--listen", "127.0.0.1:81", "--udp-port", "0"];
    let server = Server::start_command(&["perf", "server"], &listen, &site.path());
    let peer = format!("127.0.0.1:81;udp={}", server.udp_port());
    // It runs for as long as the test inspects it.
    let client = ["perf", "client", &peer, "--time", "1000s", "--control", control, "--json"];
    let mut client = common::anabranch(&client, &site.path())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    let out = std::io::BufReader::new(client.stdout.take().unwrap());
    std::io::BufRead::read_line(&mut { out }, &mut line).unwrap();
    assert!(line.contains("connected"), "{line}");
    checked(&["inspect"], &["--once", "--json", "--control", control], &site.path());
    interrupt(&client);
    client.wait().unwrap();
}

#[test]
fn tools_without_a_network() {
    let site = Site::new(&[]);
    let here = &site.path();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..");
    checked(&["options"], &["--json"], here);
    checked(&["advise"], &["--json"], here);
    checked(&["advise"], &["--json", "--loss", "3%", "--routing", "proactive"], here);
    checked(&["advise"], &["--json", "--sends", "signalling", "--stands-still"], here);
    checked(&["swarm"], &["--runs", "2", "--json"], here);
    checked(&["demo"], &["--headless", "--seeds", "2", "--json", "-"], here);
    checked(&["demo"], &["--headless", "--cut", "3", "--json", "-"], here);
    checked(&["script", "run"], &["conformance/abort", "--json"], &root);
    let pattern = root.join("docs/patterns-example.pattern");
    checked(&["pattern", "check"], &[pattern.to_str().unwrap(), "missing", "--json"], here);

    checked(&["lab", "list"], &["--json"], here);
    run(&["lab", "new", "mine.toml"], here);
    checked(&["lab", "run"], &["mine.toml", "--seeds", "2", "--quiet", "--json", "-"], here);
    // A single run has no interval, an axis may have numbers, and a metric may be missing in some runs.
    checked(&["lab", "run"], &["mine.toml", "--seeds", "1", "--quiet", "--json", "-"], here);
    let page = std::fs::read_to_string(root.join("docs/lab.md")).unwrap();
    let (_, example) = page.split_once("```toml\n").unwrap();
    std::fs::write(here.join("my.toml"), example.split_once("```").unwrap().0).unwrap();
    let numbers = ["my.toml", "--seeds", "1", "--quiet", "--json", "-"];
    let ended = run(&[&["lab", "run"], &numbers[..]].concat(), here);
    check("lab-run", &ended.stdout);
    assert!(ended.stdout.contains("\"pmr\":0"), "{}", ended.stdout);
    let several = ["my.toml", "mine.toml", "--seeds", "1", "--quiet", "--json", "-"];
    checked(&["lab", "run"], &several, here);
    let path = ["--rate", "10Mb/s", "--delay", "20ms", "--buffer", "64KiB", "--size", "100kB"];
    checked(
        &["lab", "gain"],
        &[&path[..], &["--seeds", "1", "--quiet", "--json", "-"]].concat(),
        here,
    );
    run(&["lab", "expect", "mine.toml", "--seeds", "2", "--why", "a guess"], here);
    run(&["lab", "check", "mine.toml", "--seeds", "2", "--quiet", "--json", "check.json"], here);
    check("lab-check", &std::fs::read_to_string(here.join("check.json")).unwrap());
    // Claims with a number of the original simulator, and claims that hold without any effect.
    for more in [&[][..], &["--null"]] {
        let judged =
            ["lab", "check", "caro/2.5", "--seeds", "1", "--quiet", "--json", "check.json"];
        run(&[&judged[..], more].concat(), here);
        let document = std::fs::read_to_string(here.join("check.json")).unwrap();
        assert!(document.contains("\"reference\": 22.3"), "{document}");
        check("lab-check", &document);
    }
}

#[test]
fn captures_and_relays() {
    let site = Site::new(&[200_000]);
    let server = Server::start(&["--listen", "127.0.0.1:80", "--udp-port", "0"], &site.path());
    std::fs::write(site.copy().join("bad.toml"), "[[path]]\nloss_percent = 5\n").unwrap();
    let base = format!("sctp://127.0.0.1:80;udp={}", server.udp_port());
    site.get(&base, &["--capture", "run.pcapng", "--impair", "bad.toml", "--json"]).json();
    checked(&["analyze"], &["run.pcapng", "--json"], &site.copy());

    let relay = ["emulate", "--impair", "bad.toml", "--relay", "127.0.0.1:0=127.0.0.1:9", "--json"];
    let mut relay = common::anabranch(&relay, &site.copy());
    let mut relay = relay.stdout(std::process::Stdio::piped()).spawn().unwrap();
    let mut lines = std::io::BufReader::new(relay.stdout.take().unwrap());
    let mut text = String::new();
    std::io::BufRead::read_line(&mut lines, &mut text).unwrap();
    interrupt(&relay);
    std::io::Read::read_to_string(&mut lines, &mut text).unwrap();
    assert_eq!(check("emulate", &text), ["forwarding", "links"]);
    relay.wait().unwrap();
}

#[test]
#[cfg(target_os = "linux")]
fn emulated_networks() {
    let site = Site::new(&[]);
    let here = &site.path();
    let network = "[[host]]\nname = \"a\"\n[[host]]\nname = \"b\"\n[[link]]\nname = \"line\"\nbetween = [\"a\", \"b\"]\n";
    std::fs::write(here.join("net.toml"), network).unwrap();
    let emulate = |options: &[&str]| {
        let ended =
            run(&[&["emulate", "net.toml", "--quiet"], options, &["--", "true"]].concat(), here);
        let missing = ["does not allow", "cannot be made"].iter().any(|w| ended.stderr.contains(w));
        assert!(ended.code == Some(0) || missing, "{}", ended.stderr);
        !missing
    };
    if !emulate(&["--report", "first.json", "--log", "fates.log"]) {
        return common::skip("TUN devices, or user namespaces and not root");
    }
    assert!(emulate(&["--report", "again.json", "--replay", "fates.log"]));
    for file in ["first.json", "again.json"] {
        let report = std::fs::read_to_string(here.join(file)).unwrap();
        check("emulate", &report);
        assert_eq!(report.contains("replayed"), file == "again.json", "{report}");
    }
}

/// All records in the logs of both ends, with losses, and of a simulated run with timeouts and a failing
/// path.
#[test]
fn logs_of_events() {
    let site = Site::new(&[300_000]);
    let bad = "seed = 3\n[[path]]\nloss_percent = 5\ndelay_ms = 5\n";
    std::fs::write(site.copy().join("bad.toml"), bad).unwrap();
    let options = ["--listen", "127.0.0.1,127.0.0.2:80", "--udp-port", "0", "--qlog", "far.qlog"];
    let server = Server::start(&options, &site.path());
    let base = format!("sctp://127.0.0.1,127.0.0.2:80;udp={}", server.udp_port());
    site.get(&base, &["--impair", "bad.toml", "--qlog", "near.qlog", "--json"]).json();
    assert_eq!(server.interrupt(), Some(0));
    let trace = ["lab", "trace", "failover/pf", "--qlog", "run.qlog"];
    let ended = run(&trace, &site.copy());
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    let near = site.copy().join("near.qlog");
    let mut all = String::new();
    for log in [near, site.path().join("far.qlog"), site.copy().join("run.qlog")] {
        let text = std::fs::read_to_string(&log).unwrap().replace('\u{1e}', "");
        check("qlog", &text);
        assert!(text.contains("\"anabranch:log_ended\""), "{}", log.display());
        all.push_str(&text);
    }
    for event in ["packet_received", "metrics_updated", "packet_lost", "loss_timer_updated"] {
        assert!(all.contains(&format!(":{event}\"")), "{event}");
    }
}

/// An empty schema would find no difference.
#[test]
fn what_differs_is_found() {
    let good = serde_json::json!({"schema": "get", "version": "1", "event": "error", "error": "x", "exit_code": 1});
    assert_eq!(check("get", &good.to_string()), ["error"]);
    for (key, value) in [("exit_code", "3".into()), ("more", 1.into()), ("error", Value::Null)] {
        let mut bad = good.clone();
        bad[key] = value;
        let schema = read("get.json");
        assert!(differs(&bad, &schema, "get.json", "").is_err(), "{bad}");
    }
    let mut short = good;
    short.as_object_mut().unwrap().remove("error");
    assert!(differs(&short, &read("get.json"), "get.json", "").is_err());
}
