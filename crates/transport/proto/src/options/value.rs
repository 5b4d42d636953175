//! The text form of option values.

use std::time::Duration;

use anabranch_units as units;

/// The kind of an option's values, with their bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Kind {
    /// A time with its unit.
    Time {
        /// The minimum.
        least: Duration,
        /// The maximum.
        most: Duration,
    },
    /// A number of bytes.
    Size {
        /// The minimum.
        least: u64,
        /// The maximum.
        most: u64,
    },
    /// A whole number.
    Count {
        /// The minimum.
        least: u64,
        /// The maximum.
        most: u64,
    },
    /// `on` or `off`.
    Switch,
    /// One of these words.
    Word(&'static [&'static str]),
    /// Some of these words or numbers below 256, separated by commas, or `none`.
    List(&'static [&'static str]),
    /// One of these forms, where `N` is a number within the bounds.
    Form {
        /// The forms.
        forms: &'static [&'static str],
        /// The minimum of `N`.
        least: u64,
        /// The maximum of `N`.
        most: u64,
    },
}

impl Kind {
    /// A time, with bounds in milliseconds.
    pub(crate) const fn millis(least: u64, most: u64) -> Self {
        Self::Time { least: Duration::from_millis(least), most: Duration::from_millis(most) }
    }

    /// A number with bounds.
    pub(crate) const fn count(least: u64, most: u64) -> Self {
        Self::Count { least, most }
    }

    /// A number of bytes with bounds.
    pub(crate) const fn size(least: u64, most: u64) -> Self {
        Self::Size { least, most }
    }

    /// Whether a number is within the bounds.
    pub(crate) fn admits(&self, number: u64) -> bool {
        match self {
            Self::Size { least, most }
            | Self::Count { least, most }
            | Self::Form { least, most, .. } => (*least..=*most).contains(&number),
            Self::Time { .. } | Self::Switch | Self::Word(_) | Self::List(_) => false,
        }
    }

    /// The valid values, for an error message: 'must be a time from 1 ms to 1 h'.
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
            Self::List(words) => {
                format!("must be none, or a list with commas of numbers or {}", words.join(", "))
            }
            Self::Form { forms, least, most } => {
                format!("must be one of {}, N from {least} to {most}{off}", forms.join(", "))
            }
        }
    }
}

/// A type of option values.
pub(crate) trait OptionValue: Sized + Clone + PartialEq {
    /// Whether a value can be `off`.
    const MAY_BE_OFF: bool = false;

    /// Parses a text; `None` if it is not a valid value.
    fn read(text: &str) -> Option<Self>;

    /// Writes the value in the form that [`read`](Self::read) parses.
    fn write(&self, kind: &Kind) -> String;

    /// Whether the value is within the bounds of a kind.
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

/// Options that can be off.
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

/// Enums with names, as declared with `named!`.
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
