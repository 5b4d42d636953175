//! `serve --sealed` with `get` and `put`: keys that are named, known or new, and both sides without the seal.
#![cfg(unix)]

mod common;

use std::net::{SocketAddr, UdpSocket};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use common::{Ended, Server, Site, run};

/// Starts a sealed server with the key in this file, on this UDP port.
fn serve(site: &Site, key: &Path, udp_port: &str, more: &[&str]) -> Server {
    let key = key.to_str().unwrap();
    let arguments = ["--listen", "127.0.0.1:8080", "--sealed", "--key", key];
    Server::start(&[&arguments[..], &["--udp-port", udp_port], more].concat(), &site.path())
}

/// A site with one file, a directory for keys, and a server.
fn sealed(more: &[&str]) -> (Site, tempfile::TempDir, Server) {
    let (site, keys) = (Site::new(&[3_000_000]), tempfile::tempdir().unwrap());
    let server = serve(&site, &keys.path().join("serve.key"), "0", more);
    (site, keys, server)
}

/// `get` of the file, with the file of known servers in this directory.
fn get(site: &Site, base: &str, known: &Path, options: &[&str]) -> Ended {
    let known = known.join("known");
    let known = ["--known-servers", known.to_str().unwrap()];
    site.get(base, &[&["--continue", "--connect-timeout", "30s"], &known[..], options].concat())
}

/// The beginning of URLs for this server.
fn base(server: &Server) -> String {
    format!("sctp://127.0.0.1:8080;udp={}", server.udp_port())
}

fn key(server: &Server) -> String {
    server.listening["key"].as_str().unwrap().to_owned()
}

#[test]
fn the_key_is_in_the_url_in_the_line_or_trusted_the_first_time() {
    let (site, keys, mut server) = sealed(&[]);
    let with_key = format!("{};key={}", base(&server), key(&server));
    let line = server.listening["invitation"].as_str().unwrap().to_owned();
    assert!(line.starts_with("anb1:") && line.ends_with(":8080"), "{line}");
    let uplinks = ["--sealed", "--uplink", "127.0.0.2,127.0.0.3"];
    for (base, options, sentence) in [
        (with_key.clone(), &[][..], false),
        (line, &[], false),
        (base(&server), &["--sealed"], true),
        (base(&server), &["--sealed"], false),
        (base(&server), &uplinks, false),
    ] {
        let fetched = get(&site, &base, keys.path(), options);
        assert_eq!(fetched.code, Some(0), "{base}: {}", fetched.stderr);
        site.assert_copied();
        std::fs::remove_file(site.copy().join("file 0.bin")).unwrap();
        let said = fetched.stderr.contains("is trusted with the key");
        assert_eq!(said, sentence, "{base}: {}", fetched.stderr);
        assert_eq!(fetched.stderr.contains(&key(&server)), sentence, "{}", fetched.stderr);
    }
    let known = keys.path().join("known");
    let text = std::fs::read_to_string(&known).unwrap();
    assert_eq!(text, format!("127.0.0.1:{} {}\n", server.udp_port(), key(&server)));
    for file in [known, keys.path().join("serve.key")] {
        assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    }
    // The log has the real address.
    let request = server.line();
    assert_eq!(request["event"], "request");
    assert!(request["peer"].as_str().unwrap().starts_with("127.0.0.1:"), "{request}");
    assert_eq!(server.interrupt(), Some(0));
}

/// Each client belongs to one of them, with both of its uplinks.
#[cfg(target_os = "linux")]
#[test]
fn a_sealed_server_may_have_several_shards() {
    let (site, keys, server) = sealed(&["--shards", "3", "--busy-poll", "1ms"]);
    for number in 0..8 {
        let uplinks = ["--sealed", "--uplink", "127.0.0.2,127.0.0.3"];
        let fetched = get(&site, &base(&server), keys.path(), &uplinks);
        assert_eq!(fetched.code, Some(0), "{number}: {}", fetched.stderr);
        site.assert_copied();
        std::fs::remove_file(site.copy().join("file 0.bin")).unwrap();
    }
    assert_eq!(server.interrupt(), Some(0));
}

