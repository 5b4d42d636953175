//! The SCTP protocol engine of anabranch: RFC 9260 without I/O.
//!
//! The engine does not read a clock, open sockets, spawn tasks or have a source of randomness. Its
//! inputs are time, packets and a seed; its outputs are packets, deadlines and events. Simulators,
//! tests and sockets drive the same functions with the same bytes; [`Endpoint`] explains how.
//!
//! To read the code, follow a packet: `endpoint` finds the association, `association` handles its
//! life cycle, `receive` turns DATA into messages, and `sender` decides what is sent and
//! retransmitted. The sender uses `send` to turn messages into DATA, `recovery` to detect losses,
//! `congestion` to limit the data in flight, `path` for the state of one pair of addresses, and
//! `policy` to choose between paths.
#![forbid(unsafe_code)]

mod association;
mod authentication;
pub mod byte_mode;
pub mod config;
pub mod congestion;
mod cookie;
mod datagram;
mod encapsulation;
mod endpoint;
pub mod error;
mod event;
mod features;
#[cfg(feature = "marks")]
pub mod marks;
#[cfg(not(feature = "marks"))]
mod marks;
mod memory;
mod message;
mod named;
mod options;
mod pages;
mod path;
mod per_path;
mod policy;
mod receive;
mod reconfiguration;
mod recovery;
mod reliability;
mod revision;
mod rng;
mod roaming;
mod send;
mod sender;
mod stats;
mod stream_set;
mod tag_mark;
mod time;
mod tsn;
mod user_data;

pub use anabranch_wire::Ppid;
pub use association::Association;
pub use authentication::{AuthenticationConfig, ChunkTypes, HmacAlgorithm, KeyError, SharedKeys};
pub use config::{
    AssociationConfig, BurstControl, ClassPaths, Coupling, DataPath, DormantBehaviour,
    Encapsulation, EndpointConfig, Handover, HeartbeatRetry, IdleCwnd, InitialCwnd,
    InitiationOrder, LossDetection, MtuConfig, MultipathConfig, MultipathMode, NewPathWindow,
    PathChoice, ProtocolUnreachable, RetransmissionPolicy, RetransmissionPrecedence, Revision,
    RtoFloor, SchedulerKind, SlowPaths, UnknownName, Vigilance,
};
pub use endpoint::{
    AssociationMut, ConnectRequest, Ecn, Endpoint, IcmpKind, IcmpMessage, Log, LoggedPacket,
    Received, Transmit,
};
pub use error::{ConnectError, ListenError, NoSuchPath, SendError, SendErrorReason};
pub use event::{
    AssociationId, AssociationState, AuthenticationChange, CloseReason, Detail, Event, InQlog,
    InSockets, Notification, NotificationKind, PathState,
};
pub use features::Features;
pub use message::{Message, OutgoingMessage, Payload};
pub use per_path::PathId;
pub use policy::PathMetrics;
pub use policy::informed::padhye_throughput;
pub use reconfiguration::{ReconfigurationError, ReconfigurationResult, StreamDirection};
pub use reliability::{GivenUpBy, GivenUpMessages, Reliability};
pub use roaming::{AddressChange, AddressError};
#[cfg(fuzzing)]
#[doc(hidden)]
pub use send::ring_model::check as check_ring;
pub use send::{Cause as LossCause, StreamPriority};
pub use sender::Decision;
pub use stats::{
    Blocked, Blocking, Counter, CounterKind, Counters, HeldBack, Number, PathStatistics,
    PathTotals, RetransmissionQueue, Statistics, Unit,
};
pub use tag_mark::TagMark;
pub use time::Instant;
