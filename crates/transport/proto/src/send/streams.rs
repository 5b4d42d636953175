//! The state of the outgoing streams.

use super::StreamPriority;
use crate::pages::Pages;
use crate::stream_set::StreamSet;

/// One outgoing stream.
#[derive(Clone, Copy, Debug, Default)]
struct OutStream {
    /// Stream Sequence Number or message identifier of the next ordered message.
    next: u32,
    priority: StreamPriority,
}

/// All outgoing streams; unused streams take no memory.
#[derive(Debug, Default)]
pub(super) struct OutStreams {
    streams: Pages<OutStream, 8>,
    /// Message identifiers of the next unordered messages, if there are any.
    unordered: Option<Box<Pages<u32, 8>>>,
}

impl OutStreams {
    /// Takes the SSN for an ordered message.
    // req: rfc9260 6.5 "the next Stream Sequence Number MUST be set to 0"
    // req: rfc9260 6.5 "MUST be incremented by 1 for each ordered"
    // req: rfc9260 6.5 "MUST start from 0 when the association"
    pub(super) fn take_ssn(&mut self, stream: u16) -> u32 {
        let next = &mut self.streams.entry(stream).next;
        let ssn = *next;
        *next = u32::from((ssn as u16).wrapping_add(1));
        ssn
    }

    /// Takes the message identifier for a message.
    ///
    /// Ordered and unordered messages are counted separately (RFC 8260 section 2.1).
    pub(super) fn take_mid(&mut self, stream: u16, unordered: bool) -> u32 {
        let next = match unordered {
            true => self.unordered.get_or_insert_default().entry(stream),
            false => &mut self.streams.entry(stream).next,
        };
        let mid = *next;
        *next = next.wrapping_add(1);
        mid
    }

    /// The stream's priority, for schedulers that use it.
    pub(super) fn priority(&self, stream: u16) -> StreamPriority {
        self.streams.get(stream).priority
    }

    pub(super) fn set_priority(&mut self, stream: u16, priority: StreamPriority) {
        if self.priority(stream) != priority {
            self.streams.entry(stream).priority = priority;
        }
    }

    /// Handles a restart of the peer: the numbers start at 0 again.
    pub(super) fn restart(&mut self) {
        self.streams.for_each(|stream| stream.next = 0);
        self.unordered = None;
    }

    /// The next messages of these streams have the SSN or message identifier 0.
    // req: rfc8260 2.3.2 "for the MIDs MUST be reset to 0"
    pub(super) fn reset(&mut self, streams: &StreamSet) {
        match streams {
            StreamSet::All => self.restart(),
            StreamSet::Some(streams) => {
                for stream in streams {
                    if let Some(unordered) = &mut self.unordered {
                        *unordered.entry(*stream) = 0;
                    }
                    if self.streams.get(*stream).next != 0 {
                        self.streams.entry(*stream).next = 0;
                    }
                }
            }
        }
    }

    /// Whether that is the case already.
    pub(super) fn are_reset(&mut self, streams: &StreamSet) -> bool {
        let mut reset = true;
        match streams {
            StreamSet::All => {
                self.streams.for_each(|stream| reset &= stream.next == 0);
                reset &= self.unordered.is_none();
            }
            StreamSet::Some(streams) => {
                let unordered = self.unordered.as_deref();
                reset = streams.iter().all(|stream| {
                    self.streams.get(*stream).next == 0
                        && unordered.is_none_or(|pages| pages.get(*stream) == 0)
                });
            }
        }
        reset
    }

    #[cfg(test)]
    pub(super) fn set_next(&mut self, stream: u16, number: u32) {
        self.streams.entry(stream).next = number;
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
        assert_eq!([streams.take_ssn(7), streams.take_ssn(7)], [65_535, 0]);
        assert_eq!(streams.take_ssn(8), 0);
        streams.restart();
        assert_eq!((streams.take_ssn(7), streams.take_ssn(8)), (0, 0));
        assert_eq!(
            (streams.priority(7), streams.priority(8)),
            (3.into(), StreamPriority::default())
        );
    }

    #[test]
    fn unordered_messages_have_identifiers_of_their_own() {
        let mut streams = OutStreams::default();
        streams.set_next(7, u32::MAX);
        let mut take = |unordered| streams.take_mid(7, unordered);
        assert_eq!([take(false), take(true), take(false), take(true)], [u32::MAX, 0, 0, 1]);
        streams.restart();
        assert_eq!((streams.take_mid(7, false), streams.take_mid(7, true)), (0, 0));
    }

    #[test]
    fn a_priority_that_is_the_usual_one_takes_no_memory() {
        let mut streams = OutStreams::default();
        streams.set_priority(40_000, StreamPriority::default());
        assert_eq!(streams.streams.pages(), 0);
    }
}
