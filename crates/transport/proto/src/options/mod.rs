//! The table of options: their names and values, and how they are read and written.
//!
//! Each option is declared by the mechanism that it belongs to, as a field of its section with the
//! macro `section!`: name, type, value of RFC 9260, bounds, and whether it may change while an
//! association is established. The structure, the defaults, the checks and the access by name are
//! all derived from that.

mod error;
mod value;

pub use error::ConfigError;
pub use value::Kind;
pub(crate) use value::{OptionValue, words};

/// One option of a section.
pub(crate) struct Row<S: 'static> {
    pub(crate) name: &'static str,
    /// A shorter name from the literature.
    pub(crate) short: Option<&'static str>,
    pub(crate) kind: Kind,
    pub(crate) may_be_off: bool,
    /// The option may change while an association is established.
    pub(crate) live: bool,
    pub(crate) doc: &'static [&'static str],
    pub(crate) get: fn(&S) -> String,
    /// Sets the option if the text is a valid value within its bounds. Returns whether it is.
    pub(crate) set: fn(&mut S, &str) -> bool,
    pub(crate) is_valid: fn(&S) -> bool,
    /// Adopts the value of another section.
    pub(crate) copy: fn(&mut S, &S),
}

/// Options that one mechanism owns.
pub(crate) trait Section: Sized + 'static {
    const ROWS: &'static [Row<Self>];
}

/// Declares a section: a structure whose fields are options.
///
/// A field is `name: Type = value, kind;`. After the name, `as "other"` gives it a different name
/// among the options of all sections, and `["short"]` a short name; `, live` after the kind allows
/// changes while an association is established.
macro_rules! section {
    (
        $(#[$meta:meta])*
        pub struct $section:ident {
            $(
                $(#[doc = $doc:literal])*
                $(#[cfg($cfg:meta)])?
                $field:ident $(as $name:literal)? $([$short:literal])?: $type:ty = $value:expr, $kind:expr $(, $live:ident)?;
            )*
        }
    ) => {
        $(#[$meta])*
        #[derive(Clone, Debug, PartialEq, Eq)]
        #[non_exhaustive]
        pub struct $section {
            $($(#[doc = $doc])* $(#[cfg($cfg)])? pub $field: $type,)*
        }

        impl Default for $section {
            /// The values of RFC 9260.
            fn default() -> Self {
                Self { $($(#[cfg($cfg)])? $field: $value,)* }
            }
        }

        impl $crate::options::Section for $section {
            const ROWS: &'static [$crate::options::Row<Self>] = {
                use $crate::options::{Kind, OptionValue, Row};
                &[$(
                    $(#[cfg($cfg)])?
                    Row {
                        name: $crate::options::section!(@name $field $($name)?),
                        short: $crate::options::section!(@short $($short)?),
                        kind: $kind,
                        may_be_off: <$type as OptionValue>::MAY_BE_OFF,
                        live: $crate::options::section!(@live $($live)?),
                        doc: &[$($doc),*],
                        get: |section| OptionValue::write(&section.$field, &$kind),
                        set: |section, text| {
                            let kind: Kind = $kind;
                            let value = <$type as OptionValue>::read(text);
                            match value.filter(|value| value.is_within(&kind)) {
                                Some(value) => {
                                    section.$field = value;
                                    true
                                }
                                None => false,
                            }
                        },
                        is_valid: |section| {
                            let kind: Kind = $kind;
                            OptionValue::is_within(&section.$field, &kind)
                        },
                        copy: |section, other| section.$field = other.$field.clone(),
                    },
                )*]
            };
        }
    };
    (@name $field:ident) => { stringify!($field) };
    (@name $field:ident $name:literal) => { $name };
    (@short) => { None };
    (@short $short:literal) => { Some($short) };
    (@live) => { false };
    (@live live) => { true };
}
pub(crate) use section;