#[test]
fn a_measurement_is_sealed_on_both_sides_or_on_none() {
    let keys = tempfile::tempdir().unwrap();
    let (key, known) = ("perf.key", ["--known-servers", "known", "--connect-timeout", "30s"]);
    let options = ["--listen", "127.0.0.1:5201", "--udp-port", "0"];
    let sealed = [&options[..], &["--sealed", "--key", key]].concat();
    let mut sealed = Server::start_command(&["perf", "server"], &sealed, keys.path());
    let plain = Server::start_command(&["perf", "server"], &options, keys.path());
    let line = sealed.listening["invitation"].as_str().unwrap().to_owned();
    assert!(line.starts_with("anb1:") && line.ends_with(":5201"), "{line}");
    let [there, elsewhere] =
        [&sealed, &plain].map(|server| format!("127.0.0.1:5201;udp={}", server.udp_port()));
    let perf = |peer: &str, more: &[&str]| {
        let all = [&["perf", "client", peer, "--json", "--bytes", "2M"], &known[..], more].concat();
        run(&all, keys.path())
    };
    let two =
        ["--sealed", "--mode", "both", "--associations", "3", "--uplink", "127.0.0.2,127.0.0.3"];
    for (peer, more, uplinks) in
        [(&line, &[][..], 1), (&there, &["--sealed"], 1), (&there, &two, 2)]
    {
        let ended = perf(peer, more);
        assert_eq!(ended.code, Some(0), "{peer}: {}", ended.stderr);
        let summary = ended.stdout.lines().last().unwrap();
        let summary: serde_json::Value = serde_json::from_str(summary).unwrap();
        let bytes = if more == &two[..] { 6_000_000 } else { 2_000_000 };
        assert_eq!(summary["sent"]["bytes"], bytes, "{summary}");
        // The real address, and nothing about numbers of paths without an uplink.
        let ended = sealed.line();
        assert_eq!(ended["event"], "ended");
        assert!(ended["peer"].as_str().unwrap().starts_with("127.0.0."), "{ended}");
        let paths = ended["paths"].as_array().unwrap();
        assert_eq!(paths.len(), uplinks, "{ended}");
        assert!(paths.iter().all(|path| path["unverified"].is_null()), "{ended}");
    }
    perf(&there, &[]).failed_with(1, "the server is sealed: use --sealed");
    perf(&elsewhere, &["--sealed"]).failed_with(1, "no sealed server answers");
    perf(&there, &["--uplink", "lo"]).failed_with(2, "--uplink is for --sealed");
    perf(&there, &["--sealed", "--local", "127.0.0.1"]).failed_with(2, "--local");
    perf(&line, &["--transport", "sctp"]).failed_with(2, "--sealed");
    assert_eq!((sealed.interrupt(), plain.interrupt()), (Some(0), Some(0)));
}

/// A translator of addresses between a client and a server that gives the client another outer address and port after each
/// 150 packets, ten times.
struct Roaming {
    port: u16,
    counts: Arc<Counts>,
}

#[derive(Default)]
struct Counts {
    packets: AtomicU64,
    moves: AtomicU64,
}

impl Counts {
    fn moves(&self) -> u64 {
        self.moves.load(Ordering::Relaxed)
    }

    /// Whether the client is to have another address now.
    fn is_due(&self) -> bool {
        let packets = self.packets.load(Ordering::Relaxed);
        packets >= 150 * (self.moves() + 1) && self.moves() < Roaming::MOVES
    }
}

impl Roaming {
    const MOVES: u64 = 10;

    fn before(server: u16) -> Self {
        let inner = Arc::new(UdpSocket::bind("127.0.0.1:0").unwrap());
        let (port, counts) = (inner.local_addr().unwrap().port(), Arc::new(Counts::default()));
        let this = Self { port, counts: counts.clone() };
        std::thread::spawn(move || {
            let mut buffer = vec![0; 65_536];
            let mut outer: Option<Arc<UdpSocket>> = None;
            while let Ok((len, client)) = inner.recv_from(&mut buffer) {
                counts.packets.fetch_add(1, Ordering::Relaxed);
                if counts.is_due() {
                    counts.moves.fetch_add(1, Ordering::Relaxed);
                    outer = None;
                }
                let outer = outer.get_or_insert_with(|| Self::outer(&inner, &counts, client));
                let _ = outer.send_to(&buffer[..len], ("127.0.0.1", server));
            }
        });
        this
    }

    /// The next outer socket. What arrives there when it is no longer the last one is lost.
    fn outer(inner: &Arc<UdpSocket>, counts: &Arc<Counts>, client: SocketAddr) -> Arc<UdpSocket> {
        let number = counts.moves();
        let address = SocketAddr::from(([127, 0, 7, number as u8 + 1], 0));
        let outer = Arc::new(UdpSocket::bind(address).unwrap());
        let (back, inner, counts) = (outer.clone(), inner.clone(), counts.clone());
        std::thread::spawn(move || {
            let mut buffer = vec![0; 65_536];
            while let Ok((len, _)) = back.recv_from(&mut buffer) {
                if counts.moves() != number {
                    return;
                }
                counts.packets.fetch_add(1, Ordering::Relaxed);
                let _ = inner.send_to(&buffer[..len], client);
            }
        });
        outer
    }
}

