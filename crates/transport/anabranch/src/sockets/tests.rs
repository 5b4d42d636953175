use std::collections::HashSet;
use std::io;
use std::net::Ipv6Addr;
use std::sync::{Arc, Mutex};
use std::task::{Poll, Waker};
use std::time::SystemTime;

use anabranch_proto::{Encapsulation, IcmpKind, Instant};
use bytes::Bytes;

use super::changes::Changes;
use super::*;
use crate::error::BindError;
use crate::runtime::{Batch, Binding, LocalAddress, Runtime, Timer};

/// The behaviour of the test's sockets, and a record of their calls.
#[derive(Debug)]
struct World {
    present: Vec<LocalAddress>,
    /// Requested bindings.
    bindings: Vec<Binding>,
    taken_ports: HashSet<SocketAddr>,
    next_port: u16,
    segments: usize,
    has_ipv6: bool,
    blocked: HashSet<IpAddr>,
    always_writable: bool,
    /// Results of the next sends, which succeed after that.
    failures: VecDeque<TransmitError>,
    errors: VecDeque<NetworkError>,
    /// Packets take another interface than that of their source.
    strays: bool,
    /// The interfaces of outlets that were opened.
    outlets: Vec<String>,
    /// Source and datagrams of each send call.
    sent: Vec<(IpAddr, Vec<u8>)>,
}

impl Default for World {
    fn default() -> Self {
        let address =
            |ip: IpAddr, name: &str, index| LocalAddress { ip, interface: name.to_owned(), index };
        let link_local: IpAddr = "fe80::1".parse().unwrap();
        Self {
            present: vec![
                address(ip(1), "eth0", 2),
                address(ip(2), "eth1", 3),
                address(Ipv6Addr::LOCALHOST.into(), "lo", 1),
                address(link_local, "eth0", 2),
            ],
            bindings: Vec::new(),
            taken_ports: HashSet::new(),
            next_port: 0,
            segments: 0,
            has_ipv6: false,
            blocked: HashSet::new(),
            always_writable: false,
            failures: VecDeque::new(),
            errors: VecDeque::new(),
            strays: false,
            outlets: Vec::new(),
            sent: Vec::new(),
        }
    }
}

#[derive(Clone, Debug, Default)]
struct Fake(Arc<Mutex<World>>);

#[derive(Debug)]
struct FakeSocket {
    world: Arc<Mutex<World>>,
    address: SocketAddr,
}

impl Runtime for Fake {
    fn now(&self) -> Instant {
        Instant::ZERO
    }

    fn wall_clock(&self) -> SystemTime {
        SystemTime::UNIX_EPOCH
    }

    fn timer(self: Arc<Self>) -> Box<dyn Timer> {
        unreachable!("sockets need no timer")
    }

    fn spawn(&self, _: std::pin::Pin<Box<dyn Future<Output = ()> + Send>>) {
        unreachable!("sockets need no task")
    }

    fn bind(&self, binding: &Binding) -> io::Result<Box<dyn PacketSocket>> {
        let mut address = binding.address;
        let mut world = self.0.lock().unwrap();
        world.bindings.push(binding.clone());
        if address.port() == 0 {
            world.next_port += 1;
            address.set_port(world.next_port);
        }
        if address.is_ipv6() && address.ip().is_unspecified() && !world.has_ipv6 {
            return Err(io::ErrorKind::Unsupported.into());
        }
        if world.taken_ports.contains(&address) {
            return Err(io::ErrorKind::AddrInUse.into());
        }
        Ok(Box::new(FakeSocket { world: self.0.clone(), address }))
    }

    fn local_addresses(&self) -> io::Result<Vec<LocalAddress>> {
        Ok(self.world().present.clone())
    }

    fn strays(&self, _: &LocalAddress, _: SocketAddr) -> bool {
        self.world().strays
    }
}

impl PacketSocket for FakeSocket {
    fn local_address(&self) -> SocketAddr {
        self.address
    }

    fn poll_writable(&self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        let world = self.world.lock().unwrap();
        if world.blocked.contains(&self.address.ip()) && !world.always_writable {
            return Poll::Pending;
        }
        Poll::Ready(Ok(()))
    }

