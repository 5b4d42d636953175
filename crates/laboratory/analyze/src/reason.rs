//! Reasons for excluding a packet.

use std::fmt;

/// Why a packet is not part of any flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Reason {
    /// The capture's link type is not supported.
    LinkType(u32),
    /// A frame with an EtherType that carries neither TCP nor SCTP.
    EtherType(u16),
    /// An 802.2 LLC frame without IP.
    Llc,
    /// An 802.11 management or control frame.
    WifiControl,
    /// An encrypted frame.
    Encrypted,
    /// A PPP frame with a protocol that carries neither TCP nor SCTP.
    Ppp(u16),
    /// Neither IPv4 nor IPv6 where there should be one.
    NotIp,
    /// An IP packet with another protocol.
    IpProtocol(u8),
    /// UDP that carries neither TCP nor SCTP.
    Udp,
    /// The snapshot length cut the packet off in this header.
    Cut(&'static str),
    /// This header contradicts itself.
    Malformed(&'static str),
    /// IP fragments of an incomplete packet.
    Fragment,
    /// Tunnels are nested too deeply.
    TooDeep,
    /// The file does not describe its interface.
    NoInterface,
    /// All further reasons; a capture with this many is unusual.
    Further,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::LinkType(link) => write!(f, "link type {link} is not read"),
            Self::EtherType(kind) => match ether_type(kind) {
                Some(name) => f.write_str(name),
                None => write!(f, "EtherType {kind:#06x}"),
            },
            Self::Llc => f.write_str("802.2 LLC without IP"),
            Self::WifiControl => f.write_str("802.11 management and control"),
            Self::Encrypted => f.write_str("encrypted frames"),
            Self::Ppp(protocol) => write!(f, "PPP protocol {protocol:#06x}"),
            Self::NotIp => f.write_str("neither IPv4 nor IPv6"),
            Self::IpProtocol(number) => match ip_protocol(number) {
                Some(name) => f.write_str(name),
                None => write!(f, "IP protocol {number}"),
            },
            Self::Udp => f.write_str("UDP without SCTP"),
            Self::Cut(what) => write!(f, "cut off in the {what} header (snapshot length)"),
            Self::Malformed(what) => write!(f, "malformed {what}"),
            Self::Fragment => f.write_str("IP fragments without the others"),
            Self::TooDeep => f.write_str("too many tunnels in each other"),
            Self::NoInterface => f.write_str("the interface is not described"),
            Self::Further => f.write_str("further reasons"),
        }
    }
}

fn ether_type(kind: u16) -> Option<&'static str> {
    Some(match kind {
        0x0806 => "ARP",
        0x8035 => "RARP",
        0x8809 => "LACP and other slow protocols",
        0x8863 => "PPPoE discovery",
        0x888e => "EAPOL (802.1X)",
        0x88cc => "LLDP",
        0x88e5 => "MACsec",
        0x88f7 => "PTP",
        0x9000 => "Ethernet loopback",
        _ => return None,
    })
}

fn ip_protocol(number: u8) -> Option<&'static str> {
    Some(match number {
        1 => "ICMP",
        2 => "IGMP",
        33 => "DCCP",
        50 => "ESP (encrypted)",
        58 => "ICMPv6",
        59 => "IPv6 without payload",
        88 => "EIGRP",
        89 => "OSPF",
        103 => "PIM",
        112 => "VRRP",
        115 => "L2TP",
        136 => "UDP-Lite",
        _ => return None,
    })
}
