//! What `get` does with files: whole ones, parts, links, devices and redirects.

#![cfg(unix)]

mod common;

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Stdio;
use std::sync::{Arc, Mutex};
use std::time::{Duration, UNIX_EPOCH};

use common::{Ended, Server, Site, anabranch, content, names, run, scripted, send};

/// The first byte of a range request.
fn range(request: &str) -> Option<usize> {
    let (_, rest) = request.split_once("\r\nrange: bytes=")?;
    rest.split_once('-')?.0.parse().ok()
}

/// Sends a file whose parts all differ, from the requested byte up to byte `stop`, and then nothing more while
/// the client waits.
fn send_file(request: &str, body: &[u8], stop: usize, stream: &mut TcpStream) {
    let from = range(request).unwrap_or(0);
    let (length, last, all) = (body.len() - from, body.len() - 1, body.len());
    let head = match from {
        0 => format!("HTTP/1.1 200 OK\r\netag: \"a:1\"\r\ncontent-length: {length}\r\n\r\n"),
        _ => format!(
            "HTTP/1.1 206 Partial Content\r\netag: \"a:1\"\r\ncontent-length: {length}\r\n\
             content-range: bytes {from}-{last}/{all}\r\n\r\n"
        ),
    };
    send(stream, &[head.as_bytes(), &body[from.min(stop)..stop]]);
    if stop < body.len() {
        let _ = stream.read(&mut [0; 1]);
    }
}

#[test]
fn a_killed_fetch_is_continued_and_two_never_mix() {
    let here = tempfile::tempdir().unwrap();
    let body = content(7, 4_000_000);
    let ranges = Arc::new(Mutex::new(Vec::new()));
    let (noted, whole) = (Arc::clone(&ranges), body.clone());
    // Each request gets a little more and then nothing, until the last one gets everything.
    let address = scripted(move |request, _, stream| {
        let number = {
            let mut noted = noted.lock().unwrap();
            noted.push(range(request));
            noted.len() - 1
        };
        let stop = if number < 8 { (number + 1) * 400_000 } else { whole.len() };
        send_file(request, &whole, stop, stream);
    });
    let url = format!("http://{address}/big");
    let part = here.path().join("big.part");
    for round in 0..8_u64 {
        let mut child = anabranch(&["get", "-c", "-q", &url], here.path())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        // The writer thread may still hold less than a batch.
        let enough = round * 400_000 + 100_000;
        let asked = || ranges.lock().unwrap().len() as u64 > round;
        while !asked() || fs::metadata(&part).map_or(0, |found| found.len()) < enough {
            std::thread::yield_now();
        }
        if round == 3 {
            // It sends no request, and changes nothing.
            let busy = run(&["get", "-c", "-q", &url], here.path());
            busy.failed_with(1, "another process is fetching");
        }
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(names(here.path()), ["big.part", "big.part-info"]);
    }
    let report = run(&["get", "-c", "--json", &url], here.path()).json();
    assert!(report["files"][0]["resumed_bytes"].as_u64().unwrap() > 2_900_000, "{report}");
    assert!(fs::read(here.path().join("big")).unwrap() == body);
    assert_eq!(names(here.path()), ["big"]);
    let ranges = ranges.lock().unwrap().clone();
    assert_eq!(ranges.len(), 9, "{ranges:?}");
    assert!(ranges[0].is_none() && ranges[1..].iter().all(Option::is_some), "{ranges:?}");
}

#[test]
fn another_file_of_the_same_name_is_fetched_from_the_start() {
    let here = tempfile::tempdir().unwrap();
    let body = content(8, 900_000);
    let whole = body.clone();
    let address = scripted(move |request, number, stream| match number {
        0 => send(
            stream,
            &[b"HTTP/1.1 200 OK\r\netag: \"1\"\r\ncontent-length: 900000\r\n\r\n", &[1; 600_000]],
        ),
        // This server ignores If-Range.
        1 => {
            assert!(range(request).is_some());
            let head = "HTTP/1.1 206 Partial\r\netag: \"2\"\r\ncontent-length: 300000\r\n\
                        content-range: bytes 600000-899999/900000\r\n\r\n";
            send(stream, &[head.as_bytes(), &whole[600_000..]]);
        }
        _ => send_file(request, &whole, whole.len(), stream),
    });
    let url = format!("http://{address}/f");
    let ended = run(&["get", &url, "-q"], here.path());
    assert_eq!(ended.code, Some(1));
    assert!(ended.stderr.contains("600,000 bytes of 1 file are kept"), "{}", ended.stderr);
    let ended = run(&["get", &url, "-c"], here.path());
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert!(ended.stderr.contains("fetching it from the start"), "{}", ended.stderr);
    assert!(fs::read(here.path().join("f")).unwrap() == body);
    assert_eq!(names(here.path()), ["f"]);
}

