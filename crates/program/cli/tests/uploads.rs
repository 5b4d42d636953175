//! `serve --upload` and `put`.

#![cfg(unix)]

mod common;

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::Stdio;

use common::{Ended, Server, Site, anabranch, content, names, run, scripted, send};

/// A server over SCTP and TCP that accepts files of up to 2 MB, and the URLs of both.
fn server(site: &Site, options: &[&str]) -> (Server, String, String) {
    let listen = ["--listen", "127.0.0.1:8080", "--tcp", "127.0.0.1:0", "--udp-port", "0"];
    let mut server = Server::start(&[&listen[..], options].concat(), &site.path());
    let second = server.line();
    let mut urls = [server.listening.clone(), second].map(|line| {
        let listen = line["listen"].as_str().unwrap().to_owned();
        match line["transport"].as_str().unwrap() {
            "tcp" => format!("http://{listen}"),
            _ => format!("sctp://{listen};udp={}", line["udp_port"]),
        }
    });
    urls.sort();
    let [tcp, sctp] = urls;
    (server, sctp, tcp)
}

fn put(arguments: &[&str], directory: &Path) -> Ended {
    run(&[&["put"], arguments].concat(), directory)
}

/// The method and the status of the next request that the server logs.
fn request(server: &mut Server) -> (String, u64) {
    loop {
        let line = server.line();
        if line["event"] == "request" {
            let method = line["method"].as_str().unwrap().to_owned();
            return (method, line["status"].as_u64().unwrap());
        }
    }
}

#[test]
fn files_are_sent_over_both_transports() {
    let site = Site::new(&[]);
    let here = site.copy();
    let (mut server, sctp, tcp) = server(&site, &["--upload", "."]);
    fs::create_dir(site.path().join("in")).unwrap();
    let mut sizes = vec![];
    for (number, size) in [0, 1, 300_000, 1_500_000].into_iter().enumerate() {
        let name = format!("{number} ü%.bin");
        fs::write(here.join(&name), content(number as u64, size)).unwrap();
        sizes.push(name);
    }
    for base in [&sctp, &tcp] {
        let directory = format!("{base}/in/");
        let all: Vec<_> = sizes.iter().map(String::as_str).chain([directory.as_str()]).collect();
        let report = put(&[&all[..], &["--json"]].concat(), &here).json();
        assert_eq!(report["bytes"], 1_800_001, "{report}");
        for name in &sizes {
            let sent = fs::read(site.path().join("in").join(name)).unwrap();
            assert!(sent == fs::read(here.join(name)).unwrap(), "{base}: {name}");
        }
        assert_eq!(request(&mut server).0, "PUT");
    }
    assert_eq!(names(&site.path().join("in")).len(), 4);
    // The same again: files are replaced, or not.
    let url = format!("{tcp}/in/x");
    assert_eq!(put(&[&sizes[1], &url], &here).code, Some(0));
    let again = put(&[&sizes[1], &url, "--json"], &here).json();
    assert_eq!(again["files"][0]["replaced"], true);
    let new = put(&[&sizes[2], &url, "--new", "-q"], &here);
    new.failed_with(1, "412 Precondition Failed: it has a file of this name already");
    assert_eq!(fs::read(site.path().join("in/x")).unwrap().len(), 1);
    assert_eq!(server.interrupt(), Some(0));
}

#[test]
fn standard_input_is_sent_up_to_its_end() {
    let site = Site::new(&[]);
    let (_server, sctp, tcp) = server(&site, &["--upload", ".", "--max-upload", "2MB"]);
    let body = content(3, 1_200_000);
    for (base, name) in [(&sctp, "a"), (&tcp, "b")] {
        let url = format!("{base}/{name}");
        let mut command = anabranch(&["put", "-", &url, "--limit-rate", "800Mb/s"], &site.copy());
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        child.stdin.take().unwrap().write_all(&body).unwrap();
        let output: Ended = child.wait_with_output().unwrap().into();
        assert_eq!(output.code, Some(0));
        assert!(
            output.stdout.starts_with("1 file, 1,200,000 bytes confirmed"),
            "{}",
            output.stdout
        );
        assert!(fs::read(site.path().join(name)).unwrap() == body, "{base}");
    }
    put(&["-", &format!("{tcp}/"), "-q"], &site.copy()).failed_with(2, "- has no name for the");
}

