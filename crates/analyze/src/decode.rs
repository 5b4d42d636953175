//! From a frame to what is said of TCP or SCTP in it.

use std::net::IpAddr;

use anabranch_wire::Packet;
use etherparse::{LaxNetSlice, LaxSlicedPacket, TransportSlice};

/// Link types (https://www.tcpdump.org/linktypes.html).
const NULL: i32 = 0;
const ETHERNET: i32 = 1;
const RAW: [i32; 5] = [12, 14, 101, 228, 229];
const LOOP: i32 = 108;
const COOKED: i32 = 113;
const COOKED2: i32 = 276;

const SCTP: u8 = 132;
/// The port of SCTP in UDP (RFC 6951 section 6.1).
const SCTP_PORT: u16 = 9899;

/// Where a packet goes from and to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Ends {
    pub(crate) from: (IpAddr, u16),
    pub(crate) to: (IpAddr, u16),
}

/// What is in a packet.
pub(crate) enum Content<'a> {
    Tcp(Segment),
    /// An SCTP packet, without its common header; it may be cut off.
    Sctp(&'a [u8]),
}

/// What is said of a TCP segment.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Segment {
    pub(crate) sequence: u32,
    pub(crate) acknowledgment: Option<u32>,
    /// Bytes of data, also of those that were not captured.
    pub(crate) length: u32,
    pub(crate) syn: bool,
    pub(crate) fin: bool,
    pub(crate) rst: bool,
    /// Value of the timestamp option.
    pub(crate) timestamp: Option<u32>,
    pub(crate) mss: Option<u16>,
    pub(crate) window_scale: bool,
    pub(crate) sack_permitted: bool,
    /// There are SACK blocks.
    pub(crate) sacks: bool,
}

pub(crate) struct Decoded<'a> {
    pub(crate) ends: Ends,
    pub(crate) content: Content<'a>,
    /// IPv4's identification, unless it is 0.
    pub(crate) identification: Option<u16>,
    /// Bytes of the IP packet.
    pub(crate) size: u32,
}

/// The headers of a frame; `None` for links that are not known.
pub(crate) fn slice(link: i32, data: &[u8]) -> Option<LaxSlicedPacket<'_>> {
    let ip = |at: usize| LaxSlicedPacket::from_ip(data.get(at..)?).ok();
    match link {
        ETHERNET => LaxSlicedPacket::from_ethernet(data).ok(),
        NULL | LOOP => ip(4),
        COOKED => ip(16),
        COOKED2 => ip(20),
        link if RAW.contains(&link) => ip(0),
        _ => None,
    }
}

/// A packet that can be understood; `None` for all others.
pub(crate) fn decode(link: i32, data: &[u8]) -> Option<Decoded<'_>> {
    let packet = slice(link, data)?;
    let (from, to, identification, size, head) = match packet.net.as_ref()? {
        LaxNetSlice::Ipv4(v4) => {
            let header = v4.header();
            let id = Some(header.identification()).filter(|id| *id > 0);
            let (size, head) = (u32::from(header.total_len()), u32::from(header.ihl()) * 4);
            (header.source_addr().into(), header.destination_addr().into(), id, size, head)
        }
        LaxNetSlice::Ipv6(v6) => {
            let header = v6.header();
            let size = u32::from(header.payload_length()) + 40;
            // What is not payload is headers.
            let extensions = u32::try_from(v6.extensions().slice().len()).unwrap_or(0);
            (
                header.source_addr().into(),
                header.destination_addr().into(),
                None,
                size,
                40 + extensions,
            )
        }
        LaxNetSlice::Arp(_) => return None,
    };
    let payload = packet.net.as_ref()?.ip_payload_ref()?;
    if payload.fragmented {
        return None;
    }
    let ends = |source: u16, destination: u16| Ends { from: (from, source), to: (to, destination) };
    match &packet.transport {
        Some(TransportSlice::Tcp(tcp)) => {
            let own = u32::from(tcp.data_offset()) * 4;
            let mut segment = Segment {
                sequence: tcp.sequence_number(),
                acknowledgment: tcp.ack().then(|| tcp.acknowledgment_number()),
                length: size.saturating_sub(head).saturating_sub(own),
                syn: tcp.syn(),
                fin: tcp.fin(),
                rst: tcp.rst(),
                ..Segment::default()
            };
            crate::tcp::read_options(tcp.options(), &mut segment);
            let ends = ends(tcp.source_port(), tcp.destination_port());
            Some(Decoded { ends, content: Content::Tcp(segment), identification, size })
        }
        Some(TransportSlice::Udp(udp)) => {
            let ports = (udp.source_port(), udp.destination_port());
            // On other ports its checksum gives it away, if it is whole.
            let told = ports.0 == SCTP_PORT || ports.1 == SCTP_PORT;
            let is_sctp = told || Packet::parse(udp.payload()).is_ok_and(|p| p.checksum_ok());
            is_sctp.then(|| sctp(udp.payload(), from, to, identification, size)).flatten()
        }
        None if payload.ip_number.0 == SCTP => {
            sctp(payload.payload, from, to, identification, size)
        }
        _ => None,
    }
}

fn sctp(
    packet: &[u8],
    from: IpAddr,
    to: IpAddr,
    identification: Option<u16>,
    size: u32,
) -> Option<Decoded<'_>> {
    let port = |at: usize| Some(u16::from_be_bytes(packet.get(at..at + 2)?.try_into().ok()?));
    let ends = Ends { from: (from, port(0)?), to: (to, port(2)?) };
    let content = Content::Sctp(packet.get(12..)?);
    Some(Decoded { ends, content, identification, size })
}
