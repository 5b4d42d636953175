//! Bad input: one sentence and an exit code.

mod common;

use common::{Server, Site, run};

#[test]
fn help_has_examples() {
    let site = Site::new(&[]);
    for (command, example) in
        [("serve", "anabranch serve . --listen"), ("get", "anabranch get sctp://")]
    {
        let help = run(&[command, "--help"], &site.path());
        assert_eq!(help.code, Some(0));
        assert!(help.stdout.contains("Examples:") && help.stdout.contains(example));
    }
    assert!(run(&["--version"], &site.path()).stdout.starts_with("anabranch "));
    assert_eq!(run(&[], &site.path()).code, Some(2));
}

#[test]
fn options_stand_under_their_heading() {
    let site = Site::new(&[]);
    for command in [&["serve"][..], &["get"], &["perf", "client"], &["echo"]] {
        let help = run(&[command, &["--help"]].concat(), &site.path()).stdout;
        let of = |heading: &str| {
            let under = help.lines().skip_while(|line| *line != heading).skip(1);
            let own = under.take_while(|line| line.is_empty() || line.starts_with(' '));
            own.collect::<Vec<_>>().join("\n")
        };
        let [general, sctp, paths] = ["Options:", "SCTP:", "Multihoming:"].map(of);
        for (option, own, others) in [
            ("--json", &general, [&sctp, &paths]),
            ("--udp-port", &sctp, [&general, &paths]),
            ("--capture", &sctp, [&general, &paths]),
            ("--dormant", &paths, [&general, &sctp]),
        ] {
            let begins = |text: &str| text.lines().any(|line| line.trim().starts_with(option));
            assert!(begins(own), "{command:?}: {option}");
            assert!(!others.into_iter().any(|text| begins(text)), "{command:?}: {option}");
        }
    }
}

#[test]
fn wrong_usage_ends_with_2() {
    let site = Site::new(&[]);
    for (arguments, sentence) in [
        (&["fetch"][..], "unrecognized subcommand 'fetch'"),
        (&["serve", "."], "required arguments were not provided: --listen"),
        (&["serve", ".", "--listen", "127.0.0.1"], "no port"),
        (&["serve", ".", "--listen", "::1:80"], "IPv6 needs brackets"),
        (&["serve", ".", "--listen", "example:80"], "'example' is not an IP address"),
        (&["serve", ".", "--listen", "127.0.0.1:80", "--fast"], "unexpected argument '--fast'"),
        (&["serve", ".", "--listen", "127.0.0.1:80", "--rto-min", "5"], "a time has a unit"),
        (&["serve", ".", "--listen", "127.0.0.1:80", "--transport", "udp"], "invalid value 'udp'"),
        (
            &["serve", ".", "--listen", "127.0.0.1:80", "--transport", "tcp", "--pmr", "3"],
            "--pmr means nothing to tcp",
        ),
        (
            &["serve", ".", "--listen", "127.0.0.1:80", "--transport", "tcp", "--udp-port", "3"],
            "--udp-port means nothing to tcp",
        ),
        (
            &["serve", ".", "--listen", "127.0.0.1:80", "--memory-limit", "1k"],
            "memory_limit: must be at least 65536 bytes",
        ),
        (&["get"], "required arguments were not provided: <URL>..."),
        (&["get", "ftp://host/x"], "a URL begins with http:// or sctp://"),
        (&["get", "http://127.0.0.1:0/x"], "'0' is no port"),
        (&["get", "http://127.0.0.1/%2e%2e"], "does not end with a usable file name"),
        (&["get", "http://a/x", "http://b/x"], "have the same file name"),
        (&["get", "http://a/x", "--streams", "0"], "invalid value '0'"),
        (&["get", "http://a/x", "--capture", "f"], "--capture means nothing to tcp"),
        (&["get", "http://a/x", "--remote-udp-port", "9"], "--remote-udp-port means nothing"),
        (&["get", "http://a/x", "--local", "nowhere"], "'nowhere' is not an IP address"),
        (&["get", "sctp://a/x", "--transport", "tcp"], "cannot be fetched over tcp"),
    ] {
        run(arguments, &site.path()).failed_with(2, sentence);
    }
}

#[test]
fn what_is_missing_or_taken_ends_with_1() {
    let site = Site::new(&[1]);
    let serve = |arguments: &[&str]| {
        let mut all = vec!["serve"];
        all.extend_from_slice(arguments);
        run(&all, &site.path())
    };
    let tcp = ["--listen", "127.0.0.1:0", "--transport", "tcp"];
    serve(&[&["missing"][..], &tcp].concat()).failed_with(1, "there is no directory missing");
    let file = serve(&[&["file 0.bin"][..], &tcp].concat());
    file.failed_with(1, "file 0.bin is not a directory");
    serve(&[".", "--listen", "192.0.2.1:8080", "--transport", "tcp"])
        .failed_with(1, "192.0.2.1 is not an address of this host");

    let server = Server::start(&tcp, &site.path());
    let busy = format!("127.0.0.1:{}", server.port());
    serve(&[".", "--listen", &busy, "--transport", "tcp"])
        .failed_with(1, &format!("TCP port {} is in use", server.port()));

    let get = |arguments: &[&str]| {
        let mut all = vec!["get"];
        all.extend_from_slice(arguments);
        run(&all, &site.path())
    };
    get(&["http://127.0.0.1:9/x", "--out", "missing"])
        .failed_with(1, "there is no directory missing");
    get(&["http://127.0.0.1:9/x", "-q"]).failed_with(1, "cannot connect to 127.0.0.1:9: ");
    get(&["http://no-such-host.invalid/x", "-q"])
        .failed_with(1, "'no-such-host.invalid' is not known");
    get(&["http://127.0.0.1:9/x", "--local", "::1", "-q"])
        .failed_with(1, "no local address reaches 127.0.0.1");
}
