//! Hosts with two networks, in network namespaces of their own.

use std::fs::File;
use std::io::Read;
use std::os::fd::AsRawFd;
use std::process::Command;

use anabranch_proto::Encapsulation;
use nix::sched::{CloneFlags, setns, unshare};
use socket2::{Domain, Protocol, Type};

use super::*;
use crate::runtime::TokioRuntime;
use crate::sockets::{Wanted, WantedAddress};

/// The peer, which is behind both networks.
const PEERS: [&str; 2] = ["203.0.113.1", "2001:db8::1"];

/// The host's addresses in the second network.
const SECOND: [&str; 2] = ["192.168.2.2", "fd00:2::2"];

/// Carries out a script of commands in the current namespace.
fn run(script: &str) {
    let done = Command::new("sh").args(["-e", "-c", script]).status().unwrap();
    assert!(done.success(), "{script}");
}

/// The host's namespace, in which this thread is, and the peer's.
struct Networks {
    host: File,
    peer: File,
}

impl Networks {
    /// A host with the interfaces u1 and u2, and a peer on the other ends p1 and p2. Both interfaces have a default route,
    /// that of u1 with the lower metric. `None` if the test may not create namespaces.
    fn new() -> Option<Self> {
        let here = || File::open("/proc/thread-self/ns/net").unwrap();
        if let Err(error) = unshare(CloneFlags::CLONE_NEWNET) {
            let required = std::env::var("ANABRANCH_REQUIRE_ALL").is_ok_and(|all| all == "1");
            assert!(!required, "no network namespace can be made: {error}");
            return None;
        }
        let host = here();
        unshare(CloneFlags::CLONE_NEWNET).unwrap();
        let (peer, at) = (here(), format!("/proc/{}/fd/{}", std::process::id(), host.as_raw_fd()));
        let [v4, v6] = PEERS;
        run(&format!("ip link set lo up; ip addr add {v4}/32 dev lo; ip addr add {v6}/128 dev lo"));
        for n in [1, 2] {
            run(&format!(
                "ip link add p{n} type veth peer name u{n} netns {at}
                 ip addr add 192.168.{n}.1/24 dev p{n}; ip addr add fd00:{n}::1/64 dev p{n} nodad
                 ip link set p{n} up"
            ));
        }
        setns(&host, CloneFlags::CLONE_NEWNET).unwrap();
        run("ip link set lo up");
        for n in [1, 2] {
            run(&format!(
                "ip addr add 192.168.{n}.2/24 dev u{n}; ip addr add fd00:{n}::2/64 dev u{n} nodad
                 ip link set u{n} up
                 ip route add default via 192.168.{n}.1 metric 10{n}
                 ip -6 route add default via fd00:{n}::1 metric 10{n}"
            ));
        }
        // The system reports a moment later that the links work.
        let runtime = TokioRuntime::current().unwrap();
        for address in SECOND.map(|ip| ip.parse::<IpAddr>().unwrap()) {
            while runtime.local_addresses().unwrap().iter().all(|present| present.ip != address) {
                std::thread::sleep(Duration::from_millis(10));
            }
        }
        Some(Self { host, peer })
    }

    /// Sockets of the peer, one for each network.
    fn listen(&self, ip: IpAddr, encapsulation: Encapsulation) -> [socket2::Socket; 2] {
        setns(&self.peer, CloneFlags::CLONE_NEWNET).unwrap();
        let sockets = ["p1", "p2"].map(|device| {
            let address = SocketAddr::new(ip, port(encapsulation));
            let (kind, protocol) = match encapsulation {
                Encapsulation::Udp => (Type::DGRAM, None),
                Encapsulation::Ip => (Type::RAW, Some(Protocol::from(132))),
            };
            let socket = socket2::Socket::new(Domain::for_address(address), kind, protocol);
            let socket = socket.unwrap();
            socket.bind_device(Some(device.as_bytes())).unwrap();
            socket.bind(&address.into()).unwrap();
            socket.set_nonblocking(true).unwrap();
            socket
        });
        setns(&self.host, CloneFlags::CLONE_NEWNET).unwrap();
        sockets
    }
}

fn port(encapsulation: Encapsulation) -> u16 {
    if encapsulation == Encapsulation::Udp { 9899 } else { 0 }
}

fn bind(runtime: &TokioRuntime, encapsulation: Encapsulation, addresses: &[IpAddr]) -> SocketSet {
    let addresses = addresses.iter().map(|&ip| WantedAddress { ip, link: None }).collect();
    let wanted = Wanted {
        encapsulation,
        addresses,
        port: 0,
        interface: None,
        traffic_class: 0,
        opened: Vec::new(),
        shard: None,
    };
    SocketSet::bind(runtime, wanted).unwrap()
}

fn transmit(local: IpAddr, remote: IpAddr, encapsulation: Encapsulation, len: usize) -> Transmit {
    Transmit {
        local,
        remote,
        remote_udp_port: port(encapsulation),
        ecn: None,
        len,
        segment_size: 100,
        dont_fragment: true,
        out_of_the_blue: false,
        unverified: false,
        roams: true,
    }
}

