//! The measuring tools and the plain servers, between two processes.

mod common;

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::Stdio;

use common::{Ended, Server, Site, anabranch, interrupt, run};
use serde_json::Value;

/// A server with this command on these addresses, with a free UDP port.
fn start(command: &[&str], addresses: &str) -> Server {
    let listen = format!("{addresses}:5201");
    Server::start_command(command, &["--listen", &listen, "--udp-port", "0"], Path::new("/"))
}

fn perf(server: &Server, hosts: &str, options: &[&str]) -> Ended {
    let peer = format!("{hosts}:5201");
    let udp_port = server.udp_port();
    let fixed = ["perf", "client", &peer, "--remote-udp-port", &udp_port, "--json"];
    run(&[&fixed[..], options].concat(), Path::new("/"))
}

/// The last document that a client printed.
fn summary(ended: &Ended) -> Value {
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    let summary: Value = serde_json::from_str(ended.stdout.lines().last().unwrap()).unwrap();
    assert_eq!(summary["event"], "summary");
    summary
}

#[test]
fn both_directions_over_many_streams() {
    let mut server = start(&["perf", "server"], "127.0.0.1,127.0.0.2");
    let options = ["--mode", "both", "--bytes", "3000001", "--size", "10k", "--streams", "300"];
    let ended = perf(&server, "127.0.0.1,127.0.0.2", &[&options[..], &["--unordered"]].concat());
    let connected: Value = serde_json::from_str(ended.stdout.lines().next().unwrap()).unwrap();
    assert_eq!((&connected["event"], &connected["associations"]), (&"connected".into(), &1.into()));
    let summary = summary(&ended);
    for direction in ["sent", "received"] {
        assert_eq!(summary[direction]["bytes"], 3_000_001, "{summary}");
        assert_eq!(summary[direction]["messages"], 301);
        assert!(summary[direction]["bits_per_second"].as_f64().unwrap() > 0.0);
    }
    assert_eq!(summary["paths"].as_array().unwrap().len(), 2);
    let of_paths = |key: &str| -> u64 {
        summary["paths"].as_array().unwrap().iter().map(|path| path[key].as_u64().unwrap()).sum()
    };
    assert!(of_paths("data_bytes_sent") >= 3_000_001);
    assert!(of_paths("bytes_received") >= 3_000_001);
    assert!(of_paths("data_chunks_sent") >= of_paths("data_packets_sent"));
    assert!(of_paths("data_packets_sent") > 0);
    let mean = &summary["counters"]["retransmission_queue_mean_bytes"];
    assert!(mean.as_f64().unwrap() > 0.0, "{summary}");
    let of_one = &summary["associations"][0]["counters"];
    assert_eq!(mean, &of_one["retransmission_queue_mean_bytes"]);
    let served = server.event();
    assert_eq!(served["error"], Value::Null);
    assert_eq!(
        (&served["bytes_received"], &served["bytes_sent"]),
        (&3_000_001.into(), &3_000_001.into())
    );
    assert_eq!(server.interrupt(), Some(0));
}

#[test]
fn one_direction_after_the_other() {
    let server = start(&["perf", "server"], "[::1]");
    let sent = summary(&perf(&server, "[::1]", &["--bytes", "1M"]));
    assert_eq!((&sent["sent"]["bytes"], &sent["received"]), (&1_000_000.into(), &Value::Null));
    let received = summary(&perf(&server, "[::1]", &["--bytes", "1M", "--mode", "receive"]));
    assert_eq!(
        (&received["sent"], &received["received"]["bytes"]),
        (&Value::Null, &1_000_000.into())
    );
    let timed = summary(&perf(&server, "[::1]", &["--time", "100ms", "--size", "100"]));
    assert!(timed["sent"]["messages"].as_u64().unwrap() > 0);
}

