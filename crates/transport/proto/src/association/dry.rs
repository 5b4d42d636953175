//! Notifies the user that nothing is left to be sent or acknowledged.

use super::Association;
use crate::event::Notification;

/// Whether the user asked to be notified of the end of the data, and whether it was.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Dry {
    /// Nothing.
    #[default]
    Unwanted,
    /// When all of the user's data is acknowledged.
    Awaited,
    /// That all is acknowledged.
    Told,
}

impl Dry {
    /// There is something to send.
    pub(super) fn end(&mut self) {
        if *self == Self::Told {
            *self = Self::Awaited;
        }
    }
}

impl Association {
    /// Sets whether [`Notification::SenderDry`] is wanted from now on; initially it is not. Returns whether
    /// all data is already acknowledged, in which case there is no event.
    pub fn tell_when_dry(&mut self, wanted: bool) -> bool {
        let is_dry = self.sender.is_done();
        self.news.dry = match (wanted, is_dry) {
            (false, _) => Dry::Unwanted,
            (true, false) => Dry::Awaited,
            (true, true) => Dry::Told,
        };
        is_dry
    }

    /// Notifies a waiting user if everything is acknowledged.
    pub(super) fn note_dry(&mut self) {
        if self.news.dry == Dry::Awaited && self.sender.is_done() && !self.is_closed() {
            self.news.dry = Dry::Told;
            self.news.notify(Notification::SenderDry);
        }
    }
}