#[test]
fn what_is_not_taken_is_said_and_leaves_nothing() {
    let site = Site::new(&[]);
    let here = site.copy();
    let (_server, sctp, tcp) = server(&site, &["--upload", ".", "--max-upload", "1MB"]);
    fs::write(here.join("long"), content(1, 1_000_001)).unwrap();
    fs::write(here.join("f"), "text").unwrap();
    fs::create_dir(site.path().join("dir")).unwrap();
    fs::write(site.path().join("long"), "before").unwrap();
    for base in [&sctp, &tcp] {
        for (file, target, why) in [
            ("long", "/long", "413 Payload Too Large: the file is too long for it"),
            ("f", "/none/f", "409 Conflict: the directory is missing there"),
            ("f", "/dir", "409 Conflict"),
            ("f", "/.f", "403 Forbidden: it does not accept a file of this name"),
            ("f", "/../f", "403 Forbidden"),
            ("none", "/x", "none cannot be read: No such file"),
            ("/", "/x", "/ cannot be read"),
        ] {
            put(&[file, &format!("{base}{target}"), "-q"], &here).failed_with(1, why);
        }
        // The length is not known in advance.
        let mut command = anabranch(&["put", "-", &format!("{base}/long"), "-q"], &here);
        let stdin = fs::File::open(here.join("long")).unwrap();
        let ended: Ended = command.stdin(stdin).output().unwrap().into();
        ended.failed_with(1, "413 Payload Too Large");
        // A failed upload does not stop the others.
        let ended = put(&["long", "f", &format!("{base}/dir/"), "-q"], &here);
        ended.failed_with(1, "long: the server answered 413");
        assert_eq!(fs::read(site.path().join("dir/f")).unwrap(), b"text");
        assert_eq!(names(&site.path().join("dir")), ["f"]);
    }
    assert_eq!(names(&site.path()), ["dir", "long"]);
    assert_eq!(fs::read(site.path().join("long")).unwrap(), b"before");
}

#[test]
fn without_a_directory_for_them_none_are_taken() {
    let site = Site::new(&[]);
    let (mut server, sctp, tcp) = server(&site, &[]);
    fs::write(site.copy().join("f"), "text").unwrap();
    for base in [&sctp, &tcp] {
        let ended = put(&["f", &format!("{base}/f"), "-q"], &site.copy());
        ended.failed_with(1, "it accepts no files; 'anabranch serve' does with --upload");
        assert_eq!(request(&mut server), ("PUT".to_owned(), 405));
    }
    assert!(names(&site.path()).is_empty());
    let missing =
        run(&["serve", ".", "--listen", "127.0.0.1:8080", "--upload", "no"], &site.path());
    missing.failed_with(1, "--upload: there is no directory no");
    let alone = ["serve", ".", "--listen", "127.0.0.1:0", "--max-upload", "1"];
    assert_eq!(run(&alone, &site.path()).code, Some(2));
}

/// The answer of a server to these bytes, up to the end of the connection.
fn raw(url: &str, parts: &[&[u8]], half: bool) -> String {
    let mut stream = TcpStream::connect(url.strip_prefix("http://").unwrap()).unwrap();
    for part in parts {
        let _ = stream.write_all(part);
    }
    if half {
        stream.shutdown(std::net::Shutdown::Write).unwrap();
    }
    let mut answer = String::new();
    let _ = stream.read_to_string(&mut answer);
    answer
}

