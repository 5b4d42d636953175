//! The network of the command's namespace: a TUN device with all routes, and files that name our resolver.

use std::fs;
use std::io::{self, Write as _};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener};
use std::path::Path;
use std::time::Duration;

use netlink_packet_core::{
    NLM_F_ACK, NLM_F_CREATE, NLM_F_REQUEST, NetlinkHeader, NetlinkMessage, NetlinkPayload,
};
use netlink_packet_route::link::{LinkFlags, LinkMessage};
use netlink_packet_route::route::{
    RouteAttribute, RouteHeader, RouteMessage, RouteProtocol, RouteScope, RouteType,
};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};
use netlink_sys::protocols::NETLINK_ROUTE;
use netlink_sys::{Socket, SocketAddr as Kernel};
use nix::mount::{MsFlags, mount};
use socket2::{Domain, Type};
use tun_rs::{DeviceBuilder, SyncDevice};

/// The addresses of the command, in the networks of the addresses that stand for names, but not among those.
pub(super) const OWN_4: Ipv4Addr = Ipv4Addr::new(198, 19, 0, 1);
pub(super) const OWN_6: Ipv6Addr = Ipv6Addr::new(0xfd61, 0x6e61, 0x6272, 0x616e, 0, 0, 0, 1);

/// Where translated connections come from.
pub(super) const TRANSLATED_4: Ipv4Addr = Ipv4Addr::new(198, 19, 0, 2);
pub(super) const TRANSLATED_6: Ipv6Addr = Ipv6Addr::new(0xfd61, 0x6e61, 0x6272, 0x616e, 0, 0, 0, 2);

/// Where the command's questions about names go.
pub(super) const RESOLVER: Ipv4Addr = Ipv4Addr::new(198, 19, 0, 3);

/// The largest packets: they go through memory only, and few large ones cost less than many small ones.
const MTU: u16 = 65_535;

/// The name of the device in the namespace.
const DEVICE: &str = "anabranch";

/// The loopback device is the first one of every namespace.
const LOOPBACK: u32 = 1;

/// Most connections that wait to be accepted.
const BACKLOG: i32 = 1024;

/// How often and at which intervals it is tried to use an address of IPv6.
const TRIES: usize = 400;
const PAUSE: Duration = Duration::from_millis(5);

/// The parts of a namespace that other processes use.
pub(super) struct Network {
    pub(super) device: SyncDevice,
    pub(super) v4: TcpListener,
    /// A system may have no IPv6.
    pub(super) v6: Option<TcpListener>,
}

/// Sets up the network of the namespace in which this thread is. The error is a sentence.
pub(super) fn set_up() -> Result<Network, String> {
    let device = DeviceBuilder::new().name(DEVICE).mtu(MTU).ipv4(OWN_4, 32, None).build_sync();
    let device = device.map_err(|error| no_device(&error))?;
    let failed = |what: &'static str| {
        move |error: io::Error| {
            format!("the network of the command cannot be set up: {what}: {error}")
        }
    };
    device.set_nonblocking(true).map_err(failed("its device"))?;
    let index = device.if_index().map_err(failed("its device"))?;
    let kernel = Route::open().map_err(failed("its routes"))?;
    kernel.up(LOOPBACK).map_err(failed("its loopback device"))?;
    kernel.default_route(AddressFamily::Inet, index).map_err(failed("its routes"))?;
    let v4 = listen(OWN_4.into()).map_err(failed("its proxy"))?;
    // Without IPv6 there must be no route, so that it is unreachable.
    let v6 = device.add_address_v6(OWN_6, 128).and_then(|()| {
        let listener = listen_when_usable(OWN_6.into())?;
        kernel.default_route(AddressFamily::Inet6, index)?;
        Ok(listener)
    });
    Ok(Network { device, v4, v6: v6.ok() })
}

/// Listens on an address of IPv6, which the kernel lets nobody use for a moment after it was added (it is tentative,
/// RFC 4862 section 5.4, although nobody else can have it).
fn listen_when_usable(ip: IpAddr) -> io::Result<TcpListener> {
    for _ in 0..TRIES {
        match listen(ip) {
            Err(error) if error.kind() == io::ErrorKind::AddrNotAvailable => {
                std::thread::sleep(PAUSE);
            }
            result => return result,
        }
    }
    listen(ip)
}

fn no_device(error: &io::Error) -> String {
    let file = Path::new("/dev/net/tun");
    let advice = match (file.exists(), error.kind()) {
        (false, _) => {
            "this system has no /dev/net/tun: load the module with 'modprobe tun', or give the container the device"
        }
        (true, io::ErrorKind::PermissionDenied) => {
            "/dev/net/tun is closed to this user: open it as root with 'chmod 0666 /dev/net/tun'"
        }
        _ => "the command needs a TUN device",
    };
    format!("no TUN device can be created: {error}; {advice}, or use the proxy without a command")
}

