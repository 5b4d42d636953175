//! The state of the outgoing streams.

use anabranch_wire::Ssn;

use super::StreamPriority;
use crate::pages::Pages;

/// One outgoing stream.
#[derive(Clone, Copy, Debug, Default)]
struct OutStream {
    /// Stream Sequence Number of the next ordered message.
    next: u16,
    priority: StreamPriority,
}

/// All outgoing streams; unused streams take no memory.
#[derive(Debug, Default)]
pub(super) struct OutStreams(Pages<OutStream, 8>);

impl OutStreams {
    /// Takes the SSN for an ordered message.
    // req: rfc9260 6.5 "the next Stream Sequence Number MUST be set to 0"
    // req: rfc9260 6.5 "MUST be incremented by 1 for each ordered"
    // req: rfc9260 6.5 "MUST start from 0 when the association"
    pub(super) fn take_ssn(&mut self, stream: u16) -> Ssn {
        let next = &mut self.0.entry(stream).next;
        let ssn = *next;
        *next = next.wrapping_add(1);
        Ssn(ssn)
    }

    /// The stream's priority, for schedulers that use it.
    pub(super) fn priority(&self, stream: u16) -> StreamPriority {
        self.0.get(stream).priority
    }

    pub(super) fn set_priority(&mut self, stream: u16, priority: StreamPriority) {
        if self.priority(stream) != priority {
            self.0.entry(stream).priority = priority;
        }
    }

    /// Handles a restart of the peer: the SSNs start at 0 again.
    pub(super) fn restart(&mut self) {
        self.0.for_each(|stream| stream.next = 0);
    }

    #[cfg(test)]
    pub(super) fn set_next(&mut self, stream: u16, ssn: u16) {
        self.0.entry(stream).next = ssn;
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
        assert_eq!(streams.0.pages(), 0);
    }
}
