//! Chunks: the parts of a packet, one file each.

mod abort;
mod asconf;
mod auth;
mod cookie_echo;
mod data;
mod ecne;
mod error;
mod forward_tsn;
mod heartbeat;
mod i_data;
mod i_forward_tsn;
mod init;
pub mod kind;
mod nr_sack;
mod pad;
mod raw;
mod re_config;
mod sack;
mod shutdown;
mod shutdown_complete;
#[cfg(test)]
pub(crate) mod testing;
mod timestamp;

use core::fmt;

use alloc::vec::Vec;

pub use abort::Abort;
pub use asconf::{Asconf, AsconfAck};
pub use auth::Auth;
pub use cookie_echo::CookieEcho;
pub use data::{Data, DataFlags};
pub use ecne::{Cwr, Ecne};
pub use error::Error;
pub use forward_tsn::{ForwardTsn, SkippedStream};
pub use heartbeat::{Heartbeat, HeartbeatAck};
pub use i_data::IData;
pub use i_forward_tsn::{IForwardTsn, SkippedMessage};
pub use init::{Init, InitAck};
pub use nr_sack::NrSack;
pub(crate) use nr_sack::put_fixed;
pub use pad::Pad;
pub use raw::{RawChunk, UnknownAction};
pub use re_config::ReConfig;
pub use sack::Sack;
pub use shutdown::Shutdown;
pub use shutdown_complete::ShutdownComplete;
pub use timestamp::Timestamp;

use crate::error::ChunkError;
use crate::tlv;

