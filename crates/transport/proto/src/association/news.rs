//! Events that wait for the user of an association.
//!
//! Peers cause most events, so their contents count as memory of the association until they are read,
//! and their number is limited in case the user does not read them.

use std::collections::VecDeque;

use super::dry::Dry;
use crate::event::{Event, Notification};

/// Maximum number of waiting events; beyond it, purely informative ones are dropped.
const MOST: usize = 256;

/// Maximum number of queued error causes of the peer.
const MOST_CAUSES: usize = 64;

/// Maximum bytes of events, beyond which the peer must not cause more with its requests.
const MOST_HELD: usize = 1 << 16;

/// Maximum bytes of an error cause that the user gets: more than a chunk of this side in a usual packet.
pub(super) const LONGEST_CAUSE: usize = 2048;

/// The events, and the state that causes them.
#[derive(Debug)]
pub(super) struct News {
    events: VecDeque<Event>,
    /// Bytes that the events hold besides their own size.
    held: u32,
    /// State of the notification that nothing is left to send.
    pub(super) dry: Dry,
    /// The adaptation layer that the peer announced, until the user reads it.
    pub(super) adaptation: Option<u32>,
    /// Report [`Event::Readable`] when the next message arrives.
    pub(super) wants_readable: bool,
}

impl News {
    pub(super) fn new() -> Self {
        Self {
            events: VecDeque::new(),
            held: 0,
            dry: Dry::default(),
            adaptation: None,
            wants_readable: true,
        }
    }

    /// Adds a notification, as [`push`](Self::push) does.
    pub(super) fn notify(&mut self, notification: Notification) {
        self.push(Event::Notification(notification));
    }

    /// Adds an event, or drops it if it is only informative and too many events wait.
    pub(super) fn push(&mut self, event: Event) {
        match &event {
            Event::Notification(Notification::PeerError { .. })
                if self.events.len() >= MOST_CAUSES =>
            {
                return;
            }
            // The latest one replaces earlier ones.
            Event::Notification(Notification::Restarted { .. }) if self.events.len() >= MOST => {
                let is_older = |event: &&mut Event| {
                    matches!(event, Event::Notification(Notification::Restarted { .. }))
                };
                if let Some(older) = self.events.iter_mut().rev().find(is_older) {
                    *older = event;
                    return;
                }
            }
            Event::Notification(
                Notification::PathChanged { .. }
                | Notification::ActivePathChanged { .. }
                | Notification::FailedOver { .. }
                | Notification::Dormant
                | Notification::Recovered { .. }
                | Notification::AdaptationIndication(_),
            ) if self.events.len() >= MOST => {
                return;
            }
            _ => {}
        }
        self.held = self.held.saturating_add(held_by(&event));
        self.events.push_back(event);
    }

    /// Removes the oldest event.
    pub(super) fn pop(&mut self) -> Option<Event> {
        let event = self.events.pop_front();
        self.held = self.held.saturating_sub(event.as_ref().map_or(0, held_by));
        if self.events.is_empty() {
            self.events.shrink_to(1);
        }
        event
    }

    /// Releases the memory of an empty queue. Called when a timer expires, which is rare while an
    /// association is busy.
    pub(super) fn shrink(&mut self) {
        if self.events.is_empty() {
            self.events.shrink_to(0);
        }
    }

    /// Whether the peer must not cause more events, because too many wait.
    pub(super) fn is_crowded(&self) -> bool {
        self.events.len() >= MOST || self.held() >= MOST_HELD
    }

    pub(super) fn any(&self) -> bool {
        !self.events.is_empty()
    }

    /// Bytes that the waiting events hold.
    pub(super) fn held(&self) -> usize {
        self.held as usize
    }
}

/// Bytes that an event holds besides its own size.
fn held_by(event: &Event) -> u32 {
    let Event::Notification(notification) = event else { return 0 };
    u32::try_from(notification.payload()).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use anabranch_wire::Ppid;

    use super::*;
    use crate::features::Features;
    use crate::message::OutgoingMessage;

    fn restarted(outbound_streams: u16) -> Event {
        Event::Notification(Notification::Restarted {
            outbound_streams,
            inbound_streams: 1,
            features: Features::NONE,
        })
    }

    #[test]
    fn what_events_hold_is_counted_until_they_are_taken() {
        let mut news = News::new();
        news.notify(Notification::PeerError { code: 1, cause: vec![0; 1000].into() });
        let message = Box::new(OutgoingMessage::new(0, Ppid(0), vec![0; 5000]));
        news.notify(Notification::SendFailed { message, sent: false });
        assert!(news.held() >= 6000);
        while news.pop().is_some() {}
        assert_eq!(news.held(), 0);
    }

    #[test]
    fn restarts_that_nobody_takes_become_one() {
        let mut news = News::new();
        (0..10_000).for_each(|streams| news.push(restarted(streams)));
        assert_eq!(news.events.len(), MOST);
        let last = news.events.back();
        assert!(
            matches!(
                last,
                Some(Event::Notification(Notification::Restarted { outbound_streams: 9_999, .. }))
            ),
            "{last:?}"
        );
        // Events that the user depends on are never dropped.
        news.push(Event::Readable);
        assert!(matches!(news.events.back(), Some(Event::Readable)));
    }
}