#[test]
fn a_download_survives_ten_changes_of_address_and_port() {
    let (site, keys, server) = sealed(&[]);
    let roaming = Roaming::before(server.udp_port().parse().unwrap());
    let base = format!("sctp://127.0.0.1:8080;udp={};key={}", roaming.port, key(&server));
    let fetched = get(&site, &base, keys.path(), &[]);
    assert_eq!(fetched.code, Some(0), "{}", fetched.stderr);
    site.assert_copied();
    assert_eq!(roaming.counts.moves(), Roaming::MOVES);
}

#[test]
fn files_are_put_over_sealed_paths() {
    let (site, _keys, server) = sealed(&["--upload", "."]);
    let file = site.path().join("file 0.bin");
    let url = format!("{};key={}/copy.bin", base(&server), key(&server));
    let sent = run(&["put", file.to_str().unwrap(), &url], &site.copy());
    assert_eq!(sent.code, Some(0), "{}", sent.stderr);
    let copy = std::fs::read(site.path().join("copy.bin")).unwrap();
    assert!(copy == std::fs::read(file).unwrap());
}

#[test]
fn another_key_is_refused() {
    let (site, keys, server) = sealed(&[]);
    let (base, port, old) = (base(&server), server.udp_port(), key(&server));
    assert_eq!(get(&site, &base, keys.path(), &["--sealed"]).code, Some(0));
    std::fs::remove_file(site.copy().join("file 0.bin")).unwrap();
    assert_eq!(server.interrupt(), Some(0));
    let server = serve(&site, &keys.path().join("other.key"), &port, &[]);
    let new = key(&server);
    assert_ne!(old, new);
    let refused = get(&site, &base, keys.path(), &["--sealed"]);
    refused.failed_with(1, &format!("has the key {new}, and had {old}"));
    assert!(refused.stderr.contains("remove the old one from"), "{}", refused.stderr);
    get(&site, &format!("{base};key={old}"), keys.path(), &[])
        .failed_with(1, &format!("has the key {new}, not {old} of the URL"));
    site.assert_copies(0);
    std::fs::write(keys.path().join("known"), "").unwrap();
    let fetched = get(&site, &base, keys.path(), &["--sealed"]);
    assert_eq!(fetched.code, Some(0), "{}", fetched.stderr);
    site.assert_copied();
}

#[test]
fn one_side_alone_is_never_sealed_and_says_so() {
    let (site, keys, server) = sealed(&[]);
    get(&site, &base(&server), keys.path(), &[])
        .failed_with(1, "the server is sealed: use --sealed");
    let secret = key(&server);
    let plain = ["--listen", "127.0.0.1:8080", "--udp-port", "0"];
    let plain = Server::start(&plain, &site.path());
    get(&site, &base(&plain), keys.path(), &["--sealed"])
        .failed_with(1, "no sealed server answers at 127.0.0.1:");
    let with_key = format!("{};key={secret}", base(&plain));
    get(&site, &with_key, keys.path(), &["--connect-timeout", "2s"])
        .failed_with(1, "check that a sealed server with this key listens there");
    site.assert_copies(0);
    assert!(!keys.path().join("known").exists());
}

#[test]
fn options_that_contradict_the_seal_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let serve = ["serve", ".", "--listen", "127.0.0.1:8080"];
    let get = ["get", "sctp://127.0.0.1:8080/a"];
    for (command, options, part) in [
        (&serve[..], &["--sealed", "--tcp", "127.0.0.1:0"][..], "without encryption"),
        (&serve, &["--sealed", "--transport", "sctp"], "--sealed means nothing to sctp"),
        (&serve, &["--sealed", "--transport", "tcp"], "--sealed means nothing to tcp"),
        (&get, &["--sealed", "--interface", "lo"], "--interface means nothing to sealed paths"),
        (&get, &["--sealed", "--shards", "2"], "--shards means nothing to a client with sealed"),
        (&serve, &["--key", "k"], "--sealed"),
        (&get, &["--sealed", "http://127.0.0.1/b"], "cannot be sealed"),
        (&get, &["--sealed", "--transport", "sctp"], "cannot be sealed"),
        (&get, &["--sealed", "--local", "127.0.0.1"], "--local means nothing to sealed paths"),
        (&get, &["--uplink", "127.0.0.2"], "--uplink is for --sealed"),
        (&get, &["--sealed", "--uplink", "lo:backup"], "gateway near"),
        (&get, &["sctp://127.0.0.1:8081;key=anbk:AAAA/b"], "damaged"),
    ] {
        run(&[command, options].concat(), folder.path()).failed_with(2, part);
    }
}
