//! `get -r` fetches the files below a server's directory, and nothing else.

#![cfg(unix)]

mod common;

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use common::{Ended, Server, Site, content, names, run, scripted, send};

/// All files below a directory, by their paths.
fn files(directory: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut found = Vec::new();
    let mut open = vec![directory.to_owned()];
    while let Some(next) = open.pop() {
        for entry in fs::read_dir(next).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() && !path.is_symlink() {
                open.push(path);
            } else {
                let content = fs::read(&path).unwrap();
                found.push((path.strip_prefix(directory).unwrap().to_owned(), content));
            }
        }
    }
    found.sort();
    found
}

fn day(days: u64) -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(1_400_000_000 + days * 86_400)
}

fn set_day(path: &Path, days: u64) {
    fs::File::options().write(true).open(path).unwrap().set_modified(day(days)).unwrap();
}

/// A tree with names that need care.
fn tree() -> Site {
    let site = Site::new(&[]);
    let top = site.path().join("pub");
    fs::create_dir_all(top.join("a b/ü/deep")).unwrap();
    fs::create_dir_all(top.join("page")).unwrap();
    fs::create_dir_all(top.join("empty")).unwrap();
    fs::create_dir_all(site.path().join("public")).unwrap();
    for (number, name) in
        ["a b/50%.bin", "a b/ü/x?y#z", "a b/ü/deep/%2e%2e", "a b/12:30", "top & <b>", "quote'\""]
            .into_iter()
            .enumerate()
    {
        let path = top.join(name);
        fs::write(&path, content(number as u64, 1000 + number * 70_000)).unwrap();
        set_day(&path, 1);
    }
    fs::write(site.path().join("secret"), "above").unwrap();
    fs::write(site.path().join("public/no"), "next to it").unwrap();
    let page = "<a href=hidden.bin>x</a><a href=../../secret>s</a><a href=/public/no>n</a>\
                <img src='i.png'><a href=?sort=up>s</a><a href=other.html>o</a>";
    fs::write(top.join("page/index.html"), page).unwrap();
    fs::write(top.join("page/other.html"), "<a href=last.txt>l</a>").unwrap();
    for name in ["hidden.bin", "i.png", "last.txt"] {
        fs::write(top.join("page").join(name), name).unwrap();
    }
    site
}

fn get(url: &str, site: &Site, options: &[&str]) -> Ended {
    run(&[&["get", "-r", url, "--out", "out"], options].concat(), &site.copy())
}

