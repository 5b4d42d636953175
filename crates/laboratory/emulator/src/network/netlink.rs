//! Requests to the kernel of a namespace: loopback device up, queue length, addresses, routes.

use std::io;
use std::net::IpAddr;

use netlink_packet_core::{
    NLM_F_ACK, NLM_F_CREATE, NLM_F_REPLACE, NLM_F_REQUEST, NetlinkHeader, NetlinkMessage,
    NetlinkPayload,
};
use netlink_packet_route::address::{AddressAttribute, AddressMessage};
use netlink_packet_route::link::{LinkAttribute, LinkFlags, LinkMessage};
use netlink_packet_route::route::{
    RouteAddress, RouteAttribute, RouteHeader, RouteMessage, RouteMetric, RouteProtocol,
    RouteScope, RouteType,
};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};
use netlink_sys::protocols::NETLINK_ROUTE;
use netlink_sys::{Socket, SocketAddr};

/// A socket to the kernel of the namespace in which it was made.
pub(crate) struct Kernel(Socket);

/// Bits of an address that name the network of its link.
pub(super) const NETWORK_V4: u8 = 24;
pub(super) const NETWORK_V6: u8 = 64;

/// The loopback device is always the first one of a namespace.
const LOOPBACK: u32 = 1;

impl Kernel {
    pub(crate) fn here() -> io::Result<Self> {
        let mut socket = Socket::new(NETLINK_ROUTE)?;
        socket.bind_auto()?;
        socket.connect(&SocketAddr::new(0, 0))?;
        Ok(Self(socket))
    }

    pub(super) fn loopback_up(&self) -> io::Result<()> {
        let mut message = LinkMessage::default();
        message.header.index = LOOPBACK;
        message.header.flags = LinkFlags::Up;
        message.header.change_mask = LinkFlags::Up;
        self.ask(RouteNetlinkMessage::SetLink(message), 0)
    }

    /// Sets how many packets wait in a device until they are read. (The alternative ioctl requires root of the whole
    /// system.)
    pub(super) fn set_queue(&self, device: u32, packets: u32) -> io::Result<()> {
        let mut message = LinkMessage::default();
        message.header.index = device;
        message.attributes = vec![LinkAttribute::TxQueueLen(packets)];
        self.ask(RouteNetlinkMessage::SetLink(message), 0)
    }

    /// Gives a device an address, or takes it away.
    pub(crate) fn set_address(
        &self,
        address: IpAddr,
        device: u32,
        present: bool,
    ) -> io::Result<()> {
        let (family, length) = match address {
            IpAddr::V4(_) => (AddressFamily::Inet, NETWORK_V4),
            IpAddr::V6(_) => (AddressFamily::Inet6, NETWORK_V6),
        };
        let mut message = AddressMessage::default();
        message.header.family = family;
        message.header.prefix_len = length;
        message.header.index = device;
        message.attributes =
            vec![AddressAttribute::Local(address), AddressAttribute::Address(address)];
        match present {
            true => self.ask(RouteNetlinkMessage::NewAddress(message), NLM_F_CREATE),
            false => self.ask(RouteNetlinkMessage::DelAddress(message), 0),
        }
    }

    /// Routes packets to this address through a device.
    pub(super) fn add_route(&self, to: IpAddr, device: u32) -> io::Result<()> {
        self.route(to, device, Vec::new(), NLM_F_CREATE)
    }

    /// Replaces the route, and sets the initial values of connections that use it.
    pub(crate) fn set_route(
        &self,
        to: IpAddr,
        device: u32,
        metrics: Vec<RouteMetric>,
    ) -> io::Result<()> {
        self.route(to, device, metrics, NLM_F_CREATE | NLM_F_REPLACE)
    }

    fn route(
        &self,
        to: IpAddr,
        device: u32,
        metrics: Vec<RouteMetric>,
        flags: u16,
    ) -> io::Result<()> {
        let (family, length, address) = match to {
            IpAddr::V4(v4) => (AddressFamily::Inet, 32, RouteAddress::Inet(v4)),
            IpAddr::V6(v6) => (AddressFamily::Inet6, 128, RouteAddress::Inet6(v6)),
        };
        let mut message = RouteMessage::default();
        message.header = RouteHeader {
            address_family: family,
            destination_prefix_length: length,
            table: RouteHeader::RT_TABLE_MAIN,
            protocol: RouteProtocol::Static,
            scope: RouteScope::Link,
            kind: RouteType::Unicast,
            ..RouteHeader::default()
        };
        message.attributes =
            vec![RouteAttribute::Destination(address), RouteAttribute::Oif(device)];
        if !metrics.is_empty() {
            message.attributes.push(RouteAttribute::Metrics(metrics));
        }
        self.ask(RouteNetlinkMessage::NewRoute(message), flags)
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
            NetlinkPayload::Error(error) => match error.code {
                None => Ok(()),
                Some(_) => Err(error.to_io()),
            },
            _ => Ok(()),
        }
    }
}
