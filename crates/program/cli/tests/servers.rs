//! Servers continue: whatever a client, a log or a signal does, the others are served.
#![cfg(unix)]

mod common;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use common::{Server, Site, anabranch, run};

const REQUEST: &str = "GET /file%200.bin HTTP/1.1\r\nhost: localhost\r\n\r\n";
const TCP: [&str; 6] = ["serve", ".", "--listen", "127.0.0.1:0", "--transport", "tcp"];

/// A server whose output is read up to the line that says where it listens, and not after that.
struct Unread {
    child: Child,
    _lines: Box<dyn BufRead>,
    address: SocketAddr,
}

impl Unread {
    fn start(arguments: &[&str], site: &Site) -> Self {
        let mut command = anabranch(&[&TCP[..], arguments].concat(), &site.path());
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        lines.read_line(&mut line).unwrap();
        let address =
            line.trim_end().trim_end_matches('/').rsplit_once('/').unwrap().1.parse().unwrap();
        Self { child, _lines: Box::new(lines), address }
    }

    fn signal(&self, signal: &str) {
        let id = self.child.id().to_string();
        assert!(Command::new("kill").args([signal, &id]).status().unwrap().success());
    }

    /// Sends a signal repeatedly until the program ends. Returns its exit code.
    fn end_by(&mut self, signal: &str) -> Option<i32> {
        loop {
            self.signal(signal);
            std::thread::sleep(Duration::from_millis(100));
            if let Some(status) = self.child.try_wait().unwrap() {
                return status.code();
            }
        }
    }
}