#[test]
#[cfg(target_os = "linux")]
fn an_endpoint_is_divided_over_several_tasks() {
    let mut server = start(&["perf", "server", "--shards", "2"], "127.0.0.1");
    let options = ["--associations", "20", "--bytes", "10k", "--mode", "both", "--shards", "3"];
    let summary = summary(&perf(&server, "127.0.0.1", &options));
    assert_eq!(summary["received"]["bytes"], 200_000, "{summary}");
    assert_eq!(server.event()["error"], Value::Null);
    assert_eq!(server.interrupt(), Some(0));
}

#[test]
fn many_associations_at_once() {
    let server = start(&["perf", "server"], "127.0.0.1");
    let options = ["--associations", "40", "--bytes", "10k", "--mode", "both"];
    let summary = summary(&perf(&server, "127.0.0.1", &options));
    assert_eq!(summary["associations"].as_array().unwrap().len(), 40);
    assert_eq!(summary["sent"]["bytes"], 400_000);
    assert_eq!(summary["received"]["bytes"], 400_000);
    assert_eq!(summary["paths"][0]["associations"], 40);
    let fairness = summary["fairness"].as_f64().unwrap();
    assert!(fairness > 0.0 && fairness <= 1.0, "{fairness}");
    let association = &summary["associations"][39];
    assert!(association["seconds"].as_f64().unwrap() > 0.0, "{association}");
}

#[test]
fn what_comes_after_the_last_whole_interval_is_told() {
    let server = start(&["perf", "server"], "127.0.0.1");
    let short = perf(&server, "127.0.0.1", &["--bytes", "10k", "--interval", "1000s"]);
    let documents = short.stdout.lines().map(|line| serde_json::from_str(line).unwrap());
    let intervals: Vec<Value> =
        documents.filter(|told: &Value| told["event"] == "interval").collect();
    assert_eq!(intervals.len(), 1, "{}", short.stdout);
    assert_eq!(intervals[0]["bytes_sent"], 10_000);
}

#[test]
fn round_trips() {
    let server = start(&["perf", "server"], "127.0.0.1");
    let options = ["--mode", "ping", "--bytes", "6400", "--interval", "0s"];
    let pinged = perf(&server, "127.0.0.1", &options);
    assert_eq!(pinged.stdout.lines().count(), 2, "connected and summary");
    let round_trip = &summary(&pinged)["round_trip"];
    assert_eq!(round_trip["count"], 100);
    let time = |key: &str| round_trip[key].as_f64().unwrap();
    assert!(0.0 < time("min_seconds") && time("min_seconds") <= time("p50_seconds"));
    assert!(time("p50_seconds") <= time("p99_seconds"));
    assert!(time("p99_seconds") <= time("max_seconds"));
}

#[test]
fn an_echo_returns_messages_whole() {
    let mut server = start(&["echo", "--max-message", "3M"], "127.0.0.1,[::1]");
    // As they are larger than half of the receive buffer, they are delivered in parts.
    let options = ["--plain", "--mode", "ping", "--size", "2M", "--bytes", "6M", "--streams", "3"];
    let pinged = summary(&perf(&server, "[::1]", &options));
    assert_eq!(pinged["round_trip"]["count"], 3);
    let echoed = server.event();
    assert_eq!((&echoed["messages_sent"], &echoed["bytes_sent"]), (&3.into(), &6_000_000.into()));
    assert_eq!(echoed["error"], Value::Null);
    let too_long = ["--plain", "--mode", "ping", "--size", "4M", "--bytes", "4M"];
    let refused = perf(&server, "[::1]", &too_long);
    assert_eq!(refused.code, Some(1), "{}", refused.stdout);
    assert!(refused.stderr.contains("aborted by the peer"), "{}", refused.stderr);
    assert_eq!(server.event()["error"], "a message was longer than 3000000 bytes");
    assert_eq!(server.interrupt(), Some(0));
}

