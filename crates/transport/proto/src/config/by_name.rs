//! The table of all options of associations by name, for everything that lists options.

use super::{AssociationConfig, ConfigError};
use crate::options::{Kind, OptionValue, Row, Section};
use crate::policy::MultipathMode;
use crate::revision::Revision;

/// Describes an option of any section.
#[derive(Clone, Copy)]
#[non_exhaustive]
pub struct OptionInfo {
    /// The section, which is the name of the field of [`AssociationConfig`]; empty for the few options
    /// without a section.
    pub section: &'static str,
    /// Its name.
    pub name: &'static str,
    /// A shorter name from the literature.
    pub short: Option<&'static str>,
    /// The kind of its values.
    pub kind: Kind,
    /// Whether it may be `off`, too.
    pub may_be_off: bool,
    /// Whether it may change while an association is up ([`AssociationConfig::adjusted`]).
    pub live: bool,
    /// Its documentation, in lines.
    pub doc: &'static [&'static str],
    row: &'static (dyn Access + Sync),
}

impl std::fmt::Debug for OptionInfo {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("OptionInfo")
            .field("section", &self.section)
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

impl OptionInfo {
    /// Its documentation in one paragraph. [`doc`](Self::doc) may end with the value of RFC 9260, which
    /// is omitted here, because each profile has its own.
    pub fn help(&self) -> String {
        let lines: Vec<&str> = self.doc.iter().map(|line| line.trim()).collect();
        let text = lines.join(" ");
        let value = |end: &str| {
            let number = end.starts_with(|c: char| c.is_ascii_digit());
            matches!(end, "On." | "Off." | "None.") || (number && end.split(' ').count() <= 2)
        };
        match text.rsplit_once(". ") {
            Some((meaning, end)) if value(end) => format!("{meaning}."),
            _ => text,
        }
    }

    /// Its valid values, for an error message: 'must be a time from 1 ns to 1 h'.
    pub fn expectation(&self) -> String {
        self.kind.expectation(self.may_be_off)
    }

    /// The current value.
    pub fn get(&self, config: &AssociationConfig) -> String {
        self.row.get(config)
    }

    /// Sets it.
    ///
    /// # Errors
    /// The text is not a valid value, or out of bounds.
    pub fn set(&self, config: &mut AssociationConfig, text: &str) -> Result<(), ConfigError> {
        if !self.row.set(config, text.trim()) {
            let expected = format!("{}, not '{text}'", self.expectation());
            return Err(ConfigError::new(self.name, expected));
        }
        Ok(())
    }
}

/// A row, with the section that it belongs to.
trait Access {
    fn get(&self, config: &AssociationConfig) -> String;
    fn set(&self, config: &mut AssociationConfig, text: &str) -> bool;
    fn is_valid(&self, config: &AssociationConfig) -> bool;
    fn copy(&self, config: &mut AssociationConfig, other: &AssociationConfig);
}

/// A section as a field of the configuration.
trait Part: Section {
    fn of(config: &AssociationConfig) -> &Self;
    fn of_mut(config: &mut AssociationConfig) -> &mut Self;
}

impl<S: Part> Access for Row<S> {
    fn get(&self, config: &AssociationConfig) -> String {
        (self.get)(S::of(config))
    }

    fn set(&self, config: &mut AssociationConfig, text: &str) -> bool {
        (self.set)(S::of_mut(config), text)
    }

    fn is_valid(&self, config: &AssociationConfig) -> bool {
        (self.is_valid)(S::of(config))
    }

    fn copy(&self, config: &mut AssociationConfig, other: &AssociationConfig) {
        (self.copy)(S::of_mut(config), S::of(other));
    }
}

/// Names the sections, in the order of the table.
macro_rules! sections {
    ($($field:ident: $section:ty),* $(,)?) => {
        $(
            impl Part for $section {
                fn of(config: &AssociationConfig) -> &Self {
                    &config.$field
                }

                fn of_mut(config: &mut AssociationConfig) -> &mut Self {
                    &mut config.$field
                }
            }
        )*

        /// All options of all sections.
        fn rows() -> impl Iterator<Item = OptionInfo> {
            [].into_iter()$(.chain(
                <$section as Section>::ROWS.iter().map(|row| info(stringify!($field), row)),
            ))*
        }
    };
}

sections! {
    timers: super::TimerConfig,
    paths: super::PathConfig,
    congestion: super::CongestionConfig,
    recovery: super::RecoveryConfig,
    multipath: super::MultipathConfig,
    acknowledging: super::AckConfig,
    receiving: super::ReceiveConfig,
    sending: super::SendConfig,
    mtu: super::MtuConfig,
    authentication: super::AuthenticationConfig,
    addresses: super::AddressConfig,
}

fn info<S: Part>(section: &'static str, row: &'static Row<S>) -> OptionInfo {
    OptionInfo {
        section,
        name: row.name,
        short: row.short,
        kind: row.kind,
        may_be_off: row.may_be_off,
        live: row.live,
        doc: row.doc,
        row,
    }
}

/// The options without a section.
impl Section for AssociationConfig {
    const ROWS: &'static [Row<Self>] = &[
        Row {
            name: "revision",
            short: None,
            kind: Kind::Word(Revision::NAMES),
            may_be_off: false,
            live: false,
            doc: &["Whose word counts where the RFCs differ in rules that nobody tunes."],
            get: |config| config.revision.name().to_owned(),
            set: |config, text| text.parse().map(|revision| config.revision = revision).is_ok(),
            is_valid: |_| true,
            copy: |config, other| config.revision = other.revision,
        },
        Row {
            name: "adaptation_indication",
            short: None,
            kind: Kind::count(0, u32::MAX as u64),
            may_be_off: true,
            live: false,
            doc: &["Adaptation Layer Indication to announce (RFC 5061 section 4.2.6). Off."],
            get: |config| config.adaptation_indication.write(&Kind::Switch),
            set: |config, text| {
                OptionValue::read(text).map(|code| config.adaptation_indication = code).is_some()
            },
            is_valid: |_| true,
            copy: |config, other| config.adaptation_indication = other.adaptation_indication,
        },
    ];
}

