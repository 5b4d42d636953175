//! Messages that a program takes in parts, and whose rest may not come (RFC 6458 section 6.1.7).
//!
//! If messages are interleaved, several can be taken in parts at once. The report that the rest of one does not come must
//! follow the parts that have come. Otherwise the program would take the next part for the beginning of a message.
//!
//! The association drops the parts that have not been fetched before it reports. So only the message that the socket has
//! fetched last can have a part that the program has not seen.

use std::collections::BTreeMap;

use anabranch::Message;

use crate::notification::CutShort;

/// What tells the messages of an association apart while they are taken in parts: stream, whether the message is
/// unordered, and the TSN of its first chunk.
type Key = (u16, bool, u32);

/// The messages of an association that are taken in parts.
#[derive(Debug, Default)]
pub(super) struct Partial {
    /// Those whose last part has not been fetched.
    open: BTreeMap<Key, Open>,
}

/// A message whose last part has not been fetched.
#[derive(Clone, Copy, Debug)]
struct Open {
    /// Its SSN, or its message identifier.
    sequence: u32,
    /// The association has reported that the rest does not come.
    reported: bool,
}

impl Partial {
    /// Records the next message, or part of one, to take. The one before it was taken. Returns the messages whose end does
    /// not come.
    pub(super) fn next(&mut self, message: &Message) -> Vec<CutShort> {
        let key = (message.stream, message.unordered, message.tsn);
        // An ordered message begins after the end of the one before it.
        let is_before = |(stream, unordered, _): &Key| {
            message.begin && !message.unordered && (*stream, *unordered) == (message.stream, false)
        };
        let cut = self.take(|other, open| *other != key && (open.reported || is_before(other)));
        if message.end {
            self.open.remove(&key);
        } else {
            self.open.entry(key).or_insert(Open { sequence: message.sequence, reported: false });
        }
        cut
    }

    /// Whether the last part of a message has not been fetched.
    pub(super) fn is_open(&self) -> bool {
        !self.open.is_empty()
    }

    /// Records the report of the association.
    pub(super) fn report(&mut self, stream: u16, sequence: u32, unordered: bool) {
        let first = (stream, unordered, 0);
        let of_stream = || first..=(stream, unordered, u32::MAX);
        // The SSN of an unordered message means nothing. There is one at most, unless they have identifiers.
        let is_only = unordered && self.open.range(of_stream()).count() == 1;
        for (_, open) in self.open.range_mut(of_stream()) {
            open.reported |= is_only || open.sequence == sequence;
        }
    }

    /// The peer has restarted: the rest of nothing comes.
    pub(super) fn report_all(&mut self) {
        self.open.values_mut().for_each(|open| open.reported = true);
    }

    /// Everything that has come was taken. Returns the messages that were reported.
    pub(super) fn all_taken(&mut self) -> Vec<CutShort> {
        self.take(|_, open| open.reported)
    }

    /// Nothing more comes. Returns the messages without an end.
    pub(super) fn end(&mut self) -> Vec<CutShort> {
        self.take(|_, _| true)
    }

    fn take(&mut self, which: impl Fn(&Key, &Open) -> bool) -> Vec<CutShort> {
        let mut cut = Vec::new();
        self.open.retain(|key, open| {
            let (stream, unordered, _) = *key;
            let takes = which(key, open);
            if takes {
                let ssn = if unordered { 0 } else { open.sequence as u16 };
                cut.push(CutShort { stream, ssn, unordered });
            }
            !takes
        });
        cut
    }
}

#[cfg(test)]
mod tests {
    use anabranch::Ppid;

    use super::*;

    fn part(sequence: u32, begin: bool, end: bool) -> Message {
        let mut message = Message::new(3, Ppid(0), bytes::Bytes::from_static(b"x"));
        (message.sequence, message.begin, message.end) = (sequence, begin, end);
        message.tsn = 100 + sequence;
        message
    }

    fn of_stream(stream: u16, mut message: Message) -> Message {
        message.stream = stream;
        message
    }

    fn unordered(mut message: Message) -> Message {
        message.unordered = true;
        message
    }

    const FIRST: CutShort = CutShort { stream: 3, ssn: 7, unordered: false };

    #[test]
    fn the_next_message_shows_that_the_one_before_was_cut_short() {
        let mut partial = Partial::default();
        assert_eq!(partial.next(&part(7, true, false)), []);
        partial.report(3, 7, false);
        assert_eq!(partial.next(&part(7, false, false)), [], "a part that came before the report");
        assert_eq!(partial.next(&part(8, true, true)), [FIRST]);
        assert_eq!((partial.all_taken(), partial.end()), (vec![], vec![]), "once");
        assert_eq!(partial.next(&part(7, true, false)), []);
        assert_eq!(partial.next(&part(8, true, true)), [FIRST], "the report comes later");
        partial.report(3, 7, false);
        assert_eq!(partial.all_taken(), []);
        assert_eq!(partial.next(&part(9, true, false)), []);
        assert_eq!(partial.all_taken(), [], "the report was of another one");
    }

    #[test]
    fn the_report_shows_it_when_all_parts_were_taken() {
        let mut partial = Partial::default();
        assert_eq!(partial.next(&part(7, true, false)), []);
        assert_eq!(partial.all_taken(), [], "the rest may come");
        partial.report(3, 7, false);
        assert_eq!(partial.all_taken(), [FIRST]);
        assert_eq!((partial.all_taken(), partial.end()), (vec![], vec![]));
        assert_eq!(partial.next(&part(8, true, false)), []);
        assert_eq!(partial.all_taken(), [], "an old report");
    }

    #[test]
    fn the_end_shows_it_too() {
        let mut partial = Partial::default();
        assert_eq!(partial.next(&part(7, true, false)), []);
        assert_eq!(partial.next(&part(7, false, true)), []);
        assert_eq!(partial.end(), []);
        assert_eq!(partial.next(&unordered(part(9, true, false))), []);
        assert_eq!(partial.end(), [CutShort { ssn: 0, unordered: true, ..FIRST }]);
    }

    #[test]
    fn a_message_of_another_stream_in_between_cuts_nothing() {
        let mut partial = Partial::default();
        assert_eq!(partial.next(&part(7, true, false)), []);
        assert_eq!(partial.next(&of_stream(4, part(0, true, true))), []);
        assert_eq!(partial.next(&part(7, false, true)), []);
        assert_eq!(partial.end(), []);
    }

    #[test]
    fn several_are_taken_in_parts_at_once() {
        let mut partial = Partial::default();
        for begin in [true, false] {
            assert_eq!(partial.next(&part(70_000, begin, false)), []);
            assert_eq!(partial.next(&of_stream(4, part(1, begin, false))), []);
            assert_eq!(partial.next(&unordered(part(2, begin, false))), []);
            assert_eq!(partial.next(&unordered(part(3, begin, false))), []);
        }
        partial.report(3, 3, true);
        assert_eq!(
            partial.next(&of_stream(4, part(1, false, true))),
            [CutShort { ssn: 0, unordered: true, ..FIRST }]
        );
        partial.report(3, 4464, false);
        assert_eq!(partial.all_taken(), [], "a message identifier has 32 bits");
        partial.report(3, 70_000, false);
        assert_eq!(partial.all_taken(), [CutShort { ssn: 4464, ..FIRST }]);
        partial.report_all();
        assert_eq!(partial.all_taken().len(), 1, "the unordered message that is left");
    }
}