#[test]
fn an_echo_returns_interleaved_messages_whole() {
    let mut server = start(&["echo", "--interleave", "--scheduler", "round-robin"], "127.0.0.1");
    // Each is as large as the receive buffer, so that parts of several are delivered in turn.
    let options = ["--plain", "--mode", "both", "--size", "1M", "--bytes", "6M", "--streams", "3"];
    let options = [&options[..], &["--interleave", "--scheduler", "round-robin"]].concat();
    let sent = summary(&perf(&server, "127.0.0.1", &options));
    assert_eq!(sent["sent"]["messages"], 6);
    let echoed = server.event();
    // The client shuts down once it has sent everything, which may be before the last echoes.
    let whole = echoed["messages_sent"].as_u64().unwrap();
    assert!(whole >= 3 && echoed["error"] == Value::Null, "{echoed}");
    assert_eq!(echoed["bytes_sent"], whole * 1_000_000);
    assert_eq!(server.interrupt(), Some(0));
}

#[test]
fn messages_may_be_given_up() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("loss.toml");
    std::fs::write(&file, "[[path]]\ndirection = \"send\"\nloss_percent = 10\n").unwrap();
    let server = start(&["perf", "server"], "127.0.0.1");
    let options = ["--impair", file.to_str().unwrap(), "--max-retransmissions", "0"];
    let options = [&options[..], &["--size", "100", "--bytes", "100k"]].concat();
    let summary = summary(&perf(&server, "127.0.0.1", &options));
    let (arrived, counters) = (&summary["sent"]["messages"], &summary["counters"]);
    let given_up = counters["given_up_sent"].as_u64().unwrap();
    assert!(given_up > 0 && counters["given_up_unsent"] == 0, "{summary}");
    // What was given up may have arrived nevertheless.
    assert!(arrived.as_u64().unwrap() < 1000 && arrived.as_u64().unwrap() + given_up >= 1000);
    let ping = perf(&server, "127.0.0.1", &["--mode", "ping", "--lifetime", "1s"]);
    assert!(ping.stderr.contains("no message may be given up"), "{}", ping.stderr);
}

#[test]
fn a_client_takes_what_an_echo_still_sends_while_it_closes() {
    let mut server = start(&["echo"], "127.0.0.1");
    // At the end, more data is in transit back than fits into a receive buffer.
    let both = ["--plain", "--mode", "both", "--size", "8000", "--bytes", "20M"];
    assert_eq!(summary(&perf(&server, "127.0.0.1", &both))["sent"]["bytes"], 20_000_000);
    assert_eq!(server.event()["error"], Value::Null);
    assert_eq!(server.interrupt(), Some(0));
}

#[test]
fn a_discarding_server_takes_everything() {
    let mut server = start(&["discard"], "127.0.0.1");
    let sent = summary(&perf(&server, "127.0.0.1", &["--plain", "--bytes", "2M"]));
    assert_eq!(sent["sent"]["bytes"], 2_000_000);
    let discarded = server.event();
    assert_eq!(
        (&discarded["event"], &discarded["bytes_received"]),
        (&"ended".into(), &2_000_000.into())
    );
    // It does not speak the perf protocol, so it never reports anything.
    assert_eq!(server.interrupt(), Some(0));
}