#[test]
fn a_broken_fetch_says_that_nothing_is_kept() {
    let here = tempfile::tempdir().unwrap();
    let address = scripted(|_, _, stream| {
        send(stream, &[b"HTTP/1.1 200 OK\r\netag: W/\"1\"\r\ncontent-length: 9\r\n\r\n1234"]);
    });
    let ended = run(&["get", &format!("http://{address}/f")], here.path());
    assert_eq!(ended.code, Some(1));
    let said = ended.stderr.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(said.contains("nothing of it is kept, since the server gives no strong"), "{said}");
    assert!(names(here.path()).is_empty());
}

fn site() -> (Site, Server, String) {
    let site = Site::new(&[1000]);
    let options = ["--listen", "127.0.0.1:0", "--transport", "tcp"];
    let server = Server::start(&options, &site.path());
    let url = format!("http://127.0.0.1:{}", server.port());
    (site, server, url)
}

#[test]
fn links_descriptors_and_pipes_are_written_to() {
    let (site, _server, url) = site();
    let (here, url) = (site.copy(), format!("{url}/file%200.bin"));
    let body = fs::read(site.path().join("file 0.bin")).unwrap();
    fs::create_dir(here.join("far")).unwrap();
    fs::write(here.join("far/target"), "old").unwrap();
    symlink("far/target", here.join("link")).unwrap();
    symlink("far/new", here.join("dangling")).unwrap();
    for (link, target) in [("link", "far/target"), ("dangling", "far/new")] {
        let ended = run(&["get", &url, "-q", "-o", link], &here);
        assert_eq!(ended.code, Some(0), "{}", ended.stderr);
        assert!(here.join(link).is_symlink(), "{link}");
        assert!(fs::read(here.join(target)).unwrap() == body, "{link}");
    }
    // Standard output under its other names, which is a file with earlier content.
    for name in ["/dev/stdout", "/dev/fd/1", "/proc/self/fd/1", "out-link"] {
        let _ = symlink("/dev/stdout", here.join("out-link"));
        let out = fs::File::create(here.join("out")).unwrap();
        (&out).write_all(b"before ").unwrap();
        let status = anabranch(&["get", &url, "-o", name], &here)
            .stdout(out)
            .stderr(Stdio::null())
            .status()
            .unwrap();
        assert!(status.success(), "{name}");
        let written = fs::read(here.join("out")).unwrap();
        assert!(written == [b"before ", &body[..]].concat(), "{name}: {} bytes", written.len());
        assert!(Path::new("/dev/stdout").is_symlink());
    }
    assert!(here.join("out-link").is_symlink());
}

#[test]
fn directories_are_made_only_when_they_may_be() {
    let (site, _server, url) = site();
    let (here, url) = (site.copy(), format!("{url}/file%200.bin"));
    let ended = run(&["get", &url, "-q", "-o", "no/dir/x"], &here);
    ended.failed_with(1, "-o: there is no directory no/dir for no/dir/x; --create-dirs makes it");
    assert!(names(&here).is_empty());
    let ended = run(&["get", &url, "-q", "-o", "no/dir/x", "--create-dirs"], &here);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert!(here.join("no/dir/x").is_file());
    fs::write(here.join("slow.toml"), "[[path]]\ndelay = \"1 ms\"\n").unwrap();
    let sctp = "sctp://127.0.0.1:1/x";
    let ended = run(&["get", sctp, "-o", "slow.toml", "--impair", "slow.toml"], &here);
    ended.failed_with(2, "--output would overwrite slow.toml, which is to be read");
    let ended = run(&["get", sctp, "--capture", "nowhere/x.pcapng"], &here);
    ended.failed_with(1, "--capture: there is no directory nowhere");
}

#[test]
fn a_file_says_its_name_and_keeps_its_time() {
    let (site, _server, url) = site();
    let there = site.path().join("file 0.bin");
    let day = UNIX_EPOCH + Duration::from_secs(1_445_412_480);
    fs::File::options().write(true).open(&there).unwrap().set_modified(day).unwrap();
    let here = site.copy();
    let modified = || fs::metadata(here.join("file 0.bin")).unwrap().modified().unwrap();
    let url = format!("{url}/file%200.bin");
    let ended = run(&["get", &url], &here);
    assert!(ended.stdout.contains("saved as file 0.bin\n"), "{}", ended.stdout);
    assert_eq!(modified(), day);
    let ended = run(&["get", &url, "--no-mtime"], &here);
    assert!(ended.stdout.contains("saved as file 0.bin, in place of an older one\n"));
    assert_ne!(modified(), day);
}