/// A chunk with its meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Chunk<'a> {
    /// User data.
    Data(Data<'a>),
    /// Opens an association.
    Init(Init<'a>),
    /// Answers an INIT.
    InitAck(InitAck<'a>),
    /// Acknowledges data.
    Sack(Sack<'a>),
    /// Asks whether a path works.
    Heartbeat(Heartbeat<'a>),
    /// Answers a HEARTBEAT.
    HeartbeatAck(HeartbeatAck<'a>),
    /// Ends an association at once.
    Abort(Abort<'a>),
    /// Starts the graceful end.
    Shutdown(Shutdown),
    /// Answers a SHUTDOWN.
    ShutdownAck,
    /// Reports errors.
    Error(Error<'a>),
    /// Brings the state cookie back.
    CookieEcho(CookieEcho<'a>),
    /// Answers a COOKIE ECHO.
    CookieAck,
    /// Reports a congestion mark.
    Ecne(Ecne),
    /// Answers an ECNE.
    Cwr(Cwr),
    /// Completes the graceful end.
    ShutdownComplete(ShutdownComplete),
    /// Tells the peer to go on without abandoned data.
    ForwardTsn(ForwardTsn<'a>),
    /// User data of interleaved messages.
    IData(IData<'a>),
    /// FORWARD TSN for interleaved messages.
    IForwardTsn(IForwardTsn<'a>),
    /// Acknowledges data, partly for good.
    NrSack(NrSack<'a>),
    /// Changes streams.
    ReConfig(ReConfig<'a>),
    /// Changes addresses.
    Asconf(Asconf<'a>),
    /// Answers an ASCONF.
    AsconfAck(AsconfAck<'a>),
    /// Authenticates the chunks behind it.
    Auth(Auth<'a>),
    /// Nothing but size.
    Pad(Pad<'a>),
    /// Tells when a packet left, and brings such a time back.
    Timestamp(Timestamp),
    /// A type not known here.
    Unknown(RawChunk<'a>),
}

impl<'a> Chunk<'a> {
    fn decode(raw: RawChunk<'a>) -> Result<Self, ChunkError> {
        Ok(match raw.kind {
            kind::DATA => Self::Data(Data::parse(&raw)?),
            kind::INIT => Self::Init(Init::parse(&raw)?),
            kind::INIT_ACK => Self::InitAck(Init::parse(&raw)?),
            kind::SACK => Self::Sack(Sack::parse(&raw)?),
            kind::HEARTBEAT => Self::Heartbeat(Heartbeat::parse(&raw)?),
            kind::HEARTBEAT_ACK => Self::HeartbeatAck(Heartbeat::parse(&raw)?),
            kind::ABORT => Self::Abort(Abort::parse(&raw)?),
            kind::SHUTDOWN => Self::Shutdown(Shutdown::parse(&raw)?),
            kind::SHUTDOWN_ACK => Self::ShutdownAck,
            kind::ERROR => Self::Error(Error::parse(&raw)?),
            kind::COOKIE_ECHO => Self::CookieEcho(CookieEcho::parse(&raw)?),
            kind::COOKIE_ACK => Self::CookieAck,
            kind::ECNE => Self::Ecne(Ecne::parse(&raw)?),
            kind::CWR => Self::Cwr(Ecne::parse(&raw)?),
            kind::SHUTDOWN_COMPLETE => Self::ShutdownComplete(ShutdownComplete::parse(&raw)?),
            kind::FORWARD_TSN => Self::ForwardTsn(ForwardTsn::parse(&raw)?),
            kind::I_DATA => Self::IData(IData::parse(&raw)?),
            kind::I_FORWARD_TSN => Self::IForwardTsn(IForwardTsn::parse(&raw)?),
            kind::NR_SACK => Self::NrSack(NrSack::parse(&raw)?),
            kind::RE_CONFIG => Self::ReConfig(ReConfig::parse(&raw)?),
            kind::ASCONF => Self::Asconf(Asconf::parse(&raw)?),
            kind::ASCONF_ACK => Self::AsconfAck(AsconfAck::parse(&raw)?),
            kind::AUTH => Self::Auth(Auth::parse(&raw)?),
            kind::PAD => Self::Pad(Pad::parse(&raw)?),
            kind::TIMESTAMP => Self::Timestamp(Timestamp::parse(&raw)?),
            _ => Self::Unknown(raw),
        })
    }

    /// The chunk's type.
    #[must_use]
    pub const fn kind(&self) -> u8 {
        match self {
            Self::Data(_) => kind::DATA,
            Self::Init(_) => kind::INIT,
            Self::InitAck(_) => kind::INIT_ACK,
            Self::Sack(_) => kind::SACK,
            Self::Heartbeat(_) => kind::HEARTBEAT,
            Self::HeartbeatAck(_) => kind::HEARTBEAT_ACK,
            Self::Abort(_) => kind::ABORT,
            Self::Shutdown(_) => kind::SHUTDOWN,
            Self::ShutdownAck => kind::SHUTDOWN_ACK,
            Self::Error(_) => kind::ERROR,
            Self::CookieEcho(_) => kind::COOKIE_ECHO,
            Self::CookieAck => kind::COOKIE_ACK,
            Self::Ecne(_) => kind::ECNE,
            Self::Cwr(_) => kind::CWR,
            Self::ShutdownComplete(_) => kind::SHUTDOWN_COMPLETE,
            Self::ForwardTsn(_) => kind::FORWARD_TSN,
            Self::IData(_) => kind::I_DATA,
            Self::IForwardTsn(_) => kind::I_FORWARD_TSN,
            Self::NrSack(_) => kind::NR_SACK,
            Self::ReConfig(_) => kind::RE_CONFIG,
            Self::Asconf(_) => kind::ASCONF,
            Self::AsconfAck(_) => kind::ASCONF_ACK,
            Self::Auth(_) => kind::AUTH,
            Self::Pad(_) => kind::PAD,
            Self::Timestamp(_) => kind::TIMESTAMP,
            Self::Unknown(raw) => raw.kind,
        }
    }

    // req: rfc9260 3.3.2 "bits in it SHOULD be set to 0"
    // req: rfc9260 3.3.3 "bits in it SHOULD be set to 0"
    const fn flags(&self) -> u8 {
        match self {
            Self::Data(data) => data.flags.0,
            Self::IData(data) => data.flags.0,
            Self::Abort(abort) => abort.tag_reflected as u8,
            Self::Timestamp(timestamp) => timestamp.flags(),
            Self::ShutdownComplete(complete) => complete.tag_reflected as u8,
            Self::Unknown(raw) => raw.flags,
            _ => 0,
        }
    }

    /// Appends header, value and padding to `out`. A chunk of more than 65532
    /// bytes is cut there; a [`PacketWriter`](crate::PacketWriter) refuses it
    /// instead.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let start = out.len();
        tlv::write(out, [self.kind(), self.flags()], |out| match self {
            Self::Data(chunk) => chunk.encode_value(out),
            Self::Init(chunk) | Self::InitAck(chunk) => chunk.encode_value(out),
            Self::Sack(chunk) => chunk.encode_value(out),
            Self::Heartbeat(chunk) | Self::HeartbeatAck(chunk) => chunk.encode_value(out),
            Self::Abort(chunk) => chunk.encode_value(out),
            Self::Shutdown(chunk) => chunk.encode_value(out),
            Self::ShutdownAck | Self::CookieAck | Self::ShutdownComplete(_) => {}
            Self::Error(chunk) => chunk.encode_value(out),
            Self::CookieEcho(chunk) => chunk.encode_value(out),
            Self::Ecne(chunk) | Self::Cwr(chunk) => chunk.encode_value(out),
            Self::ForwardTsn(chunk) => chunk.encode_value(out),
            Self::IData(chunk) => chunk.encode_value(out),
            Self::IForwardTsn(chunk) => chunk.encode_value(out),
            Self::NrSack(chunk) => chunk.encode_value(out),
            Self::ReConfig(chunk) => chunk.encode_value(out),
            Self::Asconf(chunk) => chunk.encode_value(out),
            Self::AsconfAck(chunk) => chunk.encode_value(out),
            Self::Auth(chunk) => chunk.encode_value(out),
            Self::Pad(chunk) => chunk.encode_value(out),
            Self::Timestamp(chunk) => chunk.encode_value(out),
            Self::Unknown(raw) => out.extend_from_slice(raw.value),
        });
        tlv::pad(out, start);
    }
}

impl fmt::Display for Chunk<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        kind::Name(self.kind()).fmt(f)?;
        match self {
            Self::ShutdownAck | Self::CookieAck => return Ok(()),
            Self::ShutdownComplete(ShutdownComplete { tag_reflected: false }) => return Ok(()),
            _ => f.write_str(" ")?,
        }
        match self {
            Self::Data(chunk) => chunk.fmt(f),
            Self::Init(chunk) | Self::InitAck(chunk) => chunk.fmt(f),
            Self::Sack(chunk) => chunk.fmt(f),
            Self::Heartbeat(chunk) | Self::HeartbeatAck(chunk) => chunk.fmt(f),
            Self::Abort(chunk) => chunk.fmt(f),
            Self::Shutdown(chunk) => chunk.fmt(f),
            Self::ShutdownAck | Self::CookieAck => Ok(()),
            Self::Error(chunk) => chunk.fmt(f),
            Self::CookieEcho(chunk) => chunk.fmt(f),
            Self::Ecne(chunk) | Self::Cwr(chunk) => chunk.fmt(f),
            Self::ShutdownComplete(chunk) => chunk.fmt(f),
            Self::ForwardTsn(chunk) => chunk.fmt(f),
            Self::IData(chunk) => chunk.fmt(f),
            Self::IForwardTsn(chunk) => chunk.fmt(f),
            Self::NrSack(chunk) => chunk.fmt(f),
            Self::ReConfig(chunk) => chunk.fmt(f),
            Self::Asconf(chunk) => chunk.fmt(f),
            Self::AsconfAck(chunk) => chunk.fmt(f),
            Self::Auth(chunk) => chunk.fmt(f),
            Self::Pad(chunk) => chunk.fmt(f),
            Self::Timestamp(chunk) => chunk.fmt(f),
            Self::Unknown(raw) => write!(f, "{} bytes", raw.raw_len()),
        }
    }
}