#[test]
fn a_peer_that_is_no_perf_server_is_told_apart() {
    let discard = start(&["discard"], "127.0.0.1");
    // The time limit applies although no echo ever arrives.
    let options = ["--plain", "--mode", "ping", "--time", "100ms"];
    let silent = perf(&discard, "127.0.0.1", &options);
    assert_eq!(silent.code, Some(1));
    assert!(silent.stderr.contains("the peer sends no echo"), "{}", silent.stderr);
    // It accepts everything, but was supposed to send as well.
    let options = ["--plain", "--mode", "both", "--time", "100ms"];
    let silent = perf(&discard, "127.0.0.1", &options);
    assert_eq!(silent.code, Some(1));
    assert!(silent.stderr.contains("the peer has sent nothing"), "{}", silent.stderr);
    let unanswered = perf(&discard, "127.0.0.1", &["--bytes", "100"]);
    assert_eq!(unanswered.code, Some(1));
    let told = "if it is not a perf server, measure it with --plain";
    assert!(unanswered.stderr.contains(told), "{}", unanswered.stderr);
    let url = format!("sctp://127.0.0.1:5201;udp={}/file", discard.udp_port());
    let folder = tempfile::tempdir().unwrap();
    let silent = run(&["get", &url, "--timeout", "300ms"], folder.path());
    assert_eq!(silent.code, Some(1));
    assert!(silent.stderr.contains("nothing came from the server for 300ms"), "{}", silent.stderr);
    let echo = start(&["echo"], "127.0.0.1");
    for mode in ["both", "ping"] {
        let echoed = perf(&echo, "127.0.0.1", &["--mode", mode, "--bytes", "100"]);
        assert_eq!(echoed.code, Some(1));
        assert!(echoed.stderr.contains("not a perf server, measure it with --plain"), "{mode}");
    }
}

#[test]
fn a_server_of_files_is_no_perf_server() {
    let site = Site::new(&[1000]);
    let server = Server::start(&["--listen", "127.0.0.1:5201", "--udp-port", "0"], &site.path());
    for mode in ["send", "receive", "both", "ping"] {
        let refused = perf(&server, "127.0.0.1", &["--mode", mode, "--time", "100ms"]);
        assert_eq!(refused.code, Some(1), "{mode}");
        let told = "is another server there? start 'anabranch perf server'";
        assert!(refused.stderr.contains(told), "{mode}: {}", refused.stderr);
    }
}

#[test]
fn perf_servers_refuse_others() {
    let mut server = start(&["perf", "server"], "127.0.0.1");
    let refused = perf(&server, "127.0.0.1", &["--plain", "--mode", "ping"]);
    assert_eq!(refused.code, Some(1));
    assert!(refused.stderr.contains("aborted by the peer"), "{}", refused.stderr);
    let error = server.event()["error"].as_str().unwrap().to_owned();
    assert!(error.starts_with("the client does not speak perf"), "{error}");
}

#[test]
fn both_sides_can_be_interrupted() {
    let mut server = start(&["perf", "server"], "127.0.0.1");
    let udp_port = server.udp_port();
    let mut client = anabranch(
        &[
            "perf",
            "client",
            "127.0.0.1:5201",
            "--remote-udp-port",
            &udp_port,
            "--time",
            "1h",
            "--json",
        ],
        Path::new("/"),
    )
    .stdout(Stdio::piped())
    .stderr(Stdio::piped())
    .spawn()
    .unwrap();
    let mut lines = BufReader::new(client.stdout.take().unwrap()).lines();
    assert!(lines.next().unwrap().unwrap().contains("connected"));
    assert!(lines.next().unwrap().unwrap().contains("interval"));
    interrupt(&client);
    let told: Vec<_> = lines.map(Result::unwrap).collect();
    assert!(told.last().unwrap().contains("summary"), "{told:?}");
    let ended: Ended = client.wait_with_output().unwrap().into();
    ended.failed_with(130, "interrupted");
    assert!(server.event()["error"].as_str().unwrap().contains("aborted by the peer"));
    assert_eq!(server.interrupt(), Some(0));
}

