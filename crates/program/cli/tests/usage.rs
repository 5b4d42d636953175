//! Bad input: one sentence and an exit code.

mod common;

use common::{Ended, Server, Site, anabranch, run};

#[test]
fn help_has_examples() {
    let site = Site::new(&[]);
    for (command, example) in [
        ("serve", "anabranch serve . --listen"),
        ("get", "anabranch get sctp://"),
        ("put", "anabranch put "),
    ] {
        let help = run(&[command, "--help"], &site.path());
        assert_eq!(help.code, Some(0));
        assert!(help.stdout.contains("Examples:") && help.stdout.contains(example));
    }
    let version = concat!("anabranch ", env!("CARGO_PKG_VERSION"), "\n");
    assert_eq!(run(&["-V"], &site.path()).stdout, version);
    let long = run(&["--version"], &site.path()).stdout;
    let lines: Vec<&str> = long.strip_prefix(version).unwrap().lines().collect();
    assert!(lines.len() == 2 && lines[0].starts_with("commit "), "{long}");
    assert!(lines[1].starts_with("engine ") && lines[1].len() == "engine ".len() + 16, "{long}");
    assert_eq!(run(&[], &site.path()).code, Some(2));
}

#[test]
fn options_stand_under_their_heading() {
    let site = Site::new(&[]);
    for command in [&["serve"][..], &["get"], &["perf", "client"], &["echo"]] {
        let help = run(&[command, &["--help=all"]].concat(), &site.path()).stdout;
        let of = |heading: &str| {
            let under = help.lines().skip_while(|line| *line != heading).skip(1);
            let own = under.take_while(|line| line.is_empty() || line.starts_with(' '));
            own.collect::<Vec<_>>().join("\n")
        };
        let [general, sctp, paths] = ["Options:", "SCTP:", "Paths:"].map(of);
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

/// Options of messages are in the help of the commands that send them, and not of those with byte streams.
#[test]
fn commands_that_send_messages_show_their_options() {
    let site = Site::new(&[]);
    let help = |command: &[&str]| run(&[command, &["--help"]].concat(), &site.path()).stdout;
    for option in ["--lifetime", "--max-retransmissions", "--message-priority", "--scheduler"] {
        for command in [&["perf", "client"][..], &["perf", "server"], &["echo"]] {
            assert!(help(command).contains(option), "{command:?} {option}");
        }
        assert!(!help(&["get"]).contains(option), "{option}");
    }
    assert!(help(&["echo"]).contains("--interleave"));
}

#[test]
fn help_is_as_long_as_it_has_to_be() {
    let site = Site::new(&[]);
    for command in
        [&["serve"][..], &["get"], &["put"], &["perf", "client"], &["perf", "server"], &["echo"]]
    {
        let help = |option: &str| run(&[command, &[option]].concat(), &site.path()).stdout;
        let [short, long, all] = ["-h", "--help", "--help=all"].map(help);
        assert!(short.lines().count() <= 40, "{} lines: {short}", short.lines().count());
        assert!(short.contains("--help=all") && long.contains("--help=all"), "{short}");
        assert!(!long.contains("--rto-min <") && all.contains("--rto-min <"), "{long}");
        assert!(long.contains("Examples:\n") && long.contains("--capture"), "{long}");
        assert!(!short.contains("Examples:\n") && !short.contains("--capture"), "{short}");
        for line in [&short, &long, &all].into_iter().flat_map(|text| text.lines()) {
            assert!(line.chars().count() <= 100, "{line}");
        }
    }
}

#[test]
fn usage_and_defaults_can_be_copied() {
    let site = Site::new(&[]);
    for command in [&["pattern", "new"][..], &["emulate"], &["lab", "gain"], &["serve"]] {
        let help = run(&[command, &["-h"]].concat(), &site.path()).stdout;
        let usage: Vec<_> = help.lines().skip_while(|line| !line.starts_with("Usage: ")).collect();
        let usage: Vec<_> = usage.iter().take_while(|line| !line.is_empty()).collect();
        assert!(!usage.is_empty() && usage.iter().all(|line| line.len() <= 80), "{usage:?}");
    }
    let help = run(&["demo", "--help"], &site.path()).stdout;
    assert!(help.contains("[default: 0,4.3]"), "{help}");
    // All accepted profiles are named.
    let help = run(&["get", "--help"], &site.path()).stdout;
    let options = run(&["options", "rto-min", "--json"], &site.path()).json();
    for profile in options["options"][0]["defaults"].as_array().unwrap() {
        let name = profile[0].as_str().unwrap();
        assert!(help.contains(&format!(" {name}")), "{name}: {help}");
    }
}

#[test]
fn shells_and_man_know_the_commands() {
    let site = Site::new(&[]);
    for shell in ["bash", "zsh", "fish"] {
        let script = run(&["completions", shell], &site.path());
        assert_eq!(script.code, Some(0), "{}", script.stderr);
        assert!(script.stdout.contains("inspect"), "{shell}");
        assert!(script.stdout.contains("rto-min"), "{shell}: advanced options, too");
    }
    run(&["completions", "tcsh"], &site.path()).failed_with(2, "invalid value 'tcsh'");
    assert_eq!(run(&["man", "new/man1"], &site.path()).code, Some(0));
    let page = std::fs::read_to_string(site.path().join("new/man1/anabranch-get.1")).unwrap();
    assert!(page.contains(".TH") && page.contains("continue"), "{page}");
    assert!(site.path().join("new/man1/anabranch-perf-client.1").exists());
}

/// Arguments with few and known values are completed, in the script for each shell.
#[test]
fn shells_complete_values() {
    let site = Site::new(&[]);
    for shell in ["bash", "zsh", "fish"] {
        let script = run(&["completions", shell], &site.path()).stdout;
        for value in ["signalling", "cmt-pf", "caro/2.5", "rto_min"] {
            assert!(script.contains(value), "{shell}: {value}");
        }
    }
    // Where scenarios are completed, files are as well.
    let zsh = run(&["completions", "zsh"], &site.path()).stdout;
    assert!(zsh.matches(":_anabranch_scenarios'").count() >= 7 && zsh.contains("_files -g"));
    assert_eq!(zsh.matches("caro/2.5 ").count(), 1);
    // Parsing has its own error messages, and accepts files where scenarios are completed.
    run(&["get", "sctp://h/", "--profile", "x"], &site.path()).failed_with(2, "x");
    run(&["lab", "show", "none.toml"], &site.path()).failed_with(1, "none.toml");
}

/// Every page has the exit codes, the environment variables, and references to other pages; no section
/// is empty.
#[test]
fn pages_have_the_sections_that_man_has() {
    let site = Site::new(&[]);
    assert_eq!(run(&["man", "."], &site.path()).code, Some(0));
    let page = |name: &str| std::fs::read_to_string(site.path().join(name)).unwrap();
    let mut pages = 0;
    for entry in std::fs::read_dir(site.path()).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        let text = page(&name);
        let titles: Vec<_> = text.lines().filter_map(|line| line.strip_prefix(".SH ")).collect();
        for title in ["\"EXIT STATUS\"", "ENVIRONMENT", "\"SEE ALSO\""] {
            assert!(titles.contains(&title), "{name} has {titles:?}");
        }
        assert!(!titles.contains(&"EXTRA"), "{name}");
        let lines: Vec<_> = text.lines().filter(|line| !line.is_empty()).collect();
        let empty = |pair: &[&str]| pair.iter().all(|line| line.starts_with(".SH"));
        assert!(
            !lines.windows(2).any(empty) && !lines.last().unwrap().starts_with(".SH"),
            "{name}"
        );
        pages += 1;
    }
    assert!(pages > 30, "{pages}");
    let get = page("anabranch-get.1");
    assert!(get.contains(".SH EXAMPLES\n.nf\nanabranch get "), "{get}");
    let run_page = page("anabranch-lab-run.1");
    let see = run_page.split("SEE ALSO").nth(1).unwrap();
    for other in ["anabranch", "anabranch\\-lab", "anabranch\\-lab\\-check"] {
        assert!(see.contains(&format!("\\fB{other}\\fR(1)")), "{other} is not in {see}");
    }
    assert!(page("anabranch-serve.1").contains(".SH FILES"));
}

#[test]
fn colours_are_for_terminals() {
    let site = Site::new(&[]);
    let logged = |variable: &str| {
        let nobody = ["get", "sctp://127.0.0.1:9;udp=9/x", "-vvv", "-q"];
        let mut command = anabranch(&nobody, &site.path());
        let ended: Ended = command.env(variable, "1").output().unwrap().into();
        ended.stderr.contains('\u{1b}')
    };
    assert!(!logged("NO_COLOR") && !logged("OTHER"), "standard error is a pipe");
    assert!(logged("FORCE_COLOR"));
}

#[test]
fn logs_may_be_json() {
    let site = Site::new(&[]);
    let nobody = ["get", "sctp://127.0.0.1:9;udp=9/x", "-vv", "-q", "--log-format", "json"];
    let ended = run(&nobody, &site.path());
    let lines: Vec<_> =
        ended.stderr.lines().filter(|line| !line.starts_with("anabranch:")).collect();
    assert!(!lines.is_empty(), "{}", ended.stderr);
    for line in lines {
        let record: serde_json::Value = serde_json::from_str(line).unwrap();
        assert!(record["timestamp"].is_string() && record["level"].is_string(), "{record}");
    }
}

#[test]
fn a_server_takes_options_from_a_file() {
    let site = Site::new(&[3]);
    let file = site.path().join("server.toml");
    let text = "directory = '.'\nlisten = '127.0.0.1:8080'\nudp_port = 0\njson = true\nrto_min = '100ms'\n";
    std::fs::write(&file, text).unwrap();
    let server = Server::start_command(&["serve", "--config", "server.toml"], &[], &site.path());
    assert_eq!(server.listening["directory"], ".");
    drop(server);
    // Options on the command line override those of the file.
    let given = ["--listen", "127.0.0.2:8080"];
    let server = Server::start_command(&["serve", "--config", "server.toml"], &given, &site.path());
    assert!(server.listening["listen"].as_str().unwrap().starts_with("127.0.0.2:"));
    drop(server);
    let wrong = run(&["echo", "--config", "server.toml"], &site.path());
    wrong.failed_with(1, "server.toml, line 1: 'echo' has no option 'directory'");
    std::fs::write(&file, "json = true\nrto_min = '200'\n").unwrap();
    let wrong = run(&["echo", "--config", "server.toml"], &site.path());
    wrong.failed_with(
        1,
        "server.toml, line 2: 'rto-min': invalid value '200' for '--rto-min <TIME>'",
    );
    assert!(
        run(&["echo", "--config", "server.toml", "--json"], &site.path()).stdout.contains("rto")
    );
}

#[test]
fn failures_are_json_too() {
    let site = Site::new(&[]);
    let serve = ["serve", "missing", "--listen", "127.0.0.1:80", "--json"];
    for (arguments, schema, code, sentence) in [
        (&["perf", "client", "127.0.0.1", "--json"][..], "perf-client", 2, "no port"),
        (&["perf", "sever", "--json"], "perf", 2, "unrecognized subcommand 'sever'"),
        (&["fetch", "--json"], "anabranch", 2, "unrecognized subcommand 'fetch'"),
        (&["echo", "--config", "missing", "--json"], "echo", 1, "the file missing cannot be read"),
        (&serve, "serve", 1, "there is no directory"),
    ] {
        let ended = run(arguments, &site.path());
        ended.failed_with(code, sentence);
        let document: serde_json::Value = serde_json::from_str(&ended.stdout).unwrap();
        assert_eq!((&document["schema"], &document["event"]), (&schema.into(), &"error".into()));
        assert_eq!(document["exit_code"], code);
        assert_eq!(document["version"], env!("CARGO_PKG_VERSION"));
        assert!(document["error"].as_str().unwrap().contains(sentence), "{document}");
    }
}

#[test]
fn wrong_usage_ends_with_2() {
    let site = Site::new(&[]);
    for (arguments, sentence) in [
        (&["fetch"][..], "unrecognized subcommand 'fetch'"),
        (&["sever"], "did you mean 'serve'? See --help"),
        (&["get", "http://a/x", "--stream", "1"], "did you mean '--streams'?"),
        (&["get", "http://a/x", "--transport", "sctp-dup"], "did you mean 'sctp-udp'?"),
        (&["get", "sctp://a/x", "--pmr", "-1"], "'-1' for '--pmr <N>'"),
        (&["get", "sctp://a/x", "--rto-min", "-1s"], "negative values are not accepted"),
        (&["perf", "client", "127.0.0.1:7", "--time", "0s"], "--time 0ns: above 0s"),
        (&["perf", "client", "127.0.0.1:7", "--size", "0"], "--size 0: a message has 1 to 64Mi"),
        (&["serve", "."], "required arguments were not provided: --listen"),
        (&["serve", ".", "--listen", "127.0.0.1"], "no port"),
        (&["serve", ".", "--listen", "::1:80"], "IPv6 needs brackets"),
        (&["serve", ".", "--listen", "example:80"], "'example' is not an IP address"),
        (&["serve", ".", "--listen", "127.0.0.1:80", "--fast"], "unexpected argument '--fast'"),
        (
            &["serve", ".", "--listen", "127.0.0.1:80", "--rto-min", "5"],
            "rto_min must be a time from 1 ns to 1 h, not '5'",
        ),
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
            "memory_limit must be at least 65536 bytes",
        ),
        (&["get"], "required arguments were not provided: <URL>..."),
        (&["get", "ftp://host/x"], "a URL begins with sctp:// or http:// (https:// for HTTP/3)"),
        (&["get", "http://127.0.0.1:0/x"], "'0' is not a port"),
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
    get(&["http://127.0.0.1:9/x", "--out", "file 0.bin/missing"])
        .failed_with(1, "the directory file 0.bin/missing cannot be made");
    get(&["http://127.0.0.1:9/x", "-q"]).failed_with(1, "cannot connect to 127.0.0.1:9: ");
    get(&["http://no-such-host.invalid/x", "-q"])
        .failed_with(1, "'no-such-host.invalid' is not known");
    get(&["http://127.0.0.1:9/x", "--local", "::1", "-q"])
        .failed_with(1, "no local address reaches 127.0.0.1");
}

/// The page matches the output of the program.
#[test]
fn the_page_of_options_is_up_to_date() {
    let site = Site::new(&[]);
    let made = run(&["options", "--markdown"], &site.path()).stdout;
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../docs/options.md");
    let kept = std::fs::read_to_string(page).unwrap();
    assert!(made == kept, "anabranch options --markdown > docs/options.md");
    let one = run(&["options", "rto-min"], &site.path()).stdout;
    assert!(one.starts_with("rto_min\n") && one.contains("default: 300 ms"), "{one}");
    let all: serde_json::Value =
        serde_json::from_str(&run(&["options", "--json"], &site.path()).stdout).unwrap();
    let rows = all.as_array().or_else(|| all["options"].as_array()).unwrap();
    assert!(rows.len() > 40 && rows.iter().all(|row| row["help"].is_string()));
}