impl Drop for Unread {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn connect(address: impl std::net::ToSocketAddrs) -> TcpStream {
    let stream = TcpStream::connect(address).unwrap();
    // Makes the test fail if the server hangs.
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    stream
}

/// Sends this many requests without waiting, and counts the answers.
fn pipeline(address: impl std::net::ToSocketAddrs, requests: usize) -> usize {
    let mut stream = connect(address);
    let mut writer = stream.try_clone().unwrap();
    let writing = std::thread::spawn(move || {
        writer.write_all(REQUEST.repeat(requests - 1).as_bytes()).unwrap();
        let last = REQUEST.replace("host:", "connection: close\r\nhost:");
        writer.write_all(last.as_bytes()).unwrap();
    });
    let mut answers = Vec::new();
    stream.read_to_end(&mut answers).unwrap();
    writing.join().unwrap();
    String::from_utf8_lossy(&answers).matches("HTTP/1.1 200 OK\r\n").count()
}

#[test]
fn a_log_that_nobody_reads_stops_nobody() {
    let site = Site::new(&[2]);
    std::fs::write(site.path().join("file 0.bin"), "ok").unwrap();
    let mut server = Unread::start(&[], &site);
    // The lines about them exceed the capacity of the pipe and the queue.
    for _ in 0..10 {
        assert_eq!(pipeline(server.address, 2000), 2000);
    }
    server.signal("-TERM");
    assert_eq!(server.child.wait().unwrap().code(), Some(0));
    let mut said = String::new();
    server.child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    assert!(
        said.contains("standard output was not read: ") && said.contains(" lines are lost"),
        "{said}"
    );
}

#[test]
fn a_second_signal_ends_a_server_whose_log_nobody_reads() {
    let site = Site::new(&[30_000_000]);
    let mut server = Unread::start(&["--grace", "1h"], &site);
    let mut slow = connect(server.address);
    slow.write_all(REQUEST.as_bytes()).unwrap();
    slow.read_exact(&mut [0; 1000]).unwrap();
    // The output about them exceeds the capacity of the pipe.
    let other = REQUEST.replace("GET", "HEAD").repeat(2000);
    let mut many = connect(server.address);
    many.write_all(other.as_bytes()).unwrap();
    many.read_exact(&mut [0; 100_000]).unwrap();
    assert_eq!(server.end_by("-INT"), Some(130), "the first signal waits for the answer");
}

#[test]
fn answers_that_are_under_way_are_completed() {
    let site = Site::new(&[30_000_000]);
    let mut server = Unread::start(&["--grace", "1h"], &site);
    let mut slow = connect(server.address);
    slow.write_all(REQUEST.repeat(2).as_bytes()).unwrap();
    slow.read_exact(&mut [0; 1000]).unwrap();
    let _idle = connect(server.address);
    server.signal("-TERM");
    // It accepts no more connections.
    while TcpStream::connect(server.address).is_ok() {
        std::thread::sleep(Duration::from_millis(10));
    }
    let mut rest = Vec::new();
    slow.read_to_end(&mut rest).unwrap();
    assert!(
        rest.len() > 29_999_000 && rest.len() < 30_001_000,
        "one answer, whole: {}",
        rest.len()
    );
    assert_eq!(server.child.wait().unwrap().code(), Some(0));
}

#[test]
fn a_hang_up_opens_the_log_again() {
    let site = Site::new(&[10]);
    let (log, old) = (site.copy().join("log"), site.copy().join("log.1"));
    let server = Unread::start(&["--log", log.to_str().unwrap()], &site);
    let lines = |path: &std::path::Path, count: usize| loop {
        let text = std::fs::read_to_string(path).unwrap_or_default();
        if text.lines().count() >= count {
            break text;
        }
        std::thread::sleep(Duration::from_millis(10));
    };
    assert_eq!(pipeline(server.address, 3), 3);
    lines(&log, 3);
    std::fs::rename(&log, &old).unwrap();
    server.signal("-HUP");
    while !log.exists() {
        std::thread::sleep(Duration::from_millis(10));
    }
    assert_eq!(pipeline(server.address, 2), 2);
    let text = lines(&log, 2);
    assert!(text.lines().all(|line| line.ends_with(" GET /file%200.bin 200 10")), "{text}");
    assert_eq!(lines(&old, 3).lines().count(), 3);
}

#[test]
fn each_refused_request_is_in_the_log() {
    let site = Site::new(&[10]);
    let mut server = Server::of(anabranch(
        &[&TCP[..], &["--json", "--header-timeout", "1s", "--max-head", "1Ki"]].concat(),
        &site.path(),
    ));
    let address = format!("127.0.0.1:{}", server.port());
    let long = format!("GET / HTTP/1.1\r\nx: {}\r\n\r\n", "x".repeat(5000));
    for (request, status, target) in [
        ("nonsense\r\n\r\n", 400, "-"),
        ("GET /a HTTP/1.1\r\nhost: a b/../c@x:99999999\r\n\r\n", 400, "/a"),
        (&long, 431, "-"),
        ("GET / HTTP/1.1\r\nhost:", 408, "-"),
        ("POST / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n", 405, "/"),
    ] {
        let mut stream = connect(&address);
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        // A connection may be reset if it was not read to its end.
        let _ = stream.read_to_string(&mut answer);
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")) || status == 431, "{answer}");
        let line = loop {
            let line = server.line();
            if line["event"] == "request" {
                break line;
            }
        };
        assert_eq!((&line["status"], &line["target"]), (&status.into(), &target.into()), "{line}");
    }
}

/// One address holds all connections, each with an answer: a new one is answered immediately.
#[test]
fn idle_connections_are_ended_for_new_ones() {
    let site = Site::new(&[12]);
    let serve = anabranch(&[&TCP[..], &["--json"]].concat(), &site.path());
    let mut limited = Command::new("sh");
    limited.args(["-c", "ulimit -n 256; exec \"$0\" \"$@\""]);
    limited.arg(serve.get_program()).args(serve.get_args()).current_dir(site.path());
    let server = Server::of(limited);
    let address = format!("127.0.0.1:{}", server.port());
    let mut held = Vec::new();
    for number in 0..200 {
        let mut stream = connect(&address);
        stream.write_all(REQUEST.as_bytes()).unwrap();
        let mut status = [0; 15];
        stream.read_exact(&mut status).unwrap();
        assert_eq!(&status, b"HTTP/1.1 200 OK", "connection {number}");
        held.push(stream);
        assert_eq!(pipeline(&address, 1), 1, "an honest client after {number}");
    }
    assert_eq!(server.interrupt(), Some(0));
}

/// An answer that is already in the send buffer is delivered, even if the connection is closed to make
/// room for another one.
#[test]
fn an_ended_connection_has_its_answers() {
    let site = Site::new(&[40_000]);
    let serve = anabranch(&[&TCP[..], &["--json"]].concat(), &site.path());
    let mut limited = Command::new("sh");
    limited.args(["-c", "ulimit -n 128; exec \"$0\" \"$@\""]);
    limited.arg(serve.get_program()).args(serve.get_args()).current_dir(site.path());
    let server = Server::of(limited);
    let address = format!("127.0.0.1:{}", server.port());
    let mut slow = connect(&address);
    slow.write_all(REQUEST.as_bytes()).unwrap();
    slow.read_exact(&mut [0; 15]).unwrap();
    let mut others = Vec::new();
    for _ in 0..100 {
        let mut other = connect(&address);
        other.write_all(REQUEST.as_bytes()).unwrap();
        other.read_exact(&mut [0; 15]).unwrap();
        others.push(other);
    }
    let mut rest = Vec::new();
    slow.read_to_end(&mut rest).unwrap();
    assert!(rest.len() > 40_000, "{} bytes came", rest.len());
}

#[test]
fn an_endpoint_that_hangs_hides_no_other() {
    let site = Site::new(&[]);
    let base = tempfile::tempdir().unwrap();
    let echo = || {
        let mut echo = anabranch(
            &["echo", "--listen", "127.0.0.1:7", "--udp-port", "0", "--json"],
            &site.path(),
        );
        echo.env("XDG_RUNTIME_DIR", base.path());
        Server::of(echo)
    };
    let (hanging, running) = (echo(), echo());
    let sockets: Vec<_> =
        std::fs::read_dir(base.path().join("anabranch")).unwrap().flatten().collect();
    let port = hanging.udp_port();
    let name = sockets.iter().find_map(|entry| {
        let name = entry.file_name().into_string().unwrap();
        name.strip_suffix(&format!("-{port}.sock")).map(str::to_owned)
    });
    let process = name.unwrap();
    let signal = |signal: &str| {
        assert!(Command::new("kill").args([signal, process.as_str()]).status().unwrap().success());
    };
    signal("-STOP");
    let mut inspect = anabranch(&["inspect", "--once", "--json"], &site.path());
    let seen = inspect.env("XDG_RUNTIME_DIR", base.path()).output().unwrap();
    signal("-CONT");
    let seen = common::Ended::from(seen);
    let ports = seen.stdout.lines().map(|line| {
        let view: serde_json::Value = serde_json::from_str(line).unwrap();
        view["udp_port"].to_string()
    });
    let ports: Vec<_> = ports.collect();
    assert_eq!((ports, seen.code), (vec![running.udp_port()], Some(0)), "{}", seen.stderr);
    assert!(seen.stderr.contains("no answer within 2 s"), "{}", seen.stderr);
}

#[test]
fn a_control_socket_that_talks_rubbish_is_named() {
    let base = tempfile::tempdir().unwrap();
    for answer in ["rubbish\n", "{\"process\":1}\n", "\u{1b}]0;x\u{7}\n"] {
        let path = base.path().join("sock");
        let listener = std::os::unix::net::UnixListener::bind(&path).unwrap();
        let answering = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let _ = stream.read(&mut [0; 100]);
            stream.write_all(answer.as_bytes()).unwrap();
        });
        let seen = run(&["inspect", "--once", "--control", path.to_str().unwrap()], base.path());
        answering.join().unwrap();
        seen.failed_with(1, "this is not the answer of an endpoint");
        assert!(!seen.stderr.contains('\u{1b}'), "{:?}", seen.stderr);
        std::fs::remove_file(&path).unwrap();
    }
}

#[test]
fn silent_connections_do_not_keep_metrics_away() {
    let site = Site::new(&[]);
    let free = format!("127.0.0.1:{}", anabranch_ports::free_tcp_port());
    let listen = ["--listen", "127.0.0.1:80", "--udp-port", "0", "--metrics", &free];
    let _server = Server::start(&listen, &site.path());
    let _silent: Vec<_> = (0..100).map(|_| connect(&free)).collect();
    let mut stream = connect(&free);
    stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.contains("anabranch_associations_accepted_total{"), "{answer}");
}
