//! Telling the user that nothing is left to be sent or acknowledged.

use super::Association;
use crate::event::Event;

/// What the user wants to know of the end of the data, and knows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Dry {
    /// Nothing.
    #[default]
    Unwanted,
    /// When all that was given is acknowledged.
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
    /// Whether [`Event::SenderDry`] is wanted from now on; at first it is not. Returns whether all that
    /// was given is acknowledged now, which no event tells.
    pub fn tell_when_dry(&mut self, wanted: bool) -> bool {
        let is_dry = self.sender.is_done();
        self.news.dry = match (wanted, is_dry) {
            (false, _) => Dry::Unwanted,
            (true, false) => Dry::Awaited,
            (true, true) => Dry::Told,
        };
        is_dry
    }

    /// Tells who waits for it that all is acknowledged, if it is.
    pub(super) fn note_dry(&mut self) {
        if self.news.dry == Dry::Awaited && self.sender.is_done() && !self.is_closed() {
            self.news.dry = Dry::Told;
            self.news.push(Event::SenderDry);
        }
    }
}
