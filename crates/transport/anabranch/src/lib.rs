//! SCTP in user space (RFC 9260): associations over several paths and many streams, on any host, with or without kernel
//! SCTP and without privileges, over UDP (RFC 6951).
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use anabranch::{AssociationConfig, ConnectOptions, Endpoint};
//! use tokio::io::{AsyncReadExt, AsyncWriteExt};
//!
//! let addresses = [[127, 0, 0, 1].into(), [127, 0, 0, 2].into()];
//! let server = Endpoint::builder().local_addresses(addresses).bind()?;
//! let listener = server.listen(5000, AssociationConfig::default())?;
//! let mut options = ConnectOptions::default();
//! options.remote_udp_port = server.udp_port();
//! let client = Endpoint::builder().local_addresses(addresses).bind()?;
//! let (near, far) = tokio::join!(client.connect((addresses[0], 5000), options), listener.accept());
//! let (mut send, _) = near?.open_stream().await?;
//! send.write_all(b"over two paths").await?;
//! send.shutdown().await?;
//! let (_, mut recv) = far.unwrap().accept_stream().await?.unwrap();
//! let mut text = String::new();
//! recv.read_to_string(&mut text).await?;
//! assert_eq!(text, "over two paths");
//! # Ok(())
//! # }
//! ```
//!
//! With [`Builder::encapsulation`] an endpoint uses IP protocol 132, as kernels do. That needs raw sockets, and thus
//! root or the capability CAP_NET_RAW.
//!
//! An [`Endpoint`] owns the sockets of one UDP port. Endpoints share nothing, and a process may have any number of
//! them. An endpoint [connects](Endpoint::connect) to peers and [listens](Endpoint::listen) on any number of SCTP
//! ports. An [`Association`] carries messages, each on a stream, ordered or unordered, with a payload protocol
//! identifier: see [`Association::send`] and [`Association::recv`]. [`SendStream`] and [`RecvStream`] are the two
//! directions of one stream, for messages or for bytes ([`byte_mode`]).
//!
//! One task, or several ([`Builder::shards`]), run each endpoint; no other code uses the sockets. Everything else
//! happens under a lock that is held only briefly, so handles may be used from any thread and task. All futures except
//! that of [`SendStream::write_bytes`] are cancel-safe, and the end of an association wakes all waiting tasks.
#![forbid(unsafe_code)]

mod association;
mod buffers;
pub mod byte_mode;
mod capture;
pub mod congestion;
mod driver;
mod endpoint;
mod error;
mod notification_log;
mod numbers;
mod options;
pub mod runtime;
#[cfg(feature = "seal")]
pub mod seal;
mod shards;
mod shared;
mod sockets;
mod state;
mod statistics;
mod strangers;
mod streams;
mod wakers;

#[cfg(feature = "impair")]
pub use anabranch_impair as impair;
pub use anabranch_proto::config;
#[doc(no_inline)]
pub use anabranch_proto::config::{
    AssociationConfig, ChunkTypes, ClassPaths, ConfigError, Coupling, DataPath, DormantBehaviour,
    Encapsulation, EndpointConfig, Handover, HmacAlgorithm, InitiationOrder, IpVersions, KeyError,
    MultipathConfig, MultipathMode, NewPathWindow, OutOfTheBlue, PathChoice, ProtocolUnreachable,
    RetransmissionPolicy, RetransmissionPrecedence, RtoFloor, SharedKeys, SlowPaths, Vigilance,
};
pub use anabranch_proto::{
    AddressChange, AddressError, AssociationState, AuthenticationChange, Blocked, Blocking,
    CloseReason, Counter, CounterKind, Counters, Detail, Features, GivenUpBy, GivenUpMessages,
    HeldBack, InQlog, InSockets, Message, NoSuchPath, Notification, NotificationKind, Number,
    OutgoingMessage, PathId, PathMetrics, PathState, PathStatistics, PathTotals, Payload, Ppid,
    ReconfigurationError, ReconfigurationResult, Reliability, RetransmissionQueue, Statistics,
    StreamDirection, StreamPriority, Unit,
};
pub use anabranch_qlog::{EventLog, VantagePoint};
pub use association::{Association, Events, RecvError, RecvStream, Reservation, SendStream};
pub use capture::CaptureFile;
pub use endpoint::{AssociationSnapshot, Builder, Endpoint, EndpointSnapshot, Listener};
pub use error::{
    AssociationError, BindError, CloseError, ConnectError, ListenError, SendError, SendErrorReason,
    StreamError,
};
pub use options::{ConnectOptions, ListenOptions, Remotes, SCTP_UDP_PORT};
pub use statistics::EndpointStatistics;

/// The programs of the guides.
#[cfg(doctest)]
#[doc = include_str!("../../../../docs/guides.md")]
mod guides {}
