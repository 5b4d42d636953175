//! Gives up less important messages for a more important one when the send buffer is full (RFC 7496
//! section 4.2).

use std::collections::BTreeMap;

use super::{MESSAGE_OVERHEAD, Queued, SendQueue};
use crate::message::OutgoingMessage;
use crate::reliability::Fate;
use crate::time::Instant;

/// At least this part of the send buffer is freed at a time, because it takes a search through the queue.
const LEAST_SHARE: usize = 32;

impl SendQueue {
    /// The priority of a message for which there is no room, if it has one.
    pub(crate) fn priority_without_room(
        &self,
        now: Instant,
        message: &OutgoingMessage,
    ) -> Option<u64> {
        match self.fate(now, message) {
            Fate::Priority(value) if self.is_full_for(message) => Some(value),
            _ => None,
        }
    }

    /// Removes and returns waiting messages that are less important than `value`, to make room for `length` bytes: the
    /// least important first, and of these the oldest.
    pub(crate) fn displace(&mut self, value: u64, length: usize) -> Vec<Queued> {
        let mut by_value = BTreeMap::<u64, usize>::new();
        self.scheduler.for_each(&mut |message| {
            if let Some(of) = less_important(message, value) {
                *by_value.entry(of).or_default() += message.rest.len() + MESSAGE_OVERHEAD;
            }
        });
        let mut wanted = (length + MESSAGE_OVERHEAD).max(self.limit / LEAST_SHARE);
        let mut last = None;
        for (of, bytes) in by_value.into_iter().rev() {
            last = Some(of);
            if bytes >= wanted {
                break;
            }
            wanted -= bytes;
        }
        let Some(last) = last else { return Vec::new() };
        self.take_out(|message| match less_important(message, value) {
            Some(of) if of > last => true,
            Some(of) if of == last && wanted > 0 => {
                wanted = wanted.saturating_sub(message.rest.len() + MESSAGE_OVERHEAD);
                true
            }
            _ => false,
        })
    }
}

/// The priority of a waiting message, if it is less important than `value` and no part of it was sent.
fn less_important(message: &Queued, value: u64) -> Option<u64> {
    match message.fate {
        Fate::Priority(of) if of > value && !message.begun => Some(of),
        _ => None,
    }
}
