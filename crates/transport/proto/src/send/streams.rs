//! The state of the outgoing streams.

use std::collections::BTreeMap;

use anabranch_wire::Ssn;

use super::StreamPriority;
use crate::pages::Pages;
use crate::reliability::{GivenUpBy, GivenUpMessages};

/// One outgoing stream.
#[derive(Clone, Copy, Debug, Default)]
struct OutStream {
    /// Stream Sequence Number of the next ordered message.
    next: u16,
    priority: StreamPriority,
}

/// All outgoing streams; unused streams take no memory.
#[derive(Debug, Default)]
pub(super) struct OutStreams {
    pages: Pages<OutStream, 8>,
    /// The messages that were given up, by policy, for each stream that has any.
    #[expect(clippy::box_collection, reason = "most associations give nothing up")]
    given_up: Option<Box<BTreeMap<u16, [GivenUpMessages; 3]>>>,
}

impl OutStreams {
    /// Takes the SSN for an ordered message.
    // req: rfc9260 6.5 "the next Stream Sequence Number MUST be set to 0"
    // req: rfc9260 6.5 "MUST be incremented by 1 for each ordered"
    // req: rfc9260 6.5 "MUST start from 0 when the association"
    pub(super) fn take_ssn(&mut self, stream: u16) -> Ssn {
        let next = &mut self.pages.entry(stream).next;
        let ssn = *next;
        *next = next.wrapping_add(1);
        Ssn(ssn)
    }

    /// The stream's priority, for schedulers that use it.
    pub(super) fn priority(&self, stream: u16) -> StreamPriority {
        self.pages.get(stream).priority
    }

    pub(super) fn set_priority(&mut self, stream: u16, priority: StreamPriority) {
        if self.priority(stream) != priority {
            self.pages.entry(stream).priority = priority;
        }
    }

    /// Counts a message that was given up.
    pub(super) fn count_given_up(&mut self, by: GivenUpBy, stream: u16, sent: bool) {
        let counts = self.given_up.get_or_insert_default().entry(stream).or_default();
        let messages = &mut counts[by as usize];
        let count = if sent { &mut messages.sent } else { &mut messages.unsent };
        *count = count.wrapping_add(1);
    }

    /// The messages that were given up by a policy, on one stream or on all.
    pub(super) fn given_up(&self, by: GivenUpBy, stream: Option<u16>) -> GivenUpMessages {
        let Some(counts) = &self.given_up else { return GivenUpMessages::default() };
        let of = |counts: &[GivenUpMessages; 3]| counts[by as usize];
        if let Some(stream) = stream {
            return counts.get(&stream).map(of).unwrap_or_default();
        }
        counts.values().map(of).fold(GivenUpMessages::default(), |sum, more| GivenUpMessages {
            unsent: sum.unsent.wrapping_add(more.unsent),
            sent: sum.sent.wrapping_add(more.sent),
        })
    }

    /// Handles a restart of the peer: the SSNs start at 0 again.
    pub(super) fn restart(&mut self) {
        self.pages.for_each(|stream| stream.next = 0);
    }

    #[cfg(test)]
    pub(super) fn set_next(&mut self, stream: u16, ssn: u16) {
        self.pages.entry(stream).next = ssn;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_restart_begins_with_0_and_keeps_priorities() {
        let mut streams = OutStreams::default();
        streams.set_priority(7, 3.into());
        streams.set_next(7, 65_535);
        assert_eq!([streams.take_ssn(7), streams.take_ssn(7)], [Ssn(65_535), Ssn(0)]);
        assert_eq!(streams.take_ssn(8), Ssn(0));
        streams.restart();
        assert_eq!((streams.take_ssn(7), streams.take_ssn(8)), (Ssn(0), Ssn(0)));
        assert_eq!(
            (streams.priority(7), streams.priority(8)),
            (3.into(), StreamPriority::default())
        );
    }

    #[test]
    fn a_priority_that_is_the_usual_one_takes_no_memory() {
        let mut streams = OutStreams::default();
        streams.set_priority(40_000, StreamPriority::default());
        assert_eq!(streams.pages.pages(), 0);
    }
}