/// Sends a batch of packets, at time `second`. Returns how many of them arrived in each network.
fn send(
    sockets: &mut SocketSet,
    runtime: &TokioRuntime,
    second: u64,
    transmit: &Transmit,
    peers: &[socket2::Socket; 2],
) -> [usize; 2] {
    sockets.find_outlet(runtime, Instant::ZERO + Duration::from_secs(second), transmit);
    // Packets wait for the address of the next hop for three seconds, and are dropped then: a busy system may start a new
    // device later than that.
    for _ in 0..3 {
        sockets.send(transmit, &vec![7; transmit.len]);
        assert!(sockets.take_problems().is_empty());
        for _ in 0..400 {
            let arrived = peers.each_ref().map(|socket| {
                std::iter::repeat_with(|| (&mut &*socket).read(&mut [0; 2000]).ok())
                    .take_while(Option::is_some)
                    .count()
            });
            if arrived != [0, 0] {
                return arrived;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }
    [0, 0]
}

#[tokio::test]
async fn packets_leave_by_the_interface_that_has_their_source() {
    for encapsulation in [Encapsulation::Udp, Encapsulation::Ip] {
        for (peer, local) in PEERS.into_iter().zip(SECOND) {
            let Some(networks) = Networks::new() else { return };
            let (peer, local): (IpAddr, IpAddr) = (peer.parse().unwrap(), local.parse().unwrap());
            let peers = networks.listen(peer, encapsulation);
            let runtime = TokioRuntime::current().unwrap();
            // On all addresses, and on two of them.
            let first = if local.is_ipv4() { "192.168.1.2" } else { "fd00:1::2" };
            for bound in [&[][..], &[local, first.parse().unwrap()]] {
                let mut sockets = bind(&runtime, encapsulation, bound);
                let alone = sockets.len();
                let transmit = transmit(local, peer, encapsulation, 300);
                let stays = Transmit { roams: false, ..transmit };
                // Those that do not roam follow the metric, as ever.
                assert_eq!(send(&mut sockets, &runtime, 0, &stays, &peers), [3, 0]);
                assert_eq!(sockets.len(), alone);
                assert_eq!(send(&mut sockets, &runtime, 1, &transmit, &peers), [0, 3]);
                assert_eq!(sockets.len(), alone + 1);
                // An outlet is not taken for another stack.
                assert!(sockets.may_answer(Instant::ZERO, local));
                // When the route goes, the packets take the other one.
                let family = if local.is_ipv4() { "-4" } else { "-6" };
                run(&format!("ip {family} route del default dev u2"));
                assert_eq!(send(&mut sockets, &runtime, 3, &transmit, &peers), [3, 0]);
                let next = if local.is_ipv4() { "192.168.2.1" } else { "fd00:2::1" };
                run(&format!("ip {family} route add default via {next} dev u2 metric 102"));
                assert_eq!(send(&mut sockets, &runtime, 5, &transmit, &peers), [0, 3]);
            }
        }
    }
}

/// A private network's routes are more specific, or in a table of their own.
#[tokio::test]
async fn routes_that_somebody_chose_on_purpose_are_kept() {
    for (peer, local) in PEERS.into_iter().zip(SECOND) {
        let Some(networks) = Networks::new() else { return };
        let peer: IpAddr = peer.parse().unwrap();
        let peers = networks.listen(peer, Encapsulation::Udp);
        let runtime = TokioRuntime::current().unwrap();
        let (family, next, of_loopback) = match peer {
            IpAddr::V4(_) => ("-4", "192.168.1.1", "198.51.100.7"),
            IpAddr::V6(_) => ("-6", "fd00:1::1", "2001:db8:7::1"),
        };
        run(&format!("ip addr add {of_loopback} dev lo"));
        let specific = format!("ip {family} route add {peer} via {next} dev u1");
        let table = format!(
            "ip {family} route add default via {next} dev u1 table 77
             ip {family} rule add from {local} lookup 77"
        );
        let port = format!(
            "ip {family} rule del from {local} lookup 77
             ip {family} rule add ipproto udp dport 9899 lookup 77"
        );
        for (address, script) in [(of_loopback, ""), (local, &table), (local, &port)] {
            run(script);
            let mut sockets = bind(&runtime, Encapsulation::Udp, &[]);
            let transmit = transmit(address.parse().unwrap(), peer, Encapsulation::Udp, 300);
            let sent = send(&mut sockets, &runtime, 0, &transmit, &peers);
            assert_eq!((sent, sockets.len()), ([3, 0], 2), "{address} {script}");
        }
        run(&format!("ip {family} rule del ipproto udp dport 9899 lookup 77"));
        let mut sockets = bind(&runtime, Encapsulation::Udp, &[]);
        let transmit = transmit(local.parse().unwrap(), peer, Encapsulation::Udp, 300);
        assert_eq!(send(&mut sockets, &runtime, 0, &transmit, &peers), [0, 3]);
        run(&specific);
        assert_eq!(send(&mut sockets, &runtime, 2, &transmit, &peers), [3, 0]);
    }
}
