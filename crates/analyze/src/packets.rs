//! The IP packets of a capture, for those who compare captures.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::io::Read;
use std::net::IpAddr;

use etherparse::LaxNetSlice;

use crate::decode::slice;
use crate::reader::{self, ReadError, Stopped};

/// An IP packet in a capture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IpPacket {
    /// Nanoseconds since 1970.
    pub time: u64,
    /// Number of the interface in its file.
    pub interface: u32,
    /// Where it comes from.
    pub from: IpAddr,
    /// A number for what does not change on the way: addresses, identification and payload. Other packets very
    /// seldom have the same, copies always.
    pub content: u64,
}

/// Gives each IP packet of a capture to `take`, as far as the file goes.
///
/// # Errors
/// What is no capture at all.
pub fn packets(
    source: impl Read + Send,
    mut take: impl FnMut(IpPacket),
) -> Result<Stopped, ReadError> {
    reader::read(source, |captured| {
        let Some(packet) = slice(captured.link, captured.data) else { return };
        let mut content = DefaultHasher::new();
        let from = match &packet.net {
            Some(LaxNetSlice::Ipv4(v4)) => {
                let header = v4.header();
                let (from, to) = (header.source_addr(), header.destination_addr());
                (from, to, header.identification(), header.total_len()).hash(&mut content);
                (header.protocol().0, header.fragments_offset().value()).hash(&mut content);
                IpAddr::V4(from)
            }
            Some(LaxNetSlice::Ipv6(v6)) => {
                let header = v6.header();
                let (from, to) = (header.source_addr(), header.destination_addr());
                (from, to, header.payload_length()).hash(&mut content);
                IpAddr::V6(from)
            }
            _ => return,
        };
        if let Some(payload) = packet.net.as_ref().and_then(|net| net.ip_payload_ref()) {
            content.write(payload.payload);
        }
        take(IpPacket {
            time: captured.time,
            interface: captured.interface,
            from,
            content: content.finish(),
        });
    })
}
