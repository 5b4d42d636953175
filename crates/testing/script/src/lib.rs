//! Packet scripts: inject this packet, expect that packet, make this call and expect that result.
//!
//! The language is packetdrill's for SCTP. It adds a column for the path, so that hosts may have
//! several addresses, and a few calls beyond the socket API. A script drives one
//! [`Endpoint`](anabranch_proto::Endpoint) in virtual time. It needs no network, no privileges and
//! only a few milliseconds. `docs/scripts.md` describes the language.
//!
//! ```
//! let text = "
//! +0 socket(..., SOCK_STREAM, IPPROTO_SCTP) = 3
//! +0 bind(3, ..., ...) = 0
//! +0 listen(3, 1) = 0
//! +0 < sctp: INIT[flgs=0, tag=1, a_rwnd=1500, os=1, is=1, tsn=1]
//! +0 > sctp: INIT_ACK[flgs=0, tag=2, a_rwnd=..., os=..., is=..., tsn=1, ...]
//! +0 < sctp: COOKIE_ECHO[flgs=0, len=..., val=...]
//! +0 > sctp: COOKIE_ACK[flgs=0]
//! +0 accept(3, ..., ...) = 4
//! ";
//! let script = anabranch_script::Script::parse("example.pkt", text)?;
//! script.run()?;
//! # Ok::<(), anabranch_script::Failure>(())
//! ```
#![forbid(unsafe_code)]

mod codec;
mod failure;
mod files;
mod node;
mod read;
mod run;
mod schema;

pub use failure::{Failure, FailureKind, Place};
pub use files::scripts;
pub use read::Script;
pub use run::Passed;