#[test]
fn uploads_are_whole_or_not_there() {
    let site = Site::new(&[]);
    let (mut server, _sctp, tcp) = server(&site, &["--upload", ".", "--max-upload", "1MB"]);
    let head = "PUT /f HTTP/1.1\r\nhost: h\r\nconnection: close\r\n";
    let of = |fields: &str| format!("{head}{fields}\r\n\r\n").into_bytes();
    let whole = raw(&tcp, &[&of("content-length: 4"), b"text"], false);
    assert!(whole.starts_with("HTTP/1.1 201 Created\r\n") && whole.contains("etag: \""), "{whole}");
    assert_eq!(request(&mut server), ("PUT".to_owned(), 201));
    for (fields, body) in [
        ("content-length: 9", &b"half"[..]),
        ("transfer-encoding: chunked", b"4\r\nhalf\r\n"),
        ("transfer-encoding: chunked", b"4\r\nhalf\r\nzz\r\n"),
        ("transfer-encoding: chunked", b"9\r\nhalf"),
    ] {
        let answer = raw(&tcp, &[&of(fields), body], true);
        assert!(!answer.contains("HTTP/1.1 2"), "{fields}: {answer}");
        assert_eq!(request(&mut server).0, "PUT", "each is in the log");
    }
    let chunked = raw(&tcp, &[&of("transfer-encoding: chunked"), b"3\r\nnew\r\n0\r\n\r\n"], false);
    assert!(chunked.starts_with("HTTP/1.1 204 No Content\r\n"), "{chunked}");
    assert_eq!(fs::read(site.path().join("f")).unwrap(), b"new");
    // The client asks first, and gets an answer.
    let asks = raw(&tcp, &[&of("content-length: 9000000\r\nexpect: 100-continue")], true);
    assert!(asks.starts_with("HTTP/1.1 413 "), "{asks}");
    let asks = raw(&tcp, &[&of("content-length: 2\r\nexpect: 100-continue"), b"ok"], false);
    assert!(asks.starts_with("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 204 "), "{asks}");
    let other = raw(&tcp, &[b"DELETE /f HTTP/1.1\r\nhost: h\r\nconnection: close\r\n\r\n"], false);
    assert!(other.contains("allow: GET, HEAD, PUT\r\n"), "{other}");
    assert_eq!(names(&site.path()), ["f"]);
    // Files left behind by a killed server are removed by the next one.
    let mut stream = TcpStream::connect(tcp.strip_prefix("http://").unwrap()).unwrap();
    stream.write_all(&of("content-length: 900000")).unwrap();
    stream.write_all(&[1; 400_000]).unwrap();
    while names(&site.path()).len() < 2 {
        std::thread::yield_now();
    }
    drop(server);
    assert_eq!(names(&site.path()).len(), 2);
    let tcp = ["--listen", "127.0.0.1:0", "--transport", "tcp", "--upload", "."];
    let _next = Server::start(&tcp, &site.path());
    while names(&site.path()).len() > 1 {
        std::thread::yield_now();
    }
    assert_eq!(fs::read(site.path().join("f")).unwrap(), b"ok");
}

#[test]
fn a_file_is_sent_again_until_the_server_has_it() {
    let site = Site::new(&[]);
    fs::write(site.copy().join("f"), "text").unwrap();
    let address = scripted(|request, number, stream| {
        assert!(request.starts_with("put /f "), "{request}");
        match number {
            0 => send(stream, &[b"HTTP/1.1 503 Busy\r\ncontent-length: 0\r\n\r\n"]),
            // The server goes away in the middle of the file.
            1 => {
                send(stream, &[b"HTTP/1.1 100 Continue\r\n\r\n"]);
                let _ = stream.read(&mut [0; 1]);
            }
            // The server confirms the file before it has received it.
            _ => send(stream, &[b"HTTP/1.1 201 Created\r\ncontent-length: 0\r\n\r\n"]),
        }
    });
    let url = format!("http://{address}/f");
    let ended = put(&["f", &url, "--retry", "2"], &site.copy());
    assert_eq!(ended.code, Some(1), "{}", ended.stderr);
    assert!(ended.stderr.contains("503 Busy") || ended.stderr.contains("503 Service"));
    assert!(ended.stderr.contains("before all of the file was sent"), "{}", ended.stderr);
    assert!(ended.stdout.starts_with("0 of 1 file, 0 bytes confirmed"), "{}", ended.stdout);
    put(&["f", "g", &url], &site.copy()).failed_with(2, "does not end with '/'");
    put(&["f", "https://127.0.0.1/f"], &site.copy()).failed_with(2, "use http or sctp");
}
