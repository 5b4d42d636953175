//! Both sides of the gateway as programs, with curl as their client.
#![cfg(unix)]

mod common;

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use common::{Server, Site, run, skip};
use tempfile::TempDir;

/// A far side, a near side, and a directory with their keys.
struct Gateway {
    keys: TempDir,
    far: Server,
    near: Server,
}

/// Starts a far side on this UDP port of 127.0.0.1.
fn far(keys: &Path, port: &str) -> Server {
    let listen = format!("127.0.0.1:{port}");
    let key = keys.join("far.key");
    let arguments = ["--listen", &listen, "--key", key.to_str().unwrap(), "--allow", "127.0.0.0/8"];
    Server::start_command(&["gateway", "far"], &arguments, keys)
}

fn near(keys: &Path, line: &str, more: &[&str]) -> Server {
    let key = keys.join("near.key");
    let arguments = ["--listen", "127.0.0.1:0", "--key", key.to_str().unwrap()];
    Server::start_command(&["gateway", "near", line], &[&arguments[..], more].concat(), keys)
}

impl Gateway {
    fn start() -> Self {
        let keys = tempfile::tempdir().unwrap();
        let far = far(keys.path(), "0");
        assert_eq!(far.listening["sealed"], true);
        let line = far.listening["invitation"].as_str().unwrap().to_owned();
        let mut near = near(keys.path(), &line, &["--uplink", "127.0.0.2,127.0.0.3"]);
        assert_eq!(near.line()["event"], "connected");
        Self { keys, far, near }
    }

    fn proxy(&self) -> &str {
        self.near.listening["proxy"].as_str().unwrap()
    }

    /// Runs curl through the proxy; `None` without curl.
    fn curl(&self, arguments: &[&str]) -> Option<Vec<u8>> {
        let mut curl = Command::new("curl");
        curl.args(["--silent", "--show-error", "--max-time", "60", "--proxy", self.proxy()]);
        // The environment must not choose another way.
        curl.env_remove("no_proxy").env_remove("NO_PROXY").args(arguments);
        match curl.output() {
            Ok(output) => {
                let said = String::from_utf8_lossy(&output.stderr);
                assert!(output.status.success(), "{arguments:?}: {said}");
                Some(output.stdout)
            }
            Err(_) => {
                skip("curl");
                None
            }
        }
    }
}

/// `anabranch serve` over TCP as the server to reach.
fn site(site: &Site) -> Server {
    Server::start(&["--listen", "127.0.0.1:0", "--transport", "tcp"], &site.path())
}

#[test]
fn curl_fetches_through_sealed_paths() {
    let files = Site::new(&[3_000_000]);
    let server = site(&files);
    let mut gateway = Gateway::start();
    let url = format!("http://127.0.0.1:{}/file%200.bin", server.port());
    let whole = std::fs::read(files.path().join("file 0.bin")).unwrap();
    let Some(fetched) = gateway.curl(&[&url]) else { return };
    assert!(fetched == whole);
    let line = gateway.near.line();
    assert_eq!((line["event"].as_str(), line["code"].as_u64()), (Some("connection"), Some(200)));
    assert_eq!(line["bytes_received"], 3_000_000);
    assert!(gateway.curl(&["--proxytunnel", &url]).unwrap() == whole);
    let socks = gateway.proxy().replace("http:", "socks5h:");
    assert!(
        gateway.curl(&["--proxy", &socks, &url.replace("127.0.0.1", "localhost")]).unwrap()
            == whole
    );
    assert!(gateway.curl(&["--range", "10-19", &url]).unwrap() == whole[10..20]);
    let head = String::from_utf8(gateway.curl(&["--head", &url]).unwrap()).unwrap();
    assert!(head.contains("3000000") && head.contains("anabranch"), "{head}");
    let status = ["--output", "/dev/null", "--write-out", "%{http_code}"];
    for (url, code) in [
        (format!("http://127.0.0.1:{}/missing", server.port()), "404"),
        ("http://10.255.255.1/".to_owned(), "403"),
        ("http://127.0.0.1:1/".to_owned(), "502"),
    ] {
        let answer = gateway.curl(&[&status[..], &[&url]].concat()).unwrap();
        assert_eq!(String::from_utf8_lossy(&answer), code, "{url}");
    }
    assert_eq!(gateway.far.line()["event"], "accepted");
    assert_eq!(gateway.far.line()["address"], format!("127.0.0.1:{}", server.port()));
    assert_eq!(gateway.near.interrupt(), Some(0));
    assert_eq!(gateway.far.interrupt(), Some(0));
}

