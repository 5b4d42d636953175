//! Web pages in virtual time, with the same code as on real networks.
//!
//! A client and a server are joined by one path, whose directions are links of [`anabranch_impair`]. The
//! server is [`anabranch_http::serve_connection`], the client [`anabranch_http::load_page`]; between them is
//! SCTP of the library [`anabranch`], or a number of TCP connections of [`anabranch_tcp`]. The same page can
//! also be loaded over HTTP/3, by quinn and h3 ([`Carriage::Http3`]). A [`Download`] is one large file, over
//! several paths that may be cut. Nothing ever waits in real time: an executor ([`World`]) polls ready
//! tasks, and when none is ready, its clock jumps to the next deadline.
//!
//! Deadlines of the library, of TCP, of QUIC and of the links are exact to the nanosecond. The tokio
//! timers in HTTP/1.1, which guard against stalled peers, are exact to a millisecond.
//!
//! ```
//! use anabranch_web::{Carriage, Load, Site};
//!
//! let site = Site::uniform(10, 10_000, 500);
//! let sctp = Load::new(site.clone(), Carriage::Sctp { streams: 10 }).run()?;
//! let tcp = Load::new(site, Carriage::Tcp { connections: 1, pipelined: true }).run()?;
//! assert!(sctp.page.is_complete() && tcp.page.is_complete());
//! # Ok::<(), anabranch_web::LoadError>(())
//! ```
#![forbid(unsafe_code)]

mod download;
mod executor;
mod hosts;
mod load;
mod network;
mod quic;
mod sctp;
mod site;
mod sockets;
mod tcp;
mod timers;
mod today;

pub use anabranch::config::AssociationConfig;
pub use anabranch_http::{ObjectLoad, PageLoad};
pub use anabranch_impair::{GilbertElliott, LinkConfig, LinkStats, Loss, Probability, QueueLimit};
pub use anabranch_tcp::Config as TcpConfig;
pub use download::{Carrier, Download, Downloaded};
pub use executor::World;
pub use load::{Carriage, Load, LoadError, Loaded, Transport};
pub use quic::QuicCongestion;
pub use site::Site;
pub use today::tcp_of_today;

#[cfg(test)]
mod tests;
