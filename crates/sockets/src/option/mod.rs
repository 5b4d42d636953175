//! Options of associations as values (RFC 6458 section 8).
//!
//! Each value knows which options of the engine it stands for. Sockets, packet scripts and bindings only
//! translate their own forms of these values.

mod association;
mod path;

use anabranch_proto::AssociationConfig;

pub use association::{
    AdaptationLayer, AssocParams, AutoClose, DelayedSack, InitMsg, MaxBurst, MaxSegment, NoDelay,
    NrSackSupported, PartialDeliveryPoint, ReceiveBuffer, RtoInfo, SendBuffer,
};
pub use path::{PathMtu, PathParameters, PathThresholds};

/// An option of associations. `None` in a field keeps the present value.
pub trait AssociationOption: Sized {
    /// Whether only one-to-many sockets have the option.
    const ONE_TO_MANY_ONLY: bool = false;

    /// Sets the option in a configuration, which
    /// [`validate`](AssociationConfig::validate) checks afterwards.
    fn apply(&self, config: &mut AssociationConfig);

    /// The option's value in a configuration, with all fields set.
    fn of(config: &AssociationConfig) -> Self;
}

/// Whether something is on, and with which value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Setting<T> {
    /// As it is.
    #[default]
    Keep,
    /// Off.
    Off,
    /// On with a value; `None` keeps the value.
    On(Option<T>),
}

impl<T> Setting<T> {
    /// On with a value, or off.
    pub const fn of(value: Option<T>) -> Self
    where
        T: Copy,
    {
        match value {
            Some(value) => Self::On(Some(value)),
            None => Self::Off,
        }
    }

    /// Sets an option that may be off.
    fn apply(self, option: &mut Option<T>) {
        match self {
            Self::Keep | Self::On(None) => {}
            Self::Off => *option = None,
            Self::On(value) => *option = value,
        }
    }
}