#[test]
fn redirects_are_followed_within_bounds() {
    let other = scripted(|request, _, stream| {
        assert!(request.starts_with("get /there "), "{request}");
        send(stream, &[b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nthere"]);
    });
    let to = other.clone();
    let address = scripted(move |request, _, stream| {
        let target = request.split(' ').nth(1).unwrap();
        let location = match target {
            "/here" => "moved".to_owned(),
            "/moved" => format!("http://{to}/there"),
            "/circle" => "/back".to_owned(),
            "/back" => "circle".to_owned(),
            "/tls" => "https://127.0.0.1/x".to_owned(),
            "/odd" => "\u{7}ftp://x".to_owned(),
            number => format!("/{}", number[1..].parse::<u32>().unwrap() + 1),
        };
        let head =
            format!("HTTP/1.1 302 Found\r\nlocation: {location}\r\ncontent-length: 0\r\n\r\n");
        send(stream, &[head.as_bytes()]);
    });
    let here = tempfile::tempdir().unwrap();
    let get = |target: &str, options: &[&str]| -> Ended {
        let url = format!("http://{address}{target}");
        run(&[&["get", &url, "-q"][..], options].concat(), here.path())
    };
    let report = get("/here", &["--json"]).json();
    assert_eq!(report["files"][0]["redirected_to"], format!("http://{other}/there"));
    assert_eq!(fs::read(here.path().join("here")).unwrap(), b"there");
    get("/circle", &[]).failed_with(1, "the redirects lead in a circle, back to ");
    get("/1", &[]).failed_with(1, "one redirect more than the 10 allowed");
    get("/1", &["--max-redirects", "2"]).failed_with(1, "one redirect more than the 2 allowed");
    get("/here", &["--max-redirects", "0"]).failed_with(1, "302 Found");
    get("/tls", &[]).failed_with(1, "https://127.0.0.1:443/x can only be fetched with --page");
    let odd = get("/odd", &[]);
    assert_eq!(odd.code, Some(1));
    assert!(!odd.stderr.contains('\u{7}'), "{:?}", odd.stderr);
    assert_eq!(names(here.path()), ["here"]);
    // A directory URL without its slash, on our own server.
    let (site, _server, url) = site();
    fs::create_dir(site.path().join("dir")).unwrap();
    let ended = run(&["get", &format!("{url}/dir")], &site.copy());
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert!(ended.stdout.contains(&format!("redirected to {url}/dir/")), "{}", ended.stdout);
    assert!(site.copy().join("dir").is_file());
}

#[test]
fn a_page_replaces_nothing_and_stays_below_its_directory() {
    let (site, _server, url) = site();
    let there = site.path();
    for directory in [".well-known", "link", "a"] {
        fs::create_dir(there.join(directory)).unwrap();
    }
    for (name, text) in
        [(".well-known/keys", "bad"), ("link/x", "bad"), ("mine", "bad"), ("good", "ok")]
    {
        fs::write(there.join(name), text).unwrap();
    }
    fs::write(there.join("a/b"), "b").unwrap();
    let long = "y".repeat(250);
    fs::write(there.join(&long), "long").unwrap();
    let document = format!(
        "<img src=.well-known/keys><img src=link/x><img src=mine><img src=a/b><img src=good?a>\
         <img src={long}?query><img src=good>"
    );
    fs::write(there.join("index.html"), document).unwrap();
    let here = site.copy();
    fs::create_dir(here.join("outside")).unwrap();
    fs::create_dir(here.join("out")).unwrap();
    fs::write(here.join("out/mine"), "mine").unwrap();
    // A file with the name of a directory in the page.
    fs::write(here.join("out/a"), "a").unwrap();
    symlink("../outside", here.join("out/link")).unwrap();
    let ended = run(&["get", "--page", &format!("{url}/"), "--out", "out"], &here);
    assert_eq!(ended.code, Some(1), "{}", ended.stderr);
    for target in ["/.well-known/keys", "/link/x", "/mine", "/a/b", &format!("/{long}?query")] {
        let said = ended.stderr.replace('\n', " ");
        assert!(said.contains(&format!("{target} is not kept")), "{target}: {said}");
    }
    assert!(ended.stdout.starts_with("8 files"), "the report comes all the same: {}", ended.stdout);
    let kept = names(&here.join("out"));
    assert_eq!(kept.len(), 6, "{kept:?}");
    assert_eq!(fs::read(here.join("out/mine")).unwrap(), b"mine");
    assert_eq!(fs::read(here.join("out/good")).unwrap(), b"ok");
    assert!(names(&here.join("outside")).is_empty());
}

#[test]
fn objects_beyond_the_most_are_not_called_elsewhere() {
    let here = tempfile::tempdir().unwrap();
    let document: String = (0..1500).map(|n| format!("<img src={n}.png>")).collect();
    let address = scripted(move |request, _, stream| {
        let body = if request.starts_with("get / ") { document.as_bytes() } else { b"x" };
        let head = format!(
            "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: {}\r\n\r\n",
            body.len()
        );
        send(stream, &[head.as_bytes(), body]);
    });
    let options = ["--connections", "8", "--one-by-one"];
    let url = format!("http://{address}/");
    let ended = run(&[&["get", "--page", &url][..], &options].concat(), here.path());
    let said = ended.stdout.replace('\n', " ");
    assert!(said.contains("a page may have at most 1,000 objects: 500 objects"), "{said}");
    assert!(!said.contains("elsewhere"), "{said}");
}

#[test]
fn multipath_of_a_download_is_the_servers() {
    let here = tempfile::tempdir().unwrap();
    let url = "sctp://127.0.0.1:9/x";
    let options = ["--multipath", "cmt-pf", "--connect-timeout", "10ms"];
    let ended = run(&[&["get", url][..], &options].concat(), here.path());
    let said = ended.stderr.replace('\n', " ");
    assert!(said.contains("changes nothing about a download"), "{said}");
}
