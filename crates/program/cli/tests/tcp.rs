//! Files over TCP, between two processes.

mod common;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Stdio;

use common::{Server, Site, anabranch, interrupt};

const TCP: [&str; 2] = ["--transport", "tcp"];

fn serve(site: &Site, listen: &str) -> Server {
    Server::start(&[&["--listen", listen][..], &TCP].concat(), &site.path())
}

#[test]
fn many_files_of_all_sizes() {
    let site = Site::new(&[0, 1, 10_000_000, 65_536, 65_537, 300_000, 17, 4096]);
    let mut server = serve(&site, "127.0.0.1,127.0.0.2:0");
    let base = format!("http://127.0.0.1:{}", server.port());
    let report = site.get(&base, &["--json", "--streams", "3"]).json();
    site.assert_copied();
    assert_eq!(report["files"].as_array().unwrap().len(), 8);
    assert_eq!(
        report["bytes"],
        [0, 1, 10_000_000, 65_536, 65_537, 300_000, 17, 4096].iter().sum::<u64>()
    );
    let connection = &report["connections"][0];
    assert_eq!(connection["transport"], "tcp");
    assert_eq!(connection["streams"].as_array().unwrap().len(), 3);
    assert_eq!(connection["paths"][0]["remote"], "127.0.0.1");
    // Each stream is a connection to the server.
    let requests: u64 =
        (0..3).map(|_| server.event()["streams"][0]["transactions"].as_u64().unwrap()).sum();
    assert_eq!(requests, 8);
    // The server also answers at its other address.
    let base = format!("http://127.0.0.2:{}", server.port());
    let ended = site.get(&base, &["--paths"]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert!(ended.stdout.contains("8 files, "), "{}", ended.stdout);
    assert!(ended.stdout.contains("-> 127.0.0.2"), "{}", ended.stdout);
    assert_eq!(server.interrupt(), Some(0));
}

#[test]
fn ipv6_and_the_first_address_that_answers() {
    let site = Site::new(&[5000]);
    let server = serve(&site, "[::1]:0");
    let base = format!("http://127.0.0.1,[::1]:{}", server.port());
    let report = site.get(&base, &["--json"]).json();
    site.assert_copied();
    assert_eq!(report["connections"][0]["paths"][0]["remote"], "::1");
}

/// A server that accepts the connection and stays silent, and one that stops in the middle.
#[test]
fn a_silent_server_is_not_waited_for_for_ever() {
    let site = Site::new(&[10]);
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let base = format!("http://{}", listener.local_addr().unwrap());
    // It accepts for as long as the test runs: on a busy machine a client may have to connect
    // again.
    std::thread::spawn(move || {
        let mut held = Vec::new();
        for (count, connection) in listener.incoming().enumerate() {
            let Ok(mut connection) = connection else { return };
            // Wait for the request: an answer before it would be a different error.
            let half = b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nabc";
            let asked = connection.read(&mut [0; 4096]).is_ok_and(|read| read > 0);
            if !asked || count > 0 && connection.write_all(half).is_err() {
                continue;
            }
            held.push(connection);
        }
    });
    for _ in 0..2 {
        let ended = site.get(&base, &["--timeout", "300ms", "-q"]);
        ended.failed_with(1, "nothing came from the server for 300ms");
    }
}

#[test]
fn a_missing_file_fails_and_the_others_arrive() {
    let mut site = Site::new(&[100, 200]);
    let server = serve(&site, "127.0.0.1:0");
    site.names.push("missing".to_owned());
    let ended = site.get(&format!("http://127.0.0.1:{}", server.port()), &["-q"]);
    ended.failed_with(1, "/missing: the server answered 404 Not Found");
    site.names.pop();
    site.assert_copied();
    assert_eq!(ended.stdout, "");
}

#[test]
fn head_ranges_and_refused_methods() {
    let site = Site::new(&[1000]);
    let server = serve(&site, "127.0.0.1:0");
    let ask = |request: &str| {
        let mut stream = TcpStream::connect(format!("127.0.0.1:{}", server.port())).unwrap();
        let request = format!("{request}host: x\r\nconnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        String::from_utf8_lossy(&answer).into_owned()
    };
    let head = ask("HEAD /file%200.bin HTTP/1.1\r\n");
    assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{head}");
    assert!(head.contains("content-length: 1000\r\n") && head.ends_with("\r\n\r\n"), "{head}");
    let part = ask("GET /file%200.bin HTTP/1.1\r\nrange: bytes=990-\r\n");
    assert!(part.starts_with("HTTP/1.1 206 "), "{part}");
    assert!(part.contains("content-range: bytes 990-999/1000\r\n"), "{part}");
    assert!(ask("DELETE /file%200.bin HTTP/1.1\r\n").starts_with("HTTP/1.1 405 "));
    assert!(ask("GET /../site/file%200.bin HTTP/1.1\r\n").starts_with("HTTP/1.1 404 "));
    assert!(ask("nonsense\r\n").starts_with("HTTP/1.1 400 "));
    assert!(ask("GET / HTTP/1.1\r\n").contains("file 0.bin"));
}

#[test]
fn an_interrupted_fetch_leaves_nothing() {
    let site = Site::new(&[]);
    // A server that never finishes its answer.
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/x", listener.local_addr().unwrap());
    let child = anabranch(&["get", &url, "-q"], &site.copy())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let (mut stream, _) = listener.accept().unwrap();
    let mut request = [0; 1000];
    assert!(stream.read(&mut request).unwrap() > 0);
    stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 1000000\r\n\r\nhalf").unwrap();
    // The temporary file shows that the answer has started.
    while std::fs::read_dir(site.copy()).unwrap().next().is_none() {
        std::thread::yield_now();
    }
    interrupt(&child);
    let ended: common::Ended = child.wait_with_output().unwrap().into();
    ended.failed_with(130, "interrupted");
    site.assert_copies(0);
}

/// Silent connections occupy descriptors that files need.
#[cfg(unix)]
#[test]
fn idle_connections_leave_files_their_descriptors() {
    let site = Site::new(&[5000]);
    let serve = anabranch(&["serve", ".", "--listen", "127.0.0.1:0", "--json"], &site.path());
    let mut limited = std::process::Command::new("sh");
    limited.args(["-c", "ulimit -n 80; exec \"$0\" \"$@\" --transport tcp"]);
    limited.arg(serve.get_program()).args(serve.get_args()).current_dir(site.path());
    let server = Server::of(limited);
    let address = format!("127.0.0.1:{}", server.port());
    let idle: Vec<_> = (0..60).map(|_| TcpStream::connect(&address).unwrap()).collect();
    for _ in 0..3 {
        site.get(&format!("http://{address}"), &["--json"]).json();
        site.assert_copied();
    }
    // The first ones have been closed.
    let closed = (&idle[0]).read(&mut [0; 1]);
    assert!(!matches!(closed, Ok(1..)), "{closed:?}");
    drop(idle);
    assert_eq!(server.interrupt(), Some(0));
}