fn listen(ip: IpAddr) -> io::Result<TcpListener> {
    let address = SocketAddr::new(ip, 0);
    let socket = socket2::Socket::new(Domain::for_address(address), Type::STREAM, None)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    socket.set_nonblocking(true)?;
    Ok(socket.into())
}

/// A socket for requests about devices and routes.
struct Route(Socket);

impl Route {
    fn open() -> io::Result<Self> {
        let mut socket = Socket::new(NETLINK_ROUTE)?;
        socket.bind_auto()?;
        socket.connect(&Kernel::new(0, 0))?;
        Ok(Self(socket))
    }

    fn up(&self, device: u32) -> io::Result<()> {
        let mut message = LinkMessage::default();
        message.header.index = device;
        message.header.flags = LinkFlags::Up;
        message.header.change_mask = LinkFlags::Up;
        self.ask(RouteNetlinkMessage::SetLink(message), 0)
    }

    /// Sends everything through a device.
    fn default_route(&self, family: AddressFamily, device: u32) -> io::Result<()> {
        let mut message = RouteMessage::default();
        message.header = RouteHeader {
            address_family: family,
            table: RouteHeader::RT_TABLE_MAIN,
            protocol: RouteProtocol::Static,
            scope: RouteScope::Universe,
            kind: RouteType::Unicast,
            ..RouteHeader::default()
        };
        message.attributes = vec![RouteAttribute::Oif(device)];
        self.ask(RouteNetlinkMessage::NewRoute(message), NLM_F_CREATE)
    }

    fn ask(&self, message: RouteNetlinkMessage, flags: u16) -> io::Result<()> {
        let mut header = NetlinkHeader::default();
        header.flags = NLM_F_REQUEST | NLM_F_ACK | flags;
        let mut packet = NetlinkMessage::new(header, NetlinkPayload::from(message));
        packet.finalize();
        let mut bytes = vec![0; packet.buffer_len()];
        packet.serialize(&mut bytes);
        self.0.send(&bytes, 0)?;
        let (answer, _) = self.0.recv_from_full()?;
        let answer = NetlinkMessage::<RouteNetlinkMessage>::deserialize(&answer)
            .map_err(|error| io::Error::other(error.to_string()))?;
        match answer.payload {
            NetlinkPayload::Error(error) if error.code.is_some() => Err(error.to_io()),
            _ => Ok(()),
        }
    }
}

/// Directories of services that resolve names for programs. Their sockets would lead around the gateway.
const RESOLVERS: [&str; 2] = ["/run/systemd/resolve", "/run/nscd"];

/// Files that name the resolver: the usual one, and those to which it may be a link.
const FILES: [&str; 3] = ["/etc/resolv.conf", "resolv.conf", "stub-resolv.conf"];

/// Makes programs of this mount namespace ask our resolver.
pub(super) fn use_resolver() -> Result<(), String> {
    let none = None::<&str>;
    mount(none, "/", none, MsFlags::MS_REC | MsFlags::MS_PRIVATE, none)
        .map_err(|error| format!("mounts cannot be made private: {}", error.desc()))?;
    let content = format!("nameserver {RESOLVER}\noptions timeout:2 attempts:3\n");
    for directory in RESOLVERS.map(Path::new).into_iter().filter(|path| path.is_dir()) {
        let flags = MsFlags::MS_NOSUID | MsFlags::MS_NODEV | MsFlags::MS_NOEXEC;
        let hidden =
            mount(Some("tmpfs"), directory, Some("tmpfs"), flags, Some("size=64k,mode=755"));
        hidden.map_err(|error| {
            format!("{} cannot be hidden: {}", directory.display(), error.desc())
        })?;
        for file in &FILES[1..] {
            let _ = fs::write(directory.join(file), &content);
        }
    }
    // A link into a directory that was hidden leads to the right content by now.
    if fs::read_to_string(FILES[0]).is_ok_and(|now| now == content) {
        return Ok(());
    }
    let failed =
        |error: io::Error| format!("names cannot be resolved through the gateway: {error}");
    let mut file = tempfile::NamedTempFile::new().map_err(failed)?;
    file.write_all(content.as_bytes()).map_err(failed)?;
    let readable = std::os::unix::fs::PermissionsExt::from_mode(0o644);
    file.as_file().set_permissions(readable).map_err(failed)?;
    // The mount keeps the file when its name is removed.
    mount(Some(file.path()), FILES[0], none, MsFlags::MS_BIND, none).map_err(|error| {
        format!("names cannot be resolved through the gateway, because /etc/resolv.conf cannot be replaced: {}", error.desc())
    })
}
