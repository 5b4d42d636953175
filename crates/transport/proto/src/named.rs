//! Names of policies in files and on command lines.

use std::fmt;

/// A name that does not belong to any policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownName {
    pub(crate) name: String,
    pub(crate) known: &'static [&'static str],
}

impl fmt::Display for UnknownName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "'{}' is not one of {}", self.name, self.known.join(", "))
    }
}

impl std::error::Error for UnknownName {}

/// Gives an enum names, for `Display` and `FromStr`; further names of a variant are only parsed.
macro_rules! named {
    ($type:ident { $($variant:ident = $name:literal $(| $alias:literal)*,)* }) => {
        impl $type {
            /// All variants, in the order of declaration.
            pub const ALL: &[Self] = &[$(Self::$variant),*];

            /// The names of all variants.
            pub(crate) const NAMES: &'static [&'static str] = &[$($name),*];

            /// Its name in scenario files and on command lines.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)*
                }
            }
        }

        impl std::fmt::Display for $type {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(self.name())
            }
        }

        impl std::str::FromStr for $type {
            type Err = $crate::named::UnknownName;

            fn from_str(name: &str) -> Result<Self, Self::Err> {
                match name {
                    $($name $(| $alias)* => Ok(Self::$variant),)*
                    _ => Err($crate::named::UnknownName {
                        name: name.to_owned(),
                        known: Self::NAMES,
                    }),
                }
            }
        }
    };
}
pub(crate) use named;

#[cfg(test)]
mod tests {
    use crate::congestion::Coupling;
    use crate::policy::{
        DormantBehaviour, Handover, InitiationOrder, NewPathWindow, PathChoice,
        RetransmissionPolicy, RetransmissionPrecedence,
    };

    #[test]
    fn names_are_understood_as_they_are_shown() {
        macro_rules! round_trip {
            ($($type:ident),*) => {
                $(for policy in $type::ALL {
                    assert_eq!(policy.to_string().parse(), Ok(*policy));
                })*
            };
        }
        round_trip!(
            DormantBehaviour,
            Handover,
            InitiationOrder,
            NewPathWindow,
            PathChoice,
            Coupling,
            RetransmissionPolicy,
            RetransmissionPrecedence
        );
        assert_eq!("frsame-rtoalt".parse(), Ok(RetransmissionPolicy::FrSameRtoAlt));
        assert_eq!(RetransmissionPolicy::FrSameRtoAlt.name(), "fr-same-rto-alt");
        let error = "random".parse::<DormantBehaviour>().unwrap_err();
        assert_eq!(
            error.to_string(),
            "'random' is not one of last-dest, primary, hop, fewest-errors"
        );
    }
}