#[test]
fn impaired_sockets_lose_what_they_are_told_to() {
    let directory = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = directory.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let lossy = file(
        "lossy.toml",
        "seed = 1\n[[path]]\nloss_percent = 2\ndelay_ms = 2\nrate_mbit = 100\n\
         queue_packets = 1000",
    );
    let server = start(&["perf", "server"], "127.0.0.1");
    let options = ["--impair", &lossy, "--mode", "both", "--bytes", "1M"];
    let spoiled = summary(&perf(&server, "127.0.0.1", &options));
    assert_eq!(
        (&spoiled["sent"]["bytes"], &spoiled["received"]["bytes"]),
        (&1_000_000.into(), &1_000_000.into())
    );
    assert!(spoiled["paths"][0]["retransmitted_chunks"].as_u64().unwrap() > 0);
    assert!(spoiled["paths"][0]["srtt_seconds"].as_f64().unwrap() >= 0.004);
    assert!(spoiled["paths"][0]["lost_packets"].as_u64().unwrap() > 0, "{spoiled}");
    let counter = |name: &str| spoiled["counters"][name].as_f64().unwrap();
    assert!(counter("recovery_seconds") > 0.0, "{spoiled}");
    let utilization = counter("retransmission_queue_utilization");
    assert!(counter("recovery_utilization") < utilization, "{spoiled}");
    // In text, too.
    let options = ["perf", "client", "127.0.0.1:5201", "--remote-udp-port", &server.udp_port()];
    let text = |more: &[&str]| {
        run(&[&options[..], &["--bytes", "1M"], more].concat(), Path::new("/")).stdout
    };
    let all = text(&["--paths"]);
    assert!(all.contains("retransmission queue: mean ") && all.contains("Mb/s out"), "{all}");
    let short = text(&[]);
    assert!(!short.contains("Mb/s out"), "{short}");
    assert!(short.lines().all(|line| line.chars().count() <= 80), "{short}");

    let cut = file("cut.toml", "[[path]]\ncut_at_s = 0");
    let options = ["--impair", &cut, "--connect-timeout", "100ms"];
    let refused = perf(&server, "127.0.0.1", &options);
    refused.failed_with(1, "no answer within 100ms");
    let wrong = file("wrong.toml", "[[path]]\nloss_percent = 200");
    perf(&server, "127.0.0.1", &["--impair", &wrong]).failed_with(1, "wrong.toml, line 2: loss");
    perf(&server, "127.0.0.1", &["--impair", "/no/such"]).failed_with(1, "/no/such cannot be read");
}

#[test]
fn wrong_usage_is_one_sentence() {
    let directory = Path::new("/");
    for (arguments, sentence) in [
        (&["echo"][..], "required arguments were not provided: --listen"),
        (&["discard", "--listen", "127.0.0.1"], "no port"),
        (
            &["echo", "--listen", "127.0.0.1:7", "--max-message", "x"],
            "a size is a whole number of bytes",
        ),
        (&["perf", "client", "127.0.0.1"], "no port"),
        (&["perf", "client", "127.0.0.1:7", "--size", "0"], "--size 0: a message has 1 to"),
        (&["serve", ".", "--listen", "127.0.0.1:7", "--max-requests", "0"], "--max-requests"),
        (&["perf", "client", "127.0.0.1:7", "--time", "0s"], "--time 0ns: above 0s"),
        (&["perf", "client", "127.0.0.1:7", "--time", "1s", "--bytes", "1"], "cannot be used with"),
        (
            &["perf", "client", "127.0.0.1:7", "--transport", "tcp"],
            "--transport tcp works with serve",
        ),
        (
            &["perf", "client", "127.0.0.1:7", "--transport", "sctp", "--remote-udp-port", "9"],
            "--remote-udp-port means nothing to sctp",
        ),
        (
            &["echo", "--listen", "127.0.0.1:7", "--transport", "sctp", "--udp-port", "9"],
            "--udp-port means nothing to sctp",
        ),
        (&["perf", "server", "--listen", "127.0.0.1:7", "--interval", "0s"], "above 0s"),
        (&["perf", "server", "--listen", "127.0.0.1:7", "--receive-buffer", "1"], "receive_buffer"),
    ] {
        run(arguments, directory).failed_with(2, sentence);
    }
    run(&["echo", "--listen", "127.0.0.1:0", "--udp-port", "0"], directory)
        .failed_with(1, "0 is not a valid SCTP port");
    run(&["discard", "--listen", "192.0.2.1:7"], directory).failed_with(1, "192.0.2.1");
}

