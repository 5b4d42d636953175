//! The actions that a pattern can trigger.

/// An action that happens once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trigger {
    /// Number of the packet, from 1, or nanoseconds since the pattern started.
    pub at: u64,
    /// The action.
    pub action: Action,
}

/// An action.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// The link goes down; packets in it are lost.
    Cut,
    /// The link comes up again.
    Repair,
    /// The pattern with this name starts, and others of its kind end.
    Switch(String),
    /// The driver runs a command; links only report it
    /// ([`Link::take_commands`](crate::Link::take_commands)).
    Run(String),
}

impl Action {
    /// Parses the words after the time.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let (word, rest) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
        let rest = rest.trim();
        match (word, rest.is_empty()) {
            ("cut", true) => Ok(Self::Cut),
            ("repair", true) => Ok(Self::Repair),
            ("switch", false) => Ok(Self::Switch(rest.to_owned())),
            ("run", false) => Ok(Self::Run(rest.to_owned())),
            ("switch" | "run", true) => Err(format!("{word} needs a name or a command behind it")),
            _ => Err(format!(
                "'{text}' is nothing to set off: cut, repair, switch NAME or run COMMAND"
            )),
        }
    }

    pub(super) fn write(&self) -> String {
        match self {
            Self::Cut => "cut".into(),
            Self::Repair => "repair".into(),
            Self::Switch(name) => format!("switch {name}"),
            Self::Run(command) => format!("run {command}"),
        }
    }
}
