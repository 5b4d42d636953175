//! HTTP/1.1 over connections with many byte streams.
//!
//! A connection is anything that opens or accepts numbered bidirectional byte streams ([`OpenStreams`],
//! [`AcceptStreams`]): an SCTP association, or, as the baseline, a set of TCP connections. Each stream
//! carries unmodified HTTP/1.1, and an answer is sent on the stream of its request.
//!
//! - [`serve_connection`] answers requests on all streams of a connection with a hyper service;
//!   [`Files`] is one that serves a directory.
//! - [`fetch`] distributes a list of transactions over a pool of streams, each to the next free one,
//!   and writes
//!   the answers to files.
//! - [`load_page`] loads a page, first the index and then the embedded objects, and records when each
//!   part arrived.
//!
//! With the feature `http3`, `load_page_http3` loads the same page over HTTP/3, for comparison; the
//! caller provides the QUIC connection.
#![forbid(unsafe_code)]

mod access;
mod answers;
mod client;
mod error;
mod files;
mod gate;
mod handed;
mod host;
mod page;
mod priority;
mod sctp;
mod server;
mod stream;
pub mod tcp;
mod turn;
mod uploads;
mod url;

pub use access::{Access, Logged, LoggedBody};
pub use client::{
    Bounds, Budget, FetchOptions, FetchReport, Fetched, Observer, Output, Pace, Part, Placement,
    Silent, Source, Transaction, Upload, fetch, fetch_with, fetch_within, is_unfinished, part_of,
    put_all,
};
pub use error::FetchError;
pub use files::{FileBody, Files, Unreadable};
#[cfg(feature = "http3")]
pub use page::load_page_http3;
pub use page::{ObjectLoad, PageLoad, PageRequest, is_listing, links, load_page};
pub use priority::Priority;
pub use sctp::SctpStream;
pub use server::{Served, ServerOptions, serve_connection};
pub use stream::{
    AcceptStreams, ByteStream, OpenStreams, Pending, Prioritise, StreamTotals, TakeBytes,
};
pub use uploads::{Store, Uploads};
pub use url::{Authority, Host, Scheme, Url, UrlError, split_udp_port};