#[test]
#[cfg(unix)]
fn running_endpoints_can_be_inspected() {
    use std::os::unix::fs::PermissionsExt as _;
    let directory = tempfile::tempdir().unwrap();
    let control = directory.path().join("control.sock");
    let control = control.to_str().unwrap();
    let inspect = |options: &[&str]| {
        let all = [&["inspect", "--once"], options].concat();
        let mut command = anabranch(&all, Path::new("/"));
        Ended::from(command.env("XDG_RUNTIME_DIR", directory.path()).output().unwrap())
    };
    inspect(&["--control", control]).failed_with(1, "there is no control socket");
    inspect(&[]).failed_with(1, "no running endpoint");
    // A socket left behind by a killed process is replaced.
    drop(std::os::unix::net::UnixListener::bind(control).unwrap());
    inspect(&["--control", control]).failed_with(1, "no process listens on the control socket");
    let listen = ["--listen", "127.0.0.1:5201", "--udp-port", "0", "--control", control];
    let server = Server::start_command(&["perf", "server"], &listen, Path::new("/"));
    assert_eq!(std::fs::metadata(control).unwrap().permissions().mode() & 0o777, 0o600);

    let mut client = anabranch(
        &[
            "perf",
            "client",
            "127.0.0.1:5201",
            "--remote-udp-port",
            &server.udp_port(),
            "--json",
            "--time",
            "1h",
        ],
        Path::new("/"),
    );
    let client = client.env("XDG_RUNTIME_DIR", directory.path()).stdout(Stdio::piped());
    let mut client = client.stderr(Stdio::null()).spawn().unwrap();
    let mut lines = BufReader::new(client.stdout.take().unwrap()).lines();
    assert!(lines.next().unwrap().unwrap().contains("connected"));
    let seen = inspect(&["--control", control, "--json"]).json();
    assert_eq!(seen["udp_port"].to_string(), server.udp_port());
    let association = &seen["associations"][0];
    assert_eq!(
        (&association["local_port"], &association["incoming"]),
        (&5201.into(), &true.into())
    );
    assert_eq!(association["paths"][0]["remote"], "127.0.0.1");
    // The client's socket is found automatically.
    let found = inspect(&["--json"]).json();
    assert_eq!(found["associations"][0]["remote_port"], 5201);
    assert_eq!(found["process"], client.id());
    let short = inspect(&[]).stdout;
    assert!(short.lines().all(|line| line.chars().count() <= 80), "{short}");
    let metrics = inspect(&["--metrics"]).stdout;
    assert!(metrics.contains("# TYPE anabranch_associations gauge\n"), "{metrics}");
    assert!(!metrics.contains("remote="), "only with --wide: {metrics}");
    let metrics = inspect(&["--metrics", "--wide"]).stdout;
    assert!(metrics.contains(",remote=\"127.0.0.1\"} "), "{metrics}");
    let table = inspect(&["--wide"]);
    assert!(table.stdout.contains("127.0.0.1 -> 127.0.0.1"), "{}", table.stdout);
    for column in ["errors in a row", "2/3/4/5 in a row", "data packets out"] {
        assert!(table.stdout.contains(column), "{}", table.stdout);
    }
    let counters = &found["associations"][0]["counters"];
    assert!(counters["retransmission_queue_used_seconds"].is_f64(), "{found}");
    assert!(counters["receive_window_blocks"].is_u64(), "{found}");
    // A socket serves a single endpoint.
    run(&[&["echo"], &listen[..]].concat(), Path::new("/")).failed_with(1, "is in use");

    interrupt(&client);
    client.wait().unwrap();
    assert_eq!(server.interrupt(), Some(0));
    assert!(!Path::new(control).exists());
    let left = std::fs::read_dir(directory.path().join("anabranch")).unwrap().count();
    assert_eq!(left, 0);
}