    fn try_send(&self, datagrams: &Datagrams<'_>) -> Result<usize, TransmitError> {
        let mut world = self.world.lock().unwrap();
        if world.blocked.contains(&self.address.ip()) {
            return Err(TransmitError::WouldBlock);
        }
        if let Some(failure) = world.failures.pop_front() {
            return Err(failure);
        }
        let source = datagrams.source.unwrap_or(self.address.ip());
        world.sent.push((source, datagrams.contents.to_vec()));
        Ok(datagrams.contents.len())
    }

    fn try_send_apart(&self, datagrams: &Datagrams<'_>) -> Result<usize, TransmitError> {
        let source = datagrams.source.unwrap_or(self.address.ip());
        self.world.lock().unwrap().sent.push((source, datagrams.contents.to_vec()));
        Ok(datagrams.contents.len())
    }

    fn poll_receive(
        &self,
        _: &mut Context<'_>,
        _: &mut [io::IoSliceMut<'_>],
        _: &mut [Batch],
    ) -> Poll<io::Result<usize>> {
        Poll::Pending
    }

    fn max_segments(&self) -> usize {
        self.world.lock().unwrap().segments.max(1)
    }

    fn outlet(&self, interface: &str, _: SocketAddr) -> io::Result<Box<dyn PacketSocket>> {
        self.world.lock().unwrap().outlets.push(interface.to_owned());
        Ok(Box::new(Self { world: self.world.clone(), address: self.address }))
    }

    fn next_error(&self) -> Option<NetworkError> {
        self.world.lock().unwrap().errors.pop_front()
    }
}

fn ip(last: u8) -> IpAddr {
    IpAddr::from([10, 0, 0, last])
}

fn transmit(local: IpAddr, len: usize, segment_size: usize) -> Transmit {
    Transmit {
        local,
        remote: ip(9),
        remote_udp_port: 9899,
        ecn: None,
        len,
        segment_size,
        dont_fragment: true,
        out_of_the_blue: false,
        unverified: false,
        roams: false,
    }
}

impl Fake {
    fn world(&self) -> std::sync::MutexGuard<'_, World> {
        self.0.lock().unwrap()
    }

    /// Returns the lengths of the send calls so far, and clears the record.
    fn calls(&self) -> Vec<usize> {
        self.world().sent.drain(..).map(|(_, bytes)| bytes.len()).collect()
    }
}

fn bind(fake: &Fake, addresses: &[IpAddr], port: u16) -> Result<SocketSet, BindError> {
    bind_to(fake, addresses, port, None)
}

fn bind_on(fake: &Fake, address: IpAddr, link: &str) -> Result<SocketSet, BindError> {
    let addresses = vec![WantedAddress { ip: address, link: Some(link.to_owned()) }];
    let encapsulation = Encapsulation::Udp;
    let wanted = Wanted {
        encapsulation,
        addresses,
        port: 7,
        interface: None,
        traffic_class: 0,
        opened: Vec::new(),
        shard: None,
    };
    SocketSet::bind(fake, wanted)
}

fn bind_to(
    fake: &Fake,
    addresses: &[IpAddr],
    port: u16,
    interface: Option<&str>,
) -> Result<SocketSet, BindError> {
    let wanted = Wanted {
        encapsulation: Encapsulation::Udp,
        addresses: addresses.iter().map(|&ip| WantedAddress { ip, link: None }).collect(),
        port,
        interface: interface.map(str::to_owned),
        traffic_class: 0,
        opened: Vec::new(),
        shard: None,
    };
    SocketSet::bind(fake, wanted)
}

fn ips(sockets: &SocketSet) -> Vec<IpAddr> {
    sockets.addresses().iter().map(|address| address.ip).collect()
}

fn flush(sockets: &mut SocketSet) -> bool {
    sockets.flush(&mut Context::from_waker(Waker::noop()))
}

#[test]
fn a_port_free_on_all_addresses_is_found() {
    let fake = Fake::default();
    fake.world().taken_ports.extend([(ip(2), 1), (ip(3), 2)].map(SocketAddr::from));
    let sockets = bind(&fake, &[ip(1), ip(2), ip(3)], 0).unwrap();
    assert_eq!((sockets.len(), sockets.udp_port()), (3, 3));
    // If a port was requested, no other one is tried.
    let error = bind(&fake, &[ip(1), ip(2)], 1).unwrap_err();
    assert!(matches!(error, BindError::Socket { address, .. } if address.ip() == ip(2)));
    // With any port allowed, the number of attempts is limited.
    fake.world().taken_ports.extend((0..100).map(|port| SocketAddr::from((ip(2), port))));
    assert!(bind(&fake, &[ip(1), ip(2)], 0).is_err());
}

