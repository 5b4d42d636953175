//! The socket calls for SCTP of RFC 6458, in user space.
//!
//! [`Socket`] has the calls. It blocks as the sockets of an operating system do, has a descriptor that
//! `poll` can wait for, and comes in both styles of RFC 6458: one-to-one and one-to-many. Sockets stand on a
//! [`Host`], whose thread runs their associations. Bindings to other languages translate these calls.
//!
//! What the calls take and return are values without the layout of any language: [`SendInfo`] and the other
//! ancillary data, [`Notification`], [`Status`], [`Error`]. They are there without the feature `driver`,
//! too, and on all systems, for drivers of the engine that have sockets of their own, such as packet scripts.
//! The enums are exhaustive, so that a binding that does not translate a new variant does not compile.
#![forbid(unsafe_code)]

mod assoc_id;
mod error;
mod family;
mod message;
mod notification;
mod option;
mod status;

#[cfg(all(feature = "driver", target_os = "linux"))]
mod descriptor;
#[cfg(all(feature = "driver", target_os = "linux"))]
mod endpoints;
#[cfg(all(feature = "driver", target_os = "linux"))]
mod failures;
#[cfg(all(feature = "driver", target_os = "linux"))]
mod host;
#[cfg(all(feature = "driver", target_os = "linux"))]
mod socket;
#[cfg(all(feature = "driver", target_os = "linux"))]
mod wait;

pub use assoc_id::AssocId;
#[cfg(all(feature = "driver", target_os = "linux"))]
pub use endpoints::{Binding, Endpoints, Lease, Local};
pub use error::Error;
pub use family::{Family, mapped};
#[cfg(all(feature = "driver", target_os = "linux"))]
pub use host::Host;
pub use message::{NextInfo, ReceiveInfo, SendFlags, SendInfo};
pub use notification::{AddressChange, AssocChange, Event, EventKind, FailedMessage, Notification};
pub use option::{
    AdaptationLayer, AssocParams, AssociationOption, AutoClose, DelayedSack, InitMsg, MaxBurst,
    MaxSegment, NoDelay, NrSackSupported, PartialDeliveryPoint, PathMtu, PathParameters,
    PathThresholds, ReceiveBuffer, RtoInfo, SendBuffer, Setting,
};
#[cfg(all(feature = "driver", target_os = "linux"))]
pub use socket::{
    Options, Own, PROFILE, Received, Receiving, Refused, Sending, Socket, Style, Taken,
};
pub use status::{AssocInfo, AssociationTotals, PathInfo, Status};
