//! UDP over a relay: no namespaces, no privileges.

mod common;

use std::io::{BufRead as _, BufReader};
use std::net::UdpSocket;
use std::process::Stdio;
use std::time::Duration;

use common::{Site, anabranch, interrupt, run};
use serde_json::Value;

#[test]
fn datagrams_are_lost_and_copied_as_the_file_says() {
    let site = Site::new(&[]);
    let file = "seed = 1\n[[path]]\nname = \"out\"\ndirection = \"send\"\nlose_packets = [2]\n\
        [[path]]\npattern = \"p\"\n";
    std::fs::write(site.path().join("a.toml"), file).unwrap();
    let pattern = "anabranch pattern 1\npattern duplicate per packet\nfilter udp and payload > 1\nvalues\n\
        . 1\n";
    std::fs::write(site.path().join("p"), pattern).unwrap();
    let server = UdpSocket::bind("127.0.0.1:0").unwrap();
    let relay = format!("127.0.0.1:0={}", server.local_addr().unwrap());
    let arguments = ["emulate", "--impair", "a.toml", "--relay", &relay, "--json"];
    let mut child = anabranch(&arguments, &site.path()).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    let ready: Value = serde_json::from_str(&lines.next().unwrap()).unwrap();
    let at = ready["lines"][0].as_str().unwrap().split('=').next().unwrap().to_owned();
    // Two clients; each gets its own answers.
    let clients = [(); 2].map(|()| {
        let client = UdpSocket::bind("127.0.0.1:0").unwrap();
        client.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        client.connect(&at).unwrap();
        client
    });
    let mut buffer = [0; 100];
    let mut echo = |client: &UdpSocket, text: &[u8], lost: bool, copies: usize| {
        client.send(text).unwrap();
        if lost {
            return;
        }
        let (length, from) = server.recv_from(&mut buffer).unwrap();
        assert_eq!(&buffer[..length], text);
        server.send_to(&buffer[..length], from).unwrap();
        for _ in 0..copies {
            let length = client.recv(&mut buffer).unwrap();
            assert_eq!(&buffer[..length], text);
        }
    };
    echo(&clients[0], b"one", false, 1);
    echo(&clients[1], b"lost", true, 0);
    echo(&clients[1], b"2", false, 1);
    echo(&clients[1], b"three", false, 2);
    interrupt(&child);
    let told: Value = serde_json::from_str(&lines.next().unwrap()).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0));
    let counts = |way: usize, key: &str| told["links"][way][key].as_u64().unwrap();
    assert_eq!((counts(0, "offered"), counts(0, "delivered"), counts(0, "lost_model")), (4, 3, 1));
    assert_eq!((counts(1, "offered"), counts(1, "delivered"), counts(1, "duplicated")), (3, 4, 1));
    assert_eq!(told["links"][0]["name"], "out");
}

#[test]
fn what_is_wrong_is_said() {
    let site = Site::new(&[]);
    std::fs::write(site.path().join("a.toml"), "[[path]]\n").unwrap();
    let taken = UdpSocket::bind("127.0.0.1:0").unwrap();
    let relay = |text: &str| run(&["emulate", "--impair", "a.toml", "--relay", text], &site.path());
    let listen = taken.local_addr().unwrap();
    relay(&format!("{listen}=127.0.0.1:9")).failed_with(1, &format!("cannot listen at {listen}"));
    relay("127.0.0.1:7000").failed_with(2, "two addresses");
    let without = ["emulate", "--relay", "127.0.0.1:0=127.0.0.1:9"];
    run(&without, &site.path()).failed_with(2, "--impair");
}