#[test]
fn a_family_that_the_host_lacks_is_done_without() {
    let sockets = bind(&Fake::default(), &[], 0).unwrap();
    assert_eq!(sockets.len(), 1);
    assert_eq!(ips(&sockets), [ip(1), ip(2)]);
    assert!(bind(&Fake::default(), &[Ipv6Addr::UNSPECIFIED.into()], 0).is_err());
}

#[test]
fn a_wildcard_socket_is_told_the_source() {
    let fake = Fake::default();
    let mut sockets = bind(&fake, &[], 0).unwrap();
    sockets.send(&transmit(ip(2), 3, 3), b"abc");
    assert_eq!(fake.world().sent, [(ip(2), b"abc".to_vec())]);
    // There is no socket for this address family, so the path is notified.
    sockets.send(&transmit(Ipv6Addr::LOCALHOST.into(), 3, 3), b"abc");
    assert!(matches!(sockets.take_problems()[..], [Problem::SendFailed { .. }]));
}

#[test]
fn a_blocked_socket_keeps_its_order_and_stalls_no_other() {
    let fake = Fake::default();
    let mut sockets = bind(&fake, &[ip(1), ip(2)], 0).unwrap();
    fake.world().blocked.insert(ip(1));
    sockets.send(&transmit(ip(1), 2, 2), b"aa");
    sockets.send(&transmit(ip(2), 1, 1), b"b");
    sockets.send(&transmit(ip(1), 3, 3), b"ccc");
    assert!(!flush(&mut sockets));
    assert_eq!(fake.calls(), [1]);
    fake.world().blocked.clear();
    // New packets do not overtake waiting ones.
    sockets.send(&transmit(ip(1), 4, 4), b"dddd");
    assert!(!flush(&mut sockets));
    assert_eq!(fake.calls(), [2, 3, 4]);
    assert_eq!(sockets.statistics.datagrams_sent, 4);
}

#[test]
fn what_has_a_buffer_of_its_own_does_not_wait() {
    let fake = Fake::default();
    let mut sockets = bind(&fake, &[ip(1)], 0).unwrap();
    fake.world().blocked.insert(ip(1));
    sockets.send(&transmit(ip(1), 2, 2), b"aa");
    sockets.send(&Transmit { unverified: true, ..transmit(ip(1), 3, 3) }, b"bbb");
    assert_eq!(fake.calls(), [3]);
    fake.world().blocked.clear();
    assert!(!flush(&mut sockets));
    assert_eq!(fake.calls(), [2]);
}

#[test]
fn what_waits_for_a_blocked_socket_is_bounded() {
    let fake = Fake::default();
    let mut sockets = bind(&fake, &[ip(1)], 0).unwrap();
    fake.world().blocked.insert(ip(1));
    for _ in 0..2000 {
        sockets.send(&transmit(ip(1), 1000, 1000), &[0; 1000]);
    }
    fake.world().blocked.clear();
    flush(&mut sockets);
    assert_eq!(fake.calls().len(), MOST_WAITING / 1000);
    assert_eq!(sockets.statistics.datagrams_dropped, 2000 - MOST_WAITING as u64 / 1000);
}

#[test]
fn a_socket_that_only_seems_writable_is_left_alone_for_a_while() {
    let fake = Fake::default();
    let mut sockets = bind(&fake, &[ip(1)], 0).unwrap();
    fake.world().blocked.insert(ip(1));
    fake.world().always_writable = true;
    sockets.send(&transmit(ip(1), 1, 1), b"a");
    assert!(flush(&mut sockets), "it is to be tried again soon");
    fake.world().blocked.clear();
    assert!(!flush(&mut sockets));
    assert_eq!(fake.calls(), [1]);
}

