//! The IP packets of a capture, for comparisons of captures.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::io::Read;
use std::net::IpAddr;

use crate::decode::outermost;
use crate::reader::{self, ReadError, Stopped};

/// An IP packet in a capture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IpPacket {
    /// Nanoseconds since 1970.
    pub time: u64,
    /// Number of the interface in its file.
    pub interface: u32,
    /// Source address.
    pub from: IpAddr,
    /// A hash of the parts that do not change on the way: addresses, identification and payload. Different packets
    /// almost never have the same hash; copies always do.
    pub content: u64,
}

/// Passes each IP packet of a capture to `take`, as far as the file can be read.
///
/// # Errors
/// Fails if the input is not a capture.
pub fn packets(
    source: impl Read + Send,
    mut take: impl FnMut(IpPacket),
) -> Result<Stopped, ReadError> {
    reader::read(source, |captured| {
        let Some(link) = captured.link else { return };
        let Ok(packet) = outermost(link, captured.piece) else { return };
        let mut content = DefaultHasher::new();
        (packet.from, packet.to, packet.identification, packet.size).hash(&mut content);
        let offset = packet.fragment.map(|fragment| (fragment.identification, fragment.offset));
        (packet.protocol, offset).hash(&mut content);
        content.write(packet.payload.data);
        take(IpPacket {
            time: captured.time,
            interface: captured.interface,
            from: packet.from,
            content: content.finish(),
        });
    })
}
