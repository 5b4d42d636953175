//! SCTP in user space: associations over several paths and many streams, without kernel support
//! and without privileges, over UDP (RFC 9260, RFC 6951).
#![forbid(unsafe_code)]

mod association;
mod buffers;
pub mod byte_mode;
mod capture;
mod driver;
mod endpoint;
mod error;
mod handle;
mod inbound;
mod listener;
mod notification;
mod options;
mod recv_stream;
pub mod runtime;
mod send_stream;
mod shared;
mod sockets;
mod state;
mod wakers;

pub use anabranch_proto::{
    AssociationConfig, CloseReason, EndpointConfig, Message, OutgoingMessage, PathState, Payload,
    Ppid, Statistics,
};
pub use association::Association;
pub use endpoint::{Builder, Endpoint, EndpointStatistics};
pub use error::{
    AssociationError, BindError, CloseError, ConnectError, ListenError, SendError, SendErrorReason,
    StreamError,
};
pub use listener::Listener;
pub use notification::{Events, Notification};
pub use options::{ConnectOptions, ListenOptions, Remotes, SCTP_UDP_PORT};
pub use recv_stream::{RecvError, RecvStream};
pub use send_stream::SendStream;
