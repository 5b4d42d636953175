//! Addresses of the hosts that come and go, and changes of them that applications ask for.

use std::time::Duration;

use anabranch_proto::{AddressChange, AssociationConfig};

use super::events::When;
use super::network::Network;
use crate::tree::{Checked, Fields, problem};

/// A scheduled event of an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AddressEvent {
    /// Its name.
    pub name: String,
    /// When, since the start of the run.
    pub at: Duration,
    /// Index of the path whose address it is.
    pub path: usize,
    /// Whether it is the receiving host's address, and not the sending host's.
    pub of_receiver: bool,
    /// What happens.
    pub what: AddressAction,
}

/// What happens to an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AddressAction {
    /// The host has it from now on, and its associations are told.
    Appears,
    /// The host does not have it any more, and its associations are told.
    Disappears,
    /// Applications ask for a change of the address.
    Asks(AddressChange),
}

/// The keys, each of which names a path.
const KEYS: [(&str, AddressAction); 5] = [
    ("appears", AddressAction::Appears),
    ("disappears", AddressAction::Disappears),
    ("adds", AddressAction::Asks(AddressChange::Added)),
    ("removes", AddressAction::Asks(AddressChange::Removed)),
    ("prefers", AddressAction::Asks(AddressChange::Preferred)),
];

/// Reads an event if it is one of an address.
pub(super) fn event(
    name: &str,
    fields: &Fields<'_>,
    when: When,
    network: &Network,
) -> Checked<Option<AddressEvent>> {
    let given: Vec<_> =
        KEYS.into_iter().filter(|(key, _)| matches!(fields.text(key), Ok(Some(_)))).collect();
    let (key, what) = match given[..] {
        [] => return Ok(None),
        [one] => one,
        [(first, _), (second, _), ..] => {
            let line = fields.line_of(second);
            return problem(
                line,
                format!("event.{name} has {first} and {second}: keep one of them"),
            );
        }
    };
    let When::At(at) = when else {
        let line = fields.line_of("after_chunk");
        return problem(line, format!("event.{name}: {key} happens at a time: give it with at"));
    };
    let target = fields.required_text(key)?;
    let Some(path) = network.path(target) else {
        let reason = format!("event.{name}.{key} is '{target}', which is not a path");
        return problem(fields.line_of(key), reason);
    };
    let hosts = [("sender", false), ("receiver", true)];
    let of_receiver = fields.choice("host", &hosts)?.unwrap_or(false);
    Ok(Some(AddressEvent { name: name.to_owned(), at, path, of_receiver, what }))
}

