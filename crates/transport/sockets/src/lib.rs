//! The SCTP socket calls of RFC 6458, in user space.
//!
//! ```
//! # fn main() -> Result<(), anabranch_sockets::Error> {
//! # #[cfg(all(feature = "driver", target_os = "linux"))] {
//! use std::net::{Ipv4Addr, SocketAddr};
//! use anabranch_sockets::{AssocId, Family, Host, Receiving, Socket, Style, Taken};
//!
//! let host = Host::start()?;
//! let server = Socket::new(&host, Style::OneToOne, Family::Ipv4)?;
//! // SCTP over UDP on any free port; the usual port is 9899.
//! server.change_options(|options| options.udp_port = Some(0));
//! server.bind(&[SocketAddr::from((Ipv4Addr::LOCALHOST, 0))])?;
//! server.listen(1)?;
//!
//! let client = Socket::new(&host, Style::OneToOne, Family::Ipv4)?;
//! client.set_remote_udp_port(AssocId::FUTURE, server.udp_port())?;
//! client.connect(vec![server.name()])?;
//! client.message("hello", &[]).send(false)?;
//!
//! let (accepted, _) = server.accept(false)?;
//! let received = accepted.receive(1000, Receiving::default())?;
//! let Taken::Message { data, info, .. } = received.taken else { panic!("a message") };
//! assert_eq!((data.concat().as_slice(), info.stream), (&b"hello"[..], 0));
//! # }
//! # Ok(())
//! # }
//! ```
//!
//! [`Socket`] has the calls. Like an operating system's socket it can block, and it has a descriptor that
//! `poll` can wait for. It comes in both styles of RFC 6458: one-to-one and one-to-many. Sockets belong to a
//! [`Host`], whose thread runs their associations. Bindings to other languages translate these calls.
//!
//! The calls take and return values that do not depend on any language's memory layout: [`SendInfo`] and the
//! other ancillary data, [`Notification`], [`Status`], [`Error`]. These are also available without the feature
//! `driver` and on all systems, for drivers of the engine that have their own sockets, such as packet scripts.
//! The enums are exhaustive: a binding that does not translate a new variant does not compile.
#![forbid(unsafe_code)]

mod assoc_id;
mod error;
mod family;
mod message;
mod notification;
mod option;
pub mod policy;
mod status;

#[cfg(all(feature = "driver", target_os = "linux"))]
mod descriptor;
#[cfg(all(feature = "driver", target_os = "linux"))]
mod endpoints;
#[cfg(all(feature = "driver", target_os = "linux"))]
mod failures;
#[cfg(all(feature = "driver", target_os = "linux"))]
mod hooks;
#[cfg(all(feature = "driver", target_os = "linux"))]
mod host;
#[cfg(all(feature = "driver", target_os = "linux"))]
mod lock;
#[cfg(all(feature = "driver", target_os = "linux"))]
mod reactor;
#[cfg(all(feature = "driver", target_os = "linux"))]
mod socket;
#[cfg(all(feature = "driver", target_os = "linux"))]
mod wait;

pub use assoc_id::AssocId;
#[cfg(all(feature = "driver", target_os = "linux"))]
pub use endpoints::{Binding, Lease, Local};
pub use error::Error;
pub use family::{Family, mapped};
#[cfg(all(feature = "driver", target_os = "linux"))]
pub use hooks::Hooks;
#[cfg(all(feature = "driver", target_os = "linux"))]
pub use host::Host;
pub use message::{NextInfo, ReceiveInfo, SendFlags, SendInfo};
pub use notification::{
    AddressChange, AssocChange, CutShort, Event, EventKind, FailedMessage, Notification,
};
pub use option::{
    AdaptationLayer, AsconfSupported, AssocParams, AssociationOption, AuthSupported, AutoAsconf,
    AutoClose, DelayedSack, EcnSupported, EnableStreamReset, InitMsg, InterleavingSupported,
    MaxBurst, MaxSegment, NoDelay, NrSackSupported, PartialDeliveryPoint, PathMtu, PathParameters,
    PathThresholds, PluggableCc, PrSupported, ReceiveBuffer, ReconfigSupported, RtoInfo,
    SendBuffer, Setting, StreamScheduler,
};
#[cfg(all(feature = "driver", target_os = "linux"))]
pub use socket::{
    Options, Own, PROFILE, Received, Receiving, Refused, Sending, Socket, Style, Taken,
};
pub use status::{AssocInfo, AssociationTotals, GivenUp, PathInfo, Status};
