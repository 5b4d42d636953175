//! Chunks: the parts of a packet, one in each file.
//!
//! The table `chunks!` below has one row for each type. The enum [`Chunk`], decoding, encoding, text,
//! the constants of [`kind`] and their names follow from it. To add a chunk, write its file and its
//! row.

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
mod table;
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
use table::chunks;

chunks! {
    values {
        /// User data.
        Data(Data<'a>) [flags] = DATA 0x00, "DATA", "RFC 9260 section 3.3.1";
        /// Opens an association.
        Init(Init<'a>) = INIT 0x01, "INIT", "RFC 9260 section 3.3.2";
        /// Answers an INIT.
        InitAck(InitAck<'a>) = INIT_ACK 0x02, "INIT ACK", "RFC 9260 section 3.3.3";
        /// Acknowledges data.
        Sack(Sack<'a>) = SACK 0x03, "SACK", "RFC 9260 section 3.3.4";
        /// Probes a path.
        Heartbeat(Heartbeat<'a>) = HEARTBEAT 0x04, "HEARTBEAT", "RFC 9260 section 3.3.5";
        /// Answers a HEARTBEAT.
        HeartbeatAck(HeartbeatAck<'a>)
            = HEARTBEAT_ACK 0x05, "HEARTBEAT ACK", "RFC 9260 section 3.3.6";
        /// Ends an association immediately.
        Abort(Abort<'a>) [flags] = ABORT 0x06, "ABORT", "RFC 9260 section 3.3.7";
        /// Starts the graceful end.
        Shutdown(Shutdown) = SHUTDOWN 0x07, "SHUTDOWN", "RFC 9260 section 3.3.8";
        /// Reports errors.
        Error(Error<'a>) = ERROR 0x09, "ERROR", "RFC 9260 section 3.3.10";
        /// Returns the state cookie.
        CookieEcho(CookieEcho<'a>) = COOKIE_ECHO 0x0a, "COOKIE ECHO", "RFC 9260 section 3.3.11";
        /// Reports a congestion mark.
        Ecne(Ecne) = ECNE 0x0c, "ECNE", "RFC 4960 appendix A; reserved in RFC 9260 section 3.2";
        /// Answers an ECNE.
        Cwr(Cwr) = CWR 0x0d, "CWR", "RFC 4960 appendix A; reserved in RFC 9260 section 3.2";
        /// Completes the graceful end.
        ShutdownComplete(ShutdownComplete) [flags]
            = SHUTDOWN_COMPLETE 0x0e, "SHUTDOWN COMPLETE", "RFC 9260 section 3.3.13";
        /// Authenticates the chunks after it.
        Auth(Auth<'a>) = AUTH 0x0f, "AUTH", "RFC 4895 section 4.1";
        /// Acknowledges data, some of it irrevocably.
        NrSack(NrSack<'a>) = NR_SACK 0x10, "NR-SACK", "draft-natarajan-tsvwg-sctp-nrsack";
        /// User data of interleaved messages.
        IData(IData<'a>) [flags] = I_DATA 0x40, "I-DATA", "RFC 8260 section 2.1";
        /// Answers an ASCONF.
        AsconfAck(AsconfAck<'a>) = ASCONF_ACK 0x80, "ASCONF-ACK", "RFC 5061 section 4.1.2";
        /// Changes streams.
        ReConfig(ReConfig<'a>) = RE_CONFIG 0x82, "RE-CONFIG", "RFC 6525 section 3.1";
        /// Padding.
        Pad(Pad<'a>) = PAD 0x84, "PAD", "RFC 4820 section 3";
        /// Carries the send time of a packet, and echoes the peer's.
        Timestamp(Timestamp) [flags]
            = TIMESTAMP 0x9e, "TIMESTAMP", "caro 2.4.2; the number is not assigned by IANA";
        /// Lets the peer continue without abandoned data.
        ForwardTsn(ForwardTsn<'a>) = FORWARD_TSN 0xc0, "FORWARD TSN", "RFC 3758 section 3.2";
        /// Changes addresses.
        Asconf(Asconf<'a>) = ASCONF 0xc1, "ASCONF", "RFC 5061 section 4.1.1";
        /// FORWARD TSN for interleaved messages.
        IForwardTsn(IForwardTsn<'a>)
            = I_FORWARD_TSN 0xc2, "I-FORWARD-TSN", "RFC 8260 section 2.3.1";
    }
    headers {
        /// Answers a SHUTDOWN.
        ShutdownAck = SHUTDOWN_ACK 0x08, "SHUTDOWN ACK", "RFC 9260 section 3.3.9";
        /// Answers a COOKIE ECHO.
        CookieAck = COOKIE_ACK 0x0b, "COOKIE ACK", "RFC 9260 section 3.3.12";
    }
}

impl Chunk<'_> {
    /// Appends header, value and padding to `out`. A chunk of more than 65532
    /// bytes is cut there; a [`PacketWriter`](crate::PacketWriter) refuses it
    /// instead.
    // req: rfc9260 3.3.2 "bits in it SHOULD be set to 0"
    // req: rfc9260 3.3.3 "bits in it SHOULD be set to 0"
    pub fn encode(&self, out: &mut Vec<u8>) {
        let start = out.len();
        tlv::write(out, [self.kind(), self.flags()], |out| self.encode_value(out));
        tlv::pad(out, start);
    }
}

impl fmt::Display for Chunk<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        kind::Name(self.kind()).fmt(f)?;
        match self {
            Self::ShutdownComplete(ShutdownComplete { tag_reflected: false }) => Ok(()),
            _ => self.fmt_value(f),
        }
    }
}
