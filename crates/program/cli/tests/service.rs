//! Servers under other services: sockets from systemd, metrics for Prometheus.
#![cfg(unix)]

mod common;

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::os::fd::OwnedFd;
use std::process::{Command, Output, Stdio};

use common::{Server, Site, run};

/// A command that gets a socket as systemd passes it: as descriptor 3, announced by environment
/// variables.
fn passed(socket: OwnedFd, arguments: &[&str], site: &Site) -> Command {
    let script = r#"export LISTEN_FDS=1 LISTEN_PID=$$; exec 3<&0 </dev/null; exec "$0" "$@""#;
    let mut command = Command::new("sh");
    command.args(["-c", script, env!("CARGO_BIN_EXE_anabranch")]).args(arguments);
    command.current_dir(site.path()).stdin(socket).env_remove("ANABRANCH_LOG");
    command
}

#[test]
fn systemd_opens_the_sockets() {
    let site = Site::new(&[100_000]);
    let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
    let port = udp.local_addr().unwrap().port();
    // This client starts before the server: its packets wait in the socket.
    let url = format!("sctp://127.0.0.1:80;udp={port}/file%200.bin");
    let get = ["get", &url, "--json"];
    let mut client = common::anabranch(&get, &site.copy());
    let client = client.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let serve = ["serve", ".", "--listen", "127.0.0.1:80", "--json"];
    let server = Server::of(passed(udp.into(), &serve, &site));
    assert_eq!(server.udp_port(), port.to_string());
    let got = client.wait_with_output().unwrap();
    assert!(got.status.success(), "{}", String::from_utf8_lossy(&got.stderr));
    site.assert_copied();
    assert_eq!(server.interrupt(), Some(0));

    let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = tcp.local_addr().unwrap().port();
    let serve = ["serve", ".", "--listen", "127.0.0.1:0", "--transport", "tcp", "--json"];
    let server = Server::of(passed(tcp.into(), &serve, &site));
    assert_eq!(server.port(), port.to_string());
    std::fs::remove_file(site.copy().join("file 0.bin")).unwrap();
    site.get(&format!("http://127.0.0.1:{port}"), &["--json"]).json();
    site.assert_copied();
    assert_eq!(server.interrupt(), Some(0));
}

#[test]
fn one_server_answers_over_both_transports() {
    let site = Site::new(&[100_000]);
    let both = ["--listen", "127.0.0.1,[::1]:80", "--udp-port", "0", "--tcp", "127.0.0.1,[::1]:0"];
    let mut server = Server::start(&both, &site.path());
    let udp_port = server.udp_port();
    let tcp = server.line();
    assert_eq!((&tcp["event"], &tcp["transport"]), (&"listening".into(), &"tcp".into()));
    let listen = tcp["listen"].as_str().unwrap();
    let port = listen.rsplit_once(':').unwrap().1;
    for url in [
        format!("http://127.0.0.1:{port}"),
        format!("http://[::1]:{port}"),
        format!("sctp://127.0.0.1,[::1]:80;udp={udp_port}"),
    ] {
        site.get(&url, &["--json"]).json();
        site.assert_copied();
        std::fs::remove_file(site.copy().join("file 0.bin")).unwrap();
    }
    assert_eq!(server.interrupt(), Some(0));
}

#[test]
fn a_transport_that_cannot_listen_ends_the_server() {
    let site = Site::new(&[]);
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let tcp = taken.local_addr().unwrap().to_string();
    let serve = ["serve", ".", "--listen", "127.0.0.1:80", "--udp-port", "0", "--tcp", &tcp];
    run(&serve, &site.path()).failed_with(1, "is in use on 127.0.0.1");
}

#[test]
fn systemd_opens_the_sockets_of_one_transport_of_two() {
    let site = Site::new(&[]);
    let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
    let udp_port = udp.local_addr().unwrap().port().to_string();
    let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
    let tcp_port = tcp.local_addr().unwrap().port().to_string();
    let serve = ["serve", ".", "--listen", "127.0.0.1:80", "--json", "--tcp", "127.0.0.1:0"];
    let server = Server::of(passed(udp.into(), &serve, &site));
    assert_eq!(server.udp_port(), udp_port);
    let own = ["--udp-port", "0"];
    let mut server = Server::of(passed(tcp.into(), &[&serve[..], &own].concat(), &site));
    assert!(server.line()["listen"].as_str().unwrap().ends_with(&tcp_port));
}

#[test]
fn sockets_that_do_not_fit_are_refused() {
    let site = Site::new(&[]);
    let udp = || UdpSocket::bind("127.0.0.1:0").unwrap().into();
    let tcp = || TcpListener::bind("127.0.0.1:0").unwrap().into();
    let bound = || {
        use nix::sys::socket::{AddressFamily, SockFlag, SockType, SockaddrIn, bind, socket};
        let socket =
            socket(AddressFamily::Inet, SockType::Stream, SockFlag::empty(), None).unwrap();
        bind(std::os::fd::AsRawFd::as_raw_fd(&socket), &SockaddrIn::new(127, 0, 0, 1, 0)).unwrap();
        socket
    };
    for (socket, listen, transport, sentence) in [
        (bound(), "127.0.0.1:0", "tcp", "the TCP socket 1 that was passed does not listen"),
        (udp(), "127.0.0.2:80", "sctp-udp", "no UDP socket for 127.0.0.2 was passed"),
        (udp(), "127.0.0.1:80;udp=9", "sctp-udp", "that was passed is not what the options say"),
        (tcp(), "127.0.0.1:80", "sctp-udp", "the socket 1 that was passed is not a UDP socket"),
        (udp(), "127.0.0.1:80", "tcp", "the socket 1 that was passed is not a TCP socket"),
    ] {
        let serve = ["serve", ".", "--listen", listen, "--transport", transport];
        let output: Output = passed(socket, &serve, &site).output().unwrap();
        common::Ended::from(output).failed_with(1, sentence);
    }
}

