//! Notifies the user when nothing is left to be sent or acknowledged.

use super::Association;
use crate::event::Notification;

/// Whether the user asked for the notification, and whether it was sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Dry {
    /// The user did not ask for it.
    #[default]
    Unwanted,
    /// To be sent when all of the user's data is acknowledged.
    Awaited,
    /// It was sent.
    Told,
}

impl Dry {
    /// Records that there is something to send again.
    pub(super) fn end(&mut self) {
        if *self == Self::Told {
            *self = Self::Awaited;
        }
    }
}

impl Association {
    /// Turns [`Notification::SenderDry`] on or off; it is off initially. Returns whether all data is
    /// already acknowledged, in which case there is no notification.
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
