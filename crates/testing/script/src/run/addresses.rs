//! Addresses that come and go while an association is up, and events about these and about keys.

use std::net::IpAddr;

use anabranch_proto::{AddressChange, AddressError, AuthenticationChange, Notification};

use super::sockets::Answer;
use super::user::{route, words};
use super::world::World;
use crate::failure::Failure;
use crate::read::Call;

impl World {
    /// `add_address(4, @1)`, `remove_address(4, @1)` and `prefer_address(4, @1)`: the local address of the path.
    pub(super) fn change_address(&mut self, call: &Call) -> Result<Answer, Failure> {
        let id = self.association(call)?;
        let (local, _) = self.path(&call.place, route(call))?;
        let now = self.now;
        let Some(mut association) = self.endpoint.association_mut(now, id) else {
            return Ok(Answer::word("NOT_UP"));
        };
        let done = match call.name.as_str() {
            "add_address" => association.add_address(now, local),
            "remove_address" => association.remove_address(now, local),
            _ => association.prefer_address(now, local),
        };
        Ok(match done {
            Ok(()) => Answer::DONE,
            Err(AddressError::NotNegotiated) => Answer::word("NOT_NEGOTIATED"),
            Err(AddressError::Known) => Answer::word("KNOWN"),
            Err(AddressError::Unknown) => Answer::word("UNKNOWN"),
            Err(AddressError::Last) => Answer::word("LAST"),
            Err(AddressError::Unreachable) => Answer::word("UNREACHABLE"),
            Err(AddressError::TooMany) => Answer::word("TOO_MANY"),
            Err(_) => Answer::word("NOT_UP"),
        })
    }

    /// `interface(@1, UP)` and `interface(@1, DOWN)`: the local address of the path comes or goes.
    pub(super) fn interface(&mut self, call: &Call) -> Result<Answer, Failure> {
        let (local, _) = self.path(&call.place, route(call))?;
        let usable = match call.arguments.get(1).map(words) {
            Some([word]) if word == "UP" => true,
            Some([word]) if word == "DOWN" => false,
            _ => return Err(Failure::script(&call.place, "an interface goes UP or DOWN")),
        };
        self.endpoint.handle_local_address(self.now, local, usable);
        Ok(Answer::DONE)
    }

    /// The name of an event about authentication or addresses; empty for others.
    pub(super) fn name_of_change(&self, event: &Notification) -> String {
        let index = |list: &[IpAddr], address: &IpAddr| {
            let index = list.iter().position(|known| known == address);
            index.map_or_else(|| "OTHER".to_owned(), |index| index.to_string())
        };
        match event {
            Notification::Authentication { change, key } => match change {
                AuthenticationChange::NewKey => format!("AUTH_NEW_KEY_{key}"),
                AuthenticationChange::NotSupported => "AUTH_NOT_SUPPORTED".to_owned(),
                _ => format!("AUTH_FREE_KEY_{key}"),
            },
            Notification::AddressChanged { change, address, result } => {
                let index = index(&self.options.locals, address);
                let (change, result) = (name(*change), result.name().to_uppercase());
                format!("ADDRESS_{index}_{change}_{result}")
            }
            Notification::PeerAddressChanged { change, remote } => {
                let index = index(&self.options.remotes, remote);
                format!("PEER_ADDRESS_{index}_{}", name(*change))
            }
            _ => String::new(),
        }
    }
}

/// A change in the names of events.
const fn name(change: AddressChange) -> &'static str {
    match change {
        AddressChange::Added => "ADDED",
        AddressChange::Removed => "REMOVED",
        _ => "PREFERRED",
    }
}