impl Part for AssociationConfig {
    fn of(config: &AssociationConfig) -> &Self {
        config
    }

    fn of_mut(config: &mut AssociationConfig) -> &mut Self {
        config
    }
}

impl AssociationConfig {
    /// All options, section by section.
    pub fn options() -> impl Iterator<Item = OptionInfo> {
        rows().chain(<Self as Section>::ROWS.iter().map(|row| info("", row)))
    }

    /// Finds an option by its long or short name; blanks, `-` and `_` are equivalent.
    pub fn option(name: &str) -> Option<OptionInfo> {
        let name = name.replace(['-', ' '], "_");
        Self::options().find(|option| option.name == name || option.short == Some(name.as_str()))
    }

    /// Sets an option by its name. `multipath` sets everything that [`with_multipath`] does. `receive_buffer` and
    /// `send_buffer` are sizes from the start: they switch off `receive_buffer_start` and `send_buffer_start`.
    ///
    /// [`with_multipath`]: Self::with_multipath
    ///
    /// # Errors
    /// There is no such option, or the text is not a valid value. [`validate`](Self::validate) checks
    /// bounds that depend on other options.
    pub fn set(&mut self, name: &str, text: &str) -> Result<(), SetError> {
        let option = Self::option(name).ok_or_else(|| SetError::Unknown(name.to_owned()))?;
        option.set(self, text).map_err(SetError::Value)?;
        match option.name {
            "multipath" => {
                let mode: MultipathMode = self.multipath.mode;
                *self = self.clone().with_multipath(mode);
            }
            "receive_buffer" => self.receiving.receive_buffer_start = None,
            "send_buffer" => self.sending.send_buffer_start = None,
            _ => {}
        }
        Ok(())
    }

    /// Returns these options with one of them set by its name, as [`set`](Self::set) does.
    ///
    /// ```
    /// use anabranch_proto::config::AssociationConfig;
    ///
    /// let config = AssociationConfig::default()
    ///     .with_option("rto-min", "200 ms")?
    ///     .with_option("scheduler", "round-robin")?;
    /// assert_eq!(config.timers.rto_min.as_millis(), 200);
    /// assert!(config.with_option("rto-min", "tomorrow").is_err());
    /// # Ok::<(), anabranch_proto::config::SetError>(())
    /// ```
    ///
    /// # Errors
    /// As for [`set`](Self::set).
    pub fn with_option(mut self, name: &str, text: &str) -> Result<Self, SetError> {
        self.set(name, text)?;
        Ok(self)
    }

    /// The value of an option by its name, in the form that [`set`](Self::set) reads.
    pub fn get(&self, name: &str) -> Option<String> {
        Some(Self::option(name)?.get(self))
    }

    /// These options, but with those options of `other` that can change while an association is
    /// established ([`OptionInfo::live`]), and its [keys](Self::keys).
    #[must_use]
    pub fn adjusted(&self, other: &Self) -> Self {
        let mut new = self.clone();
        for option in Self::options().filter(|option| option.live) {
            option.row.copy(&mut new, other);
        }
        new.keys = other.keys.clone();
        new
    }

    /// Checks every option against its own bounds.
    pub(super) fn validate_rows(&self) -> Result<(), ConfigError> {
        match Self::options().find(|option| !option.row.is_valid(self)) {
            Some(option) => {
                let expected = format!("{}, not {}", option.expectation(), option.get(self));
                Err(ConfigError::new(option.name, expected))
            }
            None => Ok(()),
        }
    }
}

/// Why an option could not be set by name.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SetError {
    /// There is no option of this name.
    Unknown(String),
    /// The option does not accept this value.
    Value(ConfigError),
}

impl std::fmt::Display for SetError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Unknown(name) => write!(f, "there is no option '{name}'"),
            Self::Value(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for SetError {}