#[cfg(target_os = "linux")]
#[test]
fn a_command_has_the_gateway_as_its_network() {
    let keys = tempfile::tempdir().unwrap();
    let far = far(keys.path(), "0");
    let line = far.listening["invitation"].as_str().unwrap().to_owned();
    let key = keys.path().join("near.key");
    let near = |more: &[&str]| {
        let near = ["gateway", "near", &line, "--key", key.to_str().unwrap()];
        run(&[&near[..], more].concat(), keys.path())
    };
    let ended = near(&["--", "sh", "-c", "cat /etc/resolv.conf; exit 7"]);
    if ended.stderr.contains("namespaces") || ended.stderr.contains("no TUN device") {
        return skip("namespaces with TUN devices");
    }
    // Near itself says nothing.
    assert_eq!((ended.code, &ended.stderr[..]), (Some(7), ""));
    assert!(ended.stdout.starts_with("nameserver 198.19.0.3\n"), "{}", ended.stdout);
    near(&["--", "no-such-command"]).failed_with(127, "'no-such-command' cannot be run");
    near(&["--json", "--", "true"]).failed_with(2, "--json with a COMMAND needs --log");
    drop(far);
    near(&["--connect-timeout", "1s", "--", "true"]).failed_with(1, "no answer from 127.0.0.1:");
}