#[test]
fn batches_are_cut_to_what_the_system_takes() {
    let fake = Fake::default();
    fake.world().segments = 64;
    let mut sockets = bind(&fake, &[ip(1)], 0).unwrap();
    // 64 packets of this size exceed the maximum size of a UDP datagram.
    sockets.send(&transmit(ip(1), 64 * 1472, 1472), &vec![0; 64 * 1472]);
    assert_eq!(fake.calls(), [44 * 1472, 20 * 1472]);
    sockets.send(&transmit(ip(1), 2500, 1000), &[0; 2500]);
    assert_eq!(fake.calls(), [2500]);
    // If a device does not support segmentation, the datagrams are sent one by one.
    fake.world().failures.push_back(TransmitError::Segmentation);
    sockets.send(&transmit(ip(1), 2500, 1000), &[0; 2500]);
    assert_eq!(fake.calls(), [1000, 1000, 500]);
    assert_eq!(sockets.statistics.datagrams_sent, 64 + 3 + 3);
    assert!(sockets.take_problems().is_empty());
}

#[test]
fn failures_are_told_to_the_path_and_stop_nothing() {
    let fake = Fake::default();
    let mut sockets = bind(&fake, &[ip(1)], 0).unwrap();
    let unreachable = || TransmitError::Failed(io::ErrorKind::NetworkUnreachable.into());
    fake.world().failures.extend([unreachable(), TransmitError::Dropped, TransmitError::TooBig]);
    for _ in 0..4 {
        sockets.send(&transmit(ip(1), 1000, 1000), &[0; 1000]);
    }
    assert_eq!(fake.calls(), [1000]);
    let problems = sockets.take_problems();
    let expected = (ip(1), ip(9));
    assert!(
        matches!(problems[..], [
            Problem::SendFailed { local, remote, quoted: [0, 0, ..] },
            // One byte less than the size that failed, including IP and UDP headers.
            Problem::TooBig { mtu: 1027, .. },
        ] if (local, remote) == expected),
        "{problems:?}"
    );
    assert_eq!(sockets.statistics.datagrams_dropped, 1);
    assert_eq!(sockets.statistics.send_errors, 2);
}

#[test]
fn an_error_of_an_earlier_datagram_does_not_cost_this_one() {
    let fake = Fake::default();
    let mut sockets = bind(&fake, &[ip(1)], 0).unwrap();
    let error = |kind| NetworkError {
        destination: (ip(9), 9899).into(),
        source: None,
        kind,
        quoted: Bytes::from_static(b"quoted"),
    };
    let icmp = NetworkErrorKind::Icmp(IcmpKind::PacketTooBig { mtu: 1280 });
    fake.world().errors.push_back(error(icmp));
    fake.world().failures.push_back(TransmitError::TooBig);
    sockets.send(&transmit(ip(1), 1000, 1000), &[0; 1000]);
    assert_eq!(fake.calls(), [1000]);
    let problems = sockets.take_problems();
    assert!(
        matches!(&problems[..], [Problem::Network { local, error }]
            if *local == ip(1) && error.kind == icmp),
        "{problems:?}"
    );
    // The system reports the interface's MTU.
    fake.world().errors.push_back(error(NetworkErrorKind::LocalMtu(900)));
    fake.world().failures.push_back(TransmitError::TooBig);
    sockets.send(&transmit(ip(1), 1000, 1000), &[7; 1000]);
    assert!(fake.calls().is_empty());
    let problems = sockets.take_problems();
    assert!(
        matches!(problems[..], [Problem::TooBig { mtu: 900, quoted: [7, .., 7], .. }]),
        "{problems:?}"
    );
}

#[test]
fn an_interface_has_its_own_addresses() {
    let fake = Fake::default();
    let sockets = bind_to(&fake, &[], 0, Some("eth1")).unwrap();
    assert_eq!(ips(&sockets), [ip(2)]);
    assert!(fake.world().bindings.iter().all(|b| b.interface.as_deref() == Some("eth1")));
    let error = bind_to(&fake, &[], 0, Some("eth7")).unwrap_err();
    assert!(matches!(error, BindError::NoInterface(name) if name == "eth7"));
}

