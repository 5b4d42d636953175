//! Options of address reconfiguration.

use std::time::Duration;

use super::{Handover, NewPathWindow};
use crate::options::section;

section! {
    /// Addresses that come and go (RFC 5061).
    pub struct AddressConfig {
        /// Offer and accept changes of addresses while the association is up (RFC 5061). Needs `authentication`, because
        /// only authenticated changes are accepted. Off.
        address_reconfiguration: bool = false, Kind::Switch;
        /// Tell the peer when addresses of this host come and go, so that the association moves along. Needs
        /// `address_reconfiguration`. Off.
        roam: bool = false, Kind::Switch, live;
        /// How long to wait for an address to come back before telling the peer that it is gone, so that an interface
        /// that flaps costs little. 2 s.
        roam_patience: Duration = Duration::from_secs(2), Kind::millis(0, 3_600_000), live;
        /// Whether an address that works is used until the one that replaces it has been verified, or both changes are
        /// one request.
        handover: Handover = Handover::MakeFirst, Kind::Word(Handover::NAMES), live;
        /// The congestion window of a path that is added while the association is up: the initial window, or half of
        /// that of the path in use, at most 100 packets.
        new_path_window: NewPathWindow = NewPathWindow::Initial, Kind::Word(NewPathWindow::NAMES), live;
    }
}
