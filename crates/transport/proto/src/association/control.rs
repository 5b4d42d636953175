//! Control chunks that wait for a packet.

use anabranch_wire::{
    Abort, Causes, Chunk, Cwr, Error, HEADER_LEN, NoRoom, PacketWriter, Shutdown, ShutdownComplete,
    Tsn, kind,
};
use bytes::Bytes;

/// Bytes of a chunk header.
const CHUNK_HEADER: usize = 4;

/// A queued control chunk. Fields that may still change are filled in when it is sent.
#[derive(Debug)]
pub(crate) enum Control {
    Init,
    CookieEcho,
    CookieAck,
    /// Contains the value of the HEARTBEAT, unchanged.
    HeartbeatAck(Bytes),
    /// A request or an answer of stream reconfiguration, encoded as in the chunk.
    ReConfig(Bytes),
    /// Requests to change this side's addresses, encoded as in the chunk.
    Asconf(Bytes),
    /// The answer to such requests of the peer, encoded as in the chunk.
    AsconfAck(Bytes),
    /// Error causes, encoded as in the chunk.
    Error(Vec<u8>),
    Shutdown,
    ShutdownAck,
    ShutdownComplete,
    /// A CWR: the window was lowered for the packet with this TSN.
    WindowReduced(Tsn),
    /// The last chunk of an association, with its error causes.
    Abort(Vec<u8>),
    /// An ABORT with `tag` that answers an INIT ACK of a peer whose tag is not stored.
    Refuse {
        tag: u32,
        tag_reflected: bool,
        causes: Vec<u8>,
    },
}

impl Control {
    /// Whether nothing else may be in the packet.
    // req: rfc9260 6.10 "An endpoint MUST NOT bundle INIT, INIT ACK, or"
    // req: rfc9260 3 "MUST NOT be bundled with any other chunk"
    // req: rfc9260 5.1 "MUST NOT be bundled with any other chunk"
    // req: rfc9260 5.1 "MUST be the only chunks present"
    // req: rfc9260 12.3 "MUST NOT be bundled with any other chunk"
    // req: rfc9260 3.3.7 "DATA chunks MUST NOT be bundled with ABORT"
    // req: rfc9260 3.3.7 "MUST be placed before the ABORT chunk"
    // req: rfc9260 9.1 "MUST NOT bundle any DATA chunk with the"
    pub(crate) fn stands_alone(&self) -> bool {
        matches!(self, Self::Init | Self::ShutdownComplete | Self::Abort(_) | Self::Refuse { .. })
    }

    /// Its chunk type.
    pub(crate) fn kind(&self) -> u8 {
        match self {
            Self::Init => kind::INIT,
            Self::CookieEcho => kind::COOKIE_ECHO,
            Self::CookieAck => kind::COOKIE_ACK,
            Self::HeartbeatAck(_) => kind::HEARTBEAT_ACK,
            Self::ReConfig(_) => kind::RE_CONFIG,
            Self::Asconf(_) => kind::ASCONF,
            Self::AsconfAck(_) => kind::ASCONF_ACK,
            Self::Error(_) => kind::ERROR,
            Self::Shutdown => kind::SHUTDOWN,
            Self::ShutdownAck => kind::SHUTDOWN_ACK,
            Self::ShutdownComplete => kind::SHUTDOWN_COMPLETE,
            Self::WindowReduced(_) => kind::CWR,
            Self::Abort(_) | Self::Refuse { .. } => kind::ABORT,
        }
    }

    /// Whether it is a chunk that does not fit into a packet of `full` bytes, because it repeats
    /// contents of a larger packet.
    pub(crate) fn is_oversized(&self, full: usize) -> bool {
        match self {
            Self::HeartbeatAck(value)
            | Self::ReConfig(value)
            | Self::Asconf(value)
            | Self::AsconfAck(value) => HEADER_LEN + CHUNK_HEADER + value.len() > full,
            _ => false,
        }
    }

    /// Whether it must be the first chunk of its packet.
    // req: rfc9260 5.1 "chunk MUST be the first chunk in the packet"
    // req: rfc9260 3.3.11 "This chunk MUST precede any DATA chunk"
    // req: rfc9260 3.3.12 "MUST precede any DATA or SACK chunk"
    // req: rfc9260 5.1.5 "MUST be the first chunk in the SCTP"
    // req: rfc9260 5.1.5 "MUST appear first in the SCTP packet"
    pub(crate) fn goes_first(&self) -> bool {
        matches!(self, Self::CookieEcho | Self::CookieAck)
    }

    /// Writes a chunk that depends on nothing but the cumulative TSN.
    pub(crate) fn write(
        &self,
        cumulative: Tsn,
        packet: &mut PacketWriter<'_>,
    ) -> Result<(), NoRoom> {
        match self {
            Self::CookieAck => packet.chunk(&Chunk::CookieAck),
            // req: rfc9260 3.3.6 "This field MUST contain the Heartbeat Info parameter"
            Self::HeartbeatAck(value) => packet.raw(kind::HEARTBEAT_ACK, 0, value),
            Self::ReConfig(value) => packet.raw(kind::RE_CONFIG, 0, value),
            Self::Asconf(value) => packet.raw(kind::ASCONF, 0, value),
            Self::AsconfAck(value) => packet.raw(kind::ASCONF_ACK, 0, value),
            Self::Error(causes) => {
                packet.chunk(&Chunk::Error(Error { causes: Causes::new(causes) }))
            }
            Self::Shutdown => {
                packet.chunk(&Chunk::Shutdown(Shutdown { cumulative_tsn_ack: cumulative }))
            }
            Self::ShutdownAck => packet.chunk(&Chunk::ShutdownAck),
            // req: rfc9260 8.5.1 "tag MUST be used and the T bit MUST"
            // req: rfc9260 3.3.13 "This chunk MUST be used to acknowledge"
            Self::ShutdownComplete => {
                packet.chunk(&Chunk::ShutdownComplete(ShutdownComplete { tag_reflected: false }))
            }
            Self::WindowReduced(lowest_tsn) => {
                packet.chunk(&Chunk::Cwr(Cwr { lowest_tsn: *lowest_tsn, marked_packets: None }))
            }
            Self::Abort(causes) => packet
                .chunk(&Chunk::Abort(Abort { tag_reflected: false, causes: Causes::new(causes) })),
            Self::Refuse { tag_reflected, causes, .. } => packet.chunk(&Chunk::Abort(Abort {
                tag_reflected: *tag_reflected,
                causes: Causes::new(causes),
            })),
            // `transmit` writes these, which depend on more of the association.
            Self::Init | Self::CookieEcho => Ok(()),
        }
    }
}