#[test]
fn link_local_addresses_have_their_link() {
    let fake = Fake::default();
    let link_local: IpAddr = "fe80::1".parse().unwrap();
    let sockets = bind(&fake, &[link_local], 7).unwrap();
    let expected: SocketAddr = "[fe80::1%2]:7".parse().unwrap();
    assert_eq!(fake.world().bindings[0].address, expected);
    let remote = Transmit { remote: "fe80::9".parse().unwrap(), ..transmit(link_local, 1, 1) };
    assert_eq!(sockets.destination(&remote), "[fe80::9%2]:9899".parse().unwrap());
    let elsewhere = LocalAddress { ip: link_local, interface: "eth1".to_owned(), index: 3 };
    fake.world().present.push(elsewhere);
    assert!(matches!(bind(&fake, &[link_local], 7), Err(BindError::AmbiguousLinkLocal(_))));
    // With the interface named, it is unambiguous.
    let sockets = bind_to(&fake, &[link_local], 7, Some("eth1")).unwrap();
    assert_eq!(sockets.destination(&remote), "[fe80::9%3]:9899".parse().unwrap());
    for (link, expected) in [("eth0", "[fe80::9%2]:9899"), ("eth1", "[fe80::9%3]:9899")] {
        let sockets = bind_on(&fake, link_local, link).unwrap();
        assert_eq!(sockets.destination(&remote), expected.parse().unwrap());
        assert_eq!(sockets.addresses()[0].interface, link);
    }
    let error = bind_on(&fake, link_local, "eth7").unwrap_err();
    assert!(matches!(error, BindError::NoInterface(name) if name == "eth7"));
}

#[test]
fn link_local_addresses_that_nobody_asked_for_are_of_their_link_only() {
    let fake = Fake::default();
    fake.world().has_ipv6 = true;
    let sockets = bind(&fake, &[], 7).unwrap();
    let loopback: IpAddr = Ipv6Addr::LOCALHOST.into();
    assert_eq!(sockets.general_addresses(), [ip(1), ip(2), loopback]);
    let link_local: IpAddr = "fe80::1".parse().unwrap();
    let remote = Transmit { remote: "fe80::9".parse().unwrap(), ..transmit(link_local, 1, 1) };
    assert_eq!(sockets.destination(&remote), "[fe80::9%2]:9899".parse().unwrap());
    // If two links have the address, it does not determine the link.
    let elsewhere = LocalAddress { ip: link_local, interface: "eth1".to_owned(), index: 3 };
    fake.world().present.push(elsewhere);
    let sockets = bind(&fake, &[], 7).unwrap();
    assert!(sockets.addresses().iter().all(|address| address.ip != link_local));
}

#[test]
fn addresses_go_and_come() {
    let fake = Fake::default();
    let link_local: IpAddr = "fe80::1".parse().unwrap();
    let unknown = IpAddr::from([127, 0, 0, 9]);
    let mut sockets = bind(&fake, &[ip(1), unknown, link_local], 7).unwrap();
    assert_eq!(sockets.look_at_addresses(&fake).unwrap(), Changes::default());
    let all = std::mem::take(&mut fake.world().present);
    let changes = sockets.look_at_addresses(&fake).unwrap();
    assert_eq!(changes, Changes { lost: vec![ip(1), link_local], gained: vec![], again: false });
    assert_eq!(ips(&sockets), [ip(1), unknown, link_local]);
    assert_eq!(sockets.look_at_addresses(&fake).unwrap(), Changes::default());
    // The addresses come back on another interface, and sockets bound to the old one are reopened.
    fake.world().bindings.clear();
    fake.world().present = all;
    fake.world().present.iter_mut().for_each(|address| address.index = 9);
    let changes = sockets.look_at_addresses(&fake).unwrap();
    assert_eq!(changes, Changes { lost: vec![], gained: vec![ip(1), link_local], again: false });
    let addresses: Vec<_> = fake.world().bindings.iter().map(|b| b.address).collect();
    assert_eq!(addresses, ["[fe80::1%9]:7".parse().unwrap()]);
}