#[test]
fn a_tree_comes_as_it_is() {
    let site = tree();
    let server = Server::start(&["--listen", "127.0.0.1:8080", "--udp-port", "0"], &site.path());
    let (udp, port) = (server.udp_port(), server.port());
    let expected = files(&site.path().join("pub"));
    assert_eq!(expected.len(), 11);
    let url = format!("sctp://127.0.0.1:{port};udp={udp}/pub/");
    let report = get(&url, &site, &["--json"]).json();
    assert_eq!(files(&site.copy().join("out")), expected);
    assert_eq!(report["files"].as_array().unwrap().len(), 11, "{report}");
    let modified = fs::metadata(site.copy().join("out/a b/12:30")).unwrap().modified().unwrap();
    assert_eq!(modified, day(1));
    // On repetition, no file is new.
    let ended = get(&url, &site, &["--retry", "1", "--limit-rate", "800Mb/s"]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert!(ended.stdout.contains("11 files not newer at the server"), "{}", ended.stdout);
    assert!(ended.stdout.starts_with("0 files, 0 bytes"), "{}", ended.stdout);
}

#[test]
fn what_changed_is_fetched_and_what_is_newer_here_stays() {
    let site = tree();
    let server = Server::start(&["--listen", "127.0.0.1:0", "--transport", "tcp"], &site.path());
    let url = format!("http://127.0.0.1:{}/pub/", server.port());
    assert_eq!(get(&url, &site, &["-q"]).code, Some(0));
    let (there, here) = (site.path().join("pub"), site.copy().join("out"));
    fs::write(there.join("a b/12:30"), "changed there").unwrap();
    set_day(&there.join("a b/12:30"), 2);
    fs::write(here.join("top & <b>"), "changed here").unwrap();
    fs::write(there.join("page/index.html"), "<a href=new>n</a>").unwrap();
    fs::write(there.join("page/new"), "new").unwrap();
    fs::remove_file(here.join("page/i.png")).unwrap();
    // HTTP dates have whole seconds, so make the local copy clearly older.
    set_day(&here.join("page/index.html"), 1);
    let report = get(&url, &site, &["--json"]).json();
    let all = report["files"].as_array().unwrap();
    let changed: Vec<_> = all.iter().filter(|file| file["unchanged"] == false).collect();
    assert_eq!(changed.len(), 3, "{changed:?}");
    assert_eq!(fs::read(here.join("a b/12:30")).unwrap(), b"changed there");
    assert_eq!(fs::read(here.join("top & <b>")).unwrap(), b"changed here");
    assert_eq!(fs::read(here.join("page/index.html")).unwrap(), b"<a href=new>n</a>");
    assert_eq!(fs::read(here.join("page/new")).unwrap(), b"new");
}

#[test]
fn directories_that_contain_themselves_end() {
    let site = Site::new(&[]);
    fs::create_dir(site.path().join("d")).unwrap();
    fs::write(site.path().join("d/file"), "text").unwrap();
    symlink("../d", site.path().join("d/loop")).unwrap();
    symlink("nowhere", site.path().join("d/dangling")).unwrap();
    let server = Server::start(&["--listen", "127.0.0.1:0", "--transport", "tcp"], &site.path());
    let url = format!("http://127.0.0.1:{}/d/", server.port());
    let ended = get(&url, &site, &["--depth", "3"]);
    assert_eq!(ended.code, Some(1), "{}", ended.stderr);
    assert!(ended.stderr.contains("not followed: 1 link below --depth 3"), "{}", ended.stderr);
    assert!(site.copy().join("out/loop/loop/loop/file").exists());
    let ended = get(&url, &site, &["--max-files", "2", "-q"]);
    assert!(ended.stderr.contains("beyond --max-files 2"), "{}", ended.stderr);
    assert_eq!(ended.code, Some(1));
}

#[test]
fn a_hostile_listing_reaches_nothing_else() {
    let elsewhere = scripted(|request, _, _| panic!("{request}"));
    let other = elsewhere.clone();
    let asked = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
    let noted = std::sync::Arc::clone(&asked);
    let address = scripted(move |request, _, stream| {
        let target = request.split(' ').nth(1).unwrap().to_owned();
        noted.lock().unwrap().push(target.clone());
        let listing = format!(
            "<title>Index of /t</title><a href=../>up</a><a href=/etc/passwd>e</a><a href=%2e%2e/x>x</a>\
             <a href=..%2f..%2fx>x</a><a href=a%2f..%2f..%2fx>x</a><a href='a%5c..%5cb'>x</a><a href=%00>x</a>\
             <a href=.bashrc>x</a><a href=%2eprofile>x</a><a href=//{other}/t/x>x</a>\
             <a href=http://{other}/t/y>y</a><a href=x?q=1>q</a><a href=x.part>p</a><a href=link/x>l</a>\
             <a href=link>l</a><a href=mine>m</a><a href=moved>m</a><a href=away>m</a><a href=up>m</a>\
             <a href=good>g</a><a href=gone>g</a><a href=file/>f</a><a href=file>f</a><a href=%ff>f</a>\
             <a href={}>long</a><a href=javascript:1>j</a><a href=sub>s</a>",
            "n".repeat(300)
        );
        let moved =
            |to: &str| format!("HTTP/1.1 302 Found\r\nlocation: {to}\r\ncontent-length: 0\r\n\r\n");
        let ok = |body: &str| {
            let length = body.len();
            format!("HTTP/1.1 200 OK\r\ncontent-length: {length}\r\n\r\n{body}")
        };
        let answer = match target.as_str() {
            "/t/" => ok(&listing),
            "/t/moved" => moved("/t/good"),
            "/t/away" => moved(&format!("http://{other}/t/away")),
            "/t/up" => moved("/etc/passwd"),
            "/t/gone" => "HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n".to_owned(),
            "/t/sub" => moved("/t/sub/"),
            "/t/sub/" => {
                ok("<title>Index of /t/sub</title><a href=x>x</a><a href=../../../x>x</a>")
            }
            _ => ok(&format!("bad {target}")),
        };
        send(stream, &[answer.as_bytes()]);
    });
    let site = Site::new(&[]);
    let here = site.copy();
    fs::create_dir(here.join("outside")).unwrap();
    fs::create_dir(here.join("out")).unwrap();
    symlink("../outside", here.join("out/link")).unwrap();
    fs::write(here.join("out/mine"), "mine").unwrap();
    let ended = get(&format!("http://{address}/t/"), &site, &["-q"]);
    assert_eq!(ended.code, Some(1));
    let out: Vec<_> = files_but_links(&here.join("out"));
    let names_of: Vec<_> = out.iter().map(|(path, _)| path.to_str().unwrap()).collect();
    assert_eq!(names_of, ["file", "good", "mine", "sub/x"], "{}", ended.stderr);
    assert_eq!(fs::read(here.join("out/mine")).unwrap(), b"mine");
    assert!(names(&here.join("outside")).is_empty());
    assert_eq!(names(&here), ["out", "outside"]);
    let asked = asked.lock().unwrap().clone();
    let outside = asked.iter().find(|target| !target.starts_with("/t/") || target.contains(".."));
    assert_eq!(outside, None);
    let said = ended.stderr.split_whitespace().collect::<Vec<_>>().join(" ");
    for (target, why) in [
        ("/t/%2e%2e/x", "leads out of the directory, is hidden, or is not a file name"),
        ("/t/.bashrc", "leads out of the directory, is hidden"),
        ("/t/%ff", "is not a file name"),
        ("/t/x.part", "for files that are not whole yet"),
        ("/t/link/x", "cannot be made"),
        ("/t/link", "is a link"),
        ("/t/mine", "is there already"),
        ("/t/away", "not below the directory, and not followed"),
        ("/t/up", "not below the directory, and not followed"),
        ("/t/gone", "404"),
    ] {
        let of = said.split("anabranch: ").find(|said| said.contains(&format!("{target}: ")));
        assert!(of.is_some_and(|of| of.contains(why)), "{target}: {said}");
    }
}

fn files_but_links(directory: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    fs::remove_file(directory.join("link")).unwrap();
    files(directory)
}

#[test]
fn bytes_without_end_are_bounded() {
    let address = scripted(|request, _, stream| {
        let head = b"HTTP/1.1 200 OK\r\n\r\n<title>Index of /</title><a href=big>x</a>";
        send(stream, &[head]);
        if request.starts_with("get /big ") {
            while std::io::Write::write_all(stream, &[b'x'; 65_536]).is_ok() {}
        }
    });
    let site = Site::new(&[]);
    let url = format!("http://{address}/");
    let ended = get(&url, &site, &["--max-total", "2MB", "-q"]);
    assert_eq!(ended.code, Some(1));
    assert!(ended.stderr.contains("all files together are longer"), "{}", ended.stderr);
    assert!(names(&site.copy().join("out")).is_empty());
}

#[test]
fn a_tree_begins_at_a_directory() {
    let site = Site::new(&[]);
    get("http://127.0.0.1:1/x", &site, &[]).failed_with(2, "does not end with '/'");
    get("http://127.0.0.1:1/x/?y=/", &site, &[]).failed_with(2, "does not end with '/'");
    let two = run(&["get", "-r", "http://127.0.0.1:1/", "http://127.0.0.1:1/x/"], &site.copy());
    two.failed_with(2, "give one URL");
    let depth = run(&["get", "--depth", "3", "http://127.0.0.1:1/x"], &site.copy());
    assert_eq!(depth.code, Some(2), "{}", depth.stderr);
}
