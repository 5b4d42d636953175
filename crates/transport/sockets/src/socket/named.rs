//! Options of the engine by name.

use anabranch::AssociationConfig;

use super::Socket;
use crate::assoc_id::AssocId;
use crate::error::Error;

/// The name that sets all options to those of a profile.
pub const PROFILE: &str = "profile";

/// Why options were not set.
#[derive(Debug, PartialEq, Eq)]
pub struct Refused {
    /// The error of the call.
    pub error: Error,
    /// Begins with the name of the option.
    pub reason: String,
}

impl Refused {
    fn new(error: Error, reason: String) -> Self {
        Self { error, reason }
    }
}

impl Socket {
    /// Sets an option of the engine by name; [`PROFILE`] sets all of them. `id` is as for
    /// [`configure`](Self::configure).
    ///
    /// # Errors
    /// [`Error::NoSuchOption`]: there is no option with this name. Otherwise as
    /// [`set_option`](Self::set_option).
    pub fn set_named(&self, id: AssocId, name: &str, value: &str) -> Result<(), Error> {
        if name == PROFILE {
            let profile = AssociationConfig::profile(value).ok_or(Error::Invalid)?;
            return self.configure(id, |config| *config = profile.clone());
        }
        AssociationConfig::option(name).ok_or(Error::NoSuchOption)?;
        // Check the option's own bounds. `configure` checks bounds that depend on other options.
        AssociationConfig::default().set(name, value).map_err(|_| Error::Invalid)?;
        self.configure(id, |config| {
            let done = config.set(name, value);
            debug_assert!(done.is_ok(), "{name} took {value} before");
        })
    }

    /// Sets options of future associations from a list such as `profile=bulk;rto_min=200ms`. Either all
    /// are set or none. Their order does not matter: entries that set several options are applied first, and
    /// bounds are checked after all entries.
    pub fn set_options(&self, list: &str) -> Result<(), Refused> {
        let before = self.configuration(AssocId::FUTURE);
        let mut config = before.map_err(|error| Refused::new(error, "options".to_owned()))?;
        apply(&mut config, list)?;
        // `configure` checks which options may still change.
        let set = self.configure(AssocId::FUTURE, |known| *known = config.clone());
        set.map_err(|error| Refused::new(error, format!("{list}: cannot be set any more")))
    }
}

/// Applies the settings of a list.
fn apply(config: &mut AssociationConfig, list: &str) -> Result<(), Refused> {
    let mut options = Vec::new();
    for entry in list.split(';').map(str::trim).filter(|entry| !entry.is_empty()) {
        let (name, value) = entry.split_once('=').ok_or_else(|| {
            Refused::new(Error::Invalid, format!("{entry} has no value: write {entry}=VALUE"))
        })?;
        options.push((name.trim(), value.trim()));
    }
    options.sort_by_key(|(name, _)| match *name {
        PROFILE => 0,
        // Set other options as well.
        "multipath" | "receive_buffer" | "send_buffer" => 1,
        _ => 2,
    });
    for (name, value) in options {
        if name == PROFILE {
            *config = AssociationConfig::profile(value).ok_or_else(|| {
                let names: Vec<&str> =
                    AssociationConfig::PROFILES.iter().map(|(n, _)| *n).collect();
                let reason = format!("profile must be one of {}", names.join(", "));
                Refused::new(Error::Invalid, reason)
            })?;
        } else if AssociationConfig::option(name).is_none() {
            let reason = format!("{name} is not an option: docs/options.md lists them");
            return Err(Refused::new(Error::NoSuchOption, reason));
        } else {
            let set = config.set(name, value);
            set.map_err(|error| Refused::new(Error::Invalid, error.to_string()))?;
        }
    }
    config.validate().map_err(|error| Refused::new(Error::Invalid, error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn applied(list: &str) -> Result<AssociationConfig, Refused> {
        let mut config = AssociationConfig::default();
        apply(&mut config, list).map(|()| config)
    }

    #[test]
    fn the_order_does_not_matter() {
        let lists = [
            ["rto_initial=200ms;rto_min=200 ms", "rto_min=200ms;rto_initial=200ms"],
            ["profile=rfc9260;rto_min=300ms", "rto_min=300ms; profile = rfc9260;"],
            ["send_buffer=2MB;send_buffer_start=1MB", "send_buffer_start=1MB;send_buffer=2MB"],
            ["multipath=cmt;path_choice=lowest-rtt", "path_choice=lowest-rtt;multipath=cmt"],
        ];
        for [one, other] in lists {
            assert_eq!(applied(one).unwrap(), applied(other).unwrap(), "{one}");
        }
        assert_eq!(applied(""), Ok(AssociationConfig::default()));
    }

    #[test]
    fn reasons_begin_with_the_option() {
        for (list, option) in [
            ("rto_min=200ms;no_such=1", "no_such"),
            ("rto_min", "rto_min"),
            ("rto_min=soon", "rto_min"),
            ("profile=fast", "profile"),
        ] {
            let refused = applied(list).unwrap_err();
            assert!(refused.reason.starts_with(option), "{list}: {}", refused.reason);
        }
    }
}