#[test]
fn a_link_local_address_comes_back_on_its_own_interface() {
    let fake = Fake::default();
    let link_local: IpAddr = "fe80::1".parse().unwrap();
    let elsewhere = LocalAddress { ip: link_local, interface: "eth1".to_owned(), index: 3 };
    fake.world().present.insert(0, elsewhere);
    let mut sockets = bind_on(&fake, link_local, "eth0").unwrap();
    let all = fake.world().present.clone();
    fake.world().present.retain(|address| address.interface != "eth0");
    let changes = sockets.look_at_addresses(&fake).unwrap();
    assert_eq!(changes, Changes { lost: vec![link_local], gained: vec![], again: false });
    fake.world().present = all;
    let changes = sockets.look_at_addresses(&fake).unwrap();
    assert_eq!(changes, Changes { lost: vec![], gained: vec![link_local], again: false });
    assert_eq!(sockets.addresses()[0].index, 2);
}

/// During duplicate address detection, an address is visible but cannot be bound.
#[test]
fn a_socket_that_cannot_be_opened_again_yet_is_tried_again() {
    let fake = Fake::default();
    let link_local: IpAddr = "fe80::1".parse().unwrap();
    let mut sockets = bind_on(&fake, link_local, "eth0").unwrap();
    let port = sockets.udp_port();
    let mut look = || sockets.look_at_addresses(&fake).unwrap();
    fake.world().present.iter_mut().for_each(|address| address.index = 9);
    let tentative = SocketAddr::V6(SocketAddrV6::new("fe80::1".parse().unwrap(), port, 0, 9));
    fake.world().taken_ports.insert(tentative);
    assert_eq!(look(), Changes { lost: vec![link_local], gained: vec![], again: true });
    assert_eq!(look(), Changes { lost: vec![], gained: vec![], again: true });
    fake.world().taken_ports.clear();
    assert_eq!(look(), Changes { lost: vec![], gained: vec![link_local], again: false });
    assert_eq!(look(), Changes::default());
}

#[test]
fn an_endpoint_on_all_addresses_follows_them() {
    let fake = Fake::default();
    let mut sockets = bind(&fake, &[], 0).unwrap();
    let removed = fake.world().present.remove(0);
    let changes = sockets.look_at_addresses(&fake).unwrap();
    assert_eq!(changes, Changes { lost: vec![ip(1)], gained: vec![], again: false });
    assert_eq!(ips(&sockets), [ip(2)]);
    fake.world().present.push(removed);
    let changes = sockets.look_at_addresses(&fake).unwrap();
    assert_eq!(changes, Changes { lost: vec![], gained: vec![ip(1)], again: false });
}

#[test]
fn outlets_live_as_long_as_their_interfaces() {
    let fake = Fake::default();
    fake.world().strays = true;
    let mut sockets = bind(&fake, &[], 0).unwrap();
    let transmit = Transmit { roams: true, ..transmit(ip(2), 3, 3) };
    let send = |sockets: &mut SocketSet| {
        sockets.find_outlet(&fake, Instant::ZERO, &transmit);
        sockets.send(&transmit, b"abc");
    };
    send(&mut sockets);
    send(&mut sockets);
    assert_eq!((sockets.len(), &fake.world().outlets[..]), (2, &["eth1".to_owned()][..]));
    // It has no address of its own to announce.
    assert_eq!(ips(&sockets), [ip(1), ip(2)]);
    // Another interface with the same name.
    fake.world().present[1].index = 9;
    sockets.look_at_addresses(&fake).unwrap();
    assert_eq!(sockets.len(), 1);
    send(&mut sockets);
    assert_eq!((sockets.len(), fake.world().outlets.len()), (2, 2));
    // With one interface, the system is not asked.
    fake.world().present.remove(0);
    sockets.look_at_addresses(&fake).unwrap();
    send(&mut sockets);
    assert_eq!(fake.world().sent.len(), 4);
}

#[test]
fn an_outlet_that_fails_is_done_without() {
    let fake = Fake::default();
    fake.world().strays = true;
    let mut sockets = bind(&fake, &[], 0).unwrap();
    let transmit = Transmit { roams: true, ..transmit(ip(2), 3, 3) };
    let unreachable = TransmitError::Failed(io::ErrorKind::NetworkUnreachable.into());
    fake.world().failures.push_back(unreachable);
    sockets.find_outlet(&fake, Instant::ZERO, &transmit);
    sockets.send(&transmit, b"abc");
    assert_eq!(fake.calls(), [3]);
    assert!(sockets.take_problems().is_empty());
    assert_eq!(sockets.outlet_of(&transmit), None);
}
