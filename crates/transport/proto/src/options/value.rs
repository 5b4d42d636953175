//! Values of options as texts.

use std::time::Duration;

use anabranch_units as units;

/// The kind of an option's values, and their bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Kind {
    /// A time with its unit.
    Time {
        /// The least.
        least: Duration,
        /// The most.
        most: Duration,
    },
    /// A number of bytes.
    Size {
        /// The least.
        least: u64,
        /// The most.
        most: u64,
    },
    /// A whole number.
    Count {
        /// The least.
        least: u64,
        /// The most.
        most: u64,
    },
    /// `on` or `off`.
    Switch,
    /// One of these words.
    Word(&'static [&'static str]),
    /// One of these forms, where `N` is a number within the bounds.
    Form {
        /// The forms.
        forms: &'static [&'static str],
        /// The least that `N` may be.
        least: u64,
        /// The most that it may be.
        most: u64,
    },
}

impl Kind {
    /// A time between bounds in milliseconds.
    pub(crate) const fn millis(least: u64, most: u64) -> Self {
        Self::Time { least: Duration::from_millis(least), most: Duration::from_millis(most) }
    }

    /// A number between bounds.
    pub(crate) const fn count(least: u64, most: u64) -> Self {
        Self::Count { least, most }
    }

    /// A number of bytes between bounds.
    pub(crate) const fn size(least: u64, most: u64) -> Self {
        Self::Size { least, most }
    }

    /// Whether a number lies within the bounds.
    pub(crate) fn admits(&self, number: u64) -> bool {
        match self {
            Self::Size { least, most }
            | Self::Count { least, most }
            | Self::Form { least, most, .. } => (*least..=*most).contains(&number),
            Self::Time { .. } | Self::Switch | Self::Word(_) => false,
        }
    }

    /// The valid values, for a message: 'must be a time from 1 ms to 1 h'.
    pub fn expectation(&self, may_be_off: bool) -> String {
        let off = if may_be_off { ", or off" } else { "" };
        match self {
            Self::Time { least, most } => {
                let (least, most) = (units::write_time(*least), units::write_time(*most));
                format!("must be a time from {least} to {most}{off}")
            }
            Self::Size { least, most: u64::MAX } => {
                format!("must be a size of {} or more{off}", units::write_size(*least))
            }
            Self::Size { least, most } => {
                let (least, most) = (units::write_size(*least), units::write_size(*most));
                format!("must be a size from {least} to {most}{off}")
            }
            Self::Count { least, most } => {
                format!("must be a whole number from {least} to {most}{off}")
            }
            Self::Switch => "must be on or off".to_owned(),
            Self::Word(words) => format!("must be one of {}{off}", words.join(", ")),
            Self::Form { forms, least, most } => {
                format!("must be one of {}, N from {least} to {most}{off}", forms.join(", "))
            }
        }
    }
}

/// A type that options have.
pub(crate) trait OptionValue: Sized + Clone + PartialEq {
    /// Whether there is a value that is written `off`.
    const MAY_BE_OFF: bool = false;

    /// Parses a text; `None` if it is not a valid value.
    fn read(text: &str) -> Option<Self>;

    /// As [`read`](Self::read) understands it.
    fn write(&self, kind: &Kind) -> String;

    /// Whether the value lies within the bounds of a kind.
    fn is_within(&self, kind: &Kind) -> bool;
}

impl OptionValue for Duration {
    fn read(text: &str) -> Option<Self> {
        units::parse_time(text)
    }

    fn write(&self, _kind: &Kind) -> String {
        units::write_time(*self)
    }

    fn is_within(&self, kind: &Kind) -> bool {
        matches!(kind, Kind::Time { least, most } if (least..=most).contains(&self))
    }
}

impl OptionValue for bool {
    fn read(text: &str) -> Option<Self> {
        match text {
            "on" | "true" => Some(true),
            "off" | "false" => Some(false),
            _ => None,
        }
    }

    fn write(&self, _kind: &Kind) -> String {
        if *self { "on" } else { "off" }.to_owned()
    }

    fn is_within(&self, _kind: &Kind) -> bool {
        true
    }
}

/// Numbers: counts, or sizes in bytes.
macro_rules! numbers {
    ($($type:ty),*) => {$(
        impl OptionValue for $type {
            fn read(text: &str) -> Option<Self> {
                if text == "unlimited" {
                    return Some(Self::MAX);
                }
                units::parse_size(text)?.try_into().ok()
            }

            fn write(&self, kind: &Kind) -> String {
                match (kind, u64::try_from(*self)) {
                    (Kind::Size { most: u64::MAX, .. }, Ok(u64::MAX)) => "unlimited".to_owned(),
                    (Kind::Size { .. }, Ok(bytes)) => units::write_size(bytes),
                    _ => self.to_string(),
                }
            }

            fn is_within(&self, kind: &Kind) -> bool {
                u64::try_from(*self).is_ok_and(|number| kind.admits(number))
            }
        }
    )*};
}
numbers!(u16, u32, u64, usize);

/// Options that may be switched off.
impl<T: OptionValue> OptionValue for Option<T> {
    const MAY_BE_OFF: bool = true;

    fn read(text: &str) -> Option<Self> {
        if text == "off" { Some(None) } else { T::read(text).map(Some) }
    }

    fn write(&self, kind: &Kind) -> String {
        self.as_ref().map_or_else(|| "off".to_owned(), |value| value.write(kind))
    }

    fn is_within(&self, kind: &Kind) -> bool {
        self.as_ref().is_none_or(|value| value.is_within(kind))
    }
}

/// Enums with names, as `named!` gives them.
macro_rules! words {
    ($($type:ty),* $(,)?) => {$(
        impl $crate::options::OptionValue for $type {
            fn read(text: &str) -> Option<Self> {
                text.parse().ok()
            }

            fn write(&self, _kind: &$crate::options::Kind) -> String {
                self.name().to_owned()
            }

            fn is_within(&self, _kind: &$crate::options::Kind) -> bool {
                true
            }
        }
    )*};
}
pub(crate) use words;
