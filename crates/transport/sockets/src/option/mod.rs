//! Association options as values (RFC 6458 section 8).
//!
//! Each value knows its options of the engine. Sockets, packet scripts and bindings only translate to and from
//! these values.

mod association;
mod path;

use anabranch_proto::AssociationConfig;

pub use association::{
    AdaptationLayer, AsconfSupported, AssocParams, AuthSupported, AutoAsconf, AutoClose,
    DelayedSack, EcnSupported, EnableStreamReset, InitMsg, InterleavingSupported, MaxBurst,
    MaxSegment, NoDelay, NrSackSupported, PartialDeliveryPoint, PluggableCc, PrSupported,
    ReceiveBuffer, ReconfigSupported, RtoInfo, SendBuffer, StreamScheduler,
};
pub use path::{PathMtu, PathParameters, PathThresholds};

/// An association option. A field that is `None` keeps its current value.
pub trait AssociationOption: Sized {
    /// Whether only one-to-many sockets have the option.
    const ONE_TO_MANY_ONLY: bool = false;

    /// Whether it is a hint, which is stored when it is too late to change an association.
    const HINT: bool = false;

    /// Sets the option in a configuration, which
    /// [`validate`](AssociationConfig::validate) checks afterwards.
    fn apply(&self, config: &mut AssociationConfig);

    /// The option's value in a configuration, with all fields set.
    fn of(config: &AssociationConfig) -> Self;
}

/// A change of an option that can be off or have a value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Setting<T> {
    /// Unchanged.
    #[default]
    Keep,
    /// Off.
    Off,
    /// On with this value; `None` keeps the current value.
    On(Option<T>),
}

impl<T> Setting<T> {
    /// `On` with a value, or `Off`.
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