/// A command must not go on with another network, or none.
#[cfg(target_os = "linux")]
#[test]
fn a_command_ends_with_its_near_side() {
    let keys = tempfile::tempdir().unwrap();
    let far = far(keys.path(), "0");
    let line = far.listening["invitation"].as_str().unwrap();
    let (key, file) = (keys.path().join("near.key"), keys.path().join("beats"));
    let script = "while :; do echo beat >>beats; sleep 0.1; done";
    let near = ["gateway", "near", line, "--key", key.to_str().unwrap(), "--", "sh", "-c", script];
    let mut near = common::anabranch(&near, keys.path()).spawn().unwrap();
    let beats = || std::fs::read_to_string(&file).map_or(0, |beats| beats.len());
    while beats() == 0 {
        if near.try_wait().unwrap().is_some() {
            return skip("namespaces with TUN devices");
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    // SIGKILL.
    near.kill().unwrap();
    near.wait().unwrap();
    // It may take a moment, but it ends.
    let mut before = beats();
    loop {
        std::thread::sleep(Duration::from_millis(500));
        match beats() {
            now if now == before => break,
            now => before = now,
        }
    }
}

#[test]
fn a_far_side_that_was_killed_comes_back() {
    let files = Site::new(&[1000]);
    let server = site(&files);
    let gateway = Gateway::start();
    let url = format!("http://127.0.0.1:{}/file%200.bin", server.port());
    if gateway.curl(&[&url]).is_none() {
        return;
    }
    let port = gateway.far.udp_port();
    let Gateway { keys, far: killed, near } = gateway;
    drop(killed);
    // The next one has the same key, and knows the key of the near side.
    let gateway = Gateway { far: far(keys.path(), &port), keys, near };
    assert_eq!(gateway.curl(&[&url]).unwrap().len(), 1000);
}

#[test]
fn a_stranger_with_a_used_line_gets_no_answer() {
    let gateway = Gateway::start();
    let line = gateway.far.listening["invitation"].as_str().unwrap();
    let stranger = tempfile::tempdir().unwrap();
    let mut near = near(stranger.path(), line, &["--connect-timeout", "2s"]);
    let event = near.line();
    assert_eq!(event["event"], "unreachable", "{event}");
    let error = event["error"].as_str().unwrap();
    assert!(error.contains("does not know this key"), "{error}");
    // Keys are for their owner only.
    for key in [gateway.keys.path().join("far.key"), stranger.path().join("near.key")] {
        let mode = std::os::unix::fs::PermissionsExt::mode(&key.metadata().unwrap().permissions());
        assert_eq!(mode & 0o777, 0o600);
    }
}

/// A connection through the proxy by SOCKS5, without a program: both ends.
fn tunnel(proxy: SocketAddr) -> (TcpStream, TcpStream) {
    let target = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut tcp = TcpStream::connect(proxy).unwrap();
    tcp.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let port = target.local_addr().unwrap().port().to_be_bytes();
    tcp.write_all(&[&[5, 1, 0, 5, 1, 0, 1, 127, 0, 0, 1], &port[..]].concat()).unwrap();
    let mut reply = [0; 12];
    tcp.read_exact(&mut reply).unwrap();
    assert_eq!(reply[..4], [5, 0, 5, 0]);
    let (accepted, _) = target.accept().unwrap();
    accepted.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    (tcp, accepted)
}

/// What a side has sent over two uplinks, by its metrics.
fn copied(metrics: &str) -> u64 {
    let mut tcp = TcpStream::connect(metrics).unwrap();
    write!(tcp, "GET /metrics HTTP/1.1\r\nHost: {metrics}\r\n\r\n").unwrap();
    let mut text = String::new();
    tcp.read_to_string(&mut text).unwrap();
    let name = "anabranch_copied_chunks_total{";
    let values = text.lines().filter(|line| line.starts_with(name));
    values.map(|line| line.rsplit_once(' ').unwrap().1.parse::<u64>().unwrap()).sum()
}

#[test]
fn what_is_small_goes_over_two_uplinks_if_near_says_so() {
    let keys = tempfile::tempdir().unwrap();
    let metrics = || format!("127.0.0.1:{}", anabranch_ports::free_tcp_port());
    let exchange = |mirror: &[&str], enough: &dyn Fn([u64; 2], u32) -> bool| {
        let (of_far, of_near) = (metrics(), metrics());
        let key = keys.path().join("far.key");
        let allow = ["--allow", "127.0.0.0/8", "--metrics", &of_far];
        let arguments = ["--listen", "127.0.0.1:0", "--key", key.to_str().unwrap()];
        let arguments = [&arguments[..], &allow].concat();
        let far = Server::start_command(&["gateway", "far"], &arguments, keys.path());
        let line = far.listening["invitation"].as_str().unwrap();
        let more = ["--uplink", "127.0.0.2,127.0.0.3", "--metrics", &of_near];
        let near = near(keys.path(), line, &[&more[..], mirror].concat());
        let (mut here, mut there) =
            tunnel(near.listening["listen"].as_str().unwrap().parse().unwrap());
        for round in 1.. {
            assert!(round < 1000, "too little was copied");
            let mut bytes = [0; 64];
            for _ in 0..10 {
                here.write_all(&[1; 64]).unwrap();
                there.read_exact(&mut bytes).unwrap();
                there.write_all(&[2; 64]).unwrap();
                here.read_exact(&mut bytes).unwrap();
            }
            if enough([&of_near, &of_far].map(|of| copied(of)), round) {
                break;
            }
        }
    };
    // The second uplink may need some time.
    exchange(&["--mirror"], &|copied, _| copied.into_iter().all(|sent| sent > 10));
    exchange(&[], &|copied, round| {
        assert_eq!(copied, [0, 0]);
        round == 5
    });
}

#[test]
fn users_come_and_go_while_the_far_side_runs() {
    let mut gateway = Gateway::start();
    let proxy = gateway.near.listening["listen"].as_str().unwrap().parse().unwrap();
    let (mut here, mut there) = tunnel(proxy);
    let users = gateway.keys.path().join("far.users");
    let known = std::fs::read_to_string(&users).unwrap();
    std::fs::write(&users, format!("# {known}")).unwrap();
    // Its connections are reset at both ends, and it gets no answer from now on.
    for end in [&mut here, &mut there] {
        let error = end.read(&mut [0]).unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset);
    }
    let mut until = |event: &str| while gateway.near.line()["event"] != event {};
    until("lost");
    until("unreachable");
    std::fs::write(&users, known).unwrap();
    until("connected");
    tunnel(proxy);
}

/// Asks the proxy for this URL; the status and all that comes.
fn ask(proxy: SocketAddr, url: &str) -> (u16, Vec<u8>) {
    let mut tcp = TcpStream::connect(proxy).unwrap();
    tcp.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let host = url.split('/').nth(2).unwrap();
    write!(tcp, "GET {url} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = Vec::new();
    // It may be cut off.
    let _ = tcp.read_to_end(&mut answer);
    let status = answer.get(9..12).map(String::from_utf8_lossy);
    (status.and_then(|status| status.parse().ok()).unwrap_or(0), answer)
}

#[test]
fn a_signal_invites_one_more_near_side() {
    let mut gateway = Gateway::start();
    gateway.far.signal("USR1");
    let line = loop {
        let line = gateway.far.line();
        if line["event"] == "invitation" {
            break line["invitation"].as_str().unwrap().to_owned();
        }
    };
    assert_ne!(line, gateway.far.listening["invitation"]);
    let [second, third] = [(); 2].map(|()| tempfile::tempdir().unwrap());
    let mut second = near(second.path(), &line, &[]);
    assert_eq!(second.line()["event"], "connected");
    let mut third = near(third.path(), &line, &["--connect-timeout", "2s"]);
    assert_eq!(third.line()["event"], "unreachable", "it is used up");
}

#[test]
fn users_have_limits_that_survive_restarts() {
    let files = Site::new(&[3_000_000, 1000]);
    let server = site(&files);
    let urls = [0, 1].map(|n| format!("http://127.0.0.1:{}/file%20{n}.bin", server.port()));
    let gateway = Gateway::start();
    let users = gateway.keys.path().join("far.users");
    let port = gateway.far.udp_port();
    let Gateway { keys, far: first, near } = gateway;
    let known = std::fs::read_to_string(&users).unwrap();
    let proxy = near.listening["listen"].as_str().unwrap().parse().unwrap();
    assert_eq!(first.interrupt(), Some(0));
    std::fs::write(&users, format!("* limit=2MB/30d connections=50\n{known}")).unwrap();
    let second = far(keys.path(), &port);
    let (_, part) = ask(proxy, &urls[0]);
    assert!((1_000_000..2_500_000).contains(&part.len()), "{}", part.len());
    let refused = |(status, answer): (u16, Vec<u8>)| {
        let answer = String::from_utf8_lossy(&answer);
        assert!(status == 503 && answer.contains("2MB/30d, is used up for another 7"), "{answer}");
    };
    refused(ask(proxy, &urls[1]));
    assert_eq!(second.interrupt(), Some(0));
    assert!(keys.path().join("far.usage").exists());
    let _third = far(keys.path(), &port);
    refused(ask(proxy, &urls[1]));
    // A higher limit holds soon.
    std::fs::write(&users, format!("* limit=20MB/30d\n{known}")).unwrap();
    while ask(proxy, &urls[1]).0 != 200 {
        std::thread::sleep(Duration::from_millis(100));
    }
    assert!(ask(proxy, &urls[0]).1.len() > 3_000_000);
}

#[test]
fn a_plain_gateway_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let far = Server::start_command(
        &["gateway", "far"],
        &["--plain", "--listen", "127.0.0.1:0", "--allow", "127.0.0.1"],
        folder.path(),
    );
    assert_eq!(
        (&far.listening["sealed"], &far.listening["invitation"]),
        (&false.into(), &().into())
    );
    // It has no invitations, and goes on.
    far.signal("USR1");
    let to = far.listening["listen"].as_str().unwrap();
    let arguments = ["--plain", to, "--listen", "127.0.0.1:0"];
    let near = Server::start_command(&["gateway", "near"], &arguments, folder.path());
    assert_eq!(near.listening["sealed"], false);
    let proxy = near.listening["listen"].as_str().unwrap().parse().unwrap();
    let (mut tcp, mut accepted) = tunnel(proxy);
    tcp.write_all(b"hello").unwrap();
    tcp.shutdown(std::net::Shutdown::Write).unwrap();
    let mut text = String::new();
    accepted.read_to_string(&mut text).unwrap();
    assert_eq!(text, "hello");
}

/// Answers one request with a picture, as servers send files.
#[cfg(target_os = "linux")]
fn send(picture: &[u8], kind: &str) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let head = format!(
        "HTTP/1.1 200 OK\r\nContent-Type: image/{kind}\r\nETag: \"1\"\r\nContent-Length: {}\r\n\r\n",
        picture.len()
    );
    let answer = [head.as_bytes(), picture].concat();
    std::thread::spawn(move || {
        let (mut tcp, _) = listener.accept().unwrap();
        let mut request = [0; 4096];
        let _ = tcp.read(&mut request);
        tcp.write_all(&answer).unwrap();
    });
    address
}