/// Checks what the events of a file are together.
pub(super) fn check(
    (events, root): (&[AddressEvent], &Fields<'_>),
    network: &Network,
    ends: [&AssociationConfig; 2],
) -> Checked<()> {
    let line = |event: &AddressEvent| {
        root.node("event").and_then(|events| events.get(&event.name)).map_or(1, |node| node.line)
    };
    let agreed = ends.iter().all(|end| end.addresses.address_reconfiguration);
    let asks = |event: &&AddressEvent| matches!(event.what, AddressAction::Asks(_));
    if let Some(event) = events.iter().find(asks).filter(|_| !agreed) {
        let reason = format!(
            "event.{} asks for a change of an address: set authentication and \
             address_reconfiguration in [association]",
            event.name
        );
        return problem(line(event), reason);
    }
    for (path, of_receiver) in addresses(events) {
        let mut present = None;
        for event in in_time(events, path, of_receiver) {
            let appears = event.what == AddressAction::Appears;
            if present == Some(appears) {
                let reason = format!(
                    "event.{}: the address is {} at that time",
                    event.name,
                    if appears { "there already" } else { "not there" }
                );
                return problem(line(event), reason);
            }
            present = Some(appears);
        }
        if path == network.primary && !is_there_at_first(events, path, of_receiver) {
            let first = in_time(events, path, of_receiver).next();
            let reason = "the address of the primary path must be there at the beginning: let it \
                          disappear first, or set network.primary";
            return problem(first.map_or(1, line), reason);
        }
    }
    Ok(())
}

/// The addresses that come or go.
pub(crate) fn addresses(events: &[AddressEvent]) -> Vec<(usize, bool)> {
    let mut found: Vec<_> = (events.iter())
        .filter(|event| !matches!(event.what, AddressAction::Asks(_)))
        .map(|event| (event.path, event.of_receiver))
        .collect();
    found.sort_unstable();
    found.dedup();
    found
}

/// The times at which an address comes and goes, in order.
fn in_time(
    events: &[AddressEvent],
    path: usize,
    of_receiver: bool,
) -> impl Iterator<Item = &AddressEvent> {
    let mut own: Vec<&AddressEvent> = (events.iter())
        .filter(|event| (event.path, event.of_receiver) == (path, of_receiver))
        .filter(|event| !matches!(event.what, AddressAction::Asks(_)))
        .collect();
    own.sort_by_key(|event| event.at);
    own.into_iter()
}

/// Whether a host has an address at the beginning: it does unless the first event is that it appears.
pub fn is_there_at_first(events: &[AddressEvent], path: usize, of_receiver: bool) -> bool {
    let first = in_time(events, path, of_receiver).next();
    first.is_none_or(|event| event.what != AddressAction::Appears)
}

#[cfg(test)]
mod tests {
    use super::super::tests::{SMALL, read};
    use super::*;
    use crate::tree::tests::refused;

    const OPTIONS: &str =
        "profile = \"rfc2960\"\nauthentication = true\naddress_reconfiguration = true";

    /// The file with these events; its options allow changes of addresses.
    fn with(events: &str) -> String {
        SMALL.replace("profile = \"rfc2960\"", OPTIONS) + events
    }

    fn appears(name: &str, at: u32) -> String {
        format!("[event.{name}]\nat = \"{at} s\"\nappears = \"alternate\"\n")
    }

    fn disappears(name: &str, at: u32) -> String {
        appears(name, at).replace("appears", "disappears")
    }

    #[test]
    fn an_address_that_appears_first_is_not_there_before() {
        let text = with(&(appears("b", 9) + &appears("a", 3) + &disappears("c", 5)));
        let events = read(&text).unwrap().addresses;
        assert_eq!(events.len(), 3);
        assert_eq!((events[0].at, events[0].path), (Duration::from_secs(9), 1));
        assert!(!is_there_at_first(&events, 1, false) && is_there_at_first(&events, 1, true));
        assert!(is_there_at_first(&events, 0, false));
        let asks = "[event.d]\nat = \"4 s\"\nadds = \"alternate\"\nhost = \"receiver\"\n";
        let events = read(&with(asks)).unwrap().addresses;
        assert_eq!(events[0].what, AddressAction::Asks(AddressChange::Added));
        assert!(events[0].of_receiver && is_there_at_first(&events, 1, true));
    }

    #[test]
    fn mistakes_are_refused_with_line_and_reason() {
        let one = appears("a", 3);
        let cases = [
            (one.replace("\"alternate\"", "\"x\""), 22, "'x', which is not a path"),
            (one.replace("at = \"3 s\"", "after_chunk = 3"), 21, "give it with at"),
            (one.clone() + "host = \"router\"\n", 23, "event.a.host"),
            (one.clone() + "adds = \"alternate\"\n", 23, "appears and adds"),
            (one.clone() + "cut = \"alternate\"\n", 23, "unknown key"),
            (one.clone() + &appears("b", 4), 23, "there already"),
            (disappears("a", 3) + &disappears("b", 4), 23, "not there"),
            (one.replace("\"alternate\"", "\"primary\""), 20, "at the beginning"),
        ];
        for (events, line, reason) in cases {
            refused(read(&with(&events)), line, reason);
        }
        let asks = "[event.a]\nat = \"3 s\"\nadds = \"alternate\"\n";
        refused(read(&format!("{SMALL}{asks}")), 18, "address_reconfiguration in [association]");
    }
}
