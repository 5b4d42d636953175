//! `serve --sealed --private` and `perf server --sealed --private`: admitting users and locking them out.
#![cfg(unix)]

mod common;

use std::path::Path;
use std::thread::sleep;
use std::time::Duration;

use common::{Ended, Server, Site, anabranch, run};

const QUICKLY: [&str; 2] = ["--connect-timeout", "2s"];

/// A site with one file, a directory for keys, and a private server for it.
fn private(more: &[&str]) -> (Site, tempfile::TempDir, Server) {
    let (site, keys) = (Site::new(&[300_000]), tempfile::tempdir().unwrap());
    let server = serve(&site, keys.path(), more);
    (site, keys, server)
}

fn serve(site: &Site, keys: &Path, more: &[&str]) -> Server {
    let key = keys.join("serve.key");
    let sealed = ["--sealed", "--private", "--key", key.to_str().unwrap()];
    let listen = ["--listen", "127.0.0.1:8080", "--udp-port", "0"];
    Server::start(&[&listen[..], &sealed, more].concat(), &site.path())
}

/// Fetches the file from here with the key in this file, and removes the copy.
fn get(site: &Site, base: &str, key: &Path, options: &[&str]) -> Ended {
    let key = ["--key", key.to_str().unwrap()];
    let ended = site.get(base, &[&key[..], options].concat());
    if ended.code == Some(0) {
        site.assert_copied();
        std::fs::remove_file(site.copy().join("file 0.bin")).unwrap();
    }
    ended
}

fn line(server: &Server) -> String {
    server.listening["invitation"].as_str().unwrap().to_owned()
}

/// The beginning of URLs for this server, with its key.
fn base(server: &Server) -> String {
    let key = server.listening["key"].as_str().unwrap();
    format!("sctp://127.0.0.1:8080;udp={};key={key}", server.udp_port())
}

/// The line that the server prints when it is asked for another one.
fn another_line(server: &mut Server) -> String {
    server.signal("USR1");
    loop {
        let printed = server.line();
        if printed["event"] == "invitation" {
            return printed["invitation"].as_str().unwrap().to_owned();
        }
    }
}

#[test]
fn a_private_server_admits_whoever_has_a_line_and_no_one_else() {
    let (site, keys, mut server) = private(&[]);
    let [one, other] = ["one.key", "other.key"].map(|name| keys.path().join(name));
    let (first, url) = (line(&server), base(&server));
    let nobody = ["--sealed", "--known-servers", "known"];
    site.get(&url, &QUICKLY).failed_with(1, "knows the key in --key if it is a private one");
    let bare = url.split(";key=").next().unwrap();
    site.get(bare, &nobody).failed_with(1, "no sealed server answers");
    // The line works as often as its first user likes, and so does the key afterwards.
    for base in [&first, &first, &url] {
        let fetched = get(&site, base, &one, &[]);
        assert_eq!(fetched.code, Some(0), "{base}: {}", fetched.stderr);
    }
    get(&site, &first, &other, &QUICKLY).failed_with(1, "that nobody else has used this line");
    let second = another_line(&mut server);
    assert_ne!(first, second);
    let fetched = get(&site, &second, &other, &[]);
    assert_eq!(fetched.code, Some(0), "{}", fetched.stderr);
    let users = std::fs::read_to_string(keys.path().join("serve.users")).unwrap();
    assert_eq!(users.lines().count(), 2, "{users}");
    assert_eq!(server.interrupt(), Some(0));
    // Users are known after a restart, too.
    let server = serve(&site, keys.path(), &[]);
    assert_eq!(get(&site, &base(&server), &other, &[]).code, Some(0));
    assert_eq!(server.interrupt(), Some(0));
}

#[test]
fn a_user_who_is_removed_is_locked_out_while_connected() {
    let (site, keys, server) = private(&["--upload", "."]);
    let key = keys.path().join("one.key");
    let file = site.path().join("file 0.bin");
    let put = |name: &str, more: &[&str]| {
        let to = format!("{}/{name}", base(&server));
        let all = ["put", file.to_str().unwrap(), &to, "--key", key.to_str().unwrap()];
        run(&[&all[..], more].concat(), &site.copy())
    };
    put("a.bin", &QUICKLY).failed_with(1, "private one");
    assert_eq!(get(&site, &line(&server), &key, &[]).code, Some(0));
    assert_eq!(put("a.bin", &[]).code, Some(0));
    // A download that takes seconds is under way when its user is removed.
    let all = ["get", &format!("{}/a.bin", base(&server)), "--output", "a.bin"];
    std::fs::write(site.copy().join("slow.toml"), "[[path]]\nrate_kbit = 400\n").unwrap();
    let more = ["--key", key.to_str().unwrap(), "--impair", "slow.toml"];
    let mut slow = anabranch(&[&all[..], &more].concat(), &site.copy()).spawn().unwrap();
    sleep(Duration::from_secs(1));
    std::fs::write(keys.path().join("serve.users"), "# nobody\n").unwrap();
    assert_eq!(slow.wait().unwrap().code(), Some(1));
    put("b.bin", &QUICKLY).failed_with(1, "private one");
    assert!(site.path().join("a.bin").exists() && !site.path().join("b.bin").exists());
}

#[test]
fn the_key_of_a_client_is_kept_for_private_servers_only() {
    let (site, home) = (Site::new(&[1000]), tempfile::tempdir().unwrap());
    let key = home.path().join("serve.key");
    let options = ["--listen", "127.0.0.1:5201", "--udp-port", "0", "--sealed", "--key"];
    let options = [&options[..], &[key.to_str().unwrap()]].concat();
    let kept = home.path().join("anabranch/client.key");
    for (private, lines) in [(false, 1), (true, 2)] {
        let more = private.then_some("--private");
        let options: Vec<_> = options.iter().copied().chain(more).collect();
        let server = Server::start_command(&["perf", "server"], &options, &site.path());
        for _ in 0..lines {
            let arguments = ["perf", "client", &line(&server), "--bytes", "100k"];
            let mut client = anabranch(&arguments, &site.path());
            let ended = client.env("XDG_CONFIG_HOME", home.path()).output().unwrap();
            assert!(ended.status.success(), "{ended:?}");
        }
        assert_eq!(kept.exists(), private);
        assert_eq!(server.interrupt(), Some(0));
    }
}

#[test]
fn what_makes_no_sense_for_a_private_server_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let serve = ["serve", ".", "--listen", "127.0.0.1:8080"];
    run(&[&serve[..], &["--private"]].concat(), folder.path()).failed_with(2, "--sealed");
    let get = ["get", "sctp://127.0.0.1:8080/a", "--key", "k"];
    run(&get, folder.path()).failed_with(2, "--key is for --sealed");
    let sealed = ["--sealed", "--private", "--key", "s.key"];
    let private = [&serve[..], &sealed].concat();
    for (users, code, part) in
        [("* rate=1Mb/s\n", 2, "gateway far"), ("anbk:x\n", 1, "s.users, line 1")]
    {
        std::fs::write(folder.path().join("s.users"), users).unwrap();
        run(&private, folder.path()).failed_with(code, part);
    }
}
