//! `get --page`, between two processes.

mod common;

use std::fs;
use std::path::Path;
use std::process::Stdio;

use common::{Ended, Server, Site, anabranch, run};
use serde_json::Value;

/// A site with a document, two pictures, a style sheet, a missing picture and one on another
/// server.
fn site() -> Site {
    let site = Site::new(&[]);
    let demo = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/demo/page");
    fs::create_dir(site.path().join("pictures")).unwrap();
    for picture in ["1.jpg", "2.jpg"] {
        fs::copy(demo.join(picture), site.path().join("pictures").join(picture)).unwrap();
    }
    fs::write(site.path().join("style.css"), "body { color: red }").unwrap();
    let document = "<!doctype html><link rel=stylesheet href=style.css><img src='pictures/1.jpg'>\
        <img src=/pictures/2.jpg><img src=missing.png><img src=../../outside.png>\
        <img src=http://192.0.2.1/elsewhere.png>";
    fs::write(site.path().join("index.html"), document).unwrap();
    site
}

fn targets(report: &Value) -> Vec<(&str, Option<u64>)> {
    let objects = report["objects"].as_array().unwrap().iter();
    objects.map(|o| (o["target"].as_str().unwrap(), o["status"].as_u64())).collect()
}

fn look(site: &Site, url: &str, options: &[&str]) {
    let here = site.copy();
    let ended = run(&[&["get", "--page", url][..], options].concat(), &here);
    // A missing object is a failure, but does not affect the others.
    assert_eq!(ended.code, Some(1), "{}", ended.stderr);
    assert!(ended.stderr.contains("/missing.png: the server answered 404"), "{}", ended.stderr);
    assert!(ended.stdout.starts_with("4 of 6 files, "), "{}", ended.stdout);
    assert!(ended.stdout.contains("elsewhere: 1 object"), "{}", ended.stdout);

    let options = [&["--json", "--out", "kept", "--filmstrip", "film"][..], options].concat();
    let ended = run(&[&["get", "--page", url][..], &options].concat(), &here);
    let report: Value = serde_json::from_str(&ended.stdout).unwrap();
    assert_eq!(
        targets(&report),
        [
            ("/style.css", Some(200)),
            ("/pictures/1.jpg", Some(200)),
            ("/pictures/2.jpg", Some(200)),
            ("/missing.png", Some(404)),
            ("/outside.png", Some(404)),
        ]
    );
    assert_eq!(report["page_s"], Value::Null);
    for name in ["index.html", "style.css", "pictures/1.jpg", "pictures/2.jpg"] {
        let (kept, there) = (here.join("kept").join(name), site.path().join(name));
        assert_eq!(fs::read(kept).unwrap(), fs::read(there).unwrap(), "{name}");
    }
    assert!(!here.join("kept/missing.png").exists());
    let frames = report["filmstrip"].as_array().unwrap();
    let last = frames.last().unwrap();
    assert_eq!((&last["shown"], &last["complete"]), (&2.into(), &2.into()), "{last}");
    assert!(here.join("film/index.html").exists());
}

#[test]
fn a_page_comes_with_what_it_embeds() {
    let site = site();
    let directory = site.path();
    let server = Server::start(&["--listen", "127.0.0.1:80", "--udp-port", "0"], &directory);
    let url = format!("sctp://127.0.0.1:80;udp={}/index.html", server.udp_port());
    look(&site, &url, &[]);
    look(&site, &url, &["--streams", "1", "--one-by-one"]);
    let tcp = Server::start(&["--listen", "127.0.0.1:0", "--transport", "tcp"], &directory);
    let url = format!("http://127.0.0.1:{}/index.html", tcp.port());
    look(&site, &url, &[]);
    look(&site, &url, &["--connections", "6", "--one-by-one"]);
}

#[test]
fn a_page_that_is_not_there_is_a_failure() {
    let site = site();
    let server = Server::start(&["--listen", "127.0.0.1:80", "--udp-port", "0"], &site.path());
    let url = format!("sctp://127.0.0.1:80;udp={}/none.html", server.udp_port());
    let ended = run(&["get", "--page", &url], &site.copy());
    assert_eq!(ended.code, Some(1));
    assert!(ended.stderr.contains("the server answered 404"), "{}", ended.stderr);
}

#[test]
fn a_page_goes_on_with_a_server_that_comes_back() {
    let site = Site::new(&[]);
    let large: Vec<u8> = (0..4_000_000_u32).map(|at| (at / 1000 + at) as u8).collect();
    fs::write(site.path().join("large.jpg"), &large).unwrap();
    fs::write(site.path().join("small.png"), "small").unwrap();
    let document = "<img src=small.png><img src=large.jpg>";
    fs::write(site.path().join("index.html"), document).unwrap();
    let slow = site.path().parent().unwrap().join("slow.toml");
    fs::write(&slow, "[[path]]\nrate_mbit = 20\nqueue_packets = 100").unwrap();
    let mut server = Server::start(&["--listen", "127.0.0.1:80", "--udp-port", "0"], &site.path());
    let udp_port = server.udp_port();
    let url = format!("sctp://127.0.0.1:80;udp={udp_port}/index.html");
    let options = ["--impair", slow.to_str().unwrap(), "--retry", "3", "--out", "kept", "--json"];
    let child = anabranch(&[&["get", "--page", &url][..], &options].concat(), &site.copy())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // A client that has the small one also has the document, and has requested the large one.
    while server.line()["target"] != "/small.png" {}
    drop(server);
    let listen = format!("127.0.0.1:80;udp={udp_port}");
    let _server = Server::start(&["--listen", &listen], &site.path());
    let ended: Ended = child.wait_with_output().unwrap().into();
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    let report = ended.json();
    assert_eq!((&report["connections"], &report["bytes"]), (&2.into(), &4_000_043.into()));
    assert!(fs::read(site.copy().join("kept/large.jpg")).unwrap() == large);
}