/// The program itself is the sandboxed process, with its allocator.
#[cfg(target_os = "linux")]
#[test]
fn pictures_become_progressive_if_the_far_side_says_so() {
    let jpeg = include_bytes!("../../pictures/tests/pictures/converted/444.jpg").to_vec();
    let mut state = 1_u32;
    let noise = image::RgbImage::from_fn(200, 200, |_, _| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        [(state >> 24) as u8, (state >> 16) as u8, (state >> 8) as u8].into()
    });
    let mut png = std::io::Cursor::new(Vec::new());
    noise.write_to(&mut png, image::ImageFormat::Png).unwrap();
    for (option, converts) in [(&["--progressive-pictures"][..], true), (&[], false)] {
        let folder = tempfile::tempdir().unwrap();
        let arguments = ["--plain", "--listen", "127.0.0.1:0", "--allow", "127.0.0.1"];
        let arguments = [&arguments[..], option].concat();
        let far = Server::start_command(&["gateway", "far"], &arguments, folder.path());
        let to = far.listening["listen"].as_str().unwrap();
        let arguments = ["--plain", to, "--listen", "127.0.0.1:0"];
        let near = Server::start_command(&["gateway", "near"], &arguments, folder.path());
        let proxy: SocketAddr = near.listening["listen"].as_str().unwrap().parse().unwrap();
        for (picture, kind) in [(&jpeg, "jpeg"), (png.get_ref(), "png")] {
            let site = send(picture, kind);
            let mut tcp = std::net::TcpStream::connect(proxy).unwrap();
            tcp.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
            let request =
                format!("GET http://{site}/ HTTP/1.1\r\nHost: {site}\r\nConnection: close\r\n\r\n");
            tcp.write_all(request.as_bytes()).unwrap();
            let mut answer = Vec::new();
            tcp.read_to_end(&mut answer).unwrap();
            let end = answer.windows(4).position(|four| four == b"\r\n\r\n").unwrap() + 4;
            let (head, body) = (String::from_utf8_lossy(&answer[..end]), &answer[end..]);
            assert_eq!(body != &picture[..], converts, "{kind}: {head}");
            assert_eq!(head.contains("W/\"1\""), converts, "{head}");
            let decoded = |picture| image::load_from_memory(picture).unwrap();
            assert!(decoded(body) == decoded(picture), "{kind}");
        }
    }
}

#[test]
fn mistakes_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let run = |arguments: &[&str]| run(&[&["gateway"], arguments].concat(), folder.path());
    run(&["near"]).failed_with(2, "not provided: <LINE>");
    run(&["near", "anb1:x"]).failed_with(2, "invalid value 'anb1:x' for '[LINE]'");
    run(&["far", "--allow", "10.0.0.1/8"]).failed_with(2, "'10.0.0.1/8' is not a rule");
    run(&["far", "--plain", "--key", "x"]).failed_with(2, "cannot be used with");
    let near = ["near", "--plain", "127.0.0.1:9", "--listen", "192.0.2.1:1080"];
    run(&near).failed_with(1, "--listen 192.0.2.1:1080: ");
}