/// The answer of the server at this address.
fn ask(address: &str, request: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    // A connection may be reset if it was not read to its end.
    let _ = stream.read_to_string(&mut answer);
    answer
}

#[test]
fn all_addresses_of_ipv6_are_those_of_ipv4_as_well() {
    let site = Site::new(&[1000]);
    let has_ipv6 = TcpListener::bind("[::1]:0").is_ok();
    let hosts = if has_ipv6 { &["127.0.0.1", "[::1]"][..] } else { &["127.0.0.1"] };
    let mut tcp = Server::start(&["--listen", "[::]:0", "--transport", "tcp"], &site.path());
    let sctp = Server::start(&["--listen", "[::]:80", "--udp-port", "0"], &site.path());
    for host in hosts {
        site.get(&format!("http://{host}:{}", tcp.port()), &["--json"]).json();
        let request = loop {
            let line = tcp.line();
            if line["event"] == "request" {
                break line;
            }
        };
        let peer = request["peer"].as_str().unwrap();
        assert!(peer.starts_with(host), "{peer}");
        site.get(&format!("sctp://{host}:80;udp={}", sctp.udp_port()), &["--json"]).json();
    }
}

#[test]
fn a_server_over_tcp_alone_has_metrics() {
    let site = Site::new(&[1000]);
    let free = format!("127.0.0.1:{}", anabranch_ports::free_tcp_port());
    let listen = ["--listen", "127.0.0.1:0", "--transport", "tcp", "--metrics", &free];
    let server = Server::start(&listen, &site.path());
    site.get(&format!("http://127.0.0.1:{}", server.port()), &["--json"]).json();
    let sample = loop {
        let answer = ask(&free, "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n");
        assert!(answer.starts_with("HTTP/1.1 200 OK"), "{answer}");
        let mut lines = answer.lines().map(str::to_owned);
        if let Some(line) = lines.find(|line| line.starts_with("anabranch_http_requests_total{")) {
            break line;
        }
    };
    assert!(sample.ends_with(",method=\"GET\",code=\"200\"} 1"), "{sample}");
}

#[test]
fn metrics_are_there_for_prometheus() {
    let site = Site::new(&[100_000]);
    let free = format!("127.0.0.1:{}", anabranch_ports::free_tcp_port());
    let listen = ["--listen", "127.0.0.1:80", "--udp-port", "0", "--metrics", &free];
    let server = Server::start(&listen, &site.path());
    site.get(&format!("sctp://127.0.0.1:80;udp={}", server.udp_port()), &["--json"]).json();
    let ask_for_metrics = || ask(&free, "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n");
    // The association has ended for the client, and soon for the server.
    let answer = loop {
        let answer = ask_for_metrics();
        if answer.contains("anabranch_associations_ended_total") && !answer.contains("ended_total{")
        {
            panic!("no sample: {answer}");
        }
        let ended =
            answer.lines().find(|line| line.starts_with("anabranch_associations_ended_total{"));
        if ended.is_some_and(|line| line.ends_with(" 1")) {
            break answer;
        }
    };
    let (head, text) = answer.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.1 200 OK") && head.contains("version=0.0.4"), "{head}");
    let sent = text.lines().find(|line| line.starts_with("anabranch_datagrams_sent_total{"));
    let sent: f64 = sent.unwrap().rsplit_once(' ').unwrap().1.parse().unwrap();
    assert!(sent > 60.0, "{text}");
    // The association is still counted after its end, but has no series of its own.
    let value = |name: &str| -> f64 {
        let line = text
            .lines()
            .find(|line| line.starts_with(name))
            .unwrap_or_else(|| panic!("{name}: {text}"));
        line.rsplit_once(' ').unwrap().1.parse().unwrap()
    };
    assert_eq!(value("anabranch_associations{"), 0.0);
    assert_eq!(value("anabranch_associations_accepted_total{"), 1.0);
    assert!(value("anabranch_bytes_sent_total{") > 100_000.0);
    assert!(text.contains(",method=\"GET\",code=\"200\"} 1\n"), "{text}");
    assert!(text.contains(",method=\"GET\",code=\"200\"} 100000\n"), "{text}");
    assert!(!text.contains("association="), "{text}");
    let rebound = ask(&free, "GET /metrics HTTP/1.1\r\nHost: evil.example\r\n\r\n");
    assert!(rebound.starts_with("HTTP/1.1 421 "), "{rebound}");
    assert!(ask(&free, "GET /x HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n").starts_with("HTTP/1.1 404 "));
    // An endless request.
    assert_eq!(ask(&free, &"x".repeat(9000)), "");
    let taken = ["serve", ".", "--listen", "127.0.0.1:81", "--udp-port", "0", "--metrics", &free];
    run(&taken, &site.path()).failed_with(1, &format!("--metrics {free}: Address already in use"));
    assert_eq!(server.interrupt(), Some(0));
}
